//! Unmounting: for `asdf-mount -u`, and for a daemon that ends.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::detach::take_away;
use super::{detach, mountinfo, mountpoint};
use crate::error::{Error, Kind, Result};
use crate::log::{complain, one_line};
use crate::options::{PID_ATTRIBUTE, SUBTYPE};

/// The extended attribute of a mount's root that holds the path where its daemon says at its end what it has
/// kept.
const REPORT_ATTRIBUTE: &str = "user.asdf-mount.report";
/// The longest path.
const LONGEST_PATH: usize = 4096;
/// Bytes of a report that are told.
const LONGEST_REPORT: u64 = 64 << 10;

/// How long a daemon may take to end after its mount is gone, before `-u` looks for what holds it.
const SOON: Duration = Duration::from_secs(3);
/// How long after that before `-u` says that it waits.
const PATIENCE: Duration = Duration::from_secs(7);
/// How long it waits in all: a save of a large file may have to be finished.
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
    let (device, owner) = (mount.device.clone(), mount.owner);
    let (daemon, report) = match daemon_of(mount) {
        Serving::By(daemon, report) => (Some(daemon), report),
        Serving::Unknown => (None, None),
        Serving::Dead => return detach::detach(&path),
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
        Some((pid, handle)) if !seen_off(&path, &device, pid, &handle)? => Err(Error::new(
            Kind::System(libc::ETIMEDOUT),
            format!(
                "unmounted, but its daemon (process {pid}) has not ended after {} s",
                LONG_PATIENCE.as_secs()
            ),
        )
        .of(path)),
        _ => {
            report.into_iter().for_each(|report| tell(&report, owner));
            Ok(())
        }
    }
}

/// Tells what a daemon has kept. Its report is a file of the mount's owner's, whose next mount tells it
/// otherwise.
fn tell(report: &Path, owner: Option<(u32, u32)>) {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open(report, flags, Mode::empty()) else { return };
    let Ok(stat) = rustix::fs::fstat(&file) else { return };
    let own = stat.st_uid == rustix::process::geteuid().as_raw();
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !is_file || !own && owner.is_none_or(|(owner, _)| owner != stat.st_uid) {
        return;
    }
    let mut text = Vec::new();
    if std::fs::File::from(file).take(LONGEST_REPORT).read_to_end(&mut text).is_err() {
        return;
    }
    for line in String::from_utf8_lossy(&text).lines() {
        complain(format_args!("{SUBTYPE}: {}", one_line(line)));
    }
    let is_report = report.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"report-"));
    if own && is_report {
        let _ = std::fs::remove_file(report);
    }
}

/// Which daemon answers for a mount.
enum Serving {
    /// By this process, which makes its report there.
    By((i32, OwnedFd), Option<PathBuf>),
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
            let mut report = vec![0; LONGEST_PATH];
            let report = rustix::fs::getxattr(path, REPORT_ATTRIBUTE, &mut report).ok().map(|length| {
                report.truncate(length);
                PathBuf::from(OsString::from_vec(report))
            });
            Ok((digits.get(..length).and_then(number), report))
        };
        let number = match ask() {
            Err(Errno::ACCESS) => mount.as_owner(ask).unwrap_or(Err(Errno::ACCESS)),
            number => number,
        };
        let serving = match number {
            Ok((number, report)) => {
                let daemon = number.and_then(handle);
                daemon.map_or(Serving::Unknown, |daemon| Serving::By(daemon, report))
            }
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

/// Waits until a daemon has ended whose mount was taken away here; says what keeps it if that takes long.
///
/// A copy of the mount in another mount namespace would keep it for as long as that lasts. So the daemon is
/// told to end, which finishes its saves and cuts off the copy.
fn seen_off(path: &Path, device: &str, pid: i32, daemon: &OwnedFd) -> Result<bool> {
    if ended(daemon, SOON)? {
        return Ok(true);
    }
    let say = |what: &str| {
        complain(format_args!("{SUBTYPE}: {}: unmounted{what}", path.display()));
    };
    if mountinfo::is_elsewhere(pid) {
        say(&format!(" here; in the mount namespace of its daemon (process {pid}) it stays"));
        return Ok(true);
    }
    let copies = mountinfo::copies_of(device);
    if copies.is_empty() {
        if ended(daemon, PATIENCE)? {
            return Ok(true);
        }
        say(&format!(
            "; its daemon (process {pid}) is told to end: it may be finishing a save, or kept by a copy of the \
             mount in a mount namespace that this user may not look into"
        ));
    } else {
        let holders: Vec<String> = copies.iter().map(holder).collect();
        say(&format!(
            ", but copies of it are in other mount namespaces: {}. They are cut off now; 'umount -l' there \
             (nsenter -m -t PROCESS) takes away what is left",
            holders.join("; ")
        ));
    }
    if let Err(errno) = pidfd_send_signal(daemon, Signal::TERM) {
        let error = Error::from(errno).within(format!("process {pid} can't be told to end"));
        return Err(error.of(path));
    }
    ended(daemon, LONG_PATIENCE)
}

/// The processes of a mount namespace, or the first of them.
fn holder(elsewhere: &mountinfo::Elsewhere) -> String {
    const NAMED: usize = 3;
    let named = elsewhere.processes.iter().take(NAMED).map(|(pid, name)| format!("process {pid} ({name})"));
    let named = named.collect::<Vec<_>>().join(", ");
    match elsewhere.processes.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

fn ended(daemon: &OwnedFd, patience: Duration) -> Result<bool> {
    let patience = Timespec { tv_sec: patience.as_secs().cast_signed(), tv_nsec: 0 };
    let mut watched = [PollFd::new(daemon, PollFlags::IN)];
    Ok(rustix::io::retry_on_intr(|| poll(&mut watched, Some(&patience)))? > 0)
}
