//! The cache of decoded granules under a byte budget, shared by all files of a mount.
//!
//! A granule is identified by its content and its offset in the content. The least recently used granule is evicted
//! first. Memory for work in progress counts against the budget, too ([`Reservation`]). Read-ahead starts
//! only if work in progress then takes at most half of the budget. A foreground decode that would exceed the
//! budget waits while others run.
//!
//! The cache also holds other state of decoding that is bounded for the whole mount: idle decoders
//! ([`Reclaim`]), values that can be made again ([`Kept`]), worker threads ([`Workers`]), buffers for reuse, a temporary file ([`TempSegments`]), and
//! the seek tables that persist between mounts ([`Store`]).

mod fair_share;
mod kept;
mod memory;
mod memory_budget;
mod scratch;
pub mod store;
mod task;
mod temp_segments;

use std::any::Any;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use lru::LruCache;

use crate::content::BufferPool;
use crate::sync::{MutexGuard, locked};
use crate::workers::Workers;
use crate::workers::caller::with_deadline;
use kept::Kept;
use memory_budget::MemoryBudget;
use scratch::Scratch;
use store::Store;

pub use fair_share::FairShare;
pub use memory::{default_budget, has_room};
pub use memory_budget::Reservation;
pub use task::Task;
pub use temp_segments::{SegmentBytes, SegmentList, TempSegments};

/// A decoded granule.
pub type Bytes = Arc<Vec<u8>>;

/// Overhead of a cache entry in bytes, which keeps many tiny entries within the budget.
const ENTRY: u64 = 128;

/// Maximum number of bytes, and of buffers, that are kept for reuse. A reused buffer needs no allocation and no
/// zeroing.
const SPARE: usize = 8 << 20;
const SPARES: usize = 16;

/// Bytes of idle decoders and their buffers that are exempt from the budget.
const ASIDE: u64 = 16 << 20;

/// Maximum number of decoding threads.
const THREADS: usize = 16;

/// Bytes behind a sequential reader that are kept for other readers that follow.
const BEHIND: u64 = 16 << 20;
/// Number of granules of a content that are searched for one far behind a reader. If there is none, all granules ahead of
/// the reader would be searched each time.
const LOOKED_AT: usize = 32;

/// Bytes of granules that are kept even if decoders exceed the budget. A decoder of a zstd frame may need more
/// than the budget. Without the exemption, a reader that reads a granule in parts would decode the granule again
/// for each part.
const MIN_ROOM: u64 = 1 << 20;

/// The identifier of a content of a mount; never reused for another content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContentId(u64);

/// Memory kept for later reuse that the cache can partly take back.
pub trait Reclaim: Any + fmt::Debug + Send + Sync {
    /// Returns the approximate memory held, in bytes.
    fn weight(&self) -> u64;

    /// Releases memory that is unlikely to be reused.
    fn make_room(&self);

    /// Releases the memory of a content that is gone.
    fn forget(&self, content: ContentId);
}

/// The decoded granules of all contents of a mount. The least recently used is evicted first.
pub struct Cache {
    budget: u64,
    next_id: AtomicU64,
    state: Mutex<Granules>,
    /// Memory reserved for work in progress.
    memory: Arc<MemoryBudget>,
    /// Idle decoders; created by the first one.
    idle: OnceLock<Box<dyn Reclaim>>,
    threads: usize,
    workers: Workers,
    fair_share: FairShare,
    kept: Kept,
    scratch: Scratch,
    temp_segments: TempSegments,
    store: Arc<Store>,
}

struct Granules {
    chunks: LruCache<(ContentId, u64), Bytes>,
    /// Number of `chunks` of each content that has any.
    of_content: HashMap<ContentId, usize>,
    /// Cost of `chunks` in bytes, at most the budget.
    held: u64,
    /// Spare buffers; the one released last is at the end.
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
}

