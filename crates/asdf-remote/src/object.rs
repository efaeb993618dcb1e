//! One version of an object, and its blocks: in memory, on disk, in flight, on the server.

mod ranges;
mod reader;
mod transfer;

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use seekable::cache::{Bytes, ContentId};
use seekable::error::{Error, Result};
use seekable::source::{Provenance, Revision, SourceStat, SourceVersion};
use seekable::sync::{locked, locked_at_once};
use seekable::workers::caller;
use sha2::{Digest, Sha256};

use self::reader::BlockReader;
use super::block::{BLOCK, FIRST, Key};
use super::client::Trust;
use super::disk::DiskCache;
use super::fetch::Fetch;
use super::proof::{Proof, Sent};
use super::schedule::InFlight;
use super::shared::RemoteState;
use super::streams::{REQUEST, Streams, WINDOW, requests};
use super::url::Address;
use super::version::{ObjectVersion, RECORD, changed};

pub(super) use transfer::{Opened, OpenedObject, ask_version};

/// Length of the end of an object that is fetched with one request: the block index is looked for there.
const TAIL: usize = 64 << 10;

/// The time after which a server that did not answer is asked again for the state of an object.
const UNANSWERED: Duration = Duration::from_secs(10);

/// One version of an object.
pub(super) struct Object {
    shared: Arc<RemoteState>,
    pub(super) address: Address,
    trust: Trust,
    pub(super) label: PathBuf,
    version: ObjectVersion,
    /// The digest of address and version, and of the first bytes if the version was not proven by them.
    key: Key,
    /// The key of the blocks on disk.
    kept_key: Key,
    /// The first bytes of a version that is not proven yet.
    unproven: Mutex<Option<FirstBytes>>,
    /// True if other mounts may use the blocks: the version is proven, and its ETag is strong.
    is_durable: AtomicBool,
    /// The identifier of the blocks in memory.
    id: ContentId,
    in_flight: InFlight,
    pending: Mutex<HashMap<u64, Arc<Fetch>>>,
    streams: Mutex<Streams>,
    /// The time at which bytes arrived last.
    arrived: Mutex<Instant>,
    /// Offset that a sequential reader has reached; 0 if the last reader was not sequential.
    read_to: AtomicU64,
    /// Number of short ranges that were requested.
    ranges: AtomicUsize,
    /// True once the server had another version.
    is_changed: AtomicBool,
    current: Mutex<Current>,
    asking: Mutex<Asking>,
}

/// Locked while the server is asked for the state of the address.
#[derive(Debug, Default)]
struct Asking;

/// The first bytes of a recent version. Other versions may have the same validators, so these bytes are asked
/// for again before any others are used.
#[derive(Debug)]
struct FirstBytes {
    len: usize,
    digest: Key,
    /// The first and the last reply that had these bytes.
    first: Sent,
    last: Sent,
}

/// The state of the address, by the last reply.
#[derive(Clone, Copy, Debug)]
struct Current {
    stat: SourceStat,
    valid_until: Instant,
}

impl Object {
    pub(super) fn new(
        shared: Arc<RemoteState>,
        address: &Address,
        trust: Trust,
        opened: OpenedObject,
    ) -> Self {
        let OpenedObject { version, proof, sent, bytes } = opened;
        let kept_key = key(&shared, address, &version);
        let unproven = (proof == Proof::Recent && !bytes.is_empty()).then(|| FirstBytes {
            len: bytes.len(),
            digest: Sha256::digest(&bytes).into(),
            first: sent,
            last: sent,
        });
        let key = unproven.as_ref().map_or(kept_key, |first| digest([&kept_key, &first.digest]));
        let stat = stat(&shared, address, &key, &version);
        let valid_until = Instant::now() + shared.options.stat_lifetime;
        let is_durable = proof == Proof::Proven && version.strong().is_some();
        let object = Self {
            address: address.clone(),
            trust,
            label: PathBuf::from(address.to_string()),
            version,
            key,
            kept_key,
            unproven: Mutex::new(unproven),
            is_durable: AtomicBool::new(is_durable),
            id: shared.cache.id(),
            in_flight: InFlight::default(),
            pending: Mutex::default(),
            streams: Mutex::default(),
            arrived: Mutex::new(Instant::now()),
            read_to: AtomicU64::new(0),
            ranges: AtomicUsize::new(0),
            is_changed: AtomicBool::new(false),
            current: Mutex::new(Current { stat, valid_until }),
            asking: Mutex::default(),
            shared,
        };
        object.keep_first(bytes);
        object
    }

    pub(super) fn size(&self) -> u64 {
        self.version.size
    }

    /// True if the server said recently that this is the current version.
    pub(super) fn is_current(&self) -> bool {
        !self.is_changed() && Instant::now() < locked(&self.current).valid_until
    }

