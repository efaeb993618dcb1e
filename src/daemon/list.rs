//! `--list`: the mounts of this program, with the process number, mode and start that their daemons report.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use super::mountinfo::{self, Mount};
use crate::error::Result;
use crate::options::PID_ATTRIBUTE;

/// The extended attributes of a mount's root with its mode and its start.
pub(super) const MODE_ATTRIBUTE: &str = "user.asdf-mount.mode";
const SINCE_ATTRIBUTE: &str = "user.asdf-mount.since";
/// Maximum length of the attributes in bytes.
const LONGEST: usize = 4096;
/// Time that a daemon has for its answer.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// A mount of this program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedMount {
    /// The directory.
    pub mountpoint: PathBuf,
    /// The mounted file or directory, as in df.
    pub source: OsString,
    /// The daemon's process number in its PID namespace; `None` if it does not answer.
    pub pid: Option<i32>,
    /// `ro`, `rw`, or `dead` without a daemon.
    pub mode: Option<String>,
    /// The start of the mount, in RFC 3339.
    pub since: Option<String>,
}

/// Returns the mounts of this user; for root, those of all users.
///
/// # Errors
/// `/proc/self/mountinfo` can't be read.
pub fn list() -> Result<Vec<ListedMount>> {
    let user = rustix::process::geteuid().as_raw();
    let is_own = |mount: &Mount| user == 0 || mount.owner.is_some_and(|(owner, _)| owner == user);
    let mounts = mountinfo::all()?.into_iter().filter(|mount| mount.is_ours() && is_own(mount));
    // All daemons are asked at once, as each may be slow.
    let asked: Vec<_> = mounts.map(|mount| (mount.clone(), ask(mount))).collect();
    let end = std::time::Instant::now() + ANSWER_TIME;
    let answered = asked.into_iter().map(|(mount, answer)| {
        let rest = end.saturating_duration_since(std::time::Instant::now());
        let known = answer.and_then(|answer| answer.recv_timeout(rest).ok()).unwrap_or_default();
        ListedMount { mountpoint: mount.mountpoint, source: mount.source, ..known }
    });
    Ok(answered.collect())
}

/// Asks a mount on a thread, because it may never answer.
fn ask(mount: Mount) -> Option<mpsc::Receiver<ListedMount>> {
    let (answer, answered) = mpsc::channel();
    let asking = std::thread::Builder::new().spawn(move || {
        let known = || {
            let pid = attribute(&mount, PID_ATTRIBUTE).and_then(|pid| pid.parse().ok());
            let (mode, since) = (attribute(&mount, MODE_ATTRIBUTE), attribute(&mount, SINCE_ATTRIBUTE));
            ListedMount { pid, mode, since, ..ListedMount::default() }
        };
        let mut listed = mount.as_owner(known).unwrap_or_else(known);
        if listed.pid.is_none() && mount.is_dead() {
            listed.mode = Some("dead".to_owned());
        }
        let _ = answer.send(listed);
    });
    asking.ok().map(|_| answered)
}

/// Reads an attribute of a mount's root.
pub(super) fn attribute(mount: &Mount, name: &str) -> Option<String> {
    let mut value = vec![0; LONGEST];
    let length = rustix::fs::getxattr(&mount.mountpoint, name, &mut value).ok()?;
    value.truncate(length);
    String::from_utf8(value).ok()
}
