//! The index of a stream, and whether it is trusted.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::index::IndexSlot;
use crate::error::{Error, Result};

/// The index of a stream, if there is a slot for it and something is stored there.
#[derive(Debug)]
pub(in crate::codec) struct TrustedIndex<K> {
    slot: Option<IndexSlot>,
    look: fn(&IndexSlot) -> Option<K>,
    state: Mutex<State<K>>,
    removed: AtomicBool,
}

#[derive(Debug)]
enum State<K> {
    Unknown,
    Nothing,
    Kept(Arc<K>),
    /// The stream is damaged, and this is why. The index is still right about what the stream was.
    Outlived(Arc<K>, Error),
}

/// An index of any codec.
pub(in crate::codec) trait IndexTrust: fmt::Debug {
    /// Whether there is an index.
    fn is_there(&self) -> bool;

    /// How many bytes the stream should decode to.
    fn data_size(&self) -> u64;

    /// Decides between index and stream after they contradicted each other. `pass` decodes the stream without the
    /// index. If it finds the stream sound, the index is removed; otherwise its error is the result, now and later.
    fn judge(&self, pass: &mut dyn FnMut() -> Result<()>) -> Result<()>;
}

impl<K> TrustedIndex<K> {
    /// The index that `look` finds in a slot.
    pub(in crate::codec) fn new(slot: Option<IndexSlot>, look: fn(&IndexSlot) -> Option<K>) -> Self {
        Self { slot, look, state: Mutex::new(State::Unknown), removed: AtomicBool::new(false) }
    }

    /// The slot, for storing an index.
    pub(in crate::codec) fn slot(&self) -> Option<&IndexSlot> {
        self.slot.as_ref()
    }

    /// The index; it is looked for at the first call.
    pub(in crate::codec) fn get(&self) -> Option<Arc<K>> {
        let slot = self.slot.as_ref()?;
        let mut state = self.state();
        if let State::Unknown = *state {
            *state = (self.look)(slot).map_or(State::Nothing, |kept| State::Kept(Arc::new(kept)));
        }
        match &*state {
            State::Kept(kept) | State::Outlived(kept, _) => Some(kept.clone()),
            State::Unknown | State::Nothing => None,
        }
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: fmt::Debug> IndexTrust for TrustedIndex<K> {
    fn is_there(&self) -> bool {
        self.get().is_some()
    }

    fn data_size(&self) -> u64 {
        self.slot.as_ref().map_or(0, IndexSlot::data_size)
    }

    fn judge(&self, pass: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        match &*self.state() {
            State::Kept(_) => {}
            State::Outlived(_, error) => return Err(error.clone()),
            State::Unknown | State::Nothing => return Ok(()),
        }
        // Before the pass, which stores a new index.
        if !self.removed.swap(true, Ordering::Relaxed) {
            self.slot.iter().for_each(IndexSlot::remove);
        }
        let found = match pass() {
            Err(error) if !error.lasts() => return Err(error),
            found => found,
        };
        let mut state = self.state();
        // Another reader may have decided meanwhile.
        let State::Kept(kept) = &*state else { return found };
        *state = match &found {
            Ok(()) => State::Nothing,
            Err(error) => State::Outlived(kept.clone(), error.clone()),
        };
        found
    }
}
