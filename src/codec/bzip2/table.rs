//! Where the blocks of a content begin.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::entry::{Entry, Place};
use super::kept::Kept;
use crate::cache::Cache;
use crate::codec::bunzip::{Block, Chain, Fault, Next};
use crate::codec::seek::found::Found;
use crate::codec::seek::kept::Slot;
use crate::content::Content;

/// bzip2 streams and their table.
pub(super) struct Bzip2 {
    pub(super) stored: Arc<dyn Content>,
    pub(super) cache: Arc<Cache>,
    known: Mutex<Known>,
    /// What was found where the table is kept.
    pub(super) found: Found<Kept>,
}

#[derive(Default)]
struct Known {
    blocks: Vec<Entry>,
    /// The chain, behind the last of them.
    chain: Chain,
    /// The decoded offset there.
    end: u64,
    /// The bit there.
    bit: u64,
    kept: bool,
}

impl Bzip2 {
    pub(super) fn new(stored: Arc<dyn Content>, cache: &Arc<Cache>, slot: Option<Slot>) -> Self {
        Self { stored, cache: cache.clone(), known: Mutex::default(), found: Found::new(slot, Kept::find) }
    }

    /// Says that the chain was followed to its end: keeps the table, on another thread.
    pub(super) fn ended(self: &Arc<Self>) {
        let Some(slot) = self.found.slot() else { return };
        let mut known = self.known();
        if known.kept || known.end != slot.data_size() {
            return;
        }
        known.kept = true;
        drop(known);
        let (bzip2, promise) = (self.clone(), slot.promise());
        self.cache.run(move || {
            let _promise = promise;
            let (blocks, bit) = {
                let known = bzip2.known();
                (known.blocks.clone(), known.bit)
            };
            if let Some(slot) = bzip2.found.slot() {
                Kept::keep(slot, &blocks, bit);
            }
        });
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
            let entry = Entry::new(place, known.end, block.crc);
            known.blocks.push(entry);
            known.end = known.end.saturating_add(block.len);
            known.bit = block.end;
        }
    }

    /// The last block that begins at or before a decoded offset, and where its output begins.
    pub(super) fn before(&self, offset: u64) -> (usize, u64) {
        let known = self.known();
        let at = known.blocks.partition_point(|entry| entry.offset <= offset).saturating_sub(1);
        (at, known.blocks.get(at).map_or(0, |entry| entry.offset))
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
