//! The history of a file: the texts that saves replaced, in the user's state directory.
//!
//! ```text
//! $XDG_STATE_HOME/asdf-mount/history/
//!   KEY/                                            0700: a bucket, the texts of one file
//!     00000017-2026-11-23T10-36-37Z-PATH-TAG-TIME.yaml   0600: an entry: a line about a save, then the text
//!   .by-path/PATH/KEY                               empty: the file of this bucket was saved at this path
//!   .size                                           the size of all entries in bytes
//! ```
//!
//! The texts of a file are found without listing the buckets of others: by its key, or by its path.
//!
//! - `file_id`: KEY and PATH, by which the bucket of a file is found
//! - `bucket`: the files of a bucket, and their limits; `entry`: the bytes of an entry
//! - `chain`: which entries belong to the present text
//!
//! A save writes its entry before it changes the file. If the program is killed, the entry exists completely
//! or not at all: it is written under a temporary name and renamed. If the save fails, the entry is removed.
//! An entry whose save did not happen is ignored: its text is still the text of the file. Nothing is synced:
//! after a power cut the last entries may be missing or torn. Their size, and a digest of the text, reveal
//! that. For a text that is too large, the entry has the line only.
//!
//! No program needs a lock. Names of entries contain a random tag, so two machines that share the state
//! directory never write the same name. No error of the history fails a save, except that of `--undo`, which
//! could not be taken back.

mod bucket;
mod chain;
mod entry;
mod file_id;

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use bucket::{Bucket, FirstLine};
use chain::Link;
pub use entry::Digest;
use entry::Header;
use file_id::FileId;
pub use file_id::machine;
use seekable::error::{Error, Kind, Result};
use seekable::source::{Time, storage};
use seekable::user_dirs::bound::{self, DIRECTORY, HISTORY};
use seekable::user_dirs::held_dir::HeldDir;
use seekable::user_dirs::{STATE, history_size, is_ours};

/// Maximum number of texts of a file.
pub(crate) const MAX_TEXTS: usize = 50;
/// Maximum number of bytes of the texts of a file.
pub(crate) const MAX_BYTES: u64 = 16 << 20;
/// Attempts to write into the directory of a file's texts, which another program may remove or rename.
const ATTEMPTS: usize = 3;

/// The texts that saves replaced, of all files of this user.
#[derive(Debug)]
pub struct History {
    dir: HeldDir,
    /// True if the state directory may be on a server.
    is_remote: bool,
    /// True once an error of keeping a text was reported.
    has_warned: AtomicBool,
}

/// A text that a save is about to replace.
#[derive(Clone, Copy, Debug)]
pub struct Replaced<'a> {
    /// The file: its directory and its name there.
    pub file: (BorrowedFd<'a>, &'a OsStr),
    /// The name of the program that saves.
    pub program: Option<&'a str>,
    /// The text that is replaced.
    pub old: &'a [u8],
    /// The text that replaces it.
    pub new: &'a [u8],
}

/// A text that was kept for a save that is not done yet.
#[derive(Debug)]
pub struct KeptText<'a> {
    history: &'a History,
    bucket: Bucket,
    name: OsString,
    size: u64,
    /// Number of the file's older texts.
    older: usize,
    /// The digest of the file's path.
    path: OsString,
    /// The path that the file had at the save before this one, if another.
    left_path: Option<String>,
    is_omitted: bool,
}

/// The entries of a file, the last one first in each directory.
struct FileEntries {
    own: Vec<Link>,
    /// The entries of files that had the path of this one before, by directory.
    others: Vec<Vec<Link>>,
}

/// A save in the history of a file.
#[derive(Clone, Debug)]
pub struct Save {
    /// The name of the text in the mount.
    pub name: String,
    /// Time of the save.
    pub time: Time,
    /// The program that saved, if known.
    pub program: Option<String>,
    /// The text that the save replaced.
    pub old: Digest,
    /// The text that it wrote.
    pub new: Digest,
    /// True if each change of the text from this save to the present text is a save in this history.
    pub is_own: bool,
    /// True if the text that the save replaced was too large to be kept.
    pub is_omitted: bool,
    /// The name of the directory with the file's texts, and the name of this save's file there.
    place: (OsString, OsString),
}

impl History {
    /// Opens the history of this user, creating the state directory if it is missing.
    ///
    /// # Errors
    /// The state directory can't be used.
    pub fn open(mountpoint: Option<&Path>) -> Result<Self> {
        Ok(Self::of(HeldDir::open(STATE, &STATE.path()?, mountpoint)?))
    }

    /// Opens the history of this user for reading.
    ///
    /// # Errors
    /// As for [`open`](Self::open); also if the state directory is missing.
    pub fn open_existing(mountpoint: Option<&Path>) -> Result<Self> {
        Ok(Self::of(HeldDir::open_existing(STATE, &STATE.path()?, mountpoint)?))
    }

