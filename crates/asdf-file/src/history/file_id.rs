//! The identity of a file, by which its bucket (the directory with its texts) is found.
//!
//! The key is a digest of the machine, the file system, the inode and its time of birth. It survives a rename
//! of the file, and differs for a new file that gets the inode number of a deleted one. The machine is left out
//! where the state directory is on a local disk, so that a new machine-id changes no key. Several machines may
//! share another state directory, and their disks may be copies: the machine is `/etc/machine-id` there, else
//! the host name. The file system is its identifier in statfs, which is the same after a reboot, or else the
//! device number. On a file system that machines share (NFS, SMB, sshfs) its name `server:path` stands for both
//! machine and file system, so that all machines find the bucket; times of birth are left out there.
//!
//! The path is a digest of the machine and the absolute path. It finds the bucket of a file that was restored
//! under its old name. Such a file has another inode. A file that is newer than the last save of that bucket
//! is another file.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{AtFlags, Statx, StatxFlags};
use twox_hash::XxHash3_128;

use seekable::error::Result;
use seekable::source::{Time, storage};

/// The facts of a file that make its identity.
const WANTED: StatxFlags = StatxFlags::INO.union(StatxFlags::BTIME).union(StatxFlags::MTIME);

/// The identity of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    pub(super) key: OsString,
    pub(super) path: OsString,
    /// The time of birth or of the last change of the bytes, whichever is earlier. A file that is a copy of
    /// an older one may keep that one's time of change.
    pub(super) since: Time,
    /// The time of the last change of the bytes.
    pub(super) changed: Time,
}

impl FileId {
    /// Returns the identity of the file `name` in a directory. `machine` is empty if the state directory is of one
    /// machine.
    pub(super) fn of(dir: BorrowedFd<'_>, name: &OsStr, machine: &str) -> Result<Self> {
        let stat = rustix::fs::statx(dir, name, AtFlags::SYMLINK_NOFOLLOW, WANTED)?;
        Self::of_stat(&stat, dir, name, machine)
    }

    /// Returns the identity of an open file, which was found as `name` in a directory, as [`of`](Self::of) does.
    pub(super) fn of_open(
        file: BorrowedFd<'_>,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        machine: &str,
    ) -> Result<Self> {
        let stat = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, WANTED)?;
        Self::of_stat(&stat, dir, name, machine)
    }

    fn of_stat(stat: &Statx, dir: BorrowedFd<'_>, name: &OsStr, machine: &str) -> Result<Self> {
        let device = format!("{}:{}", stat.stx_dev_major, stat.stx_dev_minor);
        let shared = storage::is_remote(dir).then(|| shared_name(&device)).flatten();
        let has_birth = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
        let birth = has_birth.then_some((stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec));
        let key = match shared {
            Some(shared) => [&shared[..], &stat.stx_ino.to_le_bytes()].join(&0),
            None => {
                let file_system = match rustix::fs::fstatvfs(dir).map_or(0, |space| space.f_fsid) {
                    0 => device,
                    id => format!("{id:x}"),
                };
                format!("{machine}\0{file_system}\0{}\0{birth:?}", stat.stx_ino).into_bytes()
            }
        };
        let path = rustix::fs::readlink(format!("/proc/self/fd/{}", dir.as_raw_fd()), Vec::new())?;
        let path = PathBuf::from(OsString::from_vec(path.into_bytes())).join(name);
        let named = [machine.as_bytes(), path.as_os_str().as_bytes()].join(&0);
        let path_digest = XxHash3_128::oneshot(&named) as u64;
        let changed = (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec);
        Ok(Self {
            key: format!("{:032x}", XxHash3_128::oneshot(&key)).into(),
            path: format!("{path_digest:016x}").into(),
            since: birth.map_or(changed, |birth| birth.min(changed)),
            changed,
        })
    }
}

/// Returns `/etc/machine-id`, or the host name if that is empty.
pub fn machine() -> &'static str {
    static MACHINE: OnceLock<String> = OnceLock::new();
    MACHINE.get_or_init(|| {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let id = read(Path::new("/etc/machine-id"));
        if id.is_empty() { read(Path::new("/proc/sys/kernel/hostname")) } else { id }
    })
}

/// Returns the source `server:path` of a network file system with this device number; `None` if it is local.
fn shared_name(device: &str) -> Option<Vec<u8>> {
    let table = std::fs::read("/proc/self/mountinfo").ok()?;
    let lines = table.split(|byte| *byte == b'\n');
    let mounts = lines.map(|line| line.split(|byte| *byte == b' ').collect::<Vec<_>>());
    let mut found = mounts.filter(|fields| fields.get(2) == Some(&device.as_bytes()));
    let fields = found.next()?;
    let source = fields.iter().position(|field| *field == b"-").and_then(|at| fields.get(at + 2))?;
    (source.contains(&b':') || source.starts_with(b"//")).then(|| source.to_vec())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_renamed_file_keeps_its_key_and_a_new_one_has_another() {
        let folder = tempfile::tempdir().unwrap();
        let dir = std::fs::File::open(folder.path()).unwrap();
        let id = |name: &str| FileId::of(dir.as_fd(), OsStr::new(name), "").unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("a.asdf"), "a").unwrap();
        let first = id("a.asdf");
        std::fs::rename(path("a.asdf"), path("b-c.asdf")).unwrap();
        let renamed = id("b-c.asdf");
        assert!(renamed.key == first.key && renamed.path != first.path && renamed.since == first.since);
        std::fs::write(path("a.asdf"), "other").unwrap();
        let other = id("a.asdf");
        assert!(other.key != first.key && other.path == first.path);
        let open = std::fs::File::open(path("b-c.asdf")).unwrap();
        std::fs::rename(path("a.asdf"), path("b-c.asdf")).unwrap();
        assert_eq!(FileId::of_open(open.as_fd(), dir.as_fd(), OsStr::new("b-c.asdf"), "").unwrap(), renamed);
        assert!(FileId::of(dir.as_fd(), OsStr::new("none"), "").is_err());
    }
}
