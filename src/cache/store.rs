//! The seek tables of compressed streams, which outlive a mount.
//!
//! A table is found by a [`Key`], and is the bytes of one file; their meaning is the codec's. Nothing depends
//! on a table: without a directory none is stored, and a table that is missing or wrong costs its reader a pass
//! over the stream, which makes a new one.
//!
//! The threads that decode ahead write the tables. A [`PendingWrite`] announces one, so that the end of a mount
//! can wait for it.

mod directory;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::content::{Content, Text};
use crate::error::{Error, Result};
use crate::user_dirs;
use directory::Directory;

/// The key of a table: a digest of all that identifies its stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(pub [u8; 16]);

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// Where tables are stored.
#[derive(Debug, Default)]
pub struct Store {
    backing: Backing,
    pending: Arc<Pending>,
    trouble: Mutex<Option<Error>>,
}

#[derive(Debug, Default)]
enum Backing {
    #[default]
    Nowhere,
    Directory(Arc<Directory>),
    Memory(Mutex<HashMap<Key, Arc<Text>>>),
}

impl Store {
    /// A store that keeps nothing.
    pub fn nowhere() -> Self {
        Self::default()
    }

    /// The user's: `$XDG_CACHE_HOME/asdf-mount`, by default in `~/.cache`; it is made if it is missing.
    ///
    /// # Errors
    /// As [`at`](Self::at), or the user has no such place.
    pub fn of_user() -> Result<Self> {
        let path = user_dirs::CACHE.path();
        path.and_then(|path| Self::at(&path)).map_err(|error| error.within("seek tables can't be kept"))
    }

    /// The one in the directory `path`, which is made if it is missing.
    ///
    /// # Errors
    /// It can't be made or read, is not ours, or can be written by others.
    pub fn at(path: &Path) -> Result<Self> {
        let directory = Directory::open(path).map_err(|error| error.of(path))?;
        Ok(Self { backing: Backing::Directory(Arc::new(directory)), ..Self::default() })
    }

    /// One that is gone with the process.
    pub fn in_memory() -> Self {
        Self { backing: Backing::Memory(Mutex::default()), ..Self::default() }
    }

    /// Whether anything is stored here.
    pub fn keeps(&self) -> bool {
        !matches!(self.backing, Backing::Nowhere)
    }

    /// The table with this key. Its bytes may be anything.
    pub fn find(&self, key: Key) -> Option<Arc<dyn Content>> {
        match &self.backing {
            Backing::Nowhere => None,
            Backing::Directory(directory) => Some(Arc::new(directory.find(key)?)),
            Backing::Memory(tables) => Some(locked(tables).get(&key)?.clone()),
        }
    }

    /// Keeps what `write` writes under `key`, whole or not at all.
    pub fn keep(&self, key: Key, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) {
        let kept = match &self.backing {
            Backing::Nowhere => Ok(()),
            Backing::Directory(directory) => directory.keep(key, write),
            Backing::Memory(tables) => {
                let mut bytes = Vec::new();
                write(&mut bytes).map(|()| drop(locked(tables).insert(key, Arc::new(Text::new(bytes)))))
            }
        };
        if let Err(error) = kept {
            let error = Error::from(error).within("a seek table can't be kept");
            tracing::debug!("{error}");
            locked(&self.trouble).get_or_insert(error);
        }
    }

    /// Removes the table with this key.
    pub fn remove(&self, key: Key) {
        match &self.backing {
            Backing::Nowhere => {}
            Backing::Directory(directory) => directory.remove(key),
            Backing::Memory(tables) => drop(locked(tables).remove(&key)),
        }
    }

    /// Announces a write.
    pub fn pending_write(&self) -> PendingWrite {
        *locked(&self.pending.writes) += 1;
        PendingWrite(self.pending.clone())
    }

    /// Waits until all pending writes are done or given up.
    pub fn settle(&self) {
        while !self.settle_within(Duration::from_secs(60)) {}
    }

    /// The same for so long at most; whether all is settled.
    pub fn settle_within(&self, patience: Duration) -> bool {
        let writes = locked(&self.pending.writes);
        let waited = self.pending.fewer.wait_timeout_while(writes, patience, |writes| *writes > 0);
        *waited.unwrap_or_else(PoisonError::into_inner).0 == 0
    }

    /// What first went wrong in keeping something.
    pub fn trouble(&self) -> Option<Error> {
        locked(&self.trouble).clone()
    }
}

/// A table that will be written. Dropped when it is written, or when that was given up.
#[derive(Debug)]
pub struct PendingWrite(Arc<Pending>);

#[derive(Debug, Default)]
struct Pending {
    writes: Mutex<usize>,
    fewer: Condvar,
}

impl Drop for PendingWrite {
    fn drop(&mut self) {
        *locked(&self.0.writes) -= 1;
        self.0.fewer.notify_all();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
