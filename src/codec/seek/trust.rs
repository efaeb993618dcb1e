//! What was found where a table is kept, and whether it is trusted.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::index::IndexSlot;
use crate::error::{Error, Result};

/// The table that was found for a stream, if there is a place for one and something was there.
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
    /// The stream is not sound any more, and this is why; the table is still right about what it was.
    Outlived(Arc<K>, Error),
}

/// What is asked of it whatever the table's kind is.
pub(in crate::codec) trait IndexTrust: fmt::Debug {
    /// Whether there is a table.
    fn is_there(&self) -> bool;

    /// How many bytes the stream should decode to.
    fn data_size(&self) -> u64;

    /// After something did not fit the table: if `pass`, which goes through the stream without it, finds
    /// the stream sound, there is no table any more; otherwise what it found is the error, now and later.
    fn judge(&self, pass: &mut dyn FnMut() -> Result<()>) -> Result<()>;
}

impl<K> TrustedIndex<K> {
    /// Whatever `look` finds in a slot.
    pub(in crate::codec) fn new(slot: Option<IndexSlot>, look: fn(&IndexSlot) -> Option<K>) -> Self {
        Self { slot, look, state: Mutex::new(State::Unknown), removed: AtomicBool::new(false) }
    }

    /// The slot, for keeping a table.
    pub(in crate::codec) fn slot(&self) -> Option<&IndexSlot> {
        self.slot.as_ref()
    }

    /// The table, after looking for it if nobody has.
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
        // Before the pass, which leaves a new one.
        if !self.removed.swap(true, Ordering::Relaxed) {
            self.slot.iter().for_each(IndexSlot::remove);
        }
        let found = match pass() {
            Err(error) if !error.lasts() => return Err(error),
            found => found,
        };
        let mut state = self.state();
        // Another reader may have been here meanwhile.
        let State::Kept(kept) = &*state else { return found };
        *state = match &found {
            Ok(()) => State::Nothing,
            Err(error) => State::Outlived(kept.clone(), error.clone()),
        };
        found
    }
}
