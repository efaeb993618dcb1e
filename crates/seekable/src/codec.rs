//! Codecs: from stored bytes to content.
//!
//! A codec takes the stored (encoded) bytes as a [`Content`] and gives the decoded ones as another. lz4 and
//! blosc are cut into chunks that decode independently ([`Chunks`](crate::decode::Chunks)). zlib, bzip2, zstd
//! frames and LZ4 frames are streams ([`Sequential`](crate::decode::Sequential)) with a seek table of the
//! offsets where decoding can start ([`seek`]); frames are cut into [`parts`]. Chunks and streams are read
//! through [`Decoded`], which keeps a bounded number of decoded chunks in the mount's [`Cache`]. No codec
//! holds a whole block.

pub mod blosc;
pub mod bunzip;
mod bzip2;
pub mod deflate;
pub mod encode;
pub mod external;
mod features;
mod input;
mod library;
mod lz4;
mod once;
mod part;
mod parts;
#[cfg(test)]
#[path = "codec/tests/samples.rs"]
mod samples;
mod seek;
mod zlib;
mod zstd;

use std::sync::Arc;

use crate::cache::Cache;
use crate::content::{Content, ContentWindow};
use crate::decode::Decoded;
use crate::error::{Error, Result};
use part::ExternalPart;

pub use features::cpu_features;
pub use once::decode;

/// The names of the codecs, for users.
pub const NAMES: &str = "zlib, bzip2, LZ4, zstd, Blosc and Blosc2 (BloscLZ, LZ4, Snappy, zlib, zstd)";

/// The codecs, named after their encoding rather than after the label in a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// One zlib stream (RFC 1950).
    Zlib,
    /// One or more bzip2 streams in a row.
    Bzip2,
    /// ASDF's own LZ4 framing, or an LZ4 frame under the same label; the first bytes tell which.
    Lz4,
    /// An LZ4 frame.
    Lz4Frame,
    /// One or more zstd frames.
    Zstd,
    /// One Blosc 1 buffer, or several with length prefixes, as the package abacusutils writes them; the first
    /// bytes tell which.
    Blosc,
    /// A contiguous frame of Blosc 2, or a single chunk of it; the first bytes tell which.
    Blosc2,
}

impl Codec {
    /// All codecs.
    pub const ALL: [Self; 7] =
        [Self::Zlib, Self::Bzip2, Self::Lz4, Self::Lz4Frame, Self::Zstd, Self::Blosc, Self::Blosc2];

    /// Returns the most bytes that a stream of `used_size` bytes can decode to.
    pub fn max_decoded(self, used_size: u64) -> u64 {
        match self {
            Self::Zlib => used_size.saturating_mul(zlib::RATIO),
            Self::Bzip2 => (used_size / bzip2::MIN_BLOCK).saturating_mul(bzip2::BLOCK),
            Self::Lz4 | Self::Lz4Frame => used_size.saturating_mul(lz4::RATIO),
            Self::Zstd => used_size.saturating_mul(zstd::RATIO),
            Self::Blosc | Self::Blosc2 if used_size == 0 => 0,
            // A header of sixteen bytes can claim two gigabytes; each buffer is checked when it is read.
            Self::Blosc | Self::Blosc2 => u64::MAX,
        }
    }

    /// Returns the codec that decodes the parts in numcodecs, the codecs of Zarr, with its parameters in JSON.
    pub fn numcodec(self) -> &'static str {
        match self {
            Self::Zlib => r#"{"id":"zlib","level":1}"#,
            Self::Bzip2 => r#"{"id":"bz2","level":1}"#,
            Self::Lz4 | Self::Lz4Frame => r#"{"id":"lz4","acceleration":1}"#,
            Self::Zstd => r#"{"id":"zstd","level":1}"#,
            Self::Blosc => r#"{"id":"blosc","cname":"lz4","clevel":5,"shuffle":1,"blocksize":0}"#,
            // numcodecs has no Blosc2; imagecodecs has.
            Self::Blosc2 => r#"{"id":"imagecodecs_blosc2"}"#,
        }
    }

    /// Calls `take` for each part of `stored` that numcodecs can decode alone, in order.
    fn each_part(
        self,
        stored: &Arc<dyn Content>,
        data_size: u64,
        take: &mut dyn FnMut(ExternalPart) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Zlib | Self::Bzip2 => {
                take(ExternalPart { offset: 0, stored: stored.len(), len: data_size })
            }
            Self::Lz4 if !is_lz4_frame(&**stored)? => lz4::each_piece(stored, take),
            Self::Lz4 | Self::Lz4Frame => Err(Error::unsupported("Zarr has no codec for LZ4 frames")),
            Self::Zstd => zstd::each_frame(stored, data_size, take),
            Self::Blosc => blosc::each_buffer(stored, data_size, take),
            Self::Blosc2 => Err(Error::unsupported("Zarr has no codec for Blosc2")),
        }
    }
}

/// Opens `stored` as content of `data_size` decoded bytes.
///
/// Reads at most a few header bytes. Sizes that contradict each other are refused. A stream that turns out to
/// hold fewer bytes than `data_size` gives its good prefix, then an error that says so. A stream that holds
/// more gives `data_size` bytes and reports the excess as [`damage`](Content::damage).
pub fn open(
    codec: Codec,
    stored: Arc<dyn Content>,
    data_size: u64,
    cache: &Arc<Cache>,
) -> Result<Arc<dyn Content>> {
    open_stream(codec, StoredStream::new(stored, data_size), cache)
}

