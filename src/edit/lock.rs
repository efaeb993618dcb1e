//! Who has a source: one lock, and a note that says who holds it.
//!
//! The lock is `flock`'s: it belongs to the open file, so that it goes along into the daemon when the
//! program forks, and is gone when the last process that has the file open ends, however it ends. (A
//! POSIX record lock is the process's, lost at the fork and at any close of the file; one of an open
//! file description would do as well, but no program could be asked for it in `/proc/locks`.)
//!
//! The note lies in the state directory. It is believed only while the lock is held and the process it
//! names is alive.

use std::io;
use std::path::{Path, PathBuf};

use super::place::Place;
use crate::source::Identity;
use crate::source::storage::{Storage, System};

/// Who holds a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// The process.
    pub pid: Option<u32>,
    /// Where the source is mounted.
    pub mount_point: Option<PathBuf>,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.pid {
            Some(pid) => write!(out, "process {pid}")?,
            None => write!(out, "another program")?,
        }
        match &self.mount_point {
            Some(mount_point) => write!(out, ", mounted on {}", mount_point.display()),
            None => Ok(()),
        }
    }
}

/// Whether this answer means that the file system has no locks.
pub(super) fn unsupported(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOLCK | libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL | libc::ENOTTY)
    )
}

/// A note, taken away when dropped.
#[derive(Debug)]
pub(super) struct Note(PathBuf);

impl Note {
    /// Writes who holds the source; nothing depends on whether that succeeds.
    pub(super) fn write(state: &Path, source: &Path, mount_point: &Path) -> Self {
        let path = note_path(state, source);
        let text = format!("{}\n{}\n", std::process::id(), mount_point.display());
        let _ = System.create_dir(state).and_then(|()| std::fs::write(&path, text));
        Self(path)
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        let pid = std::process::id().to_string();
        // After a fork it is the child's.
        if std::fs::read_to_string(&self.0).is_ok_and(|text| text.lines().next() == Some(&pid)) {
            let _ = std::fs::remove_file(&self.0);
        }
    }
}

/// Who holds the lock of a source, as far as can be found out.
pub(super) fn holder(identity: &Identity, source: &Path, state: Option<&Path>) -> Holder {
    if let Some(holder) = state.and_then(|state| noted(&note_path(state, source))) {
        return holder;
    }
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    Holder { pid: locks.lines().find_map(|line| locked_by(line, identity)), mount_point: None }
}

fn note_path(state: &Path, source: &Path) -> PathBuf {
    Place::in_state(source, state).journal.with_extension("holder")
}

fn noted(path: &Path) -> Option<Holder> {
    let text = std::fs::read_to_string(path).ok()?;
    let (pid, mount_point) = text.split_once('\n')?;
    let pid: u32 = pid.parse().ok()?;
    let mount_point = PathBuf::from(mount_point.trim_end_matches('\n'));
    Path::new(&format!("/proc/{pid}"))
        .exists()
        .then_some(Holder { pid: Some(pid), mount_point: Some(mount_point) })
}

/// The process of a line of `/proc/locks`: `1: FLOCK  ADVISORY  WRITE 708 fe:00:42 0 EOF`.
fn locked_by(line: &str, identity: &Identity) -> Option<u32> {
    let mut words = line.split_whitespace().skip(1);
    let (kind, pid, place) = (words.next()?, words.nth(2)?, words.next()?);
    let inode: u64 = place.rsplit(':').next()?.parse().ok()?;
    let pid = pid.parse().ok().filter(|pid| Path::new(&format!("/proc/{pid}")).exists());
    if kind == "FLOCK" && inode == identity.inode { pid } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_proc_locks_names_the_process() {
        let identity = Identity { device: 1, inode: 42, size: 0, mtime: (0, 0) };
        let line = format!("1: FLOCK  ADVISORY  WRITE {} fe:00:42 0 EOF", std::process::id());
        assert_eq!(locked_by(&line, &identity), Some(std::process::id()));
        assert_eq!(locked_by(&line.replace(":42", ":43"), &identity), None);
        assert_eq!(locked_by(&line.replace("FLOCK", "POSIX"), &identity), None);
        assert_eq!(locked_by("", &identity), None);
    }

    #[test]
    fn a_note_is_believed_while_its_process_lives() {
        let state = tempfile::tempdir().unwrap();
        let (source, mount_point) = (Path::new("/a/b.asdf"), Path::new("/mnt/x"));
        let note = Note::write(state.path(), source, mount_point);
        let found = noted(&note.0).unwrap();
        assert_eq!(found.to_string(), format!("process {}, mounted on /mnt/x", std::process::id()));
        std::fs::write(&note.0, "4000000000\n/mnt/x\n").unwrap();
        assert_eq!(noted(&note.0), None);
    }
}
