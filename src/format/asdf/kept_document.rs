//! The document of a file's tree, which the cache keeps while programs read what is made from it.

use std::sync::{Arc, Mutex, Weak};

use super::computed::Computed;
use crate::cache::{Cache, ContentId, Reservation};
use crate::content::Content;
use crate::error::Result;
use crate::sync::locked;
use crate::yaml::document::Document;

/// Length of a tree from which on its document counts in the budget while it is made, in bytes.
const LARGE: u64 = 1 << 20;
/// Approximate memory of a document, as a multiple of the length of its text.
const TIMES: u64 = 4;

/// A document, and the results that are kept with it.
#[derive(Debug)]
pub(super) struct KeptTree {
    pub(super) document: Arc<Document>,
    pub(super) computed: Computed,
}

/// The document of a tree, which is made again if the cache has dropped it.
#[derive(Debug)]
pub(super) struct KeptDocument {
    tree: Arc<dyn Content>,
    cache: Arc<Cache>,
    id: ContentId,
    /// The document while somebody uses it, even if the cache does not keep it.
    used: Mutex<Weak<KeptTree>>,
}

impl KeptTree {
    pub(super) fn new(document: Document) -> Self {
        Self { document: Arc::new(document), computed: Computed::default() }
    }
}

impl KeptDocument {
    pub(super) fn new(tree: Arc<dyn Content>, cache: &Arc<Cache>) -> Self {
        Self { tree, cache: cache.clone(), id: cache.id(), used: Mutex::default() }
    }

    /// Reserves memory for making the document of a large tree; waits until it is free.
    pub(super) fn demand(&self) -> Option<Reservation> {
        (self.tree.len() >= LARGE).then(|| self.cache.demand(self.memory()))
    }

    /// Returns the approximate memory of the document.
    pub(super) fn memory(&self) -> u64 {
        self.tree.len().saturating_mul(TIMES)
    }

    /// True if somebody uses the document.
    pub(super) fn is_used(&self) -> bool {
        locked(&self.used).strong_count() > 0
    }

    /// Returns the document, which is made unless it is kept or used.
    ///
    /// # Errors
    /// The tree can't be read.
    pub(super) fn get(&self) -> Result<Arc<KeptTree>> {
        if let Some(tree) = self.cache.kept(self.id).or_else(|| locked(&self.used).upgrade()) {
            return Ok(tree);
        }
        let tree = Arc::new(KeptTree::new(Document::read(&*self.tree)?));
        *locked(&self.used) = Arc::downgrade(&tree);
        Ok(tree)
    }

    /// Keeps the document for the next reader. `more` is the memory of the results that are kept with it.
    pub(super) fn keep(&self, tree: &Arc<KeptTree>, more: u64) {
        self.cache.keep(self.id, tree.clone(), tree.document.weight() + more);
    }
}

impl Drop for KeptDocument {
    fn drop(&mut self) {
        self.cache.forget(self.id);
    }
}
