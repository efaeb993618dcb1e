//! Independent Blosc buffers, read as one content with one cache and one read-ahead.
//!
//! The format that stores the buffers in a file knows their positions and can verify their stored bytes
//! ([`Buffers`]). Damage to one buffer does not affect the others.
//!
//! Small buffers are decoded many at a time ([`DecodedRun`]). After a buffer of a run was found damaged, that
//! run is decoded buffer by buffer, so that the undamaged buffers can be read.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use super::{Buffer, Scratch};
use crate::cache::Cache;
use crate::content::Content;
use crate::decode::{Chunk, Chunks, Decoded, Part};
use crate::error::{Error, Kind, Result};
use crate::sync::{MutexGuard, locked};

/// A buffer of up to this many decoded bytes is decoded as a whole, by one thread.
const TOGETHER: u64 = 1 << 20;

/// Maximum number of decoded bytes in a run of several buffers.
pub const RUN_BYTES: u64 = 128 << 10;
/// Maximum number of buffers in a run: a read of a few bytes decodes all of them.
pub const RUN_BUFFERS: u64 = 256;

/// The decoded range of a buffer, or of a run of buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodedRun {
    /// Number of the first buffer.
    pub n: u64,
    /// Number of buffers.
    pub count: u64,
    /// Offset of the run's decoded bytes in the whole content.
    pub start: u64,
    /// Number of decoded bytes.
    pub len: u64,
}

/// A source of the buffers in a file.
pub trait Buffers: Send + Sync + std::fmt::Debug {
    /// Returns the buffer that holds decoded byte `offset`; `None` past the end.
    fn buffer_at(&self, offset: u64) -> Result<Option<DecodedRun>>;

    /// Returns the buffers that are decoded together with decoded byte `offset`: a run of small buffers, or
    /// the [buffer](Self::buffer_at) of a single one.
    fn run(&self, offset: u64) -> Result<Option<DecodedRun>> {
        self.buffer_at(offset)
    }

    /// Returns buffer `n`, whose decoded size must match [`buffer_at`](Self::buffer_at).
    fn buffer(&self, n: u64) -> Result<Buffer<'_>>;

    /// Fails unless the stored bytes of buffer `n` are right. Called before the buffer is decoded.
    fn admit(&self, n: u64) -> Result<()>;

    /// Checks the stored bytes of each buffer of a run, decodes the buffer, and appends the output to `out`.
    ///
    /// After an error, `out` ends with the right bytes before the damage.
    fn decode_run(&self, run: DecodedRun, scratch: &mut Scratch, out: &mut Vec<u8>) -> Result<()> {
        (run.n..run.n + run.count).try_for_each(|n| {
            let buffer = self.buffer(n)?;
            self.admit(n)?;
            buffer.decode(scratch, out)
        })
    }
}

/// The decoded bytes of all buffers, one after the other.
#[derive(Clone, Debug)]
pub struct Payload(Arc<Decoded>);

impl Payload {
    /// Returns the payload of `len` decoded bytes.
    pub fn new(buffers: Arc<dyn Buffers>, len: u64, cache: &Arc<Cache>) -> Self {
        Self(Decoded::pieces(PayloadChunks::new(buffers), len, cache).with_read_ahead())
    }

    /// Returns the whole payload as content.
    pub fn content(&self) -> Arc<dyn Content> {
        self.0.clone()
    }

    /// Returns a range of the payload. The range shares the payload's decoded chunks.
    pub fn part(&self, start: u64, len: u64) -> Arc<dyn Content> {
        Arc::new(Part::new(self.0.clone(), start, len))
    }

    /// Returns the known damage: the offset from which on bytes are damaged, and the reason.
    pub fn damage(&self) -> Vec<(u64, Error)> {
        self.0.lost()
    }
}

/// The chunks of a payload: whole buffers, runs of small ones, and pieces of large ones.
#[derive(Debug)]
pub(super) struct PayloadChunks {
    buffers: Arc<dyn Buffers>,
    /// The number of the first buffer of each run with a damaged buffer.
    damaged: Mutex<HashSet<u64>>,
}

