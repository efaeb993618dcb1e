//! Faults that stop a decoder before the end of a stream, with their positions.

use std::fmt;

use crate::error::Error;

/// The reason and the position at which a stream can't be decoded further.
///
/// All output before [`offset`](Self::offset) was decoded, and is right as far as the stream tells.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The first bit that can't be decoded: of a block's header, or of a symbol.
    pub bit: u64,
    /// Number of output bytes before the fault.
    pub offset: u64,
    /// The reason.
    pub why: Cause,
}

/// The reason why a decoder can't go on.
#[derive(Clone, Debug)]
pub enum Cause {
    /// The compressed bytes end here. With more of them, decoding could go on.
    Cut,
    /// The bits are not deflate.
    Broken(Reason),
    /// The compressed bytes can't be read.
    Unreadable(Error),
}

/// The reason why bits are not deflate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The block's type is 3, which is reserved.
    #[error("a block has the reserved type")]
    BlockType,
    /// The length of a stored block and its complement do not match.
    #[error("the length of a stored block contradicts its complement")]
    StoredLength,
    /// A dynamic block has more than 286 literal and length codes, or more than 30 distance codes.
    #[error("a block has too many codes")]
    TooManyCodes,
    /// A set of code lengths leaves codes unused, or has more codes than there is room for.
    #[error("the code lengths of a block are not a complete code")]
    CodeLengths,
    /// A repetition of the previous code length comes first, or a repetition goes past the last code.
    #[error("a code length is repeated without one before it, or too often")]
    Repeat,
    /// A dynamic block has no code for its own end.
    #[error("a block has no code for its end")]
    NoEnd,
    /// The bits are no literal, no length and not the end of the block.
    #[error("a code stands for no literal or length")]
    Symbol,
    /// The bits are no distance.
    #[error("a code stands for no distance")]
    Distance,
    /// A match begins before the first byte of the output.
    #[error("a distance reaches before the start of the data")]
    TooFar,
    /// No symbol begins at the position where decoding was to start.
    #[error("decoding can't start at this bit")]
    Position,
}

/// An error in a part of the decoder, before its position is known.
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
