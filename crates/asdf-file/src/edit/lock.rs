//! The lock on a source, and a note in the state directory that names the process holding the lock.
//!
//! The lock is taken with `flock`. It belongs to the open file description, so the daemon inherits it at the
//! fork, and the kernel releases it when the last process that has the description open ends. (A POSIX record
//! lock belongs to the process, and is lost at the fork and at any close of the file. An open file
//! description lock would also do, but `/proc/locks` does not name its process.)
//!
//! The note is trusted only while the lock is held and the process that it names is alive.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::AtFlags;

use seekable::source::Identity;
use seekable::user_dirs::{self, STATE};

/// The extension of a note's file name, after the key of the source.
const NOTE: &str = "holder";
/// The number of attempts to find a file's lock in the list of locks.
const LISTINGS: usize = 3;
/// Maximum number of bytes of a note that are read. A note is a process id and a path.
const MAX_NOTE: u64 = 8192;

/// The holder of a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Holder {
    /// The process id.
    pub pid: Option<u32>,
    /// The mount point of the source.
    pub mount_point: Option<PathBuf>,
}

/// Describes for a message what the holder does with the file.
impl std::fmt::Display for Holder {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let process = match self.pid {
            Some(pid) => format!("process {pid}"),
            None => "another program".to_owned(),
        };
        match &self.mount_point {
            Some(mount_point) => {
                write!(out, "already mounted for writing at {} ({process})", mount_point.display())
            }
            None => write!(out, "{process} has locked it"),
        }
    }
}

/// True if the error says that the file system has no locks.
pub(super) fn unsupported(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOLCK | libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL | libc::ENOTTY)
    )
}

/// A note, which is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Note {
    dir: OwnedFd,
    name: String,
}

impl Note {
    /// Writes a note that this process holds the source. Failure is harmless, and only logged.
    ///
    /// Replaces any file that has the note's name. A link is not followed.
    pub(super) fn write(state: &Path, name: String, mount_point: &Path) -> Option<Self> {
        let text = format!("{}\n{}\n", std::process::id(), mount_point.display());
        let written = STATE.open(state).and_then(|dir| {
            user_dirs::write(&dir, &name, text.as_bytes())?;
            Ok(dir)
        });
        let dir = written
            .inspect_err(|error| tracing::debug!("{}: no note of the lock: {error}", state.display()))
            .ok()?;
        Some(Self { dir, name })
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        let pid = std::process::id().to_string();
        // After a fork the note belongs to the child.
        let text = user_dirs::read(&self.dir, &self.name, MAX_NOTE);
        if text.is_some_and(|text| text.lines().next() == Some(&pid)) {
            let _ = rustix::fs::unlinkat(&self.dir, &self.name, AtFlags::empty());
        }
    }
}

/// Returns the holder of a source's lock, as far as it can be found.
///
/// The process id comes from `/proc/locks`. The mount point comes from the note. The note may be under
/// another name of the file or in another user's state directory. Then the mount point is looked up in the
/// list of mounts.
pub(super) fn holder(identity: &Identity, source: &Path, note: &str, state: Option<&Path>) -> Holder {
    let on_device = |same| {
        let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
        locks.lines().find_map(|line| locked_by(line, identity, same))
    };
    // A long list is read in pieces, and a line can be missed if other locks are released meanwhile.
    let pid = (0..LISTINGS).find_map(|_| on_device(true)).or_else(|| on_device(false));
    let state = state.and_then(|state| STATE.open_existing(state).ok());
    let own = state.as_ref().and_then(|state| noted(state, note));
    let own = own.filter(|found| pid.is_none() || found.pid == pid);
    let others = || state.as_ref().zip(pid).and_then(|(state, pid)| noted_of(state, pid));
    own.or_else(others).unwrap_or_else(|| {
        // Some paths in the list may not be UTF-8.
        let mounts = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
        let mounts = String::from_utf8_lossy(&mounts);
        Holder { pid, mount_point: pid.filter(|pid| is_ours(*pid)).and_then(|_| mounted(&mounts, source)) }
    })
}

