//! A bucket: the directory with the texts that saves of one file replaced.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::MOST_BYTES;
use super::file_id::FileId;
use crate::error::Result;
use crate::time;
use crate::user_dirs::bound::{DIRECTORY, names};
use crate::user_dirs::{self, is_ours};

/// The open directory with one file's texts.
#[derive(Debug)]
pub(super) struct Bucket {
    dir: OwnedFd,
    pub(super) name: OsString,
}

/// Returns the names of the directories of all files, sorted.
fn all_named(history: &OwnedFd) -> Vec<OsString> {
    let mut buckets: Vec<_> = names(history.as_fd());
    buckets.sort_unstable();
    buckets
}

/// The name of an entry: `NUMBER-SHOWN-TAG.yaml`.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EntryName {
    /// Number of the save in the file's history. Clocks may go wrong, so names are not sorted by time.
    number: u64,
    /// The name in the mount, without extension.
    pub(super) shown: String,
}

impl EntryName {
    fn parse(name: &OsStr) -> Option<Self> {
        let (number, rest) = name.to_str()?.strip_suffix(".yaml")?.split_once('-')?;
        let (shown, _) = rest.rsplit_once('-')?;
        let is_plain = shown.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        Some(Self { number: number.parse().ok()?, shown: shown.to_owned() }).filter(|_| is_plain)
    }
}

impl Bucket {
    /// Opens the directory `name` with a file's texts, if it belongs to this user and no other user can write
    /// to it.
    pub(super) fn open(history: &OwnedFd, name: &OsStr) -> Option<Self> {
        let dir = rustix::fs::openat(history, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()).ok()?;
        is_ours(&rustix::fs::fstat(&dir).ok()?).then(|| Self { dir, name: name.to_owned() })
    }

    /// Opens the directory with the texts of a file; creates it if there is none.
    pub(super) fn of(history: &OwnedFd, id: &FileId) -> Result<Self> {
        let known = all_named(history).into_iter().find(|name| id.has_key(name));
        if let Some(bucket) = known.and_then(|name| Self::open(history, &name)) {
            return Ok(bucket);
        }
        let name = id.bucket();
        match rustix::fs::mkdirat(history, &*name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        Self::open(history, &name).ok_or_else(|| Errno::NOENT.into())
    }

    /// Returns the directory with the texts of a file, and other directories that may hold earlier texts: two
    /// machines may each have created a directory at the same time, and another file may have had this path.
    pub(super) fn all_of(history: &OwnedFd, id: &FileId) -> (Option<Self>, Vec<Self>) {
        let buckets = all_named(history);
        let own = buckets.iter().find(|name| id.has_key(name));
        let others =
            buckets.iter().filter(|name| Some(*name) != own && (id.has_key(name) || id.has_path(name)));
        let open = |name: &OsString| Self::open(history, name);
        (own.and_then(open), others.filter_map(open).collect())
    }

    /// Returns the names of the entries, the oldest first.
    pub(super) fn entries(&self) -> Vec<(OsString, EntryName)> {
        let names = names(self.dir.as_fd()).into_iter();
        let mut entries: Vec<_> =
            names.filter_map(|name| EntryName::parse(&name).map(|it| (name, it))).collect();
        entries.sort_unstable_by(|(_, one), (_, other)| one.cmp(other));
        entries
    }

    /// Returns the name of a new entry for a save at `seconds`, and the number of entries. No other program
    /// chooses the same name.
    pub(super) fn new_name(&self, seconds: i64) -> (OsString, usize) {
        static TAGS: AtomicU64 = AtomicU64::new(0);
        let (entries, second) = (self.entries(), time::as_name(seconds));
        let number = entries.last().map_or(0, |(_, last)| last.number).saturating_add(1);
        let is_taken = |shown: &str| entries.iter().any(|(_, entry)| entry.shown == shown);
        // Another text of the same second gets `02` before the dot. It sorts after the first, as `0` > `.`.
        let more = (2..u64::MAX).map(|n| format!("{second}{n:02}"));
        let shown = std::iter::once(second.clone()).chain(more).find(|shown| !is_taken(shown));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let tag = (now, std::process::id(), TAGS.fetch_add(1, Ordering::Relaxed), &self.name);
        let tag = twox_hash::XxHash3_128::oneshot(format!("{tag:?}").as_bytes()) as u64;
        let name = format!("{number:08}-{}-{tag:016x}.yaml", shown.unwrap_or(second));
        (name.into(), entries.len())
    }

    /// Writes an entry completely or not at all.
    pub(super) fn write(&self, name: &OsStr, bytes: &[u8]) -> std::io::Result<()> {
        user_dirs::write(&self.dir, name, bytes)
    }

    /// Reads an entry.
    pub(super) fn read(&self, name: &OsStr) -> Option<Vec<u8>> {
        let (file, _) = user_dirs::open_file(&self.dir, Path::new(name))?;
        let mut bytes = Vec::new();
        file.take(MOST_BYTES + 1).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Removes an entry.
    pub(super) fn remove(&self, name: &OsStr) {
        let _ = rustix::fs::unlinkat(&self.dir, name, AtFlags::empty());
    }

    /// Removes the oldest entries beyond the limits. Without `most_bytes`, sizes are not looked at. Returns the
    /// number of bytes freed.
    pub(super) fn limit(&self, most_texts: usize, most_bytes: Option<u64>) -> u64 {
        let (mut held, mut removed) = (0, 0);
        let entries = self.entries();
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

    /// Renames the directory if the inode or path of its file has changed. Returns the directory's name.
    pub(super) fn follow(&self, history: &OwnedFd, id: &FileId) -> OsString {
        let name = id.bucket();
        // If another bucket has the new name, this one keeps its old name and is found by the path in it.
        match name == self.name || rustix::fs::renameat(history, &*self.name, history, &*name).is_ok() {
            true => name,
            false => self.name.clone(),
        }
    }
}
