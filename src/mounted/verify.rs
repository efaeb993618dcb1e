//! Checksum checks of blocks, for their readers.
//!
//! The standard leaves it to readers whether they check checksums. The default is not to check: a core hashes
//! some 500 MB/s, which is a fraction of the speed of reading, and most of a large block is never read. With
//! `first-read` a block is checked in the background from the first read on. Once a mismatch is found, reads
//! fail, and the kernel drops the cached bytes of the block. With `always` the first reader waits until the
//! whole block is checked. Blocks without a checksum are read as usual.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use asdf_access::options::Verify;
use asdf_file::container::Verified;
use seekable::error::Result;
use seekable::sync::locked;
use seekable::workers::Workers;

/// The threads that check blocks in the background.
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

/// The results of checking the blocks of a generation.
#[derive(Debug, Default)]
pub(crate) struct Checks(Mutex<HashMap<usize, Check>>);

/// A check of a block, running or done.
pub(crate) type Check = Arc<OnceLock<Result<Verified>>>;

impl Checks {
    /// Returns the result of checking block `n`, if the check is done.
    pub(crate) fn known(&self, n: usize) -> Option<Verified> {
        locked(&self.0).get(&n)?.get()?.as_ref().ok().copied()
    }

    /// Returns the check of block `n`, and true if this call created it.
    pub(crate) fn of(&self, n: usize) -> (Check, bool) {
        let mut checks = locked(&self.0);
        let is_first = !checks.contains_key(&n);
        (checks.entry(n).or_default().clone(), is_first)
    }

    /// Removes a check of block `n`, so that the next request repeats it.
    pub(crate) fn forget(&self, n: usize, check: &Check) {
        let mut checks = locked(&self.0);
        if checks.get(&n).is_some_and(|noted| Arc::ptr_eq(noted, check)) {
            checks.remove(&n);
        }
    }
}
