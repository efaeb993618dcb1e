//! Decoding at any offset, with bounded memory, for readers that come and go.
//!
//! A codec is one of two things: a stream that is decoded from its start or from a checkpoint
//! ([`Sequential`]), or pieces that are decoded apart ([`Chunks`]). [`Decoded`] makes a
//! [`Content`](crate::content::Content) of either. It decodes each unit once for all its readers, detects
//! sequential readers from their offsets and decodes ahead of them, and keeps what it decoded in the mount's
//! [`Cache`](crate::cache::Cache). Decoders that wait for the next read are kept in [`IdleDecoders`].

mod decoded;
mod depth;
mod held;
mod idle;
mod part;

use std::fmt;

use crate::error::Result;

pub use decoded::Decoded;
pub(crate) use depth::Depth;
pub(crate) use idle::IdleDecoders;
pub use part::Part;

/// Bytes of a stream that are decoded and kept together.
///
/// Small enough that a read somewhere costs little more than what it needs, and that the unit is
/// still in the processor's cache when it is copied to the reader; large enough that the steps
/// around the decoder (a lock, an entry in the cache) are nothing beside its work.
pub const UNIT: u64 = 256 << 10;

/// A piece longer than this is never decoded whole, but as a stream of its own.
pub const WHOLE: u64 = 8 << 20;

/// Decodes a stream from its start, once.
pub trait Decoder: Send {
    /// Writes the next decoded bytes to `out` and says how many; 0 is the end of the stream.
    ///
    /// An error is given only after every byte before the damage was handed out.
    fn read(&mut self, out: &mut [u8]) -> Result<usize>;

    /// After an error: the decoded offset from which on bytes that were already given are in doubt, because a
    /// checksum over them is wrong.
    fn suspect(&self) -> Option<u64> {
        None
    }

    /// Announces that all bytes up to this decoded offset will be read, so that several parts may be decoded at
    /// once if it is far.
    fn wanted(&mut self, until: u64) {
        let _ = until;
    }

    /// Bytes of memory that it takes up while it waits for the next read, roughly.
    fn weight(&self) -> u64 {
        256 << 10
    }

    /// Whether a new decoder would reach its place soon.
    fn is_soon_there(&self) -> bool {
        false
    }
}

/// An encoded stream that can be decoded from its start, as often as needed, and perhaps from other
/// places.
pub trait Sequential: Send + Sync + fmt::Debug {
    /// A new decoder that stands at decoded offset 0.
    fn start(&self) -> Result<Box<dyn Decoder>>;

    /// Finds places up to `wanted` from which it can be decoded, as far as that needs no decoding.
    fn look_ahead(&self, wanted: u64) {
        let _ = wanted;
    }

    /// The last decoded offset at or before `wanted` from which it can be decoded without what is before.
    fn nearest(&self, wanted: u64) -> u64 {
        let _ = wanted;
        0
    }

    /// Bytes of memory that decoding takes up, beside what it is for.
    fn weight(&self) -> u64 {
        1 << 20
    }

    /// A new decoder that stands at this decoded offset; it begins at the [`nearest`](Self::nearest) one.
    fn start_at(&self, at: u64) -> Result<Box<dyn Decoder>> {
        let _ = at;
        self.start()
    }

    /// Whether the first read at its end decodes all of it, and leaves a seek table for the next mount.
    fn costs_a_pass(&self) -> bool {
        false
    }
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

    /// Whether damage to a chunk is that chunk's alone, and what lies behind it can be read.
    fn stand_alone(&self) -> bool {
        false
    }

    /// Where the bytes end that are lost with byte `from` of a chunk, where damage stands alone: a chunk may be made of
    /// parts that stand alone, too. [`find`](Self::find) has to give other chunks for the bytes behind.
    fn lost_end(&self, chunk: Chunk, from: u64) -> u64 {
        let _ = from;
        chunk.offset.saturating_add(chunk.len)
    }

    /// Decodes a chunk into `out`, whatever it held before: exactly `chunk.len` bytes, or an error.
    ///
    /// On an error `out` holds the bytes before the damage that are known to be right.
    fn decode(&self, chunk: Chunk, out: &mut Vec<u8>) -> Result<()>;

    /// A decoder of one chunk; asked for instead of `decode` when the chunk is longer than
    /// [`WHOLE`], so that it is not held in memory as a whole.
    ///
    /// The default decodes the chunk as a whole nevertheless.
    fn start(&self, chunk: Chunk) -> Result<Box<dyn Decoder>> {
        Ok(Box::new(held::Held::decode(self, chunk)?))
    }

    /// Bytes of memory that [`start`](Self::start) takes up, beside what is kept between two uses.
    ///
    /// Where the chunk is decoded as a whole: its decoded bytes, as much again for a shuffle, and its stored
    /// bytes, which may be as many.
    fn weight(&self, chunk: Chunk) -> u64 {
        chunk.len.saturating_mul(3)
    }
}
