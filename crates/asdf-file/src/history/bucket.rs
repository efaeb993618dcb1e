//! A bucket: the directory with the texts that saves of one file replaced.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use seekable::error::{Error, Kind, Result};
use seekable::source::Time;
use seekable::user_dirs::bound::{self, BY_PATH, DIRECTORY};
use seekable::user_dirs::{self, is_ours};

use super::file_id::FileId;
use super::{MAX_BYTES, entry};
use crate::time;

/// Maximum number of bytes of an entry's first line.
const HEADER: usize = 4096;

/// The open directory with one file's texts.
#[derive(Debug)]
pub(super) struct Bucket {
    dir: OwnedFd,
    /// Name of the directory: the key of its file.
    pub(super) key: OsString,
}

/// End of the name of an entry whose save is not done.
const BEGUN: &str = "-begun.yaml";
const EXTENSION: &str = ".yaml";

/// The name of an entry: `NUMBER-SHOWN-PATH-TAG-TIME.yaml`. TIME is `begun` until the save is done, and then the
/// time at which the save changed the file, as `SECONDS.NANOSECONDS`.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EntryName {
    /// Number of the save in the file's history. Clocks may go wrong, so names are not sorted by time.
    number: u64,
    /// The name in the mount, without extension.
    pub(super) shown: String,
    /// Digest of the path that the file had at the save.
    pub(super) path: String,
    /// `None` if the save is running, or the program was killed.
    pub(super) done: Option<Time>,
}

impl EntryName {
    fn parse(name: &OsStr) -> Option<Self> {
        let (number, rest) = name.to_str()?.strip_suffix(EXTENSION)?.split_once('-')?;
        let (rest, done) = rest.rsplit_once('-')?;
        let (rest, _tag) = rest.rsplit_once('-')?;
        let (shown, path) = rest.rsplit_once('-')?;
        let is_plain = shown.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let done = done
            .split_once('.')
            .and_then(|(seconds, nanoseconds)| Some((seconds.parse().ok()?, nanoseconds.parse().ok()?)));
        let number = number.parse().ok()?;
        is_plain.then(|| Self { number, shown: shown.to_owned(), path: path.to_owned(), done })
    }
}

/// The start of an entry.
#[derive(Debug)]
pub(super) enum FirstLine {
    /// The entry was removed meanwhile.
    Gone,
    /// A power cut has torn the entry.
    Torn,
    Whole(entry::Header),
}

