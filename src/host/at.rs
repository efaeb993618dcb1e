//! The system's calls on a name in an open directory.
//!
//! No path is ever given to the system from `/` on, and no link is followed: so a mount over its own source sees
//! what lies under it, and a path that another user swaps for a link leads nowhere.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::error::Result;
use crate::host::stat::Stat;
use crate::source::FileSource;

/// To hold a directory without reading it.
pub(crate) const HOLD: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// To read a file; a FIFO or a device that took its place meanwhile must not block or be touched.
pub(crate) const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// What stat says of `name` in `dir`; a link is not followed.
pub(crate) fn stat_in(dir: BorrowedFd<'_>, name: &OsStr) -> Result<Stat> {
    Ok(rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?.into())
}

/// What stat says of an open file.
pub(crate) fn stat_of(fd: impl AsFd) -> Result<Stat> {
    Ok(rustix::fs::fstat(fd)?.into())
}

/// Whether this process may write `name` in `dir`; where that can't be told, it may be tried.
pub(crate) fn may_write(dir: BorrowedFd<'_>, name: &OsStr) -> bool {
    let access = rustix::fs::accessat(dir, name, rustix::fs::Access::WRITE_OK, rustix::fs::AtFlags::EACCESS);
    !matches!(access, Err(Errno::ACCESS | Errno::PERM | Errno::ROFS))
}

/// Opens the regular file `name` in `dir`, which messages call `label`.
pub(crate) fn open_in(dir: BorrowedFd<'_>, name: &OsStr, label: &Path) -> Result<FileSource> {
    FileSource::from_file(File::from(open(dir, name).map_err(|error| error.of(label))?), label)
}

/// Opens the regular file `name` in `dir`.
pub(crate) fn open(dir: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd> {
    Ok(rustix::fs::openat(dir, name, READ, Mode::empty())?)
}

/// Holds the directory `name` in `dir`; a link is refused.
pub(crate) fn step(dir: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd> {
    Ok(rustix::fs::openat(dir, name, HOLD, Mode::empty())?)
}

/// Holds the directory at `path` below `dir`; no part of it may be a link.
pub(crate) fn descend(dir: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd> {
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::BENEATH;
    match rustix::fs::openat2(dir, path, HOLD, Mode::empty(), resolve) {
        Ok(fd) => return Ok(fd),
        // An older kernel, a sandbox that forbids the call, or a path longer than the system takes.
        Err(Errno::NOSYS | Errno::PERM | Errno::NAMETOOLONG | Errno::AGAIN) => {}
        Err(errno) => return Err(errno.into()),
    }
    let mut names = path.iter();
    let first = names.next().unwrap_or(OsStr::new("."));
    names.try_fold(step(dir, first)?, |held, name| step(held.as_fd(), name))
}
