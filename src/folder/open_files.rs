//! Files that were parsed, and which of them are kept open.
//!
//! A [`Generation`] is held by the handles that read it and, on the [`OpenFiles`], by a bounded list of those used last.
//! One that the kernel was told of a moment ago stays a little longer: a program may be about to open it.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;

use crate::error::Result;
use crate::folder::generation::Generation;
use crate::folder::verify::{Verifier, Verify};
use crate::format::Container;
use crate::format::recovery::RecoveryPolicy;
use crate::source::Source;
use crate::sync::{Rank, RankedMutex, locked};
use crate::view::ShownViews;

/// Replaced generations that wait for programs.
const REPLACED: usize = 256;

/// Opens a source in whatever format it is.
pub(crate) type Opener = Arc<dyn Fn(Arc<dyn Source>) -> Result<Arc<dyn Container>> + Send + Sync>;

/// Told of a file, by its serial number, and of its block that is found wrong.
pub(crate) type OnWrong = Box<dyn Fn(u64, usize) + Send + Sync>;

/// Opens files, and keeps those used last open.
pub(crate) struct OpenFiles {
    pub(crate) opener: Opener,
    /// Looks after what a crash left halfway, before it is read.
    pub(crate) recovery: RecoveryPolicy,
    kept: RankedMutex<LruCache<u64, Arc<Generation>>>,
    /// Generations that a newer one has replaced a moment ago.
    replaced: RankedMutex<VecDeque<(u64, Arc<Generation>)>>,
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
            kept: RankedMutex::new(Rank::OpenFiles, LruCache::new(bound)),
            replaced: RankedMutex::new(Rank::OpenFiles, VecDeque::new()),
            verifier: Verifier::new(verify),
            on_wrong,
            shown: Arc::new(shown),
        }
    }

    /// Keeps the newest generation of a file.
    pub(crate) fn keep(&self, serial: u64, generation: &Arc<Generation>) {
        let dropped = locked(&self.kept).push(serial, generation.clone());
        if let Some((of, dropped)) = dropped
            && of == serial
            && !Arc::ptr_eq(&dropped, generation)
        {
            // A file that lost its name takes space as long as it is open: one for each name is enough.
            if !Arc::ptr_eq(dropped.source.bytes(), generation.source.bytes()) {
                let mut replaced = locked(&self.replaced);
                let (older, others) =
                    std::mem::take(&mut *replaced).into_iter().partition(|(of, _)| *of == serial);
                *replaced = others;
                drop(replaced);
                drop::<VecDeque<_>>(older); // closes files, without the lock
            }
            self.replace(serial, Some(dropped));
        }
    }

    /// Keeps no generation of a file.
    pub(crate) fn let_go(&self, serial: u64) {
        let dropped = locked(&self.kept).pop(&serial);
        self.replace(serial, dropped);
    }

    /// Drops a generation, now or when no program can be about to open it.
    fn replace(&self, serial: u64, dropped: Option<Arc<Generation>>) {
        let mut replaced = locked(&self.replaced);
        let dropped = dropped.and_then(|dropped| match dropped.usage.is_promised() {
            true => {
                replaced.push_back((serial, dropped));
                None
            }
            false => Some(dropped),
        });
        let mut over = Vec::new();
        while replaced
            .front()
            .is_some_and(|(_, oldest)| replaced.len() > REPLACED || !oldest.usage.is_promised())
        {
            over.extend(replaced.pop_front());
        }
        drop(replaced);
        drop((dropped, over)); // closes files, which is done after the locks were let go
    }

    #[cfg(test)]
    pub(crate) fn clear(&self) {
        locked(&self.kept).clear();
        locked(&self.replaced).clear();
    }
}
