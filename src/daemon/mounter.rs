//! The process that mounts and unmounts for a daemon.
//!
//! A daemon decodes untrusted files, so it gives up what mounting needs: the capability `SYS_ADMIN`, or the setuid
//! program fusermount3, which `no_new_privs` disarms. Before that it forks this process, which never reads a file of a
//! source. They share a socket. A request is one byte; the answer is an errno, a length and a text:
//!
//! ```text
//! request  answer
//! M, m     mounted, writable or read-only: the device number, and then the descriptor to serve
//! d        unmounted; files that are open stay usable
//! x        unmounted if the mount is dead
//! i        unmounted if no program uses the mount; EBUSY if one does
//! r        the mountpoint is removed if this program created it
//! ```
//!
//! The process ends with the daemon, also if the daemon is killed: then it leaves the dead mount and the mountpoint as
//! they are. It does not react to the signals that end a daemon, because a terminal and systemd send them to both.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, WaitOptions, waitpid};
use seekable::error::{Error, Kind, Result};
use seekable::sync::locked;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

use super::mount::{Mounted, left_behind};
use super::mountpoint::Mountpoint;
use super::{background, fusermount, rights};
use crate::{exit, log};

const MOUNT_WRITABLE: u8 = b'M';
const MOUNT_READ_ONLY: u8 = b'm';
const DETACH: u8 = b'd';
const DETACH_IF_DEAD: u8 = b'x';
const UNMOUNT_IF_UNUSED: u8 = b'i';
const REMOVE_PLACE: u8 = b'r';

/// Maximum number of bytes of an answer's text.
const MAX_TEXT: usize = 64 << 10;

/// The daemon's end of the socket.
#[derive(Debug)]
pub(crate) struct Mounter {
    socket: Mutex<UnixStream>,
    pid: Option<Pid>,
    /// The mountpoint, for messages.
    path: PathBuf,
}

impl Mounter {
    /// Starts the process, which mounts by calling `mount` with the mountpoint and true for a read-only mount.
    ///
    /// The calling process must have only one thread.
    ///
    /// # Errors
    /// No process can be started.
    pub(crate) fn start(
        place: Mountpoint,
        keeps_stderr: bool,
        mount: impl Fn(&Mountpoint, bool) -> Result<(Mounted, OwnedFd)>,
    ) -> Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        match background::fork("can't start the process that unmounts")? {
            None => {
                drop(ours);
                let prepared = prepare(keeps_stderr);
                if prepared.is_ok() {
                    answer_all(theirs, &place, mount);
                }
                place.leave();
                std::process::exit(i32::from(exit::OK))
            }
            pid => {
                // From now on, the new process removes the directory.
                place.leave();
                Ok(Self { socket: Mutex::new(ours), pid, path: place.path().to_owned() })
            }
        }
    }

    /// Mounts, and returns the device number `major:minor` and the descriptor to serve.
    ///
    /// # Errors
    /// As for [`mount`](super::mount::mount); or the process was killed.
    pub(crate) fn mount(&self, read_only: bool) -> Result<(String, OwnedFd)> {
        let request = if read_only { MOUNT_READ_ONLY } else { MOUNT_WRITABLE };
        let device = self.ask(request)?;
        let descriptor = fusermount::receive(&*locked(&self.socket)).ok_or_else(|| self.ended())?;
        Ok((device, descriptor))
    }

    /// Unmounts the mount everywhere in this namespace; open files stay usable for a while.
    pub(crate) fn detach(&self) {
        if let Err(error) = self.ask(DETACH) {
            tracing::error!("{}", left_behind(&error, &self.path));
        }
    }

    /// Unmounts the mount if it is dead: it stays behind as a dead mount if the connection to the kernel was
    /// aborted.
    pub(crate) fn detach_if_dead(&self) {
        if let Err(error) = self.ask(DETACH_IF_DEAD) {
            tracing::warn!("{error}");
        }
    }

    /// Unmounts the mount unless a program uses it, or another mount covers it or is a copy of it. Returns
    /// false if it stays mounted.
    pub(crate) fn is_removed_unless_busy(&self) -> bool {
        self.ask(UNMOUNT_IF_UNUSED).is_ok()
    }

    /// Removes the mountpoint if this program created it and it is empty.
    pub(crate) fn remove_place(&self) {
        if let Err(error) = self.ask(REMOVE_PLACE) {
            tracing::warn!("{}: can't remove the mountpoint: {error}", self.path.display());
        }
    }

    fn ask(&self, request: u8) -> Result<String> {
        let mut socket = locked(&self.socket);
        let answer = socket.write_all(&[request]).and_then(|()| read_answer(&mut socket));
        answer.unwrap_or_else(|_| Err(self.ended()))
    }

    fn ended(&self) -> Error {
        let ended = rustix::io::retry_on_intr(|| waitpid(self.pid, WaitOptions::empty()));
        let status = ended.ok().flatten().map(|(_, status)| status);
        let message = format!("the process that mounts and unmounts {}", background::death(status));
        Error::new(Kind::System(libc::ECHILD), message)
    }
}

