//! Writes the new file beside the source and renames it over the source. The blocks are cloned or copied.

use std::ops::Range;

use super::{Done, NewFile, PIECE, SaveJob, Stopped, unsuited_or_failed};
use crate::format::asdf::edit::SavePlan;
use crate::format::asdf::edit::opened::lock_apart;
use crate::format::asdf::edit::plan::GRAIN;
use crate::format::asdf::edit::sidecar::{JournalPlace, Sidecars};
use crate::source::storage::Storage;

/// Bytes copied at once, a multiple of [`GRAIN`].
const COPIED_AT_ONCE: u64 = 64 << 20;

impl<S: Storage> SaveJob<'_, S> {
    /// Writes the new file and puts it in the source's place.
    pub(super) fn replace(&self, clone: bool) -> Result<Done<S>, Stopped> {
        // A rename works within one directory only.
        let sidecars = self.held.prepare(self.storage, JournalPlace::Beside).map_err(unsuited_or_failed)?;
        let file = self.create_image(&sidecars).map_err(unsuited_or_failed)?;
        match self.write_and_rename(&sidecars, file, clone) {
            Ok(file) => {
                // The new file is in place and complete, but its name may not survive a crash.
                let error = self.sync_dir(&sidecars.dir).err().map(|error| {
                    crate::Error::from(error).within("the new file is in place, but may not survive a crash")
                });
                Ok(Done::NewFile(file, error))
            }
            Err(stopped) => {
                // The save has already failed. The next recovery removes a file that stays.
                let _ = self.storage.unlink(&sidecars.dir, &sidecars.image);
                Err(stopped)
            }
        }
    }

    /// Creates the new file. A file that an earlier plan could not remove is no longer in use, and is
    /// replaced.
    pub(super) fn create_image(&self, sidecars: &Sidecars<S>) -> std::io::Result<S::File> {
        match self.storage.create(&sidecars.dir, &sidecars.image) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                self.storage.unlink(&sidecars.dir, &sidecars.image)?;
                self.storage.create(&sidecars.dir, &sidecars.image)
            }
            answer => answer,
        }
    }

    fn write_and_rename(
        &self,
        sidecars: &Sidecars<S>,
        file: S::File,
        clone: bool,
    ) -> Result<NewFile<S::File>, Stopped> {
        // The attributes are copied first. This step fails most often, and without the attributes a user
        // without read permission on the source could open the copy.
        self.storage.keep_attributes(self.file, &file).map_err(unsuited_or_failed)?;
        self.fill(&file, clone)?;
        let lock =
            lock_apart(self.storage, &sidecars.dir, &sidecars.image, &file, |file| self.storage.lock(file));
        let lock = match lock {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                return Err(Stopped::SourceChanged);
            }
            // On a file system without locks the source has none either.
            lock => lock.ok().flatten(),
        };
        self.storage.touch(&file);
        self.sync(&file)?;
        self.check_unchanged()?;
        self.check_lease()?;
        let complete = self.storage.meta(&file)?.identity;
        if self.leased && self.change.streamed {
            return self.exchange(sidecars, file, lock, complete);
        }
        let renamed = self.storage.rename(&sidecars.dir, &sidecars.image, &self.held.name);
        renamed.map_err(unsuited_or_failed)?;
        let saved = self.as_saved(&file, complete).unwrap_or(complete);
        Ok(NewFile { file, lock, saved })
    }

    /// Writes the new file's bytes.
    pub(super) fn fill(&self, file: &S::File, clone: bool) -> Result<(), Stopped> {
        let change = self.change;
        if change.keeps_anything() {
            let from = change.insert_at();
            if clone {
                // The first block's page is cloned as a whole. The part of it before the block is overwritten
                // below.
                let end = change.identity.size;
                let cloned = self.storage.clone_range(self.file, from..end, file, from + change.shift);
                cloned.map_err(|error| {
                    self.note_limit(SavePlan::Clone, &error);
                    unsuited_or_failed(error)
                })?;
            } else {
                self.copy_data(change.kept.clone(), file)?;
            }
        }
        let mut piece = vec![0; PIECE];
        for region in [0..change.head_to, change.tail_from()..change.new_size()] {
            self.write_new(region, file, &mut piece)?;
        }
        self.storage.set_len(file, change.new_size())?;
        Ok(())
    }

    fn write_new(&self, region: Range<u64>, file: &S::File, piece: &mut [u8]) -> Result<(), Stopped> {
        let mut at = region.start;
        while at < region.end {
            let len = piece.len().min(usize::try_from(region.end - at).unwrap_or(usize::MAX));
            let len = self.change.new_bytes(at, &mut piece[..len]);
            if len == 0 {
                break;
            }
            self.storage.write_at(file, at, &piece[..len])?;
            at += len as u64;
        }
        Ok(())
    }

    /// Copies the data between holes.
    fn copy_data(&self, range: Range<u64>, file: &S::File) -> Result<(), Stopped> {
        let mut at = range.start;
        while at < range.end {
            let Some(data) = self.storage.next_data(self.file, at..range.end)? else { break };
            // Whole pages can be shared by file systems that support it.
            let start = (data.start / GRAIN * GRAIN).max(at);
            // Between the pieces the lease is checked: a program may be waiting to write to the stream.
            let end = data.end.min(start.saturating_add(COPIED_AT_ONCE));
            self.check_lease()?;
            self.storage.copy_range(self.file, start..end, file, start + self.change.shift)?;
            at = end;
        }
        Ok(())
    }
}
