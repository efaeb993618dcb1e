//! bzip2: blocks that are found by their magic and decoded apart ([`bunzip`](super::bunzip)).
//!
//! | part | what it is |
//! |---|---|
//! | [`table`], [`entry`] | where each block begins, as far as the chain from the first one was followed |
//! | [`walk`] | a way through the stream from a block on, others being decoded ahead of it |
//! | [`kept`] | the table as it is kept between two mounts |
//! | [`library`] | the `bzip2` crate, for a second opinion on what is broken or not handled |
//!
//! Several streams in a row are one content. Bytes after the last stream that do not begin another one
//! are not looked at, as with Python and `bunzip2`.

mod entry;
mod kept;
mod library;
mod table;
#[cfg(test)]
mod tests;
mod walk;

use std::sync::Arc;

use super::seek::found::Trusted;
use super::seek::kept::{Of, Slot};
use super::seek::{Seekable, Stretches, Table};
use crate::cache::Cache;
use crate::content::Content;
use crate::decode::Sequential;
use crate::error::Result;
use table::Bzip2;
use walk::{DECODER, WHOLE, Walk};

/// What a block can hold at most, decoded: 900 000 bytes before the first run-length coding, which
/// makes up to 255 bytes + 4 of each 5.
pub(super) const BLOCK: u64 = 900_000 / 5 * 259;

/// What a block needs at least: magic, CRC, origin, symbol map, a selector and two code tables.
pub(super) const LEAST_BLOCK: u64 = 20;

/// The streams in `stored`, one after the other, of `data_size` bytes as their header says. With a `name`
/// their table is kept.
pub(super) fn open(
    stored: Arc<dyn Content>,
    data_size: u64,
    cache: &Arc<Cache>,
    name: Option<&[u8]>,
) -> impl Sequential + use<> + 'static {
    let slot = Slot::new(cache.store(), Of::Bzip2, name, &stored, data_size);
    Seekable::new(Bzip2::new(stored.clone(), cache, slot), library::library(stored))
}

impl Table for Bzip2 {
    fn weight(&self) -> u64 {
        DECODER + WHOLE
    }

    fn nearest(&self, wanted: u64) -> u64 {
        self.found.get().map_or_else(|| self.before(wanted), |kept| kept.before(wanted)).1
    }

    fn walk(self: Arc<Self>, from: u64) -> Result<(u64, Box<dyn Stretches>)> {
        let kept = self.found.get();
        let (block, offset) = kept.as_ref().map_or_else(|| self.before(from), |kept| kept.before(from));
        Ok((offset, Box::new(Walk::new(self, kept, block, offset))))
    }

    fn found(&self) -> Option<&dyn Trusted> {
        Some(&self.found)
    }

    fn pass(self: Arc<Self>) -> Result<Box<dyn Stretches>> {
        Ok(Box::new(Walk::new(self, None, 0, 0)))
    }
}
