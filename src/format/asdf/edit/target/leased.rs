//! Writes a source to whose end other programs may write, while none of them has it open.

use crate::error::Result;
use crate::format::asdf::edit::apply::{linked, not_leased};
use crate::format::asdf::edit::opened::{lease_patiently, not_writable};
use crate::format::asdf::edit::plan::Change;
use crate::source::storage::Storage;

use super::Target;

impl<S: Storage> Target<S> {
    /// Takes a lease on the file, which is open for reading only then: no other program writes to it until
    /// [`write_again`](Self::write_again).
    pub(super) fn hold_stream(&mut self, change: &Change<'_>) -> Result<()> {
        if self.storage.meta(&self.file)?.links > 1 {
            return Err(linked(change));
        }
        // A lease says nothing of programs on other machines.
        let lock = if self.storage.is_remote(&self.file) { None } else { self.lock.take() };
        let Some(lock) = lock else {
            return Err(not_leased(change, &std::io::ErrorKind::Unsupported.into()));
        };
        // No lease is granted while it is open.
        drop(std::mem::replace(&mut self.file, lock));
        self.reads_only = true;
        lease_patiently(&self.storage, &self.file).map_err(|error| not_leased(change, &error))
    }

    /// Gives a lease up, and opens the file for writing again.
    pub(super) fn write_again(&mut self) -> Result<()> {
        if !self.reads_only {
            return Ok(());
        }
        // No writer has to wait any longer; where there is no lease this does no harm.
        let _ = self.storage.end_lease(&self.file);
        let file = self.storage.open(&self.path, true).map_err(not_writable)?;
        let (named, known) = (self.storage.meta(&file)?.identity, self.storage.meta(&self.file)?.identity);
        if !named.same_file(&known) {
            // Another file has the name: that one is to be written, and to be locked.
            return self.open_anew();
        }
        self.lock = Some(std::mem::replace(&mut self.file, file));
        self.reads_only = false;
        Ok(())
    }
}
