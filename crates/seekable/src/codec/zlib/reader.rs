//! A reader that decodes a zlib stream from a position on.
//!
//! By itself the reader decodes with a [`Pass`], in small steps. If segments are decoded ahead, it decodes up
//! to the first of them and then takes them in order while each begins where the last one ends. If one does
//! not, the reader decodes up to the next one itself. The markers of a segment are replaced when its bytes
//! are copied out.

use std::collections::VecDeque;
use std::sync::Arc;

use super::ahead::{self, QueuedSegment, SegmentQueue, SpanTask, Threads};
use super::checkpoint::PackedCheckpoint;
use super::table::ZlibTable;
use crate::codec::deflate::{
    Block, Checkpoint, Ending, Fault, Inflate, Pass, Piece, PieceRequest, Position, Resolver, Stop, WINDOW,
    zlib,
};
use crate::codec::seek::SegmentReader;
use crate::decode::{Depth, GRANULE};
use crate::error::{Error, Result};

/// Memory of a pass in bytes.
const PASS: u64 = 640 << 10;

/// Memory of a resolver in bytes.
const RESOLVER: u64 = 1 << 16;

/// Output bytes decoded after a checkpoint to find the window bytes that it needs (`deflate/probe.rs`).
const PROBE: usize = WINDOW;

pub(super) struct ZlibReader {
    zlib: Arc<ZlibTable>,
    /// Start of the next segment.
    here: Position,
    /// The output before `here`, unless `pass` holds it.
    window: Vec<u8>,
    pass: Option<Pass>,
    /// The offset up to which checkpoints exist, so that the pass makes none.
    known_to: Option<u64>,
    /// True if a block that a `BlockFinder` finds begins at `here`.
    at_block: bool,
    ahead: SegmentQueue,
    depth: Depth,
    /// Offset of the last checkpoint that the reader knows.
    marked: u64,
    /// The decoded piece that is being copied to the caller.
    copying: Option<PieceCopy>,
    /// The next step after the last segment.
    then: NextStep,
    /// The reader's number in [`FairShare`](crate::cache::FairShare).
    number: u64,
}

/// A decoded [`Piece`] that is copied to the caller in several steps.
struct PieceCopy {
    piece: Box<Piece>,
    resolver: Box<Resolver>,
    /// Decoded offset of the next byte to copy.
    offset: u64,
    /// Number of bytes of `piece` copied so far.
    copied: usize,
    /// The checkpoints of `piece` from `offset` on.
    checkpoints: VecDeque<Checkpoint>,
}

enum NextStep {
    Begin,
    More,
    End,
    Fault(Fault),
    Ended,
}

impl ZlibReader {
    /// Returns a reader that starts at `here`; `window` is the output before it.
    pub(super) fn new(zlib: Arc<ZlibTable>, here: Position, window: Vec<u8>) -> Self {
        let number = zlib.cache.fair_share().number();
        Self {
            zlib,
            here,
            window,
            pass: None,
            known_to: None,
            at_block: false,
            ahead: SegmentQueue::default(),
            depth: Depth::default(),
            marked: here.offset,
            copying: None,
            then: NextStep::Begin,
            number,
        }
    }

    /// Decodes the next segment; returns its start in `out`, or `None` for a piece that is copied out later.
    fn next_segment(&mut self, out: &mut Vec<u8>) -> Result<Option<usize>> {
        let threads = self.threads();
        self.ahead.fill(&self.zlib, self.here, &self.depth, threads);
        while let Some(front) = self.ahead.entries.front() {
            if let Some(pass) = self.pass.take() {
                self.window = pass.window().to_vec();
            }
            match *front {
                QueuedSegment::Span { start, .. } if start.offset > self.here.offset => {
                    return self.decode_segment(u64::MAX, start.offset - self.here.offset, out).map(Some);
                }
                QueuedSegment::Piece { search_from, .. } if !self.at_block || self.here.bit < search_from => {
                    return self.decode_segment(search_from, u64::MAX, out).map(Some);
                }
                _ => {}
            }
            match self.ahead.entries.pop_front() {
                Some(QueuedSegment::Span { start, end, task }) => {
                    if let Some(start) = self.take_span(start, end, task, out) {
                        return Ok(Some(start));
                    }
                }
                // No thread has begun this piece. Decoding it here, with the window known, costs less.
                Some(QueuedSegment::Piece { task, .. }) if !task.has_begun() => {}
                Some(QueuedSegment::Piece { task, .. }) => {
                    if let Some((Some(piece), _reservation)) = task.take()
                        && self.take_piece(piece)
                    {
                        return Ok(None);
                    }
                }
                None => {}
            }
        }
        self.step(out).map(Some)
    }

    /// Returns the number of threads for this reader: concurrent streams divide them. The reader's own thread
    /// decodes without markers.
    fn threads(&self) -> Threads {
        let cache = &self.zlib.cache;
        let at = self.here.offset;
        // A reader without read-ahead takes no share from sequential readers.
        if self.depth.get(at, cache.threads()) == 0 {
            return Threads(1);
        }
        let readers = cache.fair_share().take(self.number);
        // Rounded: otherwise three readers would leave two of five threads idle.
        Threads(((cache.threads() + readers / 2) / readers).max(1))
    }

