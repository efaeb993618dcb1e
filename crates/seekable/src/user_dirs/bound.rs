//! Limits of the state directory in size and time.
//!
//! Files are removed after [`MAX_AGE`]. While all of them together exceed [`MAX_BYTES`] bytes, the oldest one is
//! removed. Two kinds are never removed: the files of a running daemon, and journals, which half-saved files
//! need.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, DirEntry, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{ABANDONED, UNFINISHED, history_size};

/// Name prefix of a directory of scratch files.
pub const SCRATCH: &str = "scratch-";
/// Name prefix of a directory in which a text is edited without a mount.
pub const EDIT: &str = "edit-";
/// Name prefix of a report.
pub const REPORT: &str = "report-";
/// The directory of replaced texts. It has a directory for each file.
pub const HISTORY: &str = "history";
/// In the directory of replaced texts: marks by which a file's directory is found, as `PATH/KEY`. Not a
/// directory of texts.
pub const BY_PATH: &str = ".by-path";
/// Name suffix of a directory with files that were made beside `tree.yaml`.
pub const FILES: &str = ".files";

/// The flags with which a directory is opened.
pub const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Maximum number of bytes of all kept files: 256 MiB, less the growth of the history between two trims.
pub const MAX_BYTES: u64 = (256 << 20) - history_size::SLACK;
/// Maximum time that a file is kept.
const MAX_AGE: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// A kept file or directory.
#[derive(Debug)]
struct KeptFile {
    name: OsString,
    size: u64,
    /// Time of the last change, in seconds since 1970.
    changed: u64,
}

/// Removes old files, and the oldest while the limit is exceeded, but never `newest`. Returns the bytes that
/// are left.
pub fn trim(dir: BorrowedFd<'_>, most: u64, newest: Option<&OsStr>) -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let mut entries = entries(dir, now);
    let others: u64 = entries.iter().map(|entry| entry.size).sum();
    let opened = rustix::fs::openat(dir, HISTORY, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()).ok();
    let history = match &opened {
        Some(opened) => history_size::known(opened.as_fd(), now),
        None => Some(0),
    };
    let history = history.filter(|size| *size == 0 || others.saturating_add(*size) <= most);
    let counted = opened.filter(|_| history.is_none());
    entries.extend(counted.iter().flat_map(|opened| replaced_texts(opened.as_fd(), now)));
    entries.sort_by_key(|entry| entry.changed);
    let mut held = history.unwrap_or(0) + entries.iter().map(|entry| entry.size).sum::<u64>();
    let mut kept = 0;
    for entry in entries {
        let old = entry.changed.saturating_add(MAX_AGE.as_secs()) < now;
        if (held > most || old) && newest != Some(&*entry.name) && remove(dir, &entry.name) {
            tracing::info!("{} is removed from the state directory", entry.name.display());
            held = held.saturating_sub(entry.size);
        } else if entry.name.as_bytes().contains(&b'/') {
            kept += entry.size;
        }
    }
    if let Some(opened) = counted {
        history_size::found(opened.as_fd(), kept, now);
        if kept == 0 {
            remove_empty(dir, opened.as_fd());
        }
    }
    held
}

/// Removes the directory of replaced texts if it has no texts; another program may be adding one.
fn remove_empty(dir: BorrowedFd<'_>, history: BorrowedFd<'_>) {
    for bucket in names(history) {
        let _ = rustix::fs::unlinkat(history, &*bucket, AtFlags::REMOVEDIR);
    }
    remove_stale_marks(history);
    history_size::forget(history);
    let _ = rustix::fs::unlinkat(dir, HISTORY, AtFlags::REMOVEDIR);
}

/// Removes the marks of directories that are gone. A program makes the directory before its mark.
fn remove_stale_marks(history: BorrowedFd<'_>) {
    let Ok(marks) = rustix::fs::openat(history, BY_PATH, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) else {
        return;
    };
    for path in names(marks.as_fd()) {
        let opened = rustix::fs::openat(&marks, &*path, DIRECTORY | OFlags::NOFOLLOW, Mode::empty());
        let Ok(of_path) = opened else { continue };
        for key in names(of_path.as_fd()) {
            let bucket = rustix::fs::statat(history, &*key, AtFlags::SYMLINK_NOFOLLOW);
            if bucket.is_err_and(|error| error == Errno::NOENT) {
                let _ = rustix::fs::unlinkat(&of_path, &*key, AtFlags::empty());
            }
        }
        let _ = rustix::fs::unlinkat(&marks, &*path, AtFlags::REMOVEDIR);
    }
    let _ = rustix::fs::unlinkat(history, BY_PATH, AtFlags::REMOVEDIR);
}