    pub(super) fn is_changed(&self) -> bool {
        self.is_changed.load(Ordering::Relaxed)
    }

    /// True if an object that was opened at the same address is this version. Notes that.
    pub(super) fn is_still(&self, opened: &OpenedObject) -> bool {
        let is_proven = locked_at_once(&self.unproven).is_some_and(|unproven| unproven.is_none());
        let is_still = is_proven && !self.is_changed() && opened.version.is_same(&self.version);
        if is_still {
            self.confirm();
        }
        is_still
    }

    /// Notes that the server has another version, and its state if that is known.
    fn note_change(&self, stat: Option<SourceStat>) {
        self.is_changed.store(true, Ordering::Relaxed);
        let mut current = locked(&self.current);
        let unknown = SourceStat { version: SourceVersion::of_tag("changed"), ..current.stat };
        let valid_until = Instant::now() + self.shared.options.stat_lifetime;
        *current = Current { stat: stat.unwrap_or(unknown), valid_until };
    }

    /// Notes that a reply confirmed this version.
    fn confirm(&self) {
        if !self.is_changed() {
            locked(&self.current).valid_until = Instant::now() + self.shared.options.stat_lifetime;
        }
    }

    /// Returns the state of the address. Asks the server if its last reply is old. If the server does not
    /// answer, returns the last known state: each request for bytes checks the version again.
    pub(super) fn stat(self: &Arc<Self>) -> SourceStat {
        let last = *locked(&self.current);
        if Instant::now() < last.valid_until {
            return last.stat;
        }
        // One thread asks the server. Meanwhile the other threads return the last known state.
        let Some(_asking) = locked_at_once(&self.asking) else { return last.stat };
        let ask = |known| ask_version(&self.shared, &self.address, self.trust, known);
        // A request that proves the version is under way.
        let Some(unproven) = locked_at_once(&self.unproven) else { return last.stat };
        let is_unproven = unproven.is_some();
        drop(unproven);
        let asked = if is_unproven { self.ask_first_bytes() } else { ask(Some(&self.version)) };
        let asked = match asked {
            Err(error) if error.errno() == libc::ESTALE => ask(None),
            asked => asked,
        };
        match asked {
            // The first bytes have changed under the old validators; the change is noted already.
            Ok(version) if is_unproven && self.is_changed() && version.is_same(&self.version) => {}
            Ok(version) if version.is_same(&self.version) && !self.is_changed() => self.confirm(),
            Ok(version) => self.note_change(Some(stat_of(&self.shared, &self.address, &version))),
            Err(error) if error.errno() == libc::ENOENT => self.note_change(None),
            // The request was interrupted: the next call asks the server again.
            Err(error) if error.errno() == libc::EINTR => {}
            Err(error) => {
                tracing::debug!("{}: its state is not known: {error}", self.address);
                locked(&self.current).valid_until = Instant::now() + UNANSWERED;
            }
        }
        locked(&self.current).stat
    }

    /// Returns the version for other programs, without validators that prove nothing.
    pub(super) fn revision(&self) -> Revision {
        let revision = self.version.revision();
        if locked(&self.unproven).is_none() {
            return revision;
        }
        let mtime = revision.mtime.filter(|_| revision.etag.is_some());
        Revision { etag: None, mtime, ..revision }
    }

    /// Returns the provenance: only the server can write the object at this address, and each change gives it
    /// another version.
    pub(super) fn provenance(&self) -> Provenance {
        let address = Sha256::digest(self.shared.identity(&self.address).as_bytes());
        Provenance { writers: address.to_vec(), changed: self.key.to_vec() }
    }

    /// Returns the length of a block.
    fn block_len(&self, block: u64) -> usize {
        self.size().saturating_sub(block.saturating_mul(BLOCK)).min(BLOCK) as usize
    }

    fn blocks(&self) -> u64 {
        self.size().div_ceil(BLOCK)
    }