/// Makes this process one that only mounts and unmounts.
fn prepare(keeps_stderr: bool) -> Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2] {
        // Programs that this process starts get the signal as usual, unlike one that is ignored.
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    background::leave_stdio()?;
    if !keeps_stderr {
        background::leave_stderr()?;
    }
    // The name is for ps(1) only.
    let _ = rustix::thread::set_name(c"asdf-mounter");
    rights::keep_for_mounting();
    Ok(())
}

/// Answers all requests, until the daemon ends.
fn answer_all(
    mut socket: UnixStream,
    place: &Mountpoint,
    mount: impl Fn(&Mountpoint, bool) -> Result<(Mounted, OwnedFd)>,
) {
    let mut mounted = None;
    let mut request = [0];
    while socket.read_exact(&mut request).is_ok() {
        // The daemon may have been told to open its log again.
        let _ = log::reopen();
        let mut descriptor = None;
        let answer = match (request[0], &mounted) {
            (kind @ (MOUNT_WRITABLE | MOUNT_READ_ONLY), None) => {
                mount(place, kind == MOUNT_READ_ONLY).map(|(new, served)| {
                    descriptor = Some(served);
                    mounted.insert(new).device().to_owned()
                })
            }
            (REMOVE_PLACE, _) => {
                place.remove();
                Ok(String::new())
            }
            (DETACH, Some(mounted)) => {
                mounted.detach();
                Ok(String::new())
            }
            (DETACH_IF_DEAD, Some(mounted)) => {
                mounted.detach_if_dead();
                Ok(String::new())
            }
            (UNMOUNT_IF_UNUSED, Some(mounted)) if mounted.is_removed_unless_busy() => Ok(String::new()),
            (UNMOUNT_IF_UNUSED, Some(_)) => Err(Error::new(Kind::System(libc::EBUSY), "in use")),
            _ => Err(Error::new(Kind::System(libc::EINVAL), "not a request")),
        };
        if write_answer(&mut socket, &answer).is_err()
            || descriptor.is_some_and(|descriptor| send(&socket, &descriptor).is_err())
        {
            return;
        }
    }
}

fn write_answer(socket: &mut UnixStream, answer: &Result<String>) -> io::Result<()> {
    let (errno, text) = match answer {
        Ok(text) => (0, text.clone()),
        Err(error) => (error.errno(), error.to_string()),
    };
    let text = text.as_bytes();
    let text = text.get(..MAX_TEXT).unwrap_or(text);
    let length = u32::try_from(text.len()).unwrap_or_default();
    socket.write_all(&errno.to_le_bytes())?;
    socket.write_all(&length.to_le_bytes())?;
    socket.write_all(text)
}

fn read_answer(socket: &mut UnixStream) -> io::Result<Result<String>> {
    let mut errno = [0; 4];
    let mut length = [0; 4];
    socket.read_exact(&mut errno)?;
    socket.read_exact(&mut length)?;
    let mut text = Vec::new();
    let mut rest = socket.take(u64::from(u32::from_le_bytes(length)));
    rest.read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(match i32::from_le_bytes(errno) {
        0 => Ok(text),
        errno => Err(Error::new(Kind::System(errno), text)),
    })
}

/// Sends a descriptor with one byte.
fn send(socket: &UnixStream, descriptor: &OwnedFd) -> io::Result<()> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(socket, &[io::IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}
