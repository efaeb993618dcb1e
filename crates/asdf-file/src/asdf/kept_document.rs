//! The document of a file's tree, and values that are made from it: the cache keeps them while programs read what they show.

use std::any::Any;
use std::sync::{Arc, Mutex, Weak};

use asdf_tree::yaml::document::Document;
use seekable::cache::{Cache, ContentId, Reservation};
use seekable::content::Content;
use seekable::error::Result;
use seekable::sync::locked;

/// Length of a tree from which on its document is kept, and from which on it counts in the budget while it is made, in
/// bytes.
const KEPT: u64 = 64 << 10;
const LARGE: u64 = 1 << 20;
/// Approximate memory of a document, as a multiple of the length of its text.
const TIMES: u64 = 4;

/// A value that is made again if the cache has dropped it.
#[derive(Debug)]
pub struct Remade<T: Any + Send + Sync> {
    cache: Arc<Cache>,
    id: ContentId,
    /// The value while somebody uses it, even if the cache does not keep it.
    used: Mutex<Weak<T>>,
}

impl<T: Any + Send + Sync> Remade<T> {
    /// Makes a place for a value that is made later.
    pub fn new(cache: &Arc<Cache>) -> Self {
        Self { cache: cache.clone(), id: cache.id(), used: Mutex::default() }
    }

    /// Returns the value, which is made unless it is kept or used.
    pub fn get(&self, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        if let Some(value) = self.cache.kept(self.id).or_else(|| locked(&self.used).upgrade()) {
            return Ok(value);
        }
        let value = Arc::new(make()?);
        *locked(&self.used) = Arc::downgrade(&value);
        Ok(value)
    }

    /// Keeps the value for the next reader.
    pub fn keep(&self, value: &Arc<T>, weight: u64) {
        self.cache.keep(self.id, value.clone(), weight);
    }
}

impl<T: Any + Send + Sync> Drop for Remade<T> {
    fn drop(&mut self) {
        self.cache.forget(self.id);
    }
}

/// The document of a tree.
#[derive(Debug)]
pub struct KeptDocument {
    /// The text of the tree.
    pub tree: Arc<dyn Content>,
    /// The cache that keeps the document.
    pub cache: Arc<Cache>,
    document: Remade<Document>,
}

impl KeptDocument {
    /// Makes a place for the document of a tree.
    pub fn new(tree: Arc<dyn Content>, cache: &Arc<Cache>) -> Self {
        Self { tree, cache: cache.clone(), document: Remade::new(cache) }
    }

    /// Reserves memory for making the document if it is large, and nobody uses it; waits until it is free.
    pub fn demand(&self) -> Option<Reservation> {
        let is_made = self.tree.len() >= LARGE && !self.is_used();
        is_made.then(|| self.cache.demand(self.memory()))
    }

    /// Returns the approximate memory of the document.
    pub fn memory(&self) -> u64 {
        self.tree.len().saturating_mul(TIMES)
    }

    /// True if somebody uses the document.
    pub fn is_used(&self) -> bool {
        locked(&self.document.used).strong_count() > 0
    }

    /// Returns the document.
    ///
    /// # Errors
    /// The tree can't be read.
    pub fn get(&self) -> Result<Arc<Document>> {
        self.document.get(|| Document::read(&*self.tree))
    }

    /// Keeps the document for the next reader.
    pub fn keep(&self, document: &Arc<Document>) {
        if self.tree.len() >= KEPT {
            self.document.keep(document, document.weight());
        }
    }
}
