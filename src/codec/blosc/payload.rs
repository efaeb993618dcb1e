//! Blosc buffers that stand each for themselves, read as one content: one cache, one read-ahead.
//!
//! Where the buffers lie, and whether their stored bytes are what they were, is known to the format that put them
//! into a file ([`Buffers`]). Damage to a buffer is that buffer's alone.

use std::sync::Arc;

use super::{Buffer, Scratch};
use crate::cache::Cache;
use crate::content::Content;
use crate::decode::{Chunk, Chunks, Decoded, Part};
use crate::error::{Error, Kind, Result};

/// A buffer of at most so many decoded bytes is decoded in one go, by one thread.
const TOGETHER: u64 = 1 << 20;

/// The range of the decoded bytes that a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which buffer.
    pub n: u64,
    /// Where its bytes begin in the whole.
    pub start: u64,
    /// How many there are.
    pub len: u64,
}

/// Buffers in a file.
pub trait Buffers: Send + Sync + std::fmt::Debug {
    /// The buffer that holds decoded byte `offset`; `None` past the end.
    fn place(&self, offset: u64) -> Result<Option<Place>>;

    /// Buffer `n`, which has to decode to as many bytes as its place says.
    fn buffer(&self, n: u64) -> Result<Buffer>;

    /// An error unless the stored bytes of buffer `n` are right. Asked before any of them are decoded.
    fn admit(&self, n: u64) -> Result<()>;
}

/// What buffers decode to, one after the other.
#[derive(Clone, Debug)]
pub struct Payload(Arc<Decoded>);

impl Payload {
    /// The payload of so many bytes.
    pub fn new(buffers: Arc<dyn Buffers>, len: u64, cache: &Arc<Cache>) -> Self {
        Self(Decoded::pieces(Row(buffers), len, cache).with_read_ahead(None))
    }

    /// All of it.
    pub fn content(&self) -> Arc<dyn Content> {
        self.0.clone()
    }

    /// A range of it. Both share what is decoded.
    pub fn part(&self, start: u64, len: u64) -> Arc<dyn Content> {
        Arc::new(Part::new(self.0.clone(), start, len))
    }

    /// What is known to be damaged: from which byte on, and why.
    pub fn damage(&self) -> Vec<(u64, Error)> {
        self.0.lost()
    }
}

#[derive(Debug)]
struct Row(Arc<dyn Buffers>);

impl Row {
    /// The pieces that a buffer is decoded in are this long. All of it if the buffer can't be had: that is found
    /// out when it is decoded.
    fn piece_len(&self, place: Place) -> Result<u64> {
        if place.len <= TOGETHER {
            return Ok(place.len);
        }
        match self.0.buffer(place.n) {
            Ok(buffer) => Ok(buffer.piece_len().into()),
            Err(error) if error.lasts() => Ok(place.len),
            Err(error) => Err(error),
        }
    }

    /// Decodes one piece of a buffer, which may be all of it.
    fn decode_into(&self, place: Place, chunk: Chunk, out: &mut Vec<u8>) -> Result<()> {
        let buffer = self.0.buffer(place.n)?;
        self.0.admit(place.n)?;
        let within = chunk.offset.saturating_sub(place.start);
        let piece = u32::try_from(within / u64::from(buffer.piece_len())).unwrap_or(u32::MAX);
        Scratch::lend(|scratch| match chunk.len == place.len {
            true => buffer.decode(scratch, out),
            false => buffer.decode_piece(piece, scratch, out),
        })
    }
}

impl Chunks for Row {
    fn find(&self, offset: u64) -> Result<Option<Chunk>> {
        let Some(place) = self.0.place(offset)? else { return Ok(None) };
        let piece = self.piece_len(place)?;
        let start = (offset - place.start).checked_div(piece).unwrap_or(0) * piece;
        let len = piece.min(place.len - start);
        Ok(Some(Chunk { index: place.n, offset: place.start + start, len }))
    }

    fn stand_alone(&self) -> bool {
        true
    }

    fn decode(&self, chunk: Chunk, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let place = self.0.place(chunk.offset)?.filter(|place| place.n == chunk.index);
        let Some(place) = place else {
            return Err(Error::new(Kind::Changed, "the Blosc data are no longer what they were"));
        };
        self.decode_into(place, chunk, out).map_err(|error| error.in_block(place.n))?;
        if out.len() as u64 == chunk.len {
            Ok(())
        } else {
            out.clear();
            Err(Error::new(Kind::Changed, "the Blosc data changed while they were read"))
        }
    }
}
