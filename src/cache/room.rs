//! Memory of work in flight.
//!
//! Work that is done ahead is not begun where there is no room. Work that a reader waits for is begun when
//! there is, or when no other such work is under way: so it always goes on, whatever it takes. A thread that
//! does such work and comes to more of it (a stream within a stream), or that others may wait for, never
//! waits: who holds room and waits for room held by others who do the same would wait for ever.

use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

thread_local! {
    /// How many reservations this thread works under.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// What is reserved.
pub(super) struct Room {
    budget: u64,
    taken: Mutex<Taken>,
    freed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    ahead: u64,
    demanded: u64,
    /// How many readers' work it is.
    demands: usize,
}

impl Taken {
    fn all(self) -> u64 {
        self.ahead.saturating_add(self.demanded)
    }
}

impl Room {
    pub(super) fn new(budget: u64) -> Self {
        Self { budget, taken: Mutex::default(), freed: Condvar::new() }
    }

    pub(super) fn reserved(&self) -> u64 {
        self.taken().all()
    }

    /// Room for work ahead, as long as all work in flight takes no more than half of the budget.
    pub(super) fn reserve(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        let mut taken = self.taken();
        taken.all().checked_add(bytes).filter(|all| *all <= self.budget / 2)?;
        taken.ahead += bytes;
        Some(Reservation { room: self.clone(), bytes, demanded: false })
    }

    /// Room for work that is waited for; `aside` is what else takes up some of the budget.
    pub(super) fn demand(self: &Arc<Self>, bytes: u64, aside: impl Fn() -> u64) -> Reservation {
        let may_wait = HELD.get() == 0;
        let mut taken = self.taken();
        while may_wait
            && taken.demands > 0
            && taken.all().saturating_add(bytes).saturating_add(aside()) > self.budget
        {
            taken = self.freed.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        taken.demanded = taken.demanded.saturating_add(bytes);
        taken.demands += 1;
        HELD.set(HELD.get() + 1);
        Reservation { room: self.clone(), bytes, demanded: true }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.taken().fmt(out)
    }
}

/// Room for work in flight, until it is dropped; one that was demanded, by the thread that demanded it.
#[derive(Debug)]
pub(crate) struct Reservation {
    room: Arc<Room>,
    bytes: u64,
    demanded: bool,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut taken = self.room.taken();
        if self.demanded {
            taken.demanded = taken.demanded.saturating_sub(self.bytes);
            taken.demands -= 1;
            HELD.set(HELD.get().saturating_sub(1));
        } else {
            taken.ahead = taken.ahead.saturating_sub(self.bytes);
        }
        drop(taken);
        self.room.freed.notify_all();
    }
}

/// A job for which room was made before, so that it waits for none.
pub(super) fn holding<T>(job: impl FnOnce() -> T) -> impl FnOnce() -> T {
    struct Held;
    impl Drop for Held {
        fn drop(&mut self) {
            HELD.set(HELD.get().saturating_sub(1));
        }
    }
    move || {
        HELD.set(HELD.get() + 1);
        let _held = Held;
        job()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn who_demands_waits_for_others_unless_he_holds_some_and_never_for_himself() {
        let room = &Arc::new(Room::new(100));
        let first = room.demand(90, || 0);
        let ((send, done), (went, goes)) = (mpsc::channel(), mpsc::channel());
        std::thread::scope(|scope| {
            scope.spawn(move || {
                went.send(()).unwrap();
                drop(room.demand(20, || 0));
                send.send("waited").unwrap();
            });
            goes.recv().unwrap();
            // This thread holds some: it does not wait.
            drop(room.demand(1000, || 0));
            assert!(done.try_recv().is_err());
            drop(first);
            assert_eq!(done.recv().unwrap(), "waited");
        });
        // One alone may take whatever it needs.
        drop(room.demand(u64::MAX, || 0));
        assert_eq!(room.reserved(), 0);
    }

    #[test]
    fn a_job_that_has_room_does_not_wait_for_more() {
        let room = Arc::new(Room::new(0));
        let _first = room.demand(10, || 0);
        let theirs = room.clone();
        let job = holding(move || drop(theirs.demand(10, || 0)));
        std::thread::spawn(job).join().unwrap();
    }
}
