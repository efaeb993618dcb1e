//! Parsed files that are kept open.
//!
//! A [`Generation`] is held by the handles that read it and by [`OpenFiles`], a bounded list of recently used
//! generations. A generation that the kernel has just looked up is kept a little longer, because a program
//! may open it next.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;

use asdf_access::options::{ShownViews, Verify};
use asdf_file::container::Container;
use asdf_file::edit::recovery::RecoveryPolicy;
use asdf_file::history::History;
use lru::LruCache;
use seekable::error::Result;
use seekable::source::Source;
use seekable::sync::{Rank, RankedMutex, locked};

use crate::mounted::generation::Generation;
use crate::mounted::verify::Verifier;

/// Maximum number of replaced generations kept because the kernel may open their files after a lookup.
const REPLACED: usize = 256;

/// A function that opens a source in its format.
pub(crate) type Opener = Arc<dyn Fn(Arc<dyn Source>) -> Result<Arc<dyn Container>> + Send + Sync>;

/// A callback with a file's serial number and a damaged block of the file.
pub(crate) type OnWrong = Box<dyn Fn(u64, usize) + Send + Sync>;

/// Parsed files, of which the recently used ones are kept open.
pub(crate) struct OpenFiles {
    pub(crate) opener: Opener,
    /// Policy for files whose save was interrupted: they are recovered before they are read.
    pub(crate) recovery: RecoveryPolicy,
    kept: RankedMutex<LruCache<u64, Arc<Generation>>>,
    /// Generations that a newer one has just replaced.
    replaced: RankedMutex<VecDeque<(u64, Arc<Generation>)>>,
    pub(crate) verifier: Verifier,
    /// Callback for damaged blocks.
    pub(crate) on_wrong: OnWrong,
    /// Views that a file's directory has.
    pub(crate) shown: Arc<ShownViews>,
    /// The texts that saves replaced; `None` if they are not shown.
    pub(crate) history: Option<Arc<History>>,
}

impl std::fmt::Debug for OpenFiles {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("OpenFiles").field("kept", &locked(&self.kept).len()).finish_non_exhaustive()
    }
}

impl OpenFiles {
    /// Returns an empty list of at most `bound` generations. Files have all views, and are not verified.
    pub(crate) fn new(opener: Opener, bound: NonZeroUsize, recovery: RecoveryPolicy) -> Self {
        Self {
            opener,
            recovery,
            kept: RankedMutex::new(Rank::OpenFiles, LruCache::new(bound)),
            replaced: RankedMutex::new(Rank::OpenFiles, VecDeque::new()),
            verifier: Verifier::new(Verify::default()),
            on_wrong: Box::new(|_, _| ()),
            shown: Arc::default(),
            history: None,
        }
    }

    /// Verifies files, and reports their damaged blocks.
    pub(crate) fn verifying(self, verify: Verify, on_wrong: OnWrong) -> Self {
        Self { verifier: Verifier::new(verify), on_wrong, ..self }
    }

    /// Shows only these views.
    pub(crate) fn showing(self, views: ShownViews) -> Self {
        Self { shown: Arc::new(views), ..self }
    }

    /// Shows the texts that saves replaced.
    pub(crate) fn with_history(self, history: Option<Arc<History>>) -> Self {
        Self { history, ..self }
    }

    /// Keeps the newest generation of a file open.
    pub(crate) fn keep(&self, serial: u64, generation: &Arc<Generation>) {
        let dropped = locked(&self.kept).push(serial, generation.clone());
        if let Some((of, dropped)) = dropped
            && of == serial
            && !Arc::ptr_eq(&dropped, generation)
        {
            // A deleted file takes disk space as long as it is open, so at most one deleted file is kept open
            // for each mounted file.
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

    /// Stops keeping a file open.
    pub(crate) fn let_go(&self, serial: u64) {
        let dropped = locked(&self.kept).pop(&serial);
        self.replace(serial, dropped);
    }

    /// Drops a generation at once, unless the kernel has just looked up one of its files: a later call then
    /// drops it.
    fn replace(&self, serial: u64, dropped: Option<Arc<Generation>>) {
        let mut replaced = locked(&self.replaced);
        let dropped = dropped.and_then(|dropped| {
            if dropped.usage.is_pinned() {
                replaced.push_back((serial, dropped));
                None
            } else {
                Some(dropped)
            }
        });
        let mut over = Vec::new();
        while replaced
            .front()
            .is_some_and(|(_, oldest)| replaced.len() > REPLACED || !oldest.usage.is_pinned())
        {
            over.extend(replaced.pop_front());
        }
        drop(replaced);
        drop((dropped, over)); // closes files after the locks are released
    }

    #[cfg(test)]
    pub(crate) fn clear(&self) {
        locked(&self.kept).clear();
        locked(&self.replaced).clear();
    }
}
