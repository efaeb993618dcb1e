//! Moves the blocks of a file whose last block is streamed, to which another program may append.
//!
//! The job has a read lease on the source. The system grants it only while no program has the file open for
//! writing. A program that opens the file for writing waits until the lease ends. The new file takes the
//! source's name before that, so a waiting program opens the complete new file.
//!
//! Inserting a range into the same file needs a writing descriptor, which can't exist beside the lease. A
//! program could get the offset of the file's end before the insertion, and write at that offset after the
//! insertion, over bytes that have moved there. A stream therefore gets no plan that changes the file itself.
//!
//! A program may have looked up the old file without opening it yet. It would then write to a file without a
//! name. To prevent this, the two files swap names, and both are leased for a moment. If a program opens the
//! old file, the names are swapped back.

use std::time::Duration;

use seekable::error::{Error, Kind};
use seekable::source::Identity;
use seekable::source::storage::Storage;

use super::super::image::Image;
use super::super::opened::lease_patiently;
use super::super::plan::PlannedChange;
use super::{NewFile, SaveJob, Stopped, cannot, unsuited, unsuited_or_failed};

/// The number of checks for a program that still opens the old file, and the pause between them.
const LOOKS: u32 = 100;
const LOOK_PAUSE: Duration = Duration::from_millis(2);

impl<S: Storage> SaveJob<'_, S> {
    /// Fails if the lease is broken: a program is waiting to write to the file.
    pub(super) fn check_lease(&self) -> Result<(), Stopped> {
        if !self.leased || self.storage.has_lease(self.file) {
            Ok(())
        } else if self.change.streamed {
            Err(Stopped::Failed(written_by_another(self.change)))
        } else {
            Err(Stopped::SourceChanged)
        }
    }

    /// Puts the new file in the source's place unless a program opens the old file for writing.
    pub(super) fn exchange(
        &self,
        image: &Image<S>,
        file: S::File,
        lock: Option<S::File>,
        complete: Identity,
    ) -> Result<NewFile<S::File>, Stopped> {
        let Some(lock) = lock else {
            return Err(unsuited("the new file can't be locked"));
        };
        // The kernel grants no lease while the file is open for writing.
        drop(file);
        lease_patiently(self.storage, &lock).map_err(unsuited_or_failed)?;
        // Bytes that were appended between two leases are not in the new file.
        if self.storage.meta(self.file)?.identity != self.source.get() {
            return Err(Stopped::SourceChanged);
        }
        self.check_lease()?;
        self.swap(image).map_err(|error| {
            if cannot(&error) {
                Stopped::Failed(refusal(
                    self.change,
                    "this file system can't swap the names of two files, so that a program which opens it \
                 meanwhile might lose what it writes",
                    "save in a copy of the file on another disk",
                ))
            } else {
                Stopped::Failed(error.into())
            }
        })?;
        if self.is_awaited(&lock) && self.swap(image).is_ok() {
            // The waiting program continues now. After a crash the names must not be found swapped.
            self.sync_dir(&image.place.dir)?;
            return Err(Stopped::Failed(written_by_another(self.change)));
        }
        let saved = self.as_saved(&lock, complete).unwrap_or(complete);
        self.storage.end_lease(&lock)?;
        self.release_exchanged(image)?;
        Ok(NewFile { file: lock, lock: None, saved })
    }

    /// Swaps the names of the source and the new file.
    fn swap(&self, image: &Image<S>) -> std::io::Result<()> {
        self.storage.exchange(&image.place.dir, &image.name, &self.held.name)
    }

    /// True if a program waits for the old file, which it looked up before the names were swapped.
    fn is_awaited(&self, new: &S::File) -> bool {
        for _ in 0..LOOKS {
            if !self.storage.has_lease(self.file) {
                return true;
            }
            // The program that writes the stream has opened the new file.
            if !self.storage.has_lease(new) {
                return false;
            }
            self.storage.wait(LOOK_PAUSE);
        }
        false
    }
}

/// Returns the error for a stream that can't be moved because another program has it open for writing.
pub(crate) fn written_by_another(change: &PlannedChange<'_>) -> Error {
    refusal(change, "another program has it open for writing", "save when that program has closed the file")
}

/// Returns the error for a stream that can't be moved because of its hard links: a new file would have only
/// one name.
pub(crate) fn linked(change: &PlannedChange<'_>) -> Error {
    refusal(
        change,
        "a new file has to take its place, and the file has other names (hard links)",
        "remove the other names",
    )
}

/// Converts an error of taking a lease.
pub(crate) fn not_leased(change: &PlannedChange<'_>, error: &std::io::Error) -> Error {
    match error.raw_os_error() {
        _ if error.kind() == std::io::ErrorKind::WouldBlock => written_by_another(change),
        Some(libc::EACCES | libc::EPERM) => refusal(
            change,
            "another program may be writing to its end, which only the file's owner can find out",
            "save as the owner",
        ),
        _ => refusal(
            change,
            "another program may be writing to its end, which can't be found out on this file system",
            "save in a copy of the file on a disk of this machine",
        ),
    }
}

fn refusal(change: &PlannedChange<'_>, why: &str, to_do: &str) -> Error {
    let more = (change.text.len() as u64).saturating_sub(change.kept.start);
    Error::new(
        Kind::TooLarge,
        format!(
            "the text is {more} bytes longer than the space before the first block, and the last block is \
             streamed: {why}. Shorten the text, or {to_do}"
        ),
    )
}
