//! The spans of a stored table whose entries have records. A span is the output from a checkpoint to the next
//! one.
//!
//! An entry has four numbers: two for the codec's position in the stream, the decoded offset, and the
//! position (40 bits) and length (24 bits) of the record in the table's file.

use std::sync::Arc;

use super::stored_table::{StoredTable, Summary, TableSlot};
use crate::content::{Content, read_exact_at};

/// Number of bits of a record's number that hold its length; the position is in the bits above.
const LEN_BITS: u32 = 24;

/// An entry: two numbers of the codec, the offset, the record.
pub(in crate::codec) type Numbers = [u64; 4];

/// Returns the number for a record of `len` bytes at `at`; `None` if they are too large for it.
pub(in crate::codec) fn record(at: u64, len: u64) -> Option<u64> {
    (len >> LEN_BITS == 0 && at >> (64 - LEN_BITS) == 0).then_some(at << LEN_BITS | len)
}

/// The spans of a stream, and the file with their records.
#[derive(Debug)]
pub(in crate::codec) struct Spans {
    file: Arc<dyn Content>,
    /// The table's data about the whole stream.
    pub(in crate::codec) whole: Summary,
    pub(in crate::codec) entries: Vec<Numbers>,
    data_size: u64,
}

impl Spans {
    /// Returns the table in a slot, with at most `most` entries. An inconsistent table is removed: all
    /// records must be in its file, and `is_consistent` is the codec's check.
    pub(in crate::codec) fn find(
        slot: &TableSlot,
        most: u64,
        is_consistent: impl FnOnce(&Self) -> bool,
    ) -> Option<Self> {
        let StoredTable { file, whole, entries, records } = slot.find::<4>(most)?;
        let spans = Self { file, whole, entries, data_size: slot.data_size() };
        let lie_there = (0..spans.entries.len())
            .filter_map(|span| spans.record(span))
            .all(|(at, len)| at >= records && at + len <= spans.file.len());
        if lie_there && is_consistent(&spans) {
            return Some(spans);
        }
        slot.remove();
        None
    }

    /// True if the entries begin with `first`, the stream's start, and are in ascending order before the
    /// stream's end; `end` is compared with an entry's second number.
    pub(in crate::codec) fn are_in_order(&self, first: [u64; 3], end: u64) -> bool {
        self.entries.first().is_some_and(|entry| entry[..3] == first)
            && self.entries.is_sorted_by(|one, next| one[1] < next[1] && one[2] < next[2])
            && self.entries.last().is_some_and(|entry| entry[1] < end && entry[2] < self.data_size)
    }

    /// Returns the decoded offset at which a span begins; for the number after the last span, the stream's
    /// end.
    pub(in crate::codec) fn start(&self, span: usize) -> u64 {
        self.entries.get(span).map_or(self.data_size, |entry| entry[2])
    }

    /// Returns the span that holds a decoded offset.
    pub(in crate::codec) fn at(&self, offset: u64) -> usize {
        self.entries.partition_point(|entry| entry[2] <= offset).saturating_sub(1)
    }

    /// Returns the numbers of a span's entry, without its record.
    pub(in crate::codec) fn position(&self, span: usize) -> Option<[u64; 3]> {
        let &[one, other, offset, _] = self.entries.get(span)?;
        Some([one, other, offset])
    }

    /// Reads bytes of a record from its byte `from` on; `None` if they can't be read.
    pub(in crate::codec) fn read(&self, span: usize, from: u64, bytes: &mut [u8]) -> Option<()> {
        let (at, _) = self.record(span)?;
        read_exact_at(&*self.file, at.checked_add(from)?, bytes).ok()
    }

    /// Returns position and length of a span's record; their sum can't overflow.
    pub(in crate::codec) fn record(&self, span: usize) -> Option<(u64, u64)> {
        let record = self.entries.get(span)?[3];
        Some((record >> LEN_BITS, record & ((1 << LEN_BITS) - 1)))
    }
}
