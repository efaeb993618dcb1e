//! Locks that outlive a panic.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Locks a mutex, also one whose holder panicked: every state that it guards is a valid one.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a mutex, also one whose holder panicked, unless another thread holds it.
pub(crate) fn locked_at_once<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
