//! The system calls of a program that saves.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seekable::source::storage::{Extent, Extents, Meta, Storage};

use super::state::Change;
use super::{PAGE, Sim};

#[derive(Clone, Copy, Debug)]
pub struct SimFile(u64);

impl Storage for Sim {
    type File = SimFile;
    type Dir = PathBuf;

    fn hold(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_owned())
    }

    fn label(&self, dir: &PathBuf) -> String {
        dir.display().to_string()
    }

    fn key(&self, dir: &PathBuf, name: &OsStr) -> io::Result<String> {
        Ok(dir.join(name).display().to_string().replace('/', "_"))
    }

    fn open_state(&self, path: &Path, _makes: bool) -> io::Result<PathBuf> {
        Ok(path.to_owned())
    }

    fn open(&self, dir: &PathBuf, name: &OsStr, _write: bool) -> io::Result<SimFile> {
        let mut disk = self.disk();
        disk.read_turn()?;
        disk.inode(&dir.join(name)).map(SimFile)
    }

    fn create(&self, dir: &PathBuf, name: &OsStr) -> io::Result<SimFile> {
        let (mut disk, path) = (self.disk(), dir.join(name));
        disk.turn()?;
        if disk.now.names.contains_key(&path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if disk.abilities.closed && dir != Path::new("/state") {
            return Err(io::Error::from_raw_os_error(libc::EACCES));
        }
        disk.next += 1;
        let inode = disk.next;
        disk.touch(inode);
        disk.change(Change::Name { path, inode: Some(inode) });
        Ok(SimFile(inode))
    }

    fn meta(&self, file: &SimFile) -> io::Result<Meta> {
        let mut disk = self.disk();
        disk.read_turn()?;
        Ok(disk.meta(file.0))
    }

    fn meta_at(&self, dir: &PathBuf, name: &OsStr) -> io::Result<Meta> {
        let mut disk = self.disk();
        disk.read_turn()?;
        Ok(disk.meta(disk.inode(&dir.join(name))?))
    }

    fn read_at(&self, file: &SimFile, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut disk = self.disk();
        disk.read_turn()?;
        let bytes = disk.now.read(file.0, offset..offset + buf.len() as u64);
        buf[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn write_at(&self, file: &SimFile, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.disk();
        let failed = disk.turn();
        let len = if failed.is_err() { bytes.len() / 2 } else { bytes.len() };
        let written = disk.write(file.0, offset, &bytes[..len]);
        failed?;
        if written < bytes.len() { Err(full()) } else { Ok(()) }
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
                // Zeros behind the end take no room.
                let room = disk.room.take();
                disk.write(inode, len, &vec![0; (last - len) as usize]);
                disk.room = room;
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
        let mut disk = self.disk();
        disk.read_turn()?;
        let map = &disk.now.inodes[&file.0].map;
        let next = map.range(range.start / PAGE..).next().map(|(logical, _)| logical * PAGE);
        let next = next.filter(|start| *start < range.end);
        Ok(next.map(|start| start.max(range.start)..(start + PAGE).min(range.end)))
    }

    fn reserve(&self, file: &SimFile, range: Range<u64>) -> io::Result<()> {
        let mut disk = self.disk();
        if !disk.abilities.reserves {
            return Ok(());
        }
        disk.turn()?;
        for logical in range.start / PAGE..range.end.div_ceil(PAGE) {
            let page = 0..PAGE as usize;
            if disk.allocate(file.0, logical, page.clone()) < page.len() {
                return Err(full());
            }
        }
        disk.touch(file.0);
        Ok(())
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
        let failed = disk.turn();
        if !disk.abilities.clones {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        assert!(range.start.is_multiple_of(PAGE) && at.is_multiple_of(PAGE));
        // Shared extents are not modelled; a clone is an instant copy.
        let end = range.end.next_multiple_of(PAGE);
        let map: BTreeMap<u64, u64> = disk.now.inodes[&from.0]
            .map
            .range(range.start / PAGE..end / PAGE)
            .map(|(logical, page)| (logical - range.start / PAGE + at / PAGE, *page))
            .collect();
        let pages = end / PAGE - range.start / PAGE;
        let pages = if failed.is_err() { pages / 2 } else { pages };
        let shared = at / PAGE..at / PAGE + pages;
        let over = disk.now.inodes[&to.0].map.range(shared.clone()).map(|(logical, _)| *logical);
        let holes: Vec<u64> = over.filter(|logical| !map.contains_key(logical)).collect();
        for logical in holes {
            disk.change(Change::Map { inode: to.0, logical, page: None });
        }
        for (logical, page) in map {
            let bytes = disk.now.pages[&page].to_vec();
            if !shared.contains(&logical) {
                continue;
            }
            disk.next += 1;
            let page = disk.next;
            disk.now.pages.insert(page, Arc::new(bytes.clone()));
            disk.durable.pages.insert(page, Arc::new(bytes));
            disk.change(Change::Map { inode: to.0, logical, page: Some(page) });
        }
        failed?;
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
        if disk.write(to.0, at, &bytes) < bytes.len() { Err(full()) } else { Ok(()) }
    }

    fn room_to_write_over(&self, _file: &SimFile) -> Option<u64> {
        self.disk().abilities.copies_on_write.then_some(1 << 40)
    }

    fn inserts_by_extent(&self, _file: &SimFile) -> bool {
        self.disk().abilities.inserts
    }

    fn insert(&self, file: &SimFile, offset: u64, len: u64) -> io::Result<()> {
        let mut disk = self.disk();
        assert!(offset.is_multiple_of(PAGE) && len.is_multiple_of(PAGE));
        let change = Change::Insert { inode: file.0, from: offset / PAGE, by: len / PAGE };
        if let Err(error) = disk.turn() {
            // An interrupted insert or collapse keeps the moves made so far.
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
        let mut disk = self.disk();
        disk.read_turn()?;
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

    fn sync_dir(&self, dir: &PathBuf) -> io::Result<()> {
        let mut disk = self.disk();
        if disk.before_sync() {
            disk.turn()?;
            let within = |path: &PathBuf| path.parent() == Some(&**dir);
            disk.make_durable(|change| match change {
                Change::Name { path, .. } => within(path),
                Change::Rename { to, .. } => within(to),
                Change::Exchange { names, .. } => within(&names[0]),
                _ => false,
            });
        }
        Ok(())
    }

    fn rename(&self, dir: &PathBuf, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let (mut disk, from, to) = (self.disk(), dir.join(from), dir.join(to));
        disk.turn()?;
        let inode = disk.inode(&from)?;
        let is_source = to == Path::new(super::SOURCE);
        disk.change(Change::Rename { from, to, inode });
        if is_source {
            disk.write_next();
        }
        Ok(())
    }

    fn link(&self, dir: &PathBuf, name: &OsStr, second: &OsStr) -> io::Result<()> {
        let mut disk = self.disk();
        disk.turn()?;
        let inode = disk.inode(&dir.join(name))?;
        disk.change(Change::Name { path: dir.join(second), inode: Some(inode) });
        Ok(())
    }

    fn names(&self, dir: &PathBuf, start: &OsStr) -> io::Result<Vec<OsString>> {
        let disk = self.disk();
        let names = disk
            .now
            .names
            .keys()
            .filter(|path| path.parent() == Some(&**dir))
            .filter_map(|path| path.file_name());
        let names = names.filter(|name| name.as_encoded_bytes().starts_with(start.as_encoded_bytes()));
        Ok(names.map(OsStr::to_owned).collect())
    }

    fn exchange(&self, dir: &PathBuf, one: &OsStr, other: &OsStr) -> io::Result<()> {
        let (mut disk, one, other) = (self.disk(), dir.join(one), dir.join(other));
        disk.turn()?;
        let inodes = [disk.inode(&one)?, disk.inode(&other)?];
        let is_source = other == Path::new(super::SOURCE);
        disk.change(Change::Exchange { names: [one, other], inodes });
        if is_source {
            disk.write_next();
        }
        Ok(())
    }

    fn lease(&self, _file: &SimFile) -> io::Result<()> {
        if self.disk().abilities.leases { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
    }

    fn has_lease(&self, file: &SimFile) -> bool {
        let disk = self.disk();
        let named = disk.inode(Path::new(super::SOURCE)).is_ok_and(|inode| inode == file.0);
        disk.abilities.leases && (named || !disk.abilities.late_writer)
    }

    fn wait(&self, _time: std::time::Duration) {
        self.disk().wait();
    }

    fn unlink(&self, dir: &PathBuf, name: &OsStr) -> io::Result<()> {
        let (mut disk, path) = (self.disk(), dir.join(name));
        disk.turn()?;
        disk.inode(&path)?;
        let is_journal = path.to_string_lossy().ends_with("-journal");
        disk.change(Change::Name { path, inode: None });
        if is_journal {
            disk.write_next();
        }
        Ok(())
    }

    fn lock(&self, _file: &SimFile) -> io::Result<()> {
        Ok(())
    }
}

fn full() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOSPC)
}
