//! Start of the daemon in a child process.
//!
//! The process forks before it starts a thread. The child mounts, and reports the result through a socket:
//!
//! ```text
//! serving   one byte 0
//! failure   the exit status in one byte, then the message
//! nothing   the child was killed
//! ```
//!
//! Then the parent probes the mount, and sends a byte if the mount answers. The child never probes it: a
//! daemon that can't answer would wait for itself, and could not even be killed. Therefore the parent returns
//! only when the mount answers or has been removed. The child has its own session, its working directory is
//! `/`, and it closes all files of the caller: the terminal, pipes, locks.

#![allow(unsafe_code)] // fork, and closing of inherited files

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};
use seekable::error::{Error, Kind, Result};

use super::threads::not_started;
use crate::exit;

/// The first number of a file beside stdin, stdout and stderr.
const FIRST: libc::c_int = 3;

/// The child's end of the socket.
#[derive(Debug)]
pub(crate) struct Report {
    parent: Option<UnixStream>,
}

impl Report {
    /// Reports that the mount is served, and returns when the parent has probed it. After that no message
    /// reaches the caller.
    ///
    /// # Errors
    /// The parent was interrupted, or the mount did not answer its probe.
    pub(crate) fn ready(&mut self) -> Result<()> {
        leave_stderr()?;
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
            // The parent may be gone.
            let _ = parent
                .write_all(&[exit::of(error)])
                .and_then(|()| parent.write_all(error.to_string().as_bytes()));
        }
    }
}

/// A child process that probes a mount whose daemon runs in the foreground and so has no parent to probe it.
#[derive(Debug)]
pub(crate) struct Prober {
    child: UnixStream,
    pid: Option<Pid>,
}

impl Prober {
    /// Starts the child, which runs `answers` when [`Prober::probe`] is called.
    ///
    /// The calling process must have only one thread.
    pub(crate) fn start(answers: impl FnOnce() -> Result<()>) -> Result<Self> {
        let (ours, mut theirs) = UnixStream::pair()?;
        match fork("can't start a process")? {
            None => {
                drop(ours);
                // Without a byte, the daemon has ended.
                if theirs.read_exact(&mut [0]).is_ok() {
                    let message = answers().err().map(|error| error.to_string());
                    let _ = theirs.write_all(message.unwrap_or_default().as_bytes());
                }
                std::process::exit(i32::from(exit::OK))
            }
            pid => Ok(Self { child: ours, pid }),
        }
    }

    /// Returns once the mount has answered the child.
    ///
    /// # Errors
    /// The mount does not answer.
    pub(crate) fn probe(mut self) -> Result<()> {
        let mut message = String::new();
        let report = self.child.write_all(&[0]).and_then(|()| self.child.read_to_string(&mut message));
        let _ = rustix::io::retry_on_intr(|| waitpid(self.pid, WaitOptions::empty()));
        match report {
            Ok(_) if message.is_empty() => Ok(()),
            Ok(_) => Err(Error::new(Kind::System(libc::EIO), message)),
            Err(error) => Err(Error::from(error).within("can't probe the mount")),
        }
    }
}

/// Returns a copy of a file that this process inherited under this number.
///
/// # Errors
/// No file has this number.
pub(crate) fn inherited(number: u32) -> Result<OwnedFd> {
    let number = libc::c_int::try_from(number).unwrap_or(libc::c_int::MAX);
    // SAFETY: the call takes numbers, and fails if no file is open under the first.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, FIRST) };
    if copy < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    // SAFETY: the kernel has just returned this number for a new file, which nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Closes all files except stdin, stdout, stderr and `kept`. Must be called before this program opens another
/// file.
///
/// Otherwise `flock FILE asdf-mount …` would keep its lock until the daemon ends.
pub(crate) fn close_inherited(kept: Option<BorrowedFd<'_>>) {
    let close = |first: libc::c_int, last: libc::c_uint| {
        // SAFETY: the call takes three numbers. The closed files are not ours: the caller has opened none but
        // `kept` (contract of this function), and the standard library keeps none open beyond the first three.
        // A kernel before 5.9 returns ENOSYS, and the files stay open.
        let _ = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0_u32) };
    };
    let Some(kept) = kept.map(|kept| kept.as_raw_fd()) else { return close(FIRST, libc::c_uint::MAX) };
    if kept > FIRST {
        close(FIRST, libc::c_uint::try_from(kept - 1).unwrap_or_default());
    }
    close(kept + 1, libc::c_uint::MAX);
}

