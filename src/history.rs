//! The history of a file: the texts that saves replaced, in the user's state directory.
//!
//! ```text
//! $XDG_STATE_HOME/asdf-mount/history/
//!   survey-galaxy.asdf-KEY-PATH/                    0700: a bucket, the texts of one file
//!     00000017-2026-11-23T10-36-37Z-TAG.yaml        0600: an entry: a line about a save, then the text
//!   .size                                           the size of all entries in bytes
//! ```
//!
//! - `file_id`: KEY and PATH, by which the bucket of a file is found
//! - `bucket`: the files of a bucket, and their limits; `entry`: the bytes of an entry
//! - `chain`: which entries belong to the present text
//!
//! A save writes its entry before it changes the file. If the program is killed, the entry exists completely
//! or not at all: it is written under a temporary name and renamed. If the save fails, the entry is removed.
//! An entry whose save did not happen is ignored: its text is still the text of the file. Nothing is synced:
//! after a power cut the last entries may be missing or torn. A digest reveals torn entries.
//!
//! No program needs a lock. Names of entries contain a random tag, so two machines that share the state
//! directory never write the same name. No error of the history fails a save: [`History::trouble`] returns
//! the first one.

mod bucket;
mod chain;
mod entry;
mod file_id;

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Error, Kind, Result};
use crate::source::Time;
use crate::user_dirs::bound::{self, DIRECTORY, HISTORY};
use crate::user_dirs::held_dir::HeldDir;
use crate::user_dirs::{STATE, history_size, is_ours};
use bucket::Bucket;
use chain::Link;
pub use entry::Digest;
use file_id::FileId;

/// Maximum number of texts of a file.
pub const MOST_TEXTS: usize = 50;
/// Maximum bytes of the texts of a file.
pub const MOST_BYTES: u64 = 16 << 20;
/// Attempts to write into the directory of a file's texts, which another program may remove or rename.
const ATTEMPTS: usize = 3;

/// The texts that saves replaced, of all files of this user.
#[derive(Debug)]
pub struct History {
    dir: HeldDir,
    trouble: Mutex<FirstError>,
}

