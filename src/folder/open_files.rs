//! Files that were parsed, and which of them are kept open.
//!
//! What was parsed ([`Snapshot`]) is held by the handles that read it and, on the [`OpenFiles`], by a bounded
//! list of those used last.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use lru::LruCache;

use crate::error::Result;
use crate::folder::snapshot::Snapshot;
use crate::folder::verify::{Verifier, Verify};
use crate::format::Container;
use crate::format::recovery::RecoveryPolicy;
use crate::source::Source;
use crate::sync::locked;
use crate::view::ShownViews;

/// Opens a source in whatever format it is.
pub(crate) type Opener = Arc<dyn Fn(Arc<dyn Source>) -> Result<Arc<dyn Container>> + Send + Sync>;

/// Told of a file, by its serial number, and of its block that is found wrong.
pub(crate) type OnWrong = Box<dyn Fn(u64, usize) + Send + Sync>;

/// Opens files, and keeps those used last open.
pub(crate) struct OpenFiles {
    pub(crate) opener: Opener,
    /// Looks after what a crash left halfway, before it is read.
    pub(crate) recovery: RecoveryPolicy,
    kept: Mutex<LruCache<u64, Arc<Snapshot>>>,
    pub(crate) verifier: Verifier,
    /// Told of a file, by its serial number, and of its block that is found wrong.
    pub(crate) on_wrong: OnWrong,
    /// Which views the folders have.
    pub(crate) shown: Arc<ShownViews>,
}

impl std::fmt::Debug for OpenFiles {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("OpenFiles").field("kept", &locked(&self.kept).len()).finish_non_exhaustive()
    }
}

impl OpenFiles {
    pub(crate) fn new(
        opener: Opener,
        bound: NonZeroUsize,
        recovery: RecoveryPolicy,
        verify: Verify,
        on_wrong: OnWrong,
        shown: ShownViews,
    ) -> Self {
        Self {
            opener,
            recovery,
            kept: Mutex::new(LruCache::new(bound)),
            verifier: Verifier::new(verify),
            on_wrong,
            shown: Arc::new(shown),
        }
    }

    pub(crate) fn keep(&self, serial: u64, opened: &Arc<Snapshot>) {
        let dropped = locked(&self.kept).push(serial, opened.clone());
        drop(dropped); // closes a file, which is done after the lock was let go
    }

    pub(crate) fn let_go(&self, serial: u64) {
        let dropped = locked(&self.kept).pop(&serial);
        drop(dropped);
    }

    #[cfg(test)]
    pub(crate) fn clear(&self) {
        locked(&self.kept).clear();
    }
}
