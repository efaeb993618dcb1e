//! Attributes of nodes.

use std::time::Duration;

use asdf_access::local::stat::{FileKind, Stat, Time};
use seekable::decode::GRANULE;

use crate::vfs::node::Ino;

/// Preferred read size (`st_blksize`) in bytes: a granule, because a granule is decoded as a whole. Older versions
/// of `cat` and `cp` use smaller reads by default, for which the overhead of a request is as large as the
/// cost of copying its bytes.
const BLOCK_SIZE: u32 = GRANULE as u32;
/// That of a file on a server: as much as a random read fetches. Python reads this much for the header of an array.
const BLOCK_SIZE_ON_SERVER: u32 = 64 << 10;

/// Attributes of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Inode number.
    pub ino: Ino,
    /// Type of the node.
    pub kind: FileKind,
    /// Size in bytes; 0 unless the node is a file or a link.
    pub size: u64,
    /// Permissions, without those that the mount removes.
    pub mode: u16,
    /// Number of links; 1 for a directory if its subdirectories were not counted.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device.
    pub rdev: u32,
    /// Last access.
    pub atime: Time,
    /// Last change of the bytes.
    pub mtime: Time,
    /// Last change of the bytes or attributes.
    pub ctime: Time,
    /// Preferred read size in bytes.
    pub block_size: u32,
    /// True if the file may grow: a streamed block.
    pub grows: bool,
}

impl Attr {
    /// Returns the time for which the kernel may cache the attributes. It is zero for a stream: a read may
    /// return more bytes than the cached size has, and `tail` would then report that the file was truncated.
    pub fn ttl(&self) -> Duration {
        if self.grows { Duration::ZERO } else { crate::vfs::TTL }
    }

    /// Returns the size in sectors of 512 bytes, as `du` counts.
    pub fn blocks(&self) -> u64 {
        self.size.div_ceil(512)
    }

    /// True if the permissions allow a process of `uid` and `gid` the access `wanted` (4
    /// read, 2 write, 1 execute).
    pub fn allows(&self, uid: u32, gid: u32, wanted: u16) -> bool {
        let granted = if uid == 0 {
            // Root may read every file and search every directory.
            6 | u16::from(self.kind == FileKind::Directory || self.mode & 0o111 != 0)
        } else if uid == self.uid {
            self.mode >> 6
        } else if gid == self.gid {
            self.mode >> 3
        } else {
            self.mode
        };
        wanted & !(granted & 0o7) == 0
    }
}

/// Owner and group of the nodes, and the permissions removed from them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ownership {
    /// Owner of all nodes; `None` for the source's owner.
    pub uid: Option<u32>,
    /// Group of all nodes; `None` for the source's group.
    pub gid: Option<u32>,
    /// Permission bits removed from all nodes.
    pub umask: u16,
}

impl Ownership {
    /// Returns the attributes of a writable `tree.yaml`, or of its directory, for a file with `stat`.
    pub(crate) fn writable(&self, ino: Ino, kind: FileKind, size: u64, stat: &Stat) -> Attr {
        let attr = self.attr(ino, kind, size, stat);
        let more = if kind == FileKind::Link { 0 } else { self.mode_of(stat) & 0o222 & !self.umask };
        Attr { mode: attr.mode | more, ..attr }
    }

    /// Returns the attributes of a mirrored file with `stat`. Execute permissions are kept.
    pub(crate) fn mirrored(&self, ino: Ino, stat: &Stat) -> Attr {
        let attr = self.attr(ino, FileKind::File, stat.source.size, stat);
        Attr { mode: attr.mode | self.mode_of(stat) & 0o111 & !self.umask, ..attr }
    }

    /// Returns the source's permissions, adapted to the owner and group that the mount shows. If the mount
    /// shows another owner, the source's owner counts here as group or others. Group and others then get no
    /// permission that the source's owner lacks. If the mount shows another group, others likewise get no
    /// permission that the source's group lacks.
    fn mode_of(&self, stat: &Stat) -> u16 {
        let mode = (stat.mode & 0o777) as u16;
        let owner = mode >> 6;
        let mut group = mode >> 3 & 0o7;
        let mut others = mode & 0o7;
        if self.uid.is_some_and(|uid| uid != stat.uid) {
            (group, others) = (group & owner, others & owner);
        }
        if self.gid.is_some_and(|gid| gid != stat.gid) {
            others &= group;
        }
        owner << 6 | group << 3 | others
    }

