//! Locks that survive a panic, and the order in which a thread takes them.
//!
//! A thread that holds a [`RankedMutex`] only takes locks of a higher [`Rank`], which prevents deadlocks. A
//! debug build asserts it. Locks without a rank guard one module's state: no other lock is taken while they
//! are held.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

impl<T> Lock for Mutex<T> {
    type Guard<'a>
        = MutexGuard<'a, T>
    where
        T: 'a;

    fn guard(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn guard_at_once(&self) -> Option<MutexGuard<'_, T>> {
        match self.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
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
        = Ranked<MutexGuard<'a, T>>
    where
        T: 'a;

    fn guard(&self) -> Self::Guard<'_> {
        Ranked::after(self.rank, || locked(&self.mutex))
    }

    fn guard_at_once(&self) -> Option<Self::Guard<'_>> {
        // A thread that does not wait can't be part of a deadlock.
        let guard = locked_at_once(&self.mutex)?;
        Some(Ranked { guard, _held: HeldRank::note(self.rank) })
    }
}

/// A guard of a lock with a rank.
#[derive(Debug)]
pub struct Ranked<G> {
    guard: G,
    _held: HeldRank,
}

impl<G> Ranked<G> {
    /// Takes a lock of a rank; a debug build asserts that this thread holds only lower ranks.
    pub fn after(rank: Rank, take: impl FnOnce() -> G) -> Self {
        HeldRank::check(rank);
        let guard = take();
        Self { guard, _held: HeldRank::note(rank) }
    }
}

impl<G: Deref> Deref for Ranked<G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Ranked<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

/// A rank that this thread holds, recorded in a debug build.
#[cfg(debug_assertions)]
#[derive(Debug)]
struct HeldRank(Rank);

#[cfg(debug_assertions)]
thread_local! {
    static HELD: std::cell::RefCell<Vec<Rank>> = const { std::cell::RefCell::new(Vec::new()) };
}

#[cfg(debug_assertions)]
impl HeldRank {
    fn check(rank: Rank) {
        let highest = HELD.with_borrow(|held| held.iter().max().copied());
        assert!(highest.is_none_or(|highest| highest < rank), "{rank:?} is locked after {highest:?}");
    }

    fn note(rank: Rank) -> Self {
        HELD.with_borrow_mut(|held| held.push(rank));
        Self(rank)
    }
}

#[cfg(debug_assertions)]
impl Drop for HeldRank {
    fn drop(&mut self) {
        // An ending thread may have dropped its list already.
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            if let Some(place) = held.iter().rposition(|rank| *rank == self.0) {
                held.remove(place);
            }
        });
    }
}

#[cfg(not(debug_assertions))]
#[derive(Debug)]
struct HeldRank;

#[cfg(not(debug_assertions))]
impl HeldRank {
    fn check(_: Rank) {}

    fn note(_: Rank) -> Self {
        Self
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
    #[should_panic(expected = "Editor is locked after Some(FileBytes)")]
    fn another_order_panics() {
        let editor = RankedMutex::new(Rank::Editor, ());
        let bytes = RankedMutex::new(Rank::FileBytes, ());
        let _first = locked(&bytes);
        let _second = locked(&editor);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "Overlay is locked after Some(Overlay)")]
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
}
