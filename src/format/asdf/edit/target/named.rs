//! Finds the file that has the name, where another machine or program may have put it there unseen.
//!
//! On a server a descriptor may lead to a file that was replaced, while name and descriptor seem to be one file:
//! the kernel goes on with what it knows. Only opening the file by its name leads to the one that others see.

use std::io;

use super::{Target, conflict, gone};
use crate::error::{Error, Result};
use crate::format::asdf::edit::opened::not_writable;
use crate::format::asdf::edit::plan::Change;
use crate::source::storage::Storage;

/// Bytes compared at once.
const PIECE: usize = 256 << 10;

impl<S: Storage> Target<S> {
    /// Opens the file that has the name now, and keeps or takes its lock.
    pub(super) fn open_by_name(&mut self) -> Result<()> {
        let file = self.storage.open(&self.path, true).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => gone(error),
            _ => not_writable(error),
        })?;
        let (new, old) = (self.storage.meta(&file)?.identity, self.storage.meta(&self.file)?.identity);
        if !new.same_file(&old) {
            // To the kernel both may be one inode, which this lock would keep from being locked.
            self.lock = None;
            return self.open_anew();
        }
        let old = std::mem::replace(&mut self.file, file);
        // Where only a descriptor that writes can be locked, the old one was.
        self.lock.get_or_insert(old);
        Ok(())
    }

    /// Reads the file that has the name, and compares it with what the change made of it; does nothing on a local
    /// file system.
    ///
    /// # Errors
    ///
    /// A conflict if it is not the same: another machine or program has replaced or changed the file.
    pub(super) fn read_back(&mut self, change: &Change<'_>) -> Result<()> {
        if !self.storage.is_remote(&self.file) {
            return Ok(());
        }
        let same = self.is_at_name(change);
        if !matches!(same, Ok(true)) {
            // The next save looks anew.
            self.layout.identity.mtime = (0, 0);
        }
        match same {
            Ok(true) => Ok(()),
            Ok(false) => Err(conflict()),
            Err(error) => Err(Error::from(error).within("the saved file can't be read back")),
        }
    }

    /// True if the file that has the name is the new file, as far as the change wrote it.
    fn is_at_name(&self, change: &Change<'_>) -> io::Result<bool> {
        let file = self.storage.open(&self.path, false)?;
        let size = self.storage.meta(&file)?.identity.size;
        if size != change.new_size() && !(change.streamed && size > change.new_size()) {
            return Ok(false);
        }
        let (mut found, mut wanted) = (vec![0; PIECE], vec![0; PIECE]);
        for region in [0..change.head_to, change.tail_from()..change.new_size()] {
            let mut at = region.start;
            while at < region.end {
                let len = PIECE.min(usize::try_from(region.end - at).unwrap_or(PIECE));
                let len = change.new_bytes(at, &mut wanted[..len]);
                let read = self.storage.read_at(&file, at, &mut found[..len])?;
                if len == 0 || found[..read] != wanted[..len] {
                    return Ok(false);
                }
                at += len as u64;
            }
        }
        Ok(true)
    }
}
