//! Attributes, kinds and errors in fuser's types.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use asdf_access::local::stat::{FileKind, Time};
use fuser::{
    Errno, FileAttr, FileType, INodeNo, ReplyAttr, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyXattr,
};
use seekable::error::{Error, Result};

use crate::vfs::Attr;

/// Returns the errno of an error.
pub(crate) fn errno(error: &Error) -> Errno {
    Errno::from_i32(error.errno())
}

pub(crate) fn kind(kind: FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Link => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}

pub(crate) fn attr(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(attr.ino.0),
        size: attr.size,
        blocks: attr.blocks(),
        atime: time(attr.atime),
        mtime: time(attr.mtime),
        ctime: time(attr.ctime),
        crtime: UNIX_EPOCH,
        kind: kind(attr.kind),
        perm: attr.mode,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: attr.block_size,
        flags: 0,
    }
}

/// Returns the attributes of a name that does not exist: with inode 0, the kernel may cache the absence.
pub(crate) fn absent() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

/// Maximum number of seconds that every `SystemTime` can hold: a million years before or after 1970.
const FARTHEST: i64 = 1 << 45;

fn time((seconds, nanoseconds): Time) -> SystemTime {
    let seconds = seconds.clamp(-FARTHEST, FARTHEST);
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    let time = second.and_then(|second| second.checked_add(Duration::from_nanos(nanoseconds.into())));
    time.unwrap_or(UNIX_EPOCH)
}

/// The reply to a request that changes nothing. Such a request may end early, with an error.
pub(crate) trait Refuse: Send + 'static {
    /// Replies an error.
    fn refuse(self, errno: Errno);
}

macro_rules! refuse {
    ($($reply:ty),*) => {
        $(impl Refuse for $reply {
            fn refuse(self, errno: Errno) {
                self.error(errno);
            }
        })*
    };
}

refuse!(ReplyAttr, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyXattr);

/// Replies success or the errno of the error.
pub(crate) fn done(result: Result<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_keep_their_fraction() {
        assert_eq!(time((-1, 250_000_000)), UNIX_EPOCH - Duration::from_millis(750));
        assert_eq!(time((1, 5)), UNIX_EPOCH + Duration::new(1, 5));
        assert_eq!(time((i64::MIN, 0)), UNIX_EPOCH - Duration::from_secs(1 << 45));
        assert_eq!(time((i64::MAX, 0)), UNIX_EPOCH + Duration::from_secs(1 << 45));
    }
}
