//! Decoded chunks under a byte budget, shared by all files of a mount.
//!
//! A chunk is identified by its content and by its offset there. The least recently used goes first. Work
//! in flight counts as well ([`Reservation`]): read-ahead takes up to half of the budget, foreground decodes
//! up to all of it; beyond that they wait.
//!
//! The cache also holds what decoding keeps between two reads, as that is bounded for the whole mount: idle
//! decoders ([`Reclaim`]), the threads that decode ahead ([`Workers`]), buffers to use again, a temporary
//! file ([`TempSegments`]), and the seek tables that persist between mounts ([`Store`]).

mod fair_share;
mod memory;
mod memory_budget;
mod scratch;
pub mod store;
mod task;
mod temp_segments;

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use lru::LruCache;

use crate::content::BufferPool;
use crate::workers::Workers;
use memory_budget::MemoryBudget;
use scratch::Scratch;
use store::Store;

pub(crate) use fair_share::FairShare;
pub use memory::default_budget;
pub(crate) use memory_budget::Reservation;
pub(crate) use task::Task;
pub(crate) use temp_segments::{SegmentList, Stored, TempSegments};

/// A decoded chunk.
pub type Bytes = Arc<Vec<u8>>;

/// What an entry costs beside its bytes, so that a flood of tiny ones stays within the budget too.
const ENTRY: u64 = 128;

/// Bytes, and buffers, kept for the next chunks: memory that is not asked from the system, nor
/// filled with zeros, anew.
const SPARE: usize = 8 << 20;
const SPARES: usize = 16;

/// Bytes of idle decoders and their buffers that do not count in the budget.
const ASIDE: u64 = 16 << 20;

/// Threads that decode, at most.
const THREADS: usize = 16;

/// Bytes behind a sequential reader that are kept for readers that follow it.
const BEHIND: u64 = 16 << 20;

/// Bytes of chunks that are kept whatever decoders take. A decoder of a zstd frame may need more than the
/// budget, and a reader that takes a part of a chunk at a time would then have it decoded anew for each part.
const LEAST: u64 = 1 << 20;

/// Which content of a mount; never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContentId(u64);

/// Memory that waits for later readers, of which the cache may take some back.
pub(crate) trait Reclaim: Any + fmt::Debug + Send + Sync {
    /// Bytes that are held, roughly.
    fn weight(&self) -> u64;

    /// Gives up what is hardly going to be used again.
    fn make_room(&self);

    /// Gives up what is held for a content that is gone.
    fn forget(&self, content: ContentId);
}

/// Decoded chunks of all contents of a mount, the least recently used dropped first.
pub struct Cache {
    budget: u64,
    next_id: AtomicU64,
    state: Mutex<State>,
    /// What work in flight is going to hold.
    memory: Arc<MemoryBudget>,
    /// Decoders that wait for their next read, once there is one.
    idle: OnceLock<Box<dyn Reclaim>>,
    threads: usize,
    workers: Workers,
    fair_share: FairShare,
    scratch: Scratch,
    temp_segments: TempSegments,
    store: Arc<Store>,
}

struct State {
    chunks: LruCache<(ContentId, u64), Bytes>,
    /// What `chunks` costs: never more than the budget.
    held: u64,
    /// The buffer released last is last.
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
}

