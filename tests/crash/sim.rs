//! A file system in memory that remembers what was not made durable.
//!
//! What a program sees and what would be there after a crash are two states of the disk. Each change
//! goes to the first at once and is queued for the second: data by sectors of 512 bytes, each of which
//! may be lost or not; sizes and the map from a file's pages to pages of the disk in their order; each
//! name by itself. A sync takes what it is about from the queue. A crash takes any part of the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use asdf_mount::edit::Plan;
use asdf_mount::source::Identity;
use asdf_mount::source::storage::{Extent, Extents, Meta, Storage};

pub(crate) const PAGE: u64 = 4096;
const SECTOR: usize = 512;

#[derive(Clone, Debug, Default)]
struct Inode {
    size: u64,
    mtime: i64,
    map: BTreeMap<u64, u64>,
}

/// One of the two states of the disk.
#[derive(Clone, Debug, Default)]
struct State {
    inodes: BTreeMap<u64, Inode>,
    pages: BTreeMap<u64, Arc<Vec<u8>>>,
    names: BTreeMap<PathBuf, u64>,
}

/// A change that is not durable yet.
#[derive(Clone, Debug)]
enum Change {
    Data { inode: u64, page: u64, sector: usize, bytes: Vec<u8> },
    Map { inode: u64, logical: u64, page: Option<u64> },
    Size { inode: u64, size: u64 },
    Time { inode: u64, mtime: i64 },
    Insert { inode: u64, from: u64, by: u64 },
    Collapse { inode: u64, from: u64, by: u64 },
    Name { path: PathBuf, inode: Option<u64> },
    Rename { from: PathBuf, to: PathBuf, inode: u64 },
}

impl Change {
    fn inode(&self) -> Option<u64> {
        match self {
            Self::Data { inode, .. }
            | Self::Map { inode, .. }
            | Self::Size { inode, .. }
            | Self::Time { inode, .. }
            | Self::Insert { inode, .. }
            | Self::Collapse { inode, .. } => Some(*inode),
            Self::Name { .. } | Self::Rename { .. } => None,
        }
    }

    /// Whether it is kept in order with the others of its inode.
    fn is_ordered(&self) -> bool {
        !matches!(self, Self::Data { .. } | Self::Name { .. } | Self::Rename { .. })
    }
}

impl State {
    /// Makes a change; one of a range that does not come to its end stops at `page`.
    fn apply(&mut self, change: &Change, stopped_at: Option<u64>) {
        match change {
            Change::Data { page, sector, bytes, .. } => {
                let page = self.pages.entry(*page).or_insert_with(|| Arc::new(vec![0; PAGE as usize]));
                Arc::make_mut(page)[sector * SECTOR..][..bytes.len()].copy_from_slice(bytes);
            }
            Change::Map { inode, logical, page } => {
                let map = &mut self.inodes.entry(*inode).or_default().map;
                match page {
                    Some(page) => map.insert(*logical, *page),
                    None => map.remove(logical),
                };
            }
            Change::Size { inode, size } => self.inodes.entry(*inode).or_default().size = *size,
            Change::Time { inode, mtime } => self.inodes.entry(*inode).or_default().mtime = *mtime,
            Change::Insert { inode, from, by } => {
                let inode = self.inodes.entry(*inode).or_default();
                inode.size += by * PAGE;
                let from = stopped_at.unwrap_or(*from).max(*from);
                let moved = inode.map.split_off(&from);
                inode.map.extend(moved.into_iter().map(|(logical, page)| (logical + by, page)));
            }
            Change::Collapse { inode, from, by } => {
                let inode = self.inodes.entry(*inode).or_default();
                let rest = inode.map.split_off(from);
                for (logical, page) in rest {
                    if logical >= from + by {
                        let stays = stopped_at.is_some_and(|stopped| logical >= stopped);
                        inode.map.insert(if stays { logical } else { logical - by }, page);
                    }
                }
                if stopped_at.is_none() {
                    inode.size -= by * PAGE;
                }
            }
            Change::Name { path, inode } => {
                match inode {
                    Some(inode) => self.names.insert(path.clone(), *inode),
                    None => self.names.remove(path),
                };
            }
            Change::Rename { from, to, inode } => {
                self.names.remove(from);
                self.names.insert(to.clone(), *inode);
            }
        }
    }

