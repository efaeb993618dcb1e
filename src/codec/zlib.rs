//! zlib (RFC 1950): a stream with checkpoints ([`deflate`](super::deflate)).
//!
//! | part | what it is |
//! |---|---|
//! | [`table`], [`checkpoint`] | the checkpoints; decoding beyond the last one adds more |
//! | [`reader`] | decodes the stream from a checkpoint on |
//! | [`ahead`] | the segments that other threads decode ahead of it: from checkpoints, and beyond them from blocks that are found |
//! | [`index`], [`indexed`] | the table as it is stored between mounts, and a reader that uses it |
//! | [`library`] | flate2, for a second opinion on what is broken |
//!
//! The Adler-32 is combined from those of the segments, in order, as far as the stream was decoded without a
//! gap. A reader that reaches the end compares it. Bytes after the end of the stream are ignored, as Python's
//! `zlib.decompressobj`, with which asdf reads, ignores them.

mod ahead;
mod checkpoint;
mod index;
mod indexed;
mod library;
mod reader;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::deflate::{Position, zlib};
use super::seek::index::{IndexKind, IndexSlot};
use super::seek::trust::IndexTrust;
use super::seek::{SeekTable, Seekable, SegmentReader};
use crate::cache::Cache;
use crate::codec::StreamName;
use crate::content::Content;
use crate::decode::{Sequential, UNIT};
use crate::error::Result;
use indexed::IndexedReader;
use reader::ZlibReader;
use table::ZlibTable;

/// What deflate can make of a byte at most: matches of 258 bytes that take two bits each.
pub(super) const RATIO: u64 = 1032;

/// Bytes from one sum to the next at most.
const MOST_UNIT: u64 = 8 << 20;

/// Bytes of a cache with room for several long segments ahead of more than one reader.
const LARGE_BUDGET: u64 = 128 << 20;

/// The stream in `stored`, of `data_size` bytes as its header says. With a `name` its index is stored.
pub(super) fn open(
    stored: Arc<dyn Content>,
    data_size: u64,
    cache: &Arc<Cache>,
    name: Option<&StreamName>,
) -> impl Sequential + use<> + 'static {
    let slot = IndexSlot::new(cache.store(), IndexKind::Zlib, name, &stored, data_size);
    open_with(stored, Scale::of(data_size).within(cache.budget()), cache, slot)
}

/// The same with other sizes.
fn open_with(
    stored: Arc<dyn Content>,
    scale: Scale,
    cache: &Arc<Cache>,
    slot: Option<IndexSlot>,
) -> impl Sequential + use<> + 'static {
    Seekable::new(ZlibTable::new(stored.clone(), scale, cache, slot), library::library(stored))
}

/// How finely a stream is cut.
#[derive(Clone, Copy, Debug)]
struct Scale {
    /// Bytes of output from one checkpoint to the next.
    spacing: u64,
    /// Bytes of output that a segment found ahead should have.
    stretch: u64,
    /// The least compressed bits of such a segment.
    least_bits: u64,
}

impl Scale {
    /// A checkpoint a mebibyte, and some 16 Ki of them at most.
    fn of(data_size: u64) -> Self {
        let spacing = (data_size >> 14).next_power_of_two().max(1 << 20);
        Self { spacing, stretch: 1 << 20, least_bits: 8 << 16 }
    }

    /// The same with longer segments where several fit into a cache of so many bytes: fewer have to be found.
    fn within(self, budget: u64) -> Self {
        if budget < LARGE_BUDGET { self } else { Self { stretch: 2 * self.stretch, ..self } }
    }

    /// Bytes of output from one sum of an index to the next, which are held at once: 32 sums to a
    /// checkpoint at most, up to 4 TiB.
    fn unit(&self) -> u64 {
        (self.spacing >> 5).clamp(UNIT, MOST_UNIT)
    }
}

impl SeekTable for ZlibTable {
    fn nearest(&self, wanted: u64) -> u64 {
        match self.found.get() {
            Some(kept) => kept.spans.start(kept.spans.at(wanted)),
            None => self.before(wanted).map_or(0, |mark| mark.offset),
        }
    }

    fn index(&self) -> Option<&dyn IndexTrust> {
        Some(&self.found)
    }

    fn read_without_index(self: Arc<Self>) -> Result<Box<dyn SegmentReader>> {
        Ok(Box::new(ZlibReader::new(self, Position::block_at(zlib::FIRST_BIT, 0), Vec::new())))
    }

    fn read_from(self: Arc<Self>, from: u64) -> Result<(u64, Box<dyn SegmentReader>)> {
        if let Some(kept) = self.found.get() {
            let span = kept.spans.at(from);
            return Ok((kept.spans.start(span), Box::new(IndexedReader::new(self, kept, span))));
        }
        let mut window = Vec::new();
        let mark = self.before(from).filter(|mark| self.window(mark, &mut window).is_some());
        let (offset, walk) = match mark {
            Some(mark) => (mark.offset, ZlibReader::new(self, mark.place(), window)),
            // Without its window a checkpoint is of no use: from the start it goes as well.
            None => (0, ZlibReader::new(self, Position::block_at(zlib::FIRST_BIT, 0), Vec::new())),
        };
        Ok((offset, Box::new(walk)))
    }
}
