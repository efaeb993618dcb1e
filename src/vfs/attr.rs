//! Attributes: what the mount says of a node.

use std::time::Duration;

use crate::decode::UNIT;
use crate::host::stat::{Kind, Stat, Time};
use crate::vfs::node::Ino;

/// Bytes that programs should read at once: a unit, which is decoded as a whole. By default, older versions of `cat`
/// and `cp` ask for less, and then a request costs as much as the copy.
const BLOCK_SIZE: u32 = UNIT as u32;

/// What the mount says of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Its number.
    pub ino: Ino,
    /// What it is.
    pub kind: Kind,
    /// Bytes; 0 for what is not a file or link.
    pub size: u64,
    /// Permissions, already without those that the mount takes away.
    pub mode: u16,
    /// Directories that name it; 1 for a directory whose subdirectories were not counted.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number, of devices.
    pub rdev: u32,
    /// Last access.
    pub atime: Time,
    /// Last change of the bytes.
    pub mtime: Time,
    /// Last change of anything.
    pub ctime: Time,
    /// Bytes that are best read at once.
    pub block_size: u32,
    /// Whether it may be longer at the next look: a stream.
    pub grows: bool,
}

impl Attr {
    /// How long the kernel may believe it. A stream is asked for anew each time: reading shows more of it
    /// at once, and a file that is shorter than what was read of it looks cut to `tail`.
    pub fn ttl(&self) -> Duration {
        if self.grows { Duration::ZERO } else { crate::vfs::TTL }
    }

    /// Bytes in units of 512, as `du` counts them.
    pub fn blocks(&self) -> u64 {
        self.size.div_ceil(512)
    }

    /// Whether a process of `uid` and `gid` may do `wanted` (4 read, 2 write, 1 execute), as far as its
    /// permissions go.
    pub fn allows(&self, uid: u32, gid: u32, wanted: u16) -> bool {
        let granted = match () {
            // Root may read anything, and pass through every directory.
            () if uid == 0 => 6 | u16::from(self.kind == Kind::Directory || self.mode & 0o111 != 0),
            () if uid == self.uid => self.mode >> 6,
            () if gid == self.gid => self.mode >> 3,
            () => self.mode,
        };
        wanted & !(granted & 0o7) == 0
    }
}

/// Whose the nodes are, and what is taken from their permissions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ownership {
    /// Owner of everything; else that of the source.
    pub uid: Option<u32>,
    /// Group of everything; else that of the source.
    pub gid: Option<u32>,
    /// Permission bits that nothing has.
    pub umask: u16,
}

impl Ownership {
    /// The same of `tree.yaml` and its folder, where the source can be written.
    pub(crate) fn writable(&self, ino: Ino, kind: Kind, size: u64, stat: &Stat) -> Attr {
        let attr = self.attr(ino, kind, size, stat);
        let more = if kind == Kind::Link { 0 } else { self.mode_of(stat) & 0o222 & !self.umask };
        Attr { mode: attr.mode | more, ..attr }
    }

    /// What the mount says of a mirrored file with `stat`: programs can be executed.
    pub(crate) fn mirrored(&self, ino: Ino, stat: &Stat) -> Attr {
        let attr = self.attr(ino, Kind::File, stat.source.size, stat);
        Attr { mode: attr.mode | self.mode_of(stat) & 0o111 & !self.umask, ..attr }
    }

    /// The permissions in the source. Where it has another owner or group than the mount shows, these are
    /// among the others here, and those then get no more than these have.
    fn mode_of(&self, stat: &Stat) -> u16 {
        let mode = (stat.mode & 0o777) as u16;
        let (owner, mut group, mut others) = (mode >> 6, mode >> 3 & 0o7, mode & 0o7);
        if self.uid.is_some_and(|uid| uid != stat.uid) {
            (group, others) = (group & owner, others & owner);
        }
        if self.gid.is_some_and(|gid| gid != stat.gid) {
            others &= group;
        }
        owner << 6 | group << 3 | others
    }

    /// What the mount says of a node that comes from something with `stat`.
    pub(crate) fn attr(&self, ino: Ino, kind: Kind, size: u64, stat: &Stat) -> Attr {
        let source = self.mode_of(stat);
        let mode = match kind {
            // A mirrored directory keeps what it had, without writing.
            Kind::Directory if stat.kind == Kind::Directory => source & 0o555,
            // A user who can read the file can enter the folder that stands for it.
            Kind::Directory => (source & 0o444) | ((source & 0o444) >> 2),
            Kind::Link => 0o777,
            _ => source & 0o444,
        };
        let mode = if kind == Kind::Link { mode } else { mode & !self.umask };
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
            block_size: BLOCK_SIZE,
            grows: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Identity;

    fn stat(kind: Kind, mode: u32) -> Stat {
        let identity = Identity { device: 1, inode: 2, size: 3, mtime: (-5, 6) };
        Stat {
            kind,
            key: (1, 2),
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
        assert_eq!(mode(Kind::File, Kind::File, 0o666), 0o444);
        assert_eq!(mode(Kind::File, Kind::File, 0o4755), 0o444);
        assert_eq!(mode(Kind::File, Kind::File, 0), 0);
        assert_eq!(mode(Kind::Directory, Kind::File, 0o044), 0o055);
        assert_eq!(mode(Kind::Directory, Kind::Directory, 0o1777), 0o555);
        assert_eq!(mode(Kind::Directory, Kind::Directory, 0o700), 0o500);
        assert_eq!(mode(Kind::Directory, Kind::File, 0o640), 0o550);
        let mirrored = |mode| own.mirrored(Ino::ROOT, &stat(Kind::File, mode)).mode;
        assert_eq!([0o4755, 0o750, 0o666].map(mirrored), [0o555, 0o550, 0o444]);
    }

    #[test]
    fn the_options_win_over_the_source() {
        let own = Ownership { uid: Some(1), gid: Some(2), umask: 0o077 };
        let attr = own.attr(Ino::ROOT, Kind::File, 1025, &stat(Kind::File, 0o644));
        assert_eq!((attr.uid, attr.gid, attr.mode, attr.blocks()), (1, 2, 0o400, 3));
        assert!(attr.allows(1, 9, 4) && !attr.allows(5, 2, 4) && !attr.allows(1, 1, 2));
    }

    #[test]
    fn the_sources_owner_and_group_get_no_more_as_others() {
        let mode = |uid, gid, mode| {
            let own = Ownership { uid, gid, umask: 0 };
            own.writable(Ino::ROOT, Kind::File, 0, &stat(Kind::File, mode)).mode
        };
        assert_eq!(mode(Some(1), None, 0o066), 0);
        assert_eq!(mode(Some(7), Some(8), 0o604), 0o604);
        assert_eq!(mode(None, Some(2), 0o606), 0o600);
        assert_eq!(mode(Some(1), Some(2), 0o664), 0o664);
    }
}
