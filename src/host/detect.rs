//! Mirrored directories: what lies at a name, and as what it is shown.
//!
//! Nothing is listed or opened before a program asks. A name is looked at with one stat; of a regular file the
//! first bytes are read too, to see whether a format recognises it. The answer is remembered (`remembered`).

mod remembered;

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use remembered::Remembered;

use crate::error::{self, Error, Result};
use crate::format::HEAD;
use crate::format::editor::SaveTarget;
use crate::format::recovery::RecoveryPolicy;
use crate::host::at::{open, stat_in, stat_of};
use crate::host::location::link::{self, LinkForm, LinkPolicy};
use crate::host::location::{Location, Name};
use crate::host::mounts::Foreign;
use crate::host::stat::{Kind, Stat};

/// Where an entry lies, and what its links are judged by.
#[derive(Clone, Debug)]
pub(crate) struct Position {
    pub(crate) location: Location,
    pub(crate) links: Arc<LinkPolicy>,
    /// Directories between it and the top of its mirror.
    pub(crate) depth: usize,
    /// Whether a link was followed to it.
    pub(crate) followed: bool,
    /// The foreign file system that it lies on, or that the followed link may lead to.
    pub(crate) foreign: Option<Foreign>,
}

/// What was found at a name.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) position: Position,
    pub(crate) stat: Stat,
    pub(crate) shape: Shape,
}

/// As what it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Directory,
    Folder,
    File,
    Link(OsString),
    Special,
}

impl Seen {
    /// The kind that programs see.
    pub(crate) fn kind(&self) -> Kind {
        match self.shape {
            Shape::Directory | Shape::Folder => Kind::Directory,
            Shape::File => Kind::File,
            Shape::Link(_) => Kind::Link,
            Shape::Special => self.stat.kind,
        }
    }
}

/// Looks at names, and remembers which files were recognised.
pub(crate) struct FormatDetector {
    recognise: fn(&[u8]) -> Option<&'static str>,
    remembered: Remembered,
    /// Looks after what a crash left halfway: its first bytes may be none of any format.
    recovery: RecoveryPolicy,
    /// Whether the log has named a shortage.
    told: AtomicBool,
}

impl std::fmt::Debug for FormatDetector {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("FormatDetector").finish_non_exhaustive()
    }
}

impl FormatDetector {
    pub(crate) fn new(recognise: fn(&[u8]) -> Option<&'static str>, recovery: RecoveryPolicy) -> Self {
        let remembered = Remembered::default();
        Self { recognise, remembered, recovery, told: AtomicBool::new(false) }
    }

    /// Looks at `name` in the mirrored directory `parent`, which is open as `dir`.
    pub(crate) fn look(&self, parent: &Position, dir: BorrowedFd<'_>, name: &OsStr) -> Result<Seen> {
        let position = parent;
        if let Some(mountpoint) = &position.links.mountpoint
            && mountpoint.is_at(dir, name)?
        {
            return Err(hidden());
        }
        let stat = position.location.origin().stat_in(dir, name)?;
        let position = Position {
            location: position.location.join(name).found(dir, &stat)?,
            depth: position.depth + 1,
            ..position.clone()
        };
        let position = Position { followed: false, ..position };
        if stat.kind != Kind::Link {
            return self.seen(position, dir, name, stat);
        }
        match link::judge(&position.location, position.depth - 1, &position.links)? {
            LinkForm::Link(text) => Ok(Seen { position, stat, shape: Shape::Link(text) }),
            LinkForm::Followed(end) => {
                let location = position.location.followed(&position.links);
                let position = Position { location, followed: true, ..position };
                self.seen(position, end.dir.as_fd(), &end.name, end.stat)
            }
        }
    }

    /// The kind that programs see of a name in the mirrored directory `parent`, which is open as `dir`. Where the
    /// directory tells the kind, no stat is needed.
    pub(crate) fn kind(&self, parent: &Position, dir: BorrowedFd<'_>, name: &Name) -> Result<Kind> {
        let Name { name, kind: told, inode } = name;
        let is_mount =
            parent.links.mountpoint.as_ref().map(|mountpoint| mountpoint.is_at(dir, name)).transpose()?;
        let known = match told {
            Some(Kind::File) if is_mount != Some(true) => self.knows_at_once(dir, name, *inode),
            _ => None,
        };
        match *told {
            _ if is_mount == Some(true) => Err(hidden()),
            _ if known == Some(true) => Ok(Kind::Directory),
            _ if known == Some(false) => Ok(Kind::File),
            None | Some(Kind::File | Kind::Link) => Ok(self.look(parent, dir, name)?.kind()),
            Some(kind) => Ok(kind),
        }
    }

