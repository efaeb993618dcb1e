//! Leases a source, so that no other program has the source open for writing: during a save that moves a stream or
//! makes a new file, and at the end of one that moves blocks within the file.

use std::io::ErrorKind;

use seekable::error::{Error, Kind, Result};
use seekable::source::storage::Storage;
use seekable::source::{Identity, Readers};

use super::super::apply::{Stopped, Unconfirmed, linked, not_leased};
use super::super::opened::{Patience, lease_patiently, open_to_write};
use super::super::plan::PlannedChange;
use crate::edit::SavePlan;

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

    /// Fails if another program has the file open for writing. A save that moves blocks, or puts a new file in its place,
    /// would lose what that program writes, or mix it with the new file.
    pub(super) fn check_no_writer(&mut self) -> Result<()> {
        if self.storage.is_remote(&self.file) {
            return Ok(());
        }
        match self.lease_now() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.write_again()?;
                Err(written_now())
            }
            _ => Ok(()),
        }
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
        if only_reads {
            self.check_no_writer()?;
            if self.reads_only && self.storage.has_lease(&self.file) {
                return Ok(());
            }
        }
        self.write_again()
    }

    /// Takes a lease on the file, which is then open for reading only. Waits a moment for a program that has the file open
    /// for writing.
    fn lease_now(&mut self) -> std::io::Result<()> {
        if self.reads_only && self.storage.has_lease(&self.file) {
            return Ok(());
        }
        if !self.reads_only {
            // A user who may no longer write the file could not open it again.
            self.open_named(true)?;
            let Some(lock) = self.lock.take() else { return Err(ErrorKind::Unsupported.into()) };
            drop(std::mem::replace(&mut self.file, lock));
            self.reads_only = true;
        }
        lease_patiently(&self.storage, &self.file)
    }

    /// Confirms under a lease that no other program has the file open for writing, and ends the save. Where no lease can
    /// be had, only compares the file once more. Undoes the save if a program has opened the file meanwhile, or if that
    /// can't be found out.
    pub(super) fn confirm(
        &mut self,
        written: Unconfirmed<S>,
        change: &PlannedChange<'_>,
        fsyncs: &mut u32,
        readers: &mut dyn Readers,
    ) -> std::result::Result<Identity, Stopped> {
        let is_remote = self.storage.is_remote(&self.file);
        let leased = if is_remote { Ok(()) } else { self.lease_now() };
        let stopped = if leased.is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
            Stopped::Failed(written_now())
        } else {
            let job = self.job(change, change.identity, *fsyncs, readers);
            match job.confirm(&written) {
                Ok(saved) => {
                    job.finish(written);
                    *fsyncs = job.syncs.get();
                    return Ok(saved);
                }
                Err(stopped) => stopped,
            }
        };
        // Under a lease the file is open for reading only, and nothing can be undone.
        let is_there = match stopped {
            Stopped::Failed(_) | Stopped::Unsuited(_) => self.write_same_again(change),
            Stopped::SourceChanged | Stopped::Overwritten => Ok(true),
        };
        let job = self.job(change, change.identity, *fsyncs, readers);
        let stopped = match is_there {
            Ok(true) => job.abandon(written, stopped),
            // Another file that has taken the name is not touched.
            Ok(false) => job.abandon(written, Stopped::SourceChanged),
            Err(error) => job.leave(&written, &stopped, &error),
        };
        *fsyncs = job.syncs.get();
        Err(stopped)
    }

    /// Opens the file for writing again; false if another file has the name now, and was opened instead.
    fn write_same_again(&mut self, change: &PlannedChange<'_>) -> Result<bool> {
        self.write_again()?;
        Ok(self.storage.meta(&self.file)?.identity.same_file(&change.identity))
    }

    /// Ends the lease, and opens the file for writing again.
    pub(super) fn write_again(&mut self) -> Result<()> {
        if !self.reads_only {
            return Ok(());
        }
        // Lets waiting writers continue. If there is no lease, the error is harmless.
        let _ = self.storage.end_lease(&self.file);
        let file = open_to_write(&self.storage, &self.held, Patience::ForSave)?;
        let named = self.storage.meta(&file)?.identity;
        let known = self.storage.meta(&self.file)?.identity;
        if !named.same_file(&known) {
            // Another file has the name. It has to be locked and written instead.
            return self.open_anew();
        }
        self.lock = Some(std::mem::replace(&mut self.file, file));
        self.reads_only = false;
        Ok(())
    }
}

/// Returns the error for a file that another program has open for writing.
fn written_now() -> Error {
    Error::new(
        Kind::Busy,
        "another program has the file open for writing: save again when it has closed the file",
    )
}
