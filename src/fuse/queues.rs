//! Threads for slow requests: requests about one file run in order, requests about
//! different files in parallel.
//!
//! All requests about a file that is being searched wait for the same work, so one thread for each file is
//! enough. A file system that does not answer blocks a bounded number of threads, and no request about files
//! on other file systems.
//!
//! When a signal ends a program, its request leaves the queue at once: the requests before it may wait for a
//! server.

use std::collections::{HashMap, HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use seekable::sync::locked;
use seekable::workers::caller::{self, is_thread_gone, on_behalf_of};
use seekable::workers::{Workers, while_waiting};

use crate::vfs::{Delay, Stalling};

/// The reason why a job is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// All jobs queued before this one are done.
    Next,
    /// A signal ends the program that waits for the job, so the job must end at once.
    Interrupted,
}

/// A queued request.
struct QueuedRequest {
    /// The program's thread that waits, if a signal may end the wait.
    caller: Option<u32>,
    run: Box<dyn FnOnce(Turn) + Send>,
}

/// Maximum number of files with requests that run in parallel.
const FILES: usize = 64;
/// Maximum number of files on one stalling file system with requests that run in parallel.
const MAX_STALLING: usize = 32;

/// The queued jobs.
#[derive(Default)]
struct Waiting {
    /// Jobs by file. Each file with a queue has a thread, or is in `Asked::held`.
    jobs: HashMap<u64, VecDeque<QueuedRequest>>,
    /// Stalling file systems with running jobs.
    stalling: HashMap<Stalling, Asked>,
    /// True while a thread looks for signals of the programs that wait.
    is_watched: bool,
}

impl Waiting {
    /// Returns the callers of all jobs that wait for their turn.
    fn callers(&self) -> HashSet<u32> {
        self.jobs.values().flatten().filter_map(|job| job.caller).collect()
    }

    /// Removes the jobs of some callers.
    fn remove(&mut self, callers: &HashSet<u32>) -> Vec<QueuedRequest> {
        let is_removed = |job: &QueuedRequest| job.caller.is_some_and(|caller| callers.contains(&caller));
        let mut removed = Vec::new();
        for queue in self.jobs.values_mut().filter(|queue| queue.iter().any(is_removed)) {
            let (out, kept) = std::mem::take(queue).into_iter().partition(is_removed);
            *queue = kept;
            removed.extend::<VecDeque<QueuedRequest>>(out);
        }
        removed
    }
}

/// The number of threads that work on files of a stalling file system, and the files that wait for a thread.
#[derive(Default)]
struct Asked {
    threads: usize,
    held: VecDeque<u64>,
}

/// A queue for each file with slow requests.
pub(super) struct Queues {
    workers: Workers,
    /// The thread that looks for signals.
    watch: Workers,
    waiting: Arc<Mutex<Waiting>>,
}

impl std::fmt::Debug for Queues {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Queues").field("files", &locked(&*self.waiting).jobs.len()).finish_non_exhaustive()
    }
}

impl Queues {
    /// Creates the queues; their threads are called `name`.
    pub(super) fn new(name: &'static str) -> Self {
        let workers = Workers::new(name, FILES);
        let watch = Workers::new("interrupt", 1);
        Self { workers, watch, waiting: Arc::default() }
    }

    /// Schedules a job on a file, after the jobs queued before on the same file.
    pub(super) fn run(&self, delay: Delay, job: impl FnOnce() + Send + 'static) {
        let arrived = Instant::now();
        let run = move |_| on_behalf_of(None, arrived, job);
        self.add(delay, QueuedRequest { caller: None, run: Box::new(run) });
    }

    /// Schedules a job for a program's thread. While the job waits for its turn, a signal ends the wait.
    pub(super) fn run_for(&self, caller: u32, delay: Delay, job: impl FnOnce(Turn) + Send + 'static) {
        let arrived = Instant::now();
        let run = move |turn| on_behalf_of(Some(caller), arrived, || job(turn));
        self.add(delay, QueuedRequest { caller: Some(caller), run: Box::new(run) });
    }

    fn add(&self, delay: Delay, job: QueuedRequest) {
        let Delay { file, stalling } = delay;
        {
            let mut waiting = locked(&*self.waiting);
            if let Some(queue) = waiting.jobs.get_mut(&file) {
                queue.push_back(job);
                return self.watch(&mut waiting);
            }
            waiting.jobs.insert(file, VecDeque::from([job]));
            if let Some(stalling) = stalling {
                let asked = waiting.stalling.entry(stalling).or_default();
                if asked.threads == MAX_STALLING {
                    asked.held.push_back(file);
                    return self.watch(&mut waiting);
                }
                asked.threads += 1;
            }
        }
        let waiting = self.waiting.clone();
        self.workers.run(move || match stalling {
            Some(stalling) => while_waiting(|| work_on_stalling(&waiting, file, stalling)),
            None => work(&waiting, file),
        });
    }

