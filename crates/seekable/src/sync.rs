//! Locks that survive a panic, and the order in which a thread takes them.
//!
//! A thread that holds a [`RankedMutex`] only takes locks of a higher [`Rank`], which prevents deadlocks. Other locks
//! have no rank; two of them are always taken in the same order. A debug build asserts both.

mod order;

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::{
    Condvar, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError,
};
use std::time::Duration;

use order::{Class, HeldLock};

thread_local! {
    /// Number of reasons why other threads may wait for this one.
    static AWAITED: Cell<u32> = const { Cell::new(0) };
}

/// A guard. While it exists, other threads may wait for this one, which has a lock or memory they need. It
/// must be dropped by the thread that created it.
#[derive(Debug)]
pub struct Awaited(());

impl Awaited {
    /// Marks this thread as one that others may wait for.
    pub fn begin() -> Self {
        AWAITED.set(AWAITED.get() + 1);
        Self(())
    }

    /// True if other threads may wait for this one. This thread must then not wait for resources that those
    /// threads may hold.
    pub fn is_now() -> bool {
        AWAITED.get() > 0
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        AWAITED.set(AWAITED.get().saturating_sub(1));
    }
}

/// The locks of a mounted directory and of its file, in the order in which a thread takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rank {
    /// The slot for a directory's overlay, which is created on demand.
    LazyOverlay,
    /// The editor of an overlay: held during a whole save.
    Editor,
    /// The names and the state of an overlay.
    Overlay,
    /// The text of a file in the overlay.
    Body,
    /// The file that a directory shows.
    CurrentFile,
    /// Held while a file is parsed, and during a whole save.
    Parsing,
    /// The state of a mounted file.
    MountedFile,
    /// The generations that are kept open.
    OpenFiles,
    /// The map of offsets of a file's generations.
    FileBytes,
}

/// A lock that [`locked`] can take.
pub trait Lock {
    /// The guard type.
    type Guard<'a>
    where
        Self: 'a;

    /// Takes the lock, even if its last holder panicked: the guarded data are valid at any time.
    fn guard(&self) -> Self::Guard<'_>;

    /// Takes the lock unless another thread holds it.
    fn guard_at_once(&self) -> Option<Self::Guard<'_>>;
}

/// Takes a lock, even if its last holder panicked.
pub fn locked<L: Lock>(lock: &L) -> L::Guard<'_> {
    lock.guard()
}

/// Takes a lock unless another thread holds it, even if its last holder panicked.
pub fn locked_at_once<L: Lock>(lock: &L) -> Option<L::Guard<'_>> {
    lock.guard_at_once()
}

/// A guard of a lock, with the place of the lock in the order.
#[derive(Debug)]
pub struct Guard<G> {
    // It is dropped first: the lock is held for as long as it is noted.
    guard: G,
    held: HeldLock,
}

/// A guard of a mutex.
pub type MutexGuard<'a, T> = Guard<std::sync::MutexGuard<'a, T>>;

impl<G> Guard<G> {
    fn after(class: Class, take: impl FnOnce() -> G) -> Self {
        HeldLock::check(class);
        let guard = take();
        Self { guard, held: HeldLock::note(class) }
    }

    /// Takes a lock of a rank.
    pub fn ranked(rank: Rank, take: impl FnOnce() -> G) -> Self {
        Self::after(Class::Ranked(rank), take)
    }

    /// A thread that has not waited for a lock can't be part of a deadlock.
    fn at_once(class: Class, guard: G) -> Self {
        Self { guard, held: HeldLock::note(class) }
    }
}

impl<G: Deref> Deref for Guard<G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Guard<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

fn of_mutex<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn of_mutex_at_once<T>(mutex: &Mutex<T>) -> Option<std::sync::MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl<T> Lock for Mutex<T> {
    type Guard<'a>
        = MutexGuard<'a, T>
    where
        T: 'a;

    fn guard(&self) -> MutexGuard<'_, T> {
        Guard::after(Class::guarding::<T>(), || of_mutex(self))
    }

    fn guard_at_once(&self) -> Option<MutexGuard<'_, T>> {
        of_mutex_at_once(self).map(|guard| Guard::at_once(Class::guarding::<T>(), guard))
    }
}

/// Takes a lock for reading, even if its last holder panicked.
pub fn locked_to_read<T>(lock: &RwLock<T>) -> Guard<RwLockReadGuard<'_, T>> {
    Guard::after(Class::guarding::<T>(), || lock.read().unwrap_or_else(PoisonError::into_inner))
}

/// Takes a lock for writing, even if its last holder panicked.
pub fn locked_to_write<T>(lock: &RwLock<T>) -> Guard<RwLockWriteGuard<'_, T>> {
    Guard::after(Class::guarding::<T>(), || lock.write().unwrap_or_else(PoisonError::into_inner))
}