    fn read(&self, inode: u64, range: Range<u64>) -> Vec<u8> {
        let Some(inode) = self.inodes.get(&inode) else { return Vec::new() };
        let range = range.start..range.end.min(inode.size);
        let mut bytes = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let skip = at % PAGE;
            let len = (PAGE - skip).min(range.end - at) as usize;
            match inode.map.get(&(at / PAGE)).and_then(|page| self.pages.get(page)) {
                Some(page) => bytes.extend(&page[skip as usize..][..len]),
                None => bytes.resize(bytes.len() + len, 0),
            }
            at += len as u64;
        }
        bytes
    }

    /// What the kernel does with the last page when it reads an inode.
    fn clear_behind_ends(&mut self) {
        for inode in self.inodes.values_mut() {
            inode.map.retain(|logical, _| logical * PAGE < inode.size);
            if let Some(page) = inode.map.get(&(inode.size / PAGE)).and_then(|page| self.pages.get_mut(page))
            {
                Arc::make_mut(page)[(inode.size % PAGE) as usize..].fill(0);
            }
        }
    }
}

/// What this file system can do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Abilities {
    pub(crate) clones: bool,
    pub(crate) inserts: bool,
    pub(crate) links: u64,
    /// Nothing can be made beside the source.
    pub(crate) closed: bool,
}

impl Abilities {
    /// What it must be able to do for a growing save to be done by `plan`.
    pub(crate) fn of(plan: Plan) -> Self {
        let links = if plan == Plan::Rewrite { 2 } else { 1 };
        Self { clones: plan == Plan::Clone, inserts: plan == Plan::Insert, links, closed: false }
    }
}

/// A fault: from the `at`th change on, once or always, it answers `errno`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) errno: i32,
    pub(crate) always: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Disk {
    now: State,
    durable: State,
    pending: Vec<Change>,
    pub(crate) abilities: Abilities,
    next: u64,
    clock: i64,
    syncs: usize,
    changes: usize,
    forgotten_sync: Option<usize>,
    fault: Option<Fault>,
    moments: Option<Vec<Disk>>,
}

/// A handle on a simulated file system; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Sim(Arc<Mutex<Disk>>);

#[derive(Clone, Copy, Debug)]
pub(crate) struct SimFile(u64);

/// Chooses numbers; the same ones for the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end.max(1)
    }
}

impl Disk {
    /// A disk on which `path` holds `bytes`, durably; pages of zeros are holes.
    pub(crate) fn with(path: &Path, bytes: &[u8], abilities: Abilities) -> Self {
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
            moments: None,
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

    pub(crate) fn mount(self) -> Sim {
        Sim(Arc::new(Mutex::new(self)))
    }

    /// The bytes of a file as a program sees it.
    pub(crate) fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        self.now.names.get(path).map(|inode| self.now.read(*inode, 0..u64::MAX))
    }

    pub(crate) fn names(&self) -> Vec<PathBuf> {
        self.now.names.keys().cloned().collect()
    }

    /// Makes the `nth` sync do nothing.
    pub(crate) fn forget_sync(mut self, nth: usize) -> Self {
        self.forgotten_sync = Some(nth);
        self
    }

    pub(crate) fn fail(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Keeps the disk as it is before each sync from now on.
    pub(crate) fn record(mut self) -> Self {
        (self.moments, self.syncs, self.changes) = (Some(Vec::new()), 0, 0);
        self
    }

    /// How many changes could be lost.
    pub(crate) fn at_risk(&self) -> usize {
        self.pending.len()
    }

    /// The disk after a crash that keeps what `keeps` says of each change, by its number.
    pub(crate) fn crashed(&self, dice: &mut Dice, keeps: impl Fn(usize, &mut Dice) -> bool) -> Disk {
        let mut disk = self.clone();
        (disk.forgotten_sync, disk.fault, disk.moments) = (None, None, None);
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
                    // Sizes go their own ways, but not past a move of the file's pages.
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

    /// The disk after the program was killed, and nothing else.
    pub(crate) fn killed(&self) -> Disk {
        let mut disk = self.clone();
        (disk.forgotten_sync, disk.fault, disk.moments) = (None, None, None);
        disk
    }

    fn change(&mut self, change: Change) {
        self.now.apply(&change, None);
        self.pending.push(change);
    }

    fn write(&mut self, inode: u64, offset: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let (logical, skip) = (at / PAGE, (at % PAGE) as usize);
            let len = (PAGE as usize - skip).min(bytes.len() - done);
            let page = match self.now.inodes[&inode].map.get(&logical) {
                Some(page) => *page,
                None => {
                    self.next += 1;
                    let page = self.next;
                    self.change(Change::Map { inode, logical, page: Some(page) });
                    page
                }
            };
            let old = self.now.pages.get(&page).map_or_else(|| vec![0; PAGE as usize], |page| page.to_vec());
            let mut new = old.clone();
            new[skip..skip + len].copy_from_slice(&bytes[done..done + len]);
            for sector in skip / SECTOR..(skip + len).div_ceil(SECTOR) {
                let bytes = new[sector * SECTOR..][..SECTOR].to_vec();
                self.change(Change::Data { inode, page, sector, bytes });
            }
            done += len;
        }
        if self.now.inodes[&inode].size < offset + bytes.len() as u64 {
            self.change(Change::Size { inode, size: offset + bytes.len() as u64 });
        }
        self.touch(inode);
    }

    fn touch(&mut self, inode: u64) {
        self.clock += 1;
        self.change(Change::Time { inode, mtime: self.clock });
    }

    fn before_sync(&mut self) -> bool {
        if let Some(mut moments) = self.moments.take() {
            moments.push(self.clone());
            self.moments = Some(moments);
        }
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

    /// Counts a change, and fails it if it is its turn.
    fn turn(&mut self) -> io::Result<()> {
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
        let identity = Identity { device: 1, inode, size, mtime: (mtime, 0) };
        let links = if inode == 1 { self.abilities.links.max(1) } else { 1 };
        Meta { identity, links, uid: 0 }
    }
}

impl Sim {
    pub(crate) fn disk(&self) -> std::sync::MutexGuard<'_, Disk> {
        self.0.lock().expect("no test panics while it holds the disk")
    }

    /// The disks of all moments since recording began, and as it is now.
    pub(crate) fn moments(&self) -> Vec<Disk> {
        let mut disk = self.disk();
        let mut moments = disk.moments.take().unwrap_or_default();
        moments.push(disk.clone());
        moments
    }

    /// How many syncs and changes there were since recording began.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let disk = self.disk();
        (disk.syncs, disk.changes)
    }
}

