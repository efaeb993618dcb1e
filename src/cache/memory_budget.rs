//! The memory that work in flight may take.
//!
//! Read-ahead starts only when memory is free. A foreground decode starts when memory is free or nothing else
//! runs, so it always makes progress, however much it takes. A thread that holds a reservation never blocks on
//! another one (a stream within a stream), nor does a thread that others may wait for. Otherwise threads that
//! hold memory could wait for each other for ever.

use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

thread_local! {
    /// How many reservations this thread holds.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// The budget, and what is reserved of it.
pub(super) struct MemoryBudget {
    budget: u64,
    taken: Mutex<Taken>,
    freed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    ahead: u64,
    demanded: u64,
    /// How many foreground decodes hold it.
    demands: usize,
}

impl Taken {
    fn all(self) -> u64 {
        self.ahead.saturating_add(self.demanded)
    }
}

impl MemoryBudget {
    pub(super) fn new(budget: u64) -> Self {
        Self { budget, taken: Mutex::default(), freed: Condvar::new() }
    }

    pub(super) fn reserved(&self) -> u64 {
        self.taken().all()
    }

    /// Reserves memory for read-ahead, if all work in flight then takes at most half of the budget.
    pub(super) fn reserve(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        let mut taken = self.taken();
        taken.all().checked_add(bytes).filter(|all| *all <= self.budget / 2)?;
        taken.ahead += bytes;
        Some(Reservation { room: self.clone(), bytes, demanded: false })
    }

    /// Reserves memory for a foreground decode, and waits for it; `aside` is what else takes up the budget.
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

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.taken().fmt(out)
    }
}

/// Memory that is reserved until this is dropped. The thread that demanded one drops it.
#[derive(Debug)]
pub(crate) struct Reservation {
    room: Arc<MemoryBudget>,
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

/// A job whose memory was reserved before, so that it never blocks on a reservation.
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
    fn a_demand_waits_for_other_threads_unless_its_own_holds_a_reservation() {
        let room = &Arc::new(MemoryBudget::new(100));
        let first = room.demand(90, || 0);
        let ((send, done), (went, goes)) = (mpsc::channel(), mpsc::channel());
        std::thread::scope(|scope| {
            scope.spawn(move || {
                went.send(()).unwrap();
                drop(room.demand(20, || 0));
                send.send("waited").unwrap();
            });
            goes.recv().unwrap();
            // This thread holds a reservation: it does not wait.
            drop(room.demand(1000, || 0));
            assert!(done.try_recv().is_err());
            drop(first);
            assert_eq!(done.recv().unwrap(), "waited");
        });
        // A decode that runs alone may take whatever it needs.
        drop(room.demand(u64::MAX, || 0));
        assert_eq!(room.reserved(), 0);
    }

    #[test]
    fn a_job_that_holds_a_reservation_does_not_wait_for_more() {
        let room = Arc::new(MemoryBudget::new(0));
        let _first = room.demand(10, || 0);
        let theirs = room.clone();
        let job = holding(move || drop(theirs.demand(10, || 0)));
        std::thread::spawn(job).join().unwrap();
    }
}
