//! Attributes of files and directories.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{FileType, makedev};
use twox_hash::XxHash3_128;

pub use seekable::source::Time;
use seekable::source::{Identity, PlaceStat, SourceStat, SourceVersion};

/// The identity of a file. Another key at a name means another file, with another inode number in the mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKey {
    /// Device and inode number of a local file.
    Local(u64, u64),
    /// A digest of the address of a file elsewhere, and of its version: each version is another file.
    Elsewhere([u8; 16]),
}

impl FileKey {
    /// Returns the device of a local file.
    pub fn device(self) -> Option<u64> {
        match self {
            Self::Local(device, _) => Some(device),
            Self::Elsewhere(_) => None,
        }
    }

    /// Returns the inode number of a local file.
    pub(crate) fn inode(self) -> Option<u64> {
        match self {
            Self::Local(_, inode) => Some(inode),
            Self::Elsewhere(_) => None,
        }
    }

    /// Returns the key of a version of the file at an address; without a version, of the directory there.
    fn elsewhere(address: &Path, version: Option<&SourceVersion>) -> Self {
        let version = version.map_or_else(Vec::new, SourceVersion::to_bytes);
        let bytes = [address.as_os_str().as_bytes(), b"\0", &version].concat();
        Self::Elsewhere(XxHash3_128::oneshot(&bytes).to_le_bytes())
    }
}

/// The result of stat, in integer types that do not depend on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The type of the file.
    pub kind: FileKind,
    /// The identity of the file.
    pub key: FileKey,
    /// Size and version.
    pub source: SourceStat,
    /// The bits of the permissions.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The number of a device.
    pub rdev: u64,
    /// The time of the last read.
    pub atime: Time,
    /// The time of the last change of the inode.
    pub ctime: Time,
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
            ctime: (stat.st_ctime as i64, stat.st_ctime_nsec as u32),
        };
        Self {
            kind: FileKind::of(FileType::from_raw_mode(stat.st_mode as _)),
            key: FileKey::Local(identity.device, identity.inode),
            source: identity.into(),
            mode: stat.st_mode as u32 & 0o7777,
            uid: stat.st_uid as u32,
            gid: stat.st_gid as u32,
            rdev: stat.st_rdev as u64,
            atime: (stat.st_atime as i64, stat.st_atime_nsec as u32),
            ctime: identity.ctime,
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
            ctime: (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
        };
        Self {
            kind: FileKind::of(FileType::from_raw_mode(stat.stx_mode.into())),
            key: FileKey::Local(identity.device, identity.inode),
            source: identity.into(),
            mode: u32::from(stat.stx_mode) & 0o7777,
            uid: stat.stx_uid,
            gid: stat.stx_gid,
            rdev: makedev(stat.stx_rdev_major, stat.stx_rdev_minor),
            atime: (stat.stx_atime.tv_sec, stat.stx_atime.tv_nsec),
            ctime: identity.ctime,
        }
    }
}

impl Stat {
    /// Returns the stat to show for a file or directory elsewhere. It belongs to the daemon's user, and all
    /// users may read it.
    pub(crate) fn elsewhere(address: &Path, found: PlaceStat) -> Self {
        let (kind, mode, version, source) = match found {
            PlaceStat::File(source) => (FileKind::File, 0o444, Some(source.version), source),
            PlaceStat::Directory => {
                let version = SourceVersion::of_tag("");
                (FileKind::Directory, 0o555, None, SourceStat { size: 0, mtime: (0, 0), version })
            }
        };
        Self {
            kind,
            key: FileKey::elsewhere(address, version.as_ref()),
            source,
            mode,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            rdev: 0,
            atime: source.mtime,
            ctime: source.mtime,
        }
    }
}

/// The file types of stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
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

impl FileKind {
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
