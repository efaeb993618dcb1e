//! The store of seek tables, which outlive a mount.
//!
//! A table is found by a [`TableKey`] and consists of the bytes of one file; the codec defines their meaning.
//! No read depends on a table: if a table is missing or invalid, a reader needs one pass over the stream,
//! which makes a new table. Without a directory, no table is stored.
//!
//! The worker threads write the tables. A [`PendingWrite`] announces each write, so that a mount that ends
//! can wait for the write.

mod directory;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::content::{Content, Text};
use crate::error::{Error, Result};
use crate::sync::{locked, wait_while_within};
use crate::user_dirs;
use directory::Directory;

/// The key of a table: a digest of the stream's identity.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TableKey(pub [u8; 16]);

impl fmt::Display for TableKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for TableKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// A store of tables.
#[derive(Debug, Default)]
pub struct Store {
    backing: Backing,
    pending: Arc<Pending>,
    error: Mutex<Option<Error>>,
    proves_md5: bool,
}

#[derive(Debug, Default)]
enum Backing {
    #[default]
    Nowhere,
    Directory(Arc<Directory>),
    Memory(Mutex<HashMap<TableKey, Arc<Text>>>),
}

impl Store {
    /// Creates a store that keeps nothing.
    pub fn nowhere() -> Self {
        Self::default()
    }

    /// Opens the user's store: `$XDG_CACHE_HOME/asdf-mount`, by default in `~/.cache`. It is created if
    /// missing.
    ///
    /// # Errors
    /// As for [`at`](Self::at), or the user has no cache directory.
    pub fn of_user() -> Result<Self> {
        let path = user_dirs::CACHE.path();
        path.and_then(|path| Self::at(&path)).map_err(|error| error.within("seek tables can't be kept"))
    }

    /// Opens the store in the directory `path`, which is created if missing.
    ///
    /// # Errors
    /// The directory can't be created or read, has another owner, or is writable by others.
    pub fn at(path: &Path) -> Result<Self> {
        let directory = Directory::open(path).map_err(|error| error.of(path))?;
        Ok(Self { backing: Backing::Directory(Arc::new(directory)), ..Self::default() })
    }

    /// Creates a store in memory, which ends with the process.
    pub fn in_memory() -> Self {
        Self { backing: Backing::Memory(Mutex::default()), ..Self::default() }
    }

    /// Makes each new table one that copies of its file can use at once: the MD5 of its stream is computed.
    #[must_use]
    pub fn proving_md5(self) -> Self {
        Self { proves_md5: true, ..self }
    }

    /// True if the MD5 of a stream is computed when its first table is stored.
    pub fn proves_md5(&self) -> bool {
        self.proves_md5
    }

    /// True if the store keeps tables.
    pub fn keeps(&self) -> bool {
        !matches!(self.backing, Backing::Nowhere)
    }

    /// Returns the table with this key. Its bytes are not validated.
    pub fn find(&self, key: TableKey) -> Option<Arc<dyn Content>> {
        match &self.backing {
            Backing::Nowhere => None,
            Backing::Directory(directory) => Some(Arc::new(directory.find(key)?)),
            Backing::Memory(tables) => Some(locked(tables).get(&key)?.clone()),
        }
    }

    /// Stores the output of `write` under `key`, completely or not at all.
    pub fn keep(&self, key: TableKey, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) {
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
            locked(&self.error).get_or_insert(error);
        }
    }

    /// Removes the table with this key.
    pub fn remove(&self, key: TableKey) {
        match &self.backing {
            Backing::Nowhere => {}
            Backing::Directory(directory) => directory.remove(key),
            Backing::Memory(tables) => drop(locked(tables).remove(&key)),
        }
    }

    /// Announces a write. The store waits for it in [`wait_for_writes`](Self::wait_for_writes).
    pub fn pending_write(&self) -> PendingWrite {
        *locked(&self.pending.writes) += 1;
        PendingWrite(self.pending.clone())
    }

    /// Waits until all pending writes are done or abandoned.
    pub fn wait_for_writes(&self) {
        while !self.wait_for_writes_within(Duration::from_secs(60)) {}
    }

    /// Waits at most `patience` for pending writes; true if all are done.
    pub fn wait_for_writes_within(&self, patience: Duration) -> bool {
        let writes = locked(&self.pending.writes);
        let (writes, _) = wait_while_within(&self.pending.fewer, writes, patience, |writes| *writes > 0);
        *writes == 0
    }

    /// Returns the first error of storing a table.
    pub fn error(&self) -> Option<Error> {
        locked(&self.error).clone()
    }
}

/// An announced write of a table. Dropped when it is done or abandoned.
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
