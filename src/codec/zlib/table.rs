//! The checkpoints of a stream, and what is known of its checksum.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Scale;
use super::walk::Walk;
use crate::cache::{Cache, Segment};
use crate::codec::deflate::{Block, Checkpoint, PackedWindow, Packer, Place, WINDOW, zlib};
use crate::codec::seek::{Stretches, Table};
use crate::content::Content;
use crate::error::Result;

/// How far before a multiple of the spacing a checkpoint is due: it is made between two symbols, which
/// are up to 258 bytes apart, and should not come after the start of a unit.
const EARLY: u64 = 512;

/// Bytes of memory of a packer.
const PACKER: u64 = 300 << 10;

/// A zlib stream and its table.
pub(super) struct Zlib {
    pub(super) stored: Arc<dyn Content>,
    pub(super) cache: Arc<Cache>,
    pub(super) scale: Scale,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// In order of both the bits and the offsets.
    marks: Vec<Mark>,
    /// Where the packed windows are.
    segments: Vec<Segment>,
    /// Of everything from the start on that was decoded without a gap.
    sum: Option<zlib::Adler>,
}

/// A checkpoint whose window was put aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    header: u64,
    bit: u64,
    pub(super) offset: u64,
    /// Segment (24 bits), place in it (24 bits), length (16 bits).
    window: u64,
}

impl Mark {
    /// The place, as far as a decoder believes it.
    pub(super) fn place(&self) -> Place {
        let block = if self.header == self.bit { Block::Between } else { Block::Dynamic };
        Place { header: self.header, bit: self.bit, offset: self.offset, block, last: false }
    }
}

impl Zlib {
    pub(super) fn new(stored: Arc<dyn Content>, scale: Scale, cache: &Arc<Cache>) -> Self {
        Self { stored, cache: cache.clone(), scale, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first checkpoint at or after a decoded offset, and the one after it.
    pub(super) fn next_two(&self, offset: u64) -> (Option<Mark>, Option<Mark>) {
        let known = self.known();
        let at = known.marks.partition_point(|mark| mark.offset < offset);
        (known.marks.get(at).copied(), known.marks.get(at + 1).copied())
    }

    /// The last checkpoint up to a decoded offset.
    fn before(&self, offset: u64) -> Option<Mark> {
        let known = self.known();
        let after = known.marks.partition_point(|mark| mark.offset <= offset);
        known.marks.get(after.checked_sub(1)?).copied()
    }

    /// The decoded offset from which the next checkpoint is due, for one who stands at `offset`.
    pub(super) fn due(&self, offset: u64) -> u64 {
        let spacing = self.scale.spacing;
        let after = (offset.saturating_add(EARLY) / spacing).saturating_add(1).saturating_mul(spacing);
        match self.before(offset) {
            // Places found ahead don't lie where they are due.
            Some(mark) if after - mark.offset < spacing / 2 => after.saturating_add(spacing) - EARLY,
            _ => after - EARLY,
        }
    }

    /// Adds a checkpoint, unless another is near or its window can't be put aside.
    pub(super) fn note(&self, checkpoint: &Checkpoint) {
        let (place, least) = (checkpoint.place, self.scale.spacing / 4 * 3);
        let is_far = |known: &Known| {
            let at = known.marks.partition_point(|mark| mark.offset < place.offset);
            let before = at.checked_sub(1).and_then(|before| known.marks.get(before));
            place.offset - before.map_or(0, |mark| mark.offset) >= least.saturating_sub(EARLY)
                && known.marks.get(at).is_none_or(|after| after.offset - place.offset >= least)
        };
        if !is_far(&self.known()) {
            return;
        }
        let mut packer = self.cache.scratch::<Packer>();
        let window = packer.pack(&checkpoint.window);
        self.cache.keep_scratch(packer, PACKER);
        let mut known = self.known();
        if !is_far(&known) {
            return;
        }
        if let Some(window) = self.put_aside(&mut known, window.packed()) {
            let mark = Mark { header: place.header, bit: place.bit, offset: place.offset, window };
            let at = known.marks.partition_point(|other| other.offset < mark.offset);
            known.marks.insert(at, mark);
        }
    }

    fn put_aside(&self, known: &mut Known, packed: &[u8]) -> Option<u64> {
        let len = u16::try_from(packed.len()).ok()?;
        let last = known.segments.last_mut().and_then(|segment| segment.put(packed));
        let at = match last {
            Some(at) => at,
            None => {
                let mut segment = self.cache.shelf().segment()?;
                let at = segment.put(packed)?;
                known.segments.push(segment);
                at
            }
        };
        let segment = u64::try_from(known.segments.len() - 1).ok()?;
        Some(segment << 40 | u64::from(at) << 16 | u64::from(len))
    }

    /// The window of a checkpoint, into `out`; `None` if it can't be had.
    pub(super) fn window(&self, mark: &Mark, out: &mut Vec<u8>) -> Option<()> {
        let (segment, at) =
            (usize::try_from(mark.window >> 40).ok()?, (mark.window >> 16) as u32 & 0xff_ffff);
        let packed = self.known().segments.get(segment)?.get(at, (mark.window & 0xffff) as usize)?;
        let len = mark.offset.min(WINDOW as u64) as usize;
        PackedWindow::from_parts(len, packed).unpack(out).ok()
    }

    /// Takes these bytes at `offset` into the checksum, if nothing is missing before them.
    pub(super) fn sum(&self, offset: u64, bytes: &[u8]) {
        let before = self.summed();
        let Some(new) =
            before.len.checked_sub(offset).and_then(|skip| bytes.get(usize::try_from(skip).ok()?..))
        else {
            return;
        };
        let sum = before.then(zlib::Adler::of(new));
        let mut known = self.known();
        if known.sum.unwrap_or(zlib::Adler::EMPTY) == before {
            known.sum = Some(sum);
        }
    }

    /// The checksum as far as it is known.
    pub(super) fn summed(&self) -> zlib::Adler {
        self.known().sum.unwrap_or(zlib::Adler::EMPTY)
    }

    #[cfg(test)]
    pub(super) fn offsets(&self) -> Vec<u64> {
        self.known().marks.iter().map(|mark| mark.offset).collect()
    }
}

impl Table for Zlib {
    fn nearest(&self, wanted: u64) -> u64 {
        self.before(wanted).map_or(0, |mark| mark.offset)
    }

    fn walk(self: Arc<Self>, from: u64) -> Result<(u64, Box<dyn Stretches>)> {
        let mut window = Vec::new();
        let mark = self.before(from).filter(|mark| self.window(mark, &mut window).is_some());
        let (offset, walk) = match mark {
            Some(mark) => (mark.offset, Walk::new(self, mark.place(), window)),
            // Without its window a checkpoint is of no use: from the start it goes as well.
            None => (0, Walk::new(self, Place::block_at(zlib::FIRST_BIT, 0), Vec::new())),
        };
        Ok((offset, Box::new(walk)))
    }
}

impl fmt::Debug for Zlib {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let marks = self.known().marks.len();
        out.debug_struct("Zlib")
            .field("stored", &self.stored.len())
            .field("marks", &marks)
            .finish_non_exhaustive()
    }
}
