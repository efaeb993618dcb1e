//! A way through a stream from a place on.
//!
//! Alone it decodes with a [`Pass`], in small steps. When stretches are decoded ahead of it, it goes up
//! to where the first of them begins, and takes them one after the other as far as they fit; where one
//! doesn't, it decodes on by itself up to the next. What a stretch has of markers is replaced as it is given.

use std::collections::VecDeque;
use std::sync::Arc;

use super::ahead::{self, QueuedSegment, SegmentQueue, SpanTask, Threads};
use super::checkpoint::PackedCheckpoint;
use super::table::ZlibTable;
use crate::codec::deflate::{Block, Checkpoint, Ending, Fault, Inflate, Pass, Piece, Position};
use crate::codec::deflate::{PieceRequest, Resolver, Stop, WINDOW, zlib};
use crate::codec::seek::{Depth, SegmentReader};
use crate::decode::UNIT;
use crate::error::{Error, Result};

/// Bytes of a pass.
const PASS: u64 = 640 << 10;

/// Bytes of a resolver.
const RESOLVER: u64 = 1 << 16;

/// What making a checkpoint decodes behind it.
const PROBE: usize = WINDOW;

pub(super) struct ZlibReader {
    zlib: Arc<ZlibTable>,
    /// Where the next stretch begins.
    here: Position,
    /// The output before it, unless the pass has it.
    window: Vec<u8>,
    pass: Option<Pass>,
    /// The pass makes no checkpoints, for there are some up to this offset.
    known_to: Option<u64>,
    /// A block begins here that a finder finds.
    at_block: bool,
    ahead: SegmentQueue,
    depth: Depth,
    /// Where the last checkpoint lies that it knows of.
    marked: u64,
    /// The stretch that is being given.
    giving: Option<Giving>,
    /// What comes after the stretch that was given last.
    then: Then,
    /// Its number among those who take turns.
    number: u64,
}

/// A piece that lies where the walk was, given by and by.
struct Giving {
    piece: Box<Piece>,
    resolver: Box<Resolver>,
    /// The decoded offset of what comes next, and how much of the piece came before it.
    offset: u64,
    given: usize,
    /// Those that lie there or behind.
    checkpoints: VecDeque<Checkpoint>,
}

enum Then {
    Begin,
    More,
    End,
    Fault(Fault),
    Ended,
}

