//! Moves the blocks of a file whose last block is streamed: another program may come to write to its end.
//!
//! The job has a read lease on the source. The system grants it only while no program has the file open
//! for writing, and one that opens it for writing waits until the lease is given up. A new file takes the place
//! while the lease is there, so that a program that waits gets the file that has the name, whole.
//!
//! A range that is inserted into the same file takes a descriptor that writes, which can't be had beside the
//! lease. A program could ask for the end of the file before the insertion, and write there after it: over what
//! has moved there. So a stream gets no plan that changes the file itself.
//!
//! A program may have looked up the old file and not have opened it yet. It would write to a file without a name.
//! So the two swap their names, and both have leases for a moment: if a program comes for the old file, the names
//! are swapped back.

use std::time::Duration;

use super::{Job, NewFile, Stopped, cannot, unsuited, unsuited_or_failed};
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
        self.storage.exchange(&place.image, self.path).map_err(|error| match cannot(&error) {
            true => Stopped::Failed(refusal(
                self.change,
                "this file system can't swap the names of two files, so that a program which opens it \
                 meanwhile might lose what it writes",
                "save in a copy of the file on another disk",
            )),
            false => Stopped::Failed(error.into()),
        })?;
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

/// Why the blocks of a stream can't be moved: the file has several names, and a new file would have one.
pub(crate) fn linked(change: &Change<'_>) -> Error {
    refusal(
        change,
        "a new file has to take its place, and the file has other names (hard links)",
        "remove the other names",
    )
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