    /// Looks at the place of a source itself.
    pub(crate) fn look_at(&self, position: Position) -> Result<Seen> {
        let (dir, name) = position.location.holder()?;
        let stat = position.location.origin().stat_in(dir.as_fd(), &name);
        let stat = stat.map_err(|error| error.of(position.location.label()))?;
        let location = position.location.clone().found(dir.as_fd(), &stat)?;
        self.seen(Position { location, ..position.clone() }, dir.as_fd(), &name, stat)
    }

    fn seen(&self, position: Position, dir: BorrowedFd<'_>, name: &OsStr, stat: Stat) -> Result<Seen> {
        let shape = match stat.kind {
            Kind::Directory => Shape::Directory,
            Kind::File if self.recognises(&position.location, dir, name, &stat)? => Shape::Folder,
            Kind::File => Shape::File,
            // Only the end of a followed link can be a link here: another program made it one just now.
            Kind::Link | Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => Shape::Special,
        };
        let foreign = Foreign::of(stat.key.0).or(position.followed.then_some(Foreign::LINKED));
        Ok(Seen { position: Position { foreign, ..position }, stat, shape })
    }

    /// Whether a format knows the file; one that can't be read is known by none. Where the system lacks
    /// something just now, or the file is gone, that is an error: the next look may find a known format.
    fn recognises(
        &self,
        location: &Location,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        stat: &Stat,
    ) -> Result<bool> {
        if let Some(known) = self.remembered.get(dir, stat) {
            return Ok(known);
        }
        let begun = SystemTime::now();
        let mut head = self.head(dir, name);
        if !matches!(head, Ok((_, true))) {
            // A save that was interrupted may have left first bytes of no format. Only files of known formats are
            // ever saved.
            let held = dir.try_clone_to_owned();
            let held = held.map_err(|error| self.unread(Error::from(error).of(location.label())))?;
            let target = SaveTarget::new(held, name.to_owned(), location.label());
            if self.recovery.apply(&target).is_err_and(|why| why.kind() == error::Kind::Unfinished) {
                return Ok(true);
            }
            head = self.head(dir, name);
        }
        match head.map_err(|error| error.of(location.label())) {
            Ok((read, known)) => {
                self.remembered.put(dir, &read, known, begun);
                Ok(known)
            }
            Err(error) if error.is_shortage() => Err(self.unread(error)),
            Err(error) if matches!(error.errno(), libc::ENOENT | libc::ESTALE) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Returns the format of the file at a location by its first bytes; `None` if they can't be read.
    pub(crate) fn format_of(&self, location: &Location) -> Option<&'static str> {
        let mut head = [0; HEAD];
        let read = location.open().ok()?.read_at(0, &mut head).ok()?;
        head.get(..read).and_then(self.recognise)
    }

    /// The stat of a file, and whether a format knows its first bytes.
    fn head(&self, dir: BorrowedFd<'_>, name: &OsStr) -> Result<(Stat, bool)> {
        let file = open(dir, name)?;
        let known = self.knows(&file)?;
        Ok((stat_of(&file)?, known))
    }

    /// Returns whether a format knows the file `name` in `dir`; `None` if that takes more than a look at its first bytes.
    fn knows_at_once(&self, dir: BorrowedFd<'_>, name: &OsStr, inode: u64) -> Option<bool> {
        if self.remembered.may_have(inode) {
            let stat = stat_in(dir, name).ok().filter(|stat| stat.kind == Kind::File)?;
            if let Some(known) = self.remembered.get(dir, &stat) {
                return Some(known);
            }
        }
        let begun = SystemTime::now();
        let (read, _) = self.head(dir, name).ok().filter(|(_, known)| *known)?;
        self.remembered.put(dir, &read, true, begun);
        Some(true)
    }

    /// Whether a format knows the first bytes of an open file.
    fn knows(&self, file: &OwnedFd) -> Result<bool> {
        let mut head = [0; HEAD];
        let read = rustix::io::pread(file, &mut head, 0)?;
        Ok(head.get(..read).and_then(self.recognise).is_some())
    }

    /// Says once in the log what the system lacks.
    fn unread(&self, error: Error) -> Error {
        if !self.told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "{error}: such files can't be shown now; close some that are open in the mount, or mount with a \
                 higher limit (ulimit -n)"
            );
        }
        error
    }
}

/// The answer for the mount's own directory inside a source.
fn hidden() -> Error {
    Error::new(error::Kind::NotFound, "is where the mount itself lies")
}
