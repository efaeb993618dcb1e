//! Mounts in which a thread may block forever: mounts of this program, and mounts served by a server or
//! another program.
//!
//! No thread enters a mount of this program. The daemon of that mount may be this very daemon, or may wait
//! for this daemon, because it mirrors a directory with a link into this mount. Both would then wait forever.
//! Paths are therefore resolved name by name, and the device of each name is read from the kernel, never from
//! the file system.
//!
//! A request thread never calls a [`Stalling`] file system.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, Statx, StatxAttributes, StatxFlags, major, makedev, minor};
use rustix::io::Errno;
use seekable::error::{Error, Kind, Result};
use seekable::per_process::PerProcess;
use seekable::sync::locked;
use twox_hash::XxHash3_128;

use crate::local::stat::FileKey;

/// File system type of this program's mounts in [`TABLE`].
const TYPE: &[u8] = b"fuse.asdf-mount";
const TABLE: &str = "/proc/self/mountinfo";
/// File system types without a disk that the kernel itself implements. `source/storage/remote.rs`
/// recognises local file systems by statfs, which may hang.
const OWN: [&[u8]; 10] =
    [b"tmpfs", b"btrfs", b"overlay", b"zfs", b"ramfs", b"bcachefs", b"ubifs", b"devtmpfs", b"proc", b"sysfs"];
/// File system type that the kernel implements on top of directories of other file systems.
const OVERLAY: &[u8] = b"overlay";
/// File system type for a disk that is served by a program.
const SERVED: &[u8] = b"fuseblk";

/// The mount table as last read.
static KNOWN: PerProcess<Mutex<Option<Known>>> = PerProcess::new(Mutex::default);

struct Known {
    /// The open table, which signals changes.
    table: File,
    ours: Vec<u64>,
    stalling: Vec<u64>,
}

/// A file system served by a server or another program. It may never answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stalling(NonZeroU32);

impl Stalling {
    /// A file system behind a link. Which one it is becomes known only when the link is followed.
    pub const LINKED: Self = Self(NonZeroU32::MAX);

    /// Returns the file system of a local file, if it is stalling.
    pub fn of(key: FileKey) -> Option<Self> {
        key.device().and_then(Self::of_device)
    }

    /// Returns the server of a file elsewhere. The highest bit of its number is set: local file systems are
    /// numbered by minor device numbers, which have 20 bits.
    pub(crate) fn of_server(name: &str) -> Self {
        let hash = XxHash3_128::oneshot(name.as_bytes()) as u32 >> 1;
        Self(NonZeroU32::MIN | 1 << 31 | hash)
    }

    /// Returns the file system of a device, if it is stalling.
    pub fn of_device(device: u64) -> Option<Self> {
        let may_stall = with_table(|known| known.stalling.contains(&device)).unwrap_or(false);
        may_stall.then(|| Self(NonZeroU32::new(minor(device)).unwrap_or(NonZeroU32::MIN)))
    }
}

/// Refuses a name in an open directory if a mount of this program begins there. Returns
/// the kernel's attributes.
pub(crate) fn check(dir: BorrowedFd<'_>, name: &OsStr) -> Result<Option<Statx>> {
    if name == "." {
        return Ok(None);
    }
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    let found = match rustix::fs::statx(dir, name, flags, StatxFlags::BASIC_STATS) {
        Ok(found) => found,
        // The kernel lacks statx, or a sandbox forbids it.
        Err(Errno::NOSYS | Errno::PERM) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    // Before Linux 5.8 the attributes do not say whether a mount begins at the name.
    let known = found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT);
    let is_root = !known || found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    if is_root && found.stx_dev_major == 0 && is_ours(makedev(0, found.stx_dev_minor)) {
        return Err(refused());
    }
    Ok(Some(found))
}

/// Returns the error for a name at which a mount of this program begins.
pub(crate) fn refused() -> Error {
    Error::new(Kind::System(libc::ELOOP), "a mount of asdf-mount lies there, which might wait for this one")
}

/// Returns device and inode number as cached, without a request to the file system, which may be this mount.
pub(crate) fn key_unasked(dir: impl AsFd) -> Result<FileKey> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = rustix::fs::statx(dir, "", flags, StatxFlags::INO)?;
    Ok(FileKey::Local(makedev(stat.stx_dev_major, stat.stx_dev_minor), stat.stx_ino))
}

/// True if the file lies in a mount of this program.
pub(crate) fn is_in_ours(key: FileKey) -> bool {
    key.device().is_some_and(is_ours)
}

/// True if the device belongs to a mount of this program.
fn is_ours(device: u64) -> bool {
    with_table(|known| known.ours.contains(&device)).unwrap_or(false)
}

/// Calls `question` with the current table; `None` without /proc.
fn with_table<T>(question: impl FnOnce(&Known) -> T) -> Option<T> {
    let mut known = locked(KNOWN.get());
    if known.as_ref().is_none_or(Known::is_outdated) {
        *known = read(known.take());
    }
    known.as_ref().map(question)
}

