//! The threads that answer the kernel, under a limit on processes (`pids.max` of a cgroup, `ulimit -u`).
//!
//! fuser starts the threads after the mount is made. If one can't be started, the threads started before may
//! serve for a moment, and the caller is not told. Therefore [`check_room`] starts as many threads before the
//! mount is made.

use std::io;
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::error::{Error, Result};

/// Threads and processes of a mount besides the threads that answer the kernel: the session, the kernel
/// notifier, a worker for files, and the program that unmounts.
const BESIDE: usize = 4;

/// Starts and ends as many threads as a session with `count` threads needs.
///
/// # Errors
/// The limit does not allow so many threads.
pub(super) fn check_room(count: usize) -> Result<()> {
    let started: io::Result<Vec<_>> = (0..count + BESIDE)
        .map(|_| {
            let (end, ended) = mpsc::channel::<()>();
            let waiting = Builder::new().name("reserve".to_owned()).spawn(move || ended.recv().is_ok())?;
            Ok((end, waiting))
        })
        .collect();
    for (end, waiting) in started.map_err(too_few)? {
        drop(end);
        let _ = waiting.join();
    }
    Ok(())
}

/// Waits until a session has started its `count` threads; false if it has ended instead.
pub(super) fn all_started<T>(session: &JoinHandle<T>, count: usize) -> bool {
    let last = format!("fuser-{}", count.saturating_sub(1));
    while !session.is_finished() {
        match names() {
            Ok(names) if !names.contains(&last) => std::thread::sleep(Duration::from_millis(1)),
            // Without /proc the threads can't be listed, so they count as started.
            _ => return true,
        }
    }
    false
}

/// Returns the error for a thread that can't be started.
pub(super) fn too_few(error: io::Error) -> Error {
    not_started(error, "can't start the threads that answer requests")
}

/// Returns the error for a process or thread that can't be started. `what` begins its message.
pub(super) fn not_started(error: io::Error, what: &str) -> Error {
    let is_limit = error.raw_os_error() == Some(libc::EAGAIN);
    let error = Error::from(error).within(what);
    if is_limit {
        error.advise("raise the limit of processes (pids.max of the cgroup, ulimit -u)")
    } else {
        error
    }
}

/// Returns the names of all threads of this process.
fn names() -> io::Result<Vec<String>> {
    let tasks = std::fs::read_dir("/proc/self/task")?;
    // A thread may end meanwhile.
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
    Ok(tasks.flatten().filter_map(name).map(|name| name.trim_end().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_ends_has_not_started() {
        check_room(2).unwrap();
        let (end, ended) = mpsc::channel::<()>();
        let session = std::thread::spawn(move || {
            let name = "fuser-4".to_owned();
            let last = Builder::new().name(name).spawn(move || ended.recv().is_ok()).unwrap();
            last.join().unwrap()
        });
        assert!(all_started(&session, 5));
        drop(end);
        session.join().unwrap();
        let failed = std::thread::spawn(|| ());
        assert!(!all_started(&failed, 5));
    }
}
