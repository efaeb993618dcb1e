//! Stored bytes to content.
//!
//! A codec takes the stored (encoded) bytes as a [`Content`] and gives the decoded ones as another.
//! Some are cut into pieces that can be decoded apart ([`Chunks`]: lz4, blosc, tile, quantize), some
//! only from their start ([`Sequential`](crate::content::Sequential): zlib, bzip2, zstd, LZ4 frames).
//! Both are read through [`Decoded`](crate::content::Decoded), which keeps a bounded number of decoded
//! chunks in the mount's [`Cache`]. No codec holds a block whole.

pub mod deflate;
pub mod quantize;
pub mod tile;

use std::sync::Arc;

use crate::cache::Cache;
use crate::content::Content;
use crate::error::Result;

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

/// A piece of the decoded bytes that can be decoded without the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Which one, from 0, in decoded order.
    pub index: u64,
    /// Where it begins in the decoded bytes.
    pub offset: u64,
    /// How long it is, decoded.
    pub len: u64,
}

/// Encoded bytes cut into pieces that can be decoded apart.
pub trait Chunks: Send + Sync + std::fmt::Debug {
    /// The chunk that holds decoded byte `offset`, or `None` past the end of what is there.
    fn find(&self, offset: u64) -> Result<Option<Chunk>>;

    /// Decodes a chunk into `out`, which is empty; exactly `chunk.len` bytes, or an error.
    ///
    /// On an error `out` holds the bytes before the damage that are known to be right.
    fn decode(&self, chunk: Chunk, out: &mut Vec<u8>) -> Result<()>;
}

/// The content that `stored` decodes to, `data_size` bytes long.
///
/// Reads nothing, or a few header bytes at most. A stream that turns out to hold fewer or more bytes
/// than `data_size` gives its good prefix, then an error that says so.
pub fn open(
    codec: Codec,
    stored: Arc<dyn Content>,
    data_size: u64,
    cache: &Arc<Cache>,
) -> Result<Arc<dyn Content>> {
    let _ = (codec, stored, data_size, cache);
    Err(crate::Error::unsupported("no codec is built in yet"))
}
