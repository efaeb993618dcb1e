//! What earlier mounts left in the state directory, so that the next one can report it.
//!
//! A mount that ends writes a report of what it kept. `asdf-mount -u` or the next mount prints the report and
//! removes it. A mount whose daemon was killed leaves its scratch files; each later mount of the same source
//! reports them until they are removed.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};

use crate::overlay::beside::is_vim_swap;
use crate::overlay::refusal::ERROR;
use crate::overlay::state_dir::bound::{begins, names, remove};
use crate::overlay::state_dir::report::listed;
use crate::overlay::state_dir::{DIRECTORY, REPORT, SCRATCH};
use crate::user_dirs::{self, STATE};

/// Bytes of a report that are read.
pub(crate) const LONGEST_REPORT: u64 = 64 << 10;

/// Lines of what earlier mounts left; of scratch files those of the sources whose stems these are, or all.
/// Unless the mount writes nothing, reports that are told and directories without a file are removed.
pub(crate) fn told(stems: Option<&[OsString]>, writes: bool) -> Vec<String> {
    let Ok(path) = STATE.path() else { return Vec::new() };
    let Ok(dir) = STATE.open_existing(&path) else { return Vec::new() };
    let mut lines = Vec::new();
    for name in names(dir.as_fd()) {
        if begins(&name, REPORT) {
            let text = user_dirs::read(&dir, &name, LONGEST_REPORT).unwrap_or_default();
            lines.extend(text.lines().map(str::to_owned));
            if writes {
                remove(dir.as_fd(), &name);
            }
        } else if begins(&name, SCRATCH) {
            let Some(files) = left_in(dir.as_fd(), &name) else { continue };
            match files.is_empty() {
                true if writes => drop(remove(dir.as_fd(), &name)),
                true => {}
                false if stems.is_none_or(|stems| stems.iter().any(|stem| is_of(&name, stem))) => {
                    lines.extend(tell(&path.join(&name), files));
                }
                false => tracing::warn!("{}: left by a mount that was killed", path.join(&name).display()),
            }
        }
    }
    lines
}

/// Whether a directory of scratch files, `scratch-STEM-PID-NUMBER`, is of this stem.
fn is_of(name: &OsStr, stem: &OsStr) -> bool {
    let rest = name.as_encoded_bytes().strip_prefix(SCRATCH.as_bytes());
    let rest = rest.and_then(|rest| rest.strip_prefix(stem.as_encoded_bytes()));
    rest.is_some_and(|rest| rest.starts_with(b"-") && rest.iter().all(|b| *b == b'-' || b.is_ascii_digit()))
}

/// The files in a directory of scratch files that hold something, if its daemon is dead.
fn left_in(dir: BorrowedFd<'_>, name: &OsStr) -> Option<Vec<OsString>> {
    let scratch = rustix::fs::openat(dir, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()).ok()?;
    rustix::fs::flock(&scratch, FlockOperation::NonBlockingLockExclusive).ok()?;
    // nano's lock has the name of vim's swap file.
    let is_nanos = |name: &OsString| {
        user_dirs::read(&scratch, name, 6).is_some_and(|start| is_vim_swap(name) && start == "b0nano")
    };
    let holds = |name: &OsString| {
        let stat = rustix::fs::statat(&scratch, &**name, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| {
            FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_size > 0
        })
    };
    let mut files = names(scratch.as_fd());
    files.retain(|name| name != ERROR && holds(name) && !is_nanos(name));
    files.sort();
    Some(files)
}

fn tell(dir: &Path, files: Vec<OsString>) -> Vec<String> {
    let (swaps, others): (Vec<_>, Vec<_>) = files.into_iter().partition(|name| is_vim_swap(name));
    let recover = |name: OsString| {
        let path: PathBuf = dir.join(name);
        format!(
            "a mount was killed while vim had a file open in it: recover what was not saved with \
             'vim -r {}', and remove that file then",
            path.display()
        )
    };
    let mut lines: Vec<String> = swaps.into_iter().map(recover).collect();
    if !others.is_empty() {
        let others = others.iter().map(OsString::as_os_str);
        lines.push(format!(
            "a mount was killed and has left {} in {}: take what you need, and remove the rest",
            listed(others),
            dir.display()
        ));
    }
    lines
}
