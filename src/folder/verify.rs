//! The MD5 of blocks, checked for who reads them.
//!
//! The standard lets a reader check the checksum of a block or not. It is not done unless it is asked for:
//! a single core hashes some 500 MB/s, a fraction of what blocks are read with, and most of a large block
//! is never read at all. With `first-read` a block is checked beside its readers, from the first read on;
//! once it is found wrong, reads are errors, and the kernel is told to forget what it has of it. With
//! `always` the first reader waits until all of the block was found right. Blocks without a checksum are
//! read as ever.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use crate::cache::Workers;
use crate::error::{self, Error, Result};
use crate::folder::mounted_file::MountedFile;
use crate::folder::open_files::{Revision, Snapshot, no_block};
use crate::format::Verified;
use crate::sync::locked;

/// Attempts at checking a block that saves move.
const ATTEMPTS: usize = 100;

/// When the checksum of a block is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// When someone asks for it, and for nobody else.
    #[default]
    Off,
    /// From the first read of the block on, beside its readers.
    FirstRead,
    /// Before a byte of the block is given.
    Always,
}

/// Checks blocks in the background.
#[derive(Debug)]
pub(crate) struct Verifier {
    when: Verify,
    workers: Workers,
}

impl Verifier {
    pub(crate) fn new(when: Verify) -> Self {
        Self { when, workers: Workers::new("verify", 1) }
    }
}

/// What checking the blocks of a file found, as of the revision named.
#[derive(Debug, Default)]
pub(crate) struct Checks(Mutex<(Revision, HashMap<u32, Check>)>);

/// A check of a block that someone makes or has made.
type Check = Arc<OnceLock<Result<Verified>>>;

impl Checks {
    /// What checking block `n` found, if anyone did.
    pub(crate) fn known(&self, revision: Revision, n: u32) -> Option<Verified> {
        let checks = locked(&self.0);
        let check = checks.1.get(&n).filter(|_| checks.0 == revision)?;
        check.get()?.as_ref().ok().copied()
    }

    /// The check of block `n`, and whether nobody has begun it.
    fn of(&self, revision: Revision, n: u32) -> (Check, bool) {
        let mut checks = locked(&self.0);
        if checks.0 != revision {
            *checks = (revision, HashMap::new());
        }
        let is_first = !checks.1.contains_key(&n);
        (checks.1.entry(n).or_default().clone(), is_first)
    }

    /// Has block `n` checked anew when it is asked for next, if this is its check still.
    fn forget(&self, n: u32, check: &Check) {
        let mut checks = locked(&self.0);
        if checks.1.get(&n).is_some_and(|noted| Arc::ptr_eq(noted, check)) {
            checks.1.remove(&n);
        }
    }
}

impl MountedFile {
    /// Whether a read of block `n` is to wait until all of it was checked.
    pub(crate) fn is_held_up(&self, opened: &Snapshot, n: u32) -> bool {
        self.verifier().when == Verify::Always && self.checks.known(opened.revision(), n).is_none()
    }

    /// Whether block `n` is known to be other than its checksum says.
    pub(crate) fn is_wrong(&self, opened: &Snapshot, n: u32) -> bool {
        self.verifier().when != Verify::Off
            && self.checks.known(opened.revision(), n) == Some(Verified::Mismatch)
    }

    /// Lets a read of block `n` pass, or says why not; for who holds the source still.
    pub(crate) fn admit(self: &Arc<Self>, opened: &Arc<Snapshot>, n: u32) -> Result<()> {
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
    fn begin(self: &Arc<Self>, opened: &Arc<Snapshot>, n: u32) {
        let (_, is_first) = self.checks.of(opened.revision(), n);
        if !is_first {
            return;
        }
        let (mounted, opened) = (self.clone(), opened.clone());
        self.verifier().workers.run(move || {
            if let Ok(Verified::Mismatch) = mounted.verify(n) {
                mounted.trouble(&wrong(&opened, n));
                mounted.void(n);
            }
        });
    }

    /// Checks block `n`, once in a generation; reads all of it.
    pub(crate) fn verify(&self, n: u32) -> Result<Verified> {
        for _ in 0..ATTEMPTS {
            self.look();
            let opened = self.opened()?;
            let found = self.verify_of(&opened, n);
            // Waits for a save that moves the block just now; nobody is to wait for a check.
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

    /// The same of what was opened, for who holds it still.
    fn verify_of(&self, opened: &Snapshot, n: u32) -> Result<Verified> {
        let index = usize::try_from(n).map_err(|_| no_block(n))?;
        let (check, _) = self.checks.of(opened.revision(), n);
        let container = opened.container()?;
        let found = check.get_or_init(|| container.verify(index)).clone();
        if found.is_err() {
            // It may go better next time: a network file system was away, say.
            self.checks.forget(n, &check);
        }
        found
    }

    /// Has the kernel forget what it has of block `n`.
    pub(crate) fn void(&self, n: u32) {
        self.report_wrong(n);
    }
}

fn wrong(opened: &Snapshot, n: u32) -> Error {
    let error = Error::damaged(format!("block {n}: its MD5 fits neither the stored nor the decoded data"));
    match &opened.container {
        Ok(container) => error.of(container.source().path()),
        Err(_) => error,
    }
}