impl Bucket {
    /// Opens the directory with the texts of the file that has this key; `None` if there is none.
    pub(super) fn open(history: &OwnedFd, key: &OsStr) -> Result<Option<Self>> {
        let dir = match rustix::fs::openat(history, key, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(dir) => dir,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if !is_ours(&rustix::fs::fstat(&dir)?) {
            let message = format!(
                "its directory 'history/{}' belongs to another user, or other users can write to it: remove \
                 that directory",
                key.display()
            );
            return Err(Error::new(Kind::Refused, message));
        }
        Ok(Some(Self { dir, key: key.to_owned() }))
    }

    /// Opens the directory with the texts of a file; creates it if there is none.
    pub(super) fn of(history: &OwnedFd, id: &FileId) -> Result<Self> {
        if let Some(bucket) = Self::open(history, &id.key)? {
            return Ok(bucket);
        }
        make_dir(history, &id.key)?;
        Self::open(history, &id.key)?.ok_or_else(|| Errno::NOENT.into())
    }

    /// Returns the other directories with texts of files that were last saved at the path of this file.
    pub(super) fn others_at(history: &OwnedFd, id: &FileId) -> Result<Vec<Self>> {
        let marked = BY_PATH.as_ref();
        let marked = [marked, &*id.path].join(OsStr::new("/"));
        let marked = match rustix::fs::openat(history, &*marked, DIRECTORY, Mode::empty()) {
            Ok(dir) => list(dir.as_fd())?,
            Err(Errno::NOENT) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut others = Vec::new();
        for key in marked.into_iter().filter(|key| *key != id.key) {
            let Some(bucket) = Self::open(history, &key)? else { continue };
            // The file may have been renamed and saved since.
            let last = bucket.entries()?.pop();
            if last.is_some_and(|(_, name)| id.path == *name.path) {
                others.push(bucket);
            }
        }
        others.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        Ok(others)
    }

    /// Returns the names of the entries, the oldest first.
    pub(super) fn entries(&self) -> Result<Vec<(OsString, EntryName)>> {
        let names = list(self.dir.as_fd())?.into_iter();
        let mut entries: Vec<_> =
            names.filter_map(|name| EntryName::parse(&name).map(|it| (name, it))).collect();
        entries.sort_unstable_by(|(_, one), (_, other)| one.cmp(other));
        Ok(entries)
    }

    /// Returns the name of a new entry for a save at `seconds`. No other program chooses the same name.
    pub(super) fn new_name(&self, entries: &[(OsString, EntryName)], seconds: i64, path: &OsStr) -> OsString {
        static TAGS: AtomicU64 = AtomicU64::new(0);
        let second = time::as_name(seconds);
        let number = entries.last().map_or(0, |(_, last)| last.number).saturating_add(1);
        let is_taken = |shown: &str| entries.iter().any(|(_, entry)| entry.shown == shown);
        // Another text of the same second gets `02` before the dot. It sorts after the first, as `0` > `.`.
        let more = (2..u64::MAX).map(|n| format!("{second}{n:02}"));
        let shown = std::iter::once(second.clone()).chain(more).find(|shown| !is_taken(shown));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let tag = (now, std::process::id(), TAGS.fetch_add(1, Ordering::Relaxed), &self.key);
        let tag = twox_hash::XxHash3_128::oneshot(format!("{tag:?}").as_bytes()) as u64;
        let shown = shown.unwrap_or(second);
        format!("{number:08}-{shown}-{}-{tag:016x}{BEGUN}", path.display()).into()
    }

    /// Writes an entry completely or not at all.
    pub(super) fn write(&self, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
        user_dirs::write(&self.dir, name, bytes)
    }

    /// Notes that the save of an entry is done, and changed the file at this time. Returns the entry's new name.
    pub(super) fn set_done(&self, name: OsString, time: Time) -> OsString {
        let begun = name.to_str().and_then(|name| name.strip_suffix(BEGUN));
        let Some(begun) = begun else { return name };
        let done = OsString::from(format!("{begun}-{}.{:09}{EXTENSION}", time.0.max(0), time.1));
        let renamed = rustix::fs::renameat(&self.dir, &*name, &self.dir, &*done);
        if renamed.is_ok() { done } else { name }
    }

    /// Reads the first line of an entry.
    pub(super) fn first_line(&self, name: &OsStr) -> Result<FirstLine> {
        let Some((file, stat)) = self.open_entry(name)? else { return Ok(FirstLine::Gone) };
        let mut bytes = vec![0; HEADER];
        let len = read_up_to(&file, &mut bytes)?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let header = entry::parse_header(&bytes[..len], size);
        Ok(header.map_or(FirstLine::Torn, |(header, _)| FirstLine::Whole(header)))
    }

    /// Reads an entry; `None` if it was removed.
    pub(super) fn read(&self, name: &OsStr) -> Result<Option<Vec<u8>>> {
        let Some((file, stat)) = self.open_entry(name)? else { return Ok(None) };
        let size = u64::try_from(stat.st_size).unwrap_or(0).min(MAX_BYTES);
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        let len = read_up_to(&file, &mut bytes)?;
        bytes.truncate(len);
        Ok(Some(bytes))
    }

    /// Opens an entry; `None` if it was removed.
    fn open_entry(&self, name: &OsStr) -> Result<Option<(OwnedFd, Stat)>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let open = |name: &OsStr| rustix::fs::openat(&self.dir, name, flags, Mode::empty());
        let mut opened = open(name);
        // A save that is done renames its entry.
        if matches!(opened, Err(Errno::NOENT))
            && let Some(begun) = name.as_bytes().strip_suffix(BEGUN.as_bytes())
            && let Some(done) =
                list(self.dir.as_fd())?.into_iter().find(|entry| entry.as_bytes().starts_with(begun))
        {
            opened = open(&done);
        }
        let file = match opened {
            Ok(file) => file,
            // A link is not an entry.
            Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let stat = rustix::fs::fstat(&file)?;
        let is_ours = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && is_ours(&stat);
        Ok(is_ours.then_some((file, stat)))
    }

    /// Removes an entry.
    pub(super) fn remove(&self, name: &OsStr) {
        let _ = rustix::fs::unlinkat(&self.dir, name, AtFlags::empty());
    }

    /// Removes the oldest entries beyond the limits. Without `most_bytes`, sizes are not looked at. Returns the
    /// number of bytes freed.
    pub(super) fn limit(&self, most_texts: usize, most_bytes: Option<u64>) -> u64 {
        let mut held = 0;
        let mut removed = 0;
        let entries = self.entries().unwrap_or_default();
        let looked_at =
            entries.iter().rev().enumerate().skip(if most_bytes.is_some() { 0 } else { most_texts });
        for (at, (name, _)) in looked_at {
            let stat = rustix::fs::statat(&self.dir, &**name, AtFlags::SYMLINK_NOFOLLOW);
            let size = stat.map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
            held += size;
            if at > 0 && (at >= most_texts || most_bytes.is_some_and(|most| held > most)) {
                self.remove(name);
                removed += size;
            }
        }
        removed
    }

    /// Renames the directory if its file has another inode since the save. Returns the directory's name.
    pub(super) fn follow(&self, history: &OwnedFd, id: &FileId) -> OsString {
        // If another bucket has the new name, this one keeps its old name and is found by the path.
        if id.key == self.key || rustix::fs::renameat(history, &*self.key, history, &*id.key).is_err() {
            return self.key.clone();
        }
        if mark(history, &id.path, &id.key).is_ok() {
            unmark(history, &id.path, &self.key);
        }
        id.key.clone()
    }
}

/// Reads until the buffer is full or the file ends. Returns the number of bytes.
fn read_up_to(file: &OwnedFd, buf: &mut [u8]) -> Result<usize> {
    let mut len = 0;
    while len < buf.len() {
        match rustix::io::read(file, &mut buf[len..]) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(len)
}

fn make_dir(dir: &OwnedFd, name: &OsStr) -> Result<()> {
    match rustix::fs::mkdirat(dir, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns all names in a directory. An error if it can't be read completely.
fn list(dir: BorrowedFd<'_>) -> io::Result<Vec<OsString>> {
    #[cfg(test)]
    if let Some(error) = super::tests::LIST_FAILS.get() {
        return Err(error.into());
    }
    bound::list(dir)
}

/// Returns the name of the mark at a path for the bucket with this key.
fn mark_name(path: &OsStr, key: &OsStr) -> OsString {
    [OsStr::new(BY_PATH), path, key].join(OsStr::new("/"))
}

/// Makes the bucket with this key known at a path.
pub(super) fn mark(history: &OwnedFd, path: &OsStr, key: &OsStr) -> Result<()> {
    make_dir(history, OsStr::new(BY_PATH))?;
    make_dir(history, &[OsStr::new(BY_PATH), path].join(OsStr::new("/")))?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(history, &*mark_name(path, key), flags, Mode::RUSR | Mode::WUSR)?;
    Ok(())
}

/// Removes the mark at a path for the bucket with this key, and the directories of marks if they are empty.
pub(super) fn unmark(history: &OwnedFd, path: &OsStr, key: &OsStr) {
    let _ = rustix::fs::unlinkat(history, &*mark_name(path, key), AtFlags::empty());
    let of_path = [OsStr::new(BY_PATH), path].join(OsStr::new("/"));
    if rustix::fs::unlinkat(history, &*of_path, AtFlags::REMOVEDIR).is_ok() {
        let _ = rustix::fs::unlinkat(history, BY_PATH, AtFlags::REMOVEDIR);
    }
}
