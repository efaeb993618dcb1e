//! What keeps a bzip2 stream from being decoded.

use crate::error::Error;

/// Why decoding stopped; bits are counted from the start of the content.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Fault {
    /// The bits contradict the format.
    #[error("the bzip2 stream is broken at bit {bit}: {reason}")]
    Broken {
        /// Where the contradiction was met.
        bit: u64,
        /// What is wrong there.
        reason: &'static str,
    },
    /// The content ends before the stream does; nothing before that is wrong.
    #[error("the bzip2 stream is cut off at bit {bit}")]
    Truncated {
        /// Where the content ends.
        bit: u64,
    },
    /// The bits may be right, but only the library can tell.
    #[error("the bzip2 stream can't be decoded here from bit {bit} on: {reason}")]
    Unsupported {
        /// Where it was met.
        bit: u64,
        /// What it is.
        reason: &'static str,
    },
    /// The content could not be read.
    #[error(transparent)]
    Unread(#[from] Error),
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Broken { .. } | Fault::Truncated { .. } => Self::damaged(fault.to_string()),
            Fault::Unsupported { .. } => Self::unsupported(fault.to_string()),
            Fault::Unread(error) => error,
        }
    }
}
