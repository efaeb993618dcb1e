//! Checks the checksums of blocks for their readers.
//!
//! The standard leaves it to a reader whether it checks them. The default is not to: a core hashes some 500
//! MB/s, which is a fraction of the speed of reading, and most of a large block is never read. With
//! `first-read` a block is checked beside its readers, from the first read on. Once it is found wrong, reads
//! fail, and the kernel drops what it has of the block. With `always` the first reader waits until all of the
//! block is found right. Blocks without a checksum are read as usual.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use crate::error::Result;
use crate::format::Verified;
use crate::sync::locked;
use crate::workers::Workers;

/// When the checksum of a block is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Only on request: `user.asdf.verified`.
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
    pub(crate) when: Verify,
    pub(crate) workers: Workers,
}

impl Verifier {
    pub(crate) fn new(when: Verify) -> Self {
        Self { when, workers: Workers::new("verify", 1) }
    }
}

/// What checking the blocks of a generation found.
#[derive(Debug, Default)]
pub(crate) struct Checks(Mutex<HashMap<usize, Check>>);

/// A check of a block, running or done.
pub(crate) type Check = Arc<OnceLock<Result<Verified>>>;

impl Checks {
    /// What checking block `n` found, if anyone did.
    pub(crate) fn known(&self, n: usize) -> Option<Verified> {
        locked(&self.0).get(&n)?.get()?.as_ref().ok().copied()
    }

    /// The check of block `n`, and whether it has not begun.
    pub(crate) fn of(&self, n: usize) -> (Check, bool) {
        let mut checks = locked(&self.0);
        let is_first = !checks.contains_key(&n);
        (checks.entry(n).or_default().clone(), is_first)
    }

    /// Has block `n` checked anew when it is asked for next, if this is its check still.
    pub(crate) fn forget(&self, n: usize, check: &Check) {
        let mut checks = locked(&self.0);
        if checks.get(&n).is_some_and(|noted| Arc::ptr_eq(noted, check)) {
            checks.remove(&n);
        }
    }
}