    /// Takes a span that was decoded ahead, if it begins at `here`; returns its start in `out`.
    fn take_span(
        &mut self,
        start: PackedCheckpoint,
        end: PackedCheckpoint,
        task: SpanTask,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let (span, _reservation) = if start.offset == self.here.offset { task.take()? } else { return None };
        let span = span?;
        let before = std::mem::replace(out, span.bytes);
        self.zlib.cache.used(Arc::new(before));
        self.window = out[out.len().saturating_sub(WINDOW)..].to_vec();
        (self.here, self.at_block, self.marked) = (end.position(), false, end.offset);
        Some(span.start)
    }

    /// Takes a piece to be copied out, if it begins at `here`.
    fn take_piece(&mut self, piece: Box<Piece>) -> bool {
        let mut resolver = self.zlib.cache.scratch::<Resolver>();
        resolver.know(&self.window);
        let fits = piece.start().bit == self.here.bit && self.here.block == Block::Between;
        // If a match reaches too far back, decoding without the piece finds the error, and the bytes before
        // it.
        let after =
            if fits && resolver.is_whole(&piece) { resolver.window_at(&piece, piece.len()) } else { None };
        let Some(after) = after else {
            ahead::give_back(&self.zlib, piece);
            self.zlib.cache.keep_scratch(resolver, RESOLVER);
            return false;
        };
        let offset = self.here.offset;
        let checkpoints = piece.checkpoints(offset, |passed| resolver.window_at(&piece, passed)).into();
        self.window = after;
        self.go_behind(&piece, piece.len());
        let copying = PieceCopy { piece, resolver, offset, copied: 0, checkpoints };
        // Zero bytes would mean the end of the stream.
        if copying.piece.is_empty() {
            self.take_back(copying);
        } else {
            self.copying = Some(copying);
        }
        true
    }

    /// Moves past a piece of `len` bytes.
    fn go_behind(&mut self, piece: &Piece, len: usize) {
        self.here = Position { offset: self.here.offset.saturating_add(len as u64), ..piece.end() };
        self.at_block = matches!(piece.ending(), Ending::Block);
        self.then = match piece.ending() {
            Ending::End => NextStep::End,
            Ending::Fault(fault) => NextStep::Fault(fault.clone()),
            Ending::Block | Ending::Full => NextStep::More,
        };
    }

    /// Copies out more of the current piece, as far as there is room.
    fn give(&mut self, out: &mut [u8]) -> Option<usize> {
        let copying = self.copying.as_mut()?;
        let len = copying.resolver.write(&copying.piece, copying.copied, out);
        let offset = copying.offset;
        copying.copied += len;
        copying.offset = offset.saturating_add(len as u64);
        let is_last = copying.copied == copying.piece.len();
        let lies_there = |checkpoint: &Checkpoint| is_last || checkpoint.position.offset < copying.offset;
        let count = copying.checkpoints.iter().take_while(|checkpoint| lies_there(checkpoint)).count();
        let checkpoints = copying.checkpoints.drain(..count).collect();
        self.note(checkpoints, offset, &out[..len]);
        if is_last && let Some(copying) = self.copying.take() {
            self.take_back(copying);
        }
        Some(len)
    }

    /// Gives the buffers of a piece back to the cache, for reuse.
    fn take_back(&self, PieceCopy { piece, resolver, .. }: PieceCopy) {
        ahead::give_back(&self.zlib, piece);
        self.zlib.cache.keep_scratch(resolver, RESOLVER);
    }

    /// Decodes up to the first block after bit `until`, up to `len` bytes, or up to the size of a segment.
    fn decode_segment(&mut self, until: u64, len: u64, out: &mut Vec<u8>) -> Result<usize> {
        let mut inflate = self.zlib.cache.scratch::<Inflate>();
        let mut piece = self.zlib.cache.scratch::<Piece>();
        let mut cap = usize::try_from(len.min(self.zlib.scale.segment)).unwrap_or(usize::MAX);
        // The distance is counted from the last checkpoint. Each piece that is decoded ahead begins with a
        // checkpoint at any offset. Of two checkpoints too close together only one would be kept, and a gap
        // would follow.
        let due = self.marked.saturating_add(self.zlib.scale.spacing).saturating_sub(self.here.offset).max(1);
        let due = usize::try_from(due).ok().filter(|due| *due < cap && len == u64::MAX);
        if let Some(due) = due {
            cap = due + PROBE;
        }
        let request = PieceRequest { start: self.here, until, cap, spacing: due.unwrap_or_default() };
        piece.decode(&mut inflate, &*self.zlib.stored, request, Some(&self.window));
        self.zlib.cache.keep_scratch(inflate, 128 << 10);
        let start = piece.exchange(out).ok_or_else(|| Error::damaged("a known window has no markers"))?;
        let window_at = |passed: usize| {
            let end = start + passed;
            out.get(end.saturating_sub(WINDOW)..end).map(<[u8]>::to_vec)
        };
        let offset = self.here.offset;
        let decoded_len = out.len() - start;
        self.note(piece.checkpoints(offset, window_at), offset, &out[start..]);
        self.window = out[out.len().saturating_sub(WINDOW)..].to_vec();
        self.go_behind(&piece, decoded_len);
        ahead::give_back(&self.zlib, piece);
        Ok(start)
    }

