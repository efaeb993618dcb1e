//! The seek table of bzip2 streams as it is stored between mounts
//! ([`seek::stored_table`](crate::codec::seek::stored_table)).
//!
//! Each entry is a block: the bit of its magic, with the level in the bits above (as in memory); the decoded
//! offset of its output; and the CRC of its output, which is also stored in the block. The table has no
//! records, as decoding a block needs no further data. A decoded block matches its entry if CRC and length
//! are equal, and if it ends where the next block begins, or at the end of its stream.

use super::entry::{BlockEntry, BlockStart};
use crate::codec::bunzip::{Block, Fault, Follows, Magic};
use crate::codec::seek::SegmentReader;
use crate::codec::seek::stored_table::{Summary, TableSlot};
use crate::error::Result;

/// Maximum number of blocks in a table: those of 100 GB at level 1, or 1 TB at level 9.
const MAX_BLOCKS: u64 = 1 << 20;

/// Minimum number of bits from the end of a stream's last block to the next stream's first block: the
/// footer's magic and CRC, and a header.
const BETWEEN_STREAMS: u64 = 48 + 32 + 32;

/// A stored seek table whose numbers are consistent.
#[derive(Debug)]
pub(super) struct StoredBzip2Table {
    blocks: Vec<BlockEntry>,
    data_size: u64,
    end: u64,
}

impl StoredBzip2Table {
    /// Returns the table in a slot, if it is consistent.
    pub(super) fn find(slot: &TableSlot) -> Option<Self> {
        let table = slot.find::<3>(MAX_BLOCKS)?;
        let entries =
            table.entries.iter().map(|&numbers| BlockEntry::of(numbers)).collect::<Option<Vec<_>>>();
        let table =
            Self { blocks: entries.unwrap_or_default(), data_size: slot.data_size(), end: table.whole.end };
        if slot.used_size().checked_mul(8).is_some_and(|bits| table.is_consistent(bits)) {
            return Some(table);
        }
        slot.remove();
        None
    }

    fn is_consistent(&self, bits: u64) -> bool {
        let bit = |entry: &BlockEntry| entry.start().map(|start| start.bit);
        self.blocks.first().is_some_and(|first| first.offset == 0)
            && self.blocks.is_sorted_by(|one, next| bit(one) < bit(next) && one.offset <= next.offset)
            && self
                .blocks
                .last()
                .is_some_and(|last| last.offset <= self.data_size && bit(last) < Some(self.end))
            && self.end <= bits
    }

    /// Stores a table of more than one block.
    pub(super) fn keep(
        slot: &TableSlot,
        blocks: &[BlockEntry],
        summary: Summary,
        pass: &dyn Fn() -> Result<Box<dyn SegmentReader>>,
    ) {
        let entries: Vec<_> = blocks.iter().map(|entry| entry.numbers()).collect();
        if entries.len() > 1 && entries.len() as u64 <= MAX_BLOCKS {
            slot.keep(summary, &entries, &mut |_| Ok(()), pass);
        }
    }

    /// Returns the position of block `n`; `None` is the end.
    pub(super) fn block(&self, n: usize) -> Option<BlockStart> {
        self.blocks.get(n)?.start()
    }

    /// Returns the first block whose magic begins after `bit`.
    pub(super) fn after(&self, bit: u64) -> Option<BlockStart> {
        let at = self.blocks.partition_point(|entry| entry.start().is_some_and(|start| start.bit <= bit));
        self.block(at)
    }

    /// Returns the last block whose output begins at or before `offset`, and the offset of that output.
    pub(super) fn before(&self, offset: u64) -> (usize, u64) {
        let at = self.blocks.partition_point(|entry| entry.offset <= offset).saturating_sub(1);
        (at, self.blocks.get(at).map_or(0, |entry| entry.offset))
    }

    /// Refuses a block that does not match entry `n` of the table.
    pub(super) fn judge(&self, n: usize, block: &Block) -> std::result::Result<(), Fault> {
        let wrong = Fault::Broken { bit: block.start, reason: "the seek table does not fit the stream" };
        let Some(entry) = self.blocks.get(n) else { return Err(wrong) };
        let next = self.blocks.get(n + 1);
        let len = next.map_or(self.data_size, |next| next.offset).checked_sub(entry.offset);
        let follows = match (next.and_then(|next| next.start()), block.follows) {
            (Some(next), Follows::Magic(Magic::Block)) => next.bit == block.end,
            (Some(next), Follows::Magic(Magic::EndOfStream)) => next.bit >= block.end + BETWEEN_STREAMS,
            (None, Follows::Magic(Magic::EndOfStream)) => self.end == block.end,
            _ => false,
        };
        if len == Some(block.len) && entry.crc == block.crc && follows { Ok(()) } else { Err(wrong) }
    }
}
