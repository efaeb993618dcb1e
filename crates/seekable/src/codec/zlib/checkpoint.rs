//! A checkpoint of the table.

use crate::cache::SegmentBytes;
use crate::codec::deflate::{Block, Position};

/// A checkpoint with its window in the temporary file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PackedCheckpoint {
    pub(super) header: u64,
    pub(super) bit: u64,
    pub(super) offset: u64,
    /// The compressed window.
    pub(super) window: SegmentBytes,
    /// The CRC-32 of all output before the checkpoint, if known.
    pub(super) crc: Option<u32>,
}

impl PackedCheckpoint {
    /// Returns the bit of the block's header, and the bit of the checkpoint.
    pub(super) fn bits(&self) -> (u64, u64) {
        (self.header, self.bit)
    }

    /// Returns the checkpoint's position; a decoder trusts only the bits and the offset.
    pub(super) fn position(&self) -> Position {
        let block = if self.header == self.bit { Block::Between } else { Block::Dynamic };
        Position { header: self.header, bit: self.bit, offset: self.offset, block, last: false }
    }
}
