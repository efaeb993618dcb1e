//! The segments of a stream that other threads decode ahead of a reader.
//!
//! Between two checkpoints a segment is decoded directly. Past the last checkpoint the stream is cut at
//! compressed bits into pieces ([`Piece`]): after each cut a block is searched and decoded, with markers for
//! the bytes of the unknown window, up to the first block after the next cut. Only when the reader reaches a
//! position found by the search is the position known to be the start of a block.
//!
//! Decoding with markers and replacing them costs a fifth more than decoding with a known window, as the
//! reader does. With few threads the reader therefore decodes some of the stream itself ([`Threads`]): a gap
//! between the pieces is left for it.

use std::collections::VecDeque;
use std::sync::Arc;

use super::checkpoint::PackedCheckpoint;
use super::table::ZlibTable;
use crate::cache::{Reservation, Task};
use crate::codec::deflate::{BlockFinder, Ending, Inflate, Piece, PieceRequest, Position, WINDOW};
use crate::decode::Depth;

/// Maximum number of threads with which the reader decodes some of the stream itself. With more threads it
/// mostly replaces the markers, which stand for unknown bytes, in the output of the other threads.
const FEW: usize = 4;

/// Maximum output of a [`Piece`], as a multiple of the intended output; the size is known only after
/// decoding.
const CAP: u64 = 3;

/// Memory of a [`Piece`] per byte of intended output: symbols of two bytes, and room.
const PIECE_WEIGHT: u64 = 6;

/// Maximum number of compressed bits in a [`Piece`], for streams that hardly compress.
const MAX_BITS: u64 = 8 << 22;

/// Memory of a decoder in bytes.
pub(super) const INFLATE: u64 = 128 << 10;

/// Memory of a [`Piece`] besides its output, in bytes.
const PIECE: u64 = 320 << 10;

/// Number of threads that work for a reader, its own included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Threads(pub(super) usize);

impl Threads {
    /// True if the reader decodes some of the stream itself. With more threads it mostly replaces markers.
    fn are_few(self) -> bool {
        self.0 <= FEW
    }

    /// Returns the number of segments decoded at a time: one more if a gap is left to the reader.
    fn depth(self, depth: &Depth, at: u64) -> usize {
        match depth.get(at, self.0) {
            0 => 0,
            depth => depth + usize::from(self.are_few()),
        }
    }
}

/// The segments being decoded, in stream order.
#[derive(Default)]
pub(super) struct SegmentQueue {
    pub(super) entries: VecDeque<QueuedSegment>,
    /// Number of pieces since the last gap that was left to the reader.
    pieces_since_gap: usize,
}

pub(super) type SpanTask = Task<(Option<Output>, Reservation)>;

/// A segment that is being decoded.
pub(super) enum QueuedSegment {
    /// From a checkpoint to the next.
    Span { start: PackedCheckpoint, end: PackedCheckpoint, task: SpanTask },
    /// From a block after `search_from` to a block after `until`.
    Piece { search_from: u64, until: u64, task: Task<(Option<Box<Piece>>, Reservation)> },
}

/// Output, with the window before it.
pub(super) struct Output {
    pub(super) bytes: Vec<u8>,
    /// Start of the output in `bytes`.
    pub(super) start: usize,
}

impl SegmentQueue {
    /// Starts further segments, as many as `depth` allows on `threads` threads and the cache has room for.
    pub(super) fn fill(&mut self, zlib: &Arc<ZlibTable>, here: Position, depth: &Depth, threads: Threads) {
        let depth = threads.depth(depth, here.offset);
        while self.entries.len() < depth {
            let entry = match self.entries.back() {
                Some(QueuedSegment::Piece { until, .. }) => {
                    let until = *until;
                    let bits = bits(zlib, here);
                    let search_from = until.saturating_add(self.gap(threads, bits));
                    piece(zlib, search_from, bits)
                }
                Some(QueuedSegment::Span { end, .. }) => from(zlib, end.position(), here),
                None => from(zlib, here, here),
            };
            match entry {
                Some(entry) => self.entries.push_back(entry),
                None => return,
            }
        }
    }

    /// Returns the number of bits left to the reader after the last piece; `bits` is the size of a piece.
    fn gap(&mut self, threads: Threads, bits: u64) -> u64 {
        self.pieces_since_gap += 1;
        if !threads.are_few() || self.pieces_since_gap + 1 < threads.0 {
            return 0;
        }
        self.pieces_since_gap = 0;
        bits
    }
}

