//! Entries of mirrored directories: their types, and detection of formats.
//!
//! No directory is listed and no file is opened before a program asks for it. The lookup of a name costs one
//! stat. For a regular file the first bytes are read too, to find out whether a format recognises it. The
//! result is remembered (`remembered`).
//!
//! A listing of a directory on a server sends no request for each file. Until a file is looked at, its name
//! decides how it is shown (`by_name`).

mod by_name;
mod remembered;

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use asdf_file::container::ReadAt;
use asdf_file::edit::context::SaveTarget;
use asdf_file::edit::recovery::RecoveryPolicy;
use by_name::ByName;
use remembered::Remembered;
use seekable::error::{self, Error, Result};
use seekable::source::{Place, PlaceStat, Source, SourceStat, SourceVersion};

use crate::local::at::{open, stat_in, stat_of};
use crate::local::location::{Location, Name, OpenDir};
use crate::local::mounts::Stalling;
use crate::local::path::LocalPath;
use crate::local::path::link::{self, LinkForm, Mountpoint};
use crate::local::stat::{FileKind, Stat};

/// The location of an entry, and the file system or server that may never answer requests about it.
#[derive(Clone, Debug)]
pub struct EntryPosition {
    /// The way to the entry.
    pub location: Location,
    /// Stalling file system or server that holds the entry, or that the followed link may lead to.
    pub stalling: Option<Stalling>,
}

impl EntryPosition {
    /// Pairs a place with its server, which may never answer.
    pub fn elsewhere(place: Arc<dyn Place>) -> Self {
        let stalling = Some(Stalling::of_server(place.server()));
        Self { location: Location::Elsewhere(place), stalling }
    }
}

/// The file or directory found at a name.
#[derive(Debug)]
pub struct Detected {
    /// Where it is.
    pub position: EntryPosition,
    /// The result of stat.
    pub stat: Stat,
    /// The form in which it is shown.
    pub form: EntryForm,
}

/// The form in which an entry is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryForm {
    /// A directory.
    Directory,
    /// A file of a known format, shown as a directory.
    MountedFile,
    /// A file that no format recognises.
    File,
    /// A link, with its text.
    Link(OsString),
    /// A device, a socket, a pipe.
    Special,
}

impl Detected {
    /// Returns the type that programs see.
    pub fn kind(&self) -> FileKind {
        match self.form {
            EntryForm::Directory | EntryForm::MountedFile => FileKind::Directory,
            EntryForm::File => FileKind::File,
            EntryForm::Link(_) => FileKind::Link,
            EntryForm::Special => self.stat.kind,
        }
    }
}

/// A detector of the types of names, which remembers the recognised files.
pub struct FormatDetector {
    recognise: fn(ReadAt<'_>) -> Result<Option<&'static str>>,
    remembered: Remembered,
    by_name: ByName,
    /// Policy for files after an interrupted save: they are recovered or reported. Their first bytes may
    /// match no format.
    recovery: RecoveryPolicy,
    /// True once a shortage was logged.
    has_logged_shortage: AtomicBool,
    /// True if the first bytes of each file on a server are read, whatever its name and the listing say.
    reads_all: AtomicBool,
}

impl std::fmt::Debug for FormatDetector {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("FormatDetector").finish_non_exhaustive()
    }
}