/// Reads a note; `None` if the process that it names is not alive.
fn noted(state: &OwnedFd, name: &str) -> Option<Holder> {
    let text = user_dirs::read(state, name, MAX_NOTE)?;
    let (pid, mount_point) = text.split_once('\n')?;
    let pid: u32 = pid.parse().ok()?;
    let mount_point = PathBuf::from(mount_point.trim_end_matches('\n'));
    lives(pid).then_some(Holder { pid: Some(pid), mount_point: Some(mount_point) })
}

/// Returns any note that names the process `pid`. A process has all its files mounted in one place.
fn noted_of(state: &OwnedFd, pid: u32) -> Option<Holder> {
    let names = rustix::fs::Dir::read_from(state).ok()?;
    let names = names.filter_map(|entry| entry.ok()?.file_name().to_str().ok().map(str::to_owned));
    let mut notes = names.filter(|name| name.strip_suffix(NOTE).is_some_and(|stem| stem.ends_with('.')));
    notes.find_map(|name| noted(state, &name).filter(|holder| holder.pid == Some(pid)))
}

/// True if a process runs this program. Any program may lock a file that a mount shows.
fn is_ours(pid: u32) -> bool {
    let name = std::fs::read(format!("/proc/{pid}/comm"));
    name.is_ok_and(|name| name.trim_ascii_end() == b"asdf-mount")
}

fn lives(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Returns the mount point of the writable mount of asdf-mount that shows `source` or a directory above it;
/// `None` if there is no such mount or more than one.
fn mounted(mounts: &str, source: &Path) -> Option<PathBuf> {
    let mut found = mounts.lines().filter_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let place: Vec<_> = place.split(' ').collect();
        let kind: Vec<_> = kind.split(' ').collect();
        let ours =
            kind.first() == Some(&"fuse.asdf-mount") && place.get(5)?.split(',').any(|word| word == "rw");
        let shown = plain(kind.get(1)?);
        (ours && source.starts_with(&shown)).then(|| plain(place.get(4).unwrap_or(&"")))
    });
    found.next().filter(|_| found.next().is_none())
}

/// Decodes a path from the list of mounts, in which white space and backslashes are octal escapes.
fn plain(written: &str) -> PathBuf {
    let mut parts = written.split('\\');
    let mut path = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => path.extend([&[byte], &part.as_bytes()[3..]].concat()),
            None => path.extend([b"\\", part.as_bytes()].concat()),
        }
    }
    PathBuf::from(OsString::from_vec(path))
}

