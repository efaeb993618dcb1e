//! Notices that other programs write to a file while this one saves it.

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

/// Bytes of events that are read at once.
const EVENTS: usize = 4096;

/// A watch of one file, also for changes through its other names. It does not see writes through a mapping.
#[derive(Debug)]
pub struct Watch(OwnedFd);

/// The events since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noticed {
    /// A program, possibly this one, changed the bytes or the size.
    pub written: bool,
    /// A program closed the file that it had open for writing.
    pub closed: bool,
}

impl Watch {
    /// Watches an open file; `None` if the system can't.
    pub(super) fn of(file: &File) -> Option<Self> {
        let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        inotify::add_watch(&watch, path, WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE).ok()?;
        Some(Self(watch))
    }

    /// Returns the events since the last call.
    pub fn noticed(&self) -> Noticed {
        let mut noticed = Noticed::default();
        let mut events = [MaybeUninit::uninit(); EVENTS];
        let mut reader = Reader::new(&self.0, &mut events);
        while let Ok(event) = reader.next() {
            let events = event.events();
            let lost = events.contains(ReadFlags::QUEUE_OVERFLOW);
            noticed.written |= lost || events.contains(ReadFlags::MODIFY);
            noticed.closed |= lost || events.contains(ReadFlags::CLOSE_WRITE);
        }
        noticed
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_write_and_a_close_are_noticed_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = File::create(&path).unwrap();
        let watch = Watch::of(&file).unwrap();
        assert_eq!(watch.noticed(), Noticed::default());
        let mut other = File::options().append(true).open(&path).unwrap();
        assert_eq!(watch.noticed(), Noticed::default(), "an open is no change");
        other.write_all(b"text").unwrap();
        assert_eq!(watch.noticed(), Noticed { written: true, closed: false });
        drop(other);
        assert_eq!(watch.noticed(), Noticed { written: false, closed: true });
        drop(File::open(&path).unwrap());
        assert_eq!(watch.noticed(), Noticed::default());
    }
}
