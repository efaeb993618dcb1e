//! The checkpoints of a stream, and the checksum of the output decoded so far.

use std::fmt;
use std::sync::{Arc, Mutex};

use super::Scale;
use super::checkpoint::PackedCheckpoint;
use super::stored_table::{CumulativeCrcs, NewStoredTable, StoredZlibTable};
use crate::cache::{Cache, SegmentList};
use crate::codec::deflate::{Checkpoint, PackedWindow, Packer, WINDOW, zlib};
use crate::codec::seek::SeekTable;
use crate::codec::seek::stored_table::{Completion, Summary, TableSlot};
use crate::codec::seek::trust::TrustedTable;
use crate::content::Content;
use crate::sync::{MutexGuard, locked};

/// Distance before a multiple of the spacing at which a checkpoint is due. A checkpoint is made between two
/// symbols, which are up to 258 bytes apart, and should not come after the start of a granule.
const EARLY: u64 = 512;

/// Memory of a packer in bytes.
const PACKER: u64 = 300 << 10;

/// A zlib stream and its table.
pub(super) struct ZlibTable {
    pub(super) stored: Arc<dyn Content>,
    pub(super) cache: Arc<Cache>,
    pub(super) scale: Scale,
    state: Mutex<TableState>,
    /// The stored seek table, if there is one.
    pub(super) stored_table: TrustedTable<StoredZlibTable>,
}

#[derive(Default)]
struct TableState {
    /// The checkpoints in the order of the stream. Both their bits and their offsets ascend.
    marks: Vec<PackedCheckpoint>,
    /// The windows of the checkpoints, compressed.
    windows: SegmentList,
    /// Checksum of the output that was decoded from the start without a gap.
    adler: Option<zlib::Adler>,
    /// CRCs of the output from the start up to several offsets, as far as it was decoded without a gap. `None` if
    /// no table will be stored.
    crcs: Option<CumulativeCrcs>,
    completion: Completion,
}

impl TableState {
    /// Returns the checkpoints less than `distance` away from an offset.
    fn near(&self, offset: u64, distance: u64) -> &[PackedCheckpoint] {
        let from = self.marks.partition_point(|mark| mark.offset.saturating_add(distance) <= offset);
        let to = self.marks.partition_point(|mark| mark.offset < offset.saturating_add(distance));
        self.marks.get(from..to).unwrap_or_default()
    }
}

impl ZlibTable {
    pub(super) fn new(
        stored: Arc<dyn Content>,
        scale: Scale,
        cache: &Arc<Cache>,
        slot: Option<TableSlot>,
    ) -> Self {
        let state =
            TableState { crcs: slot.as_ref().map(|_| CumulativeCrcs::new(scale)), ..TableState::default() };
        let stored_table = TrustedTable::new(slot, StoredZlibTable::find);
        Self { stored, cache: cache.clone(), scale, state: Mutex::new(state), stored_table }
    }

