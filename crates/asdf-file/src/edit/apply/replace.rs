//! Writes the new file beside the source and gives it the source's name. The blocks are cloned or copied.
//!
//! The file that loses the name keeps another one until it is known to be the one that was copied: another program may
//! have put its own file there since the last look, also one that shares no locks with this one.

use std::ffi::OsStr;
use std::ops::Range;

use seekable::source::Identity;
use seekable::source::storage::Storage;

use super::super::SavePlan;
use super::super::image::{Image, name_of_replaced};
use super::super::journal::may_begin;
use super::super::opened::lock_apart;
use super::super::plan::GRAIN;
use super::super::sidecar::{JournalPlace, Sidecars};
use super::{Done, NewFile, PIECE, SaveJob, Stopped, cannot, unsuited_or_failed};

/// Bytes copied at once, a multiple of [`GRAIN`].
const COPIED_AT_ONCE: u64 = 64 << 20;
/// How many times names are swapped back while other programs put files there.
const SWAPS: usize = 8;

impl<S: Storage> SaveJob<'_, S> {
    /// Writes the new file and puts it in the source's place.
    pub(super) fn replace(&self, clone: bool) -> Result<Done<S>, Stopped> {
        // A rename works within one directory only.
        let sidecars = self.held.prepare(self.storage, JournalPlace::Beside).map_err(unsuited_or_failed)?;
        let (mut image, file) = Image::create(self.storage, sidecars).map_err(unsuited_or_failed)?;
        match self.write_and_rename(&mut image, file, clone) {
            Ok(file) => {
                // The new file is in place and complete, but its name may not survive a crash.
                let error = self.sync_dir(&image.place.dir).err().map(|error| {
                    seekable::Error::from(error)
                        .within("the new file is in place, but may not survive a crash")
                });
                Ok(Done::NewFile(file, error))
            }
            Err(stopped) => {
                self.remove_image(&image);
                Err(stopped)
            }
        }
    }

    fn write_and_rename(
        &self,
        image: &mut Image<S>,
        file: S::File,
        clone: bool,
    ) -> Result<NewFile<S::File>, Stopped> {
        // The attributes are copied first. This step fails most often, and without the attributes a user
        // without read permission on the source could open the copy.
        self.storage.keep_attributes(self.file, &file).map_err(unsuited_or_failed)?;
        self.fill(&file, clone)?;
        let lock =
            lock_apart(self.storage, &image.place.dir, &image.name, &file, |file| self.storage.lock(file));
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
        self.check_no_journal(&image.place)?;
        self.check_lease()?;
        let complete = self.storage.meta(&file)?.identity;
        // Another file that has the name by now must not get the source's name.
        if !image.is_named(self.storage)? {
            return Err(Stopped::SourceChanged);
        }
        image.complete(self.storage)?;
        if self.leased && self.change.streamed {
            return self.exchange(image, file, lock, complete);
        }
        self.put_in_place(image)?;
        let saved = self.as_saved(&file, complete).unwrap_or(complete);
        Ok(NewFile { file, lock, saved })
    }

    /// Fails if a journal is there: a program with which this one shares no locks is changing the source.
    fn check_no_journal(&self, sidecars: &Sidecars<S>) -> Result<(), Stopped> {
        if may_begin(self.storage, &sidecars.dir, &sidecars.journal)? {
            return Err(Stopped::SourceChanged);
        }
        Ok(())
    }

    /// Gives the image the source's name, and removes the source.
    fn put_in_place(&self, image: &Image<S>) -> Result<(), Stopped> {
        // On a server, an inode number does not tell which of the two files has a name after a swap.
        if self.storage.is_remote(self.file) {
            return self.rename_in_place(image);
        }
        match self.storage.exchange(&image.place.dir, &image.name, &self.held.name) {
            Ok(()) => self.release_exchanged(image),
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported || cannot(&error) => {
                self.rename_in_place(image)
            }
            Err(error) => Err(unsuited_or_failed(error)),
        }
    }

    /// Gives the image the source's name where names can't be swapped. A link holds the source meanwhile.
    fn rename_in_place(&self, image: &Image<S>) -> Result<(), Stopped> {
        let dir = &image.place.dir;
        let second = name_of_replaced(&image.place.stem);
        // Not all file systems have links, either.
        let is_linked = self.storage.link(dir, &self.held.name, &second).is_ok();
        if is_linked && !self.is_source(&second) {
            self.storage.unlink(dir, &second)?;
            return Err(Stopped::SourceChanged);
        }
        let renamed = self.storage.rename(dir, &image.name, &self.held.name).map_err(unsuited_or_failed);
        if is_linked {
            self.remove_name(&image.place, &second);
        }
        renamed
    }

    /// Removes the source, which has the image's name now. Another file that is there gets the source's name back.
    pub(super) fn release_exchanged(&self, image: &Image<S>) -> Result<(), Stopped> {
        if self.is_source(&image.name) {
            self.remove_name(&image.place, &image.name);
            return Ok(());
        }
        // The file that was there may have been replaced once more meanwhile: the last one keeps the name.
        for _ in 0..SWAPS {
            self.storage.exchange(&image.place.dir, &image.name, &self.held.name)?;
            if image.is_named(self.storage)? {
                break;
            }
        }
        Err(Stopped::SourceChanged)
    }

    /// True if the file of this name is the source, unchanged since the last look. Links and renames change its ctime.
    fn is_source(&self, name: &OsStr) -> bool {
        let source = self.source.get();
        if self.storage.is_remote(self.file) {
            // Each name may have an inode number of its own.
            return self.remote_identity(name).is_ok_and(|now| now.size == source.size);
        }
        let named = self.storage.meta_at(&self.held.dir, name);
        named.is_ok_and(|named| {
            let now = Identity { ctime: source.ctime, ..named.identity };
            now == source || self.change.streamed && now.same_file(&source) && now.size >= source.size
        })
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
