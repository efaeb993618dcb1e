//! Turns for long jobs: as many threads as there are cores work on them at a time.
//!
//! Otherwise many large trees that are read at once would take all threads and all cores, and a small one
//! would wait for all of them. While a thread waits for its turn, an extra thread works in its place. While a
//! thread waits for another job or for a server, it gives its turn to another thread.

use std::cell::Cell;
use std::num::NonZeroUsize;
use std::sync::{Condvar, Mutex};

use super::while_waiting;
use crate::per_process::PerProcess;
use crate::sync::{locked, wait_while};

/// The smallest sizes in bytes of the jobs that need a turn. Each size has its own turns, so that large jobs
/// do not wait for very large ones.
const SIZES: [u64; 2] = [1 << 20, 16 << 20];

/// The turns of the jobs of each size.
static TURNS: PerProcess<[Turns; 2]> = PerProcess::new(|| [Turns::new(), Turns::new()]);

thread_local! {
    /// The turns of which this thread has one.
    static HELD: Cell<Option<&'static Turns>> = const { Cell::new(None) };
}

/// The number of turns that are taken.
#[derive(Debug)]
struct Turns {
    taken: Mutex<usize>,
    ended: Condvar,
}

/// Does a job that takes time in proportion to `size`, in bytes. A long job waits for its turn.
pub fn in_turn<T>(size: u64, job: impl FnOnce() -> T) -> T {
    let place = SIZES.iter().rposition(|least| size >= *least);
    match place.and_then(|place| TURNS.get().get(place)) {
        Some(turns) => turns.run(job),
        None => job(),
    }
}

/// Calls `wait` without this thread's turn, if it has one.
pub(super) fn without_turn<T>(wait: impl FnOnce() -> T) -> T {
    let Some(turns) = HELD.take() else { return wait() };
    turns.end();
    let result = wait();
    turns.take();
    result
}

impl Turns {
    const fn new() -> Self {
        Self { taken: Mutex::new(0), ended: Condvar::new() }
    }

    fn run<T>(&'static self, job: impl FnOnce() -> T) -> T {
        if HELD.get().is_some() {
            return job();
        }
        self.take();
        let _turn = Turn;
        job()
    }

    fn take(&'static self) {
        let most = std::thread::available_parallelism().map_or(2, NonZeroUsize::get).max(2);
        while_waiting(|| {
            let taken = locked(&self.taken);
            *wait_while(&self.ended, taken, |taken| *taken >= most) += 1;
        });
        HELD.set(Some(self));
    }

    fn end(&self) {
        *locked(&self.taken) -= 1;
        self.ended.notify_one();
    }
}

/// A guard that ends this thread's turn. A panic drops it, too.
struct Turn;

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = HELD.take() {
            turns.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workers::Workers;
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    #[test]
    fn jobs_that_wait_for_their_turn_hold_up_no_other_job() {
        let turns: &'static Turns = Box::leak(Box::new(Turns::new()));
        let workers = Workers::new("test", 1);
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let (done, all) = mpsc::channel();
        let jobs = 40 + std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
        for _ in 0..jobs {
            let gate = gate.clone();
            let done = done.clone();
            let wait = move || drop(gate.1.wait_while(gate.0.lock().unwrap(), |is_open| !*is_open).unwrap());
            // The first jobs keep their turns until the gate opens.
            workers.run(move || {
                turns.run(|| {
                    keeping_turn(wait);
                    done.send(true).unwrap();
                });
            });
        }
        for _ in 0..40 {
            let done = done.clone();
            workers.run(move || done.send(false).unwrap());
        }
        let others: Vec<_> = (0..40).map(|_| all.recv_timeout(Duration::from_secs(60)).unwrap()).collect();
        assert!(others.iter().all(|is_long| !is_long));
        *gate.0.lock().unwrap() = true;
        gate.1.notify_all();
        assert_eq!((0..jobs).filter(|_| all.recv_timeout(Duration::from_secs(60)).unwrap()).count(), jobs);
        workers.wait(Duration::from_secs(60));
        assert_eq!(*turns.taken.lock().unwrap(), 0);
    }

    /// Waits like a job that goes on working in its turn, but lets an extra thread work meanwhile.
    fn keeping_turn(wait: impl FnOnce()) {
        let turns = HELD.take();
        while_waiting(wait);
        HELD.set(turns);
    }

    #[test]
    fn a_thread_that_waits_gives_its_turn_to_another() {
        let turns: &'static Turns = Box::leak(Box::new(Turns::new()));
        let (send, receive) = mpsc::channel();
        let most = std::thread::available_parallelism().map_or(2, NonZeroUsize::get).max(2);
        let waiting: Vec<_> = (0..most)
            .map(|_| {
                let (go, gone) = mpsc::channel::<()>();
                let send = send.clone();
                let thread = std::thread::spawn(move || {
                    turns.run(|| {
                        send.send(()).unwrap();
                        while_waiting(|| gone.recv().unwrap());
                    });
                });
                (go, thread)
            })
            .collect();
        for _ in 0..most {
            receive.recv().unwrap();
        }
        turns.run(|| turns.run(|| ()));
        for (go, thread) in waiting {
            go.send(()).unwrap();
            thread.join().unwrap();
        }
        let panics =
            std::thread::spawn(move || turns.run(|| std::panic::resume_unwind(Box::new("on purpose"))));
        assert!(panics.join().is_err());
        assert_eq!(*turns.taken.lock().unwrap(), 0);
    }
}
