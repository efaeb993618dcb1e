//! Describes files on all cores, and passes the lines on in the order of the files.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::line::{self, Line};
use super::since::Since;
use crate::cache::Cache;
use crate::files::Found;
use crate::format::Context;

/// Number of files in progress per thread, so that a large file does not hold up the others.
const AHEAD: usize = 8;
/// Default number of threads once a file on a server is found. Threads that read from servers mostly wait.
const WAITING: usize = 16;
/// Cache budget of a thread in bytes.
const CACHE_BUDGET: u64 = 4 << 20;

/// A file, and the channel for its line.
type LineJob = (Found, SyncSender<Option<Line>>);

/// Passes the line of each file to `write`, until `write` fails.
pub(super) fn each_line(
    files: impl Iterator<Item = Found>,
    since: Option<&Since>,
    jobs: Option<usize>,
    write: &mut dyn FnMut(Line) -> io::Result<()>,
) -> io::Result<()> {
    let cores = || thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut threads = jobs.unwrap_or_else(cores);
    let waiting_threads = jobs.unwrap_or(WAITING);
    let (to_workers, jobs) = sync_channel::<LineJob>(threads);
    let jobs = Mutex::new(jobs);
    thread::scope(|scope| {
        // The sender is dropped at the end of this closure, so the workers end after the last job.
        let to_workers = to_workers;
        for _ in 0..threads {
            scope.spawn(|| work(&jobs, since));
        }
        let mut waiting = VecDeque::with_capacity(threads * AHEAD);
        for file in files {
            while matches!(file, Found::Elsewhere(_)) && threads < waiting_threads {
                scope.spawn(|| work(&jobs, since));
                threads += 1;
            }
            if waiting.len() >= threads * AHEAD
                && let Some(first) = waiting.pop_front()
            {
                line_of(&first)?.map_or(Ok(()), &mut *write)?;
            }
            let (to_writer, line) = sync_channel(1);
            waiting.push_back(line);
            to_workers.send((file, to_writer)).map_err(|_| ended())?;
        }
        waiting.iter().try_for_each(|line| line_of(line)?.map_or(Ok(()), &mut *write))
    })
}

fn line_of(line: &Receiver<Option<Line>>) -> io::Result<Option<Line>> {
    line.recv().map_err(|_| ended())
}

fn ended() -> io::Error {
    io::Error::other("a thread that describes files has ended")
}

fn work(jobs: &Mutex<Receiver<LineJob>>, since: Option<&Since>) {
    let cache = Arc::new(Cache::with_threads(CACHE_BUDGET, 1));
    let context = Context { spares_requests: true, ..Context::new(cache) };
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((found, to_writer)) = job else { return };
        // The send fails only if the writer has ended after an error.
        let _ = to_writer.send(line::of(found, since, &context));
    }
}
