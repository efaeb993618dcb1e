//! Attributes of files and directories.

use rustix::fs::{FileType, makedev};

pub(crate) use crate::source::Time;
use crate::source::{Identity, SourceStat};

/// The identity of a file: device and inode number.
pub(crate) type Key = (u64, u64);

/// The result of stat, in integer types that do not depend on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) kind: Kind,
    pub(crate) key: Key,
    pub(crate) source: SourceStat,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) rdev: u64,
    pub(crate) atime: Time,
    pub(crate) ctime: Time,
}

impl From<rustix::fs::Stat> for Stat {
    // The fields have different types on different machines.
    #[allow(clippy::unnecessary_cast)]
    fn from(stat: rustix::fs::Stat) -> Self {
        let identity = Identity {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mtime: (stat.st_mtime as i64, stat.st_mtime_nsec as u32),
        };
        Self {
            kind: Kind::of(FileType::from_raw_mode(stat.st_mode as _)),
            key: (identity.device, identity.inode),
            source: identity.into(),
            mode: stat.st_mode as u32 & 0o7777,
            uid: stat.st_uid as u32,
            gid: stat.st_gid as u32,
            rdev: stat.st_rdev as u64,
            atime: (stat.st_atime as i64, stat.st_atime_nsec as u32),
            ctime: (stat.st_ctime as i64, stat.st_ctime_nsec as u32),
        }
    }
}

impl From<rustix::fs::Statx> for Stat {
    fn from(stat: rustix::fs::Statx) -> Self {
        let identity = Identity {
            device: makedev(stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            size: stat.stx_size,
            mtime: (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
        };
        Self {
            kind: Kind::of(FileType::from_raw_mode(stat.stx_mode.into())),
            key: (identity.device, identity.inode),
            source: identity.into(),
            mode: u32::from(stat.stx_mode) & 0o7777,
            uid: stat.stx_uid,
            gid: stat.stx_gid,
            rdev: makedev(stat.stx_rdev_major, stat.stx_rdev_minor),
            atime: (stat.stx_atime.tv_sec, stat.stx_atime.tv_nsec),
            ctime: (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
        }
    }
}

/// The file types of stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

impl Kind {
    pub(crate) fn of(kind: FileType) -> Self {
        match kind {
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Link,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            FileType::CharacterDevice => Self::CharDevice,
            FileType::BlockDevice => Self::BlockDevice,
            _ => Self::File,
        }
    }
}