/// Runs `daemon` in a child process. Waits until the child serves and `answers` has succeeded in this
/// process, calls `announce` with the child's process id, and returns.
///
/// The calling process must have only one thread.
///
/// # Errors
/// `daemon` or `answers` failed, or the child was killed. The child has ended in each case.
pub(crate) fn start(
    daemon: impl FnOnce(&mut Report) -> Result<()>,
    answers: impl FnOnce() -> Result<()>,
    announce: impl FnOnce(Option<Pid>),
) -> Result<()> {
    let (ours, theirs) = UnixStream::pair()?;
    match fork("can't start a daemon")? {
        None => {
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
            await_report(ours, child, answers, announce)
        }
    }
}

/// Starts a child process, and returns its number; returns `None` in the child. `what` begins the message of an
/// error.
///
/// The calling process must have only one thread.
pub(super) fn fork(what: &str) -> Result<Option<Pid>> {
    // SAFETY: there is one thread (contract of this function), so no lock is held by another that does
    // not exist in the child.
    match unsafe { libc::fork() } {
        -1 => Err(not_started(std::io::Error::last_os_error(), what)),
        child => Ok(Pid::from_raw(child)),
    }
}

fn leave_caller() -> Result<()> {
    rustix::process::setsid()?;
    rustix::process::chdir("/")?;
    leave_stdio()
}

/// Closes stdin and stdout.
pub(super) fn leave_stdio() -> Result<()> {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null").map_err(Error::from)?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(())
}

/// Closes stderr.
pub(super) fn leave_stderr() -> Result<()> {
    let null = OpenOptions::new().write(true).open("/dev/null").map_err(Error::from)?;
    rustix::stdio::dup2_stderr(null)?;
    Ok(())
}

fn await_report(
    mut child: UnixStream,
    pid: Option<Pid>,
    answers: impl FnOnce() -> Result<()>,
    announce: impl FnOnce(Option<Pid>),
) -> Result<()> {
    let mut status = [0];
    let report = child.read_exact(&mut status);
    let serves = report.is_ok() && status == [exit::OK];
    let mut fault = None;
    if serves {
        match answers() {
            // The child may have died in the meantime.
            Ok(()) if child.write_all(&[0]).is_ok() => {
                announce(pid);
                return Ok(());
            }
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
    let ended = ended.ok().flatten().map(|(_, wait_status)| wait_status);
    let killed = ended.is_some_and(|ended| ended.terminating_signal().is_some());
    if !killed && let Some(fault) = fault {
        return Err(fault);
    }
    if report.is_err() || serves {
        return Err(Error::new(
            Kind::System(libc::ECHILD),
            format!("the daemon {} before the mount was ready; --foreground shows more", death(ended)),
        ));
    }
    let kind = if status == [exit::USAGE] { Kind::Usage } else { Kind::System(libc::EIO) };
    Err(Error::new(kind, String::from_utf8_lossy(&message)))
}

pub(super) fn death(status: Option<WaitStatus>) -> String {
    match status.map(|status| (status.terminating_signal(), status.exit_status())) {
        Some((Some(signal), _)) => format!("was killed by signal {signal}"),
        Some((_, Some(code))) => format!("ended with status {code}"),
        _ => "ended".to_owned(),
    }
}
