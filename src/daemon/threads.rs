//! The threads that answer the kernel, under a limit on processes (`pids.max` of a cgroup, `ulimit -u`) and open files.
//!
//! fuser starts the threads after the mount is made. If one can't be started, the threads started before may
//! serve for a moment, and the caller is not told. Therefore [`check_room`] starts as many threads before the
//! mount is made.

use std::fs::File;
use std::io;
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use seekable::error::{Error, Result};

/// Threads and processes of a mount besides the threads that answer the kernel: the session, the kernel
/// notifier, a worker for files, and the program that unmounts.
const BESIDE: usize = 4;
/// Open files of a mount besides one for each thread that answers the kernel: the device, and those that a start and an
/// unmount need for a moment. Without them the mount could not be taken back.
const FILES: usize = 8;

/// Starts and ends as many threads as a session with `count` threads needs, and opens and closes as many files.
///
/// # Errors
/// The limits do not allow so many threads or files.
pub(super) fn check_room(count: usize) -> Result<()> {
    let too_many = |error| not_started(error, "can't open the files that a mount needs");
    let null = File::open("/dev/null").map_err(too_many)?;
    let files: io::Result<Vec<File>> = (0..count + FILES).map(|_| null.try_clone()).collect();
    drop(files.map_err(too_many)?);
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
///
/// # Errors
/// The system is short of open files, so that the mount could not answer.
pub(super) fn all_started<T>(session: &JoinHandle<T>, count: usize) -> Result<bool> {
    let last = format!("fuser-{}", count.saturating_sub(1));
    while !session.is_finished() {
        match names() {
            Ok(names) if !names.contains(&last) => std::thread::sleep(Duration::from_millis(1)),
            Err(error) if is_shortage(&error) => return Err(too_few(error)),
            // Without /proc the threads can't be listed, so they count as started.
            _ => return Ok(true),
        }
    }
    Ok(false)
}

/// Returns the error for a thread that can't be started.
pub(super) fn too_few(error: io::Error) -> Error {
    not_started(error, "can't start the threads that answer requests")
}

/// Returns the error for a process or thread that can't be started. `what` begins its message.
pub(super) fn not_started(error: io::Error, what: &str) -> Error {
    let errno = error.raw_os_error();
    let error = Error::from(error).within(what);
    match errno {
        Some(libc::EAGAIN) => {
            error.advise("raise the limit of processes (pids.max of the cgroup, ulimit -u)")
        }
        Some(libc::EMFILE) => error.advise("raise the limit of open files (ulimit -n)"),
        _ => error,
    }
}

/// True if there are too many open files.
fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Returns the names of all threads of this process.
fn names() -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for task in std::fs::read_dir("/proc/self/task")? {
        match std::fs::read_to_string(task?.path().join("comm")) {
            Ok(name) => names.push(name.trim_end().to_owned()),
            Err(error) if is_shortage(&error) => return Err(error),
            // The thread has ended meanwhile.
            Err(_) => {}
        }
    }
    Ok(names)
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
        assert!(all_started(&session, 5).unwrap());
        drop(end);
        session.join().unwrap();
        let failed = std::thread::spawn(|| ());
        assert!(!all_started(&failed, 5).unwrap());
    }
}