impl ZlibReader {
    /// A walk that begins at a place, with the window before it.
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
            giving: None,
            then: Then::Begin,
            number,
        }
    }

    /// Goes on by a stretch; where it begins in `out`, unless it is a piece to be given.
    fn stretch(&mut self, out: &mut Vec<u8>) -> Result<Option<usize>> {
        let threads = self.threads();
        self.ahead.fill(&self.zlib, self.here, &self.depth, threads);
        while let Some(front) = self.ahead.front() {
            if let Some(pass) = self.pass.take() {
                self.window = pass.window().to_vec();
            }
            match *front {
                QueuedSegment::Span { start, .. } if start.offset > self.here.offset => {
                    return self.alone(u64::MAX, start.offset - self.here.offset, out).map(Some);
                }
                QueuedSegment::Piece { cut, .. } if !self.at_block || self.here.bit < cut => {
                    return self.alone(cut, u64::MAX, out).map(Some);
                }
                _ => {}
            }
            match self.ahead.pop() {
                Some(QueuedSegment::Span { start, end, task }) => {
                    if let Some(start) = self.take_span(start, end, task, out) {
                        return Ok(Some(start));
                    }
                }
                // Nobody has begun with it: what is known before it makes it easier here.
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

    /// How many threads are for it: where several streams are decoded at the same time each has its share. What
    /// is left to its own thread then spares the markers.
    fn threads(&self) -> Threads {
        let (cache, at) = (&self.zlib.cache, self.here.offset);
        // Who wants but little here has nothing decoded ahead, and takes no share from those who read on.
        if self.depth.get(at, cache.threads()) == 0 {
            return Threads(1);
        }
        let walks = cache.fair_share().take(self.number);
        // To the nearest whole: else of five threads three walks would leave two without work.
        Threads(((cache.threads() + walks / 2) / walks).max(1))
    }

    /// Takes a span that was decoded ahead, if it begins here; where in `out` it does.
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
        (self.here, self.at_block, self.marked) = (end.place(), false, end.offset);
        Some(span.start)
    }

    /// Takes a piece, to be given, if it begins here.
    fn take_piece(&mut self, piece: Box<Piece>) -> bool {
        let mut resolver = self.zlib.cache.scratch::<Resolver>();
        resolver.know(&self.window);
        let fits = piece.start().bit == self.here.bit && self.here.block == Block::Between;
        // Where a match reaches too far, going on alone finds it as well, and the bytes before it.
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
        let giving = Giving { piece, resolver, offset, given: 0, checkpoints };
        // Who reads nothing takes that for the end of the stream.
        if giving.piece.is_empty() {
            self.take_back(giving)
        } else {
            self.giving = Some(giving)
        }
        true
    }

    /// Stands behind a piece now, which has so many bytes.
    fn go_behind(&mut self, piece: &Piece, len: usize) {
        self.here = Position { offset: self.here.offset.saturating_add(len as u64), ..piece.end() };
        self.at_block = matches!(piece.ending(), Ending::Block);
        self.then = match piece.ending() {
            Ending::End => Then::End,
            Ending::Fault(fault) => Then::Fault(fault.clone()),
            Ending::Block | Ending::Full => Then::More,
        };
    }

    /// Gives what comes next of the piece that is being given, as much as there is room for.
    fn give(&mut self, out: &mut [u8]) -> Option<usize> {
        let giving = self.giving.as_mut()?;
        let len = giving.resolver.write(&giving.piece, giving.given, out);
        let offset = giving.offset;
        giving.given += len;
        giving.offset = offset.saturating_add(len as u64);
        let is_last = giving.given == giving.piece.len();
        let lies_there = |checkpoint: &Checkpoint| is_last || checkpoint.place.offset < giving.offset;
        let count = giving.checkpoints.iter().take_while(|checkpoint| lies_there(checkpoint)).count();
        let checkpoints = giving.checkpoints.drain(..count).collect();
        self.note(checkpoints, offset, &out[..len]);
        if is_last && let Some(giving) = self.giving.take() {
            self.take_back(giving);
        }
        Some(len)
    }

    /// Lets the buffers of a piece that was given be used again.
    fn take_back(&self, Giving { piece, resolver, .. }: Giving) {
        ahead::give_back(&self.zlib, piece);
        self.zlib.cache.keep_scratch(resolver, RESOLVER);
    }

    /// Decodes up to the first block behind a bit, or a number of bytes, or a stretch at most.
    fn alone(&mut self, until: u64, len: u64, out: &mut Vec<u8>) -> Result<usize> {
        let mut inflate = self.zlib.cache.scratch::<Inflate>();
        let mut piece = self.zlib.cache.scratch::<Piece>();
        let mut cap = usize::try_from(len.min(self.zlib.scale.stretch)).unwrap_or(usize::MAX);
        // Counted from the last one: the pieces begin with one each, wherever that is, and two that are too near
        // to each other would be one, with a gap behind it.
        let due = self.marked.saturating_add(self.zlib.scale.spacing).saturating_sub(self.here.offset).max(1);
        let due = usize::try_from(due).ok().filter(|due| *due < cap && len == u64::MAX);
        if let Some(due) = due {
            cap = due + PROBE;
        }
        let stretch = PieceRequest { start: self.here, until, cap, spacing: due.unwrap_or_default() };
        piece.decode(&mut inflate, &*self.zlib.stored, stretch, Some(&self.window));
        self.zlib.cache.keep_scratch(inflate, 128 << 10);
        let start = piece.exchange(out).ok_or_else(|| Error::damaged("a known window has no markers"))?;
        let window_at = |passed: usize| {
            let end = start + passed;
            out.get(end.saturating_sub(WINDOW)..end).map(<[u8]>::to_vec)
        };
        let (offset, len) = (self.here.offset, out.len() - start);
        self.note(piece.checkpoints(offset, window_at), offset, &out[start..]);
        self.window = out[out.len().saturating_sub(WINDOW)..].to_vec();
        self.go_behind(&piece, len);
        ahead::give_back(&self.zlib, piece);
        Ok(start)
    }

    /// Decodes a step, alone.
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
        while out.len() < UNIT as usize {
            let (bytes, stop) = pass.step(&*self.zlib.stored);
            out.extend_from_slice(bytes);
            made.extend(pass.take_checkpoint());
            match stop {
                Ok(Stop::End) => self.then = Then::End,
                Err(fault) => self.then = Then::Fault(fault),
                Ok(_) => continue,
            }
            break;
        }
        self.here = pass.place();
        self.at_block = false;
        self.note(made, offset, out);
        Ok(0)
    }

    /// Takes what was decoded at `offset` into the table.
    fn note(&mut self, checkpoints: Vec<Checkpoint>, offset: u64, bytes: &[u8]) {
        let places: Vec<_> = checkpoints.iter().map(|checkpoint| checkpoint.place.offset).collect();
        self.marked = places.last().map_or(self.marked, |last| self.marked.max(*last));
        let sums = self.zlib.sum(offset, bytes, &places);
        if !checkpoints.is_empty() {
            self.zlib.note(checkpoints, sums);
        }
    }

    /// At the end of the stream: whether its checksum is right.
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
        if let Some(giving) = &self.giving {
            out.resize(giving.piece.len() - giving.given, 0);
            self.give(out);
            return Ok(Some(0));
        }
        loop {
            match &self.then {
                Then::Begin => {
                    if self.here.offset == 0 {
                        zlib::Header::read(&*self.zlib.stored)?;
                    }
                    self.then = Then::More;
                }
                Then::More => {
                    let Some(start) = self.stretch(out)? else {
                        // A piece of empty blocks is behind it already.
                        let Some(giving) = &self.giving else { continue };
                        self.depth.took(giving.piece.len(), self.here.offset);
                        // It is read.
                        return Ok(Some(out.len()));
                    };
                    let len = out.len().saturating_sub(start);
                    if len > 0 {
                        self.depth.took(len, self.here.offset);
                        return Ok(Some(start));
                    }
                }
                Then::End => {
                    self.finish()?;
                    self.then = Then::Ended;
                }
                Then::Fault(fault) => return Err(fault.clone().into()),
                Then::Ended => return Ok(None),
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
        let giving = self.giving.as_ref().map_or(0, |giving| giving.piece.weight() as u64 + RESOLVER);
        pass + giving + self.window.capacity() as u64
    }

    fn bit(&self) -> Option<u64> {
        Some(match &self.then {
            Then::Fault(fault) => fault.bit,
            _ => self.here.bit,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::Scale;
    use super::*;
    use crate::cache::Cache;
    use crate::codec::deflate::Finder;
    use crate::codec::samples::Dice;
    use crate::content::Text;

    /// A stream, and a walk that stands at its start.
    fn stream() -> (Vec<u8>, ZlibReader) {
        let mut dice = Dice(17);
        let truth: Vec<u8> = (0..1_500_000).map(|_| dice.roll(9) as u8).collect();
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(&truth).unwrap();
        let stored = Arc::new(Text::new(encoder.finish().unwrap()));
        let scale = Scale { spacing: 400_000, stretch: 400_000, least_bits: 8 << 13 };
        let cache = Arc::new(Cache::with_threads(1 << 20, 1));
        let zlib = Arc::new(ZlibTable::new(stored, scale, &cache, None));
        (truth, ZlibReader::new(zlib, Position::block_at(zlib::FIRST_BIT, 0), Vec::new()))
    }

    #[test]
    fn a_piece_is_given_in_parts_and_its_rest_as_a_stretch() {
        let (truth, mut walk) = stream();
        let (stored, mut out) = (walk.zlib.stored.clone(), Vec::new());
        let cut = stored.len() * 8 / 3;
        let start = Finder::new().find(&*stored, cut, u64::MAX).unwrap().unwrap();
        let piece = || {
            let start = Position::block_at(start, 0);
            let stretch = PieceRequest { start, until: u64::MAX, cap: 400_000, spacing: 100_000 };
            let mut piece = Box::new(Piece::new());
            piece.decode(&mut Inflate::new(), &*stored, stretch, None);
            piece
        };
        // It does not begin where the walk is yet.
        assert!(!walk.take_piece(piece()) && walk.give(&mut [0; 10]).is_none());
        while walk.here.bit < start {
            walk.alone(cut, u64::MAX, &mut out).unwrap();
        }
        let mut at = walk.here.offset as usize;
        // One without output is not given: no bytes would be the end of the stream.
        let mut empty = Box::new(Piece::new());
        let stretch =
            PieceRequest { start: Position::block_at(start, 0), until: u64::MAX, cap: 0, spacing: 0 };
        empty.decode(&mut Inflate::new(), &*stored, stretch, None);
        assert!(empty.is_empty() && walk.take_piece(empty) && walk.read(&mut [0]).is_none());
        assert!(walk.take_piece(piece()));
        for len in [1000, 1, 250_000] {
            let mut part = vec![0; len];
            assert_eq!(walk.read(&mut part).unwrap().unwrap(), len);
            assert!(part == truth[at..at + len]);
            at += len;
        }
        assert!(walk.next(&mut out).unwrap() == Some(0) && out == truth[at..at + out.len()]);
        at += out.len();
        assert!(walk.here.offset == at as u64 && walk.read(&mut [0]).is_none());
        // Those of its checkpoints that are not too near to another one.
        let marks = walk.zlib.offsets();
        assert!(
            marks.iter().any(|mark| (at - out.len() - 251_001..at).contains(&(*mark as usize))),
            "{marks:?}"
        );
        let start = walk.next(&mut out).unwrap().unwrap();
        assert!(out[start..] == truth[at..at + out.len() - start]);
    }

    #[test]
    fn who_decodes_while_others_do_has_his_share_of_the_threads() {
        let walk = |cache: &Arc<Cache>, wanted| {
            let zlib = ZlibTable::new(Arc::new(Text::new(vec![])), Scale::of(0), cache, None);
            let mut walk =
                ZlibReader::new(Arc::new(zlib), Position::block_at(zlib::FIRST_BIT, 0), Vec::new());
            walk.wanted(wanted);
            walk
        };
        let cache = Arc::new(Cache::with_threads(1 << 20, 4));
        let (one, other) = (walk(&cache, u64::MAX), walk(&cache, u64::MAX));
        assert_eq!([&one, &other, &one].map(|walk| walk.threads().0), [4, 2, 2]);
        let many: Vec<_> = (0..8).map(|_| walk(&cache, u64::MAX)).collect();
        assert_eq!(many.iter().map(|walk| walk.threads().0).min(), Some(1));
        drop((other, many));
        assert_eq!(one.threads().0, 4);
        // Who reads a little here and there takes nothing from who reads on.
        let many: Vec<_> = (0..8).map(|_| walk(&cache, 0)).collect();
        assert!((0..50).all(|n| many[n % 8].threads().0 == 1 && one.threads().0 == 4));
        // Nobody goes without a thread, and no thread without work, or hardly one.
        for (threads, walks) in (1..=16).flat_map(|threads| (1..=16).map(move |walks| (threads, walks))) {
            let cache = Arc::new(Cache::with_threads(1 << 20, threads));
            let walks: Vec<_> = (0..walks).map(|_| walk(&cache, u64::MAX)).collect();
            let together: Vec<_> = (0..32).map(|n| walks[n % walks.len()].threads().0).collect();
            let (least, most) = (threads - threads / 3, walks.len().max(threads + threads / 2));
            let all = together[16..].iter().take(walks.len()).sum::<usize>();
            assert!((least..=most).contains(&all), "{threads} threads, {} walks: {all}", walks.len());
        }
    }

    #[test]
    fn its_share_has_checkpoints_counted_from_the_last_one_before() {
        let (truth, mut walk) = stream();
        let zlib = walk.zlib.clone();
        // As if a piece before it had begun there.
        walk.marked = 150_000;
        let (mut out, mut at) = (Vec::new(), 0);
        while at < truth.len() {
            let start = walk.alone(u64::MAX, u64::MAX, &mut out).unwrap();
            assert!(out[start..] == truth[at..at + out.len() - start]);
            at += out.len() - start;
        }
        let offsets = zlib.offsets();
        let due = [550_000, 950_000, 1_350_000];
        assert!(
            offsets.len() == 3
                && offsets.iter().zip(due).all(|(offset, due)| (due..due + 1000).contains(offset)),
            "{offsets:?}"
        );
    }
}