impl Storage for Sim {
    type File = SimFile;

    fn open(&self, path: &Path, _write: bool) -> io::Result<SimFile> {
        self.disk().inode(path).map(SimFile)
    }

    fn create(&self, path: &Path) -> io::Result<SimFile> {
        let mut disk = self.disk();
        disk.turn()?;
        if disk.now.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if disk.abilities.closed && path.parent() != Some(Path::new("/state")) {
            return Err(io::Error::from_raw_os_error(libc::EACCES));
        }
        disk.next += 1;
        let inode = disk.next;
        disk.touch(inode);
        disk.change(Change::Name { path: path.to_owned(), inode: Some(inode) });
        Ok(SimFile(inode))
    }

    fn create_dir(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn meta(&self, file: &SimFile) -> io::Result<Meta> {
        Ok(self.disk().meta(file.0))
    }

    fn meta_at(&self, path: &Path) -> io::Result<Meta> {
        let disk = self.disk();
        match path == Path::new("/state") {
            true => Ok(disk.meta(0)),
            false => Ok(disk.meta(disk.inode(path)?)),
        }
    }

    fn read_at(&self, file: &SimFile, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let bytes = self.disk().now.read(file.0, offset..offset + buf.len() as u64);
        buf[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn write_at(&self, file: &SimFile, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.disk();
        match disk.turn() {
            Ok(()) => disk.write(file.0, offset, bytes),
            Err(error) => {
                disk.write(file.0, offset, &bytes[..bytes.len() / 2]);
                return Err(error);
            }
        }
        Ok(())
    }

    fn set_len(&self, file: &SimFile, len: u64) -> io::Result<()> {
        let mut disk = self.disk();
        disk.turn()?;
        let inode = file.0;
        let pages: Vec<u64> =
            disk.now.inodes[&inode].map.range(len.div_ceil(PAGE)..).map(|(logical, _)| *logical).collect();
        if len < disk.now.inodes[&inode].size {
            let last = disk.now.inodes[&inode].size.min(len.next_multiple_of(PAGE));
            if disk.now.inodes[&inode].map.contains_key(&(len / PAGE)) && last > len {
                disk.write(inode, len, &vec![0; (last - len) as usize]);
            }
        }
        for logical in pages {
            disk.change(Change::Map { inode, logical, page: None });
        }
        disk.change(Change::Size { inode, size: len });
        disk.touch(inode);
        Ok(())
    }

    fn next_data(&self, file: &SimFile, range: Range<u64>) -> io::Result<Option<Range<u64>>> {
        let disk = self.disk();
        let map = &disk.now.inodes[&file.0].map;
        let next = map.range(range.start / PAGE..).next().map(|(logical, _)| logical * PAGE);
        let next = next.filter(|start| *start < range.end);
        Ok(next.map(|start| start.max(range.start)..(start + PAGE).min(range.end)))
    }

    fn punch(&self, file: &SimFile, range: Range<u64>) -> io::Result<()> {
        let mut disk = self.disk();
        disk.turn()?;
        assert!(range.start.is_multiple_of(PAGE) && range.end.is_multiple_of(PAGE));
        for logical in range.start / PAGE..range.end / PAGE {
            disk.change(Change::Map { inode: file.0, logical, page: None });
        }
        disk.touch(file.0);
        Ok(())
    }

    fn clone_range(&self, from: &SimFile, range: Range<u64>, to: &SimFile, at: u64) -> io::Result<()> {
        let mut disk = self.disk();
        disk.turn()?;
        if !disk.abilities.clones {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        assert!(range.start.is_multiple_of(PAGE) && at.is_multiple_of(PAGE));
        // Sharing is not modelled: a copy that takes no time.
        let end = range.end.next_multiple_of(PAGE);
        let map: Vec<(u64, u64)> = disk.now.inodes[&from.0]
            .map
            .range(range.start / PAGE..end / PAGE)
            .map(|(logical, page)| (*logical, *page))
            .collect();
        for (logical, page) in map {
            let bytes = disk.now.pages[&page].to_vec();
            let logical = logical - range.start / PAGE + at / PAGE;
            disk.next += 1;
            let page = disk.next;
            disk.now.pages.insert(page, Arc::new(bytes.clone()));
            disk.durable.pages.insert(page, Arc::new(bytes));
            disk.change(Change::Map { inode: to.0, logical, page: Some(page) });
        }
        let size = at + (range.end - range.start);
        if disk.now.inodes[&to.0].size < size {
            disk.change(Change::Size { inode: to.0, size });
        }
        Ok(())
    }

    fn copy_range(&self, from: &SimFile, range: Range<u64>, to: &SimFile, at: u64) -> io::Result<()> {
        let mut disk = self.disk();
        disk.turn()?;
        let bytes = disk.now.read(from.0, range);
        disk.write(to.0, at, &bytes);
        Ok(())
    }

    fn inserts_by_extent(&self, _file: &SimFile) -> bool {
        self.disk().abilities.inserts
    }

    fn insert(&self, file: &SimFile, offset: u64, len: u64) -> io::Result<()> {
        let mut disk = self.disk();
        assert!(offset.is_multiple_of(PAGE) && len.is_multiple_of(PAGE));
        let change = Change::Insert { inode: file.0, from: offset / PAGE, by: len / PAGE };
        if let Err(error) = disk.turn() {
            // What was moved until then stays so.
            let stopped = disk.now.inodes[&file.0].map.keys().next_back().copied().unwrap_or(0);
            disk.now.apply(&change, Some(stopped));
            disk.durable.apply(&change, Some(stopped));
            return Err(error);
        }
        disk.change(change);
        disk.touch(file.0);
        Ok(())
    }

    fn collapse(&self, file: &SimFile, offset: u64, len: u64) -> io::Result<()> {
        let mut disk = self.disk();
        disk.turn()?;
        assert!(offset.is_multiple_of(PAGE) && len.is_multiple_of(PAGE));
        if offset + len >= disk.now.inodes[&file.0].size {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        disk.change(Change::Collapse { inode: file.0, from: offset / PAGE, by: len / PAGE });
        disk.touch(file.0);
        Ok(())
    }

    fn extents(&self, file: &SimFile) -> io::Result<Extents> {
        let disk = self.disk();
        let extent = |(logical, page): (&u64, &u64)| Extent {
            logical: logical * PAGE,
            physical: page * PAGE,
            len: PAGE,
        };
        Ok(Extents::Known(disk.now.inodes[&file.0].map.iter().map(extent).collect()))
    }

    fn keep_attributes(&self, _from: &SimFile, _to: &SimFile) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self, file: &SimFile) -> io::Result<()> {
        let mut disk = self.disk();
        if disk.before_sync() {
            disk.turn()?;
            disk.make_durable(|change| change.inode() == Some(file.0));
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        if disk.before_sync() {
            disk.turn()?;
            let within = |path: &PathBuf| path.parent() == Some(dir);
            disk.make_durable(|change| match change {
                Change::Name { path, .. } => within(path),
                Change::Rename { to, .. } => within(to),
                _ => false,
            });
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.turn()?;
        let inode = disk.inode(from)?;
        disk.change(Change::Rename { from: from.to_owned(), to: to.to_owned(), inode });
        Ok(())
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.turn()?;
        disk.inode(path)?;
        disk.change(Change::Name { path: path.to_owned(), inode: None });
        Ok(())
    }

    fn lock(&self, _file: &SimFile) -> io::Result<()> {
        Ok(())
    }
}
