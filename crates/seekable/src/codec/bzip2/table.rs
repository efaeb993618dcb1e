//! The positions of the blocks in a content.

use std::fmt;
use std::sync::{Arc, Mutex};

use super::entry::{BlockEntry, BlockStart};
use super::stored_table::StoredBzip2Table;
use crate::cache::Cache;
use crate::codec::bunzip::{Block, BlockChain, Fault, StreamElement};
use crate::codec::seek::SeekTable;
use crate::codec::seek::stored_table::{Completion, Summary, TableSlot};
use crate::codec::seek::trust::TrustedTable;
use crate::content::Content;
use crate::sync::{MutexGuard, locked};

/// bzip2 streams and their table.
pub(super) struct Bzip2Table {
    pub(super) stored: Arc<dyn Content>,
    pub(super) cache: Arc<Cache>,
    state: Mutex<TableState>,
    /// The stored seek table, if there is one.
    pub(super) stored_table: TrustedTable<StoredBzip2Table>,
}

#[derive(Default)]
struct TableState {
    blocks: Vec<BlockEntry>,
    /// The chain of blocks from the first stored byte on, followed to the end of the last of `blocks`.
    chain: BlockChain,
    /// The decoded offset after the last block.
    end: u64,
    /// The bit after the last block.
    bit: u64,
    completion: Completion,
}

impl Bzip2Table {
    pub(super) fn new(stored: Arc<dyn Content>, cache: &Arc<Cache>, slot: Option<TableSlot>) -> Self {
        Self {
            stored,
            cache: cache.clone(),
            state: Mutex::default(),
            stored_table: TrustedTable::new(slot, StoredBzip2Table::find),
        }
    }

    /// Notes that the last block was decoded. If the output has the expected size, another thread stores the
    /// table.
    pub(super) fn ended(self: &Arc<Self>) {
        let Some(slot) = self.stored_table.slot() else { return };
        let mut state = self.state();
        if state.completion.has_ended() || state.end != slot.data_size() {
            return;
        }
        let summary = Summary { end: state.bit, ..Summary::default() };
        state.completion.end(summary, slot);
        drop(state);
        let bzip2 = self.clone();
        self.cache.run(move || {
            let (end, blocks) = {
                let mut state = bzip2.state();
                (state.completion.take(), state.blocks.clone())
            };
            if let (Some(slot), Some((summary, _pending))) = (bzip2.stored_table.slot(), end) {
                StoredBzip2Table::keep(slot, &blocks, summary, &|| bzip2.clone().read_without_stored_table());
            }
        });
    }

    fn state(&self) -> MutexGuard<'_, TableState> {
        locked(&self.state)
    }

    /// Returns the position of block `n`, which is in the table or the first block after it; `None` at the
    /// end.
    pub(super) fn block(&self, n: usize) -> std::result::Result<Option<BlockStart>, Fault> {
        let mut state = self.state();
        if let Some(start) = state.blocks.get(n).and_then(|entry| entry.start()) {
            return Ok(Some(start));
        }
        match state.chain.next(&*self.stored)? {
            StreamElement::End { .. } => Ok(None),
            StreamElement::Block { bit, level } => Ok(Some(BlockStart { bit, level })),
        }
    }

    /// Returns the first block of the table whose magic begins after `bit`.
    pub(super) fn after(&self, bit: u64) -> Option<BlockStart> {
        let state = self.state();
        let at = state.blocks.partition_point(|entry| entry.start().is_some_and(|start| start.bit <= bit));
        state.blocks.get(at).and_then(|entry| entry.start())
    }

    /// Adds a decoded block if it is the next one after the last block of the table.
    pub(super) fn accept(&self, start: BlockStart, block: &Block) {
        let mut state = self.state();
        if block.start == start.bit && state.chain.accept(block) {
            let entry = BlockEntry::new(start, state.end, block.crc);
            state.blocks.push(entry);
            state.end = state.end.saturating_add(block.len);
            state.bit = block.end;
        }
    }

    /// Returns the last block whose output begins at or before `offset`, and the offset of that output.
    pub(super) fn before(&self, offset: u64) -> (usize, u64) {
        let state = self.state();
        let at = state.blocks.partition_point(|entry| entry.offset <= offset).saturating_sub(1);
        (at, state.blocks.get(at).map_or(0, |entry| entry.offset))
    }
}

impl fmt::Debug for Bzip2Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blocks = self.state().blocks.len();
        out.debug_struct("Bzip2Table")
            .field("stored", &self.stored.len())
            .field("blocks", &blocks)
            .finish_non_exhaustive()
    }
}
