//! bzip2: blocks that are found by their magic and decoded apart ([`bunzip`](super::bunzip)).
//!
//! | part | what it is |
//! |---|---|
//! | [`table`] | where each block begins, as far as the chain from the first one was followed |
//! | [`walk`] | a way through the stream from a block on, others being decoded ahead of it |
//! | [`kept`] | the table as it is kept between two mounts |
//! | [`library`] | the `bzip2` crate, for a second opinion on what is broken or not handled |
//!
//! Several streams in a row are one content. Bytes after the last stream that do not begin another one
//! are not looked at, as with Python and `bunzip2`.

mod kept;
mod library;
mod table;
#[cfg(test)]
mod tests;
mod walk;

use std::sync::Arc;

use super::seek::Seekable;
use super::seek::kept::{Of, Slot};
use crate::cache::Cache;
use crate::content::{Content, Sequential};
use table::Bzip2;

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
