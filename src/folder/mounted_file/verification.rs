//! Checking the blocks of a mounted file for its readers.

use std::sync::Arc;

use crate::error::{self, Error, Result};
use crate::folder::mounted_file::MountedFile;
use crate::folder::snapshot::Snapshot;
use crate::folder::verify::Verify;
use crate::format::Verified;

/// Attempts at checking a block that saves move.
const ATTEMPTS: usize = 100;

impl MountedFile {
    /// Whether a read of what is made of these blocks is to wait until all of them were checked.
    pub(crate) fn is_held_up(&self, opened: &Snapshot, blocks: &[usize]) -> bool {
        let is_unknown = |n: &usize| self.checks.known(opened.revision(), *n).is_none();
        self.verifier().when == Verify::Always && blocks.iter().any(is_unknown)
    }

    /// Whether any of these blocks is known to be other than its checksum says.
    pub(crate) fn is_wrong(&self, opened: &Snapshot, blocks: &[usize]) -> bool {
        let is_wrong = |n: &usize| self.checks.known(opened.revision(), *n) == Some(Verified::Mismatch);
        self.verifier().when != Verify::Off && blocks.iter().any(is_wrong)
    }

    /// Lets a read of what is made of these blocks pass, or says why not. The caller keeps the source where it is
    /// ([`hold_still`](Self::hold_still)).
    pub(crate) fn admit(self: &Arc<Self>, opened: &Arc<Snapshot>, blocks: &[usize]) -> Result<()> {
        blocks.iter().try_for_each(|n| self.admit_block(opened, *n))
    }

    fn admit_block(self: &Arc<Self>, opened: &Arc<Snapshot>, n: usize) -> Result<()> {
        let found = match self.verifier().when {
            Verify::Off => return Ok(()),
            Verify::Always => self.verify_of(opened, n)?,
            Verify::FirstRead => match self.checks.known(opened.revision(), n) {
                Some(found) => found,
                None => {
                    self.begin(opened, n);
                    return Ok(());
                }
            },
        };
        match found {
            Verified::Mismatch => Err(wrong(opened, n)),
            Verified::Stored | Verified::Decoded | Verified::None => Ok(()),
        }
    }

    /// Has block `n` checked in the background, unless that was begun already.
    fn begin(self: &Arc<Self>, opened: &Arc<Snapshot>, n: usize) {
        let (_, is_first) = self.checks.of(opened.revision(), n);
        if !is_first {
            return;
        }
        let (mounted, opened) = (self.clone(), opened.clone());
        self.verifier().workers.run(move || {
            if let Ok(Verified::Mismatch) = mounted.verify(n) {
                mounted.trouble(&wrong(&opened, n));
                mounted.report_wrong(n);
            }
        });
    }

    /// Checks block `n`, once in a generation; reads all of it.
    pub(crate) fn verify(&self, n: usize) -> Result<Verified> {
        for _ in 0..ATTEMPTS {
            self.look();
            let opened = self.opened()?;
            let found = self.verify_of(&opened, n);
            // Waits for a save that moves the block just now; a save never waits for a check.
            drop(self.hold_still());
            if self.revision() != opened.revision() {
                continue;
            }
            if let Err(error) = &found {
                self.trouble(error);
            }
            return found;
        }
        Err(Error::new(error::Kind::Changed, "the file is saved again and again: ask later"))
    }

    /// The same of a snapshot; the caller keeps the source where it is.
    fn verify_of(&self, opened: &Snapshot, n: usize) -> Result<Verified> {
        let (check, _) = self.checks.of(opened.revision(), n);
        let container = opened.container()?;
        let found = check.get_or_init(|| container.verify(n)).clone();
        if found.is_err() {
            // It may go better next time: a network file system was away, say.
            self.checks.forget(n, &check);
        }
        found
    }
}

fn wrong(opened: &Snapshot, n: usize) -> Error {
    let Ok(container) = &opened.container else { return Error::damaged("is wrong").in_block(n as u64) };
    Error::wrong_checksum(container.mismatch()).in_block(n as u64).of(container.source().path())
}
