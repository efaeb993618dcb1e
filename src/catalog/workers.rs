//! Describes files on all cores, and passes the lines on in the order of the files.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::line::{self, Line};
use super::since::Since;
use crate::cache::Cache;
use crate::error::Error;
use crate::format::Context;

/// Number of files in progress per thread, so that a large file does not hold up the others.
const AHEAD: usize = 8;
/// Cache budget of a thread in bytes.
const CACHE_BUDGET: u64 = 4 << 20;

/// A file of the walk, or the error of a path.
type WalkedFile = Result<PathBuf, (PathBuf, Error)>;

/// A file, and the channel for its line.
type LineJob = (WalkedFile, SyncSender<Line>);

/// Passes the line of each file to `write`, until that fails.
pub(super) fn each_line(
    files: impl Iterator<Item = WalkedFile>,
    since: Option<&Since>,
    write: &mut dyn FnMut(Line) -> io::Result<()>,
) -> io::Result<()> {
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (to_workers, jobs) = sync_channel::<LineJob>(threads);
    let jobs = Mutex::new(jobs);
    thread::scope(|scope| {
        // The sender is dropped at the end of this closure, so the workers end after the last job.
        let to_workers = to_workers;
        for _ in 0..threads {
            scope.spawn(|| work(&jobs, since));
        }
        let mut waiting = std::collections::VecDeque::with_capacity(threads * AHEAD);
        for file in files {
            if waiting.len() == threads * AHEAD
                && let Some(first) = waiting.pop_front()
            {
                write(line_of(&first)?)?;
            }
            let (to_writer, line) = sync_channel(1);
            waiting.push_back(line);
            to_workers.send((file, to_writer)).map_err(|_| ended())?;
        }
        waiting.iter().try_for_each(|line| write(line_of(line)?))
    })
}

fn line_of(line: &Receiver<Line>) -> io::Result<Line> {
    line.recv().map_err(|_| ended())
}

fn ended() -> io::Error {
    io::Error::other("a thread that describes files has ended")
}

fn work(jobs: &Mutex<Receiver<LineJob>>, since: Option<&Since>) {
    let context = Context::new(Arc::new(Cache::with_threads(CACHE_BUDGET, 1)));
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((found, to_writer)) = job else { return };
        let line = match found {
            Ok(path) => line::of(path, since, &context),
            Err((path, error)) => line::of_error(path, error),
        };
        // The writer has ended if its output was closed.
        let _ = to_writer.send(line);
    }
}