/// A compressed stream in a file.
#[derive(Clone, Debug)]
pub struct StoredStream {
    /// The stream as stored.
    pub stored: Arc<dyn Content>,
    /// The expected number of decoded bytes.
    pub data_size: u64,
    /// The name of the stream, if its seek table is kept in the cache's store. A table is kept if building it
    /// takes a pass over the stream.
    pub name: Option<StreamName>,
}

impl StoredStream {
    /// Returns a stream without a name.
    pub fn new(stored: Arc<dyn Content>, data_size: u64) -> Self {
        Self { stored, data_size, name: None }
    }

    /// Returns the stream with a name.
    #[must_use]
    pub fn named(self, name: StreamName) -> Self {
        Self { name: Some(name), ..self }
    }
}

/// The name of a stream in the store of seek tables. Name, codec, length, and the first and last bytes
/// identify the stream.
#[derive(Clone, Debug)]
pub struct StreamName {
    /// A name of the stream within its file, in this version of the file.
    pub own: Vec<u8>,
    /// The name under which equal streams of several files share a table, and the MD5 that the file states
    /// for the stream. The table is shared only once the stored or the decoded bytes are found to have this
    /// MD5.
    pub shared: Option<(Vec<u8>, [u8; 16])>,
}

impl<T: AsRef<[u8]> + ?Sized> From<&T> for StreamName {
    fn from(own: &T) -> Self {
        Self { own: own.as_ref().to_vec(), shared: None }
    }
}

/// Opens `stream` like [`open`]. If it has a name, its seek table is stored.
pub fn open_stream(codec: Codec, stream: StoredStream, cache: &Arc<Cache>) -> Result<Arc<dyn Content>> {
    let used_size = stream.stored.len();
    let data_size = stream.data_size;
    check_sizes(codec, used_size, data_size)?;
    if used_size == 0 {
        return Ok(stream.stored);
    }
    let ranges = stream.stored.ranges();
    let decoded = match codec {
        Codec::Zlib => Decoded::stream(zlib::open(stream, cache), data_size, cache),
        Codec::Bzip2 => Decoded::stream(bzip2::open(stream, cache), data_size, cache),
        Codec::Zstd => Decoded::stream(zstd::open(stream, cache), data_size, cache),
        Codec::Lz4 if !is_lz4_frame(&*stream.stored)? => {
            Decoded::pieces(lz4::Lz4Pieces::new(stream.stored, data_size), data_size, cache)
        }
        Codec::Lz4 | Codec::Lz4Frame => {
            Decoded::stream(lz4::frames(stream.stored, data_size, cache), data_size, cache)
        }
        Codec::Blosc => Decoded::pieces(blosc::open(stream.stored, data_size), data_size, cache),
        Codec::Blosc2 => Decoded::pieces(blosc::open_frame(stream.stored, cache), data_size, cache),
    };
    Ok(decoded.made_of(ranges).with_read_ahead())
}

/// Opens a gzip stream as content of `data_size` decoded bytes. Decoding always begins at the start of the stream.
pub fn open_gzip(stored: Arc<dyn Content>, data_size: u64, cache: &Arc<Cache>) -> Result<Arc<dyn Content>> {
    open_from_start(stored, data_size, cache, zlib::gzip)
}

/// Length of the header of a zlib stream.
const ZLIB_HEADER: u64 = 2;

/// Opens a zlib stream like [`open_gzip`], and does not compare its checksum: the decoded bytes may be wrong.
pub fn open_zlib_unchecked(
    stored: Arc<dyn Content>,
    data_size: u64,
    cache: &Arc<Cache>,
) -> Result<Arc<dyn Content>> {
    let deflate = ContentWindow::new(stored.clone(), ZLIB_HEADER, stored.len().saturating_sub(ZLIB_HEADER));
    open_from_start(Arc::new(deflate), data_size, cache, zlib::deflate)
}

fn open_from_start(
    stored: Arc<dyn Content>,
    data_size: u64,
    cache: &Arc<Cache>,
    decoder: fn(Arc<dyn Content>) -> library::Library,
) -> Result<Arc<dyn Content>> {
    check_sizes(Codec::Zlib, stored.len(), data_size)?;
    let ranges = stored.ranges();
    let decoded = Decoded::stream(decoder(stored), data_size, cache);
    Ok(decoded.made_of(ranges).with_read_ahead())
}

/// Stores a forged `table` for a named stream, with a valid header and CRC: for tests of tables with wrong
/// contents.
#[doc(hidden)]
pub fn forge_table(codec: Codec, stream: &StoredStream, cache: &Arc<Cache>, table: &[u8]) {
    let of = match codec {
        Codec::Zlib => seek::stored_table::TableKind::Zlib,
        Codec::Bzip2 => seek::stored_table::TableKind::Bzip2,
        Codec::Zstd => seek::stored_table::TableKind::Zstd,
        _ => return,
    };
    if let Some(slot) = seek::stored_table::TableSlot::new(cache.store(), of, stream) {
        slot.forge(table);
    }
}

#[doc(hidden)]
pub use zstd::Everywhere as ZstdEverywhere;

/// True if `stored` begins with an LZ4 frame or a skippable frame rather than with ASDF's own LZ4 framing.
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
    let most = codec.max_decoded(used_size);
    if data_size > most {
        return Err(Error::damaged(format!(
            "data_size is {data_size}, but {used_size} compressed bytes can't decode to more than {most}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
