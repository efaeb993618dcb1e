//! From a command that someone started to a daemon behind it.
//!
//! The process forks before it has any thread. The child mounts, and tells through a socket how that went:
//!
//! ```text
//! serving   one byte 0
//! failure   one byte, the exit status, then the message up to the end
//! nothing   the child was killed
//! ```
//!
//! Then the parent asks the mount itself, and answers with a byte if that is well. The child never asks:
//! where it could not answer any more it would wait for itself, and could not even be killed. So the parent
//! returns only once the mount answers or nothing is left of it. The
//! child is in a session of its own, its folder is `/`, and it keeps no file of the caller's open: not
//! the terminal, not a pipe that the caller's reader waits on, not a lock.

#![allow(unsafe_code)] // fork, and the closing of files that were inherited

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};

use crate::error::{Error, Kind, Result};
use crate::exit;

/// What the child tells the parent.
#[derive(Debug)]
pub(crate) struct Report {
    parent: Option<UnixStream>,
}

impl Report {
    /// Says that the mount is served, and returns when the parent has found that it answers; after that
    /// there is no way back to the caller.
    ///
    /// # Errors
    /// When the parent is gone, as one that was interrupted, or got no answer from the mount.
    pub(crate) fn ready(&mut self) -> Result<()> {
        let null = OpenOptions::new().write(true).open("/dev/null").map_err(Error::from)?;
        rustix::stdio::dup2_stderr(null)?;
        match self.parent.take() {
            Some(mut parent) => parent
                .write_all(&[exit::OK])
                .and_then(|()| parent.read_exact(&mut [0]))
                .map_err(|_| Error::new(Kind::System(libc::EINTR), "interrupted before the mount was ready")),
            None => Ok(()),
        }
    }

    fn failure(&mut self, error: &Error) {
        if let Some(mut parent) = self.parent.take() {
            // A parent that is gone can't be told.
            let _ = parent
                .write_all(&[exit::of(error)])
                .and_then(|()| parent.write_all(error.to_string().as_bytes()));
        }
    }
}

/// Closes every file beyond stdin, stdout and stderr; to be called before one of our own is opened.
///
/// `flock FILE asdf-mount …` would hold the lock for as long as the daemon lives otherwise.
pub(crate) fn close_inherited() {
    // SAFETY: takes three numbers. The files closed are not ours: the caller has opened none yet, as its
    // contract says, and the standard library keeps none open beyond the first three.
    // A kernel before 5.9 answers ENOSYS, and they stay open.
    let _ = unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32) };
}

/// Runs `daemon` in a child process and returns when that serves and `answers` has found no fault here.
///
/// The process must have only one thread.
///
/// # Errors
/// What `daemon` failed with, or `answers`, or that the child died; it has ended then.
pub(crate) fn start(
    daemon: impl FnOnce(&mut Report) -> Result<()>,
    answers: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let (ours, theirs) = UnixStream::pair()?;
    // SAFETY: there is one thread (contract of this function), so no lock is held by another that does
    // not exist in the child.
    match unsafe { libc::fork() } {
        -1 => Err(Error::from(std::io::Error::last_os_error()).within("can't start a daemon")),
        0 => {
            drop(ours);
            let mut report = Report { parent: Some(theirs) };
            let result = leave_caller().and_then(|()| daemon(&mut report));
            std::process::exit(match result {
                Ok(()) => i32::from(exit::OK),
                Err(error) => {
                    report.failure(&error);
                    i32::from(exit::of(&error))
                }
            })
        }
        child => {
            drop(theirs);
            await_report(ours, Pid::from_raw(child), answers)
        }
    }
}

fn leave_caller() -> Result<()> {
    rustix::process::setsid()?;
    rustix::process::chdir("/")?;
    let null = OpenOptions::new().read(true).write(true).open("/dev/null").map_err(Error::from)?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(())
}

fn await_report(mut child: UnixStream, pid: Option<Pid>, answers: impl FnOnce() -> Result<()>) -> Result<()> {
    let mut status = [0];
    let told = child.read_exact(&mut status);
    let serves = told.is_ok() && status == [exit::OK];
    let mut fault = None;
    if serves {
        match answers() {
            // One that died just now can't be told.
            Ok(()) if child.write_all(&[0]).is_ok() => return Ok(()),
            Ok(()) => {}
            Err(error) => fault = Some(error),
        }
    }
    let mut message = Vec::new();
    if !serves {
        child.read_to_end(&mut message)?;
    }
    drop(child);
    let ended = rustix::io::retry_on_intr(|| waitpid(pid, WaitOptions::empty()));
    let ended = ended.ok().flatten().map(|(_, status)| status);
    let killed = ended.is_some_and(|ended| ended.terminating_signal().is_some());
    if let Some(fault) = fault.filter(|_| !killed) {
        return Err(fault);
    }
    if told.is_err() || serves {
        return Err(Error::new(
            Kind::System(libc::ECHILD),
            format!("the daemon {} before the mount was ready; --foreground shows more", death(ended)),
        ));
    }
    let kind = if status == [exit::USAGE] { Kind::Usage } else { Kind::System(libc::EIO) };
    Err(Error::new(kind, String::from_utf8_lossy(&message)))
}

fn death(status: Option<WaitStatus>) -> String {
    match status.map(|status| (status.terminating_signal(), status.exit_status())) {
        Some((Some(signal), _)) => format!("was killed by signal {signal}"),
        Some((_, Some(code))) => format!("ended with status {code}"),
        _ => "ended".to_owned(),
    }
}
