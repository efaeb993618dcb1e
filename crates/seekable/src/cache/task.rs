//! A job that a worker thread may complete before its result is needed.
//!
//! If no thread has started the job when the result is needed, the reader runs it itself. Waiting for a free
//! thread could deadlock, as all threads may wait for other jobs. A task that is dropped before its start is
//! not run.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex};

use crate::sync::{MutexGuard, locked, wait_while};
use crate::workers::{Workers, while_waiting};

/// A job, and later its result.
pub struct Task<T>(Arc<Slot<T>>);

struct Slot<T> {
    state: Mutex<TaskState<T>>,
    done: Condvar,
}

enum TaskState<T> {
    Waiting(Box<dyn FnOnce() -> T + Send>),
    Running,
    Done(T),
    /// The result was taken, or lost in a panic.
    Gone,
}

impl<T: Send + 'static> Task<T> {
    /// Schedules a job on `workers`.
    pub fn new(workers: &Workers, job: impl FnOnce() -> T + Send + 'static) -> Self {
        let state = Mutex::new(TaskState::Waiting(Box::new(job)));
        let slot = Arc::new(Slot { state, done: Condvar::new() });
        let theirs = Arc::downgrade(&slot);
        workers.run(move || {
            if let Some(slot) = theirs.upgrade() {
                slot.work();
            }
        });
        Self(slot)
    }

    /// True if a thread has started the job.
    pub fn has_begun(&self) -> bool {
        !matches!(*self.0.state(), TaskState::Waiting(_))
    }

    /// Returns the result, after running the job here or waiting for it; `None` if the job panicked.
    pub fn take(self) -> Option<T> {
        self.0.work();
        let mut state = self.0.state();
        loop {
            match std::mem::replace(&mut *state, TaskState::Gone) {
                TaskState::Done(result) => return Some(result),
                TaskState::Gone => return None,
                other => *state = other,
            }
            drop(state);
            state = while_waiting(|| self.0.wait());
        }
    }
}

impl<T> Slot<T> {
    fn state(&self) -> MutexGuard<'_, TaskState<T>> {
        locked(&self.state)
    }

    /// Waits until the job has ended.
    fn wait(&self) -> MutexGuard<'_, TaskState<T>> {
        let is_running = |state: &mut TaskState<T>| matches!(state, TaskState::Running);
        wait_while(&self.done, self.state(), is_running)
    }

    /// Runs the job unless a thread has started it.
    fn work(&self) {
        let mut state = self.state();
        match std::mem::replace(&mut *state, TaskState::Running) {
            TaskState::Waiting(job) => {
                drop(state);
                let mut ending = Ending { slot: self, result: None };
                ending.result = Some(job());
            }
            other => *state = other,
        }
    }
}

/// A guard that signals the end of the job on all paths, including panics.
struct Ending<'a, T> {
    slot: &'a Slot<T>,
    result: Option<T>,
}

impl<T> Drop for Ending<'_, T> {
    fn drop(&mut self) {
        *self.slot.state() = self.result.take().map_or(TaskState::Gone, TaskState::Done);
        self.slot.done.notify_all();
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Task").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    #[test]
    fn each_job_is_done_once_and_a_dropped_one_never() {
        let workers = Workers::new("test", 1);
        let (go, goes) = mpsc::channel::<()>();
        let done = Arc::new(AtomicUsize::new(0));
        let busy = Task::new(&workers, move || goes.recv().is_ok());
        while !busy.has_begun() {
            std::thread::yield_now();
        }
        let count = |n: usize| {
            let done = done.clone();
            Task::new(&workers, move || done.fetch_add(n, Ordering::Relaxed))
        };
        let here = count(1);
        let dropped = count(100);
        let there = count(10);
        assert_eq!((here.take(), done.load(Ordering::Relaxed)), (Some(0), 1));
        drop(dropped);
        go.send(()).unwrap();
        assert_eq!(busy.take(), Some(true));
        assert_eq!((there.take(), done.load(Ordering::Relaxed)), (Some(1), 11));
    }

    #[test]
    fn a_job_that_panics_leaves_nobody_waiting() {
        let workers = Workers::new("test", 1);
        let task: Task<()> = Task::new(&workers, || std::panic::resume_unwind(Box::new("on purpose")));
        while !matches!(*task.0.state(), TaskState::Gone) {
            std::thread::yield_now();
        }
        assert_eq!(task.take(), None);
    }
}
