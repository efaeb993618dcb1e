//! Checksum checks of a mounted file's blocks, for its readers.

use std::sync::Arc;

use asdf_access::options::Verify;
use asdf_file::container::Verified;
use seekable::error::{Error, Result};

use crate::mounted::file::MountedFile;
use crate::mounted::generation::{HeldGeneration, Parsed};

/// Maximum size of a block, in bytes, that is checked after another program changed the file. Checking a block of this
/// size takes half a second.
const CHECKED: u64 = 256 << 20;

impl MountedFile {
    /// True if a read of content made of these blocks must wait until all of them are checked.
    pub(crate) fn is_held_up(&self, held: &HeldGeneration, blocks: &[usize]) -> bool {
        self.verifier().when == Verify::Always && blocks.iter().any(|n| held.checks.known(*n).is_none())
    }

    /// True if any of these blocks is known to have a checksum mismatch.
    pub(crate) fn is_wrong(&self, held: &HeldGeneration, blocks: &[usize]) -> bool {
        let is_wrong = |n: &usize| held.checks.known(*n) == Some(Verified::Mismatch);
        self.verifier().when != Verify::Off && blocks.iter().any(is_wrong)
    }

    /// Admits a read of content made of these blocks, or returns the error with which it fails.
    pub(crate) fn admit(self: &Arc<Self>, held: &HeldGeneration, blocks: &[usize]) -> Result<()> {
        blocks.iter().try_for_each(|n| self.admit_block(held, *n))
    }

    fn admit_block(self: &Arc<Self>, held: &HeldGeneration, n: usize) -> Result<()> {
        let found = match self.verifier().when {
            Verify::Off => return Ok(()),
            Verify::Always => verify_of(held, n)?,
            Verify::FirstRead => match held.checks.known(n) {
                Some(found) => found,
                None => {
                    self.begin(held, n);
                    return Ok(());
                }
            },
        };
        match found {
            Verified::Mismatch => Err(wrong(held, n)),
            Verified::Stored | Verified::Decoded | Verified::None => Ok(()),
        }
    }

    /// Starts a check of block `n` in the background, unless one was started before.
    fn begin(self: &Arc<Self>, held: &HeldGeneration, n: usize) {
        let (_, is_first) = held.checks.of(n);
        if !is_first {
            return;
        }
        let mounted = self.clone();
        let held = held.clone();
        self.verifier().workers.run(move || match verify_of(&held, n) {
            Ok(Verified::Mismatch) => {
                mounted.report(&wrong(&held, n));
                mounted.report_wrong(n);
            }
            Err(error) => {
                mounted.report(&error);
            }
            Ok(_) => {}
        });
    }

    /// Checks block `n`, once for each generation. Reads all of the block.
    pub(crate) fn verify(&self, n: usize) -> Result<Verified> {
        self.revalidate();
        verify_of(&self.opened()?, n).inspect_err(|error| {
            self.report(error);
        })
    }
}

/// True if the checksums of these blocks prove their bytes after another program changed the file. Reads all
/// of the blocks.
pub(crate) fn are_proven(held: &HeldGeneration, blocks: &[usize]) -> bool {
    let size = |n: &usize| held.container()?.block(*n).map(|block| block.facts.data_size);
    let proves = |n: &usize| {
        size(n).is_ok_and(|size| size <= CHECKED)
            && matches!(verify_of(held, *n), Ok(Verified::Stored | Verified::Decoded))
    };
    !blocks.is_empty() && blocks.iter().all(proves)
}

fn verify_of(held: &HeldGeneration, n: usize) -> Result<Verified> {
    let (check, _) = held.checks.of(n);
    let container = held.container()?;
    let found = check.get_or_init(|| container.verify(n)).clone();
    if found.is_err() {
        // The next attempt may succeed, for example if a network file system was unavailable.
        held.checks.forget(n, &check);
    }
    found
}

fn wrong(generation: &Parsed, n: usize) -> Error {
    let Ok(container) = &generation.container else { return Error::damaged("is wrong").in_block(n as u64) };
    Error::wrong_checksum(container.mismatch()).in_block(n as u64).of(container.source().path())
}
