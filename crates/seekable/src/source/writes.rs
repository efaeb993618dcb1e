//! Counts the writes to open files, of which the system tells by inotify.
//!
//! A program can change a file and then set its times back, as `cp -p` does. If the file loses its name after that, its
//! size and times are those of a file that was only renamed. All open files share one inotify instance, because a user
//! can have only 128. Only a daemon has one: the kernel takes some 15 ms to close it when the program ends.

use std::collections::HashMap;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Mutex, OnceLock};

use crate::sync::{MutexGuard, locked};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

/// Bytes of events that are read at once.
const EVENTS: usize = 4096;

/// The inotify instance of this process, if there is one.
static WATCHES: OnceLock<Watches> = OnceLock::new();

#[derive(Debug)]
struct Watches {
    events: OwnedFd,
    /// The watched files by the number of their watch. A file has one watch, however often it is open.
    files: Mutex<HashMap<i32, Watched>>,
}

#[derive(Debug, Default)]
struct Watched {
    /// Number of [`WriteCount`]s of the file.
    users: usize,
    /// Number of events so far. The system reports several writes in a row as one.
    writes: u64,
}

/// The count of the writes to an open file, since the count was made. A write through a mapping is not counted.
#[derive(Debug)]
pub(super) struct WriteCount {
    watches: &'static Watches,
    watch: i32,
    /// The file's count when this one was made.
    first: u64,
}

/// Counts the writes to files that are opened from now on, if the system can.
pub fn count_writes() {
    if let Ok(events) = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC) {
        let _ = WATCHES.set(Watches { events, files: Mutex::default() });
    }
}

/// True in a program that counts writes: a daemon.
pub(super) fn are_counted() -> bool {
    WATCHES.get().is_some()
}

impl Watches {
    fn files(&self) -> MutexGuard<'_, HashMap<i32, Watched>> {
        locked(&self.files)
    }

    /// Counts the events that have arrived.
    fn count(&self, files: &mut HashMap<i32, Watched>) {
        let mut buffer = [MaybeUninit::uninit(); EVENTS];
        let mut reader = Reader::new(&self.events, &mut buffer);
        while let Ok(event) = reader.next() {
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                // Events of any file may be lost.
                for file in files.values_mut() {
                    file.writes += 1;
                }
            } else if event.events().contains(ReadFlags::MODIFY)
                && let Some(file) = files.get_mut(&event.wd())
            {
                file.writes += 1;
            }
        }
    }
}

impl WriteCount {
    /// Begins to count; `None` without [`count_writes`], or if the system can't watch the file.
    pub(super) fn of(file: &File) -> Option<Self> {
        let watches = WATCHES.get()?;
        let mut files = watches.files();
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let watch = inotify::add_watch(&watches.events, path, WatchFlags::MODIFY).ok()?;
        files.entry(watch).or_default().users += 1;
        watches.count(&mut files);
        let first = files.get(&watch)?.writes;
        Some(Self { watches, watch, first })
    }

    /// Returns the number of writes so far. It grows with each write that has ended since the last call; several
    /// writes may count as one.
    pub(super) fn now(&self) -> u64 {
        let mut files = self.watches.files();
        self.watches.count(&mut files);
        files.get(&self.watch).map_or(u64::MAX, |file| file.writes - self.first)
    }
}

impl Drop for WriteCount {
    fn drop(&mut self) {
        let mut files = self.watches.files();
        let Some(file) = files.get_mut(&self.watch) else { return };
        file.users -= 1;
        if file.users == 0 {
            files.remove(&self.watch);
            let _ = inotify::remove_watch(&self.watches.events, self.watch);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn writes_count_from_the_opening_on_for_each_that_has_the_file_open() {
        count_writes();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut file = File::create(&path).unwrap();
        let one = WriteCount::of(&file).unwrap();
        assert_eq!(one.now(), 0);
        file.write_all(b"text").unwrap();
        let other = WriteCount::of(&File::open(&path).unwrap()).unwrap();
        assert_eq!((one.now(), other.now()), (1, 0));
        drop(one);
        std::fs::rename(&path, folder.path().join("renamed")).unwrap();
        assert_eq!(other.now(), 0, "a rename is no write");
        file.set_len(1).unwrap();
        assert_eq!(other.now(), 1);
    }
}
