//! The daemons of this program, as /proc shows them.
//!
//! fusermount3 lets any user choose the type and the source of a mount, and the program behind a mount answers
//! as it likes. So a mount is believed to be ours only if a process of the mount's owner that runs this program
//! says that it serves the mount's device. A daemon says so by the name of a thread, which no other process
//! can set.

use std::os::fd::OwnedFd;

use asdf_access::options::SUBTYPE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use seekable::error::{Error, Result};

use super::mountinfo::Mount;

/// A process that serves a mount.
#[derive(Debug)]
pub(crate) struct Daemon {
    /// The process number in the PID namespace of this process.
    pub(crate) pid: i32,
    handle: OwnedFd,
    user: u32,
    device: String,
}

/// Returns the name of the thread by which a daemon says that it serves the device `major:minor`. The kernel
/// keeps 15 bytes of a name.
pub(crate) fn thread_name(device: &str) -> String {
    format!("dev {device}")
}

/// Returns the daemon of a mount; `None` if no process of its owner that is visible here serves it.
pub(crate) fn daemon_of(mount: &Mount) -> Option<Daemon> {
    all().into_iter().find(|daemon| daemon.serves(mount))
}

/// Returns all daemons that are visible here.
pub(crate) fn all() -> Vec<Daemon> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|entry| Daemon::of(entry.file_name().to_str()?.parse().ok()?)).collect()
}

impl Daemon {
    fn of(pid: i32) -> Option<Self> {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).ok();
        if read("comm")?.trim_end() != SUBTYPE {
            return None;
        }
        let handle = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        let user = only_user(&read("status")?)?;
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
        let mut names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        let device = names.find_map(|name| name.trim_end().strip_prefix("dev ").map(str::to_owned))?;
        let daemon = Self { pid, handle, user, device };
        // These facts are those of the process with this handle only if it has not ended: its id may be reused.
        (!daemon.ends_within(0).ok()?).then_some(daemon)
    }

    /// True if this is the daemon of the mount.
    pub(crate) fn serves(&self, mount: &Mount) -> bool {
        mount.owner.is_some_and(|(user, _)| user == self.user) && mount.device == self.device
    }

    /// Sends a signal, with the rights of the mount's owner.
    pub(crate) fn signal(&self, mount: &Mount, signal: Signal) -> Result<()> {
        let send = || pidfd_send_signal(&self.handle, signal);
        let sent = mount.as_owner(send).unwrap_or_else(send);
        sent.map_err(|errno| {
            Error::from(errno).within(format!("can't signal its daemon (process {})", self.pid))
        })
    }

    /// Waits at most `seconds` for the end of the process; true if it has ended.
    pub(crate) fn ends_within(&self, seconds: u64) -> Result<bool> {
        let patience = Timespec { tv_sec: seconds.cast_signed(), tv_nsec: 0 };
        let mut watched = [PollFd::new(&self.handle, PollFlags::IN)];
        Ok(rustix::io::retry_on_intr(|| poll(&mut watched, Some(&patience)))? > 0)
    }
}

/// Returns the user of a process from its `status`; `None` if it runs with the rights of several users.
fn only_user(status: &str) -> Option<u32> {
    let mut users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace();
    let user = users.next()?;
    users.all(|other| other == user).then_some(user)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_one_user_or_none_is_believed() {
        assert_eq!(only_user("Name:\tx\nUid:\t7\t7\t7\t7\nGid:\t8\t8\t8\t8\n"), Some(7));
        assert_eq!(only_user("Uid:\t7\t0\t0\t0\n"), None);
        assert_eq!(only_user("Name:\tx\n"), None);
    }

    #[test]
    fn the_kernel_keeps_the_whole_name_of_the_highest_device() {
        assert!(thread_name("0:1048575").len() <= 15);
    }
}
