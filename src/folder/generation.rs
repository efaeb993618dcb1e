//! Generations: a file as it was at one time.
//!
//! A [`Generation`] has what was parsed of the file, and reads the file through a [`GenerationSource`], which gives
//! the bytes of that time for as long as any thread holds the generation. It never changes: a save makes the next
//! generation, and so does another program. Its container is had through a [`Held`] guard only. A save keeps the
//! bytes that it overwrites for the generations that are held, or that the kernel was promised a moment ago
//! ([`Usage`]).
//!
//! - `bytes`: where the bytes of each generation are now
//! - `places`: the map from the offsets of a generation to these places

pub(crate) mod bytes;
mod places;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::GenerationSource;

use crate::content::Content;
use crate::error::Result;
use crate::folder::verify::Checks;
use crate::format::Container;
use crate::source::{Source, SourceVersion, Time};

/// Between a lookup and the open that follows it a generation stays readable for this long.
const PROMISED: Duration = Duration::from_secs(1);

/// What a file was at one time.
///
/// The contents are boxed: a weak reference holds the memory of the box alone.
#[derive(Debug)]
pub(crate) struct Generation(Box<Parsed>);

/// A file that was parsed, or the reason why it can't be.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) version: SourceVersion,
    /// Counts the versions of the file.
    pub(crate) number: u64,
    /// Counts the saves made here, of which some leave the version as it was.
    pub(crate) saves: u64,
    /// Equal in generations between which only saves made here lie.
    pub(crate) base_version: u64,
    /// Equal in generations of which each has all bytes of the one before.
    pub(crate) lineage: u64,
    pub(crate) container: Result<Arc<dyn Container>>,
    /// What checking its blocks found.
    pub(crate) checks: Checks,
    pub(crate) source: Arc<GenerationSource>,
    pub(crate) usage: Arc<Usage>,
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

    pub(crate) fn hold(self: &Arc<Self>) -> Held {
        self.usage.holders.fetch_add(1, Ordering::Relaxed);
        Held(self.clone())
    }
}

impl Parsed {
    pub(crate) fn container(&self) -> Result<&Arc<dyn Container>> {
        self.container.as_ref().map_err(Clone::clone)
    }

    /// True if another program has changed the file since, even if the mount has not noticed yet.
    pub(crate) fn is_outlived(&self) -> bool {
        !self.source.is_whole()
    }

    /// Adds to `blocks` those whose bytes `content` is made of, by its ranges of the source.
    pub(crate) fn add_blocks_of(&self, content: &dyn Content, blocks: &mut Vec<usize>) -> Result<()> {
        for range in content.ranges() {
            let container = self.container()?;
            // Data follow the header of their block: the block begins before them.
            let first = container.block_before(range.start)?.unwrap_or(0);
            if let Some(last) = container.block_before(range.end.max(range.start))? {
                blocks.extend(first..=last);
            }
        }
        blocks.sort_unstable();
        blocks.dedup();
        Ok(())
    }

    /// Keeps the generation readable for a moment: the kernel was told of one of its files, and may open it.
    pub(crate) fn promise(&self) {
        self.usage.promise();
    }

    /// When the file was last modified at that time.
    pub(crate) fn mtime(&self) -> Time {
        self.source.stat().map_or((0, 0), |stat| stat.mtime)
    }
}

/// A guard of a generation: its bytes stay readable while any guard is there.
#[derive(Debug)]
pub(crate) struct Held(Arc<Generation>);

impl Held {
    /// The generation itself, for what does not keep it readable.
    pub(crate) fn generation(&self) -> &Arc<Generation> {
        &self.0
    }
}

impl Clone for Held {
    fn clone(&self) -> Self {
        self.0.hold()
    }
}

impl Deref for Held {
    type Target = Parsed;

    fn deref(&self) -> &Parsed {
        &self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.usage.holders.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How a generation is used.
#[derive(Debug)]
pub(crate) struct Usage {
    holders: AtomicUsize,
    made: Instant,
    /// When the kernel was last told of one of its files: milliseconds after `made`, plus one; 0 for never.
    promised: AtomicU64,
}

impl Default for Usage {
    fn default() -> Self {
        Self { holders: AtomicUsize::new(0), made: Instant::now(), promised: AtomicU64::new(0) }
    }
}

impl Usage {
    fn promise(&self) {
        let now = u64::try_from(self.made.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
        self.promised.store(now.saturating_add(1), Ordering::Relaxed);
    }

    /// True for a moment after the kernel was told of one of its files.
    pub(crate) fn is_promised(&self) -> bool {
        let promised = self.promised.load(Ordering::Relaxed);
        promised > 0 && self.made.elapsed() < Duration::from_millis(promised).saturating_add(PROMISED)
    }

    /// True if its bytes must stay readable.
    pub(crate) fn is_held(&self) -> bool {
        self.holders.load(Ordering::Relaxed) > 0 || self.is_promised()
    }
}