    /// Decodes a step, without segments from other threads.
    fn step(&mut self, out: &mut Vec<u8>) -> Result<usize> {
        if self.known_to.is_some_and(|known_to| known_to < self.here.offset)
            && let Some(pass) = self.pass.take()
        {
            self.window = pass.window().to_vec();
        }
        let pass = match &mut self.pass {
            Some(pass) => pass,
            None => {
                let pass = Pass::new(&*self.zlib.stored, self.here, &self.window)?;
                self.known_to = self.zlib.next_two(self.here.offset).0.map(|mark| mark.offset);
                let pass = match self.known_to {
                    Some(_) => pass,
                    None => {
                        let due = self.zlib.due(self.here.offset);
                        pass.with_checkpoints_from(due, self.zlib.scale.spacing)
                    }
                };
                self.window = Vec::new();
                self.pass.insert(pass)
            }
        };
        out.clear();
        let mut made = Vec::new();
        let offset = self.here.offset;
        while out.len() < GRANULE as usize {
            let (bytes, stop) = pass.step(&*self.zlib.stored);
            out.extend_from_slice(bytes);
            made.extend(pass.take_checkpoint());
            match stop {
                Ok(Stop::End) => self.then = NextStep::End,
                Err(fault) => self.then = NextStep::Fault(fault),
                Ok(_) => continue,
            }
            break;
        }
        self.here = pass.position();
        self.at_block = false;
        self.note(made, offset, out);
        Ok(0)
    }

    /// Adds the output at `offset`, with its checkpoints, to the table.
    fn note(&mut self, checkpoints: Vec<Checkpoint>, offset: u64, bytes: &[u8]) {
        let offsets: Vec<_> = checkpoints.iter().map(|checkpoint| checkpoint.position.offset).collect();
        self.marked = offsets.last().map_or(self.marked, |last| self.marked.max(*last));
        let crcs = self.zlib.add_output(offset, bytes, &offsets);
        if !checkpoints.is_empty() {
            self.zlib.note(checkpoints, crcs);
        }
    }

    /// Compares the checksum at the end of the stream.
    fn finish(&self) -> Result<()> {
        let stored = zlib::stored_checksum(&*self.zlib.stored, self.here)?;
        let summed = self.zlib.summed();
        if summed.len == self.here.offset {
            if summed.sum != stored {
                return Err(Error::damaged("the checksum of the zlib stream is wrong"));
            }
            self.zlib.ended(self.here.bit, summed);
        }
        Ok(())
    }
}

impl Drop for ZlibReader {
    fn drop(&mut self) {
        self.zlib.cache.fair_share().leave(self.number);
    }
}

impl SegmentReader for ZlibReader {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<Option<usize>> {
        if let Some(copying) = &self.copying {
            out.resize(copying.piece.len() - copying.copied, 0);
            self.give(out);
            return Ok(Some(0));
        }
        loop {
            match &self.then {
                NextStep::Begin => {
                    if self.here.offset == 0 {
                        zlib::Header::read(&*self.zlib.stored)?;
                    }
                    self.then = NextStep::More;
                }
                NextStep::More => {
                    let Some(start) = self.next_segment(out)? else {
                        // A piece of empty blocks is already passed.
                        let Some(copying) = &self.copying else { continue };
                        self.depth.note_read(copying.piece.len(), self.here.offset);
                        // `read` returns the bytes of the piece.
                        return Ok(Some(out.len()));
                    };
                    let len = out.len().saturating_sub(start);
                    if len > 0 {
                        self.depth.note_read(len, self.here.offset);
                        return Ok(Some(start));
                    }
                }
                NextStep::End => {
                    self.finish()?;
                    self.then = NextStep::Ended;
                }
                NextStep::Fault(fault) => return Err(fault.clone().into()),
                NextStep::Ended => return Ok(None),
            }
        }
    }

    fn read(&mut self, out: &mut [u8]) -> Option<Result<usize>> {
        self.give(out).map(Ok)
    }

    fn done(&mut self, out: Vec<u8>) {
        self.zlib.cache.used(Arc::new(out));
    }

    fn wanted(&mut self, until: u64) {
        self.depth.wanted(until);
    }

    fn weight(&self) -> u64 {
        let pass = if self.pass.is_some() { PASS } else { 0 };
        let copying = self.copying.as_ref().map_or(0, |copying| copying.piece.weight() as u64 + RESOLVER);
        pass + copying + self.window.capacity() as u64
    }

    fn bit(&self) -> Option<u64> {
        Some(match &self.then {
            NextStep::Fault(fault) => fault.bit,
            _ => self.here.bit,
        })
    }
}

#[cfg(test)]
mod tests;