impl Cache {
    /// Creates a cache of at most `budget` bytes. It decodes on as many threads as there are cores, at most
    /// 16. No thread starts before there is something to decode.
    pub fn new(budget: u64) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::with_threads(budget, cores.min(THREADS))
    }

    /// Creates a cache with this number of threads; with one, there is no read-ahead.
    pub fn with_threads(budget: u64, threads: usize) -> Self {
        let state = Granules {
            chunks: LruCache::unbounded(),
            of_content: HashMap::new(),
            held: 0,
            spare: Vec::new(),
            spare_bytes: 0,
        };
        Self {
            budget,
            next_id: AtomicU64::new(0),
            state: Mutex::new(state),
            memory: Arc::new(MemoryBudget::new(budget)),
            idle: OnceLock::new(),
            threads: threads.max(1),
            workers: Workers::new("decode", threads),
            fair_share: FairShare::default(),
            kept: Kept::new(budget),
            scratch: Scratch::new(budget),
            temp_segments: TempSegments::default(),
            store: Arc::default(),
        }
    }

    /// Replaces the store of seek tables.
    #[must_use]
    pub fn with_store(self, store: Store) -> Self {
        Self { store: Arc::new(store), ..self }
    }

    /// Shares the store of seek tables with another cache.
    #[cfg(test)]
    pub fn sharing(self, store: &Arc<Store>) -> Self {
        Self { store: store.clone(), ..self }
    }

    /// Returns the budget in bytes.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// Returns the bytes held now, including overhead.
    pub fn held(&self) -> u64 {
        self.state().held
    }

    /// Returns the bytes reserved for work in progress.
    pub fn reserved(&self) -> u64 {
        self.memory.reserved()
    }

    /// Reserves memory for read-ahead, up to half of the budget for all work in progress. Evicts idle
    /// decoders if the reservation would fail otherwise.
    pub fn reserve(&self, bytes: u64) -> Option<Reservation> {
        let reservation = self.memory.reserve(bytes).or_else(|| {
            self.idle.get().inspect(|idle| idle.make_room());
            self.memory.reserve(bytes)
        })?;
        self.state().trim(self.room_for_granules());
        Some(reservation)
    }

    /// Reserves memory for a foreground decode; waits until it is free.
    pub fn demand(&self, bytes: u64) -> Reservation {
        self.make_room(bytes);
        let reservation = self.memory.demand(bytes, || self.aside());
        self.state().trim(self.room_for_granules());
        reservation
    }

    /// Reserves memory for a foreground decode; `None` if it would have to wait.
    pub fn demand_at_once(&self, bytes: u64) -> Option<Reservation> {
        self.make_room(bytes);
        let reservation = self.memory.demand_at_once(bytes, || self.aside())?;
        self.state().trim(self.room_for_granules());
        Some(reservation)
    }

    /// Drops the kept values if work that needs `bytes` would have no room otherwise.
    fn make_room(&self, bytes: u64) {
        let needed = bytes.saturating_add(self.reserved()).saturating_add(self.aside());
        if needed > self.budget && self.kept.weight() > 0 {
            self.kept.clear();
        }
    }

    /// Returns the part of the budget that is left for granules.
    fn room_for_granules(&self) -> u64 {
        let room = self.budget.saturating_sub(self.reserved()).saturating_sub(self.aside());
        room.max(MIN_ROOM.min(self.budget / 2))
    }

    /// Returns the bytes of kept values, idle decoders and scratch buffers that count against the budget.
    fn aside(&self) -> u64 {
        let idle = self.idle.get().map_or(0, |idle| idle.weight());
        idle.saturating_add(self.scratch.weight()).saturating_sub(ASIDE).saturating_add(self.kept.weight())
    }

    /// Returns the number of decoding threads.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Schedules a job on a worker thread. If no thread has started it, the first reader of the result runs
    /// it.
    pub fn task<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Task<T> {
        Task::new(&self.workers, with_deadline(memory_budget::holding(job)))
    }

    /// Schedules a job on a worker thread.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.workers.run(with_deadline(memory_budget::holding(job)));
    }

    /// Returns the estimate of how many streams are being decoded.
    pub fn fair_share(&self) -> &FairShare {
        &self.fair_share
    }

    /// Returns scratch tables and buffers of a type, reused or new.
    pub fn scratch<T: Any + Send + Default>(&self) -> Box<T> {
        self.scratch.take()
    }

    /// Keeps scratch tables and buffers of `weight` bytes for reuse.
    pub fn keep_scratch<T: Any + Send>(&self, scratch: Box<T>, weight: u64) {
        self.scratch.give(scratch, weight);
    }

    /// Keeps a value of `weight` bytes under the budget, in place of an earlier one of `id`, until others need the
    /// room or it was not used for a while. A value that is larger than the budget is not kept.
    pub fn keep<T: Any + Send + Sync>(&self, id: ContentId, value: Arc<T>, weight: u64) {
        self.kept.put(id, value, weight);
        self.state().trim(self.room_for_granules());
    }

    /// Returns the value that is kept for `id`, if there still is one.
    pub fn kept<T: Any + Send + Sync>(&self, id: ContentId) -> Option<Arc<T>> {
        self.kept.get(id)
    }

    /// Returns the temporary file for sliding windows.
    pub fn temp_segments(&self) -> &TempSegments {
        &self.temp_segments
    }

    /// Returns the store of seek tables, which persist between mounts.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Returns a new content identifier.
    pub fn id(&self) -> ContentId {
        ContentId(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the granule of `id` that begins at `start`, if it is cached.
    pub fn get(&self, id: ContentId, start: u64) -> Option<Bytes> {
        self.state().chunks.get(&(id, start)).cloned()
    }

    /// Caches a granule, evicting others; a granule larger than the budget is not cached.
    pub fn put(&self, id: ContentId, start: u64, bytes: &Bytes) {
        let cost = cost(bytes);
        if cost > self.budget {
            return;
        }
        let mut state = self.state();
        state.drop_granule((id, start));
        state.held += cost;
        state.chunks.put((id, start), bytes.clone());
        *state.of_content.entry(id).or_default() += 1;
        state.trim(self.room_for_granules());
        drop(state);
        self.kept.drop_idle();
    }

    /// True if a granule of `len` bytes can be cached without evicting another.
    pub fn has_room(&self, len: usize) -> bool {
        let held = self.state().held;
        held.saturating_add(len as u64 + ENTRY) <= self.room_for_granules()
    }

    /// Drops everything that is kept for a content that is gone.
    pub fn forget(&self, id: ContentId) {
        self.idle.get().inspect(|idle| idle.forget(id));
        self.kept.forget(id);
        let mut state = self.state();
        // Most contents that go were never decoded, and a search takes as long as the cache is large.
        let Some(count) = state.of_content.get(&id).copied() else { return };
        let of_it = state.chunks.iter().map(|(key, _)| *key).filter(|key| key.0 == id);
        let of_it: Vec<_> = of_it.take(count).collect();
        for key in of_it {
            state.drop_granule(key);
        }
    }

    /// Returns a buffer of at least `len` bytes capacity with arbitrary contents.
    pub fn buffer(&self, len: usize) -> Vec<u8> {
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
                // Zeroed pages from the system are free; growing a vector would write the zeros.
                vec![0; len]
            }
        }
    }

    /// Takes back a granule that was read; its buffer is reused once no other reader holds it.
    pub fn used(&self, bytes: Bytes) {
        if Arc::strong_count(&bytes) == 1 {
            self.state().reuse(bytes);
        }
    }

    /// Records that a reader read the granule at `start` to its end. Drops the least recently used of the granules
    /// far behind the reader, if it is among the [`LOOKED_AT`] least recently used of its content. A reader that goes from end
    /// to end then reuses the same few buffers, which stay in the processor's cache, instead of filling the whole budget.
    pub fn read_on(&self, id: ContentId, start: u64) {
        if start < BEHIND {
            return;
        }
        let mut state = self.state();
        let own = state.chunks.iter().rev().map(|(key, _)| *key).filter(|key| key.0 == id);
        let oldest = own.take(LOOKED_AT).find(|key| key.1.saturating_add(BEHIND) <= start);
        if let Some(key) = oldest {
            state.drop_granule(key);
        }
    }

    /// Returns the idle decoders of this mount. The whole crate uses one type `T`.
    pub fn idle<T: Reclaim + Default>(&self) -> &T {
        let idle: &dyn Any = &**self.idle.get_or_init(|| Box::<T>::default());
        idle.downcast_ref().expect("one type is asked for in the whole crate")
    }

    fn state(&self) -> MutexGuard<'_, Granules> {
        locked(&self.state)
    }
}

impl Granules {
    /// Evicts the least recently used granules until at most `most` bytes are held.
    fn trim(&mut self, most: u64) {
        while self.held > most {
            let Some(oldest) = self.chunks.peek_lru().map(|(key, _)| *key) else { break };
            self.drop_granule(oldest);
        }
    }

    fn drop_granule(&mut self, key: (ContentId, u64)) {
        let Some(bytes) = self.chunks.pop(&key) else { return };
        if let Entry::Occupied(mut count) = self.of_content.entry(key.0) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
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
