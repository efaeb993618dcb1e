//! Moves the blocks of a file whose last block is streamed: another program may come to write to its end.
//!
//! The job has a read lease on the source. The system grants it only while no program has the file open
//! for writing, and one that opens it for writing waits until the lease is given up. So nothing is lost if
//! a program that waits gets the file that has the name, whole:
//!
//! - A range is inserted into the same file. That takes a descriptor that writes, which can't be had beside
//!   the lease: it is given up just before. What a program appends then lands behind the stream's end,
//!   before or after the insertion. (One that asked for the end just then, and writes there later, does not
//!   append.)
//! - Where a new file takes the place, a program may have looked up the old one and not have opened it yet.
//!   It would write to a file without a name. So the two swap their names, and both have leases for a
//!   moment: if a program comes for the old file, the names are swapped back.

use std::time::Duration;

use super::{Job, NewFile, Stopped, unsuited, unsuited_or_failed};
use crate::error::{Error, Kind};
use crate::format::asdf::edit::opened::lease_patiently;
use crate::format::asdf::edit::plan::Change;
use crate::format::asdf::edit::sidecar::SidecarPaths;
use crate::source::storage::Storage;

/// How often, after which pauses, it is seen whether a program still comes for the old file.
const LOOKS: u32 = 100;
const LOOK_PAUSE: Duration = Duration::from_millis(2);

impl<S: Storage> Job<'_, S> {
    /// Stops if a program waits to write to the stream.
    pub(super) fn check_lease(&self) -> Result<(), Stopped> {
        match self.leased && !self.storage.has_lease(self.file) {
            true => Err(Stopped::Failed(written_by_another(self.change))),
            false => Ok(()),
        }
    }

    /// Has the lease again that an earlier plan has given up.
    pub(super) fn lease_again(&self) -> Result<(), Stopped> {
        if self.leased && !self.storage.has_lease(self.file) {
            let again = lease_patiently(self.storage, self.file);
            again.map_err(|error| Stopped::Failed(not_leased(self.change, &error)))?;
        }
        Ok(())
    }

    /// Gives the lease up for a descriptor that writes; `None` without a lease: the source is one then.
    pub(super) fn open_to_write(&self) -> Result<Option<S::File>, Stopped> {
        if !self.leased {
            return Ok(None);
        }
        self.check_lease()?;
        self.storage.end_lease(self.file)?;
        let file = self.storage.open(self.path, true)?;
        let identity = self.storage.meta(&file)?.identity;
        match identity.same_file(&self.change.identity) {
            true => Ok(Some(file)),
            false => Err(Stopped::SourceChanged),
        }
    }

    /// Puts the new file in the source's place unless a program comes to write to the old one.
    pub(super) fn exchange(
        &self,
        place: &SidecarPaths,
        file: S::File,
        lock: Option<S::File>,
    ) -> Result<NewFile<S::File>, Stopped> {
        let Some(lock) = lock else {
            return Err(unsuited("the new file can't be locked"));
        };
        // No lease is granted while it is open.
        drop(file);
        lease_patiently(self.storage, &lock).map_err(unsuited_or_failed)?;
        // What was appended between two leases is not in the new file.
        if self.storage.meta(self.file)?.identity != self.source.get() {
            return Err(Stopped::SourceChanged);
        }
        self.check_lease()?;
        self.storage.exchange(&place.image, self.path).map_err(unsuited_or_failed)?;
        if self.is_awaited(&lock) && self.storage.exchange(&place.image, self.path).is_ok() {
            // After a crash, when the program has gone on, the names must not be found swapped.
            self.sync_dir(&place.dir)?;
            return Err(Stopped::Failed(written_by_another(self.change)));
        }
        self.storage.end_lease(&lock)?;
        // It is the old file by now; what stays behind, the next recovery removes.
        let _ = self.storage.unlink(&place.image);
        Ok(NewFile { file: lock, lock: None })
    }

    /// Whether a program waits for the old file, which it looked up before the names were swapped.
    fn is_awaited(&self, new: &S::File) -> bool {
        for _ in 0..LOOKS {
            if !self.storage.has_lease(self.file) {
                return true;
            }
            // The program that writes the stream has found the new file.
            if !self.storage.has_lease(new) {
                return false;
            }
            self.storage.wait(LOOK_PAUSE);
        }
        false
    }
}

/// Why the blocks of a stream can't be moved: a program writes to it.
pub(crate) fn written_by_another(change: &Change<'_>) -> Error {
    refusal(change, "another program has it open for writing", "save when that program has closed the file")
}

/// Why no lease was granted.
pub(crate) fn not_leased(change: &Change<'_>, error: &std::io::Error) -> Error {
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

fn refusal(change: &Change<'_>, why: &str, to_do: &str) -> Error {
    let more = (change.text.len() as u64).saturating_sub(change.kept.start);
    Error::new(
        Kind::TooLarge,
        format!(
            "the text is {more} bytes longer than the room before the first block, and the last block is \
             streamed: {why}. Shorten the text, or {to_do}"
        ),
    )
}
