//! A directory of tables, one file each, named after the key.
//!
//! ```text
//! $XDG_CACHE_HOME/asdf-mount/                  owned by this user; created with mode 0700
//!   6f1e…c2.seek                               0600; its mtime is the time of the last use
//!   .new-4711-…-1                              being written
//! ```
//!
//! The files are not trusted. A file is opened without following a link, and only if it is ours and no other
//! user may write it. All access goes through the directory's descriptor, which is opened before the mount,
//! as the mount may cover the directory. Files are written under a temporary name and renamed, so that two
//! mounts that make the same table do not interfere. The number of open files is limited. A closed file is
//! reopened by its name, if it is still the same file. The file of a removed table may stay open: if the
//! stream has changed, readers still check the stream's output against the removed table.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use lru::LruCache;
use rustix::fs::{AtFlags, Stat};

use super::{TableKey, locked};
use crate::content::Content;
use crate::error::{Error, Result};
use crate::user_dirs::{self, cached_files};

/// The suffix of a table's file name.
const SUFFIX: &str = ".seek";

/// Maximum size of all tables together, in bytes.
const MAX_BYTES: u64 = 1 << 30;
/// Divisor of a second limit: a tenth of the free space, where the space of the tables counts as free.
const PART: u64 = 10;

/// Maximum number of tables that are open at a time.
const OPEN: NonZeroUsize = NonZeroUsize::new(16).expect("16 is not zero");

/// The identity of a file: device and inode.
type Identity = (u64, u64);

/// A directory of tables, held open.
#[derive(Debug)]
pub(super) struct Directory {
    dir: OwnedFd,
    most: u64,
    open: Mutex<LruCache<Identity, Arc<File>>>,
}

impl Directory {
    /// Opens `path`, creating it if missing.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let dir = user_dirs::CACHE.open(path)?;
        Ok(Self { dir, most: MAX_BYTES, open: Mutex::new(LruCache::new(OPEN)) })
    }

    /// Sets the limit in bytes.
    #[cfg(test)]
    pub(super) fn bounded(self, most: u64) -> Self {
        Self { most, ..self }
    }

    /// Returns the table under `key` and marks it as used now.
    pub(super) fn find(self: &Arc<Self>, key: TableKey) -> Option<TableFile> {
        let (file, stat) = self.open_table(key)?;
        cached_files::touch(&file);
        let found = TableFile { directory: self.clone(), key, identity: identity(&stat), len: length(&stat) };
        locked(&self.open).put(found.identity, Arc::new(file));
        Some(found)
    }

    fn open_table(&self, key: TableKey) -> Option<(File, Stat)> {
        user_dirs::open_file(&self.dir, name(key))
    }

    /// Stores the output of `write`, unless it exceeds the limit; older tables are removed for it.
    pub(super) fn keep(
        &self,
        key: TableKey,
        write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let unfinished = user_dirs::new_name();
        let bounded = Bounded { file: user_dirs::create(&self.dir, &unfinished)?, bytes_left: self.bound() };
        let mut out = BufWriter::with_capacity(64 << 10, bounded);
        let written = write(&mut out).and_then(|()| out.flush());
        let renamed =
            written.and_then(|()| Ok(rustix::fs::renameat(&self.dir, &unfinished, &self.dir, name(key))?));
        if renamed.is_err() {
            let _ = rustix::fs::unlinkat(&self.dir, &unfinished, AtFlags::empty());
        }
        self.trim(key);
        renamed
    }

    pub(super) fn remove(&self, key: TableKey) {
        let _ = rustix::fs::unlinkat(&self.dir, name(key), AtFlags::empty());
    }

    /// Returns the limit of all tables in bytes.
    fn bound(&self) -> u64 {
        let held = cached_files::list(&self.dir, SUFFIX).iter().map(|table| table.size).sum::<u64>();
        let free =
            rustix::fs::fstatvfs(&self.dir).map_or(0, |space| space.f_bavail.saturating_mul(space.f_frsize));
        self.most.min(free.saturating_add(held) / PART)
    }

    /// Removes the least recently used tables until the rest is within the limit; `key` is the newest.
    fn trim(&self, key: TableKey) {
        let tables = cached_files::list(&self.dir, SUFFIX);
        cached_files::trim(&self.dir, tables, self.bound(), Some(&name(key)));
    }
}

/// A table that was found.
#[derive(Debug)]
pub(super) struct TableFile {
    directory: Arc<Directory>,
    key: TableKey,
    identity: Identity,
    len: u64,
}

impl TableFile {
    fn file(&self) -> Result<Arc<File>> {
        if let Some(file) = locked(&self.directory.open).get(&self.identity) {
            return Ok(file.clone());
        }
        let (file, _) = self
            .directory
            .open_table(self.key)
            .filter(|(_, stat)| (identity(stat), length(stat)) == (self.identity, self.len))
            .ok_or_else(|| Error::damaged("the seek table was removed"))?;
        let file = Arc::new(file);
        locked(&self.directory.open).put(self.identity, file.clone());
        Ok(file)
    }
}

impl Content for TableFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if offset >= self.len {
            return Ok(0);
        }
        Ok(self.file()?.read_at(buf, offset)?)
    }
}

/// A writer that accepts a limited number of bytes, and refuses more.
#[derive(Debug)]
struct Bounded {
    file: File,
    bytes_left: u64,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes_left = self
            .bytes_left
            .checked_sub(bytes.len() as u64)
            .ok_or_else(|| io::Error::other("it is larger than the space for all seek tables"))?;
        self.file.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn identity(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

fn length(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

fn name(key: TableKey) -> String {
    format!("{key}{SUFFIX}")
}
