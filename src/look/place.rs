//! Directories, files and links that an extraction makes.
//!
//! Each is made by its name in an open directory, and no link is followed, so that nothing is written outside
//! the directory of the extraction, whatever links lie in it. A file gets its name when it is complete.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use asdf_access::local::stat::{FileKey, Stat};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps};
use rustix::io::Errno;
use seekable::error::{Error, Kind, Result};
use seekable::source::Time;
use seekable::sync::locked;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::vfs::Attr;

/// Flags to open a directory.
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// Mode of a directory or file until it is complete.
const PRIVATE: u32 = 0o700;

/// The first bytes of a PNG picture.
const PNG: &[u8; 8] = b"\x89PNG\r\n\x1a\n";

/// Number of attempts to find an unused name for a file that is being written.
const ATTEMPTS: u32 = 1000;

/// Opens the directory of the extraction, which is made if it is missing.
pub(super) fn open(path: &Path) -> Result<OwnedFd> {
    let opened = match (rustix::fs::open(path, DIRECTORY, Mode::empty()), path.file_name()) {
        (Err(Errno::NOENT), Some(name)) => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            rustix::fs::open(parent.unwrap_or(Path::new(".")), DIRECTORY, Mode::empty()).and_then(|parent| {
                rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o777))?;
                rustix::fs::openat(&parent, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())
            })
        }
        (opened, _) => opened,
    };
    opened.map_err(|errno| Error::from(errno).of(path))
}

/// Returns the keys of a directory and of all directories above it.
pub(super) fn directories_above(dir: &OwnedFd) -> Result<Vec<FileKey>> {
    let mut keys = vec![Stat::from(rustix::fs::fstat(dir)?).key];
    let mut dir = rustix::fs::openat(dir, "..", DIRECTORY | OFlags::PATH, Mode::empty())?;
    loop {
        let key = Stat::from(rustix::fs::fstat(&dir)?).key;
        // The root is above itself.
        if keys.last() == Some(&key) {
            return Ok(keys);
        }
        keys.push(key);
        dir = rustix::fs::openat(&dir, "..", DIRECTORY | OFlags::PATH, Mode::empty())?;
    }
}

/// Returns the bytes that this user can still write to the file system of a directory; `None` if unknown.
pub(super) fn free_space(dir: BorrowedFd<'_>) -> Option<u64> {
    let space = rustix::fs::fstatvfs(dir).ok().filter(|space| space.f_blocks > 0)?;
    space.f_bavail.checked_mul(space.f_frsize)
}

/// Returns the permission bits that new files of this process don't get.
pub(super) fn umask() -> u16 {
    // It can only be read by setting it, which two threads must not do at once.
    static UMASK: OnceLock<u16> = OnceLock::new();
    *UMASK.get_or_init(|| {
        let umask = rustix::process::umask(Mode::from_raw_mode(0o077));
        rustix::process::umask(umask);
        u16::try_from(umask.as_raw_mode()).unwrap_or(0o077)
    })
}

/// Opens a directory in another, and makes it if it is missing. Returns true if it was made.
pub(super) fn enter(dir: BorrowedFd<'_>, name: &OsStr) -> Result<(OwnedFd, bool)> {
    let made = match rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(PRIVATE)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => return Err(errno.into()),
    };
    match rustix::fs::openat(dir, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) {
        Ok(opened) => Ok((opened, made)),
        Err(Errno::NOTDIR | Errno::LOOP) => Err(Error::new(
            Kind::Refused,
            "the existing file or link of this name is no directory; remove it",
        )),
        Err(errno) => Err(errno.into()),
    }
}

/// Gives a complete directory its mode and times. Its owner may write to it, so that it can be removed.
pub(super) fn finish_directory(dir: &OwnedFd, attr: &Attr, umask: u16) {
    keep_attributes(dir, attr, attr.mode & !umask | 0o700);
}

/// The name of a new file or link, in its directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewName<'a> {
    pub(super) dir: BorrowedFd<'a>,
    pub(super) name: &'a OsStr,
    /// True if an existing file of the name is replaced.
    pub(super) force: bool,
}

