//! Decoding at any offset with bounded memory, for any number of readers.
//!
//! A codec is either a stream that is decoded from its start or from a checkpoint ([`Sequential`]), or a set
//! of chunks that are decoded independently ([`Chunks`]). [`Decoded`] turns either into a
//! [`Content`](crate::content::Content). It decodes each granule once for all its readers, detects sequential
//! readers from their offsets and decodes ahead of them, and caches the result in the mount's
//! [`Cache`](crate::cache::Cache). Decoders that wait for the next read are kept in [`IdleDecoders`].

mod decoded;
mod decoded_chunk;
mod depth;
mod idle;
mod part;

use std::fmt;

use crate::error::Result;

pub use decoded::Decoded;
pub use depth::Depth;
pub use idle::IdleDecoders;
pub use part::Part;

/// Number of bytes of a stream that are decoded and cached together.
///
/// The size is a trade-off. A small granule makes a random read cheap, and is still in the processor's cache
/// when it is copied to the reader. A large granule makes the overhead per granule (a lock, a cache entry)
/// negligible.
pub const GRANULE: u64 = 256 << 10;

/// Maximum size of a chunk that is decoded as a whole; a larger one is decoded as a stream of its own.
pub const WHOLE: u64 = 8 << 20;

/// A decoder of a stream, which runs once, from the start.
pub trait Decoder: Send {
    /// Writes the next decoded bytes to `out` and returns their number; 0 is the end of the stream.
    ///
    /// An error is returned only after all bytes before the damage were returned.
    fn read(&mut self, out: &mut [u8]) -> Result<usize>;

    /// Returns, after an error, the decoded offset from which on bytes already returned are in doubt, because
    /// a checksum over them is wrong.
    fn suspect(&self) -> Option<u64> {
        None
    }

    /// Announces that all bytes up to this decoded offset will be read, so that a far target is decoded in
    /// parallel.
    fn wanted(&mut self, until: u64) {
        let _ = until;
    }

    /// Returns the approximate memory in bytes that the decoder occupies while idle.
    fn weight(&self) -> u64 {
        256 << 10
    }

    /// True if a new decoder would soon reach the same position.
    fn is_cheap_to_replace(&self) -> bool {
        false
    }
}

/// An encoded stream that can be decoded from its start, any number of times, and perhaps from other
/// positions.
pub trait Sequential: Send + Sync + fmt::Debug {
    /// Creates a decoder at decoded offset 0.
    fn start(&self) -> Result<Box<dyn Decoder>>;

    /// Returns the stream that this one stands for. The methods below ask it, unless this one answers itself.
    fn inner(&self) -> Option<&dyn Sequential> {
        None
    }

    /// Finds checkpoints up to `wanted`, as far as possible without decoding.
    fn find_ahead(&self, wanted: u64) {
        if let Some(inner) = self.inner() {
            inner.find_ahead(wanted);
        }
    }

    /// Returns the last decoded offset at or before `wanted` at which decoding can start.
    fn nearest(&self, wanted: u64) -> u64 {
        self.inner().map_or(0, |inner| inner.nearest(wanted))
    }

    /// Returns the memory in bytes that decoding needs, in addition to the decoded bytes.
    fn weight(&self) -> u64 {
        self.inner().map_or(1 << 20, Sequential::weight)
    }

    /// Creates a decoder at decoded offset `at`; decoding begins at the [`nearest`](Self::nearest) possible
    /// offset.
    fn start_at(&self, at: u64) -> Result<Box<dyn Decoder>> {
        self.inner().map_or_else(|| self.start(), |inner| inner.start_at(at))
    }

    /// True if the first read at the end of the stream decodes the whole stream, and leaves a seek table for
    /// the next mount.
    fn costs_a_pass(&self) -> bool {
        self.inner().is_some_and(Sequential::costs_a_pass)
    }
}

/// A part of the decoded bytes that can be decoded without the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Number of the chunk, from 0, in decoded order.
    pub index: u64,
    /// Offset in the decoded bytes.
    pub offset: u64,
    /// Decoded length.
    pub len: u64,
}

/// Encoded bytes that consist of independent chunks.
pub trait Chunks: Send + Sync + std::fmt::Debug {
    /// Returns the chunk that contains decoded byte `offset`; `None` past the end of the existing data.
    fn find(&self, offset: u64) -> Result<Option<Chunk>>;

    /// True if damage to a chunk affects that chunk alone, so that data after it can be read.
    fn stand_alone(&self) -> bool {
        false
    }

    /// Returns the end of the damaged range that starts at byte `from` of a chunk. Called only if chunks
    /// stand alone. If a chunk itself consists of independent parts, [`find`](Self::find) must return other
    /// chunks for the bytes after that range.
    fn lost_end(&self, chunk: Chunk, from: u64) -> u64 {
        let _ = from;
        chunk.offset.saturating_add(chunk.len)
    }

    /// Decodes a chunk into `out`, replacing its contents: exactly `chunk.len` bytes, or an error.
    ///
    /// After an error `out` holds the bytes before the damage that are known to be right.
    fn decode(&self, chunk: Chunk, out: &mut Vec<u8>) -> Result<()>;

    /// True if [`decode_start`](Self::decode_start) costs less than [`decode`](Self::decode), because the stored bytes
    /// come from a server.
    fn is_cheaper_in_part(&self) -> bool {
        false
    }

    /// Decodes the first `len` bytes of a chunk into `out`; false if that is not supported, or the chunk is shorter.
    fn decode_start(&self, chunk: Chunk, len: u64, out: &mut Vec<u8>) -> Result<bool> {
        let _ = (chunk, len, out);
        Ok(false)
    }

    /// Creates a decoder of one chunk. It replaces `decode` for a chunk longer than [`WHOLE`], which is not
    /// held in memory as a whole.
    ///
    /// The default nevertheless decodes the chunk as a whole.
    fn start(&self, chunk: Chunk) -> Result<Box<dyn Decoder>> {
        Ok(Box::new(decoded_chunk::DecodedChunk::decode(self, chunk)?))
    }

    /// Returns the memory in bytes that [`start`](Self::start) needs, in addition to the cached data.
    ///
    /// The default is for a chunk that is decoded as a whole: its decoded bytes, as many again for
    /// unshuffling, and its stored bytes, which may be as many.
    fn weight(&self, chunk: Chunk) -> u64 {
        chunk.len.saturating_mul(3)
    }
}
