//! A simulated file system in memory that tracks which changes are durable.
//!
//! The disk has two states: the one that programs see, and the one that survives a crash. Each change is
//! applied to the first at once and queued for the second. Data are queued in sectors of 512 bytes, each of
//! which may be lost independently. Changes of a file's size and page map stay in order. Each name is
//! independent. A sync applies the queued changes of its file or directory. A crash applies any subset of the
//! remaining changes: [`Choices`] lists them.
//!
//! The disk may be full: files then get no more blocks than [`Disk::with_room`] says.

mod choices;
mod state;
mod storage;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use asdf_file::edit::SavePlan;
use seekable::source::Identity;
use seekable::source::storage::{Meta, Storage};

use crate::dice::Dice;
#[allow(unused_imports)] // crash uses it
pub use choices::Choices;
use state::{Change, Inode, SECTOR, State};

pub const PAGE: u64 = 4096;
/// Sectors in a block, which is what files get of a disk that may be full.
const SECTORS_IN_BLOCK: usize = 2;

/// The file that is saved.
pub const SOURCE: &str = "/data/galaxy.asdf";
/// Capabilities and behaviour of this file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Abilities {
    pub clones: bool,
    pub inserts: bool,
    pub links: u64,
    /// Space can be taken before it is written to.
    pub reserves: bool,
    /// A write over existing bytes gets another place on the disk.
    pub copies_on_write: bool,
    /// No file can be created beside the source.
    pub closed: bool,
    /// No program writes to the source, and one that opens it waits for the lease.
    pub leases: bool,
    /// New files belong to another user, as for root on a network file system.
    pub squashes: bool,
    /// A program that looked up the source before its name was swapped opens it after the swap.
    pub late_writer: bool,
    /// Another program writes to the source as soon as the save has removed its journal, or renamed the new file.
    pub next_writer: bool,
}

impl Abilities {
    /// Returns the abilities with which a growing save uses `plan`.
    pub fn of(plan: SavePlan) -> Self {
        let links = if plan == SavePlan::Rewrite { 2 } else { 1 };
        let inserts = plan == SavePlan::Insert;
        Self { clones: plan == SavePlan::Clone, inserts, reserves: inserts, links, ..Self::default() }
    }
}

/// A fault: call number `at` fails with `errno`, and if `always`, so do all later ones.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub at: usize,
    pub errno: i32,
    pub always: bool,
    /// Calls that only read fail and count, too, not only those that change something.
    pub reads: bool,
}

#[derive(Clone, Debug)]
pub struct Disk {
    now: State,
    durable: State,
    pending: Vec<Change>,
    pub abilities: Abilities,
    next: u64,
    clock: i64,
    syncs: usize,
    changes: usize,
    forgotten_sync: Option<usize>,
    fault: Option<Fault>,
    /// Number of waits after which the fault is gone; `None` if it stays.
    waits: Option<usize>,
    moments: Option<Vec<Moment>>,
    /// Also records the disk before each change.
    records_changes: bool,
    /// The number of blocks that files may still get; `None` if the disk can't become full. A block that a file gives back
    /// is taken by another program at once.
    room: Option<usize>,
    /// The sectors of each page that have room on the disk. Of other pages, all have.
    allocated: BTreeMap<u64, u8>,
}

/// A recorded disk.
#[derive(Clone, Debug)]
pub struct Moment {
    pub disk: Disk,
    /// True if it was recorded before a sync or at the end. A crash then may leave all that a crash since the sync before
    /// may leave.
    pub is_at_sync: bool,
}

/// A handle on a simulated file system; clones share it.
#[derive(Clone, Debug)]
pub struct Sim(Arc<Mutex<Disk>>);