impl NewName<'_> {
    /// Refuses a name that exists, unless the existing file is replaced.
    pub(super) fn check_free(&self) -> Result<()> {
        if self.force {
            return Ok(());
        }
        match rustix::fs::statat(self.dir, self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(exists()),
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Makes a symbolic link.
    pub(super) fn link(&self, target: &OsStr, attr: &Attr) -> Result<()> {
        let dir = self.dir;
        let (unnamed, ()) = Unnamed::make(*self, |own| rustix::fs::symlinkat(target, dir, own))?;
        if let Some(own) = &unnamed.name {
            let _ = rustix::fs::utimensat(dir, own, &times(attr), AtFlags::SYMLINK_NOFOLLOW);
        }
        unnamed.rename()
    }
}

fn exists() -> Error {
    Error::new(Kind::Refused, "exists already; --force overwrites it")
}

/// A file or link under a temporary name, which is removed unless it gets its final name.
#[derive(Debug)]
struct Unnamed<'a> {
    place: NewName<'a>,
    /// The temporary name; `None` once it has its final name.
    name: Option<String>,
}

impl<'a> Unnamed<'a> {
    /// Creates a file or link with `make` under an unused name.
    fn make<T>(place: NewName<'a>, make: impl Fn(&str) -> rustix::io::Result<T>) -> io::Result<(Self, T)> {
        for n in 0..ATTEMPTS {
            let name = format!(".asdf-mount-{}-{n}.part", std::process::id());
            match make(&name) {
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
                Ok(made) => return Ok((Self { place, name: Some(name) }, made)),
            }
        }
        Err(Errno::EXIST.into())
    }

    /// Renames the file or link to its final name.
    fn rename(mut self) -> Result<()> {
        let Some(own) = self.name.take() else { return Ok(()) };
        let NewName { dir, name, force } = self.place;
        let renamed =
            if force { rustix::fs::renameat(dir, &own, dir, name) } else { rename_new(dir, &own, name) };
        renamed.map_err(|errno| {
            self.name = Some(own);
            match errno {
                Errno::EXIST if !force => exists(),
                errno => errno.into(),
            }
        })
    }
}

impl Drop for Unnamed<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = rustix::fs::unlinkat(self.place.dir, name, AtFlags::empty());
        }
    }
}

/// Renames a file; fails if the new name exists.
fn rename_new(dir: BorrowedFd<'_>, old: &str, new: &OsStr) -> rustix::io::Result<()> {
    match rustix::fs::renameat_with(dir, old, dir, new, RenameFlags::NOREPLACE) {
        // The file system or the kernel does not know the flag.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
        renamed => return renamed,
    }
    match rustix::fs::linkat(dir, old, dir, new, AtFlags::empty()) {
        Ok(()) => rustix::fs::unlinkat(dir, old, AtFlags::empty()),
        // The file system has no hard links.
        Err(Errno::PERM | Errno::NOTSUP | Errno::NOSYS) => {
            match rustix::fs::statat(dir, new, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => rustix::fs::renameat(dir, old, dir, new),
                Ok(_) => Err(Errno::EXIST),
                Err(errno) => Err(errno),
            }
        }
        linked => linked,
    }
}

/// A file that is being written.
#[derive(Debug)]
pub(super) struct NewFile<'a> {
    pub(super) file: File,
    unnamed: Unnamed<'a>,
}

impl<'a> NewFile<'a> {
    pub(super) fn create(place: NewName<'a>) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(PRIVATE & 0o666);
        let (unnamed, file) = Unnamed::make(place, |name| rustix::fs::openat(place.dir, name, flags, mode))?;
        Ok(Self { file: file.into(), unnamed })
    }

    /// Gives the complete file its mode, times and name. With `sync`, first waits until the data are on disk:
    /// network file systems report a full disk only then.
    pub(super) fn finish(self, attr: &Attr, umask: u16, sync: bool) -> Result<()> {
        if sync {
            self.file.sync_data()?;
        }
        keep_attributes(&self.file, attr, attr.mode & !umask);
        self.unnamed.rename()
    }
}

/// Writes a PNG picture. A file of this name is replaced if it is a picture, or empty as a thumbnailer makes it.
///
/// # Errors
/// There is any other file or link of this name, or the picture can't be written.
pub(crate) fn write_picture(path: &Path, bytes: &[u8]) -> Result<()> {
    let Some(name) = path.file_name() else { return Err(Errno::ISDIR.into()) };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let dir = rustix::fs::open(parent, DIRECTORY, Mode::empty())?;
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let existing = match rustix::fs::openat(&dir, name, flags, Mode::empty()) {
        Ok(file) => Some(File::from(file)),
        Err(Errno::NOENT) => None,
        Err(Errno::LOOP) => {
            let message = "is a link, which is not followed: give another name for the picture";
            return Err(Error::new(Kind::Refused, message));
        }
        Err(errno) => return Err(errno.into()),
    };
    if existing.as_ref().is_some_and(|file| !is_picture(file).unwrap_or(false)) {
        return Err(no_picture());
    }
    let place = NewName { dir: dir.as_fd(), name, force: existing.is_some() };
    match NewFile::create(place) {
        Ok(mut new) => {
            new.file.write_all(bytes)?;
            let _ = rustix::fs::fchmod(&new.file, Mode::from_raw_mode(u32::from(0o666 & !umask())));
            new.unnamed.rename()
        }
        // A sandbox may let a thumbnailer write this one file only.
        Err(error) => match existing {
            Some(mut file) => {
                file.set_len(0)?;
                Ok(file.write_all(bytes)?)
            }
            None => Err(error.into()),
        },
    }
}

