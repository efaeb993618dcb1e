//! Unmounting with umount2(2), or for ordinary users with fusermount3.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use seekable::error::{Error, Result};

use super::fusermount;
use super::held::{self, HeldEntry};
use super::mountinfo::Mount;

/// Unmounts the mount with this root at once; open files stay usable until they are closed.
pub(super) fn detach(mount: &Mount, root: &OwnedFd) -> Result<()> {
    match held::detach(root) {
        Err(Errno::PERM) => fusermount::unmount(&mount.mountpoint, true),
        result => result.map_err(|errno| Error::from(errno).within("can't unmount").of(&mount.mountpoint)),
    }
}

/// Unmounts the mount with this root, to which the name leads, if no file is open there.
pub(super) fn take_away(entry: &HeldEntry, mount: &Mount, root: OwnedFd) -> Result<()> {
    match entry.unmount(root) {
        Err(Errno::PERM) => fusermount::unmount(&mount.mountpoint, false),
        result => result.map_err(|errno| Error::from(errno).within("can't unmount").of(&mount.mountpoint)),
    }
}
