//! The size of all replaced texts, noted in a file of their directory.
//!
//! Counting the texts means reading the directory of each saved file, which takes too long at each start of a
//! mount. The note holds three numbers: the bytes of the texts, the bytes written since they were counted,
//! and the time of the count. Two programs that write the note at once lose a number; the next count corrects
//! it.

use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, Mode, OFlags};

use crate::user_dirs;

/// Maximum number of bytes written until the texts are counted again.
pub const SLACK: u64 = 16 << 20;
/// Maximum time until the texts are counted again, in seconds.
const MAX_AGE: u64 = 24 * 60 * 60;
const NOTE: &str = ".size";

/// Returns the size in bytes of all replaced texts, from the note; `None` if the texts must be counted.
pub fn known(dir: BorrowedFd<'_>, now: u64) -> Option<u64> {
    let (bytes, _, counted) = read(dir)?;
    (counted <= now && now < counted.saturating_add(MAX_AGE)).then_some(bytes)
}

/// Writes the note: the size in bytes of all replaced texts, which were counted at `now`.
pub fn found(dir: BorrowedFd<'_>, bytes: u64, now: u64) {
    write(dir, bytes, 0, now);
}

/// Removes the note, as there are no texts.
pub fn forget(dir: BorrowedFd<'_>) {
    let _ = rustix::fs::unlinkat(dir, NOTE, AtFlags::empty());
}

/// Updates the size in the note after `more` bytes were written. `remove` gets the size, removes old texts,
/// and returns the number of bytes freed. Returns true if the texts must be counted now.
pub fn add(dir: BorrowedFd<'_>, more: u64, remove: impl FnOnce(Option<u64>) -> u64) -> bool {
    let noted = read(dir);
    let fewer = remove(noted.map(|(bytes, ..)| bytes));
    let Some((bytes, since, counted)) = noted else { return true };
    let since = since.saturating_add(more);
    write(dir, bytes.saturating_add(more).saturating_sub(fewer), since, counted);
    since > SLACK
}

fn read(dir: BorrowedFd<'_>) -> Option<(u64, u64, u64)> {
    let text = user_dirs::read(dir, NOTE, 100)?;
    let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

/// Writes the note in place. After a rename over the old note, the next fsync on the file system would also
/// wait for the note's data.
fn write(dir: BorrowedFd<'_>, bytes: u64, since: u64, counted: u64) {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Without the note, or if it is torn, the texts are counted more often.
    if let Ok(note) = rustix::fs::openat(dir, NOTE, flags, Mode::RUSR | Mode::WUSR) {
        let _ = rustix::io::pwrite(&note, format!("{bytes:20} {since:20} {counted:20}\n").as_bytes(), 0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn the_texts_are_counted_after_a_day_and_after_many_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let dir = user_dirs::STATE.open(folder.path()).unwrap();
        let dir = dir.as_fd();
        assert!(known(dir, 5).is_none() && add(dir, 1, |noted| noted.unwrap_or(0)));
        found(dir, 100, 5);
        assert!(!add(dir, 10, |noted| noted.unwrap_or(0) - 70));
        assert_eq!((known(dir, 6), known(dir, 5 + MAX_AGE), known(dir, 4)), (Some(80), None, None));
        assert!(add(dir, SLACK, |_| 0));
        std::fs::write(folder.path().join(NOTE), "7 x").unwrap();
        assert_eq!(known(dir, 6), None);
    }
}
