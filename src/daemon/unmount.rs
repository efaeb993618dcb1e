//! Unmounting: for `asdf-mount -u`, and for a daemon that ends.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{fusermount, mountinfo, mountpoint};
use crate::error::{Error, Kind, Result};
use crate::options::SUBTYPE;

/// The extended attribute of a mount's root that holds the process number of its daemon, in decimal.
pub const PID_ATTRIBUTE: &str = "user.asdf-mount.pid";

/// How long `-u` waits for a daemon to end after its mount is gone before it says so, and how long in
/// all: a save of a large file may have to be finished.
const PATIENCE: Duration = Duration::from_secs(10);
const LONG_PATIENCE: Duration = Duration::from_secs(3600);

/// How long a daemon may take to say its number before `-u` goes on without.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// Unmounts what this program mounted on `wanted`, and waits until its daemon has ended.
///
/// A mount whose daemon is dead is taken away as well.
///
/// # Errors
/// When nothing of ours is mounted there, when it is in use, or when the daemon does not end.
pub fn unmount(wanted: &Path) -> Result<()> {
    const MISSING: &str = "not mounted: there is no such folder";
    let path = mountpoint::resolve(wanted).map_err(|error| match error.errno() {
        libc::ENOENT => Error::new(error.kind(), MISSING).of(wanted),
        _ => error,
    })?;
    let refuse = |message: String| Err(Error::new(Kind::System(libc::EINVAL), message).of(&path));
    let mount = match mountinfo::top_at(&path)? {
        None if path.symlink_metadata().is_err() => return refuse(MISSING.to_owned()),
        None => return refuse("not a mount point; 'findmnt -t fuse.asdf-mount' lists them".to_owned()),
        Some(mount) if !mount.is_ours() => {
            return refuse(format!("a mount of type {}, not of asdf-mount; use umount", mount.kind));
        }
        Some(mount) => mount,
    };
    let daemon = match daemon_of(mount) {
        Serving::By(daemon) => Some(daemon),
        Serving::Unknown => None,
        Serving::Dead => return detach(&path),
    };
    take_away(&path, false).map_err(|error| match error.errno() {
        libc::EBUSY => Error::new(
            Kind::System(libc::EBUSY),
            "in use: a program has a file open or its working folder there ('fuser -vm' on the path shows \
             which); close it and try again, or use 'umount -l'",
        )
        .of(&path),
        _ => error,
    })?;
    match daemon {
        Some((pid, handle)) if !ended_after_all(pid, &handle)? => Err(Error::new(
            Kind::System(libc::ETIMEDOUT),
            format!(
                "unmounted, but its daemon (process {pid}) has not ended after {} s",
                LONG_PATIENCE.as_secs()
            ),
        )
        .of(path)),
        _ => Ok(()),
    }
}

/// Takes the mount on `path` away at once; files that are open there stay usable until closed.
pub(crate) fn detach(path: &Path) -> Result<()> {
    take_away(path, true)
}

fn take_away(path: &Path, lazy: bool) -> Result<()> {
    let flags = if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() } | UnmountFlags::NOFOLLOW;
    match rustix::mount::unmount(path, flags) {
        Err(Errno::PERM) => fusermount::unmount(path, lazy),
        result => result.map_err(|errno| Error::from(errno).within("can't unmount").of(path)),
    }
}

/// Who answers for a mount.
enum Serving {
    By((i32, OwnedFd)),
    Unknown,
    Dead,
}

/// Asks a mount for its daemon, on a thread of its own since one that hangs would never answer.
fn daemon_of(mount: mountinfo::Mount) -> Serving {
    let (answer, answered) = mpsc::channel();
    std::thread::spawn(move || {
        let path = &mount.mountpoint;
        // A stat may be answered from the kernel's cache; an attribute never is.
        let ask = || {
            let mut digits = [0; 20];
            let length = rustix::fs::getxattr(path, PID_ATTRIBUTE, &mut digits)?;
            Ok(digits.get(..length).and_then(number))
        };
        let number = match ask() {
            Err(Errno::ACCESS) => mount.as_owner(ask).unwrap_or(Err(Errno::ACCESS)),
            number => number,
        };
        let serving = match number {
            Ok(number) => number.and_then(handle).map_or(Serving::Unknown, Serving::By),
            Err(_) if mount.is_dead() => Serving::Dead,
            Err(_) => Serving::Unknown,
        };
        // Nobody listens any more after the time is up.
        let _ = answer.send(serving);
    });
    answered.recv_timeout(ANSWER_TIME).unwrap_or(Serving::Unknown)
}

fn number(digits: &[u8]) -> Option<i32> {
    std::str::from_utf8(digits).ok()?.trim().parse().ok()
}

/// Opens the process of that number, if it is one of this program: in a container the number may mean
/// another process here.
fn handle(number: i32) -> Option<(i32, OwnedFd)> {
    let handle = pidfd_open(Pid::from_raw(number)?, PidfdFlags::empty()).ok()?;
    let name = std::fs::read_to_string(format!("/proc/{number}/comm")).ok()?;
    (name.trim_end() == SUBTYPE).then_some((number, handle))
}

/// Waits for a daemon, and says so if that takes long.
fn ended_after_all(pid: i32, daemon: &OwnedFd) -> Result<bool> {
    if ended(daemon, PATIENCE)? {
        return Ok(true);
    }
    crate::log::complain(format_args!(
        "{SUBTYPE}: unmounted; waiting for process {pid}, which may be finishing a save"
    ));
    ended(daemon, LONG_PATIENCE)
}

fn ended(daemon: &OwnedFd, patience: Duration) -> Result<bool> {
    let patience = Timespec { tv_sec: patience.as_secs().cast_signed(), tv_nsec: 0 };
    let mut watched = [PollFd::new(daemon, PollFlags::IN)];
    Ok(rustix::io::retry_on_intr(|| poll(&mut watched, Some(&patience)))? > 0)
}
