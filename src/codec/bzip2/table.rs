//! Where the blocks of a content begin.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::walk::Walk;
use crate::cache::Cache;
use crate::codec::bunzip::{Block, Chain, Fault, Level, Next};
use crate::codec::seek::{Stretches, Table};
use crate::content::Content;
use crate::error::Result;

/// Bits of an entry that hold the place; the level stands above them.
const PLACE_BITS: u32 = 56;

/// bzip2 streams and their table.
pub(super) struct Bzip2 {
    pub(super) stored: Arc<dyn Content>,
    pub(super) cache: Arc<Cache>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    blocks: Vec<Entry>,
    /// The chain, behind the last of them.
    chain: Chain,
    /// The decoded offset there.
    end: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The level (8 bits), and where its magic begins.
    place: u64,
    /// Where its output begins.
    offset: u64,
}

/// Where a block is to be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) bit: u64,
    pub(super) level: Level,
}

impl Entry {
    fn new(place: Place, offset: u64) -> Self {
        let level = (place.level.block_size() / 100_000) as u64;
        Self { place: level << PLACE_BITS | place.bit, offset }
    }

    fn place(self) -> Option<Place> {
        let level = Level::from_digit(b'0' + (self.place >> PLACE_BITS) as u8)?;
        Some(Place { bit: self.place & ((1 << PLACE_BITS) - 1), level })
    }
}

impl Bzip2 {
    pub(super) fn new(stored: Arc<dyn Content>, cache: &Arc<Cache>) -> Self {
        Self { stored, cache: cache.clone(), known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where block `n` begins, which is in the table or the next after it; `None` is the end.
    pub(super) fn block(&self, n: usize) -> std::result::Result<Option<Place>, Fault> {
        let mut known = self.known();
        if let Some(place) = known.blocks.get(n).and_then(|entry| entry.place()) {
            return Ok(Some(place));
        }
        match known.chain.next(&*self.stored)? {
            Next::End { .. } => Ok(None),
            Next::Block { bit, level } => Ok(Some(Place { bit, level })),
        }
    }

    /// The first block of the table behind a bit.
    pub(super) fn after(&self, bit: u64) -> Option<Place> {
        let known = self.known();
        let at = known.blocks.partition_point(|entry| entry.place().is_some_and(|place| place.bit <= bit));
        known.blocks.get(at).and_then(|entry| entry.place())
    }

    /// Takes a block into the table that was decoded where the table said; one that is there stays.
    pub(super) fn accept(&self, place: Place, block: &Block) {
        let mut known = self.known();
        if block.start == place.bit && known.chain.accept(block) {
            let entry = Entry::new(place, known.end);
            known.blocks.push(entry);
            known.end = known.end.saturating_add(block.len);
        }
    }

    /// The last block that begins at or before a decoded offset, and where its output begins.
    fn before(&self, offset: u64) -> (usize, u64) {
        let known = self.known();
        let at = known.blocks.partition_point(|entry| entry.offset <= offset).saturating_sub(1);
        (at, known.blocks.get(at).map_or(0, |entry| entry.offset))
    }
}

impl Table for Bzip2 {
    fn nearest(&self, wanted: u64) -> u64 {
        self.before(wanted).1
    }

    fn walk(self: Arc<Self>, from: u64) -> Result<(u64, Box<dyn Stretches>)> {
        let (block, offset) = self.before(from);
        Ok((offset, Box::new(Walk::new(self, block, offset))))
    }
}

impl fmt::Debug for Bzip2 {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blocks = self.known().blocks.len();
        out.debug_struct("Bzip2")
            .field("stored", &self.stored.len())
            .field("blocks", &blocks)
            .finish_non_exhaustive()
    }
}
