//! Jobs of which only so many are done at once, so that they leave threads to whom they are for.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::workers::{Job, Workers};

/// Jobs that wait for one of the threads that are with them.
#[derive(Clone, Default)]
pub(crate) struct Lane(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    threads: usize,
}

impl Lane {
    /// Has a job done by one of the `workers`, of whom `most` are with the jobs of this lane at once.
    pub(crate) fn run(&self, workers: &Workers, most: usize, job: Job) {
        let mut state = self.state();
        state.waiting.push_back(job);
        if state.threads < most.max(1) {
            state.threads += 1;
            drop(state);
            let turn = Turn { lane: self.clone(), lasts: true };
            workers.run(move || turn.work());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread's time with a lane. After a panic what waits is left to the thread that the next job brings, or to
/// who wants it.
struct Turn {
    lane: Lane,
    lasts: bool,
}

impl Turn {
    fn work(mut self) {
        while let Some(job) = self.next() {
            job();
        }
    }

    fn next(&mut self) -> Option<Job> {
        let mut state = self.lane.state();
        let job = state.waiting.pop_front();
        if job.is_none() {
            // Before anyone else can put a job there, and count on this thread.
            state.threads -= 1;
            self.lasts = false;
        }
        job
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.lasts {
            self.lane.state().threads -= 1;
        }
    }
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Lane").field("threads", &self.state().threads).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    #[test]
    fn all_jobs_are_done_by_so_many_threads_at_once_also_after_a_panic() {
        let (workers, lane) = (Workers::new("test", 4), Lane::default());
        let now = Arc::new(AtomicUsize::new(0));
        let (done, all) = mpsc::channel();
        for n in 0..200 {
            let (done, now) = (done.clone(), now.clone());
            let job = move || {
                let with_me = now.fetch_add(1, Ordering::SeqCst) + 1;
                std::thread::yield_now();
                now.fetch_sub(1, Ordering::SeqCst);
                done.send(with_me).unwrap();
                if n == 3 {
                    std::panic::resume_unwind(Box::new("on purpose"));
                }
            };
            lane.run(&workers, 2, Box::new(job));
        }
        drop(done);
        let together: Vec<_> = all.iter().collect();
        assert_eq!((together.len(), *together.iter().max().unwrap() <= 2), (200, true));
        workers.wait(std::time::Duration::from_secs(60));
        assert_eq!(lane.state().threads, 0);
    }
}