impl FormatDetector {
    /// Makes a detector that remembers nothing. `recognise` returns the title of the format of a file.
    pub fn new(recognise: fn(ReadAt<'_>) -> Result<Option<&'static str>>, recovery: RecoveryPolicy) -> Self {
        Self {
            recognise,
            remembered: Remembered::default(),
            by_name: ByName::default(),
            recovery,
            has_logged_shortage: AtomicBool::new(false),
            reads_all: AtomicBool::new(false),
        }
    }

    /// From now on, lookups read the first bytes of each file on a server, for callers that read all files anyway.
    pub fn read_all(&self) {
        self.reads_all.store(true, Ordering::Relaxed);
    }

    /// Returns the entry `name` of a mirrored directory.
    pub fn detect(&self, dir: &OpenDir<'_>, name: &OsStr) -> Result<Detected> {
        let (parent, dir) = match dir {
            OpenDir::Local(parent, dir) => (parent, dir.as_fd()),
            OpenDir::Elsewhere(place) => {
                let position = EntryPosition::elsewhere(place.child(name));
                let listed = position.location.listed();
                let is_file = listed.is_some_and(|(stat, _)| stat.kind == FileKind::File);
                return match listed.filter(|_| !is_file || !self.reads_all.load(Ordering::Relaxed)) {
                    Some((stat, is_exact))
                        if !(is_file && self.by_name.is_unsure(&position.location))
                            && (is_exact || self.by_name.is_mounted_file(&position.location)) =>
                    {
                        Ok(self.seen_by_name(position, stat))
                    }
                    _ => self.seen_elsewhere(position),
                };
            }
        };
        if let Some(mountpoint) = parent.mountpoint()
            && mountpoint.is_at(dir, name)?
        {
            return Err(hidden());
        }
        let stat = parent.origin().stat_in(dir, name)?;
        let path = parent.join(name).found(dir, &stat)?;
        if stat.kind != FileKind::Link {
            return self.seen(path, dir, name, stat);
        }
        match link::judge(&path)? {
            LinkForm::Link(text) => {
                let position =
                    EntryPosition { location: Location::Local(path), stalling: Stalling::of(stat.key) };
                Ok(Detected { position, stat, form: EntryForm::Link(text) })
            }
            LinkForm::Followed(end) => self.seen(path.followed(), end.dir.as_fd(), &end.name, end.stat),
        }
    }

    /// Returns a file of a local directory in the given form, without reading it; `None` if `name` is no file.
    pub fn unread_file(&self, dir: &OpenDir<'_>, name: &OsStr, form: EntryForm) -> Result<Option<Detected>> {
        let OpenDir::Local(parent, dir) = dir else { return Ok(None) };
        let stat = parent.origin().stat_in(dir.as_fd(), name)?;
        if stat.kind != FileKind::File {
            return Ok(None);
        }
        let location = Location::Local(parent.join(name).found(dir.as_fd(), &stat)?);
        let position = EntryPosition { location, stalling: Stalling::of(stat.key) };
        Ok(Some(Detected { position, stat, form }))
    }

    /// Returns the entry `name` of a directory elsewhere as the directory's listing shows it, without a
    /// request. The flag is true if all attributes are known.
    pub fn listed(&self, dir: &OpenDir<'_>, name: &Name) -> Option<(Detected, bool)> {
        let OpenDir::Elsewhere(place) = dir else { return None };
        if !place.is_shown_as_listed() {
            return None;
        }
        let position = EntryPosition::elsewhere(place.child(&name.name));
        let label = position.location.label();
        let (stat, is_exact) = match (position.location.listed(), name.kind?) {
            (Some(listed), _) => listed,
            (None, FileKind::Directory) => (Stat::elsewhere(&label, PlaceStat::Directory), false),
            (None, _) => {
                let version = SourceVersion::of_tag("listed");
                let stat = SourceStat { size: 0, mtime: (0, 0), version };
                (Stat::elsewhere(&label, PlaceStat::File(stat)), false)
            }
        };
        // Where a listing has no times, the server is asked for each file.
        let is_known = position.location.listed().is_some_and(|(listed, _)| listed.source.mtime != (0, 0));
        let is_unsure = stat.kind == FileKind::File && self.by_name.is_unsure(&position.location);
        let seen = self.seen_by_name(position, stat);
        let is_certain = !is_unsure && (is_exact || is_known && seen.form == EntryForm::MountedFile);
        Some((seen, is_certain))
    }

    fn seen_by_name(&self, position: EntryPosition, stat: Stat) -> Detected {
        let form = match stat.kind {
            FileKind::Directory => EntryForm::Directory,
            _ if self.by_name.is_mounted_file(&position.location) => EntryForm::MountedFile,
            _ => EntryForm::File,
        };
        Detected { position, stat, form }
    }

    /// True if no format recognises the first bytes of a file elsewhere. Remembers the result for later
    /// listings.
    pub fn is_misnamed(&self, location: &Location) -> Result<bool> {
        if !matches!(location, Location::Elsewhere(_)) {
            return Ok(false);
        }
        let is_known = self.format_in(&*location.open()?)?.is_some();
        self.by_name.note(location, is_known);
        Ok(!is_known)
    }

    /// Returns the type that programs see for a name in a mirrored directory. If the directory entry contains
    /// the type, no stat is needed.
    pub fn kind(&self, dir: &OpenDir<'_>, entry: &Name) -> Result<FileKind> {
        let Name { name, kind: listed_kind, inode } = entry;
        let OpenDir::Local(parent, held) = dir else {
            return match (listed_kind, self.listed(dir, entry)) {
                (Some(_), Some((seen, _))) => Ok(seen.kind()),
                _ => Ok(self.detect(dir, name)?.kind()),
            };
        };
        let mountpoint = parent.mountpoint();
        let is_mount = mountpoint.map(|mountpoint| mountpoint.is_at(held.as_fd(), name)).transpose()?;
        let known = match listed_kind {
            Some(FileKind::File) if is_mount != Some(true) => self.knows_at_once(held.as_fd(), name, *inode),
            _ => None,
        };
        match *listed_kind {
            _ if is_mount == Some(true) => Err(hidden()),
            _ if known == Some(true) => Ok(FileKind::Directory),
            _ if known == Some(false) => Ok(FileKind::File),
            None | Some(FileKind::File | FileKind::Link) => Ok(self.detect(dir, name)?.kind()),
            Some(kind) => Ok(kind),
        }
    }

    /// Returns the entry at a known position, such as that of the source itself.
    pub fn detect_at(&self, position: &EntryPosition) -> Result<Detected> {
        let path = match &position.location {
            Location::Local(path) => path,
            Location::Elsewhere(_) => return self.seen_elsewhere(position.clone()),
        };
        let (dir, name) = path.holder()?;
        let stat = path.origin().stat_in(dir.as_fd(), &name).map_err(|error| error.of(path.label()))?;
        self.seen(path.clone().found(dir.as_fd(), &stat)?, dir.as_fd(), &name, stat)
    }

    fn seen(&self, path: LocalPath, dir: BorrowedFd<'_>, name: &OsStr, stat: Stat) -> Result<Detected> {
        let form = match stat.kind {
            FileKind::Directory => EntryForm::Directory,
            FileKind::File if self.recognises(&path, dir, name, &stat)? => EntryForm::MountedFile,
            FileKind::File => EntryForm::File,
            // The target of a followed link is a link only if another program has just replaced the target.
            FileKind::Link
            | FileKind::Fifo
            | FileKind::Socket
            | FileKind::CharDevice
            | FileKind::BlockDevice => EntryForm::Special,
        };
        let stalling = Stalling::of(stat.key).or(path.is_followed().then_some(Stalling::LINKED));
        Ok(Detected { position: EntryPosition { location: Location::Local(path), stalling }, stat, form })
    }

    fn seen_elsewhere(&self, position: EntryPosition) -> Result<Detected> {
        let stat = position.location.stat()?;
        let form = match stat.kind {
            FileKind::Directory => EntryForm::Directory,
            _ if self.recognises_elsewhere(&position.location, &stat)? => EntryForm::MountedFile,
            _ => EntryForm::File,
        };
        Ok(Detected { position, stat, form })
    }

    /// True if a format recognises the file elsewhere; false if the file can't be read.
    fn recognises_elsewhere(&self, location: &Location, stat: &Stat) -> Result<bool> {
        if let Some(known) = self.remembered.get(stat) {
            self.by_name.note(location, known);
            return Ok(known);
        }
        let source = match location.open_found(stat) {
            Err(error) if error.errno() == libc::EACCES => return Ok(false),
            opened => opened?,
        };
        let known = self.format_in(&*source).map_err(|error| error.of(location.label()))?.is_some();
        self.remembered.put(stat, known, SystemTime::now());
        self.by_name.note(location, known);
        Ok(known)
    }

    /// True if a format recognises the file; false if the file can't be read. Fails if memory or descriptors
    /// are short, or if the file is gone, because the next attempt may find a known format.
    fn recognises(&self, path: &LocalPath, dir: BorrowedFd<'_>, name: &OsStr, stat: &Stat) -> Result<bool> {
        if let Some(known) = self.remembered.get(stat) {
            return Ok(known);
        }
        let begun = SystemTime::now();
        let mut head = self.head(dir, name);
        if !matches!(head, Ok((_, true))) {
            // An interrupted save may have left first bytes that match no format. Only files of known formats
            // are ever saved.
            let held = dir.try_clone_to_owned();
            let held = held.map_err(|error| self.unread(Error::from(error).of(path.label())))?;
            let mount = path.mountpoint().map(Mountpoint::path);
            let target = SaveTarget::new(held, name.to_owned(), path.label()).mounted_at(mount);
            if self.recovery.apply(&target).is_err_and(|why| why.kind() == error::Kind::Unfinished) {
                return Ok(true);
            }
            head = self.head(dir, name);
        }
        match head.map_err(|error| error.of(path.label())) {
            Ok((read, known)) => {
                self.remembered.put(&read, known, begun);
                Ok(known)
            }
            Err(error) if error.is_shortage() => Err(self.unread(error)),
            Err(error) if matches!(error.errno(), libc::ENOENT | libc::ESTALE | libc::EIO | libc::EAGAIN) => {
                Err(error)
            }
            Err(_) => Ok(false),
        }
    }

    /// Returns the format of the file at a location by its first bytes; `None` if they can't be read.
    pub fn format_of(&self, location: &Location) -> Option<&'static str> {
        self.format_in(&*location.open().ok()?).ok()?
    }

