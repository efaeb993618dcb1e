//! Faults that stop the decoding of a bzip2 stream.

use crate::error::Error;

/// The reason why decoding stopped; bits are counted from the start of the content.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Fault {
    /// The bits contradict the format.
    #[error("the bzip2 stream is broken at bit {bit}: {reason}")]
    Broken {
        /// The bit at which the contradiction was found.
        bit: u64,
        /// The reason.
        reason: &'static str,
    },
    /// The content ends before the stream does; everything before is right.
    #[error("the bzip2 stream is cut off at bit {bit}")]
    Truncated {
        /// The end of the content.
        bit: u64,
    },
    /// The bits may be right, but only the library can decide.
    #[error("the bzip2 stream can't be decoded here from bit {bit} on: {reason}")]
    Unsupported {
        /// The bit at which the unsupported data begin.
        bit: u64,
        /// The reason.
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
