//! The spans of an index whose places have records. A span lies between a place where decoding can start and the
//! next one.
//!
//! Such a place is four numbers: two that say where in the stream, which are the codec's, its decoded offset,
//! and where its record is in the index's file (40 bits) and how long (24 bits).

use std::sync::Arc;

use super::index::{IndexSlot, StoredIndex, Summary};
use crate::content::{Content, read_exact_at};

/// Bits of a record's place and length that are its length.
const LEN_BITS: u32 = 24;

/// A place: where its block begins in the codec's words, offset, record.
pub(in crate::codec) type Numbers = [u64; 4];

/// The number for a record of so many bytes at `at`; none if it has no room for that.
pub(in crate::codec) fn record(at: u64, len: u64) -> Option<u64> {
    (len >> LEN_BITS == 0 && at >> (64 - LEN_BITS) == 0).then_some(at << LEN_BITS | len)
}

/// The spans of a stream, and the file with their records.
#[derive(Debug)]
pub(in crate::codec) struct Spans {
    file: Arc<dyn Content>,
    /// What the index says of the stream as a whole.
    pub(in crate::codec) whole: Summary,
    places: Vec<Numbers>,
    data_size: u64,
}

impl Spans {
    /// The index in a slot, of `most` places at most. One that is not consistent is removed: its records lie in
    /// its file, and `is_consistent` is what the codec knows.
    pub(in crate::codec) fn find(
        slot: &IndexSlot,
        most: u64,
        is_consistent: impl FnOnce(&Self) -> bool,
    ) -> Option<Self> {
        let StoredIndex { file, whole, places, records } = slot.find::<4>(most)?;
        let spans = Self { file, whole, places, data_size: slot.data_size() };
        let lie_there = (0..spans.len())
            .filter_map(|span| spans.record(span))
            .all(|(at, len)| at >= records && at + len <= spans.file.len());
        if lie_there && is_consistent(&spans) {
            return Some(spans);
        }
        slot.remove();
        None
    }

    /// Whether they begin with `first`, the stream's start, and go up from there to before its end, which has
    /// `end` in the place of a place's second number.
    pub(in crate::codec) fn are_in_order(&self, first: [u64; 3], end: u64) -> bool {
        self.places.first().is_some_and(|place| place[..3] == first)
            && self.places.is_sorted_by(|one, next| one[1] < next[1] && one[2] < next[2])
            && self.places.last().is_some_and(|place| place[1] < end && place[2] < self.data_size)
    }

    /// How many there are.
    pub(in crate::codec) fn len(&self) -> usize {
        self.places.len()
    }

    /// The decoded offset where a span begins; that of the one after the last is the end.
    pub(in crate::codec) fn start(&self, span: usize) -> u64 {
        self.places.get(span).map_or(self.data_size, |place| place[2])
    }

    /// The span that holds a decoded offset.
    pub(in crate::codec) fn at(&self, offset: u64) -> usize {
        self.places.partition_point(|place| place[2] <= offset).saturating_sub(1)
    }

    /// The numbers of a span's place, without its record.
    pub(in crate::codec) fn place(&self, span: usize) -> Option<[u64; 3]> {
        let &[one, other, offset, _] = self.places.get(span)?;
        Some([one, other, offset])
    }

    /// Reads a record from its byte `from` on; `None` if the bytes can't be read.
    pub(in crate::codec) fn read(&self, span: usize, from: u64, bytes: &mut [u8]) -> Option<()> {
        let (at, _) = self.record(span)?;
        read_exact_at(&*self.file, at.checked_add(from)?, bytes).ok()
    }

    /// Where in the file the record of a span is, and how long: their sum is no overflow.
    pub(in crate::codec) fn record(&self, span: usize) -> Option<(u64, u64)> {
        let record = self.places.get(span)?[3];
        Some((record >> LEN_BITS, record & ((1 << LEN_BITS) - 1)))
    }
}
