//! Work on many files at once, with results in the order of the files.

use std::any::Any;
use std::collections::VecDeque;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::Found;
use seekable::sync::locked;

/// Number of files in progress per thread, so that a large file does not hold up the others.
const AHEAD: usize = 8;
/// Default number of threads once a file on a server is found. Threads that read from servers mostly wait.
const WAITING: usize = 16;

/// The result for an item, or the panic that it ended with.
type Outcome<R> = Result<R, Box<dyn Any + Send>>;

/// An item, and the channel for its result.
type Job<T, R> = (T, SyncSender<Outcome<R>>);

/// Returns the number of threads once a file is found: `jobs`, if that is given.
pub fn threads_for(jobs: Option<usize>) -> impl Fn(&Found) -> usize {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    move |file| match file {
        Found::Elsewhere(_) => jobs.unwrap_or(WAITING),
        _ => jobs.unwrap_or(cores),
    }
}

/// Calls `work` for each item on other threads, and `report` with each result on this thread, in the order of the
/// items. Before an item is begun, there are at least `threads(item)` threads.
///
/// # Errors
/// As of `report`. Items that were not begun are then left out.
pub fn each<T: Send, R: Send, E>(
    items: impl IntoIterator<Item = T>,
    threads: impl Fn(&T) -> usize,
    work: &(dyn Fn(T) -> R + Sync),
    mut report: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    let (to_threads, jobs) = sync_channel::<Job<T, R>>(0);
    let jobs = Mutex::new(jobs);
    thread::scope(|scope| {
        // Dropped at the end of this closure, so that the threads end.
        let to_threads = to_threads;
        let mut started = 0;
        let mut waiting: VecDeque<Receiver<Outcome<R>>> = VecDeque::new();
        for item in items {
            while started < threads(&item) {
                scope.spawn(|| run(&jobs, work));
                started += 1;
            }
            while let Some(first) = waiting.front() {
                let is_full = waiting.len() >= started * AHEAD;
                let ended = if is_full { first.recv().ok() } else { first.try_recv().ok() };
                let Some(outcome) = ended else { break };
                waiting.pop_front();
                report(outcome.unwrap_or_else(|panic| resume_unwind(panic)))?;
            }
            let (to_report, result) = sync_channel(1);
            waiting.push_back(result);
            // A thread takes the item before this returns, so that none is begun after an error.
            if to_threads.send((item, to_report)).is_err() {
                break;
            }
        }
        for outcome in waiting.iter().filter_map(|result| result.recv().ok()) {
            report(outcome.unwrap_or_else(|panic| resume_unwind(panic)))?;
        }
        Ok(())
    })
}

/// Works on items until there are no more.
fn run<T, R>(jobs: &Mutex<Receiver<Job<T, R>>>, work: &dyn Fn(T) -> R) {
    loop {
        let job = locked(jobs).recv();
        let Ok((item, to_report)) = job else { return };
        // The send fails only after an error of a report.
        let _ = to_report.send(catch_unwind(AssertUnwindSafe(|| work(item))));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn results_come_in_order_until_one_can_not_be_reported() {
        let mut seen = Vec::new();
        let report = |result: (u64, u64)| {
            seen.push(result);
            Ok::<_, ()>(())
        };
        each(0..1000, |_| 7, &|n| (n, n * n), report).unwrap();
        assert_eq!(seen, (0..1000).map(|n| (n, n * n)).collect::<Vec<_>>());
        let fails = |n: u64| if n == 5 { Err("no") } else { Ok(()) };
        assert_eq!(each(0..1000, |_| 7, &|n| n, fails), Err("no"));
    }

    #[test]
    fn a_slow_item_bounds_the_results_that_wait_for_it() {
        let begun = AtomicU64::new(0);
        let (go, goes) = sync_channel::<()>(0);
        let goes = Mutex::new(goes);
        let work = |n: u64| {
            begun.fetch_max(n, Ordering::SeqCst);
            if n == 0 {
                goes.lock().unwrap().recv().unwrap();
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| each(0..1000, |_| 3, &work, |()| Ok::<_, ()>(())).unwrap());
            while begun.load(Ordering::SeqCst) < 20 {
                thread::yield_now();
            }
            assert!(begun.load(Ordering::SeqCst) < 3 * AHEAD as u64);
            go.send(()).unwrap();
        });
        assert_eq!(begun.into_inner(), 999);
    }

    #[test]
    #[should_panic(expected = "on purpose")]
    fn a_panic_is_passed_on() {
        let _ = each(0..100, |_| 2, &|n| assert!(n != 50, "on purpose"), |()| Ok::<_, ()>(()));
    }
}
