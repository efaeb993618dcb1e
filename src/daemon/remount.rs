//! `-o remount,ro` and `-o remount,rw` for an existing mount.
//!
//! The kernel does not tell a FUSE daemon about a remount, and lets only root change the flags of a mount.
//! The command therefore sends the daemon a signal, as only its owner and root can: SIGUSR1 to refuse
//! changes, SIGUSR2 to allow them. The daemon reports the outcome in an extended attribute of the mount's
//! root directory. If the command runs as root, it then changes the flags of the mount, too.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::mount::MountFlags;
use rustix::process::Signal;
use seekable::error::{Error, Kind, Result, in_shell, one_line};

use super::held::{self, HeldEntry};
use super::list::attribute;
use super::mountinfo::Mount;
use super::serving::{self, Daemon};

/// The extended attribute of a mount's root with the count and the outcome of remounts.
const REMOUNTS_ATTRIBUTE: &str = "user.asdf-mount.remounts";
/// Time that the daemon has for its answer.
const ANSWER_TIME: Duration = Duration::from_secs(20);
/// Pause between two reads of the attribute.
const PAUSE: Duration = Duration::from_millis(5);
/// Time within which the kernel notices, and tells the daemon, that a file was closed: both only after close(2) has
/// returned.
const CLOSE_TIME: Duration = Duration::from_secs(1);

/// Makes the mount on `wanted` read-only or writable.
///
/// # Errors
/// There is no mount of this program, a program writes, a text is unsaved or refused (EBUSY), or the mount
/// was read-only from its start.
pub(crate) fn remount(wanted: &Path, read_only: bool) -> Result<()> {
    let entry = HeldEntry::find(wanted)?.entry;
    let path = entry.shown();
    let refuse = || {
        let what = "not a mount of asdf-mount; 'asdf-mount --list' lists all";
        Error::new(Kind::System(libc::EINVAL), what).of(path)
    };
    let root = entry.hold().map_err(|_| refuse())?;
    let mount = entry.mount_of(&root)?.filter(Mount::has_our_type).ok_or_else(refuse)?;
    let daemon = serving::daemon_of(&mount).ok_or_else(|| {
        let what = "no process of asdf-mount that serves this mount is visible here";
        Error::new(Kind::System(libc::EIO), what).of(path)
    })?;
    let served = ServedMount { mount, root, daemon };
    let end = Instant::now() + CLOSE_TIME;
    loop {
        match served.make(read_only) {
            Err(error) if error.kind() == Kind::System(libc::EBUSY) && Instant::now() < end => {
                std::thread::sleep(CLOSE_TIME / 20);
            }
            answer => return answer.map_err(|error| error.of(path)),
        }
    }
}

/// A mount with its root and its daemon.
struct ServedMount {
    mount: Mount,
    root: OwnedFd,
    daemon: Daemon,
}

impl ServedMount {
    /// Switches the daemon, and as root also the flags of the mount. Fails with EBUSY if a program is writing.
    fn make(&self, read_only: bool) -> Result<()> {
        self.switch(read_only)?;
        if !rustix::process::geteuid().is_root() || self.mount.is_read_only() == read_only {
            return Ok(());
        }
        // The flags show the mode in findmnt.
        let mut flags = self.mount.flags();
        flags.set(MountFlags::RDONLY, read_only);
        let Err(errno) = rustix::mount::mount_remount(held::path_of(&self.root), flags, "") else {
            return Ok(());
        };
        self.switch(!read_only)?;
        let error = Error::from(errno).within("can't remount");
        Err(match errno {
            rustix::io::Errno::BUSY => error.advise("a program has a file open for writing; close it"),
            _ => error,
        })
    }

    /// Signals the daemon, and waits for its answer.
    fn switch(&self, read_only: bool) -> Result<()> {
        let ask = || {
            let ask = || attribute(&self.root, REMOUNTS_ATTRIBUTE);
            self.mount.as_owner(ask).unwrap_or_else(ask)
        };
        let unknown = || {
            let command = format!("asdf-mount -u {}", in_shell(self.mount.mountpoint.as_path()));
            let message = format!("its daemon does not answer; unmount, and mount again: {command}");
            Error::new(Kind::System(libc::EIO), message)
        };
        let count = |answer: &str| answer.split(' ').next().and_then(|count| count.parse::<u64>().ok());
        let before = ask().as_deref().and_then(count).ok_or_else(unknown)?;
        let signal = if read_only { Signal::USR1 } else { Signal::USR2 };
        self.daemon.signal(&self.mount, signal)?;
        let end = Instant::now() + ANSWER_TIME;
        while Instant::now() < end {
            let answer = ask().ok_or_else(unknown)?;
            if count(&answer).is_some_and(|count| count > before) {
                let reason = answer.split_once(' ').map_or("", |(_, reason)| reason);
                let kind = if read_only { Kind::System(libc::EBUSY) } else { Kind::ReadOnly };
                return if reason.is_empty() { Ok(()) } else { Err(Error::new(kind, one_line(reason))) };
            }
            std::thread::sleep(PAUSE);
        }
        Err(unknown())
    }
}
