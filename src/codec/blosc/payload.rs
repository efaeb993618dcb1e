//! Blosc buffers that stand each for themselves, read as one content: one cache, one read-ahead.
//!
//! Where the buffers lie, and whether their stored bytes are what they were, is known to the format that put them
//! into a file ([`Buffers`]). Damage to a buffer is that buffer's alone.
//!
//! Small buffers are decoded many at a time ([`Run`]). A run in which a buffer turned out to be damaged is decoded
//! buffer by buffer from then on, so that the others can be read.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Buffer, Scratch};
use crate::cache::Cache;
use crate::content::Content;
use crate::decode::{Chunk, Chunks, Decoded, Part};
use crate::error::{Error, Kind, Result};

/// A buffer of at most so many decoded bytes is decoded in one go, by one thread.
const TOGETHER: u64 = 1 << 20;

/// Most decoded bytes of a run of several buffers.
pub const RUN_BYTES: u64 = 128 << 10;
/// Most buffers of a run: a read of a few bytes decodes all of them.
pub const RUN_BUFFERS: u64 = 256;

/// The range of the decoded bytes that a buffer, or a run of buffers, holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first buffer.
    pub n: u64,
    /// How many buffers there are.
    pub count: u64,
    /// Where their bytes begin in the whole.
    pub start: u64,
    /// How many bytes there are.
    pub len: u64,
}

/// Buffers in a file.
pub trait Buffers: Send + Sync + std::fmt::Debug {
    /// The buffer that holds decoded byte `offset`; `None` past the end.
    fn place(&self, offset: u64) -> Result<Option<Run>>;

    /// The small buffers around decoded byte `offset` that are decoded with it; [`place`](Self::place) where it is
    /// decoded alone.
    fn run(&self, offset: u64) -> Result<Option<Run>> {
        self.place(offset)
    }

    /// Buffer `n`, which has to decode to as many bytes as its place says.
    fn buffer(&self, n: u64) -> Result<Buffer<'_>>;

    /// An error unless the stored bytes of buffer `n` are right. Asked before any of them are decoded.
    fn admit(&self, n: u64) -> Result<()>;

    /// Appends what the buffers of a run of several decode to, after their stored bytes were found right.
    ///
    /// On an error, what was appended are the right bytes before the damage.
    fn decode_run(&self, run: Run, scratch: &mut Scratch, out: &mut Vec<u8>) -> Result<()> {
        (run.n..run.n + run.count).try_for_each(|n| {
            let buffer = self.buffer(n)?;
            self.admit(n)?;
            buffer.decode(scratch, out)
        })
    }
}

/// What buffers decode to, one after the other.
#[derive(Clone, Debug)]
pub struct Payload(Arc<Decoded>);

impl Payload {
    /// The payload of so many bytes.
    pub fn new(buffers: Arc<dyn Buffers>, len: u64, cache: &Arc<Cache>) -> Self {
        let row = Row { buffers, damaged: Mutex::default() };
        Self(Decoded::pieces(row, len, cache).with_read_ahead())
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
struct Row {
    buffers: Arc<dyn Buffers>,
    /// The first buffers of the runs in which one is damaged.
    damaged: Mutex<HashSet<u64>>,
}

impl Row {
    fn damaged(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The buffers that are decoded together with byte `offset`.
    fn run(&self, offset: u64) -> Result<Option<Run>> {
        match self.buffers.run(offset)? {
            Some(run) if run.count > 1 && self.damaged().contains(&run.n) => self.buffers.place(offset),
            run => Ok(run),
        }
    }

    /// The pieces that a buffer is decoded in are this long. All of it if the buffer can't be had: that is found
    /// out when it is decoded.
    fn piece_len(&self, run: Run) -> Result<u64> {
        if run.count > 1 || run.len <= TOGETHER {
            return Ok(run.len);
        }
        match self.buffers.buffer(run.n) {
            Ok(buffer) => Ok(buffer.piece_len().into()),
            Err(error) if error.lasts() => Ok(run.len),
            Err(error) => Err(error),
        }
    }

    /// Decodes one piece of a buffer, which may be all of it.
    fn decode_one(&self, run: Run, chunk: Chunk, out: &mut Vec<u8>) -> Result<()> {
        let buffer = self.buffers.buffer(run.n)?;
        self.buffers.admit(run.n)?;
        let within = chunk.offset.saturating_sub(run.start);
        let piece = u32::try_from(within / u64::from(buffer.piece_len())).unwrap_or(u32::MAX);
        Scratch::lend(|scratch| match chunk.len == run.len {
            true => buffer.decode(scratch, out),
            false => buffer.decode_piece(piece, scratch, out),
        })
    }

    fn decode_several(&self, run: Run, out: &mut Vec<u8>) -> Result<()> {
        let result = Scratch::lend(|scratch| self.buffers.decode_run(run, scratch, out));
        if out.len() as u64 != run.len || result.as_ref().is_err_and(Error::lasts) {
            self.damaged().insert(run.n);
        }
        result
    }
}

impl Chunks for Row {
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
        match self.buffers.place(from) {
            Ok(Some(place)) => end.min(place.start.saturating_add(place.len)),
            _ => end,
        }
    }

    fn decode(&self, chunk: Chunk, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let changed = || Error::new(Kind::Changed, "the Blosc data are no longer what they were");
        let mut run = self.run(chunk.offset)?.filter(|run| run.n == chunk.index).ok_or_else(changed)?;
        if run.count == 1 && run.len < chunk.len {
            // Another thread found a damaged buffer in the run meanwhile.
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
