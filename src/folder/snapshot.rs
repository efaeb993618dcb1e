//! What was parsed of a file at one time.

use std::sync::Arc;

use crate::error::Result;
use crate::format::Container;
use crate::source::SourceVersion;

/// A generation, and how many saves were made here before.
pub(crate) type Revision = (u64, u64);

/// A file that was parsed, or the reason why it can't be.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) version: SourceVersion,
    pub(crate) generation: u64,
    /// After how many saves made here.
    pub(crate) saves: u64,
    /// The same for all generations that came of saves made here.
    pub(crate) base_version: u64,
    pub(crate) container: Result<Arc<dyn Container>>,
}

impl Snapshot {
    pub(crate) fn revision(&self) -> Revision {
        (self.generation, self.saves)
    }

    pub(crate) fn container(&self) -> Result<&Arc<dyn Container>> {
        self.container.as_ref().map_err(Clone::clone)
    }

    /// Whether the file was written since it was opened, though nobody may have noticed yet.
    pub(crate) fn is_outlived(&self) -> bool {
        self.container().is_ok_and(|container| {
            container.source().stat().is_ok_and(|now| now.version != container.source_stat().version)
        })
    }
}