/// Returns the process that holds the source's lock according to a line of `/proc/locks`. A line has the form
///
/// `1: FLOCK  ADVISORY  WRITE 708 fe:00:42 0 EOF`.
fn locked_by(line: &str, identity: &Identity, same_device: bool) -> Option<u32> {
    let mut words = line.split_whitespace().skip(1);
    let kind = words.next()?;
    let pid = words.nth(2)?;
    let place = words.next()?;
    let (device, inode) = place.rsplit_once(':')?;
    let inode: u64 = inode.parse().ok()?;
    let major = rustix::fs::major(identity.device);
    let minor = rustix::fs::minor(identity.device);
    // On some file systems without a device of their own (btrfs) stat gives another device number than the
    // kernel uses internally. For other file systems a different device means another disk, so a file there
    // may have the same inode number by chance.
    let same = if same_device {
        device == format!("{major:02x}:{minor:02x}")
    } else {
        major == 0 && device.starts_with("00:")
    };
    if !same {
        return None;
    }
    let pid = pid.parse().ok().filter(|pid| lives(*pid));
    if kind == "FLOCK" && inode == identity.inode { pid } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_proc_locks_names_the_process() {
        let device = rustix::fs::makedev(0xfe, 0);
        let identity = Identity { device, inode: 42, size: 0, mtime: (0, 0), ctime: (0, 0) };
        let line = format!("1: FLOCK  ADVISORY  WRITE {} fe:00:42 0 EOF", std::process::id());
        assert_eq!(locked_by(&line, &identity, true), Some(std::process::id()));
        assert_eq!(locked_by(&line.replace(":42", ":43"), &identity, true), None);
        assert_eq!(locked_by(&line.replace("FLOCK", "POSIX"), &identity, true), None);
        assert_eq!(locked_by("", &identity, true), None);
        let elsewhere = line.replace("fe:00", "00:1f");
        assert_eq!(locked_by(&elsewhere, &identity, true), None);
        assert_eq!(locked_by(&elsewhere, &identity, false), None, "a file of another disk");
        let identity = Identity { device: rustix::fs::makedev(0, 0x2a), ..identity };
        assert_eq!(locked_by(&elsewhere, &identity, true), None);
        assert_eq!(locked_by(&elsewhere, &identity, false), Some(std::process::id()));
        assert_eq!(locked_by(&line, &identity, false), None, "a file of another disk");
    }

    #[test]
    fn a_note_is_believed_while_its_process_lives() {
        let state = tempfile::tempdir().unwrap();
        let mount_point = Path::new("/mnt/x");
        let note = Note::write(state.path(), "b.holder".to_owned(), mount_point).unwrap();
        let found = noted(&note.dir, &note.name).unwrap();
        let told = format!("already mounted for writing at /mnt/x (process {})", std::process::id());
        assert_eq!(found.to_string(), told);
        std::fs::write(state.path().join(&note.name), "4000000000\n/mnt/x\n").unwrap();
        assert_eq!(noted(&note.dir, &note.name), None);
    }

    #[test]
    fn a_note_is_written_through_no_link_and_not_where_others_may_write() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let state = tempfile::tempdir().unwrap();
        let target = state.path().join("target");
        let planted = state.path().join("b.holder");
        std::fs::write(&target, "precious").unwrap();
        symlink(&target, &planted).unwrap();
        let write = || Note::write(state.path(), "b.holder".to_owned(), Path::new("/mnt/x"));
        let note = write().unwrap();
        assert!(noted(&note.dir, &note.name).is_some());
        assert_eq!(std::fs::read(&target).unwrap(), b"precious");
        drop(note);
        assert!(planted.symlink_metadata().is_err());
        std::fs::set_permissions(state.path(), PermissionsExt::from_mode(0o770)).unwrap();
        assert!(write().is_none());
        assert_eq!(std::fs::read_dir(state.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_note_under_another_name_is_found_by_its_process() {
        let state = tempfile::tempdir().unwrap();
        let note = Note::write(state.path(), "b.holder".to_owned(), Path::new("/mnt/x")).unwrap();
        let found = noted_of(&note.dir, std::process::id()).unwrap();
        assert_eq!(found.mount_point, Some("/mnt/x".into()));
        assert_eq!(noted_of(&note.dir, 4_000_000_000), None);
    }

    #[test]
    fn the_list_of_mounts_tells_of_a_file_and_of_what_lies_in_a_folder() {
        let line = |point: &str, options: &str, kind: &str, shown: &str| {
            format!("36 35 0:42 / {point} {options} shared:1 - {kind} {shown} rw,user_id=0\n")
        };
        let ours = "fuse.asdf-mount";
        let one = line("/mnt/my\\040x", "rw,nosuid", ours, "/data/a\\134b.asdf");
        let found = |table: &str, source: &str| mounted(table, Path::new(source));
        assert_eq!(found(&one, "/data/a\\b.asdf"), Some("/mnt/my x".into()));
        assert_eq!(found(&one, "/data/b.asdf"), None);
        let folder = one.clone() + &line("/mnt/y", "rw", ours, "/data");
        assert_eq!(found(&folder, "/data/sub/b.asdf"), Some("/mnt/y".into()));
        assert_eq!(found(&folder, "/data/a\\b.asdf"), None, "it may be either");
        for (options, kind) in [("ro", ours), ("rw", "fuse.sshfs")] {
            assert_eq!(found(&line("/mnt/y", options, kind, "/data"), "/data/b.asdf"), None);
        }
    }
}
