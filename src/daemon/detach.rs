//! The unmounting itself: by umount2(2), or where that takes root, by fusermount3.

use std::path::Path;

use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::fusermount;
use crate::error::{Error, Result};

/// Takes the mount on `path` away at once; files that are open there stay usable until closed.
pub(super) fn detach(path: &Path) -> Result<()> {
    take_away(path, true)
}

/// Takes the mount on `path` away, if nothing is open there or `lazy` is set.
pub(super) fn take_away(path: &Path, lazy: bool) -> Result<()> {
    let flags = if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() } | UnmountFlags::NOFOLLOW;
    match rustix::mount::unmount(path, flags) {
        Err(Errno::PERM) => fusermount::unmount(path, lazy),
        result => result.map_err(|errno| Error::from(errno).within("can't unmount").of(path)),
    }
}
