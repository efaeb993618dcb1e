//! `asdf-mount -u`: unmounts, and waits for the daemon to end.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use asdf_access::options::SUBTYPE;
use rustix::fd::OwnedFd;
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::process::Signal;
use seekable::error::{Error, Kind, Result, in_shell, one_line};

use super::held::{self, HeldEntry};
use super::mountinfo::{self, Health, Mount};
use super::serving::{self, Daemon};
use super::{detach, mountpoint};
use crate::log::complain;

/// The extended attribute of a mount's root with the path of the report that its daemon writes when it ends.
const REPORT_ATTRIBUTE: &str = "user.asdf-mount.report";
/// The extended attribute of a mount's root that lists the files lost when the mount ends, a line each.
const UNKEPT_ATTRIBUTE: &str = "user.asdf-mount.unkept";
/// Maximum length of a path.
const MAX_PATH: usize = 4096;
/// Maximum number of bytes of a report that are printed.
const MAX_REPORT: u64 = 64 << 10;

/// Seconds that `-u` waits for the daemon before it searches other mount namespaces for a copy of the mount.
const SOON: u64 = 3;
/// Seconds that `-u` waits after [`SOON`] before it signals the daemon to end.
const PATIENCE: u64 = 7;
/// Seconds that `-u` waits after the signal: the daemon may have to finish a save of a large file.
const LONG_PATIENCE: u64 = 3600;

/// Time that `-u` waits for the answer of a mount.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// Unmounts this program's mount on `wanted`, and waits until its daemon has ended. Also removes a dead
/// mount.
///
/// # Errors
/// There is no mount of this program, it is in use, or the daemon does not end.
pub(crate) fn unmount(wanted: &Path) -> Result<()> {
    let missing = || Error::new(Kind::System(libc::ENOENT), "not mounted: no such directory").of(wanted);
    let found = HeldEntry::find(wanted).map_err(|error| match error.errno() {
        libc::ENOENT => missing(),
        _ => error,
    })?;
    let entry = found.entry;
    let path = entry.shown();
    let root = match entry.hold() {
        Ok(root) => root,
        Err(Errno::NOENT) => return Err(missing()),
        Err(errno) => return Err(Error::from(errno).of(path)),
    };
    let refuse = |message: String| Err(Error::new(Kind::System(libc::EINVAL), message).of(path));
    let mount = match entry.mount_of(&root)? {
        None => {
            return refuse(match our_mount_around(path) {
                Some(outer) => format!("not a mountpoint, but a part of the mount: {}", way_out(&outer)),
                None => "not a mountpoint; 'findmnt -t fuse.asdf-mount' lists all mounts".to_owned(),
            });
        }
        Some(mount) if !mount.has_our_type() => {
            return refuse(format!("a mount of type {}, not of asdf-mount; use umount", mount.kind));
        }
        Some(mount) => mount,
    };
    let daemon = serving::daemon_of(&mount);
    let state = ask(&mount, &root, daemon.is_some());
    if daemon.is_none() && state.is_dead {
        detach::detach(&mount, &root)?;
        drop(root);
        mountpoint::remove_left_behind(&entry);
        return Ok(());
    }
    detach::take_away(&entry, &mount, root).map_err(|error| match error.errno() {
        libc::EBUSY => {
            let message = match mount_within(path) {
                Some(inner) => format!("in use: {} is mounted in it; unmount that first", inner.display()),
                None if is_working_directory(path) => {
                    format!("in use: it is your working directory; leave it: {}", way_out(path))
                }
                None => {
                    let place = in_shell(path);
                    format!(
                        "in use: a program has an open file or its working directory there; close it, and try again; \
                         to see it: fuser -vm {place}; or: umount -l {place}"
                    )
                }
            };
            Error::new(Kind::System(libc::EBUSY), message).of(path)
        }
        _ => error,
    })?;
    let Some(daemon) = daemon else {
        say(path, " without waiting for its daemon: no process of asdf-mount that serves it is visible here");
        return Ok(());
    };
    if !seen_off(path, &mount, &daemon)? {
        let message = format!(
            "unmounted, but its daemon (process {}) has not ended after {LONG_PATIENCE} s",
            daemon.pid
        );
        return Err(Error::new(Kind::System(libc::ETIMEDOUT), message).of(path));
    }
    for line in state.unkept.lines() {
        complain(format_args!("{SUBTYPE}: {}", one_line(line)));
    }
    if let Some(report) = state.report {
        let is_own = mount.owner.is_some_and(|(user, _)| user == rustix::process::geteuid().as_raw());
        if mount.as_owner(|| tell(&report)).is_none() && is_own {
            tell(&report);
        }
    }
    Ok(())
}

/// True if this process, and so the shell that started it, works in the directory or below it.
fn is_working_directory(path: &Path) -> bool {
    std::env::current_dir().is_ok_and(|here| here.starts_with(path))
}

/// Returns the command that unmounts a mountpoint, and before that leaves it.
fn way_out(mountpoint: &Path) -> String {
    let unmount = format!("asdf-mount -u {}", in_shell(mountpoint));
    match mountpoint.parent() {
        Some(above) if is_working_directory(mountpoint) => format!("cd {} && {unmount}", in_shell(above)),
        _ => unmount,
    }
}