impl Cache {
    /// A cache that holds at most `budget` bytes. As many threads as there are cores decode for it, 16
    /// at most; none is started before there is something to decode.
    pub fn new(budget: u64) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::with_threads(budget, cores.min(THREADS))
    }

    /// The same with so many threads; with one, nothing is decoded ahead of its reader.
    pub fn with_threads(budget: u64, threads: usize) -> Self {
        let state = State { chunks: LruCache::unbounded(), held: 0, spare: Vec::new(), spare_bytes: 0 };
        Self {
            budget,
            next_id: AtomicU64::new(0),
            state: Mutex::new(state),
            memory: Arc::new(MemoryBudget::new(budget)),
            idle: OnceLock::new(),
            threads: threads.max(1),
            workers: Workers::new("decode", threads),
            fair_share: FairShare::default(),
            scratch: Scratch::new(budget),
            temp_segments: TempSegments::default(),
            store: Arc::default(),
        }
    }

    /// The same with a store for seek tables.
    #[must_use]
    pub fn with_store(self, store: Store) -> Self {
        Self { store: Arc::new(store), ..self }
    }

    /// The same with the store of another one.
    #[cfg(test)]
    pub(crate) fn sharing(self, store: &Arc<Store>) -> Self {
        Self { store: store.clone(), ..self }
    }

    /// Bytes that may be held.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// Bytes that are held now, with what keeping them costs.
    pub fn held(&self) -> u64 {
        self.state().held
    }

    /// Bytes that work in flight is going to hold.
    pub fn reserved(&self) -> u64 {
        self.memory.reserved()
    }

    /// Reserves memory for read-ahead, unless work in flight takes up half of the budget already. Evicts idle
    /// decoders first where that helps.
    pub(crate) fn reserve(&self, bytes: u64) -> Option<Reservation> {
        let reservation = self.memory.reserve(bytes).or_else(|| {
            self.idle.get().inspect(|idle| idle.make_room());
            self.memory.reserve(bytes)
        })?;
        self.state().trim(self.left());
        Some(reservation)
    }

    /// Reserves memory for a foreground decode, and waits until it is free.
    pub(crate) fn demand(&self, bytes: u64) -> Reservation {
        let reservation = self.memory.demand(bytes, || self.aside());
        self.state().trim(self.left());
        reservation
    }

    /// Reserves memory for a foreground decode unless it has to wait for it.
    pub(crate) fn demand_at_once(&self, bytes: u64) -> Option<Reservation> {
        let reservation = self.memory.demand_at_once(bytes, || self.aside())?;
        self.state().trim(self.left());
        Some(reservation)
    }

    /// What is left for chunks.
    fn left(&self) -> u64 {
        let left = self.budget.saturating_sub(self.reserved()).saturating_sub(self.aside());
        left.max(LEAST.min(self.budget / 2))
    }

    /// What waits to be used again, as far as it counts in the budget.
    fn aside(&self) -> u64 {
        self.idle
            .get()
            .map_or(0, |idle| idle.weight())
            .saturating_add(self.scratch.weight())
            .saturating_sub(ASIDE)
    }

    /// How many threads decode ahead.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Has a job done on one of the threads, or by the first reader of its result.
    pub(crate) fn task<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Task<T> {
        Task::new(&self.workers, memory_budget::holding(job))
    }

    /// Has a job done on one of the threads.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.workers.run(memory_budget::holding(job));
    }

    /// How many streams are being decoded.
    pub(crate) fn fair_share(&self) -> &FairShare {
        &self.fair_share
    }

    /// Tables and buffers of one kind, used before or new.
    pub(crate) fn scratch<T: Any + Send + Default>(&self) -> Box<T> {
        self.scratch.take()
    }

    /// Keeps tables and buffers, which take up `weight` bytes, for their next use.
    pub(crate) fn keep_scratch<T: Any + Send>(&self, scratch: Box<T>, weight: u64) {
        self.scratch.give(scratch, weight);
    }

    /// The temporary file for windows.
    pub(crate) fn temp_segments(&self) -> &TempSegments {
        &self.temp_segments
    }

    /// The seek tables that persist between mounts.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// A name for a new content.
    pub fn id(&self) -> ContentId {
        ContentId(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// The chunk of `id` that begins at `start`, if it is still there.
    pub fn get(&self, id: ContentId, start: u64) -> Option<Bytes> {
        self.state().chunks.get(&(id, start)).cloned()
    }

    /// Keeps a chunk, as long as there is room; one that is larger than the budget is not kept.
    pub fn put(&self, id: ContentId, start: u64, bytes: &Bytes) {
        let cost = cost(bytes);
        if cost > self.budget {
            return;
        }
        let mut state = self.state();
        state.held += cost;
        if let Some(before) = state.chunks.put((id, start), bytes.clone()) {
            state.let_go(before);
        }
        state.trim(self.left());
    }

    /// Whether a chunk of `len` bytes can be kept without dropping another.
    pub(crate) fn has_room(&self, len: usize) -> bool {
        let held = self.state().held;
        held.saturating_add(len as u64 + ENTRY) <= self.left()
    }

    /// Drops all that is kept for a content that is gone.
    pub fn forget(&self, id: ContentId) {
        self.idle.get().inspect(|idle| idle.forget(id));
        let mut state = self.state();
        let of_it: Vec<_> = state.chunks.iter().map(|(key, _)| *key).filter(|key| key.0 == id).collect();
        for key in of_it {
            if let Some(bytes) = state.chunks.pop(&key) {
                state.let_go(bytes);
            }
        }
    }

    /// A buffer with room for `len` bytes, which holds anything at all.
    pub(crate) fn buffer(&self, len: usize) -> Vec<u8> {
        let mut state = self.state();
        let fits = |buffer: &Vec<u8>| (len..=len.saturating_mul(2)).contains(&buffer.capacity());
        match state.spare.iter().rposition(fits) {
            Some(place) => {
                let buffer = state.spare.remove(place);
                state.spare_bytes -= buffer.capacity();
                buffer
            }
            None => {
                drop(state);
                // The system gives zeros for nothing, which growing a vector would write.
                vec![0; len]
            }
        }
    }

    /// Takes back a chunk that was used; its buffer serves again once no other reader holds it.
    pub(crate) fn used(&self, bytes: Bytes) {
        if Arc::strong_count(&bytes) == 1 {
            self.state().reuse(bytes);
        }
    }

    /// Notes that a reader took the chunk at `start` to its end. Of the chunks far behind it the least
    /// recently used is dropped: a reader that goes from end to end then fills the same few buffers, which
    /// stay in the processor's cache, and not all of the budget.
    pub(crate) fn read_on(&self, id: ContentId, start: u64) {
        let mut state = self.state();
        let behind = |key: &(ContentId, u64)| key.0 == id && key.1.saturating_add(BEHIND) <= start;
        let oldest = state.chunks.iter().rev().map(|(key, _)| *key).find(behind);
        if let Some(bytes) = oldest.and_then(|key| state.chunks.pop(&key)) {
            state.let_go(bytes);
        }
    }

    /// The idle decoders of this mount, which are of one type.
    pub(crate) fn idle<T: Reclaim + Default>(&self) -> &T {
        let idle: &dyn Any = &**self.idle.get_or_init(|| Box::<T>::default());
        idle.downcast_ref().expect("one type is asked for in the whole crate")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Drops what was used longest ago until at most `most` bytes are held.
    fn trim(&mut self, most: u64) {
        while self.held > most {
            match self.chunks.pop_lru() {
                Some((_, oldest)) => self.let_go(oldest),
                None => break,
            }
        }
    }

    fn let_go(&mut self, bytes: Bytes) {
        self.held -= cost(&bytes);
        self.reuse(bytes);
    }

    fn reuse(&mut self, bytes: Bytes) {
        let Some(buffer) = Arc::into_inner(bytes) else { return };
        if buffer.capacity() > SPARE {
            return;
        }
        self.spare_bytes += buffer.capacity();
        self.spare.push(buffer);
        while self.spare_bytes > SPARE || self.spare.len() > SPARES {
            self.spare_bytes -= self.spare.remove(0).capacity();
        }
    }
}

impl BufferPool for Cache {
    fn take_back(&self, buffer: Bytes) {
        self.used(buffer);
    }
}

fn cost(bytes: &Bytes) -> u64 {
    bytes.capacity() as u64 + ENTRY
}

impl fmt::Debug for Cache {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        out.debug_struct("Cache")
            .field("budget", &self.budget)
            .field("held", &state.held)
            .field("chunks", &state.chunks.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
