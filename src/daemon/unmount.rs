//! `asdf-mount -u`: unmounts, and waits for the daemon to end.

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
use crate::error::{Error, Kind, Result, one_line};
use crate::log::complain;
use crate::options::{PID_ATTRIBUTE, SUBTYPE};

/// The extended attribute of a mount's root with the path of the report that its daemon writes when it ends.
const REPORT_ATTRIBUTE: &str = "user.asdf-mount.report";
/// The extended attribute of a mount's root that lists the files lost when the mount ends, a line each.
const UNKEPT_ATTRIBUTE: &str = "user.asdf-mount.unkept";
/// Maximum length of a path.
const LONGEST_PATH: usize = 4096;
/// Maximum bytes of a report that are printed.
const LONGEST_REPORT: u64 = 64 << 10;

/// Time that `-u` waits for the daemon before it searches other mount namespaces for a copy of the mount.
const SOON: Duration = Duration::from_secs(3);
/// Time that `-u` waits after [`SOON`] before it signals the daemon to end.
const PATIENCE: Duration = Duration::from_secs(7);
/// Time that `-u` waits after the signal: the daemon may have to finish a save of a large file.
const LONG_PATIENCE: Duration = Duration::from_secs(3600);

/// Time that `-u` waits for the daemon's process number.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// Unmounts this program's mount on `wanted`, and waits until its daemon has ended. Also removes a dead
/// mount.
///
/// # Errors
/// There is no mount of this program, it is in use, or the daemon does not end.
pub fn unmount(wanted: &Path) -> Result<()> {
    const MISSING: &str = "not mounted: no such directory";
    let path = mountpoint::resolve(wanted).map_err(|error| match error.errno() {
        libc::ENOENT => Error::new(error.kind(), MISSING).of(wanted),
        _ => error,
    })?;
    let refuse = |message: String| Err(Error::new(Kind::System(libc::EINVAL), message).of(&path));
    let mount = match mountinfo::top_at(&path)? {
        None if path.symlink_metadata().is_err() => return refuse(MISSING.to_owned()),
        None => return refuse("not a mountpoint; 'findmnt -t fuse.asdf-mount' lists all mounts".to_owned()),
        Some(mount) if !mount.is_ours() => {
            return refuse(format!("a mount of type {}, not of asdf-mount; use umount", mount.kind));
        }
        Some(mount) => mount,
    };
    let (device, owner) = (mount.device.clone(), mount.owner);
    let (daemon, last_words) = match daemon_of(mount) {
        Serving::By(daemon, last_words) => (Some(daemon), last_words),
        Serving::Unknown => (None, LastWords::default()),
        Serving::Dead => {
            detach::detach(&path)?;
            mountpoint::remove_left_behind(&path);
            return Ok(());
        }
    };
    take_away(&path, false).map_err(|error| match error.errno() {
        libc::EBUSY => {
            let message = match mount_within(&path) {
                Some(inner) => format!("in use: {} is mounted in it; unmount that first", inner.display()),
                None => "in use: a program has an open file or its working directory there ('fuser -vm' lists the \
                         programs); close it and try again, or use 'umount -l'"
                    .to_owned(),
            };
            Error::new(Kind::System(libc::EBUSY), message).of(&path)
        }
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
            last_words
                .unkept
                .lines()
                .for_each(|line| complain(format_args!("{SUBTYPE}: {}", one_line(line))));
            last_words.report.into_iter().for_each(|report| tell(&report, owner));
            Ok(())
        }
    }
}

/// Returns the deepest mountpoint below `path`.
fn mount_within(path: &Path) -> Option<PathBuf> {
    let mounts = mountinfo::all().ok()?.into_iter().map(|mount| mount.mountpoint);
    mounts
        .filter(|inner| inner != path && inner.starts_with(path))
        .max_by_key(|inner| inner.components().count())
}

/// Prints the report of a daemon that has ended. The report is a file of the mount's owner; if it is not
/// printed here, the owner's next mount prints it.
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

/// The messages to print after the daemon has ended.
#[derive(Default)]
struct LastWords {
    /// Path of the daemon's report.
    report: Option<PathBuf>,
    /// The files that the daemon could not keep, a line each.
    unkept: String,
}

/// The daemon of a mount.
enum Serving {
    By((i32, OwnedFd), LastWords),
    Unknown,
    Dead,
}