/// Returns the next segment after `position`, for a reader at `here`.
fn from(zlib: &Arc<ZlibTable>, position: Position, here: Position) -> Option<QueuedSegment> {
    match zlib.next_two(position.offset) {
        (Some(start), Some(end)) => span(zlib, start, end),
        (last, _) => {
            let position = last.map_or(position, |last| last.position());
            let bits = bits(zlib, here);
            piece(zlib, position.bit.saturating_add(bits), bits)
        }
    }
}

/// Returns the intended number of compressed bits in a piece.
fn bits(zlib: &ZlibTable, here: Position) -> u64 {
    let ratio = here.bit as f64 / here.offset.max(1) as f64;
    let bits = (zlib.scale.segment as f64 * ratio) as u64;
    bits.clamp(zlib.scale.least_bits, MAX_BITS.max(zlib.scale.least_bits))
}

fn span(zlib: &Arc<ZlibTable>, start: PackedCheckpoint, end: PackedCheckpoint) -> Option<QueuedSegment> {
    let len = end.offset.checked_sub(start.offset)?;
    let reservation = zlib.cache.reserve(len.saturating_add(WINDOW as u64 + INFLATE))?;
    let len = usize::try_from(len).ok()?;
    let theirs = zlib.clone();
    let task = zlib.cache.task(move || (decode_span(&theirs, start, len), reservation));
    Some(QueuedSegment::Span { start, end, task })
}

fn decode_span(zlib: &ZlibTable, start: PackedCheckpoint, len: usize) -> Option<Output> {
    let mut bytes = zlib.cache.buffer(len + WINDOW);
    zlib.window(&start, &mut bytes)?;
    let window = bytes.len();
    let mut inflate = zlib.cache.scratch::<Inflate>();
    let decoded = inflate.decode_from(&*zlib.stored, start.position(), &mut bytes, len);
    zlib.cache.keep_scratch(inflate, INFLATE);
    decoded.is_ok().then_some(Output { bytes, start: window })
}

fn piece(zlib: &Arc<ZlibTable>, search_from: u64, bits: u64) -> Option<QueuedSegment> {
    let end = zlib.stored.len().checked_mul(8)?;
    let until = search_from.checked_add(bits)?;
    if search_from >= end {
        return None;
    }
    let reservation = zlib.cache.reserve(PIECE_WEIGHT * zlib.scale.segment + INFLATE)?;
    let theirs = zlib.clone();
    let task = zlib.cache.task(move || (find_and_decode(&theirs, search_from, until), reservation));
    Some(QueuedSegment::Piece { search_from, until, task })
}

fn find_and_decode(zlib: &ZlibTable, search_from: u64, until: u64) -> Option<Box<Piece>> {
    let start = BlockFinder::new().find(&*zlib.stored, search_from, until).ok()??;
    let mut inflate = zlib.cache.scratch::<Inflate>();
    let mut piece = zlib.cache.scratch::<Piece>();
    let request = PieceRequest {
        start: Position::block_at(start, 0),
        until,
        cap: usize::try_from(zlib.scale.segment * CAP).unwrap_or(usize::MAX),
        spacing: usize::try_from(zlib.scale.spacing).unwrap_or(usize::MAX),
    };
    piece.decode(&mut inflate, &*zlib.stored, request, None);
    zlib.cache.keep_scratch(inflate, INFLATE);
    if let Ending::Fault(_) = piece.ending() {
        give_back(zlib, piece);
        return None;
    }
    Some(piece)
}

/// Gives the buffers of a piece back to the cache, for reuse.
pub(super) fn give_back(zlib: &ZlibTable, piece: Box<Piece>) {
    let weight = piece.weight() as u64 + PIECE;
    zlib.cache.keep_scratch(piece, weight);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_few_threads_the_reader_decodes_a_share_too() {
        let gaps = |threads| {
            let mut ahead = SegmentQueue::default();
            (0..6).map(|_| ahead.gap(Threads(threads), 1)).collect::<Vec<_>>()
        };
        assert_eq!(gaps(2), [1, 1, 1, 1, 1, 1]);
        assert_eq!(gaps(3), [0, 1, 0, 1, 0, 1]);
        assert_eq!(gaps(4), [0, 0, 1, 0, 0, 1]);
        assert_eq!(gaps(5), [0; 6]);
    }
}
