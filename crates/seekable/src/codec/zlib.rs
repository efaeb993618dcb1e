//! zlib (RFC 1950): a stream with checkpoints ([`deflate`](super::deflate)).
//!
//! | part | what it is |
//! |---|---|
//! | [`table`], [`checkpoint`] | the checkpoints; decoding past the last one adds more |
//! | [`reader`] | decodes the stream from a checkpoint on |
//! | [`ahead`] | segments that other threads decode ahead, from checkpoints or from found blocks |
//! | [`stored_table`], [`stored_reader`] | the seek table as it is stored between mounts, and a reader that uses it |
//! | [`library`] | flate2, for a second opinion on damaged streams |
//!
//! The Adler-32 is combined from those of the segments, in order, as far as the stream was decoded without a
//! gap. A reader that reaches the end compares it. Bytes after the end of the stream are ignored, as by
//! Python's `zlib.decompressobj`, which asdf uses.

mod ahead;
mod checkpoint;
mod library;
mod reader;
mod stored_reader;
mod stored_table;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::deflate::{Position, zlib};
use super::seek::stored_table::{TableKind, TableSlot};
use super::seek::trust::TableTrust;
use super::seek::{SeekTable, Seekable, SegmentReader};
use crate::cache::Cache;
use crate::codec::StoredStream;
use crate::content::Content;
use crate::decode::{GRANULE, Sequential};
use crate::error::Result;
pub(super) use library::{deflate, gzip};
use reader::ZlibReader;
use stored_reader::StoredTableReader;
use table::ZlibTable;

/// Maximum expansion of deflate: matches of 258 bytes that take two bits each.
pub(super) const RATIO: u64 = 1032;

/// Maximum number of output bytes between two CRCs of a stored table.
const MAX_INTERVAL: u64 = 8 << 20;

/// A spacing that no stream reaches.
const NO_CHECKPOINTS: u64 = 1 << 62;

/// Size of a cache with room for several long segments ahead of more than one reader.
const LARGE_BUDGET: u64 = 128 << 20;

/// Opens a stream. If it has a name, its seek table is stored.
pub(super) fn open(stream: StoredStream, cache: &Arc<Cache>) -> impl Sequential + use<> + 'static {
    let slot = TableSlot::new(cache.store(), TableKind::Zlib, &stream);
    open_with(stream.stored, Scale::of(stream.data_size).within(cache.budget()), cache, slot)
}

/// Returns a reader of the whole stream, which makes no checkpoints.
pub(super) fn read_once(stored: Arc<dyn Content>, cache: &Arc<Cache>) -> Result<Box<dyn SegmentReader>> {
    let scale = Scale { spacing: NO_CHECKPOINTS, ..Scale::of(0) }.within(cache.budget());
    Ok(Arc::new(ZlibTable::new(stored, scale, cache, None)).read_from(0)?.1)
}

/// Opens a stream as [`open`] does, with other sizes.
fn open_with(
    stored: Arc<dyn Content>,
    scale: Scale,
    cache: &Arc<Cache>,
    slot: Option<TableSlot>,
) -> impl Sequential + use<> + 'static {
    Seekable::new(ZlibTable::new(stored.clone(), scale, cache, slot), library::library(stored))
}

/// The granularity at which a stream is cut.
#[derive(Clone, Copy, Debug)]
struct Scale {
    /// Output bytes between checkpoints.
    spacing: u64,
    /// Intended number of output bytes in a segment that is found ahead.
    segment: u64,
    /// Minimum number of compressed bits in a segment that is found ahead.
    least_bits: u64,
}

impl Scale {
    /// Returns a scale with a checkpoint per mebibyte, and with at most some 16 Ki checkpoints.
    fn of(data_size: u64) -> Self {
        let spacing = (data_size >> 14).next_power_of_two().max(1 << 20);
        Self { spacing, segment: 1 << 20, least_bits: 8 << 16 }
    }

    /// Returns the scale with longer segments if several of them fit into a cache of `budget` bytes: longer
    /// segments mean fewer searches for blocks.
    fn within(self, budget: u64) -> Self {
        if budget < LARGE_BUDGET { self } else { Self { segment: 2 * self.segment, ..self } }
    }

    /// Returns the output bytes between two CRCs of a stored table. That many bytes are held at once. There
    /// are at most 32 CRCs per checkpoint, up to 4 TiB.
    fn interval(&self) -> u64 {
        (self.spacing >> 5).clamp(GRANULE, MAX_INTERVAL)
    }
}

impl SeekTable for ZlibTable {
    fn nearest(&self, wanted: u64) -> u64 {
        match self.stored_table.get() {
            Some(table) => table.spans.start(table.spans.at(wanted)),
            None => self.before(wanted).map_or(0, |mark| mark.offset),
        }
    }

    fn stored_table(&self) -> Option<&dyn TableTrust> {
        Some(&self.stored_table)
    }

    fn read_without_stored_table(self: Arc<Self>) -> Result<Box<dyn SegmentReader>> {
        Ok(Box::new(ZlibReader::new(self, Position::block_at(zlib::FIRST_BIT, 0), Vec::new())))
    }

    fn read_from(self: Arc<Self>, from: u64) -> Result<(u64, Box<dyn SegmentReader>)> {
        if let Some(table) = self.stored_table.get() {
            let span = table.spans.at(from);
            return Ok((table.spans.start(span), Box::new(StoredTableReader::new(self, table, span))));
        }
        let mut window = Vec::new();
        let mark = self.before(from).filter(|mark| self.window(mark, &mut window).is_some());
        let (offset, reader) = match mark {
            Some(mark) => (mark.offset, ZlibReader::new(self, mark.position(), window)),
            // A checkpoint without its window is useless: decoding starts at the beginning.
            None => (0, ZlibReader::new(self, Position::block_at(zlib::FIRST_BIT, 0), Vec::new())),
        };
        Ok((offset, Box::new(reader)))
    }
}
