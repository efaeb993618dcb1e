//! Stored bytes to content.
//!
//! A codec takes the stored (encoded) bytes as a [`Content`] and gives the decoded ones as another.
//! Some are cut into pieces that can be decoded apart ([`Chunks`](crate::decode::Chunks): lz4, blosc), some are streams
//! ([`Sequential`](crate::decode::Sequential)) with a table of places where decoding can start ([`seek`]):
//! zlib, bzip2, and zstd and LZ4 frames, which are cut into [`parts`].
//! Both are read through [`Decoded`], which keeps a bounded number of decoded
//! chunks in the mount's [`Cache`]. No codec holds a block whole.

pub mod blosc;
pub mod bunzip;
mod bzip2;
pub mod deflate;
mod features;
mod input;
mod library;
mod lz4;
mod parts;
#[cfg(test)]
mod samples;
mod seek;
mod zlib;
mod zstd;

use std::sync::Arc;

use crate::cache::Cache;
use crate::content::Content;
use crate::decode::Decoded;
use crate::error::{Error, Result};

/// The codecs, by what they do rather than by the label of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// One zlib stream (RFC 1950).
    Zlib,
    /// One or more bzip2 streams, one after the other.
    Bzip2,
    /// ASDF's own LZ4 framing, or an LZ4 frame under the same label: told apart by the first bytes.
    Lz4,
    /// An LZ4 frame.
    Lz4Frame,
    /// One or more zstd frames.
    Zstd,
    /// One Blosc 1 buffer, or Abacus' framing of several: told apart by the first bytes.
    Blosc,
}

/// The content that `stored` decodes to, `data_size` bytes long.
///
/// Reads nothing, or a few header bytes at most. Sizes that contradict each other are refused. A
/// stream that turns out to hold fewer bytes than `data_size` gives its good prefix, then an error
/// that says so; one that holds more gives `data_size` bytes, and says so as
/// [`trouble`](Content::trouble).
pub fn open(
    codec: Codec,
    stored: Arc<dyn Content>,
    data_size: u64,
    cache: &Arc<Cache>,
) -> Result<Arc<dyn Content>> {
    open_named(codec, stored, data_size, cache, None)
}

/// A stream's name in the store of seek tables: tells it from all others, together with its codec, its length and its
/// ends.
#[derive(Clone, Debug)]
pub struct StreamName {
    /// Tells the stream in its file from all other streams, in this version of the file.
    pub own: Vec<u8>,
    /// Tells the stream wherever it lies, with the MD5 that it claims. A table is shared under this name once the stored
    /// or the decoded bytes prove the MD5.
    pub shared: Option<(Vec<u8>, [u8; 16])>,
}

impl<T: AsRef<[u8]> + ?Sized> From<&T> for StreamName {
    fn from(own: &T) -> Self {
        Self { own: own.as_ref().to_vec(), shared: None }
    }
}

/// The same for a stream whose index is stored in the cache's store, if building its seek table costs a pass
/// over the stream.
///
pub fn open_named(
    codec: Codec,
    stored: Arc<dyn Content>,
    data_size: u64,
    cache: &Arc<Cache>,
    name: Option<&StreamName>,
) -> Result<Arc<dyn Content>> {
    let used_size = stored.len();
    check_sizes(codec, used_size, data_size)?;
    if used_size == 0 {
        return Ok(stored);
    }
    let ranges = stored.ranges();
    let decoded = match codec {
        Codec::Zlib => Decoded::stream(zlib::open(stored, data_size, cache, name), data_size, cache),
        Codec::Bzip2 => Decoded::stream(bzip2::open(stored, data_size, cache, name), data_size, cache),
        Codec::Zstd => Decoded::stream(zstd::open(stored, data_size, cache, name), data_size, cache),
        Codec::Lz4 if !is_lz4_frame(&*stored)? => {
            Decoded::pieces(lz4::Pieces::new(stored, data_size), data_size, cache)
        }
        Codec::Lz4 | Codec::Lz4Frame => {
            Decoded::stream(lz4::frames(stored, data_size, cache), data_size, cache)
        }
        Codec::Blosc => Decoded::pieces(blosc::open(stored, data_size), data_size, cache),
    };
    Ok(decoded.made_of(ranges).with_read_ahead())
}

/// Keeps `table` as the seek table of the stream that [`open_named`] would open, after putting right
/// what tells a table of another stream, or a damaged one: for tests of what a table may lie about.
#[doc(hidden)]
pub fn forge_table(
    codec: Codec,
    stored: &Arc<dyn Content>,
    data_size: u64,
    cache: &Arc<Cache>,
    name: &StreamName,
    table: &[u8],
) {
    let of = match codec {
        Codec::Zlib => seek::index::IndexKind::Zlib,
        Codec::Bzip2 => seek::index::IndexKind::Bzip2,
        Codec::Zstd => seek::index::IndexKind::Zstd,
        _ => return,
    };
    if let Some(slot) = seek::index::IndexSlot::new(cache.store(), of, Some(name), stored, data_size) {
        slot.forge(table);
    }
}

#[doc(hidden)]
pub use zstd::Everywhere as ZstdEverywhere;

/// Whether this begins with an LZ4 frame, or one that is to be skipped, and not with the length of a piece.
fn is_lz4_frame(stored: &dyn Content) -> Result<bool> {
    let mut head = [0; 4];
    if stored.len() < 4 || stored.read_at(0, &mut head)? != 4 {
        return Ok(false);
    }
    let skippable = zstd::SKIPPABLE.contains(&u32::from_le_bytes(head));
    Ok(head == lz4::FRAME || skippable && u64::from(u32::from_be_bytes(head)) > stored.len())
}

/// Refuses a `data_size` that no stream of `used_size` bytes can decode to.
fn check_sizes(codec: Codec, used_size: u64, data_size: u64) -> Result<()> {
    let most = match codec {
        Codec::Zlib => used_size.saturating_mul(zlib::RATIO),
        Codec::Bzip2 => (used_size / bzip2::LEAST_BLOCK).saturating_mul(bzip2::BLOCK),
        Codec::Lz4 | Codec::Lz4Frame => used_size.saturating_mul(lz4::RATIO),
        Codec::Zstd => used_size.saturating_mul(zstd::RATIO),
        Codec::Blosc if used_size == 0 => 0,
        // Sixteen bytes of header can stand for two gigabytes; each buffer is judged when it is met.
        Codec::Blosc => u64::MAX,
    };
    if data_size > most {
        return Err(Error::damaged(format!(
            "data_size is {data_size}, but {used_size} compressed bytes can't decode to more than {most}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
