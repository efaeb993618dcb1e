//! From a command that someone started to a daemon behind it.
//!
//! The process forks before it has any thread. The child mounts, and tells through a pipe how that went:
//!
//! ```text
//! ready     one byte 0
//! failure   one byte, the exit status, then the message up to the end
//! nothing   the child was killed
//! ```
//!
//! The parent waits for that, and so returns only once the mount answers or nothing is left of it. The
//! child is in a session of its own, its folder is `/`, and it keeps no file of the caller's open: not
//! the terminal, not a pipe that the caller's reader waits on, not a lock.

#![allow(unsafe_code)] // fork, and the closing of files that were inherited

use std::fs::OpenOptions;
use std::io::{PipeReader, PipeWriter, Read, Write};

use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};

use crate::error::{Error, Kind, Result};
use crate::exit;

/// What the child tells the parent.
#[derive(Debug)]
pub(crate) struct Report {
    pipe: Option<PipeWriter>,
}

impl Report {
    /// Says that the mount answers; after that there is no way back to the caller.
    ///
    /// # Errors
    /// When the parent is gone: whoever asked for the mount interrupted it.
    pub(crate) fn ready(&mut self) -> Result<()> {
        let null = OpenOptions::new().write(true).open("/dev/null").map_err(Error::from)?;
        rustix::stdio::dup2_stderr(null)?;
        match self.pipe.take() {
            Some(mut pipe) => pipe
                .write_all(&[exit::OK])
                .map_err(|_| Error::new(Kind::System(libc::EINTR), "interrupted before the mount was ready")),
            None => Ok(()),
        }
    }

    fn failure(&mut self, error: &Error) {
        if let Some(mut pipe) = self.pipe.take() {
            // A parent that is gone can't be told.
            let _ = pipe
                .write_all(&[exit::of(error)])
                .and_then(|()| pipe.write_all(error.to_string().as_bytes()));
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

/// Runs `daemon` in a child process and returns when it has said that it is ready.
///
/// The process must have only one thread.
///
/// # Errors
/// What `daemon` failed with, or that it died; the child has ended then.
pub(crate) fn start(daemon: impl FnOnce(&mut Report) -> Result<()>) -> Result<()> {
    let (reader, writer) = std::io::pipe()?;
    // SAFETY: there is one thread (contract of this function), so no lock is held by another that does
    // not exist in the child.
    match unsafe { libc::fork() } {
        -1 => Err(Error::from(std::io::Error::last_os_error()).within("can't start a daemon")),
        0 => {
            drop(reader);
            let mut report = Report { pipe: Some(writer) };
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
            drop(writer);
            await_report(reader, Pid::from_raw(child))
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

fn await_report(mut pipe: PipeReader, child: Option<Pid>) -> Result<()> {
    let mut status = [0];
    let told = pipe.read_exact(&mut status);
    if told.is_ok() && status == [exit::OK] {
        return Ok(());
    }
    let mut message = Vec::new();
    pipe.read_to_end(&mut message)?;
    let ended = rustix::io::retry_on_intr(|| waitpid(child, WaitOptions::empty()));
    let ended = ended.ok().flatten().map(|(_, status)| status);
    if told.is_err() {
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
