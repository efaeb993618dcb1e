//! A checkpoint of the table.

use crate::cache::SegmentBytes;
use crate::codec::deflate::{Block, Position};

/// A checkpoint with its window in the temporary file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PackedCheckpoint {
    pub(super) header: u64,
    pub(super) bit: u64,
    pub(super) offset: u64,
    /// The packed window.
    pub(super) window: SegmentBytes,
    /// The CRC-32 of all output before it, if known.
    pub(super) sum: Option<u32>,
}

impl PackedCheckpoint {
    /// Returns the bit of its block's header, and its own bit.
    pub(super) fn bits(&self) -> (u64, u64) {
        (self.header, self.bit)
    }

    /// Returns the size of its packed window in bytes.
    pub(super) fn packed_len(&self) -> u64 {
        self.window.len()
    }

    /// Returns its position; a decoder trusts only the bits and the offset.
    pub(super) fn place(&self) -> Position {
        let block = if self.header == self.bit { Block::Between } else { Block::Dynamic };
        Position { header: self.header, bit: self.bit, offset: self.offset, block, last: false }
    }
}
