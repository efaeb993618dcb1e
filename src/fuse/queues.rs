//! Long work on files, on threads of its own: the requests about one file in turn, those about other files
//! beside it.
//!
//! All requests about a file that is being looked through wait for the same work, so one thread for each file
//! is enough.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use crate::cache::Workers;
use crate::sync::locked;

type Job = Box<dyn FnOnce() + Send>;

/// The jobs that wait, by file. A file that has a queue has a thread.
type Waiting = Arc<Mutex<HashMap<u64, VecDeque<Job>>>>;

/// A queue for each file about which something long is asked.
pub(super) struct Queues {
    workers: Workers,
    waiting: Waiting,
}

impl std::fmt::Debug for Queues {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Queues").field("files", &locked(&*self.waiting).len()).finish_non_exhaustive()
    }
}

impl Queues {
    /// Works on at most `bound` files at once.
    pub(super) fn new(name: &'static str, bound: usize) -> Self {
        Self { workers: Workers::new(name, bound), waiting: Arc::default() }
    }

    /// Has a job on a file done, after those on the same file that were queued before.
    pub(super) fn run(&self, file: u64, job: impl FnOnce() + Send + 'static) {
        let mut waiting = locked(&*self.waiting);
        match waiting.entry(file) {
            Entry::Occupied(queue) => return queue.into_mut().push_back(Box::new(job)),
            Entry::Vacant(place) => drop(place.insert(VecDeque::from([Box::new(job) as Job]))),
        }
        drop(waiting);
        let waiting = self.waiting.clone();
        self.workers.run(move || {
            while let Some(job) = next(&waiting, file) {
                if catch_unwind(AssertUnwindSafe(job)).is_err() {
                    tracing::error!("a job panicked: its request is answered with EIO");
                }
            }
        });
    }
}

/// The next job on a file; without one the queue ends.
fn next(waiting: &Waiting, file: u64) -> Option<Job> {
    let mut waiting = locked(&**waiting);
    let job = waiting.get_mut(&file).and_then(VecDeque::pop_front);
    if job.is_none() {
        waiting.remove(&file);
    }
    job
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn jobs_on_one_file_keep_their_order_and_hold_up_no_other_file() {
        let queues = Queues::new("test", 2);
        let (open, gate) = mpsc::channel::<()>();
        let (done, all) = mpsc::channel();
        queues.run(1, move || gate.recv().unwrap());
        for n in 0..100 {
            let done = done.clone();
            queues.run(1, move || done.send(n).unwrap());
        }
        queues.run(2, move || done.send(1000).unwrap());
        assert_eq!(all.recv().unwrap(), 1000);
        assert!(all.try_recv().is_err());
        open.send(()).unwrap();
        assert_eq!(all.iter().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    }
}
