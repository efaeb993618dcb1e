//! A checkpoint of the table.

use crate::cache::Stored;
use crate::codec::deflate::{Block, Position};

/// A checkpoint whose window is in the temporary file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PackedCheckpoint {
    pub(super) header: u64,
    pub(super) bit: u64,
    pub(super) offset: u64,
    /// Its packed window.
    pub(super) window: Stored,
    /// The CRC-32 of all output before it, where that is known.
    pub(super) sum: Option<u32>,
}

impl PackedCheckpoint {
    /// The bits of its block's header, and its own.
    pub(super) fn bits(&self) -> (u64, u64) {
        (self.header, self.bit)
    }

    /// Bytes that its window takes, packed.
    pub(super) fn packed_len(&self) -> u64 {
        self.window.len()
    }

    /// The place, as far as a decoder believes it.
    pub(super) fn place(&self) -> Position {
        let block = if self.header == self.bit { Block::Between } else { Block::Dynamic };
        Position { header: self.header, bit: self.bit, offset: self.offset, block, last: false }
    }
}
