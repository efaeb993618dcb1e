//! Finds the file that has the source's name where another machine or program may have replaced it unseen.
//!
//! On a server a descriptor may refer to a replaced file while name and descriptor seem to be the same file,
//! because the kernel uses cached attributes. Only opening the name leads to the file that others see.

use std::io;

use seekable::error::{Error, Result};
use seekable::source::storage::Storage;

use super::super::apply::has_new_bytes;
use super::super::opened::not_writable;
use super::super::plan::PlannedChange;
use super::{Target, conflict, gone};

impl<S: Storage> Target<S> {
    /// Opens the file that has the name, and keeps or takes its lock.
    pub(super) fn open_by_name(&mut self) -> Result<()> {
        let file = self.open_named(true).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => gone(error),
            _ => not_writable(error),
        })?;
        let new = self.storage.meta(&file)?.identity;
        let old_identity = self.storage.meta(&self.file)?.identity;
        if !new.same_file(&old_identity) {
            // The kernel may take both files for one inode. Then the old lock would keep the new file from
            // being locked.
            self.lock = None;
            return self.open_anew();
        }
        let old = std::mem::replace(&mut self.file, file);
        // Where only a writing descriptor can be locked, the old one holds the lock.
        self.lock.get_or_insert(old);
        Ok(())
    }

    /// Reads the file that has the name, and compares it with the change that was saved. Does nothing on a local
    /// file system.
    ///
    /// # Errors
    ///
    /// A conflict if the file differs: another machine or program has replaced or changed it.
    pub(super) fn read_back(&mut self, change: &PlannedChange<'_>) -> Result<()> {
        if !self.storage.is_remote(&self.file) {
            return Ok(());
        }
        let same = self.is_at_name(change);
        if !matches!(same, Ok(true)) {
            self.distrust_layout();
        }
        match same {
            Ok(true) => Ok(()),
            Ok(false) => Err(conflict()),
            Err(error) => Err(Error::from(error).within("the saved file can't be read back")),
        }
    }

    /// True if the file that has the name has the bytes that the change wrote.
    fn is_at_name(&self, change: &PlannedChange<'_>) -> io::Result<bool> {
        has_new_bytes(&self.storage, &self.open_named(false)?, change)
    }
}