/// Returns the deepest mountpoint of this program that has `path` in it.
fn our_mount_around(path: &Path) -> Option<PathBuf> {
    let ours = mountinfo::all().ok()?.into_iter().filter(Mount::has_our_type);
    let around = ours.map(|mount| mount.mountpoint).filter(|outer| path.starts_with(outer));
    around.max_by_key(|outer| outer.components().count())
}

/// Returns the deepest mountpoint below `path`.
fn mount_within(path: &Path) -> Option<PathBuf> {
    let mounts = mountinfo::all().ok()?.into_iter().map(|mount| mount.mountpoint);
    mounts
        .filter(|inner| inner != path && inner.starts_with(path))
        .max_by_key(|inner| inner.components().count())
}

/// Prints the report of a daemon that has ended, and removes it, with the rights of the mount's owner. If the
/// report is not printed here, the owner's next mount prints it.
fn tell(report: &Path) {
    let is_report = report.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"report-"));
    if !is_report {
        return;
    }
    let Ok(found) = HeldEntry::find(report) else { return };
    let Ok(file) = found.entry.open_file() else { return };
    let Ok(stat) = held::stat(&file) else { return };
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !is_file || stat.st_uid != rustix::process::geteuid().as_raw() {
        return;
    }
    let mut text = Vec::new();
    if std::fs::File::from(file).take(MAX_REPORT).read_to_end(&mut text).is_err() {
        return;
    }
    for line in String::from_utf8_lossy(&text).lines() {
        complain(format_args!("{SUBTYPE}: {}", one_line(line)));
    }
    let _ = found.entry.remove_file();
}

/// Facts about a mount, read before it is unmounted.
#[derive(Default)]
struct LastWords {
    /// True if the mount has no daemon.
    is_dead: bool,
    /// Path of the daemon's report.
    report: Option<PathBuf>,
    /// The files that the daemon could not keep, a line each.
    unkept: String,
}

/// Asks a mount, and believes its attributes only if it is known to be ours. Uses a separate thread, since a
/// hanging mount never answers.
fn ask(mount: &Mount, root: &OwnedFd, is_ours: bool) -> LastWords {
    let Ok(root) = root.try_clone() else { return LastWords::default() };
    let mount = mount.clone();
    let (answer, answered) = mpsc::channel();
    let asking = std::thread::Builder::new().spawn(move || {
        let attributes = || {
            let report = held::attribute(&root, REPORT_ATTRIBUTE, MAX_PATH).ok();
            let unkept = held::attribute(&root, UNKEPT_ATTRIBUTE, MAX_REPORT as usize).unwrap_or_default();
            let unkept = String::from_utf8_lossy(&unkept).into_owned();
            LastWords { is_dead: false, report: report.map(|path| OsString::from_vec(path).into()), unkept }
        };
        let last_words = if is_ours {
            mount.as_owner(attributes).unwrap_or_else(attributes)
        } else {
            LastWords { is_dead: mount.health(&root) == Health::Dead, ..LastWords::default() }
        };
        // The mount must not be in use by this thread when it is unmounted.
        drop(root);
        // Sending fails if the receiver has timed out.
        let _ = answer.send(last_words);
    });
    if asking.is_err() {
        return LastWords::default();
    }
    answered.recv_timeout(ANSWER_TIME).unwrap_or_default()
}

fn say(path: &Path, what: &str) {
    complain(format_args!("{SUBTYPE}: {}: unmounted{what}", one_line(&path.to_string_lossy())));
}

/// Waits until the daemon of an unmounted mount has ended; prints the reason if that takes long.
///
/// A copy of the mount in another mount namespace keeps the daemon alive. The daemon then gets a signal to
/// end. It finishes its saves, and the copy becomes a dead mount.
fn seen_off(path: &Path, mount: &Mount, daemon: &Daemon) -> Result<bool> {
    if daemon.ends_within(SOON)? {
        return Ok(true);
    }
    let pid = daemon.pid;
    if mountinfo::is_elsewhere(pid) {
        say(path, &format!(" here, but not in the mount namespace of its daemon (process {pid})"));
        return Ok(true);
    }
    let copies = mountinfo::copies_of(&mount.device);
    if copies.is_empty() {
        if daemon.ends_within(PATIENCE)? {
            return Ok(true);
        }
        let what = format!(
            "; its daemon (process {pid}) is told to end: it may be finishing a save, or serving a copy of \
             the mount in a namespace that this user can't inspect"
        );
        say(path, &what);
    } else {
        let holders: Vec<String> = copies.iter().map(holder).collect();
        let what = format!(
            ", but copies of it are in other mount namespaces: {}. They become dead mounts now; remove them \
             there \
             with 'umount -l' (nsenter -m -t PROCESS)",
            holders.join("; ")
        );
        say(path, &what);
    }
    daemon.signal(mount, Signal::TERM).map_err(|error| error.of(path))?;
    daemon.ends_within(LONG_PATIENCE)
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
