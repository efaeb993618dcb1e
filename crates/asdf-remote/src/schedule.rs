//! Requests in flight: at most [`RemoteOptions::max_requests`](super::RemoteOptions) for a mount, and 8 for a file.
//!
//! Requests that a reader waits for are sent before requests for read-ahead, which leave some slots free.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use seekable::error::Result;
use seekable::sync::locked;
use seekable::workers::{Workers, caller, while_waiting};

use super::cancel::Cancel;
use super::retry::{eio, interrupted, too_late};

/// Maximum number of requests in flight of a file.
const OF_FILE: usize = 8;
/// Slots that read-ahead leaves free.
const FREE_OF_MOUNT: usize = 4;
const FREE_OF_FILE: usize = 1;

/// Time after the deadline within which a request can still report the reason for its failure.
const LAST_WORDS: Duration = Duration::from_millis(500);

type Run = Box<dyn FnOnce() + Send>;

/// The number of a file's requests in flight.
pub(super) type InFlight = Arc<AtomicUsize>;

/// The queues of requests, and the threads that send them.
pub(super) struct Schedule {
    shared: Arc<SharedQueues>,
    /// False before the process has forked for the last time: threads do not survive a fork.
    may_start_threads: AtomicBool,
}

struct SharedQueues {
    queues: Mutex<Queues>,
    workers: Workers,
}

#[derive(Default)]
struct Queues {
    max_in_flight: usize,
    in_flight: usize,
    awaited: VecDeque<(InFlight, Run)>,
    ahead: VecDeque<(InFlight, Run)>,
}

impl Queues {
    /// Takes the next request that may be sent now.
    fn next(&mut self) -> Option<(InFlight, Run)> {
        let limited = |queue: &VecDeque<(InFlight, Run)>, most: usize| {
            queue.iter().position(|(of_file, _)| of_file.load(Ordering::Relaxed) < most)
        };
        let next = if self.in_flight >= self.max_in_flight {
            None
        } else if let Some(at) = limited(&self.awaited, OF_FILE) {
            self.awaited.remove(at)
        } else if self.in_flight + FREE_OF_MOUNT < self.max_in_flight {
            limited(&self.ahead, OF_FILE - FREE_OF_FILE).and_then(|at| self.ahead.remove(at))
        } else {
            None
        }?;
        self.in_flight += 1;
        next.0.fetch_add(1, Ordering::Relaxed);
        Some(next)
    }
}

impl Schedule {
    pub(super) fn new(max_in_flight: usize) -> Self {
        let queues = Mutex::new(Queues { max_in_flight, ..Queues::default() });
        let shared = SharedQueues { queues, workers: Workers::new("remote", max_in_flight) };
        Self { shared: Arc::new(shared), may_start_threads: AtomicBool::new(false) }
    }

    pub(super) fn start_threads(&self) {
        self.may_start_threads.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_threads(&self) -> bool {
        self.may_start_threads.load(Ordering::Relaxed)
    }

    /// Sends a request that a reader waits for; on this thread if no other thread may be started.
    pub(super) fn awaited(&self, of_file: &InFlight, run: impl FnOnce() + Send + 'static) {
        if !self.has_threads() {
            return run();
        }
        locked(&self.shared.queues).awaited.push_back((of_file.clone(), Box::new(run)));
        self.shared.start();
    }

    /// Sends a request and waits for its result. Fails at the deadline. When a signal ends the program that
    /// waits, the request is cancelled.
    pub(super) fn answer<T: Send + 'static>(
        &self,
        deadline: Instant,
        request: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let mut answers = self.answers(deadline, [request])?;
        answers.pop().unwrap_or_else(|| Err(eio("a request ended early")))
    }

