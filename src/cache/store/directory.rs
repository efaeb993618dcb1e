//! A directory of tables, each a file named after its key.
//!
//! ```text
//! $XDG_CACHE_HOME/asdf-mount/                  ours alone; made with mode 0700
//!   6f1e…c2.seek                               0600; its mtime is when it was used last
//!   .new-4711-…-1                              being written
//! ```
//!
//! What lies here is not believed: a file is opened without following a link, and only if it is ours and
//! nobody else may write it. All goes through the directory's descriptor, which is opened before the
//! mount, as that may cover it. Files are made under another name and renamed, so that two mounts that
//! make the same table don't meet. Only so many are open at a time; one that had to be closed is opened
//! again by its name, if it is still the same file. One that was removed stays open with them: it may vouch
//! for what a stream was that has changed.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use lru::LruCache;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;

use super::{Key, locked};
use crate::content::Content;
use crate::error::{Error, Kind, Result};

/// The program's directory in the directory for caches.
const NAME: &str = "asdf-mount";

/// What the name of a table ends with, and of one that is being written begins with.
const SUFFIX: &str = ".seek";
const UNFINISHED: &str = ".new-";

/// Bytes of all tables at most, and the part of the free space that they may take.
const MOST: u64 = 1 << 30;
const PART: u64 = 10;

/// Tables that are open at a time.
const OPEN: NonZeroUsize = NonZeroUsize::new(16).expect("16 is not zero");

/// After so long nobody writes a file any more that is still unfinished.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// Mode bits with which others could write.
const BY_OTHERS: u32 = 0o022;

/// Where the directory of this user is, or should be.
pub(super) fn of_user() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let root = || rustix::process::geteuid().is_root().then(|| PathBuf::from("/var/cache"));
    // A home that is not there is meant to be none (`/nonexistent`), and is not made.
    let home = || set("HOME").filter(|home| home.is_dir());
    let base = set("XDG_CACHE_HOME").or_else(|| Some(home()?.join(".cache"))).or_else(root)?;
    Some(base.join(NAME))
}

/// Which file: device and inode.
type Identity = (u64, u64);

/// A directory of tables, held open.
#[derive(Debug)]
pub(super) struct Directory {
    dir: OwnedFd,
    most: u64,
    open: Mutex<LruCache<Identity, Arc<File>>>,
}

impl Directory {
    /// Opens `path`, and makes it if it is missing.
    pub(super) fn open(path: &Path) -> Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        if !path.exists() {
            may_make(path)?;
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(path, flags, Mode::empty())?;
        if !is_ours(&rustix::fs::fstat(&dir)?) {
            return Err(Error::new(
                Kind::Refused,
                "others may write there: make it yours alone (chmod go-w), or set XDG_CACHE_HOME",
            ));
        }
        Ok(Self { dir, most: MOST, open: Mutex::new(LruCache::new(OPEN)) })
    }

    /// The same for so many bytes.
    #[cfg(test)]
    pub(super) fn bounded(self, most: u64) -> Self {
        Self { most, ..self }
    }

