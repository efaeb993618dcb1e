//! The stored table of a stream, and the decision to trust it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::stored_table::TableSlot;
use crate::error::{Error, Result};
use crate::sync::{MutexGuard, locked};

/// The stored table of a stream, if there is a slot and the slot holds a table.
#[derive(Debug)]
pub(in crate::codec) struct TrustedTable<K> {
    slot: Option<TableSlot>,
    load: fn(&TableSlot) -> Option<K>,
    state: Mutex<TrustState<K>>,
    removed: AtomicBool,
}

#[derive(Debug)]
enum TrustState<K> {
    Unknown,
    Nothing,
    Trusted(Arc<K>),
    /// The stream is damaged, for this reason. The table still describes the stream as it was.
    StreamDamaged(Arc<K>, Error),
}

/// The stored table of any codec.
pub(in crate::codec) trait TableTrust: fmt::Debug {
    /// True if there is a stored table.
    fn is_there(&self) -> bool;

    /// Returns the expected decoded size of the stream.
    fn data_size(&self) -> u64;

    /// Decides between table and stream after they contradicted each other. `pass` decodes the stream without
    /// the table. If this pass finds the stream sound, the table is removed. Otherwise its error is the
    /// result of this call and of later ones.
    fn judge(&self, pass: &mut dyn FnMut() -> Result<()>) -> Result<()>;
}

impl<K> TrustedTable<K> {
    /// Returns the table that `load` finds in a slot.
    pub(in crate::codec) fn new(slot: Option<TableSlot>, load: fn(&TableSlot) -> Option<K>) -> Self {
        Self { slot, load, state: Mutex::new(TrustState::Unknown), removed: AtomicBool::new(false) }
    }

    /// Returns the slot in which a table can be stored.
    pub(in crate::codec) fn slot(&self) -> Option<&TableSlot> {
        self.slot.as_ref()
    }

    /// Returns the table, which is looked for at the first call.
    pub(in crate::codec) fn get(&self) -> Option<Arc<K>> {
        let slot = self.slot.as_ref()?;
        let mut state = self.state();
        if let TrustState::Unknown = *state {
            *state =
                (self.load)(slot).map_or(TrustState::Nothing, |table| TrustState::Trusted(Arc::new(table)));
        }
        match &*state {
            TrustState::Trusted(table) | TrustState::StreamDamaged(table, _) => Some(table.clone()),
            TrustState::Unknown | TrustState::Nothing => None,
        }
    }

    fn state(&self) -> MutexGuard<'_, TrustState<K>> {
        locked(&self.state)
    }
}

impl<K: fmt::Debug> TableTrust for TrustedTable<K> {
    fn is_there(&self) -> bool {
        self.get().is_some()
    }

    fn data_size(&self) -> u64 {
        self.slot.as_ref().map_or(0, TableSlot::data_size)
    }

    fn judge(&self, pass: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        match &*self.state() {
            TrustState::Trusted(_) => {}
            TrustState::StreamDamaged(_, error) => return Err(error.clone()),
            TrustState::Unknown | TrustState::Nothing => return Ok(()),
        }
        // The table is removed before the pass, because the pass stores a new one.
        if !self.removed.swap(true, Ordering::Relaxed)
            && let Some(slot) = &self.slot
        {
            slot.remove();
        }
        let found = match pass() {
            Err(error) if !error.lasts() => return Err(error),
            found => found,
        };
        let mut state = self.state();
        // Meanwhile another reader may have decided.
        let TrustState::Trusted(table) = &*state else { return found };
        *state = match &found {
            Ok(()) => TrustState::Nothing,
            Err(error) => TrustState::StreamDamaged(table.clone(), error.clone()),
        };
        found
    }
}
