//! The handles that the kernel holds: numbers for what is open.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use fuser::FileHandle;

/// What is open, by the number that the kernel has for it.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    next: AtomicU64,
    open: RwLock<HashMap<u64, Arc<T>>>,
}

impl<T> Handles<T> {
    pub(crate) fn new() -> Self {
        Self { next: AtomicU64::new(1), open: RwLock::new(HashMap::new()) }
    }

    pub(crate) fn add(&self, what: T) -> (FileHandle, Arc<T>) {
        let (number, what) = (self.next.fetch_add(1, Ordering::Relaxed), Arc::new(what));
        self.open.write().unwrap_or_else(PoisonError::into_inner).insert(number, what.clone());
        (FileHandle(number), what)
    }

    /// What a number stands for; it stays open for as long as the answer is held.
    pub(crate) fn get(&self, handle: FileHandle) -> Option<Arc<T>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).get(&handle.0).cloned()
    }

    /// Whether any that is open is of a kind.
    pub(crate) fn any(&self, is: impl Fn(&T) -> bool) -> bool {
        self.open.read().unwrap_or_else(PoisonError::into_inner).values().any(|what| is(what))
    }

    pub(crate) fn remove(&self, handle: FileHandle) {
        let removed = self.open.write().unwrap_or_else(PoisonError::into_inner).remove(&handle.0);
        drop(removed); // closed without the lock
    }

    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.open.write().unwrap_or_else(PoisonError::into_inner));
        drop(all);
    }
}
