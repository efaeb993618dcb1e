//! bzip2: blocks that are found by their magic and decoded apart ([`bunzip`](super::bunzip)).
//!
//! | part | what it is |
//! |---|---|
//! | [`table`], [`entry`] | where each block begins, as far as the chain from the first one was followed |
//! | [`reader`] | decodes the stream from a block on, and more blocks ahead |
//! | [`index`] | the table as it is stored between mounts |
//! | [`library`] | the `bzip2` crate, for a second opinion on what is broken or not handled |
//!
//! Several streams in a row are one content. Bytes after the last stream that do not begin another one
//! are ignored, as Python and `bunzip2` do.

mod entry;
mod index;
mod library;
mod reader;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::seek::index::{IndexKind, IndexSlot};
use super::seek::trust::IndexTrust;
use super::seek::{SeekTable, Seekable, SegmentReader};
use crate::cache::Cache;
use crate::codec::StreamName;
use crate::content::Content;
use crate::decode::Sequential;
use crate::error::Result;
use reader::{Bzip2Reader, DECODER, WHOLE};
use table::Bzip2Table;

/// What a block can hold at most, decoded: 900 000 bytes before the first run-length coding, which
/// makes up to 255 bytes + 4 of each 5.
pub(super) const BLOCK: u64 = 900_000 / 5 * 259;

/// What a block needs at least: magic, CRC, origin, symbol map, a selector and two code tables.
pub(super) const LEAST_BLOCK: u64 = 20;

/// The streams in `stored`, one after the other, of `data_size` bytes as their header says. With a `name`
/// their index is stored.
pub(super) fn open(
    stored: Arc<dyn Content>,
    data_size: u64,
    cache: &Arc<Cache>,
    name: Option<&StreamName>,
) -> impl Sequential + use<> + 'static {
    let slot = IndexSlot::new(cache.store(), IndexKind::Bzip2, name, &stored, data_size);
    Seekable::new(Bzip2Table::new(stored.clone(), cache, slot), library::library(stored))
}

impl SeekTable for Bzip2Table {
    fn weight(&self) -> u64 {
        DECODER + WHOLE
    }

    fn nearest(&self, wanted: u64) -> u64 {
        self.found.get().map_or_else(|| self.before(wanted), |kept| kept.before(wanted)).1
    }

    fn read_from(self: Arc<Self>, from: u64) -> Result<(u64, Box<dyn SegmentReader>)> {
        let kept = self.found.get();
        let (block, offset) = kept.as_ref().map_or_else(|| self.before(from), |kept| kept.before(from));
        Ok((offset, Box::new(Bzip2Reader::new(self, kept, block, offset))))
    }

    fn index(&self) -> Option<&dyn IndexTrust> {
        Some(&self.found)
    }

    fn read_without_index(self: Arc<Self>) -> Result<Box<dyn SegmentReader>> {
        Ok(Box::new(Bzip2Reader::new(self, None, 0, 0)))
    }
}