    /// Starts the thread that looks for signals, if it does not run. The thread ends once no job of
    /// a program waits. If it can't be started, no signal ends a wait until the next job is queued.
    fn watch(&self, waiting: &mut Waiting) {
        if std::mem::replace(&mut waiting.is_watched, true) {
            return;
        }
        let all = self.waiting.clone();
        let is_started = self.watch.try_run(move || {
            loop {
                std::thread::sleep(caller::LOOK);
                let callers = locked(&*all).callers();
                let ended: HashSet<u32> =
                    callers.into_iter().filter(|caller| is_thread_gone(*caller)).collect();
                let mut waiting = locked(&*all);
                let jobs = if ended.is_empty() { Vec::new() } else { waiting.remove(&ended) };
                waiting.is_watched = waiting.jobs.values().flatten().any(|job| job.caller.is_some());
                let goes_on = waiting.is_watched;
                drop(waiting);
                for job in jobs {
                    run(job, Turn::Interrupted);
                }
                if !goes_on {
                    return;
                }
            }
        });
        waiting.is_watched = is_started;
    }
}

/// Runs a job. If the job panics, the other jobs still run.
fn run(job: QueuedRequest, turn: Turn) {
    if catch_unwind(AssertUnwindSafe(|| (job.run)(turn))).is_err() {
        tracing::error!("a job panicked: its request is answered with EIO");
    }
}

/// Runs the jobs on a file until its queue is empty.
fn work(waiting: &Mutex<Waiting>, file: u64) {
    while let Some(job) = next(waiting, file) {
        run(job, Turn::Next);
    }
}

/// Runs the jobs on a file of a stalling file system, then the jobs on files of that file
/// system that wait for a thread.
fn work_on_stalling(waiting: &Mutex<Waiting>, mut file: u64, stalling: Stalling) {
    loop {
        work(waiting, file);
        let mut waiting = locked(waiting);
        let Some(asked) = waiting.stalling.get_mut(&stalling) else { return };
        if let Some(held) = asked.held.pop_front() {
            file = held;
            continue;
        }
        asked.threads -= 1;
        if asked.threads == 0 {
            waiting.stalling.remove(&stalling);
        }
        return;
    }
}

/// Returns the next job on a file. Removes the queue if it is empty.
fn next(waiting: &Mutex<Waiting>, file: u64) -> Option<QueuedRequest> {
    let mut waiting = locked(waiting);
    let job = waiting.jobs.get_mut(&file).and_then(VecDeque::pop_front);
    if job.is_none() {
        waiting.jobs.remove(&file);
    }
    job
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn local(file: u64) -> Delay {
        Delay { file, stalling: None }
    }

    #[test]
    fn jobs_on_one_file_keep_their_order_and_hold_up_no_other_file() {
        let queues = Queues::new("test");
        let (open, gate) = mpsc::channel::<()>();
        let (done, all) = mpsc::channel();
        queues.run(local(1), move || gate.recv().unwrap());
        for n in 0..100 {
            let done = done.clone();
            queues.run(local(1), move || done.send(n).unwrap());
        }
        queues.run(local(2), move || done.send(1000).unwrap());
        assert_eq!(all.recv().unwrap(), 1000);
        assert!(all.try_recv().is_err());
        open.send(()).unwrap();
        assert_eq!(all.iter().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_file_system_that_does_not_answer_holds_up_only_its_own_files() {
        let queues = Queues::new("test");
        let gate = Arc::new(std::sync::Barrier::new(MAX_STALLING + 1));
        let (done, all) = mpsc::channel();
        let stalling = |file| Delay { file, stalling: Some(Stalling::LINKED) };
        for file in 0..3 * MAX_STALLING as u64 {
            let gate = gate.clone();
            let done = done.clone();
            queues.run(stalling(file), move || {
                if file < MAX_STALLING as u64 {
                    gate.wait();
                }
                done.send(file).unwrap();
            });
        }
        for file in 1000..1000 + 2 * FILES as u64 {
            let done = done.clone();
            queues.run(local(file), move || done.send(file).unwrap());
        }
        drop(done);
        let first: Vec<_> = all.iter().take(2 * FILES).collect();
        assert!(first.iter().all(|file| *file >= 1000), "{first:?}");
        gate.wait();
        let mut rest: Vec<_> = all.iter().collect();
        rest.sort_unstable();
        assert_eq!(rest, (0..3 * MAX_STALLING as u64).collect::<Vec<_>>());
        queues.workers.wait(std::time::Duration::from_secs(60));
        assert!(locked(&*queues.waiting).jobs.is_empty() && locked(&*queues.waiting).stalling.is_empty());
    }
}
