//! `-o remount,ro` and `-o remount,rw` for an existing mount.
//!
//! The kernel does not tell a FUSE daemon about a remount, and lets only root change the flags of a mount.
//! The command therefore sends the daemon a signal, as only its owner and root can: SIGUSR1 to refuse
//! changes, SIGUSR2 to allow them. The daemon reports the outcome in an extended attribute of the mount's
//! root directory. If the command runs as root, it then changes the flags of the mount, too.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::mount::MountFlags;
use rustix::process::{Signal, pidfd_send_signal};

use super::list::attribute;
use super::mountinfo::{self, Mount};
use super::mountpoint;
use super::unmount::handle;
use crate::error::{Error, Kind, Result};
use crate::options::PID_ATTRIBUTE;

/// The extended attribute of a mount's root with the count and the outcome of remounts.
const REMOUNTS_ATTRIBUTE: &str = "user.asdf-mount.remounts";
/// Time that the daemon has for its answer.
const ANSWER_TIME: Duration = Duration::from_secs(20);
/// Pause between two reads of the attribute.
const PAUSE: Duration = Duration::from_millis(5);
/// Time within which the kernel tells the daemon that a file was closed: it does so only after close(2) has
/// returned.
const CLOSE_TIME: Duration = Duration::from_millis(500);

/// Makes the mount on `wanted` read-only or writable.
///
/// # Errors
/// There is no mount of this program, a program writes, a text is unsaved or refused (EBUSY), or the mount
/// was read-only from its start.
pub fn remount(wanted: &Path, read_only: bool) -> Result<()> {
    let path = mountpoint::resolve(wanted)?;
    let refuse = |what: &str| Error::new(Kind::System(libc::EINVAL), what).of(&path);
    let mount = mountinfo::top_at(&path)?.filter(Mount::is_ours);
    let mount = mount.ok_or_else(|| refuse("not a mount of asdf-mount; 'asdf-mount --list' lists all"))?;
    switch_patiently(&mount, read_only).map_err(|error| error.of(&path))?;
    if !rustix::process::geteuid().is_root() || mount.is_read_only() == read_only {
        return Ok(());
    }
    // The flags show the mode in findmnt.
    let mut flags = mount.flags();
    flags.set(MountFlags::RDONLY, read_only);
    if let Err(errno) = rustix::mount::mount_remount(&path, flags, "") {
        switch(&mount, !read_only).map_err(|error| error.of(&path))?;
        let error = Error::from(errno).within("can't remount");
        return Err(match errno {
            rustix::io::Errno::BUSY => error.advise("a program has a file open for writing; close it"),
            _ => error,
        }
        .of(&path));
    }
    Ok(())
}

/// Signals the daemon. If it answers that a program is writing, signals it again for up to [`CLOSE_TIME`].
fn switch_patiently(mount: &Mount, read_only: bool) -> Result<()> {
    let end = Instant::now() + CLOSE_TIME;
    loop {
        match switch(mount, read_only) {
            Err(error) if error.kind() == Kind::System(libc::EBUSY) && Instant::now() < end => {
                std::thread::sleep(CLOSE_TIME / 10);
            }
            answer => return answer,
        }
    }
}

/// Signals the daemon, and waits for its answer.
fn switch(mount: &Mount, read_only: bool) -> Result<()> {
    let ask = |name: &'static str| {
        let ask = || attribute(mount, name);
        mount.as_owner(ask).unwrap_or_else(ask)
    };
    let unknown = || {
        let message = "its daemon does not answer; unmount with 'asdf-mount -u', and mount again";
        Error::new(Kind::System(libc::EIO), message)
    };
    let count = |answer: &str| answer.split(' ').next().and_then(|count| count.parse::<u64>().ok());
    let before = ask(REMOUNTS_ATTRIBUTE).as_deref().and_then(count).ok_or_else(unknown)?;
    let pid = ask(PID_ATTRIBUTE).and_then(|pid| pid.parse().ok());
    let (_, daemon) = pid.and_then(handle).ok_or_else(unknown)?;
    let signal = if read_only { Signal::USR1 } else { Signal::USR2 };
    pidfd_send_signal(&daemon, signal)
        .map_err(|errno| Error::from(errno).within("can't signal its daemon"))?;
    let end = Instant::now() + ANSWER_TIME;
    while Instant::now() < end {
        let answer = ask(REMOUNTS_ATTRIBUTE).ok_or_else(unknown)?;
        if count(&answer).is_some_and(|count| count > before) {
            let reason = answer.split_once(' ').map_or("", |(_, reason)| reason);
            let kind = if read_only { Kind::System(libc::EBUSY) } else { Kind::ReadOnly };
            return if reason.is_empty() { Ok(()) } else { Err(Error::new(kind, reason)) };
        }
        std::thread::sleep(PAUSE);
    }
    Err(unknown())
}