/// Asks a mount for its daemon. Uses a separate thread, since a hanging mount never answers.
fn daemon_of(mount: mountinfo::Mount) -> Serving {
    let (answer, answered) = mpsc::channel();
    let asking = std::thread::Builder::new().spawn(move || {
        let path = &mount.mountpoint;
        // The kernel may answer stat from its cache, but never an extended attribute.
        let ask = || {
            let mut digits = [0; 20];
            let length = rustix::fs::getxattr(path, PID_ATTRIBUTE, &mut digits)?;
            let bytes = |attribute: &str, longest: usize| {
                let mut value = vec![0; longest];
                let length = rustix::fs::getxattr(path, attribute, &mut value).ok()?;
                value.truncate(length);
                Some(value)
            };
            let report = bytes(REPORT_ATTRIBUTE, LONGEST_PATH).map(|path| OsString::from_vec(path).into());
            let unkept = bytes(UNKEPT_ATTRIBUTE, LONGEST_REPORT as usize).unwrap_or_default();
            let unkept = String::from_utf8_lossy(&unkept).into_owned();
            Ok((digits.get(..length).and_then(number), LastWords { report, unkept }))
        };
        let number = match ask() {
            Err(Errno::ACCESS) => mount.as_owner(ask).unwrap_or(Err(Errno::ACCESS)),
            number => number,
        };
        let serving = match number {
            Ok((number, last_words)) => {
                let daemon = number.and_then(handle);
                daemon.map_or(Serving::Unknown, |daemon| Serving::By(daemon, last_words))
            }
            Err(_) if mount.is_dead() => Serving::Dead,
            Err(_) => Serving::Unknown,
        };
        // Sending fails if the receiver has timed out.
        let _ = answer.send(serving);
    });
    if asking.is_err() {
        return Serving::Unknown;
    }
    answered.recv_timeout(ANSWER_TIME).unwrap_or(Serving::Unknown)
}

fn number(digits: &[u8]) -> Option<i32> {
    std::str::from_utf8(digits).ok()?.trim().parse().ok()
}

/// Opens a process by number if it runs this program. The number is from the daemon's PID namespace, and may
/// be the number of another process in this namespace.
pub(super) fn handle(number: i32) -> Option<(i32, OwnedFd)> {
    let handle = pidfd_open(Pid::from_raw(number)?, PidfdFlags::empty()).ok()?;
    let name = std::fs::read_to_string(format!("/proc/{number}/comm")).ok()?;
    (name.trim_end() == SUBTYPE).then_some((number, handle))
}

/// Waits until the daemon of an unmounted mount has ended; prints the reason if that takes long.
///
/// A copy of the mount in another mount namespace keeps the daemon alive. The daemon then gets a signal to
/// end. It finishes its saves, and the copy becomes a dead mount.
fn seen_off(path: &Path, device: &str, pid: i32, daemon: &OwnedFd) -> Result<bool> {
    if ended(daemon, SOON)? {
        return Ok(true);
    }
    let say = |what: &str| {
        complain(format_args!("{SUBTYPE}: {}: unmounted{what}", one_line(&path.to_string_lossy())));
    };
    if mountinfo::is_elsewhere(pid) {
        say(&format!(" here, but not in the mount namespace of its daemon (process {pid})"));
        return Ok(true);
    }
    let copies = mountinfo::copies_of(device);
    if copies.is_empty() {
        if ended(daemon, PATIENCE)? {
            return Ok(true);
        }
        say(&format!(
            "; its daemon (process {pid}) is told to end: it may be finishing a save, or serving a copy of \
             the mount in a namespace that this user can't inspect"
        ));
    } else {
        let holders: Vec<String> = copies.iter().map(holder).collect();
        say(&format!(
            ", but copies of it are in other mount namespaces: {}. They become dead mounts now; remove them \
             there \
             with 'umount -l' (nsenter -m -t PROCESS)",
            holders.join("; ")
        ));
    }
    if let Err(errno) = pidfd_send_signal(daemon, Signal::TERM) {
        let error = Error::from(errno).within(format!("can't signal process {pid}"));
        return Err(error.of(path));
    }
    ended(daemon, LONG_PATIENCE)
}

/// Describes the processes of a mount namespace, at most three by name.
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
