//! A few threads for long work, so that other requests are answered meanwhile.
//!
//! They start with the first job: a daemon forks between making its file system and serving it, and threads do
//! not survive that.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

type Job = Box<dyn FnOnce() + Send>;

/// A bounded number of threads, and the jobs that wait for one.
#[derive(Debug)]
pub(crate) struct Workers {
    name: &'static str,
    bound: usize,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    more: Condvar,
    /// No job waits or runs.
    quiet: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl State {
    fn is_busy(&self) -> bool {
        !self.waiting.is_empty() || self.idle < self.threads
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.lock();
        let mut out = out.debug_struct("Shared");
        out.field("waiting", &state.waiting.len()).field("threads", &state.threads).finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What each thread does.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.waiting.pop_front() {
                drop(state);
                if catch_unwind(AssertUnwindSafe(job)).is_err() {
                    tracing::error!("a job panicked: its request is answered with EIO");
                }
                state = self.lock();
            } else if state.closed {
                state.threads -= 1;
                return;
            } else {
                state.idle += 1;
                if !state.is_busy() {
                    self.quiet.notify_all();
                }
                state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }
}

impl Workers {
    /// At most `bound` threads, called `name`.
    pub(crate) fn new(name: &'static str, bound: usize) -> Self {
        Self { name, bound: bound.max(1), shared: Arc::default() }
    }

    /// Has a job done as soon as a thread is free. If none can be started the job is done here.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.shared.lock();
        state.waiting.push_back(Box::new(job));
        if state.idle < state.waiting.len() && state.threads < self.bound {
            let shared = self.shared.clone();
            match std::thread::Builder::new().name(self.name.into()).spawn(move || shared.work()) {
                Ok(_) => state.threads += 1,
                Err(_) if state.threads == 0 => {
                    if let Some(job) = state.waiting.pop_back() {
                        drop(state);
                        job();
                    }
                    return;
                }
                // The other threads will take it.
                Err(_) => {}
            }
        }
        drop(state);
        self.shared.more.notify_one();
    }

    /// Whether a job waits or runs.
    pub(crate) fn is_busy(&self) -> bool {
        self.shared.lock().is_busy()
    }

    /// Waits until all jobs are done, but no longer than that.
    pub(crate) fn wait(&self, patience: Duration) {
        let state = self.shared.lock();
        let _ = self.shared.quiet.wait_timeout_while(state, patience, |state| state.is_busy());
    }
}

impl Drop for Workers {
    /// Lets the threads end once nothing waits; a job that runs is not waited for.
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.more.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn all_jobs_are_done_by_no_more_threads_than_allowed_also_after_a_panic() {
        let workers = Workers::new("test", 2);
        let (done, all) = mpsc::channel();
        workers.run(|| std::panic::resume_unwind(Box::new("on purpose")));
        for n in 0..100 {
            let done = done.clone();
            workers.run(move || done.send(n).unwrap());
        }
        drop(done);
        workers.wait(Duration::from_secs(60));
        assert!(workers.shared.lock().waiting.is_empty());
        let mut seen: Vec<i32> = all.iter().collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
        assert!(workers.shared.lock().threads <= 2);
    }

    #[test]
    fn a_job_that_waits_for_another_does_not_hold_it_up() {
        let workers = Workers::new("test", 2);
        let (send, receive) = mpsc::channel();
        let (done, end) = mpsc::channel();
        workers.run(move || done.send(receive.recv().unwrap()).unwrap());
        workers.run(move || send.send(7).unwrap());
        assert_eq!(end.recv().unwrap(), 7);
    }
}