    fn state(&self) -> MutexGuard<'_, TableState> {
        locked(&self.state)
    }

    /// Returns the first checkpoint at or after a decoded offset, and the one after it.
    pub(super) fn next_two(&self, offset: u64) -> (Option<PackedCheckpoint>, Option<PackedCheckpoint>) {
        let state = self.state();
        let at = state.marks.partition_point(|mark| mark.offset < offset);
        (state.marks.get(at).copied(), state.marks.get(at + 1).copied())
    }

    /// Returns the last checkpoint at or before a decoded offset.
    pub(super) fn before(&self, offset: u64) -> Option<PackedCheckpoint> {
        let state = self.state();
        let after = state.marks.partition_point(|mark| mark.offset <= offset);
        state.marks.get(after.checked_sub(1)?).copied()
    }

    /// Returns the decoded offset from which the next checkpoint is due, for a reader at `offset`.
    pub(super) fn due(&self, offset: u64) -> u64 {
        let spacing = self.scale.spacing;
        let after = (offset.saturating_add(EARLY) / spacing).saturating_add(1).saturating_mul(spacing);
        match self.before(offset) {
            // Checkpoints made while decoding ahead may be at any offset. If the last one is close before the
            // offset that would be due, the next one is due a spacing later.
            Some(mark) if after - mark.offset < spacing / 2 => after.saturating_add(spacing) - EARLY,
            _ => after - EARLY,
        }
    }

    /// Adds checkpoints with the CRCs of the output before them, on another thread if there is one.
    pub(super) fn note(self: &Arc<Self>, checkpoints: Vec<Checkpoint>, crcs: Vec<Option<u32>>) {
        self.state().completion.begin();
        let pending = PendingCheckpoints(self.clone());
        let note = move || {
            let crcs = crcs.into_iter().chain(std::iter::repeat(None));
            for (checkpoint, crc) in checkpoints.iter().zip(crcs) {
                pending.0.add(checkpoint, crc);
            }
        };
        if self.cache.threads() > 1 { self.cache.run(note) } else { note() }
    }

    /// Notes that the stream ends at `bit` with a right checksum. Stores the table.
    pub(super) fn ended(self: &Arc<Self>, bit: u64, checksum: zlib::Adler) {
        let Some(slot) = self.stored_table.slot().filter(|slot| slot.data_size() == checksum.len) else {
            return;
        };
        {
            let mut state = self.state();
            if state.completion.has_ended() || state.marks.is_empty() && !state.completion.is_storing() {
                return;
            }
            let whole = Summary { end: bit, checksum: checksum.sum, interval: self.scale.interval() };
            state.completion.end(whole, slot);
        }
        let zlib = self.clone();
        self.cache.run(move || zlib.keep());
    }

    /// Stores the table once the stream has ended and all checkpoints are noted.
    fn keep(self: &Arc<Self>) {
        let (complete, _pending) = {
            let mut state = self.state();
            let (Some((whole, pending)), Some(crcs)) = (state.completion.take(), state.crcs.clone()) else {
                return;
            };
            let marks = state.marks.iter().filter(|mark| mark.crc.is_some()).copied().collect();
            (NewStoredTable { marks, crcs, whole }, pending)
        };
        if !complete.marks.is_empty()
            && let Some(slot) = self.stored_table.slot()
        {
            complete.keep(slot, &|mark| self.packed(mark), &|| self.clone().read_without_stored_table());
        }
    }

    /// Adds a checkpoint, unless an equally good one is near, or its window can't be stored. A checkpoint
    /// with a CRC replaces those without one: a stored table needs the CRCs.
    fn add(&self, checkpoint: &Checkpoint, crc: Option<u32>) {
        let position = checkpoint.position;
        let least = self.scale.spacing / 4 * 3;
        let is_near = |mark: &PackedCheckpoint| match position.offset.checked_sub(mark.offset) {
            Some(after) => after < least.saturating_sub(EARLY).max(1),
            None => mark.offset - position.offset < least,
        };
        let is_worse = |mark: &PackedCheckpoint| mark.crc.is_none() && crc.is_some();
        let is_wanted = |state: &TableState| {
            position.offset >= least.saturating_sub(EARLY)
                && !state.near(position.offset, least).iter().any(|mark| is_near(mark) && !is_worse(mark))
        };
        if !is_wanted(&self.state()) {
            return;
        }
        let mut packer = self.cache.scratch::<Packer>();
        let window = packer.pack(&checkpoint.window);
        self.cache.keep_scratch(packer, PACKER);
        let mut state = self.state();
        if !is_wanted(&state) {
            return;
        }
        if let Some(window) = state.windows.put(window.packed(), self.cache.temp_segments()) {
            if !state.near(position.offset, least).is_empty() {
                state.marks.retain(|mark| !is_near(mark));
            }
            let mark = PackedCheckpoint {
                header: position.header,
                bit: position.bit,
                offset: position.offset,
                window,
                crc,
            };
            let at = state.marks.partition_point(|other| other.offset < mark.offset);
            state.marks.insert(at, mark);
        }
    }

    /// Unpacks the window of a checkpoint into `out`; `None` if it can't be read.
    pub(super) fn window(&self, mark: &PackedCheckpoint, out: &mut Vec<u8>) -> Option<()> {
        let len = mark.offset.min(WINDOW as u64) as usize;
        PackedWindow::from_parts(len, self.packed(mark)?).unpack(out).ok()
    }

    /// Returns the packed window of a checkpoint.
    fn packed(&self, mark: &PackedCheckpoint) -> Option<Vec<u8>> {
        self.state().windows.get(mark.window)
    }

    /// Adds the bytes at `offset` to the checksum, unless earlier bytes are missing. Returns the CRCs up to
    /// each of `offsets`, which are in order and within the bytes, as far as known.
    pub(super) fn add_output(&self, offset: u64, bytes: &[u8], offsets: &[u64]) -> Vec<Option<u32>> {
        loop {
            let (before, mut crcs) = {
                let state = self.state();
                (state.adler.unwrap_or(zlib::Adler::EMPTY), state.crcs.as_ref().map(CumulativeCrcs::tip))
            };
            let Some(new) =
                before.len.checked_sub(offset).and_then(|skip| bytes.get(usize::try_from(skip).ok()?..))
            else {
                return Vec::new();
            };
            let adler = before.then(zlib::Adler::of(new));
            // Another reader has noted the CRCs up to the offsets that it passed.
            let (passed, offsets) = offsets.split_at(offsets.partition_point(|at| *at < before.len));
            let new_crcs =
                crcs.as_mut().map(|crcs| crcs.extend(before.len, new, offsets)).unwrap_or_default();
            let mut state = self.state();
            if state.adler.unwrap_or(zlib::Adler::EMPTY) == before {
                state.adler = Some(adler);
                if let (Some(all), Some(crcs)) = (&mut state.crcs, crcs) {
                    all.add(crcs);
                }
                return std::iter::repeat_n(None, passed.len())
                    .chain(new_crcs.into_iter().map(Some))
                    .collect();
            }
        }
    }

    /// Returns the checksum of the output decoded without a gap.
    pub(super) fn summed(&self) -> zlib::Adler {
        self.state().adler.unwrap_or(zlib::Adler::EMPTY)
    }

    /// Returns the offsets of all checkpoints, after the pending ones are noted.
    #[cfg(test)]
    pub(super) fn offsets(&self) -> Vec<u64> {
        while self.state().completion.is_storing() {
            std::thread::yield_now();
        }
        self.state().marks.iter().map(|mark| mark.offset).collect()
    }
}

/// Checkpoints that are being added. The table of a finished stream is stored only after all of them are
/// added.
struct PendingCheckpoints(Arc<ZlibTable>);

impl Drop for PendingCheckpoints {
    fn drop(&mut self) {
        self.0.state().completion.done();
        self.0.keep();
    }
}

impl fmt::Debug for ZlibTable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let marks = self.state().marks.len();
        out.debug_struct("ZlibTable")
            .field("stored", &self.stored.len())
            .field("marks", &marks)
            .finish_non_exhaustive()
    }
}
