//! Locks that outlive a panic, and the order in which a thread takes them.
//!
//! A thread that holds a [`RankedMutex`] takes only those of a higher [`Rank`]. A debug build asserts it, so that no
//! two threads can wait for each other. Locks without a rank guard one module's state: no other lock is taken under them.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

thread_local! {
    /// For how many reasons other threads may wait for this one.
    static AWAITED: Cell<u32> = const { Cell::new(0) };
}

/// Exists while other threads may wait for this one: it holds a lock or memory that they want. The thread that began it
/// drops it.
#[derive(Debug)]
pub(crate) struct Awaited(());

impl Awaited {
    pub(crate) fn begin() -> Self {
        AWAITED.set(AWAITED.get() + 1);
        Self(())
    }

    /// True if other threads may wait for this one, so that it must not wait for what they may hold.
    pub(crate) fn is_now() -> bool {
        AWAITED.get() > 0
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        AWAITED.set(AWAITED.get().saturating_sub(1));
    }
}

/// The locks of a folder and of the file behind it, in the order in which a thread takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// The overlay of a folder, if there is one.
    Folder,
    /// The editor of an overlay: held for the whole of a save.
    Editor,
    /// The names and the state of an overlay.
    Overlay,
    /// The text of an overlay's file.
    Body,
    /// The file behind a folder.
    CurrentFile,
    /// Held while a file is parsed, and for the whole of a save.
    Parsing,
    /// The state of a mounted file.
    MountedFile,
    /// The generations that are kept open.
    OpenFiles,
    /// Where the bytes of a file's generations are.
    FileBytes,
}

/// A lock that [`locked`] takes.
pub(crate) trait Lock {
    /// Its guard.
    type Guard<'a>
    where
        Self: 'a;

    /// Takes it, also where its last holder panicked: every state that it guards is a valid one.
    fn guard(&self) -> Self::Guard<'_>;

    /// Takes it unless another thread holds it.
    fn guard_at_once(&self) -> Option<Self::Guard<'_>>;
}

/// Takes a lock, also where its last holder panicked.
pub(crate) fn locked<L: Lock>(lock: &L) -> L::Guard<'_> {
    lock.guard()
}

/// Takes a lock, also where its last holder panicked, unless another thread holds it.
pub(crate) fn locked_at_once<L: Lock>(lock: &L) -> Option<L::Guard<'_>> {
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

/// A mutex with a place in the order.
#[derive(Debug)]
pub(crate) struct RankedMutex<T> {
    rank: Rank,
    mutex: Mutex<T>,
}

impl<T> RankedMutex<T> {
    pub(crate) fn new(rank: Rank, value: T) -> Self {
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
        // A thread that does not wait can't be part of a circle.
        let guard = locked_at_once(&self.mutex)?;
        Some(Ranked { guard, _held: HeldRank::note(self.rank) })
    }
}

/// A guard of a lock that has a rank.
#[derive(Debug)]
pub(crate) struct Ranked<G> {
    guard: G,
    _held: HeldRank,
}

impl<G> Ranked<G> {
    /// Takes a lock of a rank; a debug build asserts that its turn has come.
    pub(crate) fn after(rank: Rank, take: impl FnOnce() -> G) -> Self {
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

/// A rank that this thread holds, in a debug build.
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
        // A thread that ends has dropped its list already.
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
        let (editor, bytes) = (RankedMutex::new(Rank::Editor, 1), RankedMutex::new(Rank::FileBytes, 2));
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
        let (editor, bytes) = (RankedMutex::new(Rank::Editor, ()), RankedMutex::new(Rank::FileBytes, ()));
        let _first = locked(&bytes);
        let _second = locked(&editor);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "Overlay is locked after Some(Overlay)")]
    fn the_same_rank_twice_panics() {
        let (one, other) = (RankedMutex::new(Rank::Overlay, ()), RankedMutex::new(Rank::Overlay, ()));
        let _first = locked(&one);
        let _second = locked(&other);
    }

    #[test]
    fn a_thread_that_does_not_wait_may_take_any() {
        let (editor, bytes) = (RankedMutex::new(Rank::Editor, ()), RankedMutex::new(Rank::FileBytes, ()));
        let _first = locked(&bytes);
        assert!(locked_at_once(&editor).is_some());
        let is_free =
            std::thread::scope(|scope| scope.spawn(|| locked_at_once(&bytes).is_some()).join().unwrap());
        assert!(!is_free);
    }
}
