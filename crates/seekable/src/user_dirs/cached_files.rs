//! The files of a cache directory, of which those used least recently are removed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::time::SystemTime;

use rustix::fs::{AtFlags, FileType, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};

use super::bound::{begins, names};
use super::{ABANDONED, UNFINISHED};

/// A file of a cache. Its modification time is the time of the last use.
#[derive(Debug)]
pub struct CachedFile {
    name: OsString,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last use: seconds, nanoseconds.
    used: (u64, u128),
}

/// Lists the files with a suffix; removes abandoned unfinished files.
pub fn list(dir: impl AsFd, suffix: &str) -> Vec<CachedFile> {
    let dir = dir.as_fd();
    let mut files = Vec::new();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    for name in names(dir) {
        let Ok(stat) = rustix::fs::statat(dir, &*name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            continue;
        }
        let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
        if name.as_bytes().ends_with(suffix.as_bytes()) {
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            files.push(CachedFile { name, size, used: (seconds, u128::from(stat.st_mtime_nsec)) });
        } else if begins(&name, UNFINISHED) && seconds.saturating_add(ABANDONED.as_secs()) < now.as_secs() {
            let _ = rustix::fs::unlinkat(dir, &*name, AtFlags::empty());
        }
    }
    files
}

/// Removes the least recently used of these files until the others have at most `most` bytes; `newest` is the
/// last to go. Returns the bytes that are left.
pub fn trim(dir: impl AsFd, mut files: Vec<CachedFile>, most: u64, newest: Option<&str>) -> u64 {
    let dir = dir.as_fd();
    files.sort_by_key(|file| (newest.is_some_and(|newest| file.name == OsStr::new(newest)), file.used));
    let mut held = files.iter().map(|file| file.size).sum::<u64>();
    for file in files {
        if held <= most {
            break;
        }
        if rustix::fs::unlinkat(dir, &*file.name, AtFlags::empty()).is_ok() {
            held = held.saturating_sub(file.size);
        }
    }
    held
}

/// Marks a file as used now.
pub fn touch(file: &File) {
    let now = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
    };
    let _ = rustix::fs::futimens(file, &now);
}
