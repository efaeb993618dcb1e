//! bzip2: blocks are found by their magic and decoded independently ([`bunzip`](super::bunzip)).
//!
//! | part | what it is |
//! |---|---|
//! | [`table`], [`entry`] | where each block begins, as far as the chain of blocks was followed |
//! | [`reader`] | decodes the stream from a block on, with further blocks ahead |
//! | [`stored_table`] | the seek table as it is stored between mounts |
//! | [`library`] | the `bzip2` crate, for a second opinion on damaged or unsupported streams |
//!
//! Several streams in a row are one content. Bytes after the last stream that do not begin another stream are
//! ignored, as Python and `bunzip2` do.

mod entry;
mod library;
mod reader;
mod stored_table;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::seek::stored_table::{TableKind, TableSlot};
use super::seek::trust::TableTrust;
use super::seek::{SeekTable, Seekable, SegmentReader};
use crate::cache::Cache;
use crate::codec::StoredStream;
use crate::codec::bunzip::{Candidates, FOOTER_BITS, Magic};
use crate::content::Content;
use crate::decode::Sequential;
use crate::error::{Error, Result};
use reader::{Bzip2Reader, DECODER, WHOLE};
use table::Bzip2Table;

/// Maximum decoded size of a block. A block holds up to 900 000 bytes of run-length code, and each 5 of them
/// decode to up to 4 + 255 bytes.
pub(super) const BLOCK: u64 = 900_000 / 5 * 259;

/// Minimum size of a block: magic, CRC, origin, symbol map, a selector and two code tables.
pub(super) const MIN_BLOCK: u64 = 20;

/// Opens one or more bzip2 streams in a row. If they have a name, their seek table is stored.
pub(super) fn open(stream: StoredStream, cache: &Arc<Cache>) -> impl Sequential + use<> + 'static {
    let slot = TableSlot::new(cache.store(), TableKind::Bzip2, &stream);
    Seekable::new(Bzip2Table::new(stream.stored.clone(), cache, slot), library::library(stream.stored))
}

/// Returns a reader of the whole stream.
///
/// # Errors
/// The stored bytes look like several streams, or do not end with a stream.
pub(super) fn read_once(stored: Arc<dyn Content>, cache: &Arc<Cache>) -> Result<Box<dyn SegmentReader>> {
    let len = stored.len();
    for magic in Candidates::new(&*stored, 0..len) {
        let magic = magic?;
        if magic.magic == Magic::EndOfStream && (magic.bit + FOOTER_BITS).div_ceil(8) != len {
            return Err(Error::unsupported("bytes follow the bzip2 stream"));
        }
    }
    Ok(Arc::new(Bzip2Table::new(stored, cache, None)).read_from(0)?.1)
}

impl SeekTable for Bzip2Table {
    fn weight(&self) -> u64 {
        DECODER + WHOLE
    }

    fn nearest(&self, wanted: u64) -> u64 {
        self.stored_table.get().map_or_else(|| self.before(wanted), |table| table.before(wanted)).1
    }

    fn read_from(self: Arc<Self>, from: u64) -> Result<(u64, Box<dyn SegmentReader>)> {
        let table = self.stored_table.get();
        let (block, offset) = table.as_ref().map_or_else(|| self.before(from), |table| table.before(from));
        Ok((offset, Box::new(Bzip2Reader::new(self, table, block, offset))))
    }

    fn stored_table(&self) -> Option<&dyn TableTrust> {
        Some(&self.stored_table)
    }

    fn read_without_stored_table(self: Arc<Self>) -> Result<Box<dyn SegmentReader>> {
        Ok(Box::new(Bzip2Reader::new(self, None, 0, 0)))
    }
}