impl PayloadChunks {
    pub(super) fn new(buffers: Arc<dyn Buffers>) -> Self {
        Self { buffers, damaged: Mutex::default() }
    }

    fn damaged(&self) -> MutexGuard<'_, HashSet<u64>> {
        locked(&self.damaged)
    }

    /// Returns the buffers that are decoded together with byte `offset`.
    fn run(&self, offset: u64) -> Result<Option<DecodedRun>> {
        match self.buffers.run(offset)? {
            Some(run) if run.count > 1 && self.damaged().contains(&run.n) => self.buffers.buffer_at(offset),
            run => Ok(run),
        }
    }

    /// Returns the length of the pieces in which a buffer is decoded. If the buffer can't be read, this is
    /// its whole length; decoding then reports the error.
    fn piece_len(&self, run: DecodedRun) -> Result<u64> {
        if run.count > 1 || run.len <= TOGETHER {
            return Ok(run.len);
        }
        match self.buffers.buffer(run.n) {
            Ok(buffer) => Ok(buffer.piece_len().into()),
            Err(error) if error.lasts() => Ok(run.len),
            Err(error) => Err(error),
        }
    }

    /// Decodes one piece of a buffer, or the whole buffer.
    fn decode_one(&self, run: DecodedRun, chunk: Chunk, out: &mut Vec<u8>) -> Result<()> {
        let buffer = self.buffers.buffer(run.n)?;
        self.buffers.admit(run.n)?;
        let within = chunk.offset.saturating_sub(run.start);
        let piece = u32::try_from(within / u64::from(buffer.piece_len())).unwrap_or(u32::MAX);
        Scratch::lend(|scratch| {
            if chunk.len == run.len {
                buffer.decode(scratch, out)
            } else {
                buffer.decode_piece(piece, scratch, out)
            }
        })
    }

    fn decode_several(&self, run: DecodedRun, out: &mut Vec<u8>) -> Result<()> {
        let result = Scratch::lend(|scratch| self.buffers.decode_run(run, scratch, out));
        if out.len() as u64 != run.len || result.as_ref().is_err_and(Error::lasts) {
            self.damaged().insert(run.n);
        }
        result
    }
}

impl Chunks for PayloadChunks {
    fn find(&self, offset: u64) -> Result<Option<Chunk>> {
        let Some(run) = self.run(offset)? else { return Ok(None) };
        let piece = self.piece_len(run)?;
        let start = (offset - run.start).checked_div(piece).unwrap_or(0) * piece;
        let len = piece.min(run.len - start);
        Ok(Some(Chunk { index: run.n, offset: run.start + start, len }))
    }

    fn stand_alone(&self) -> bool {
        true
    }

    fn lost_end(&self, chunk: Chunk, from: u64) -> u64 {
        let end = chunk.offset.saturating_add(chunk.len);
        match self.buffers.buffer_at(from) {
            Ok(Some(run)) => end.min(run.start.saturating_add(run.len)),
            _ => end,
        }
    }

    fn decode(&self, chunk: Chunk, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let changed = || Error::new(Kind::Changed, "the Blosc data have changed");
        let mut run = self.run(chunk.offset)?.filter(|run| run.n == chunk.index).ok_or_else(changed)?;
        if run.count == 1 && run.len < chunk.len {
            // Meanwhile another thread has found a damaged buffer in the run.
            run = self.buffers.run(chunk.offset)?.ok_or_else(changed)?;
        }
        match run.count {
            1 => self.decode_one(run, chunk, out).map_err(|error| error.in_block(run.n))?,
            _ => self.decode_several(run, out)?,
        }
        if out.len() as u64 == chunk.len {
            Ok(())
        } else {
            out.clear();
            Err(Error::new(Kind::Changed, "the Blosc data changed while they were read"))
        }
    }
}
