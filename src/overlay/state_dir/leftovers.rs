//! Files that earlier mounts left in the state directory, and reporting them.
//!
//! A mount that ends writes a report of the files that it kept. `asdf-mount -u` or the next mount prints and
//! removes the report. If the daemon was killed, its scratch files stay; each later mount of the same source
//! reports them until they are removed.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use seekable::error::in_shell;
use seekable::user_dirs::bound::{DIRECTORY, REPORT, SCRATCH, begins, names, paths, remove};
use seekable::user_dirs::{self, STATE};

use crate::overlay::refusal::ERROR;
use crate::overlay::state_dir::report::listed;

/// Maximum number of bytes of a report that are read.
pub(crate) const MAX_REPORT: u64 = 64 << 10;

/// Returns the lines of reports, and lines about scratch files of earlier mounts. `stems` limits them to
/// sources with these stems (names of a source's directory and file, joined by `-`). With `writes`, the
/// returned reports and empty directories are removed.
pub(crate) fn reports(stems: Option<&[OsString]>, writes: bool) -> Vec<String> {
    let Ok(path) = STATE.path() else { return Vec::new() };
    let Ok(dir) = STATE.open_existing(&path) else { return Vec::new() };
    let mut lines = Vec::new();
    for name in names(dir.as_fd()) {
        if begins(&name, REPORT) {
            let text = user_dirs::read(&dir, &name, MAX_REPORT).unwrap_or_default();
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

/// True if a directory of scratch files, `scratch-STEM-PID-NUMBER`, has this stem.
fn is_of(name: &OsStr, stem: &OsStr) -> bool {
    let rest = name.as_encoded_bytes().strip_prefix(SCRATCH.as_bytes());
    let rest = rest.and_then(|rest| rest.strip_prefix(stem.as_encoded_bytes()));
    rest.is_some_and(|rest| rest.starts_with(b"-") && rest.iter().all(|b| *b == b'-' || b.is_ascii_digit()))
}

/// Returns the non-empty files in a directory of scratch files, if its daemon is dead.
fn left_in(dir: BorrowedFd<'_>, name: &OsStr) -> Option<Vec<OsString>> {
    let scratch = rustix::fs::openat(dir, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()).ok()?;
    rustix::fs::flock(&scratch, FlockOperation::NonBlockingLockExclusive).ok()?;
    // nano's lock file has the name of vim's swap file.
    let is_nanos = |file: &OsString| {
        is_vim_swap(file) && user_dirs::read(&scratch, file, 6).is_some_and(|start| start == "b0nano")
    };
    let has_data = |file: &OsString| {
        let stat = rustix::fs::statat(&scratch, &**file, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| {
            FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_size > 0
        })
    };
    let mut files = paths(scratch.as_fd());
    files.retain(|file| file != ERROR && has_data(file) && !is_nanos(file));
    files.sort();
    Some(files)
}

fn tell(dir: &Path, files: Vec<OsString>) -> Vec<String> {
    let (swaps, others): (Vec<_>, Vec<_>) = files.into_iter().partition(|name| is_vim_swap(name));
    let recover = |name: OsString| {
        let path: PathBuf = dir.join(name);
        format!(
            "a mount was killed while vim had a file open in it: recover what was not saved, and remove that file \
             then: vim -r {}",
            in_shell(&path)
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

/// True for a name that vim gives to swap files: `.NAME.swp`, then `.swo` down to `.swa`, `.svz` …
pub(in crate::overlay) fn is_vim_swap(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let end = name.len().checked_sub(4).and_then(|at| name.get(at..));
    let is_end = end.is_some_and(|end| {
        end.starts_with(b".s") && (b'a'..=b'w').contains(&end[2]) && end[3].is_ascii_lowercase()
    });
    name.starts_with(b".") && name.len() > 5 && is_end
}
