//! What was parsed of a file at one time.

use std::ops::Deref;
use std::sync::Arc;

use crate::content::Content;
use crate::error::Result;
use crate::format::Container;
use crate::source::SourceVersion;

/// A generation, and how many saves were made here before.
pub(crate) type Revision = (u64, u64);

/// What was parsed of a file, boxed: the weak reference that the mounted file keeps holds the memory of this alone.
#[derive(Debug)]
pub(crate) struct Snapshot(Box<Parsed>);

impl Deref for Snapshot {
    type Target = Parsed;

    fn deref(&self) -> &Parsed {
        &self.0
    }
}

/// A file that was parsed, or the reason why it can't be.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) version: SourceVersion,
    pub(crate) generation: u64,
    /// After how many saves made here.
    pub(crate) saves: u64,
    /// The same for all generations that came of saves made here.
    pub(crate) base_version: u64,
    /// The same for all versions of which each goes on from the one before.
    pub(crate) lineage: u64,
    pub(crate) container: Result<Arc<dyn Container>>,
}

impl Snapshot {
    pub(crate) fn new(parsed: Parsed) -> Self {
        Self(Box::new(parsed))
    }

    pub(crate) fn revision(&self) -> Revision {
        (self.generation, self.saves)
    }

    pub(crate) fn container(&self) -> Result<&Arc<dyn Container>> {
        self.container.as_ref().map_err(Clone::clone)
    }

    /// Whether the file was written since it was opened, even if the mount has not noticed yet.
    pub(crate) fn is_outlived(&self) -> bool {
        self.container().is_ok_and(|container| {
            container.source().stat().is_ok_and(|now| now.version != container.source_stat().version)
        })
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
}
