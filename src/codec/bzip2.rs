//! bzip2: blocks that are found by their magic and decoded apart ([`bunzip`](super::bunzip)).
//!
//! | part | what it is |
//! |---|---|
//! | [`table`] | where each block begins, as far as the chain from the first one was followed |
//! | [`walk`] | a way through the stream from a block on, others being decoded ahead of it |
//! | [`library`] | the `bzip2` crate, for a second opinion on what is broken or not handled |
//!
//! Several streams in a row are one content. Bytes after the last stream that do not begin another one
//! are not looked at, as with Python and `bunzip2`.

mod library;
mod table;
#[cfg(test)]
mod tests;
mod walk;

use std::sync::Arc;

use super::seek::Seekable;
use crate::cache::Cache;
use crate::content::{Content, Sequential};
use table::Bzip2;

/// What a block can hold at most, decoded: 900 000 bytes before the first run-length coding, which
/// makes up to 255 bytes + 4 of each 5.
pub(super) const BLOCK: u64 = 900_000 / 5 * 259;

/// What a block needs at least: magic, CRC, origin, symbol map, a selector and two code tables.
pub(super) const LEAST_BLOCK: u64 = 20;

/// The streams in `stored`, one after the other.
pub(super) fn open(stored: Arc<dyn Content>, cache: &Arc<Cache>) -> impl Sequential + use<> + 'static {
    Seekable::new(Bzip2::new(stored.clone(), cache), library::Library::new(stored))
}
