//! Decoding of one block, from its first bit.

use super::Level;
use super::bits::{Bits, Piece};
use super::bwt::Inverse;
use super::column::{self, LastColumn};
use super::fault::Fault;
use super::header::{self, SymbolCodes};
use super::magic::{Follows, Magic};
use super::runs::{Cursor, Runs};
use crate::content::Content;

/// A decoded block with a right CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The first bit of the block's magic, counted from the content's start.
    pub start: u64,
    /// The first bit after the block.
    pub end: u64,
    /// The kind of data after the block.
    pub follows: Follows,
    /// Number of decoded bytes.
    pub len: u64,
    /// The CRC of the decoded bytes.
    pub crc: u32,
}

/// A decoder of blocks, one after the other, that reuses its buffers.
///
/// It takes 6 to 14 MB after a block of the largest size, whatever the blocks claim. It keeps the last block,
/// with runs not expanded; [`Self::read`] and `skip` go through the block's bytes.
#[derive(Debug)]
pub struct Decoder {
    piece: Piece,
    codes: Box<SymbolCodes>,
    /// The last column of the sorted rotations; after the inverse transform, the block's text.
    column: LastColumn,
    inverse: Inverse,
    runs: Runs,
    cursor: Cursor,
    bytes_left: u64,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// Returns a decoder that has allocated next to nothing yet.
    pub fn new() -> Self {
        Self {
            piece: Piece::default(),
            codes: Box::default(),
            column: LastColumn::default(),
            inverse: Inverse::default(),
            runs: Runs::default(),
            cursor: Cursor::default(),
            bytes_left: 0,
        }
    }

    /// Decodes the block whose magic begins at `bit` of `content`, and moves to its first byte.
    ///
    /// `level` is the level of the stream; a block larger than the level allows is broken. A right CRC does
    /// not prove that a stream has a block there: the [`BlockChain`](super::BlockChain) does. After an error
    /// there is nothing to read.
    pub fn decode_at(&mut self, content: &dyn Content, bit: u64, level: Level) -> Result<Block, Fault> {
        self.bytes_left = 0;
        let mut bits = Bits::new(content, bit, &mut self.piece);
        let header = header::read(&mut bits, level.block_size(), &mut self.codes)?;
        column::read(&mut bits, &header, &self.codes, &mut self.column)?;
        let end = bits.bit();
        let follows = what_follows(&mut bits).unwrap_or(Follows::Cut);
        if header.origin >= self.column.len {
            return Err(Fault::Broken { bit, reason: "the origin of the block is beyond its end" });
        }
        self.inverse.undo(&mut self.column, header.origin);
        let text = &self.column.bytes[..self.column.len];
        if self.runs.find(text).is_err() {
            return Err(Fault::Broken { bit: end, reason: "the block ends within a run" });
        }
        if self.runs.crc(text) != header.crc {
            return Err(Fault::Broken { bit, reason: "the block's CRC is wrong" });
        }
        self.cursor = Cursor::default();
        self.bytes_left = self.runs.len();
        Ok(Block { start: bit, end, follows, len: self.bytes_left, crc: header.crc })
    }

    /// Returns the number of bytes of the block still to be read.
    #[cfg(test)]
    pub fn bytes_left(&self) -> u64 {
        self.bytes_left
    }

    /// Fills `out` with the block's next bytes, as far as there are any, and returns their number.
    pub fn read(&mut self, out: &mut [u8]) -> usize {
        if self.bytes_left == 0 {
            return 0;
        }
        let read = self.cursor.read(&self.column.bytes[..self.column.len], &self.runs, out);
        self.bytes_left -= read as u64;
        read
    }
}

/// Reads the magic where a block or a footer has to begin.
pub(super) fn what_follows(bits: &mut Bits<'_>) -> Result<Follows, Fault> {
    let magic = u64::from(bits.take(24)?) << 24 | u64::from(bits.take(24)?);
    Ok(Magic::of(magic).map_or(Follows::Neither, Follows::Magic))
}
