//! A deflate decoder (RFC 1951) that can start anywhere.
//!
//! A library decodes a stream from start to end and reports no position. A read in the middle of a compressed
//! block needs a decoder that starts at any bit, stops at any byte, never gives more than was asked for, and
//! reports a position where decoding can start again:
//!
//! | part | what it is |
//! |---|---|
//! | [`Inflate`] | the decoder: from a [`Position`], with the output before it, into the caller's buffer |
//! | [`Pass`] | decodes a stream step by step, with a [`Checkpoint`] every so many bytes |
//! | [`Checkpoint`] | a position where decoding can start again, and the output before it that this needs |
//! | [`BlockFinder`] | finds where blocks may begin, from the compressed bits alone |
//! | [`Piece`] | output decoded from a found block, before the output in front of it is known |
//! | [`Resolver`] | completes the output of a piece once the output in front of it is known |
//! | [`zlib`] | the wrapper of RFC 1950: two bytes in front, a checksum behind |
//!
//! Codes are looked up in tables of 2048 and 256 entries. An entry gives a symbol with the lengths of its
//! code and of its extra bits; after a literal it gives the next symbol, too. The bits come from a register
//! of at least 56 bits. The fast loop (`fast.rs`) has hardly a branch and runs only while there is enough
//! input and enough room. Near the end of either, and at any error, the careful loop (`careful.rs`) decodes
//! one symbol at a time with all checks. Only the careful loop reports errors and their positions.
//!
//! Positions in the compressed bytes are bits from the start of the stored content (bit 0 is the lowest of
//! byte 0); positions in the output are bytes from the start of the stream.

mod alphabet;
mod bits;
mod careful;
mod checkpoint;
mod fast;
mod fault;
mod find;
mod header;
mod huffman;
mod inflate;
mod input;
mod output;
mod pass;
mod piece;
mod probe;
mod resolver;
mod symbol;
mod window;
pub mod zlib;

#[cfg(test)]
mod tests;

pub use checkpoint::Checkpoint;
pub use fault::Fault;
#[cfg(test)]
pub use fault::{Cause, Reason};
pub use find::BlockFinder;
pub use inflate::{Block, Inflate};
pub use inflate::{Position, Stop};
pub use pass::Pass;
pub use piece::{Ending, Piece, PieceRequest};
pub use resolver::Resolver;
pub use window::{PackedWindow, Packer};

/// The distance that a match may reach back, in bytes: a decoder needs this much of the preceding output.
pub const WINDOW: usize = 32 << 10;