impl Disk {
    /// Makes a disk on which `path` holds `bytes` durably; pages of zeros are holes.
    pub fn with(path: &Path, bytes: &[u8], abilities: Abilities) -> Self {
        let mut disk = Self {
            now: State::default(),
            durable: State::default(),
            pending: Vec::new(),
            abilities,
            next: 100,
            clock: 1000,
            syncs: 0,
            changes: 0,
            forgotten_sync: None,
            fault: None,
            waits: None,
            moments: None,
            records_changes: false,
            room: None,
            allocated: BTreeMap::new(),
        };
        disk.now.names.insert(path.to_owned(), 1);
        disk.now.inodes.insert(1, Inode { size: bytes.len() as u64, mtime: 1, map: BTreeMap::new() });
        for (n, page) in bytes.chunks(PAGE as usize).enumerate() {
            if page.iter().any(|byte| *byte != 0) {
                disk.write(1, n as u64 * PAGE, page);
            }
        }
        disk.pending.clear();
        disk.durable = disk.now.clone();
        disk
    }

    pub fn mount(self) -> Sim {
        Sim(Arc::new(Mutex::new(self)))
    }

    /// Returns the bytes of a file as programs see it.
    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        self.now.names.get(path).map(|inode| self.now.read(*inode, 0..u64::MAX))
    }

    /// True if a file has these bytes, as programs see it.
    pub fn has_bytes(&self, path: &Path, bytes: &[u8]) -> bool {
        self.now.names.get(path).is_some_and(|inode| self.now.has_bytes(*inode, bytes))
    }

    /// True if there is only this name.
    pub fn has_only(&self, path: &Path) -> bool {
        self.now.names.len() == 1 && self.now.names.contains_key(path)
    }

    pub fn names(&self) -> Vec<PathBuf> {
        self.now.names.keys().cloned().collect()
    }

    /// Makes the `nth` sync do nothing.
    pub fn forget_sync(mut self, nth: usize) -> Self {
        self.forgotten_sync = Some(nth);
        self
    }

    pub fn fail(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Ends the fault once a program has waited so many times.
    pub fn ends_after(mut self, waits: usize) -> Self {
        self.waits = Some(waits);
        self
    }

    pub(super) fn wait(&mut self) {
        self.waits = self.waits.map(|waits| waits.saturating_sub(1));
        if self.waits == Some(0) {
            self.fault = None;
        }
    }

    /// Records the disk before each sync from now on.
    pub fn record(mut self) -> Self {
        (self.moments, self.syncs, self.changes) = (Some(Vec::new()), 0, 0);
        self
    }

    /// Records the disk before each sync and each change from now on.
    pub fn record_changes(mut self) -> Self {
        self.records_changes = true;
        self.record()
    }

    /// Lets files get only this many blocks of 1 KiB from now on.
    pub fn with_room(mut self, blocks: usize) -> Self {
        self.room = Some(blocks);
        self
    }

    /// Returns the size and the page map of the source, for messages.
    pub fn source_map(&self) -> String {
        let inode = self.now.names.get(Path::new(SOURCE)).and_then(|inode| self.now.inodes.get(inode));
        format!("{inode:?}")
    }

    /// Returns the number of syncs since recording began.
    pub fn syncs(&self) -> usize {
        self.syncs
    }

    /// Returns the number of changes that a crash could lose.
    pub fn at_risk(&self) -> usize {
        self.pending.len()
    }

    /// Returns the disk after a crash; `keeps` decides for each change, by number, if it survives.
    pub fn crashed(&self, dice: &mut Dice, keeps: impl Fn(usize, &mut Dice) -> bool) -> Disk {
        let mut disk = self.killed();
        let mut lost_order = BTreeSet::new();
        let has_moved: BTreeSet<u64> = self
            .pending
            .iter()
            .filter(|change| matches!(change, Change::Insert { .. } | Change::Collapse { .. }))
            .filter_map(Change::inode)
            .collect();
        for (n, change) in self.pending.iter().enumerate() {
            let kept = keeps(n, dice);
            match change.inode().filter(|_| change.is_ordered()) {
                None if kept => disk.durable.apply(change, None),
                None => {}
                Some(inode) if lost_order.contains(&inode) => {
                    // Sizes are independent, but not across a move of the file's pages.
                    let size = matches!(change, Change::Size { .. }) && !has_moved.contains(&inode);
                    if size && kept {
                        disk.durable.apply(change, None);
                    }
                }
                Some(_) if kept => disk.durable.apply(change, None),
                Some(inode) => {
                    lost_order.insert(inode);
                    if let Change::Insert { from, .. } | Change::Collapse { from, .. } = change {
                        let map = disk.durable.inodes.get(&inode).map(|inode| &inode.map);
                        let end = map.and_then(|map| map.keys().next_back().copied()).unwrap_or(0) + 2;
                        if dice.below(4) > 0 {
                            let stop = from + dice.below(end.saturating_sub(*from) + 1);
                            disk.durable.apply(change, Some(stop));
                        }
                    }
                }
            }
        }
        disk.durable.clear_behind_ends();
        disk.now = disk.durable.clone();
        disk.pending.clear();
        disk
    }

    /// Returns the disk as it is durable, before a crash keeps more.
    fn after_crash(&self) -> Disk {
        Self {
            now: State::default(),
            durable: self.durable.clone(),
            pending: Vec::new(),
            forgotten_sync: None,
            fault: None,
            waits: None,
            moments: None,
            records_changes: false,
            allocated: self.allocated.clone(),
            ..*self
        }
    }

    /// Returns the disk after the program was killed, without a crash.
    pub fn killed(&self) -> Disk {
        let mut disk = self.clone();
        (disk.forgotten_sync, disk.fault, disk.moments) = (None, None, None);
        disk.records_changes = false;
        disk
    }

    fn change(&mut self, change: Change) {
        self.now.apply(&change, None);
        self.pending.push(change);
    }

    /// Lets the other program of [`Abilities::next_writer`] write.
    fn write_next(&mut self) {
        if let Ok(source) = self.inode(Path::new(SOURCE))
            && std::mem::take(&mut self.abilities.next_writer)
        {
            self.write(source, 300, b"another program");
        }
    }

    /// Writes as many of the bytes as there is room for, and returns their number.
    fn write(&mut self, inode: u64, offset: u64, bytes: &[u8]) -> usize {
        let mut done = 0;
        let mut is_full = false;
        while done < bytes.len() && !is_full {
            let at = offset + done as u64;
            let (logical, skip) = (at / PAGE, (at % PAGE) as usize);
            let wanted = (PAGE as usize - skip).min(bytes.len() - done);
            let len = self.allocate(inode, logical, skip..skip + wanted);
            is_full = len < wanted;
            if len == 0 {
                break;
            }
            if done > 0 {
                // A kill may come between two pages.
                self.remember(false);
            }
            let page = self.now.inodes[&inode].map[&logical];
            let old = self.now.pages.get(&page).map_or_else(|| vec![0; PAGE as usize], |page| page.to_vec());
            let mut new = old.clone();
            new[skip..skip + len].copy_from_slice(&bytes[done..done + len]);
            for sector in skip / SECTOR..(skip + len).div_ceil(SECTOR) {
                let bytes = new[sector * SECTOR..][..SECTOR].to_vec();
                self.change(Change::Data { inode, page, sector, bytes: bytes.into() });
            }
            done += len;
        }
        if done > 0 && self.now.inodes[&inode].size < offset + done as u64 {
            self.change(Change::Size { inode, size: offset + done as u64 });
        }
        self.touch(inode);
        done
    }

    /// Gives a part of a page a place on the disk, as far as there is room. Returns the number of its bytes that have one.
    fn allocate(&mut self, inode: u64, logical: u64, part: Range<usize>) -> usize {
        let found = self.now.inodes[&inode].map.get(&logical).copied();
        if self.room.is_none() {
            if found.is_none() {
                self.map_new(inode, logical);
            }
            return part.len();
        }
        let mut page = found;
        for block in part.start / SECTOR / SECTORS_IN_BLOCK..part.end.div_ceil(SECTOR * SECTORS_IN_BLOCK) {
            let sectors = ((1_u8 << SECTORS_IN_BLOCK) - 1) << (block * SECTORS_IN_BLOCK);
            let has_room = page.is_some_and(|page| {
                self.allocated.get(&page).is_none_or(|allocated| allocated & sectors == sectors)
            });
            if has_room {
                continue;
            }
            if self.room == Some(0) {
                return (block * SECTORS_IN_BLOCK * SECTOR).saturating_sub(part.start);
            }
            self.room = self.room.map(|room| room - 1);
            let page = *page.get_or_insert_with(|| {
                let page = self.map_new(inode, logical);
                self.allocated.insert(page, 0);
                page
            });
            *self.allocated.entry(page).or_insert(0) |= sectors;
        }
        part.len()
    }

    /// Maps a new page of zeros, and returns its number.
    fn map_new(&mut self, inode: u64, logical: u64) -> u64 {
        self.next += 1;
        let page = self.next;
        self.change(Change::Map { inode, logical, page: Some(page) });
        page
    }

    fn touch(&mut self, inode: u64) {
        self.clock += 1;
        self.change(Change::Time { inode, mtime: self.clock });
    }

    /// Records the disk.
    fn remember(&mut self, is_at_sync: bool) {
        if (is_at_sync || self.records_changes)
            && let Some(mut moments) = self.moments.take()
        {
            moments.push(Moment { disk: self.clone(), is_at_sync });
            self.moments = Some(moments);
        }
    }

    fn before_sync(&mut self) -> bool {
        self.remember(true);
        self.syncs += 1;
        self.forgotten_sync != Some(self.syncs - 1)
    }

    fn make_durable(&mut self, is_about: impl Fn(&Change) -> bool) {
        let (now, later): (Vec<_>, Vec<_>) = self.pending.drain(..).partition(|change| is_about(change));
        self.pending = later;
        for change in now {
            self.durable.apply(&change, None);
        }
    }

    /// Counts a change, and fails it if the fault is due.
    fn turn(&mut self) -> io::Result<()> {
        self.remember(false);
        self.count()
    }

    /// Fails a call that only reads, if the fault is about these, too, and due.
    fn read_turn(&mut self) -> io::Result<()> {
        if self.fault.is_some_and(|fault| fault.reads) { self.count() } else { Ok(()) }
    }

    fn count(&mut self) -> io::Result<()> {
        self.changes += 1;
        match self.fault {
            Some(fault) if self.changes - 1 == fault.at || (fault.always && self.changes > fault.at) => {
                Err(io::Error::from_raw_os_error(fault.errno))
            }
            _ => Ok(()),
        }
    }

    fn inode(&self, path: &Path) -> io::Result<u64> {
        self.now.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn meta(&self, inode: u64) -> Meta {
        let Inode { size, mtime, .. } = self.now.inodes.get(&inode).cloned().unwrap_or_default();
        let identity = Identity { device: 1, inode, size, mtime: (mtime, 0), ctime: (mtime, 0) };
        let links = if inode == 1 { self.abilities.links.max(1) } else { 1 };
        let uid = if self.abilities.squashes && inode != 1 { 4242 } else { 0 };
        Meta { identity, links, uid, gid: 0, mode: libc::S_IFREG | 0o600 }
    }
}

impl Sim {
    /// Opens a file by its path, as another program does.
    pub fn open_at(&self, path: &Path) -> io::Result<storage::SimFile> {
        let (dir, name) = split(path);
        self.open(&dir, name, true)
    }

    /// Returns the metadata of the file at a path.
    pub fn meta_of(&self, path: &Path) -> io::Result<Meta> {
        let (dir, name) = split(path);
        self.meta_at(&dir, name)
    }

    pub fn disk(&self) -> std::sync::MutexGuard<'_, Disk> {
        self.0.lock().expect("no test panics while it holds the disk")
    }

    /// Returns the disks that were recorded before syncs, and the current one.
    pub fn moments(&self) -> Vec<Disk> {
        let at_syncs = self.all_moments().into_iter().filter(|moment| moment.is_at_sync);
        at_syncs.map(|moment| moment.disk).collect()
    }

    /// Returns the recorded disks and the current one.
    pub fn all_moments(&self) -> Vec<Moment> {
        let mut disk = self.disk();
        let mut moments = disk.moments.take().unwrap_or_default();
        moments.push(Moment { disk: disk.clone(), is_at_sync: true });
        moments
    }

    /// Returns the number of syncs and changes since recording began.
    pub fn counts(&self) -> (usize, usize) {
        let disk = self.disk();
        (disk.syncs, disk.changes)
    }
}

/// Splits the path of a file.
pub fn split(path: &Path) -> (PathBuf, &OsStr) {
    (path.parent().expect("a file").to_owned(), path.file_name().expect("a file"))
}