    fn of(dir: HeldDir) -> Self {
        let is_remote = storage::is_remote(&*dir.get().0);
        Self { dir, is_remote, has_warned: AtomicBool::new(false) }
    }

    /// True if reading the history may wait for a server.
    pub fn is_slow(&self) -> bool {
        self.is_remote
    }

    /// The machine, if others may share the state directory, else nothing.
    fn machine(&self) -> &'static str {
        if self.is_remote { machine() } else { "" }
    }

    /// Returns the identity of the file at a name in a directory.
    fn id_of(&self, file: (BorrowedFd<'_>, &OsStr)) -> Result<FileId> {
        FileId::of(file.0, file.1, self.machine())
    }

    /// Keeps a text that a save is about to replace.
    ///
    /// # Errors
    /// The text can't be written to the state directory, or its directory can't be read.
    pub fn keep(&self, replaced: &Replaced<'_>) -> Result<KeptText<'_>> {
        self.try_to_keep(replaced)
            .map_err(|error| error.of(self.dir.path()).within("the replaced text is not kept in the history"))
    }

    /// True at the first call: an error of [`keep`](Self::keep) is reported once.
    pub fn warns(&self) -> bool {
        !self.has_warned.swap(true, Ordering::Relaxed)
    }

    /// Returns the state directory, and the directory of replaced texts in it. Creates the latter if
    /// `makes` is true.
    fn open_dir(&self, makes: bool) -> Result<(Arc<OwnedFd>, OwnedFd)> {
        let state = self.dir.get().0;
        if makes {
            match rustix::fs::mkdirat(&*state, HISTORY, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let opened = rustix::fs::openat(&*state, HISTORY, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
        if !is_ours(&rustix::fs::fstat(&opened)?) {
            return Err(Error::new(
                Kind::Refused,
                "its directory 'history' belongs to another user, or other users can write to it: remove that directory",
            ));
        }
        Ok((state, opened))
    }

    fn try_to_keep(&self, replaced: &Replaced<'_>) -> Result<KeptText<'_>> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let id = self.id_of(replaced.file)?;
        let mut header = Header {
            time: (i64::try_from(now.as_secs()).unwrap_or(i64::MAX), now.subsec_nanos()),
            program: replaced.program.map(entry::program_name),
            old: Digest::of(replaced.old),
            new: Digest::of(replaced.new),
            since: id.since,
            is_omitted: replaced.old.len() as u64 > MAX_BYTES,
        };
        let mut bytes = entry::bytes(&header, replaced.old);
        if bytes.len() as u64 > MAX_BYTES {
            header.is_omitted = true;
            bytes = entry::bytes(&header, replaced.old);
        }
        let mut attempts = 1;
        loop {
            match self.write(&id, &header, &bytes) {
                Err(error) if error.errno() == libc::ENOENT && attempts < ATTEMPTS => attempts += 1,
                written => return written,
            }
        }
    }

    /// Writes an entry into the directory with a file's texts.
    fn write(&self, id: &FileId, header: &Header, bytes: &[u8]) -> Result<KeptText<'_>> {
        let dir = self.open_dir(true)?.1;
        let bucket = Bucket::of(&dir, id)?;
        let entries = bucket.entries()?;
        let last_path = entries.last().map(|(_, last)| last.path.clone());
        let is_marked = last_path.as_ref().is_some_and(|path| id.path == **path);
        if !is_marked {
            bucket::mark(&dir, &id.path, &id.key)?;
        }
        let name = bucket.new_name(&entries, header.time.0, &id.path);
        bucket.write(&name, bytes)?;
        Ok(KeptText {
            history: self,
            bucket,
            name,
            size: bytes.len() as u64,
            older: entries.len(),
            path: id.path.clone(),
            left_path: last_path.filter(|_| !is_marked),
            is_omitted: header.is_omitted,
        })
    }

    /// Returns the saves of a file, the last one first. `now` returns the digest of the file's present text.
    ///
    /// # Errors
    /// The file is gone, its directory of texts can't be read, or an error of `now`.
    pub fn changes(
        &self,
        file: (BorrowedFd<'_>, &OsStr),
        now: impl FnOnce() -> Result<Digest>,
    ) -> Result<Vec<Save>> {
        self.changes_of(&self.id_of(file)?, now)
    }

    /// Returns the saves of an open file, which was found at a name in a directory, as [`Self::changes`] does. If
    /// another user has since put another file there, the saves of that file are not returned.
    ///
    /// # Errors
    /// The directory of texts can't be read, or an error of `now`.
    pub fn changes_of_open(
        &self,
        file: BorrowedFd<'_>,
        found_at: (BorrowedFd<'_>, &OsStr),
        now: impl FnOnce() -> Result<Digest>,
    ) -> Result<Vec<Save>> {
        self.changes_of(&FileId::of_open(file, found_at.0, found_at.1, self.machine())?, now)
    }

    fn changes_of(&self, id: &FileId, now: impl FnOnce() -> Result<Digest>) -> Result<Vec<Save>> {
        let kept = self
            .entries(id)
            .map_err(|error| error.of(self.dir.path()).within("the history can't be read"))?;
        match kept {
            Some(FileEntries { own, others }) => Ok(chain::changes(now()?, id.since, own, others)),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the entries of a file and of those that had its path before; `None` if there are no such directories.
    fn entries(&self, id: &FileId) -> Result<Option<FileEntries>> {
        let (_, dir) = match self.open_dir(false) {
            Err(error) if error.errno() == libc::ENOENT => return Ok(None),
            opened => opened?,
        };
        let own = Bucket::open(&dir, &id.key)?;
        let others = Bucket::others_at(&dir, id)?;
        if own.is_none() && others.is_empty() {
            return Ok(None);
        }
        let own = own.as_ref().map_or_else(|| Ok(Vec::new()), links)?;
        let others = others.iter().map(links).collect::<Result<_>>()?;
        Ok(Some(FileEntries { own, others }))
    }

    /// Returns the text that a save replaced.
    ///
    /// # Errors
    /// The text was not kept, was removed meanwhile, or is damaged.
    pub fn text(&self, change: &Save) -> Result<Vec<u8>> {
        let not_there = |why: &str| Error::new(Kind::NotFound, why).of(&change.name);
        if change.is_omitted {
            let why = format!("the text is larger than {} MiB and is not in the history", MAX_BYTES >> 20);
            return Err(not_there(&why));
        }
        let gone = || not_there("the text was removed from the history");
        let dir = self.open_dir(false)?.1;
        let bucket = Bucket::open(&dir, &change.place.0)?.ok_or_else(gone)?;
        let bytes = bucket.read(&change.place.1)?.ok_or_else(gone)?;
        match entry::parse(&bytes) {
            Some((header, text)) if header.old == change.old => Ok(text.to_vec()),
            _ => Err(not_there("the text in the history is damaged")),
        }
    }
}

/// Returns the entries of a directory with a file's texts, the last one first.
fn links(bucket: &Bucket) -> Result<Vec<Link>> {
    let mut links = Vec::new();
    for (name, named) in bucket.entries()?.into_iter().rev() {
        match bucket.first_line(&name)? {
            FirstLine::Gone => {}
            FirstLine::Torn => links.push(Link::Torn),
            FirstLine::Whole(header) => {
                let save = Save {
                    name: format!("{}.yaml", named.shown),
                    time: header.time,
                    program: header.program,
                    old: header.old,
                    new: header.new,
                    is_own: false,
                    is_omitted: header.is_omitted,
                    place: (bucket.key.clone(), name),
                };
                links.push(Link::Whole { save: Box::new(save), since: header.since, done: named.done });
            }
        }
    }
    Ok(links)
}

impl KeptText<'_> {
    /// True if the text is too large: the history has the save only.
    pub fn is_omitted(&self) -> bool {
        self.is_omitted
    }

    /// Ends a successful save: renames the directory of texts if the file has a new inode; removes the oldest
    /// texts beyond the limits.
    pub fn saved(self, file: (BorrowedFd<'_>, &OsStr)) {
        let Ok((state, dir)) = self.history.open_dir(false) else { return };
        let (name, bucket) = match self.history.id_of(file) {
            Ok(id) => (self.bucket.set_done(self.name, id.changed), self.bucket.follow(&dir, &id)),
            Err(_) => (self.name, self.bucket.key.clone()),
        };
        if let Some(left) = &self.left_path {
            bucket::unmark(&dir, OsStr::new(left), &self.bucket.key);
        }
        let newest = [OsStr::new(HISTORY), &bucket, &name].join(OsStr::new("/"));
        // If the texts of all files together are within the limit of one file, so are the texts of this file.
        let limit = |noted: Option<u64>| {
            let is_small = noted.is_some_and(|bytes| bytes.saturating_add(self.size) <= MAX_BYTES);
            if !is_small {
                self.bucket.limit(MAX_TEXTS, Some(MAX_BYTES))
            } else if self.older < MAX_TEXTS {
                0
            } else {
                self.bucket.limit(MAX_TEXTS, None)
            }
        };
        // Now and then, the texts of all files are trimmed, too.
        if history_size::add(dir.as_fd(), self.size, limit) {
            bound::trim(state.as_fd(), bound::MAX_BYTES, Some(&newest));
        }
    }

    /// Removes the text, as the save did not happen.
    pub fn withdraw(self) {
        self.bucket.remove(&self.name);
        let Ok((state, dir)) = self.history.open_dir(false) else { return };
        // The directories are removed only if they are empty.
        if rustix::fs::unlinkat(&dir, &*self.bucket.key, AtFlags::REMOVEDIR).is_ok() {
            bucket::unmark(&dir, &self.path, &self.bucket.key);
        }
        let _ = rustix::fs::unlinkat(&*state, HISTORY, AtFlags::REMOVEDIR);
    }
}

#[cfg(test)]
mod tests;