impl Known {
    fn is_outdated(&self) -> bool {
        let mut watched = [PollFd::new(&self.table, PollFlags::PRI)];
        // If poll fails, the table is read again.
        poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) != Ok(0)
    }
}

/// Reads the table; `None` without /proc.
fn read(known: Option<Known>) -> Option<Known> {
    let mut table = match known {
        Some(mut known) => {
            known.table.rewind().ok()?;
            known.table
        }
        None => File::open(TABLE).ok()?,
    };
    let mut text = Vec::new();
    table.read_to_end(&mut text).ok()?;
    let mounts: Vec<_> = text.split(|byte| *byte == b'\n').filter_map(Mount::parse).collect();
    let stalling = mounts.iter().filter(|mount| may_stall(mount.device, mount.kind));
    let stalling = stalling.map(|mount| mount.device).collect();
    Some(Known { table, ours: ours(&mounts), stalling })
}

/// Returns the devices of this program's mounts, and of mounts that show directories within these: an overlay, or a
/// mount of a program such as bindfs.
fn ours(mounts: &[Mount<'_>]) -> Vec<u64> {
    let mut devices = Vec::new();
    let mut points = Vec::<&[u8]>::new();
    // A mount comes after those that it shows.
    for mount in mounts {
        if mount.kind == TYPE || points.iter().any(|point| mount.shows(point)) {
            devices.push(mount.device);
            points.push(mount.point);
        }
    }
    devices
}

/// True for a file system without a local disk, unless the kernel itself implements it.
fn may_stall(device: u64, kind: &[u8]) -> bool {
    kind == SERVED || (major(device) == 0 && !OWN.contains(&kind))
}

/// A line of the table. Its texts are escaped.
#[derive(Debug, PartialEq, Eq)]
struct Mount<'t> {
    device: u64,
    point: &'t [u8],
    kind: &'t [u8],
    source: &'t [u8],
    options: &'t [u8],
}

impl<'t> Mount<'t> {
    fn parse(line: &'t [u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let device = std::str::from_utf8(fields.nth(2)?).ok()?;
        let (major, minor) = device.split_once(':')?;
        let point = fields.nth(1)?;
        fields.find(|field| *field == b"-")?;
        Some(Self {
            device: makedev(major.parse().ok()?, minor.parse().ok()?),
            point,
            kind: fields.next()?,
            source: fields.next()?,
            options: fields.next()?,
        })
    }

    /// True if the mount shows the directory `point` or a directory below it.
    fn shows(&self, point: &[u8]) -> bool {
        let is_within = |path: &[u8]| {
            path.strip_prefix(point).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        };
        match self.kind {
            OVERLAY => self.options.split(|byte| b",=:".contains(byte)).any(is_within),
            kind => kind.starts_with(b"fuse") && is_within(self.source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_table_tells_type_and_device() {
        let line = b"36 35 0:53 / /mnt/x ro,nosuid shared:1 master:2 - fuse.asdf-mount /a.asdf ro";
        let mount = Mount::parse(line).unwrap();
        assert_eq!((mount.device, mount.kind, mount.point), (makedev(0, 53), TYPE, &b"/mnt/x"[..]));
        assert_eq!(Mount::parse(b"36 35 0:53 / /mnt rw"), None);
        assert_eq!(Mount::parse(b""), None);
        assert!(!is_ours(makedev(0, 1)) && !is_ours(makedev(0, 1)));
    }

    #[test]
    fn a_mount_that_shows_a_directory_of_ours_is_ours() {
        let table: [&[u8]; 7] = [
            b"1 0 0:1 / /mnt/x ro - fuse.asdf-mount /src ro",
            b"2 0 0:2 / /src/b rw - fuse /mnt/x/sub rw",
            b"3 0 0:3 / /src/c rw - fuse.bindfs /src/b rw",
            b"4 0 0:4 / /src/o rw - overlay overlay rw,lowerdir=/a:/mnt/x,upperdir=/u",
            b"5 0 0:5 / /src/d rw - fuse /mnt/xy rw",
            b"6 0 0:6 / /src/s rw - fuse.sshfs host:/mnt/x rw",
            b"7 0 8:1 / /src/e rw - ext4 /mnt/x/disk rw",
        ];
        let mounts: Vec<_> = table.iter().map(|line| Mount::parse(line).unwrap()).collect();
        assert_eq!(ours(&mounts), [1, 2, 3, 4].map(|minor| makedev(0, minor)));
    }

    #[test]
    fn a_file_system_may_stall_unless_the_kernel_serves_it() {
        let disk = makedev(8, 1);
        let none = makedev(0, 53);
        let stalling: [(u64, &[u8]); 4] =
            [(none, b"fuse.sshfs"), (none, b"nfs4"), (none, b"cifs"), (disk, b"fuseblk")];
        assert!(stalling.iter().all(|(device, kind)| may_stall(*device, kind)));
        let own: [(u64, &[u8]); 3] = [(disk, b"ext4"), (none, b"tmpfs"), (none, b"btrfs")];
        assert!(!own.iter().any(|(device, kind)| may_stall(*device, kind)));
    }
}