/// Returns the value of a cell. The first call makes it; other calls wait for that one, as for a lock.
pub fn made_once<T>(cell: &OnceLock<T>, make: impl FnOnce() -> T) -> &T {
    match cell.get() {
        Some(made) => made,
        None => {
            let _making = Guard::after(Class::guarding::<T>(), || ());
            cell.get_or_init(make)
        }
    }
}

/// Waits until another thread signals a condition; the lock is free meanwhile.
pub fn wait<'a, T>(condition: &Condvar, lock: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    let Guard { guard, held } = lock;
    Guard { guard: condition.wait(guard).unwrap_or_else(PoisonError::into_inner), held }
}

/// Waits as [`wait`] does, but no longer than `patience`. Returns true if that time is over.
pub fn wait_within<'a, T>(
    condition: &Condvar,
    lock: MutexGuard<'a, T>,
    patience: Duration,
) -> (MutexGuard<'a, T>, bool) {
    let Guard { guard, held } = lock;
    let (guard, slice) = condition.wait_timeout(guard, patience).unwrap_or_else(PoisonError::into_inner);
    (Guard { guard, held }, slice.timed_out())
}

/// Waits while `is_so`, as [`wait`] does.
pub fn wait_while<'a, T>(
    condition: &Condvar,
    mut lock: MutexGuard<'a, T>,
    mut is_so: impl FnMut(&mut T) -> bool,
) -> MutexGuard<'a, T> {
    while is_so(&mut lock) {
        lock = wait(condition, lock);
    }
    lock
}

/// Waits while `is_so`, as [`wait`] does, but no longer than `patience`. Returns true if that time is over.
pub fn wait_while_within<'a, T>(
    condition: &Condvar,
    lock: MutexGuard<'a, T>,
    patience: Duration,
    is_so: impl FnMut(&mut T) -> bool,
) -> (MutexGuard<'a, T>, bool) {
    let Guard { guard, held } = lock;
    let waited = condition.wait_timeout_while(guard, patience, is_so);
    let (guard, slice) = waited.unwrap_or_else(PoisonError::into_inner);
    (Guard { guard, held }, slice.timed_out())
}

/// A mutex with a rank.
#[derive(Debug)]
pub struct RankedMutex<T> {
    rank: Rank,
    mutex: Mutex<T>,
}

impl<T> RankedMutex<T> {
    /// Returns a mutex with the given rank.
    pub fn new(rank: Rank, value: T) -> Self {
        Self { rank, mutex: Mutex::new(value) }
    }
}

impl<T> Lock for RankedMutex<T> {
    type Guard<'a>
        = MutexGuard<'a, T>
    where
        T: 'a;

    fn guard(&self) -> Self::Guard<'_> {
        Guard::ranked(self.rank, || of_mutex(&self.mutex))
    }

    fn guard_at_once(&self) -> Option<Self::Guard<'_>> {
        of_mutex_at_once(&self.mutex).map(|guard| Guard::at_once(Class::Ranked(self.rank), guard))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_taken_in_their_order() {
        let editor = RankedMutex::new(Rank::Editor, 1);
        let bytes = RankedMutex::new(Rank::FileBytes, 2);
        for _ in 0..2 {
            let first = locked(&editor);
            assert_eq!(*first + *locked(&bytes), 3);
        }
        drop(locked(&bytes));
        drop(locked(&editor));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "Editor is locked after FileBytes")]
    fn another_order_panics() {
        let editor = RankedMutex::new(Rank::Editor, ());
        let bytes = RankedMutex::new(Rank::FileBytes, ());
        let _first = locked(&bytes);
        let _second = locked(&editor);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "Overlay is locked after Overlay")]
    fn the_same_rank_twice_panics() {
        let one = RankedMutex::new(Rank::Overlay, ());
        let other = RankedMutex::new(Rank::Overlay, ());
        let _first = locked(&one);
        let _second = locked(&other);
    }

    #[test]
    fn a_thread_that_does_not_wait_may_take_any() {
        let editor = RankedMutex::new(Rank::Editor, ());
        let bytes = RankedMutex::new(Rank::FileBytes, ());
        let _first = locked(&bytes);
        assert!(locked_at_once(&editor).is_some());
        let is_free =
            std::thread::scope(|scope| scope.spawn(|| locked_at_once(&bytes).is_some()).join().unwrap());
        assert!(!is_free);
    }

    /// Guarded by no other lock.
    struct Own<const N: u8>;

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "Own<1>\") is locked while")]
    fn a_circle_of_locks_without_a_rank_panics() {
        let one = Mutex::new(Own::<1>);
        let two = Mutex::new(Own::<2>);
        let three = Mutex::new(Own::<3>);
        for _ in 0..2 {
            let _first = locked(&one);
            let _second = locked(&two);
        }
        {
            let _second = locked(&two);
            let _third = locked(&three);
        }
        let _third = locked(&three);
        let _first = locked(&one);
    }
}
