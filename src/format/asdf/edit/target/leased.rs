//! Leases a source to which other programs may append, so that no other program has the source open for
//! writing during a save.

use crate::error::Result;
use crate::format::asdf::edit::SavePlan;
use crate::format::asdf::edit::apply::{linked, not_leased};
use crate::format::asdf::edit::opened::{lease_patiently, not_writable};
use crate::format::asdf::edit::plan::PlannedChange;
use crate::source::storage::Storage;

use super::Target;

impl<S: Storage> Target<S> {
    /// Takes a lease on the file. The file is open for reading only until [`write_again`](Self::write_again),
    /// and no other program can write to it.
    pub(super) fn hold_stream(&mut self, change: &PlannedChange<'_>) -> Result<()> {
        if self.storage.meta(&self.file)?.links > 1 {
            return Err(linked(change));
        }
        // A lease does not cover programs on other machines.
        let lock = if self.storage.is_remote(&self.file) { None } else { self.lock.take() };
        let Some(lock) = lock else {
            return Err(not_leased(change, &std::io::ErrorKind::Unsupported.into()));
        };
        // The kernel grants no lease while the file is open for writing.
        drop(std::mem::replace(&mut self.file, lock));
        self.reads_only = true;
        lease_patiently(&self.storage, &self.file).map_err(|error| not_leased(change, &error))
    }

    /// Takes a lease for a plan that only reads the file, if the system grants one: then no other program can
    /// write to the file meanwhile. Without one, the plan finds by size and time that the file was changed.
    /// Any other plan needs a writing descriptor, beside which no lease is granted.
    pub(super) fn lease_for(&mut self, plan: SavePlan, change: &PlannedChange<'_>) -> Result<()> {
        if change.moves_a_stream() {
            return Ok(());
        }
        let only_reads = matches!(plan, SavePlan::Clone | SavePlan::Copy)
            && !self.limits.has(change.identity.device, plan.word())
            && !self.storage.is_remote(&self.file);
        if !only_reads {
            return self.write_again();
        }
        // A user who may no longer write the file could not open it again for a plan that writes it.
        if !self.reads_only
            && self.open_named(true).is_ok()
            && let Some(lock) = self.lock.take()
        {
            drop(std::mem::replace(&mut self.file, lock));
            self.reads_only = true;
            if self.storage.lease(&self.file).is_err() {
                return self.write_again();
            }
        }
        Ok(())
    }

    /// Ends the lease, and opens the file for writing again.
    pub(super) fn write_again(&mut self) -> Result<()> {
        if !self.reads_only {
            return Ok(());
        }
        // Lets waiting writers continue. If there is no lease, the error is harmless.
        let _ = self.storage.end_lease(&self.file);
        let file = self.open_named(true).map_err(not_writable)?;
        let (named, known) = (self.storage.meta(&file)?.identity, self.storage.meta(&self.file)?.identity);
        if !named.same_file(&known) {
            // Another file has the name. It has to be locked and written instead.
            return self.open_anew();
        }
        self.lock = Some(std::mem::replace(&mut self.file, file));
        self.reads_only = false;
        Ok(())
    }
}