    /// Reads at `offset`; returns fewer bytes than asked only at the end. Nothing beyond `extent_end` is read ahead.
    pub(super) fn read_at(self: &Arc<Self>, extent_end: u64, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let len = self.size().saturating_sub(offset).min(buf.len() as u64) as usize;
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let first = at / BLOCK;
            // Reads as many blocks at a time as one request may ask for.
            let end = (first + REQUEST).min((offset + len as u64).div_ceil(BLOCK));
            let part = ((end * BLOCK - at) as usize).min(len - done);
            self.read_blocks(extent_end, first..end, at, &mut buf[done..done + part])?;
            done += part;
        }
        Ok(len)
    }

    /// Returns the time at which a reader gives up: the read timeout after the arrival of its program's request, or
    /// after the last arrival of bytes of this object. A read that takes many requests thus fails only if the server
    /// does not answer one of them, and so does a reader that has waited for another one.
    fn deadline(&self) -> Instant {
        let patience = self.shared.options.read_timeout;
        caller::deadline(patience).max(*locked(&self.arrived) + patience)
    }

    fn read_blocks(
        self: &Arc<Self>,
        extent_end: u64,
        blocks: Range<u64>,
        at: u64,
        buf: &mut [u8],
    ) -> Result<()> {
        let deadline = self.deadline();
        let most = (self.shared.cache.budget() / 4 / BLOCK).clamp(1, WINDOW);
        let (ahead, goes_on) = {
            let mut streams = locked(&self.streams);
            let end = extent_end.min(self.size()).div_ceil(BLOCK);
            (streams.read(blocks.clone(), end, most), streams.goes_on())
        };
        if !goes_on {
            self.read_to.store(0, Ordering::Relaxed);
        }
        let mut reader = BlockReader::new(self, blocks.clone(), deadline)?;
        self.read_ahead(ahead);
        let mut done = 0;
        for block in blocks {
            let bytes = reader.block(block)?;
            let skip = (at + done as u64 - block * BLOCK) as usize;
            let part = bytes.get(skip..).unwrap_or_default();
            let part = &part[..part.len().min(buf.len() - done)];
            buf[done..done + part.len()].copy_from_slice(part);
            done += part.len();
            // A look at the end of the object does not drop its head.
            if goes_on && skip + part.len() == bytes.len() {
                self.read_to.store(block * BLOCK, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn in_memory(&self, block: u64) -> Option<Bytes> {
        self.shared.cache.get(self.id, block * BLOCK)
    }

    /// Returns the cache on disk if it may have blocks of this version.
    fn disk(&self) -> Option<&DiskCache> {
        self.shared.disk.as_ref().filter(|_| self.is_durable.load(Ordering::Relaxed))
    }

    fn on_disk(&self, block: u64) -> Option<Bytes> {
        let bytes = Arc::new(self.disk()?.get(&self.kept_key, block, self.block_len(block))?);
        self.shared.client.counters.disk_hits.fetch_add(1, Ordering::Relaxed);
        self.shared.cache.put(self.id, block * BLOCK, &bytes);
        Some(bytes)
    }

    /// True if the block is neither cached nor requested.
    fn is_missing(&self, pending: &HashMap<u64, Arc<Fetch>>, block: u64) -> bool {
        !pending.contains_key(&block)
            && self.in_memory(block).is_none()
            && !self.disk().is_some_and(|disk| disk.has(&self.kept_key, block))
    }

    /// Requests the missing ones of these blocks. The caller has joined the requests as a reader.
    fn request(self: &Arc<Self>, blocks: Range<u64>, deadline: Instant) -> Result<Vec<Arc<Fetch>>> {
        let mut fetches = self.plan(blocks, deadline);
        if self.is_changed() && !fetches.is_empty() {
            for fetch in fetches {
                self.forget(&fetch);
                fetch.end(Err(changed().of(&self.label)));
            }
            return Err(changed().of(&self.label));
        }
        for fetch in &mut fetches {
            fetch.join();
            let object = self.clone();
            let fetch = fetch.clone();
            self.shared.schedule.awaited(&self.in_flight, move || object.run(&fetch));
        }
        Ok(fetches)
    }

    /// Requests blocks that may be read soon, as many as memory allows.
    fn read_ahead(self: &Arc<Self>, blocks: Range<u64>) {
        if blocks.is_empty() || self.is_changed() || !self.shared.schedule.has_threads() {
            return;
        }
        let deadline = Instant::now() + self.shared.options.read_timeout;
        for fetch in self.plan(blocks, deadline) {
            let bytes = (fetch.blocks.end - fetch.blocks.start) * BLOCK;
            let Some(reservation) = self.shared.cache.reserve(bytes) else {
                self.forget(&fetch);
                fetch.end(Err(super::retry::eio("there was no memory to read ahead")));
                continue;
            };
            let object = self.clone();
            self.shared.schedule.ahead(&self.in_flight, move || {
                let _reservation = reservation;
                object.run(&fetch);
            });
        }
    }

    /// Announces that a range will be read soon.
    pub(super) fn will_need(self: &Arc<Self>, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.size());
        if offset < end {
            let first = offset / BLOCK;
            self.read_ahead(first..end.div_ceil(BLOCK).min(first + WINDOW));
        }
    }

    /// Registers requests for the missing ones of these blocks.
    fn plan(&self, mut blocks: Range<u64>, deadline: Instant) -> Vec<Arc<Fetch>> {
        // The index is looked for in the last bytes of the object, which may begin in the block before.
        let is_short_end = blocks.start + 1 == self.blocks() && self.block_len(blocks.start) < TAIL;
        blocks.start -= u64::from(is_short_end && blocks.start > 1);
        let patience = self.shared.options.read_timeout;
        let mut pending = locked(&self.pending);
        let planned =
            requests(blocks.start..blocks.end.min(self.blocks()), |block| self.is_missing(&pending, block));
        let fetches: Vec<_> =
            planned.into_iter().map(|range| Arc::new(Fetch::new(range, deadline, patience))).collect();
        for fetch in &fetches {
            for block in fetch.blocks.clone() {
                pending.entry(block).or_insert_with(|| fetch.clone());
            }
        }
        fetches
    }

    /// Removes the blocks of a request that are still pending.
    fn forget(&self, fetch: &Arc<Fetch>) {
        let mut pending = locked(&self.pending);
        for block in fetch.blocks.clone() {
            if pending.get(&block).is_some_and(|other| Arc::ptr_eq(other, fetch)) {
                pending.remove(&block);
            }
        }
    }

    /// Returns a buffer for a block. A sequential reader's new blocks get the buffers of those far behind it,
    /// because fresh memory takes as long as the transfer.
    fn buffer(&self, len: usize) -> Vec<u8> {
        self.shared.cache.read_on(self.id, self.read_to.load(Ordering::Relaxed));
        let mut buffer = self.shared.cache.buffer(len);
        buffer.resize(len, 0);
        buffer
    }

    /// Adds the next block of a request, which has arrived.
    fn arrive(&self, fetch: &Arc<Fetch>, bytes: Vec<u8>) {
        *locked(&self.arrived) = Instant::now();
        let block = fetch.blocks.start + fetch.arrived();
        let bytes = Arc::new(bytes);
        self.shared.cache.put(self.id, block * BLOCK, &bytes);
        fetch.arrive(bytes.clone());
        let mut pending = locked(&self.pending);
        if pending.get(&block).is_some_and(|other| Arc::ptr_eq(other, fetch)) {
            pending.remove(&block);
        }
        drop(pending);
        self.keep(block, &bytes);
    }

    /// Caches the first blocks, which came with the opening.
    fn keep_first(&self, bytes: Vec<u8>) {
        if bytes.len() as u64 == self.size().min(FIRST) && !bytes.is_empty() {
            for (block, part) in (0..).zip(bytes.chunks(BLOCK as usize)) {
                let part = Arc::new(part.to_vec());
                self.shared.cache.put(self.id, block * BLOCK, &part);
                self.keep(block, &part);
            }
            self.keep_version();
        }
    }

    /// Writes the version to the cache on disk, for [`kept_version`] of a later mount.
    fn keep_version(&self) {
        if let (Some(disk), Some(record)) = (self.disk(), self.version.record()) {
            disk.put(&key_of_version(&self.shared, &self.address), 0, &record);
        }
    }

    /// Writes a block to the cache on disk if it is the same next time.
    fn keep(&self, block: u64, bytes: &Bytes) {
        if let Some(disk) = self.disk() {
            disk.put(&self.kept_key, block, bytes);
        }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        self.shared.cache.forget(self.id);
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Object")
            .field("address", &self.address)
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}

/// Returns the version of which the cache on disk has the first block.
fn kept_version(shared: &RemoteState, address: &Address) -> Option<ObjectVersion> {
    let disk = shared.disk.as_ref()?;
    let record = disk.get(&key_of_version(shared, address), 0, RECORD)?;
    let version = ObjectVersion::of_record(&record)?;
    disk.has(&key(shared, address, &version), 0).then_some(version)
}

/// Returns a digest of the address and the version. A server can't choose it.
fn key(shared: &RemoteState, address: &Address, version: &ObjectVersion) -> Key {
    digest([shared.identity(address).as_bytes(), version.tag().as_bytes()])
}

/// Returns the key of the record of an address's version.
fn key_of_version(shared: &RemoteState, address: &Address) -> Key {
    digest([shared.identity(address).as_bytes()])
}

fn digest<const N: usize>(parts: [&[u8]; N]) -> Key {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}

/// Returns the state of a version of the object at an address.
pub(super) fn stat_of(shared: &RemoteState, address: &Address, version: &ObjectVersion) -> SourceStat {
    stat(shared, address, &key(shared, address, version), version)
}

fn stat(shared: &RemoteState, address: &Address, key: &Key, version: &ObjectVersion) -> SourceStat {
    let tag: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let mtime = shared.times.of_reply(&shared.identity(address), version.modified());
    SourceStat { size: version.size, mtime, version: SourceVersion::of_tag(&tag) }
}

/// Adds the address to an error.
pub(super) fn of(address: &Address) -> impl Fn(Error) -> Error {
    move |error| error.of(address.to_string())
}
