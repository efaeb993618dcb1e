//! Deflate (RFC 1951) that can start anywhere.
//!
//! A library decodes a stream from its start to its end and says little of where it is. Reading in the
//! middle of a compressed block needs a decoder that starts at any bit, stops at any byte, never gives
//! more than it was asked for, and says how it could be started again at that place:
//!
//! | part | what it is |
//! |---|---|
//! | [`Inflate`] | the decoder: from a [`Position`], with the output before it, into the caller's buffer |
//! | [`Pass`] | a stream from a place on, piece by piece, with a [`Checkpoint`] every so many bytes |
//! | [`Checkpoint`] | where decoding can start again: a place, and what it needs of the output before it |
//! | [`Finder`] | where blocks may begin, from the compressed bits alone |
//! | [`Piece`] | output decoded from such a bit, before the output in front of it is known |
//! | [`Resolver`] | the output of a piece, once that is known |
//! | [`zlib`] | the wrapper of RFC 1950: two bytes in front, a checksum behind |
//!
//! How it is fast: the codes are looked up in tables of 2048 and 256 entries that give the symbol, its
//! extra bits and its length at once, and the symbol after a literal with it, out of a register that holds
//! 56 bits or more, in a loop with hardly a branch that may count on enough input and enough room
//! (`fast.rs`). Where there may be too little of either, and
//! where anything is wrong, another loop decodes one symbol at a time and looks at everything
//! (`careful.rs`): only that one says what is wrong, and where.
//!
//! Places in the compressed bytes are bits from the start of the stored content (bit 0 is the lowest of
//! byte 0); places in the output are bytes from the start of the stream.

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
mod pass;
mod piece;
mod probe;
mod resolver;
mod unit;
mod window;
pub mod zlib;

#[cfg(test)]
mod tests;

pub use checkpoint::Checkpoint;
pub use fault::{Cause, Fault, Reason};
pub use find::Finder;
pub use inflate::{Block, Inflate, Position, Stop};
pub use pass::Pass;
pub use piece::{Ending, Piece, PieceRequest};
pub use resolver::Resolver;
pub use window::{PackedWindow, Packer};

/// How far back a match may reach, in bytes: what a decoder has to know of the output before it.
pub const WINDOW: usize = 32 << 10;