    /// Returns the format that the first bytes of a source show.
    fn format_in(&self, source: &dyn Source) -> Result<Option<&'static str>> {
        (self.recognise)(&|offset, buf| {
            source.read_within(offset..offset.saturating_add(buf.len() as u64), offset, buf)
        })
    }

    /// Returns the stat of a file, and true if a format recognises its first bytes.
    fn head(&self, dir: BorrowedFd<'_>, name: &OsStr) -> Result<(Stat, bool)> {
        let file = open(dir, name)?;
        let known = self.knows(&file)?;
        Ok((stat_of(&file)?, known))
    }

    /// True if a format recognises the file `name` in `dir`; `None` if its first bytes
    /// alone do not decide that.
    fn knows_at_once(&self, dir: BorrowedFd<'_>, name: &OsStr, inode: u64) -> Option<bool> {
        if self.remembered.may_have(inode) {
            let stat = stat_in(dir, name).ok().filter(|stat| stat.kind == FileKind::File)?;
            if let Some(known) = self.remembered.get(&stat) {
                return Some(known);
            }
        }
        let begun = SystemTime::now();
        let (read, _) = self.head(dir, name).ok().filter(|(_, known)| *known)?;
        self.remembered.put(&read, true, begun);
        Some(true)
    }

    /// True if a format recognises the first bytes of an open file.
    fn knows(&self, file: &OwnedFd) -> Result<bool> {
        let read = |offset: u64, buf: &mut [u8]| Ok(rustix::io::pread(file, buf, offset)?);
        Ok((self.recognise)(&read)?.is_some())
    }

    /// Logs a shortage of memory or descriptors, once.
    fn unread(&self, error: Error) -> Error {
        if !self.has_logged_shortage.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "{error}: such files can't be shown now; close some that are open in the mount, or mount with a \
                 higher limit (ulimit -n)"
            );
        }
        error
    }
}

/// Returns the error for a lookup of the mount point, which may be inside a source.
fn hidden() -> Error {
    Error::new(error::Kind::NotFound, "is where the mount itself lies")
}
