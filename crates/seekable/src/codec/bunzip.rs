//! A bzip2 decoder that can start at any block.
//!
//! A bzip2 stream is `BZh` and a digit (the [`Level`]), then blocks, then a footer. Blocks and footer are not
//! aligned to bytes:
//!
//! | bits | field | |
//! |---|---|---|
//! | 48 | magic | `0x314159265359` before a block, `0x177245385090` before the footer |
//! | 32 | CRC | of the block's decoded bytes; in the footer, all CRCs combined |
//! | 1 | randomised | an obsolete scrambling of the data; not decoded here |
//! | 24 | origin | the row of the sorted rotations that is the data |
//! | 16 + 16 · n | symbol map | the byte values that occur |
//! | 3, 15, … | selectors | for each group of 50 symbols, one of 2 to 6 codes |
//! | 5, … | code lengths | for each code, as differences |
//! | … | symbols | up to the end-of-block symbol |
//!
//! A block is decoded in stages, each in its own file: Huffman codes (`huffman`) and move-to-front (`mtf`) in
//! one loop (`column`), the inverse Burrows-Wheeler transform (`bwt`), run lengths and the CRC (`runs`,
//! `crc`). [`Decoder`] decodes the block at one bit of a content. It keeps the result in its compact form,
//! with runs not expanded: at most 900 kB, however long the runs are. Output is taken from it in pieces, and
//! only after the block's CRC was found right.
//!
//! A stream has no index of its blocks. [`Candidates`] finds every position where a magic could stand, at
//! several GB/s. Candidates are decoded independently, on any thread. Only the [`BlockChain`] from the first
//! byte shows if a candidate is a block, and where its output lies.
//!
//! This decoder accepts exactly what libbz2 accepts, with two exceptions: randomised blocks, and code lengths
//! that take absurdly many steps. Both give [`Fault::Unsupported`], so that the library can be asked.

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
pub use magic::{Candidates, Follows, Magic};
#[cfg(test)]
pub use stream::StreamReader;
pub use stream::{BlockChain, FOOTER_BITS, StreamElement};

/// Maximum size of a stream's blocks with runs not expanded, in units of 100 000 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u8);

impl Level {
    /// The largest level.
    #[cfg(test)]
    pub const MAX: Self = Self(9);

    /// Returns the level for the fourth byte of a stream, a digit from 1 to 9.
    pub fn from_digit(digit: u8) -> Option<Self> {
        matches!(digit, b'1'..=b'9').then(|| Self(digit - b'0'))
    }

    /// Returns the maximum size of a block with runs not expanded, in bytes.
    pub fn block_size(self) -> usize {
        usize::from(self.0) * 100_000
    }
}
