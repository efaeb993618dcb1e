//! The memory for work in progress.
//!
//! Read-ahead starts only when memory is free. A foreground decode starts when memory is free or no other
//! foreground decode holds memory. At least one of them therefore always makes progress, however much memory
//! it needs. A thread that holds a reservation never waits for another one, such as that for a stream within
//! a stream. Neither does a thread that others may wait for: a job reserves its memory before it is
//! registered ([`MemoryBudget::demand_at_once`]), and a thread that holds a lock declares it ([`Awaited`]).
//! Otherwise a thread that holds memory and one that waits for memory could deadlock.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex};

use crate::sync::{Awaited, MutexGuard, locked, wait};

/// The budget, and the reservations against it.
pub(super) struct MemoryBudget {
    budget: u64,
    taken: Mutex<Taken>,
    freed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    ahead: u64,
    demanded: u64,
    /// Number of foreground decodes that hold a reservation.
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

    /// Reserves memory for read-ahead if all work in progress then takes at most half of the budget.
    pub(super) fn reserve(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        let mut taken = self.taken();
        taken.all().checked_add(bytes).filter(|all| *all <= self.budget / 2)?;
        taken.ahead += bytes;
        Some(Reservation { room: self.clone(), bytes, awaited: None })
    }

    /// Reserves memory for a foreground decode; waits until the memory is free or no other foreground decode
    /// holds any. `aside` returns other memory that counts against the budget.
    pub(super) fn demand(self: &Arc<Self>, bytes: u64, aside: impl Fn() -> u64) -> Reservation {
        let mut taken = self.taken();
        while self.must_wait(&taken, bytes, &aside) {
            taken = wait(&self.freed, taken);
        }
        self.take(&mut taken, bytes)
    }

    /// Reserves memory for a foreground decode; `None` if it would have to wait.
    pub(super) fn demand_at_once(
        self: &Arc<Self>,
        bytes: u64,
        aside: impl Fn() -> u64,
    ) -> Option<Reservation> {
        let mut taken = self.taken();
        (!self.must_wait(&taken, bytes, &aside)).then(|| self.take(&mut taken, bytes))
    }

    fn must_wait(&self, taken: &Taken, bytes: u64, aside: &impl Fn() -> u64) -> bool {
        !Awaited::is_now()
            && taken.demands > 0
            && taken.all().saturating_add(bytes).saturating_add(aside()) > self.budget
    }

    fn take(self: &Arc<Self>, taken: &mut Taken, bytes: u64) -> Reservation {
        taken.demanded = taken.demanded.saturating_add(bytes);
        taken.demands += 1;
        Reservation { room: self.clone(), bytes, awaited: Some(Awaited::begin()) }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        locked(&self.taken)
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.taken().fmt(out)
    }
}

/// A reservation of memory, which ends when the value is dropped. A foreground reservation must be dropped by
/// the thread that made it.
#[derive(Debug)]
pub struct Reservation {
    room: Arc<MemoryBudget>,
    bytes: u64,
    /// Present in a foreground reservation, for whose memory other threads may wait.
    awaited: Option<Awaited>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut taken = self.room.taken();
        if self.awaited.is_some() {
            taken.demanded = taken.demanded.saturating_sub(self.bytes);
            taken.demands -= 1;
        } else {
            taken.ahead = taken.ahead.saturating_sub(self.bytes);
        }
        drop(taken);
        self.room.freed.notify_all();
    }
}

/// Wraps a job whose memory is already reserved, so that it never waits for another reservation.
pub(super) fn holding<T>(job: impl FnOnce() -> T) -> impl FnOnce() -> T {
    move || {
        let _awaited = Awaited::begin();
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
        let (send, done) = mpsc::channel();
        let (went, goes) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                went.send(()).unwrap();
                drop(room.demand(20, || 0));
                send.send("waited").unwrap();
            });
            goes.recv().unwrap();
            // This thread holds a reservation, so it does not wait.
            drop(room.demand(1000, || 0));
            assert!(done.try_recv().is_err());
            drop(first);
            assert_eq!(done.recv().unwrap(), "waited");
        });
        // A decode that runs alone may take as much memory as it needs.
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
