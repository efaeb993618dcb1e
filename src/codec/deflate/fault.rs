//! What stops a decoder before the end of a stream, and where.

use std::fmt;

use crate::error::Error;

/// Why a stream can't be decoded further, and where.
///
/// Everything before [`offset`](Self::offset) was decoded and is right as far as the stream tells.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The first bit of what can't be decoded: of a block's header, or of a symbol.
    pub bit: u64,
    /// How many bytes of the stream's output come before it.
    pub offset: u64,
    /// The reason.
    pub why: Cause,
}

/// Why a decoder cannot go on.
#[derive(Clone, Debug)]
pub enum Cause {
    /// The compressed bytes end here. Were there more of them, decoding could go on.
    Cut,
    /// The bits are not deflate.
    Broken(Reason),
    /// The compressed bytes can't be read.
    Unreadable(Error),
}

/// Why bits are not deflate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The block's type is 3, which is reserved.
    #[error("a block is of the reserved type")]
    BlockType,
    /// The length of a stored block and its complement don't fit together.
    #[error("the length of a stored block contradicts its complement")]
    StoredLength,
    /// A dynamic block has more than 286 literal and length codes, or more than 30 distance codes.
    #[error("a block has too many codes")]
    TooManyCodes,
    /// A set of code lengths leaves codes unused, or has more codes than there is room for.
    #[error("the code lengths of a block are not a complete code")]
    CodeLengths,
    /// A code length is to be repeated, but there is none before, or it goes on past the last one.
    #[error("the code lengths of a block are repeated where they can't be")]
    Repeat,
    /// A dynamic block has no code for its own end.
    #[error("a block has no code for its end")]
    NoEnd,
    /// The bits are no literal's, no length's and not the block's end.
    #[error("a code stands for no literal or length")]
    Symbol,
    /// The bits are no distance's.
    #[error("a code stands for no distance")]
    Distance,
    /// A match begins before the first byte of the output.
    #[error("a distance reaches before the start of the data")]
    TooFar,
    /// There is no symbol at the place where decoding was to start again.
    #[error("decoding can't start at this bit")]
    Position,
}

/// What a part of the decoder finds, before it is known where: bits run out, or are wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// The input ends.
    Short,
    /// The bits are not deflate.
    Bits(Reason),
}

impl From<Reason> for Wrong {
    fn from(reason: Reason) -> Self {
        Self::Bits(reason)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Cause::Cut => write!(out, "the compressed data are cut off"),
            Cause::Broken(reason) => write!(out, "the compressed data are broken: {reason}"),
            Cause::Unreadable(error) => write!(out, "the compressed data can't be read: {}", error.message()),
        }
    }
}

impl std::error::Error for Fault {}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match &fault.why {
            Cause::Unreadable(error) => error.clone(),
            Cause::Cut | Cause::Broken(_) => {
                Self::damaged(fault.to_string()).in_stream(Some(fault.bit), fault.offset)
            }
        }
    }
}
