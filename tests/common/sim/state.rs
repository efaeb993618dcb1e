//! The state of a disk, and changes to it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::PAGE;

/// Size of the unit that reaches the disk atomically.
pub const SECTOR: usize = 512;

#[derive(Clone, Debug, Default)]
pub struct Inode {
    pub size: u64,
    pub mtime: i64,
    pub map: BTreeMap<u64, u64>,
}

/// The content of a disk, visible or durable.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub inodes: BTreeMap<u64, Inode>,
    pub pages: BTreeMap<u64, Arc<Vec<u8>>>,
    pub names: BTreeMap<PathBuf, u64>,
}

/// A change that is not durable yet.
#[derive(Clone, Debug)]
pub enum Change {
    Data { inode: u64, page: u64, sector: usize, bytes: Arc<[u8]> },
    Map { inode: u64, logical: u64, page: Option<u64> },
    Size { inode: u64, size: u64 },
    Time { inode: u64, mtime: i64 },
    Insert { inode: u64, from: u64, by: u64 },
    Collapse { inode: u64, from: u64, by: u64 },
    Name { path: PathBuf, inode: Option<u64> },
    Rename { from: PathBuf, to: PathBuf, inode: u64 },
    Exchange { names: [PathBuf; 2], inodes: [u64; 2] },
}

impl Change {
    pub fn inode(&self) -> Option<u64> {
        match self {
            Self::Data { inode, .. }
            | Self::Map { inode, .. }
            | Self::Size { inode, .. }
            | Self::Time { inode, .. }
            | Self::Insert { inode, .. }
            | Self::Collapse { inode, .. } => Some(*inode),
            Self::Name { .. } | Self::Rename { .. } | Self::Exchange { .. } => None,
        }
    }

    /// True if the change stays in order with other changes of its inode.
    pub fn is_ordered(&self) -> bool {
        self.inode().is_some() && !matches!(self, Self::Data { .. })
    }
}

impl State {
    /// Applies a change; an interrupted insert or collapse stops at page `stopped_at`.
    pub fn apply(&mut self, change: &Change, stopped_at: Option<u64>) {
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
            Change::Exchange { names: [one, other], inodes } => {
                self.names.insert(one.clone(), inodes[1]);
                self.names.insert(other.clone(), inodes[0]);
            }
        }
    }

    pub fn read(&self, inode: u64, range: Range<u64>) -> Vec<u8> {
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

    /// True if a file has these bytes.
    pub fn has_bytes(&self, inode: u64, bytes: &[u8]) -> bool {
        let Some(inode) = self.inodes.get(&inode) else { return bytes.is_empty() };
        let mut pages = bytes.chunks(PAGE as usize).zip(0..);
        inode.size == bytes.len() as u64
            && pages.all(|(wanted, logical)| {
                match inode.map.get(&logical).and_then(|page| self.pages.get(page)) {
                    Some(page) => page[..wanted.len()] == *wanted,
                    None => *wanted == [0; PAGE as usize][..wanted.len()],
                }
            })
    }

    /// Clears the bytes after the end of each file, as the kernel does when it reads an inode.
    pub fn clear_behind_ends(&mut self) {
        for inode in self.inodes.values_mut() {
            inode.map.retain(|logical, _| logical * PAGE < inode.size);
            if let Some(page) = inode.map.get(&(inode.size / PAGE)).and_then(|page| self.pages.get_mut(page))
            {
                Arc::make_mut(page)[(inode.size % PAGE) as usize..].fill(0);
            }
        }
    }
}