/// Lists the replaced texts of all files, as `history/…/NAME`; removes the empty directories in `history`, and their
/// marks. While no directory is empty, the marks are not looked at: they are as many again.
fn replaced_texts(history: BorrowedFd<'_>, now: u64) -> Vec<KeptFile> {
    let mut texts = Vec::new();
    let mut has_stale_marks = false;
    for bucket in names(history).into_iter().filter(|name| name != BY_PATH) {
        let opened = rustix::fs::openat(history, &*bucket, DIRECTORY | OFlags::NOFOLLOW, Mode::empty());
        let Ok(opened) = opened else { continue };
        let mut inner = texts_of(opened.as_fd(), now);
        if inner.is_empty() {
            has_stale_marks |= rustix::fs::unlinkat(history, &*bucket, AtFlags::REMOVEDIR).is_ok();
        }
        for text in &mut inner {
            text.name = [OsStr::new(HISTORY), &bucket, &text.name].join(OsStr::new("/"));
        }
        texts.append(&mut inner);
    }
    if has_stale_marks {
        remove_stale_marks(history);
    }
    texts
}

/// Lists the replaced texts of a file; removes abandoned unfinished ones.
fn texts_of(bucket: BorrowedFd<'_>, now: u64) -> Vec<KeptFile> {
    let kept = |name: OsString| {
        let stat = rustix::fs::statat(bucket, &*name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let is_old = seconds(&stat).saturating_add(ABANDONED.as_secs()) < now;
        if is_old && begins(&name, UNFINISHED) {
            let _ = rustix::fs::unlinkat(bucket, &*name, AtFlags::empty());
            return None;
        }
        Some(KeptFile { size: length(&stat), changed: seconds(&stat), name })
    };
    names(bucket).into_iter().filter_map(kept).collect()
}

/// Lists the kept files; removes abandoned unfinished ones.
fn entries(dir: BorrowedFd<'_>, now: u64) -> Vec<KeptFile> {
    let mut entries = Vec::new();
    for name in names(dir) {
        let Ok(stat) = rustix::fs::statat(dir, &*name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let mut size = length(&stat);
        let mut changed = seconds(&stat);
        match (FileType::from_raw_mode(stat.st_mode), is_kept(&name)) {
            (FileType::RegularFile, _) if begins(&name, UNFINISHED) => {
                if changed.saturating_add(ABANDONED.as_secs()) < now {
                    let _ = rustix::fs::unlinkat(dir, &*name, AtFlags::empty());
                }
                continue;
            }
            (FileType::RegularFile, true) => {}
            (FileType::Directory, true) => {
                let Some(files) = unused(dir, &name) else { continue };
                for file in files {
                    size = size.saturating_add(length(&file));
                    changed = changed.max(seconds(&file));
                }
            }
            _ => continue,
        }
        entries.push(KeptFile { name, size, changed });
    }
    entries
}

/// True for a file kept for the user, or left by a program that was killed.
fn is_kept(name: &OsStr) -> bool {
    let ends = |end: &str| name.as_bytes().ends_with(end.as_bytes());
    let aside = [".asdf-mount-journal.aside", ".asdf-mount-new.aside"];
    begins(name, SCRATCH)
        || begins(name, EDIT)
        || begins(name, REPORT)
        || [FILES, ".rejected.yaml", ".unfinished.yaml"].into_iter().any(ends)
        || aside.iter().any(|aside| memchr::memmem::find(name.as_bytes(), aside.as_bytes()).is_some())
}

/// Returns the files of a directory, unless a program has it locked.
fn unused(dir: BorrowedFd<'_>, name: &OsStr) -> Option<Vec<Stat>> {
    let opened = rustix::fs::openat(dir, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()).ok()?;
    rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive).ok()?;
    let stat = |file: &OsString| rustix::fs::statat(&opened, &**file, AtFlags::SYMLINK_NOFOLLOW).ok();
    Some(paths(opened.as_fd()).iter().filter_map(stat).collect())
}

/// Returns the names in a directory, without `.` and `..`, as far as they can be read.
pub fn names(dir: BorrowedFd<'_>) -> Vec<OsString> {
    let Ok(entries) = rustix::fs::Dir::read_from(dir) else { return Vec::new() };
    entries.flatten().map(|entry| name_of(&entry)).filter(is_not_dot).collect()
}

/// Returns the paths of all that is in a directory, at any depth, as far as it can be read.
pub fn paths(dir: BorrowedFd<'_>) -> Vec<OsString> {
    let mut paths = names(dir);
    let mut next = 0;
    while let Some(path) = paths.get(next).cloned() {
        next += 1;
        if let Ok(opened) = rustix::fs::openat(dir, &*path, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) {
            let below =
                names(opened.as_fd()).into_iter().map(|name| Path::new(&path).join(name).into_os_string());
            paths.extend(below);
        }
    }
    paths
}

/// Returns all names in a directory, without `.` and `..`.
///
/// # Errors
/// The directory can't be read completely.
pub fn list(dir: BorrowedFd<'_>) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(dir)? {
        let name = name_of(&entry?);
        if is_not_dot(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

fn name_of(entry: &DirEntry) -> OsString {
    OsStr::from_bytes(entry.file_name().to_bytes()).to_owned()
}

fn is_not_dot(name: &OsString) -> bool {
    name != "." && name != ".."
}

/// Removes a file, or a directory with its contents.
pub fn remove(dir: BorrowedFd<'_>, name: &OsStr) -> bool {
    // Uses the descriptor, as a mount may cover the path.
    let path = Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(name);
    rustix::fs::unlinkat(dir, name, AtFlags::empty()).is_ok() || remove_directory(path)
}

fn remove_directory(path: PathBuf) -> bool {
    std::fs::remove_dir_all(path).is_ok()
}

/// True if a name starts with this text.
pub fn begins(name: &OsStr, start: &str) -> bool {
    name.as_bytes().starts_with(start.as_bytes())
}

fn length(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

fn seconds(stat: &Stat) -> u64 {
    u64::try_from(stat.st_mtime).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_where_there_is_too_much_and_what_is_too_old_always() {
        let folder = tempfile::tempdir().unwrap();
        let day = Duration::from_secs(24 * 60 * 60);
        let make = |name: &str, len: usize, days: u32| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, vec![1; len]).unwrap();
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::now() - day * days).unwrap();
            if name.contains('/') {
                let dir = std::fs::File::open(path.parent().unwrap()).unwrap();
                dir.set_modified(SystemTime::now() - day * days).unwrap();
            }
        };
        make("d-old.asdf-1-1-1.rejected.yaml", 10, 91);
        make("d-old.asdf-1-1-1.files/notes", 10, 91);
        make("scratch-d-old.asdf-1-1/.tree.yaml.swp", 10, 91);
        make("edit-old-1/tree.yaml", 10, 91);
        make("0123.asdf-mount-journal.aside-2", 10, 91);
        make("0123.asdf-mount-journal", 10, 91);
        make("anything else", 10, 91);
        make("history/d-old.asdf-1-2/00000001-2026-11-23T10-36-37Z-1.yaml", 10, 91);
        make("d-b.asdf-1-1-1.unfinished.yaml", 1000, 89);
        make("d-b.asdf-1-1-2.rejected.yaml", 1000, 2);
        make("d-b.asdf-1-1-3.files/notes", 1000, 1);
        let dir = rustix::fs::open(folder.path(), DIRECTORY, Mode::empty()).unwrap();
        let remaining = || {
            let mut names = names(dir.as_fd());
            names.sort();
            names.into_iter().map(|name| name.into_string().unwrap()).collect::<Vec<_>>()
        };
        trim(dir.as_fd(), MAX_BYTES, None);
        let of_b = ["d-b.asdf-1-1-1.unfinished.yaml", "d-b.asdf-1-1-2.rejected.yaml", "d-b.asdf-1-1-3.files"];
        let others = ["0123.asdf-mount-journal", "anything else"];
        assert_eq!(remaining(), [&others[..], &of_b].concat());
        // The size of the directory itself depends on the file system.
        let all = trim(dir.as_fd(), MAX_BYTES, None);
        trim(dir.as_fd(), all - 1, None);
        assert_eq!(remaining(), [&others[..], &of_b[1..]].concat());
        trim(dir.as_fd(), 0, Some(OsStr::new(of_b[1])));
        assert_eq!(remaining(), [&others[..], &of_b[1..2]].concat());
    }

    #[test]
    fn the_oldest_replaced_texts_go_and_the_newest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let dir = rustix::fs::open(folder.path(), DIRECTORY, Mode::empty()).unwrap();
        let make = |name: &str, hours: u64| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, vec![1; 1000]).unwrap();
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(hours * 3600)).unwrap();
        };
        make("history/a-1-1/1.yaml", 9);
        make("history/a-1-1/2.yaml", 3);
        make("d-b.asdf-1-1-1.rejected.yaml", 5);
        make("history/b-1-1/1.yaml", 1);
        let is_there = |name: &str| folder.path().join(name).exists();
        assert_eq!(trim(dir.as_fd(), 4000, None), 4000);
        // The size of the history is noted now, so the next trim does not count it.
        make("history/b-1-1/2.yaml", 0);
        assert_eq!(trim(dir.as_fd(), 4000, None), 4000);
        let history = std::fs::File::open(folder.path().join(HISTORY)).unwrap();
        assert!(!history_size::add(history.as_fd(), 1000, |_| 0));
        assert_eq!(trim(dir.as_fd(), 3000, Some(OsStr::new("history/a-1-1/2.yaml"))), 3000);
        assert!(!is_there("history/a-1-1/1.yaml") && is_there("history/a-1-1/2.yaml"));
        assert!(!is_there("d-b.asdf-1-1-1.rejected.yaml") && is_there("history/b-1-1/1.yaml"));
        trim(dir.as_fd(), 0, None);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_program_has_locked_stays() {
        let folder = tempfile::tempdir().unwrap();
        let dir = rustix::fs::open(folder.path(), DIRECTORY, Mode::empty()).unwrap();
        let used = folder.path().join("scratch-a-1-1");
        std::fs::create_dir(&used).unwrap();
        std::fs::write(used.join("x"), "work").unwrap();
        let lock = std::fs::File::open(&used).unwrap();
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        trim(dir.as_fd(), 0, None);
        assert!(used.join("x").exists());
        drop(lock);
        trim(dir.as_fd(), 0, None);
        assert!(!used.exists());
    }
}
