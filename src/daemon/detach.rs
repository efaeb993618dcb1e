//! Unmounting with umount2(2), or for ordinary users with fusermount3.

use std::path::Path;

use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::fusermount;
use crate::error::{Error, Result};

/// Unmounts `path` at once; open files stay usable until they are closed.
pub(super) fn detach(path: &Path) -> Result<()> {
    take_away(path, true)
}

/// Unmounts `path` if no file is open there, or in any case with `lazy`.
pub(super) fn take_away(path: &Path, lazy: bool) -> Result<()> {
    let flags = if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() } | UnmountFlags::NOFOLLOW;
    match rustix::mount::unmount(path, flags) {
        Err(Errno::PERM) => fusermount::unmount(path, lazy),
        result => result.map_err(|errno| Error::from(errno).within("can't unmount").of(path)),
    }
}
