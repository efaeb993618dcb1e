//! Generations: snapshots of a file.
//!
//! A [`Generation`] has a parsed container, which reads the file through a [`GenerationSource`]. That source
//! returns the bytes of the snapshot for as long as a thread holds the generation. A generation never
//! changes: a save, or a change by another program, begins the next generation. Its container can only be
//! reached through a [`HeldGeneration`] guard. A save keeps the bytes that it overwrites for generations that are held,
//! and for those that the kernel looked up a moment ago ([`Usage`]).
//!
//! - `bytes`: the current positions of the bytes of each generation
//! - `places`: the map from the offsets of a generation to these positions

pub(crate) mod bytes;
mod places;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use asdf_file::container::Container;
use bytes::GenerationSource;
use seekable::content::Content;
use seekable::error::{Kind, Result};
use seekable::source::{Source, SourceVersion, Time};

use crate::mounted::verify::Checks;
use crate::view::PageMemo;

/// Time for which a generation stays readable after a lookup, so that the following open can use it.
const PINNED: Duration = Duration::from_secs(1);

/// A snapshot of a file.
///
/// The contents are boxed, because a weak reference keeps the memory of its target: here only that of the
/// box.
#[derive(Debug)]
pub(crate) struct Generation(Box<Parsed>);

/// A parsed file, or the reason why it can't be parsed.
#[derive(Debug)]
pub(crate) struct Parsed {
    /// Serial of the mounted file.
    pub(crate) file: u64,
    pub(crate) version: SourceVersion,
    /// Number of the file's version, counted from 0.
    pub(crate) number: u64,
    /// Number of saves by this mount. Some saves do not change the version.
    pub(crate) saves: u64,
    /// Number that stays equal between generations separated only by saves of this mount.
    pub(crate) outside_changes: u64,
    /// Number that stays equal between generations if each has all bytes of the previous one.
    pub(crate) lineage: u64,
    pub(crate) container: Result<Arc<dyn Container>>,
    /// Results of checking the blocks' checksums.
    pub(crate) checks: Checks,
    pub(crate) source: Arc<GenerationSource>,
    pub(crate) usage: Arc<Usage>,
    /// The length of its page, once it is known.
    pub(crate) page: Arc<PageMemo>,
}

impl Parsed {
    /// True if the file was half-saved.
    pub(crate) fn is_half_saved(&self) -> bool {
        self.container.as_ref().is_err_and(|error| error.kind() == Kind::Unfinished)
    }
}

impl Deref for Generation {
    type Target = Parsed;

    fn deref(&self) -> &Parsed {
        &self.0
    }
}

impl Generation {
    pub(crate) fn new(parsed: Parsed) -> Self {
        Self(Box::new(parsed))
    }

    pub(crate) fn hold(self: &Arc<Self>) -> HeldGeneration {
        self.usage.holders.fetch_add(1, Ordering::Relaxed);
        HeldGeneration(self.clone())
    }
}

impl Parsed {
    pub(crate) fn container(&self) -> Result<&Arc<dyn Container>> {
        self.container.as_ref().map_err(Clone::clone)
    }

    /// True if another program has changed the file since the snapshot, other than by appending. The mount
    /// may not have detected the change yet.
    pub(crate) fn is_stale(&self) -> bool {
        !self.source.is_whole()
    }

    /// Adds to `blocks` the blocks from which `content` is made, found by its ranges of the source.
    pub(crate) fn add_blocks_of(&self, content: &dyn Content, blocks: &mut Vec<usize>) -> Result<()> {
        for range in content.ranges() {
            let container = self.container()?;
            // Data come after the header of their block, so the block begins before them.
            let first = container.block_before(range.start)?.unwrap_or(0);
            if let Some(last) = container.block_before(range.end.max(range.start))? {
                blocks.extend(first..=last);
            }
        }
        blocks.sort_unstable();
        blocks.dedup();
        Ok(())
    }

    /// Returns the file's mtime in this generation.
    pub(crate) fn mtime(&self) -> Time {
        self.source.stat().map_or((0, 0), |stat| stat.mtime)
    }
}

/// A guard of a generation. Its bytes stay readable while any guard exists.
#[derive(Debug)]
pub(crate) struct HeldGeneration(Arc<Generation>);

impl HeldGeneration {
    /// Returns the generation itself. A holder of the returned reference does not keep its bytes readable.
    pub(crate) fn generation(&self) -> &Arc<Generation> {
        &self.0
    }
}

impl Clone for HeldGeneration {
    fn clone(&self) -> Self {
        self.0.hold()
    }
}

impl Deref for HeldGeneration {
    type Target = Parsed;

    fn deref(&self) -> &Parsed {
        &self.0
    }
}

impl Drop for HeldGeneration {
    fn drop(&mut self) {
        self.0.usage.holders.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The use of a generation, which determines whether its bytes must stay readable.
#[derive(Debug)]
pub(crate) struct Usage {
    holders: AtomicUsize,
    made: Instant,
    /// Time of the last lookup of one of its files: milliseconds after `made`, plus one; 0 if there was no
    /// lookup.
    pinned: AtomicU64,
}

impl Default for Usage {
    fn default() -> Self {
        Self { holders: AtomicUsize::new(0), made: Instant::now(), pinned: AtomicU64::new(0) }
    }
}

impl Usage {
    pub(crate) fn pin(&self) {
        let now = u64::try_from(self.made.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
        self.pinned.store(now.saturating_add(1), Ordering::Relaxed);
    }

    /// True for a moment after a lookup of one of its files.
    pub(crate) fn is_pinned(&self) -> bool {
        let pinned = self.pinned.load(Ordering::Relaxed);
        pinned > 0 && self.made.elapsed() < Duration::from_millis(pinned).saturating_add(PINNED)
    }

    /// True if the generation's bytes must stay readable.
    pub(crate) fn is_held(&self) -> bool {
        self.holders.load(Ordering::Relaxed) > 0 || self.is_pinned()
    }
}