    /// Returns the attributes of a node derived from a file or directory with `stat`.
    pub(crate) fn attr(&self, ino: Ino, kind: FileKind, size: u64, stat: &Stat) -> Attr {
        let source = self.mode_of(stat);
        let mode = match kind {
            // Changes fail with EROFS. Directories keep the permission to write, because 'rm -r' of a copy needs it.
            FileKind::Directory if stat.kind == FileKind::Directory => source,
            // A user who can read the file can enter its directory.
            FileKind::Directory => (source & 0o666) | ((source & 0o444) >> 2),
            FileKind::Link => 0o777,
            _ => source & 0o444,
        };
        let mode = if kind == FileKind::Link { mode } else { mode & !self.umask };
        Attr {
            ino,
            kind,
            size,
            mode,
            nlink: 1,
            uid: self.uid.unwrap_or(stat.uid),
            gid: self.gid.unwrap_or(stat.gid),
            rdev: u32::try_from(stat.rdev).unwrap_or(0),
            atime: stat.atime,
            mtime: stat.source.mtime,
            ctime: stat.ctime,
            // Directories are read in pieces of this size, too.
            block_size: match stat.key.device() {
                None if kind == FileKind::File => BLOCK_SIZE_ON_SERVER,
                _ => BLOCK_SIZE,
            },
            grows: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use asdf_access::local::stat::FileKey;
    use seekable::source::Identity;

    fn stat(kind: FileKind, mode: u32) -> Stat {
        let identity = Identity { device: 1, inode: 2, size: 3, mtime: (-5, 6), ctime: (0, 0) };
        Stat {
            kind,
            key: FileKey::Local(1, 2),
            source: identity.into(),
            mode,
            uid: 7,
            gid: 8,
            rdev: 0,
            atime: (0, 0),
            ctime: (0, 0),
        }
    }

    #[test]
    fn nothing_can_be_written_nor_read_beyond_the_source() {
        let own = Ownership::default();
        let mode = |kind, source, mode| own.attr(Ino::ROOT, kind, 0, &stat(source, mode)).mode;
        assert_eq!(mode(FileKind::File, FileKind::File, 0o666), 0o444);
        assert_eq!(mode(FileKind::File, FileKind::File, 0o4755), 0o444);
        assert_eq!(mode(FileKind::File, FileKind::File, 0), 0);
        assert_eq!(mode(FileKind::Directory, FileKind::File, 0o044), 0o055);
        assert_eq!(mode(FileKind::Directory, FileKind::Directory, 0o1777), 0o777);
        assert_eq!(mode(FileKind::Directory, FileKind::Directory, 0o700), 0o700);
        assert_eq!(mode(FileKind::Directory, FileKind::File, 0o640), 0o750);
        let mirrored = |mode| own.mirrored(Ino::ROOT, &stat(FileKind::File, mode)).mode;
        assert_eq!([0o4755, 0o750, 0o666].map(mirrored), [0o555, 0o550, 0o444]);
    }

    #[test]
    fn the_options_win_over_the_source() {
        let own = Ownership { uid: Some(1), gid: Some(2), umask: 0o077 };
        let attr = own.attr(Ino::ROOT, FileKind::File, 1025, &stat(FileKind::File, 0o644));
        assert_eq!((attr.uid, attr.gid, attr.mode, attr.blocks()), (1, 2, 0o400, 3));
        assert!(attr.allows(1, 9, 4) && !attr.allows(5, 2, 4) && !attr.allows(1, 1, 2));
    }

    #[test]
    fn the_sources_owner_and_group_get_no_more_as_others() {
        let mode = |uid, gid, mode| {
            let own = Ownership { uid, gid, umask: 0 };
            own.writable(Ino::ROOT, FileKind::File, 0, &stat(FileKind::File, mode)).mode
        };
        assert_eq!(mode(Some(1), None, 0o066), 0);
        assert_eq!(mode(Some(7), Some(8), 0o604), 0o604);
        assert_eq!(mode(None, Some(2), 0o606), 0o600);
        assert_eq!(mode(Some(1), Some(2), 0o664), 0o664);
    }
}
