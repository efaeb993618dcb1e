//! `--list`: the mounts of this program, with their daemons, and the mode and start that these report.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use rustix::fd::OwnedFd;
use seekable::error::Result;

use super::mountinfo::{self, Health, Mount};
use super::{held, serving};

/// The extended attributes of a mount's root with its mode and its start.
pub(super) const MODE_ATTRIBUTE: &str = "user.asdf-mount.mode";
const SINCE_ATTRIBUTE: &str = "user.asdf-mount.since";
/// The extended attribute of a mount's root that exists while a source is gone.
const GONE_ATTRIBUTE: &str = "user.asdf-mount.gone";
/// Maximum length of the attributes in bytes.
const MAX_ATTRIBUTE: usize = 4096;
/// Time that a daemon has for its answer.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// A mount of this program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListedMount {
    /// The directory.
    pub mountpoint: PathBuf,
    /// The mounted file or directory, as in df.
    pub source: OsString,
    /// The daemon's process number; `None` if no process that is visible here serves the mount.
    pub pid: Option<i32>,
    /// `ro`, `rw`, `gone` while a source is not there, or `dead` without a daemon.
    pub mode: Option<String>,
    /// The start of the mount, in RFC 3339.
    pub since: Option<String>,
}

/// Returns the mounts of this user; for root, those of all users.
///
/// # Errors
/// `/proc/self/mountinfo` can't be read.
pub(crate) fn list() -> Result<Vec<ListedMount>> {
    let user = rustix::process::geteuid().as_raw();
    let is_own = |mount: &Mount| user == 0 || mount.owner.is_some_and(|(owner, _)| owner == user);
    let mounts = mountinfo::all()?.into_iter().filter(|mount| mount.has_our_type() && is_own(mount));
    let daemons = serving::all();
    // All daemons are asked at once, as each may be slow.
    let asked: Vec<_> = mounts
        .map(|mount| {
            let pid = daemons.iter().find(|daemon| daemon.serves(&mount)).map(|daemon| daemon.pid);
            (mount.clone(), pid, ask(mount, pid.is_some()))
        })
        .collect();
    let end = std::time::Instant::now() + ANSWER_TIME;
    let answered = asked.into_iter().map(|(mount, pid, answer)| {
        let mut known = ListedMount::default();
        let rest = || end.saturating_duration_since(std::time::Instant::now());
        while let Some(next) = answer.as_ref().and_then(|answer| answer.recv_timeout(rest()).ok()) {
            known = next;
        }
        ListedMount { mountpoint: mount.mountpoint, source: mount.source, pid, ..known }
    });
    Ok(answered.collect())
}

/// Asks a mount on a thread, because it may never answer. Attributes are believed only if the mount is known
/// to be ours.
fn ask(mount: Mount, is_ours: bool) -> Option<mpsc::Receiver<ListedMount>> {
    let (answer, answered) = mpsc::channel();
    let asking = std::thread::Builder::new().spawn(move || {
        // Held only for one request, because a held mount is in use.
        let attribute = |name| held::hold_mount(&mount).and_then(|root| attribute(&root, name));
        // Sending fails if the receiver has timed out.
        let tell = |mode: Option<&str>, since: Option<String>| {
            let mode = mode.map(str::to_owned);
            let _ = answer.send(ListedMount { mode, since, ..ListedMount::default() });
        };
        let ask_ours = || {
            let mode = attribute(MODE_ATTRIBUTE).filter(|mode| mode == "ro" || mode == "rw");
            let since = attribute(SINCE_ATTRIBUTE).filter(|since| is_time(since));
            tell(mode.as_deref(), since.clone());
            // The source may be on a file system that never answers.
            if attribute(GONE_ATTRIBUTE).is_some() {
                tell(Some("gone"), since);
            }
        };
        if is_ours {
            mount.as_owner(ask_ours).unwrap_or_else(ask_ours);
        } else if held::hold_mount(&mount).is_some_and(|root| mount.health(&root) == Health::Dead) {
            tell(Some("dead"), None);
        }
    });
    asking.ok().map(|_| answered)
}

/// True for a time in UTC as RFC 3339 writes it, such as `2026-01-31T23:59:59Z`.
fn is_time(text: &str) -> bool {
    text.len() <= 30 && text.bytes().all(|byte| byte.is_ascii_digit() || b"-:.TZ".contains(&byte))
}

/// Reads an attribute of a mount's root.
pub(super) fn attribute(root: &OwnedFd, name: &str) -> Option<String> {
    String::from_utf8(held::attribute(root, name, MAX_ATTRIBUTE).ok()?).ok()
}
