//! A bzip2 decoder that can start at any block.
//!
//! A bzip2 stream is `BZh` and a digit (the [`Level`]), then blocks, then a footer; none of them is
//! aligned to bytes:
//!
//! | bits | field | |
//! |---|---|---|
//! | 48 | magic | `0x314159265359` before a block, `0x177245385090` before the footer |
//! | 32 | CRC | of the block's decoded bytes; in the footer all of them combined |
//! | 1 | randomised | an obsolete disguise of the data; not decoded here |
//! | 24 | origin | the row of the sorted rotations in which the data begin |
//! | 16 + 16 · n | symbol map | which of the 256 byte values occur |
//! | 3, 15, … | selectors | which of 2 to 6 codes each group of 50 symbols is written in |
//! | 5, … | code lengths | of each code, as differences |
//! | … | symbols | up to the end-of-block symbol |
//!
//! A block is decoded in stages, one a file: Huffman codes (`huffman`) and move-to-front (`mtf`) in
//! one loop (`column`), the inverse Burrows-Wheeler transform (`bwt`), run lengths and the CRC
//! (`runs`, `crc`). [`Decoder`] runs them over the block at one bit of a content and keeps what came
//! out in its compact form, before the runs are written out: 900 kB at most, however long the runs are.
//! Output is taken from it in pieces, and only after the block's CRC was found right.
//!
//! Nothing in a stream says where its blocks are. [`Candidates`] finds every place where a magic could
//! stand, at several GB/s; each can be decoded apart, on any thread. Whether it is a block, and where its
//! output lies, is known when the [`Chain`] from the first byte reaches it. [`StreamReader`] does it all in order,
//! on one thread.
//!
//! What libbz2 accepts is accepted, and nothing else, with two exceptions that come as
//! [`Fault::Unsupported`], so that the library can be asked: randomised blocks, and code lengths that take
//! absurdly many steps.

mod bits;
mod block;
mod bwt;
mod column;
mod crc;
mod fault;
mod header;
mod huffman;
mod magic;
mod mtf;
mod runs;
mod stream;
#[cfg(test)]
mod tests;

pub use block::{Block, Decoder};
pub use fault::Fault;
pub use magic::{Candidate, Candidates, Follows, Magic};
pub use stream::{Chain, Next, StreamReader};

/// The size of a stream's blocks before run lengths are undone, in 100 000 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u8);

impl Level {
    /// The largest.
    pub const MAX: Self = Self(9);

    /// The level that the fourth byte of a stream, a digit from 1 to 9, stands for.
    pub fn from_digit(digit: u8) -> Option<Self> {
        matches!(digit, b'1'..=b'9').then(|| Self(digit - b'0'))
    }

    /// How many bytes a block may hold before run lengths are undone.
    pub fn block_size(self) -> usize {
        usize::from(self.0) * 100_000
    }
}
