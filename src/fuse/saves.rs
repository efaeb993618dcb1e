//! Threads for requests that may save a file.
//!
//! Each file system has a share of threads. One that does not answer, because it is frozen for a snapshot or
//! its server is gone, holds up no save on another one.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use seekable::sync::locked;
use seekable::workers::{Workers, while_waiting};

use crate::vfs::FileSystem;

/// Maximum number of saves that run on one file system.
const SHARE: usize = 4;

type Job = Box<dyn FnOnce() + Send>;

/// The saves on one file system.
#[derive(Default)]
struct Share {
    /// The number of threads that run saves.
    threads: usize,
    waiting: VecDeque<Job>,
}

/// The saves on all file systems of the mount. A file system without saves has no share.
pub(super) struct Saves {
    /// The threads, which are busy while a save is queued or running.
    pub(super) workers: Workers,
    shares: Arc<Mutex<HashMap<FileSystem, Share>>>,
}

impl std::fmt::Debug for Saves {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Saves").field("file_systems", &locked(&*self.shares).len()).finish_non_exhaustive()
    }
}

impl Saves {
    /// Starts no thread yet.
    pub(super) fn new() -> Self {
        Self { workers: Workers::new("save", SHARE), shares: Arc::default() }
    }

    /// Runs a job that may save a file, after the jobs that fill the share of its file system.
    pub(super) fn run(&self, file_system: FileSystem, job: impl FnOnce() + Send + 'static) {
        let mut shares = locked(&*self.shares);
        let share = shares.entry(file_system).or_default();
        share.waiting.push_back(Box::new(job));
        if share.threads == SHARE {
            return;
        }
        share.threads += 1;
        drop(shares);
        let all = self.shares.clone();
        // An extra thread takes the place of this one, which may wait for long.
        self.workers.run(move || while_waiting(|| work(&all, file_system)));
    }
}

/// Runs the jobs of a file system until none is left.
fn work(shares: &Mutex<HashMap<FileSystem, Share>>, file_system: FileSystem) {
    loop {
        let mut shares = locked(shares);
        let Some(share) = shares.get_mut(&file_system) else { return };
        let Some(job) = share.waiting.pop_front() else {
            share.threads -= 1;
            if share.threads == 0 {
                shares.remove(&file_system);
            }
            return;
        };
        drop(shares);
        if catch_unwind(AssertUnwindSafe(job)).is_err() {
            tracing::error!("a job panicked: its request is answered with EIO");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Barrier, mpsc};
    use std::time::Duration;

    #[test]
    fn a_frozen_file_system_holds_up_only_its_own_saves() {
        let saves = Saves::new();
        let gate = Arc::new(Barrier::new(SHARE + 1));
        let (done, all) = mpsc::channel();
        for n in 0..2 * SHARE {
            let gate = gate.clone();
            let done = done.clone();
            saves.run(FileSystem::Local(1), move || {
                if n < SHARE {
                    gate.wait();
                }
                done.send(1).unwrap();
            });
        }
        for _ in 0..20 {
            let done = done.clone();
            saves.run(FileSystem::Local(2), move || done.send(2).unwrap());
        }
        saves.run(FileSystem::Local(3), || std::panic::resume_unwind(Box::new("on purpose")));
        let patience = Duration::from_secs(60);
        let others: Vec<_> = (0..20).map(|_| all.recv_timeout(patience).unwrap()).collect();
        assert!(others.iter().all(|file_system| *file_system == 2));
        assert!(all.try_recv().is_err() && saves.workers.is_busy());
        gate.wait();
        assert!((0..2 * SHARE).all(|_| all.recv_timeout(patience).unwrap() == 1));
        saves.workers.wait(patience);
        assert!(!saves.workers.is_busy() && locked(&*saves.shares).is_empty());
    }
}
