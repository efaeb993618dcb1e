//! Entries of the table: the bit and the decoded offset at which a block begins.

use crate::codec::bunzip::Level;

/// Bits of an entry that hold the position; the level is in the bits above.
const POSITION_BITS: u32 = 56;

/// An entry of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockEntry {
    /// The level (8 bits), and the bit position of the magic (56 bits).
    start: u64,
    /// The decoded offset of the block's output.
    pub(super) offset: u64,
    pub(super) crc: u32,
}

/// The position of a block, with the level needed to decode it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockStart {
    pub(super) bit: u64,
    pub(super) level: Level,
}

impl BlockEntry {
    pub(super) fn new(start: BlockStart, offset: u64, crc: u32) -> Self {
        let level = (start.level.block_size() / 100_000) as u64;
        Self { start: level << POSITION_BITS | start.bit, offset, crc }
    }

    /// Returns the entry's numbers for a stored table.
    pub(super) fn numbers(self) -> [u64; 3] {
        [self.start, self.offset, self.crc.into()]
    }

    /// Returns the entry with these numbers from a stored table, if they are valid.
    pub(super) fn of([start, offset, crc]: [u64; 3]) -> Option<Self> {
        let entry = Self { start, offset, crc: u32::try_from(crc).ok()? };
        entry.start().map(|_| entry)
    }

    pub(super) fn start(self) -> Option<BlockStart> {
        let level = Level::from_digit(b'0'.checked_add((self.start >> POSITION_BITS) as u8)?)?;
        Some(BlockStart { bit: self.start & ((1 << POSITION_BITS) - 1), level })
    }
}