    /// The table under `key`, which counts as used now.
    pub(super) fn find(self: &Arc<Self>, key: Key) -> Option<Found> {
        let (file, stat) = self.open_table(key)?;
        let now = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        };
        let _ = rustix::fs::futimens(&file, &now);
        let found = Found { directory: self.clone(), key, identity: identity(&stat), len: length(&stat) };
        locked(&self.open).put(found.identity, Arc::new(file));
        Some(found)
    }

    fn open_table(&self, key: Key) -> Option<(File, Stat)> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.dir, name(key), flags, Mode::empty()).ok()?;
        let stat = rustix::fs::fstat(&file).ok()?;
        let believed = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && is_ours(&stat);
        believed.then(|| (File::from(file), stat))
    }

    /// Keeps what `write` writes, unless it is more than there is room for; then older tables make room.
    pub(super) fn keep(
        &self,
        key: Key,
        write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let unfinished = new_name();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.dir, &unfinished, flags, Mode::RUSR | Mode::WUSR)?;
        let bounded = Bounded { file: File::from(file), left: self.bound() };
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

    pub(super) fn remove(&self, key: Key) {
        let _ = rustix::fs::unlinkat(&self.dir, name(key), AtFlags::empty());
    }

    /// Bytes that all tables may take.
    fn bound(&self) -> u64 {
        let held = self.tables().iter().map(|table| table.size).sum::<u64>();
        let free =
            rustix::fs::fstatvfs(&self.dir).map_or(0, |space| space.f_bavail.saturating_mul(space.f_frsize));
        self.most.min(free.saturating_add(held) / PART)
    }

    /// Removes those that were used longest ago until the rest is within the bound; `key` was made now.
    fn trim(&self, key: Key) {
        let (bound, mut tables) = (self.bound(), self.tables());
        tables.sort_by_key(|table| (table.name == name(key), table.used));
        let mut held = tables.iter().map(|table| table.size).sum::<u64>();
        for table in tables {
            if held <= bound {
                break;
            }
            if rustix::fs::unlinkat(&self.dir, &table.name, AtFlags::empty()).is_ok() {
                held = held.saturating_sub(table.size);
            }
        }
    }

    /// All that is kept; what somebody left unfinished long ago is removed on the way.
    fn tables(&self) -> Vec<Listed> {
        let Ok(entries) = rustix::fs::Dir::read_from(&self.dir) else { return Vec::new() };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut tables = Vec::new();
        for entry in entries.flatten() {
            let name =
                std::ffi::OsStr::from_bytes(entry.file_name().to_bytes()).to_string_lossy().into_owned();
            let Ok(stat) = rustix::fs::statat(&self.dir, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                continue;
            }
            let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
            if name.ends_with(SUFFIX) {
                let used = (seconds, u128::from(stat.st_mtime_nsec));
                tables.push(Listed { name, size: length(&stat), used });
            } else if name.starts_with(UNFINISHED)
                && seconds.saturating_add(ABANDONED.as_secs()) < now.as_secs()
            {
                let _ = rustix::fs::unlinkat(&self.dir, &name, AtFlags::empty());
            }
        }
        tables
    }
}

/// A table that lies in the directory.
#[derive(Debug)]
struct Listed {
    name: String,
    size: u64,
    /// When it was used last: seconds, nanoseconds.
    used: (u64, u128),
}

/// A table that was found.
#[derive(Debug)]
pub(super) struct Found {
    directory: Arc<Directory>,
    key: Key,
    identity: Identity,
    len: u64,
}

impl Found {
    fn file(&self) -> Result<Arc<File>> {
        if let Some(file) = locked(&self.directory.open).get(&self.identity) {
            return Ok(file.clone());
        }
        let (file, _) = self
            .directory
            .open_table(self.key)
            .filter(|(_, stat)| (identity(stat), length(stat)) == (self.identity, self.len))
            .ok_or_else(|| Error::damaged("the kept table is gone"))?;
        let file = Arc::new(file);
        locked(&self.directory.open).put(self.identity, file.clone());
        Ok(file)
    }
}

impl Content for Found {
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

/// Writes up to a number of bytes, and refuses more.
#[derive(Debug)]
struct Bounded {
    file: File,
    left: u64,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self
            .left
            .checked_sub(bytes.len() as u64)
            .ok_or_else(|| io::Error::other("it is larger than the room that there is for all"))?;
        self.file.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Refuses to make directories in a home that is another user's (`sudo` may leave HOME as it was).
fn may_make(path: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let above = path.ancestors().find_map(|above| above.metadata().ok());
    let owner = above.map_or(0, |meta| meta.uid());
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(Error::from(Errno::PERM));
    }
    Ok(())
}

/// A name that no other process chooses, though it may have the same number in another container.
fn new_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{UNFINISHED}{}-{}-{number}", std::process::id(), now.as_nanos())
}

fn is_ours(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & BY_OTHERS == 0
}

fn identity(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

fn length(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

fn name(key: Key) -> String {
    format!("{key}{SUFFIX}")
}
