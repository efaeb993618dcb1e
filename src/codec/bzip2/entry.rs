//! The entries of the table: where a block begins, and where its output does.

use crate::codec::bunzip::Level;

/// Bits of an entry that hold the place; the level stands above them.
const PLACE_BITS: u32 = 56;

/// A block of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockEntry {
    /// The level (8 bits), and where its magic begins.
    place: u64,
    /// Where its output begins.
    pub(super) offset: u64,
    pub(super) crc: u32,
}

/// Where a block is to be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockStart {
    pub(super) bit: u64,
    pub(super) level: Level,
}

impl BlockEntry {
    pub(super) fn new(place: BlockStart, offset: u64, crc: u32) -> Self {
        let level = (place.level.block_size() / 100_000) as u64;
        Self { place: level << PLACE_BITS | place.bit, offset, crc }
    }

    /// Its numbers in an index.
    pub(super) fn numbers(self) -> [u64; 3] {
        [self.place, self.offset, self.crc.into()]
    }

    /// The entry with these numbers of an index, if they are valid.
    pub(super) fn of([place, offset, crc]: [u64; 3]) -> Option<Self> {
        let entry = Self { place, offset, crc: u32::try_from(crc).ok()? };
        entry.place().map(|_| entry)
    }

    pub(super) fn place(self) -> Option<BlockStart> {
        let level = Level::from_digit(b'0'.checked_add((self.place >> PLACE_BITS) as u8)?)?;
        Some(BlockStart { bit: self.place & ((1 << PLACE_BITS) - 1), level })
    }
}
