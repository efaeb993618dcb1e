//! System calls on a name in an open directory.
//!
//! No absolute path is used, and no link is followed. A mount over its own source therefore sees the source
//! below it, and a path that another user replaces by a link leads nowhere.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use seekable::error::Result;
use seekable::source::wait_for_lease;

use crate::local::mounts;
use crate::local::stat::{FileKey, Stat};

/// Flags to open a directory as an `O_PATH` descriptor, which holds it without reading it.
pub(crate) const HOLD: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Flags to read a file. If a FIFO or a device has taken the file's place, opening neither blocks nor
/// affects it.
pub(crate) const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Returns the stat of `name` in `dir`. Does not follow a link.
pub(crate) fn stat_in(dir: BorrowedFd<'_>, name: &OsStr) -> Result<Stat> {
    match mounts::check(dir, name)? {
        // On a local disk the kernel's attributes are up to date.
        Some(found) if found.stx_dev_major != 0 => Ok(found.into()),
        _ => Ok(rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?.into()),
    }
}

/// Returns the stat of an open file.
pub(crate) fn stat_of(fd: impl AsFd) -> Result<Stat> {
    Ok(rustix::fs::fstat(fd)?.into())
}

/// True if this process may write `name` in `dir`. If that can't be determined, returns
/// true: the write may be tried.
pub(crate) fn may_write(dir: BorrowedFd<'_>, name: &OsStr) -> Result<bool> {
    match mounts::check(dir, name) {
        Err(error) if error.errno() == libc::ELOOP => return Ok(false),
        found => found?,
    };
    let access = rustix::fs::accessat(dir, name, rustix::fs::Access::WRITE_OK, rustix::fs::AtFlags::EACCESS);
    Ok(!matches!(access, Err(Errno::ACCESS | Errno::PERM | Errno::ROFS)))
}

/// Opens the regular file `name` in `dir`.
pub(crate) fn open(dir: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd> {
    wait_for_lease(|| open_as(dir, name, READ), |error| error.errno() == libc::EAGAIN)
}

/// Opens `name` in `dir`, unless a mount of this program begins there.
pub(crate) fn open_as(dir: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> Result<OwnedFd> {
    // If the name is on the file system of `dir`, no mount begins there.
    match rustix::fs::openat2(dir, name, flags, Mode::empty(), ResolveFlags::NO_XDEV) {
        Ok(opened) => return Ok(opened),
        // A mount begins there, the kernel lacks openat2, or a sandbox forbids it.
        Err(Errno::XDEV | Errno::NOSYS | Errno::PERM) => {}
        Err(errno) => return Err(errno.into()),
    }
    mounts::check(dir, name)?;
    Ok(rustix::fs::openat(dir, name, flags, Mode::empty())?)
}

/// Opens the directory `name` in `dir` with [`HOLD`]. Refuses a link.
pub(crate) fn step(dir: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd> {
    open_as(dir, name, HOLD)
}

/// Opens the parent directory of `dir` with [`HOLD`]; returns it with its key.
pub(crate) fn step_up(dir: BorrowedFd<'_>) -> Result<(OwnedFd, FileKey)> {
    let above = rustix::fs::openat(dir, "..", HOLD, Mode::empty())?;
    let key = mounts::key_unasked(&above)?;
    Ok((above, key))
}

/// Opens the directory at `path` below `dir` with [`HOLD`]. No component may be a link.
pub(crate) fn descend(dir: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd> {
    // A path that leads into another file system is opened name by name by the code that follows.
    let resolve = ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::BENEATH
        | ResolveFlags::NO_XDEV;
    match rustix::fs::openat2(dir, path, HOLD, Mode::empty(), resolve) {
        Ok(fd) => return Ok(fd),
        // The kernel lacks openat2, a sandbox forbids it, or the path is longer than the system accepts.
        Err(Errno::NOSYS | Errno::PERM | Errno::NAMETOOLONG | Errno::AGAIN | Errno::XDEV) => {}
        Err(errno) => return Err(errno.into()),
    }
    let mut names = path.iter();
    let first = names.next().unwrap_or(OsStr::new("."));
    names.try_fold(step(dir, first)?, |held, name| step(held.as_fd(), name))
}
