//! Worker threads for slow jobs, so that other requests are answered meanwhile.
//!
//! The threads start with the first job: a daemon forks between creating its file system and serving it, and
//! threads do not survive a fork. While a job waits for another one ([`while_waiting`]), an extra thread
//! takes its place, so that as many threads work as there are cores.

pub mod caller;
pub mod turns;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::sync::{MutexGuard, locked, wait, wait_while_within};

type Job = Box<dyn FnOnce() + Send>;

/// Maximum number of extra threads that replace waiting ones. Beyond this number, waiting threads are not
/// replaced.
const REPLACEMENTS: usize = 512;

/// A bounded number of threads, and their job queue.
#[derive(Debug)]
pub struct Workers {
    shared: Arc<SharedByWorkers>,
}

thread_local! {
    /// The workers to which this thread belongs.
    static WORKS_FOR: RefCell<Option<Arc<SharedByWorkers>>> = const { RefCell::new(None) };
}

struct SharedByWorkers {
    name: &'static str,
    bound: usize,
    state: Mutex<WorkersState>,
    more: Condvar,
    /// Signalled when no job is queued or running.
    quiet: Condvar,
}

#[derive(Default)]
struct WorkersState {
    waiting: VecDeque<Job>,
    threads: usize,
    idle: usize,
    /// Number of threads that wait for another job.
    resting: usize,
    closed: bool,
}

impl WorkersState {
    fn is_busy(&self) -> bool {
        !self.waiting.is_empty() || self.idle < self.threads
    }

    /// Returns the number of threads that do not wait for another job.
    fn at_work(&self) -> usize {
        self.threads - self.resting.min(REPLACEMENTS)
    }
}

impl std::fmt::Debug for SharedByWorkers {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.lock();
        let mut out = out.debug_struct("SharedByWorkers");
        out.field("waiting", &state.waiting.len()).field("threads", &state.threads).finish_non_exhaustive()
    }
}

impl SharedByWorkers {
    fn lock(&self) -> MutexGuard<'_, WorkersState> {
        locked(&self.state)
    }

    /// Starts a thread if a queued job needs one and the bound allows it. False if the system refuses.
    fn start_thread(self: &Arc<Self>, state: &mut WorkersState) -> bool {
        if state.idle >= state.waiting.len() || state.at_work() >= self.bound {
            return true;
        }
        let shared = self.clone();
        let started = std::thread::Builder::new().name(self.name.into()).spawn(move || shared.work()).is_ok();
        state.threads += usize::from(started);
        started
    }

    /// Runs jobs until the workers are closed: the main loop of a thread.
    fn work(self: Arc<Self>) {
        WORKS_FOR.set(Some(self.clone()));
        let mut state = self.lock();
        loop {
            if state.at_work() > self.bound {
                // This thread is one too many: a thread that it stood in for has resumed.
                state.threads -= 1;
                if !state.is_busy() {
                    self.quiet.notify_all();
                }
                return;
            }
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
                state = wait(&self.more, state);
                state.idle -= 1;
            }
        }
    }
}

impl Workers {
    /// Creates workers with at most `bound` threads, called `name`.
    pub fn new(name: &'static str, bound: usize) -> Self {
        let (state, more, quiet) = Default::default();
        Self { shared: Arc::new(SharedByWorkers { name, bound: bound.max(1), state, more, quiet }) }
    }

    /// Schedules a job. If no thread can be started, the job runs on this thread.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        if let Some(job) = self.schedule(Box::new(job)) {
            job();
        }
    }

    /// Schedules a job, or drops it and returns false if no thread can be started. For a caller that holds a
    /// lock which the job takes.
    pub fn try_run(&self, job: impl FnOnce() + Send + 'static) -> bool {
        self.schedule(Box::new(job)).is_none()
    }

    /// Schedules a job, or returns it if there is no thread for it.
    fn schedule(&self, job: Job) -> Option<Job> {
        let mut state = self.shared.lock();
        state.waiting.push_back(job);
        // If no thread can be started, an existing thread takes the job.
        if !self.shared.start_thread(&mut state) && state.threads == 0 {
            return state.waiting.pop_back();
        }
        drop(state);
        self.shared.more.notify_one();
        None
    }

    /// True if a job is queued or running.
    pub fn is_busy(&self) -> bool {
        self.shared.lock().is_busy()
    }

    /// Waits until all jobs are done, at most `patience`.
    pub fn wait(&self, patience: Duration) {
        let state = self.shared.lock();
        wait_while_within(&self.shared.quiet, state, patience, |state| state.is_busy());
    }
}

/// Calls `wait`, which waits for another job or for a server. If this is a worker thread, an extra thread
/// works in its place meanwhile.
pub fn while_waiting<T>(wait: impl FnOnce() -> T) -> T {
    turns::without_turn(|| {
        // If this thread waits already, an extra thread has taken its place.
        let Some(shared) = WORKS_FOR.take() else { return wait() };
        let mut state = shared.lock();
        state.resting += 1;
        shared.start_thread(&mut state);
        drop(state);
        let _resting = Resting(shared);
        wait()
    })
}

/// A guard that exists while a thread waits in [`while_waiting`]. A panic drops it, too.
struct Resting(Arc<SharedByWorkers>);

impl Drop for Resting {
    fn drop(&mut self) {
        self.0.lock().resting -= 1;
        WORKS_FOR.set(Some(self.0.clone()));
    }
}

impl Drop for Workers {
    /// Ends the threads once the queue is empty; does not wait for running jobs.
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
    fn a_thread_works_in_the_place_of_one_that_waits_and_ends_after_it() {
        let workers = Workers::new("test", 1);
        let (begun, begins) = mpsc::channel();
        let (send, receive) = mpsc::channel();
        let (done, end) = mpsc::channel();
        workers.run(move || {
            begun.send(()).unwrap();
            done.send(while_waiting(|| receive.recv().unwrap())).unwrap();
        });
        begins.recv().unwrap();
        workers.run(move || send.send(7).unwrap());
        assert_eq!(end.recv_timeout(Duration::from_secs(60)).unwrap(), 7);
        let (done, all) = mpsc::channel();
        for n in 0..10 {
            let done = done.clone();
            workers.run(move || done.send(n).unwrap());
        }
        drop(done);
        assert_eq!(all.iter().sum::<i32>(), 45);
        workers.wait(Duration::from_secs(60));
        let state = workers.shared.lock();
        assert_eq!((state.at_work(), state.resting), (1, 0));
        drop(state);
        let (done, end) = mpsc::channel();
        workers.run(move || while_waiting(|| while_waiting(|| done.send(()).unwrap())));
        end.recv().unwrap();
        assert!(workers.shared.lock().resting <= 1, "a wait within a wait counts once");
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