/// The first error of keeping a text, until [`History::trouble`] returns it.
#[derive(Debug)]
enum FirstError {
    None,
    New(Error),
    Told,
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
        Self { dir, trouble: Mutex::new(FirstError::None) }
    }

    /// Keeps a text that a save is about to replace. Returns `None` if that fails, or if the text is too
    /// large.
    pub fn keep(&self, replaced: &Replaced<'_>) -> Option<KeptText<'_>> {
        self.try_to_keep(replaced).unwrap_or_else(|error| {
            let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
            if matches!(*trouble, FirstError::None) {
                *trouble = FirstError::New(error.of(self.dir.path()));
            }
            None
        })
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

    fn try_to_keep(&self, replaced: &Replaced<'_>) -> Result<Option<KeptText<'_>>> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = (i64::try_from(now.as_secs()).unwrap_or(i64::MAX), now.subsec_nanos());
        let bytes = entry::bytes(replaced.old, replaced.new, time, replaced.program);
        if bytes.len() as u64 > MOST_BYTES {
            return Ok(None);
        }
        let id = FileId::of(replaced.file.0, replaced.file.1)?;
        let mut attempts = 1;
        loop {
            match self.write(&id, time.0, &bytes) {
                Err(error) if error.errno() == libc::ENOENT && attempts < ATTEMPTS => attempts += 1,
                written => return written.map(Some),
            }
        }
    }

    /// Writes an entry into the directory with a file's texts.
    fn write(&self, id: &FileId, seconds: i64, bytes: &[u8]) -> Result<KeptText<'_>> {
        let bucket = Bucket::of(&self.open_dir(true)?.1, id)?;
        let (name, older) = bucket.new_name(seconds);
        bucket.write(&name, bytes)?;
        Ok(KeptText { history: self, bucket, name, size: bytes.len() as u64, older })
    }

    /// Returns the first error of keeping a text, once.
    pub fn trouble(&self) -> Option<Error> {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match &*trouble {
            FirstError::New(_) => match std::mem::replace(&mut *trouble, FirstError::Told) {
                FirstError::New(error) => Some(error.within("the replaced text is not kept in the history")),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the saves of a file, the last one first. `now` returns the digest of the file's present text.
    ///
    /// # Errors
    /// The file is gone, or an error of `now`.
    pub fn changes(
        &self,
        file: (BorrowedFd<'_>, &OsStr),
        now: impl FnOnce() -> Result<Digest>,
    ) -> Result<Vec<Save>> {
        let id = FileId::of(file.0, file.1)?;
        let (_, dir) = match self.open_dir(false) {
            Err(error) if error.errno() == libc::ENOENT => return Ok(Vec::new()),
            opened => opened?,
        };
        let (own, others) = Bucket::all_of(&dir, &id);
        if own.is_none() && others.is_empty() {
            return Ok(Vec::new());
        }
        let own = own.map_or_else(Vec::new, |bucket| links(&bucket));
        let others: Vec<_> = others.iter().map(links).collect();
        Ok(chain::changes(now()?, own, others))
    }

    /// Returns the text that a save replaced.
    ///
    /// # Errors
    /// The text was removed meanwhile, or is damaged.
    pub fn text(&self, change: &Save) -> Result<Vec<u8>> {
        let gone = || Error::new(Kind::NotFound, "the text was removed from the history").of(&change.name);
        let bucket = Bucket::open(&self.open_dir(false)?.1, &change.place.0).ok_or_else(gone)?;
        let bytes = bucket.read(&change.place.1).ok_or_else(gone)?;
        let (header, text) = entry::parse(&bytes).ok_or_else(gone)?;
        if header.old == change.old { Ok(text.to_vec()) } else { Err(gone()) }
    }
}

/// Returns the entries of a directory with a file's texts, the last one first.
fn links(bucket: &Bucket) -> Vec<Link> {
    let link = |(name, named): (OsString, bucket::EntryName)| {
        let bytes = bucket.read(&name).unwrap_or_default();
        match entry::parse(&bytes) {
            None => Link::Torn,
            Some((header, _)) => Link::Whole(Save {
                name: format!("{}.yaml", named.shown),
                time: header.time,
                program: header.program,
                old: header.old,
                new: header.new,
                is_own: false,
                place: (bucket.name.clone(), name),
            }),
        }
    };
    bucket.entries().into_iter().rev().map(link).collect()
}

impl KeptText<'_> {
    /// Ends a successful save: renames the directory of texts if the file has a new inode or path; removes
    /// the oldest texts beyond the limits.
    pub fn saved(self, file: (BorrowedFd<'_>, &OsStr)) {
        let Ok((state, dir)) = self.history.open_dir(false) else { return };
        let followed = FileId::of(file.0, file.1).map(|id| self.bucket.follow(&dir, &id));
        let bucket = followed.unwrap_or_else(|_| self.bucket.name.clone());
        let newest = [OsStr::new(HISTORY), &bucket, &self.name].join(OsStr::new("/"));
        // If the texts of all files together are within the limit of one file, so are the texts of this file.
        let limit = |noted: Option<u64>| match noted
            .is_some_and(|bytes| bytes.saturating_add(self.size) <= MOST_BYTES)
        {
            true if self.older < MOST_TEXTS => 0,
            true => self.bucket.limit(MOST_TEXTS, None),
            false => self.bucket.limit(MOST_TEXTS, Some(MOST_BYTES)),
        };
        // Now and then, the texts of all files are trimmed, too.
        if history_size::add(dir.as_fd(), self.size, limit) {
            bound::trim(state.as_fd(), bound::MOST, Some(&newest));
        }
    }

    /// Removes the text, as the save did not happen.
    pub fn withdraw(self) {
        self.bucket.remove(&self.name);
        let Ok((state, dir)) = self.history.open_dir(false) else { return };
        // Both directories are removed only if they are empty.
        let _ = rustix::fs::unlinkat(&dir, &*self.bucket.name, AtFlags::REMOVEDIR);
        let _ = rustix::fs::unlinkat(&*state, HISTORY, AtFlags::REMOVEDIR);
    }
}

#[cfg(test)]
mod tests;