/// Writes a new file with `write`, which gets its name once it is complete and on disk. Nothing is replaced. A signal that
/// ends the program removes the incomplete file.
///
/// # Errors
/// There is a file or link of this name, `write` fails, or the file can't be written.
pub(crate) fn write_new(path: &Path, mode: u32, write: impl FnOnce(&File) -> Result<()>) -> Result<()> {
    let Some(name) = path.file_name() else { return Err(Errno::ISDIR.into()) };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let dir = rustix::fs::open(parent, DIRECTORY, Mode::empty())?;
    let place = NewName { dir: dir.as_fd(), name, force: false };
    place.check_free().map_err(without_force)?;
    watch_signals()?;
    let copy = dir.try_clone()?;
    // A signal in between waits for the lock.
    let mut incomplete = locked(&INCOMPLETE);
    let new = NewFile::create(place)?;
    let entry = Arc::new((copy, new.unnamed.name.clone().unwrap_or_default()));
    incomplete.push(entry.clone());
    drop(incomplete);
    let _incomplete = Incomplete(entry);
    write(&new.file)?;
    new.file.sync_all()?;
    let _ = rustix::fs::fchmod(&new.file, Mode::from_raw_mode(mode & 0o777 & !u32::from(umask())));
    // The name may be taken meanwhile.
    new.unnamed.rename().map_err(without_force)
}

/// Says to an error about a name that exists what to do where no file is overwritten.
fn without_force(error: Error) -> Error {
    match error.kind() {
        Kind::Refused => Error::new(Kind::Refused, "exists already: give a name that is free"),
        _ => error,
    }
}

/// The files that [`write_new`] writes now: their directories and temporary names.
static INCOMPLETE: Mutex<Vec<Arc<(OwnedFd, String)>>> = Mutex::new(Vec::new());
/// True if a thread waits for the signals.
static IS_WATCHED: Mutex<bool> = Mutex::new(false);

/// An entry of [`INCOMPLETE`], which is removed with this.
struct Incomplete(Arc<(OwnedFd, String)>);

impl Drop for Incomplete {
    fn drop(&mut self) {
        locked(&INCOMPLETE).retain(|entry| !Arc::ptr_eq(entry, &self.0));
    }
}

/// Removes the incomplete files when a signal ends the program.
fn watch_signals() -> io::Result<()> {
    let mut is_watched = locked(&IS_WATCHED);
    if *is_watched {
        return Ok(());
    }
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if let Some(number) = signals.forever().next() {
            for entry in &*locked(&INCOMPLETE) {
                let (dir, name) = &**entry;
                let _ = rustix::fs::unlinkat(dir, name, AtFlags::empty());
            }
            // Ends the program by the signal, so that the shell learns of it.
            let _ = signal_hook::low_level::emulate_default_handler(number);
        }
    })?;
    *is_watched = true;
    Ok(())
}

/// True if a file is empty or a PNG picture.
fn is_picture(file: &File) -> io::Result<bool> {
    let stat = rustix::fs::fstat(file)?;
    let mut first = [0; PNG.len()];
    let read = rustix::io::pread(file, &mut first, 0)?;
    let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    Ok(is_regular && (stat.st_size == 0 || first[..read] == *PNG))
}

fn no_picture() -> Error {
    Error::new(
        Kind::Refused,
        "exists and is not a PNG picture, so it is not replaced: give another name for the picture",
    )
}

/// Sets mode and times as far as the file system supports them.
fn keep_attributes(file: impl AsFd, attr: &Attr, mode: u16) {
    let _ = rustix::fs::fchmod(&file, Mode::from_raw_mode(u32::from(mode & 0o777)));
    let _ = rustix::fs::futimens(&file, &times(attr));
}

fn times(attr: &Attr) -> Timestamps {
    let time = |(seconds, nanoseconds): Time| Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() };
    Timestamps { last_access: time(attr.atime), last_modification: time(attr.mtime) }
}