    /// Sends several requests at once and waits for all results, which are in the order of the requests. Otherwise
    /// like [`answer`](Self::answer).
    pub(super) fn answers<T: Send + 'static, F: FnOnce() -> Result<T> + Send + 'static>(
        &self,
        deadline: Instant,
        requests: impl IntoIterator<Item = F>,
    ) -> Result<Vec<Result<T>>> {
        let (answer, answers) = mpsc::channel();
        let cancel = Cancel::default();
        let mut results = Vec::new();
        for (n, request) in requests.into_iter().enumerate() {
            let answer = answer.clone();
            let watched = cancel.clone();
            self.awaited(&InFlight::default(), move || {
                // A reader that was interrupted no longer waits for the request.
                let _ = answer.send((n, watched.watched(request)));
            });
            results.push(None);
        }
        drop(answer);
        while_waiting(|| {
            while results.iter().any(Option::is_none) {
                let rest = (deadline + LAST_WORDS).saturating_duration_since(Instant::now());
                match answers.recv_timeout(rest.min(caller::LOOK)) {
                    Ok((n, result)) => {
                        if let Some(place) = results.get_mut(n) {
                            *place = Some(result);
                        }
                    }
                    Err(RecvTimeoutError::Disconnected) => return Err(eio("a request ended early")),
                    Err(RecvTimeoutError::Timeout) if rest.is_zero() => {
                        cancel.cancel();
                        return Err(too_late());
                    }
                    Err(RecvTimeoutError::Timeout) if caller::is_gone() => {
                        cancel.cancel();
                        return Err(interrupted());
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                }
            }
            Ok(())
        })?;
        Ok(results.into_iter().flatten().collect())
    }

    /// Sends a request for read-ahead once a slot is free.
    pub(super) fn ahead(&self, of_file: &InFlight, run: impl FnOnce() + Send + 'static) {
        if self.has_threads() {
            locked(&self.shared.queues).ahead.push_back((of_file.clone(), Box::new(run)));
            self.shared.start();
        }
    }
}

impl SharedQueues {
    /// Starts the requests for which a slot is free.
    fn start(self: &Arc<Self>) {
        loop {
            let Some((of_file, run)) = locked(&self.queues).next() else { return };
            let place = RequestSlot { shared: self.clone(), of_file };
            self.workers.run(move || {
                let _place = place;
                run();
            });
        }
    }
}

/// A slot among the requests in flight. A panic frees it, too.
struct RequestSlot {
    shared: Arc<SharedQueues>,
    of_file: InFlight,
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        locked(&self.shared.queues).in_flight -= 1;
        self.of_file.fetch_sub(1, Ordering::Relaxed);
        self.shared.start();
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queues = locked(&self.shared.queues);
        let mut out = out.debug_struct("Schedule");
        out.field("in_flight", &queues.in_flight)
            .field("awaited", &queues.awaited.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_file_and_a_mount_have_limits_and_readers_come_first() {
        let schedule = Schedule::new(16);
        schedule.start_threads();
        let files: [InFlight; 3] = Default::default();
        let ((began, begins), (done, all)) = (mpsc::channel(), mpsc::channel());
        let gate = Arc::new(Mutex::new(()));
        let closed = gate.lock().unwrap();
        for file in [0, 1] {
            for _ in 0..20 {
                let (began, done, gate) = (began.clone(), done.clone(), gate.clone());
                let run = move || {
                    began.send(()).unwrap();
                    drop(locked(&*gate));
                    done.send(file).unwrap();
                };
                schedule.ahead(&files[file], run);
            }
        }
        for _ in 0..16 - FREE_OF_MOUNT {
            begins.recv().unwrap();
        }
        assert!(files.iter().all(|file| file.load(Ordering::Relaxed) < OF_FILE));
        // A reader of a third file does not wait for the read-ahead of the others.
        let (read, reads) = mpsc::channel();
        schedule.awaited(&files[2], move || read.send(()).unwrap());
        reads.recv().unwrap();
        assert!(begins.try_recv().is_err());
        drop(closed);
        drop(done);
        assert_eq!(all.iter().sum::<usize>(), 20);
    }

    #[test]
    fn before_the_last_fork_a_reader_sends_its_request_itself() {
        let (schedule, file) = (Schedule::new(16), InFlight::default());
        let (send, receive) = mpsc::channel();
        let here = std::thread::current().id();
        schedule.awaited(&file, move || send.send(std::thread::current().id()).unwrap());
        assert_eq!(receive.recv().unwrap(), here);
        schedule.ahead(&file, || panic!("no thread may start"));
    }
}
