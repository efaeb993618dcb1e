//! Notices that other programs open a file, or write to it, while this one saves it.
//!
//! fanotify says which process did. Where it is not available (Linux before 5.13, a container that forbids it, a file
//! system without an ID), inotify is used, which can't tell this program's calls from those of another one.

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

use super::close_later;

/// Bytes of events that are read at once.
const EVENTS: usize = 4096;
/// FAN_REPORT_FID: events without a descriptor of the file, for which no privilege is needed.
const REPORT_FID: u32 = 0x200;

/// A watch of one file, also for changes through its other names. It does not see writes through a mapping.
///
/// Another thread closes it: the kernel takes 5 to 25 ms to close a watch, several times as long as a save.
#[derive(Debug)]
pub struct Watch {
    /// `None` while the watch is dropped.
    events: Option<Events>,
    /// True if an event that was read is an open by another program.
    is_opened: AtomicBool,
}

#[derive(Debug)]
enum Events {
    /// Events with the process that caused them.
    OfProcesses(Fanotify),
    /// Events of inotify.
    OfAnyone(OwnedFd),
}

/// The events since the last look.
#[derive(Clone, Copy, Debug, Default)]
struct Noticed {
    opened: bool,
    written: bool,
    closed: bool,
}

impl Watch {
    /// Watches an open file; `None` if the system can't.
    pub(super) fn of(file: &File) -> Option<Self> {
        let events = match by_process(file) {
            Ok(watch) => Events::OfProcesses(watch),
            Err(_) => Events::OfAnyone(by_anyone(file)?),
        };
        Some(Self::new(events))
    }

    fn new(events: Events) -> Self {
        Self { events: Some(events), is_opened: AtomicBool::new(false) }
    }

    /// True if a program other than this one has changed the bytes or the size since the last call.
    ///
    /// `beside_own` is true if this program may have written, too. If the system can't tell who wrote, a program is then
    /// noticed only when it closes the file.
    pub fn is_written_by_others(&self, beside_own: bool) -> bool {
        let noticed = match &self.events {
            Some(Events::OfProcesses(watch)) => of_processes(watch),
            Some(Events::OfAnyone(watch)) => of_anyone(watch),
            None => return false,
        };
        if noticed.opened {
            self.is_opened.store(true, Ordering::Relaxed);
        }
        if beside_own && !self.is_exact() { noticed.closed } else { noticed.written }
    }

    /// True if a program other than this one, or perhaps this one if the system can't tell, has opened the file since
    /// the watch began, up to the last call of [`is_written_by_others`](Self::is_written_by_others).
    pub fn is_opened_by_others(&self) -> bool {
        self.is_opened.load(Ordering::Relaxed)
    }

    /// True if the system tells who wrote.
    pub fn is_exact(&self) -> bool {
        matches!(self.events, Some(Events::OfProcesses(_)))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        close_later(self.events.take());
    }
}

fn by_process(file: &File) -> nix::Result<Fanotify> {
    let flags = InitFlags::FAN_CLASS_NOTIF | InitFlags::FAN_NONBLOCK | InitFlags::FAN_CLOEXEC;
    let flags = InitFlags::from_bits_retain(flags.bits() | REPORT_FID);
    let watch = Fanotify::init(flags, EventFFlags::O_RDONLY)?;
    let path = path_of(file);
    let events = MaskFlags::FAN_MODIFY | MaskFlags::FAN_OPEN;
    watch.mark(MarkFlags::FAN_MARK_ADD, events, file.as_fd(), Some(path.as_str()))?;
    Ok(watch)
}

fn by_anyone(file: &File) -> Option<OwnedFd> {
    let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
    let events = WatchFlags::OPEN | WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE;
    inotify::add_watch(&watch, path_of(file), events).ok()?;
    Some(watch)
}

fn path_of(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Returns the events of other processes. Events of processes that are unknown here have the number 0.
fn of_processes(watch: &Fanotify) -> Noticed {
    let own = i32::try_from(std::process::id()).ok();
    let mut noticed = Noticed::default();
    while let Ok(events) = watch.read_events() {
        for event in &events {
            let lost = event.mask().contains(MaskFlags::FAN_Q_OVERFLOW);
            let is_others = Some(event.pid()) != own;
            noticed.opened |= lost || is_others && event.mask().contains(MaskFlags::FAN_OPEN);
            noticed.written |= lost || is_others && event.mask().contains(MaskFlags::FAN_MODIFY);
        }
    }
    noticed
}

fn of_anyone(watch: &OwnedFd) -> Noticed {
    let mut noticed = Noticed::default();
    let mut buffer = [MaybeUninit::uninit(); EVENTS];
    let mut reader = Reader::new(watch, &mut buffer);
    while let Ok(event) = reader.next() {
        let events = event.events();
        let lost = events.contains(ReadFlags::QUEUE_OVERFLOW);
        noticed.opened |= lost || events.contains(ReadFlags::OPEN);
        noticed.written |= lost || events.contains(ReadFlags::MODIFY);
        noticed.closed |= lost || events.contains(ReadFlags::CLOSE_WRITE);
    }
    noticed
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Command;

    use super::*;

    /// Runs a shell command on `file`.
    fn by_another_program(command: &str, file: &std::path::Path) {
        let done = Command::new("sh").args(["-c", command, "sh"]).arg(file).status().unwrap();
        assert!(done.success());
    }

    #[test]
    fn writes_and_truncations_of_other_programs_are_told_from_own_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut file = File::create(&path).unwrap();
        let watch = Watch::of(&file).unwrap();
        assert!(!watch.is_written_by_others(false));
        file.write_all(b"text").unwrap();
        assert!(!watch.is_written_by_others(true));
        drop(File::open(&path).unwrap());
        assert!(!watch.is_written_by_others(false) && !watch.is_opened_by_others());
        by_another_program("cat \"$1\"", &path);
        assert!(!watch.is_written_by_others(false), "a reader writes nothing");
        assert!(watch.is_opened_by_others());
        for command in ["printf more >>\"$1\"", ": >\"$1\""] {
            file.write_all(b"text").unwrap();
            by_another_program(command, &path);
            file.write_all(b"text").unwrap();
            assert!(watch.is_written_by_others(true), "{command}");
            assert!(!watch.is_written_by_others(true), "{command}, once");
        }
    }

    #[test]
    fn without_processes_a_write_and_a_close_are_noticed_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = File::create(&path).unwrap();
        let watch = Watch::new(Events::OfAnyone(by_anyone(&file).unwrap()));
        assert!(!watch.is_written_by_others(false));
        let mut other = File::options().append(true).open(&path).unwrap();
        assert!(!watch.is_written_by_others(false), "an open is no change");
        assert!(watch.is_opened_by_others());
        other.write_all(b"text").unwrap();
        assert!(watch.is_written_by_others(false));
        drop(other);
        assert!(watch.is_written_by_others(true));
        drop(File::open(&path).unwrap());
        assert!(!watch.is_written_by_others(true) && !watch.is_exact());
    }
}
