//! Entries of the mirrored directories: what lies at a name, and as what it is shown.
//!
//! Nothing is listed or opened before someone asks. A name is looked at with one stat; of a regular
//! file the first bytes are read too, to see whether a format recognises it, and what was found is
//! kept for as long as device, inode, size and modification time stay as they are.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use lru::LruCache;

use super::attr::{Key, Kind, Stat};
use super::folder::Folder;
use super::link::{self, Shown, Surroundings};
use super::locked;
use super::node::Serials;
use super::saver::{Settler, Site};
use super::spot::{Spot, open_in};
use crate::error::{self, Error, Result};
use crate::format::HEAD;
use crate::source::{FileSource, Identity, Source, read_up_to};

/// How many files are remembered as recognised or not: some megabytes.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(32 << 10).expect("is not zero");

/// Something that lies at a name of the mount.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) serial: u32,
    pub(crate) parent: Option<Arc<Entry>>,
    pub(crate) name: OsString,
    pub(crate) place: Place,
    pub(crate) class: Class,
}

/// What an entry is, for as long as it has its number.
///
/// Small, since the kernel may know a hundred thousand of them: what few entries have is boxed.
#[derive(Debug)]
pub(crate) enum Class {
    /// The root above several sources.
    Sources { sources: Vec<(OsString, Place)>, stat: Box<Stat>, children: Box<Children> },
    /// A mirrored directory.
    Directory { key: Key, children: Box<Children> },
    /// A file that a format recognises.
    Folder(Folder),
    /// Any other regular file, and its source while someone reads it.
    File { first: Box<Stat>, open: Mutex<Weak<FileSource>> },
    /// A link with this text.
    Link { key: Key, text: OsString },
    /// A FIFO, socket or device.
    Special { key: Key, kind: Kind },
}

/// The entries of a directory that are known.
pub(crate) type Children = Mutex<HashMap<OsString, Weak<Entry>>>;

/// Where an entry lies, and what its links are judged by.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) spot: Spot,
    pub(crate) around: Arc<Surroundings>,
    /// Directories between it and the top of its mirror.
    pub(crate) depth: usize,
    /// Whether a link was followed to it.
    pub(crate) followed: bool,
}

/// What was found at a name.
#[derive(Debug)]
pub(crate) struct Seen {
    place: Place,
    pub(crate) stat: Stat,
    shape: Shape,
}

/// As what it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
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

    /// Makes the entry for it.
    pub(crate) fn entry(self, serial: u32, parent: Option<Arc<Entry>>, name: &OsStr) -> Entry {
        let key = self.stat.key();
        let class = match self.shape {
            Shape::Directory => Class::Directory { key, children: Box::default() },
            Shape::Folder => Class::Folder(Folder::default()),
            Shape::File => Class::File { first: Box::new(self.stat), open: Mutex::default() },
            Shape::Link(text) => Class::Link { key, text },
            Shape::Special => Class::Special { key, kind: self.stat.kind },
        };
        Entry { serial, parent, name: name.to_owned(), place: self.place, class }
    }
}

impl Entry {
    pub(crate) fn children(&self) -> Option<&Children> {
        match &self.class {
            Class::Sources { children, .. } | Class::Directory { children, .. } => Some(children),
            _ => None,
        }
    }

    /// The folder that stands for its file.
    pub(crate) fn folder(&self) -> Result<&Folder> {
        match &self.class {
            Class::Folder(folder) => Ok(folder),
            _ => Err(rustix::io::Errno::NOTDIR.into()),
        }
    }

    /// Whether what was seen is still this entry.
    ///
    /// A folder stays itself when its file is replaced: whoever stands in it sees the new one.
    fn is(&self, seen: &Seen) -> bool {
        let key = seen.stat.key();
        self.place.followed == seen.place.followed
            && match (&self.class, &seen.shape) {
                (Class::Directory { key: own, .. }, Shape::Directory) => *own == key,
                (Class::Folder(_), Shape::Folder) => true,
                (Class::File { first, .. }, Shape::File) => first.key() == key,
                (Class::Link { key: own, text }, Shape::Link(seen)) => *own == key && text == seen,
                (Class::Special { key: own, kind }, Shape::Special) => (*own, *kind) == (key, seen.stat.kind),
                _ => false,
            }
    }

    /// The entry of `name` that is known for what was seen there, or a new one.
    pub(crate) fn child(self: &Arc<Self>, name: &OsStr, seen: Seen, serials: &Serials) -> Result<Arc<Self>> {
        let Some(children) = self.children() else { return Err(rustix::io::Errno::NOTDIR.into()) };
        let mut children = locked(children);
        if let Some(known) = children.get(name).and_then(Weak::upgrade).filter(|known| known.is(&seen)) {
            return Ok(known);
        }
        let entry = Arc::new(seen.entry(serials.next()?, Some(self.clone()), name));
        children.insert(name.to_owned(), Arc::downgrade(&entry));
        Ok(entry)
    }

    /// The entry of `name` that is known.
    pub(crate) fn known_child(&self, name: &OsStr) -> Option<Arc<Self>> {
        locked(self.children()?).get(name).and_then(Weak::upgrade)
    }

    /// Frees the parent's note of this entry, unless someone took hold of it again.
    pub(crate) fn leave_parent(self: Arc<Self>) {
        let Some(children) = self.parent.as_ref().and_then(|parent| parent.children()) else { return };
        let mut children = locked(children);
        let own = children.get(&self.name).is_some_and(|noted| std::ptr::eq(noted.as_ptr(), &*self));
        if own && Arc::strong_count(&self) == 1 {
            children.remove(&self.name);
            if children.len() < children.capacity() / 4 {
                children.shrink_to_fit();
            }
        }
    }
}

/// Looks at names, and remembers which files were recognised.
pub(crate) struct Scout {
    recognise: fn(&[u8]) -> Option<&'static str>,
    remembered: Mutex<LruCache<Identity, bool>>,
    /// Looks after what a crash left halfway: its first bytes may be none of any format.
    settler: Settler,
    /// Whether the log tells of a shortage.
    told: AtomicBool,
}

impl std::fmt::Debug for Scout {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Scout").finish_non_exhaustive()
    }
}

impl Scout {
    pub(crate) fn new(recognise: fn(&[u8]) -> Option<&'static str>, settler: Settler) -> Self {
        let remembered = Mutex::new(LruCache::new(REMEMBERED));
        Self { recognise, remembered, settler, told: AtomicBool::new(false) }
    }

    /// Looks at `name` in the mirrored directory `parent`, which is open as `dir`.
    pub(crate) fn look(&self, parent: &Entry, dir: BorrowedFd<'_>, name: &OsStr) -> Result<Seen> {
        let place = &parent.place;
        if let Some(mountpoint) = &place.around.mountpoint
            && mountpoint.is_at(dir, name)?
        {
            return Err(hidden());
        }
        let stat = place.spot.origin().stat_in(dir, name)?;
        let place = Place { spot: place.spot.join(name), depth: place.depth + 1, ..place.clone() };
        let place = Place { followed: false, ..place };
        if stat.kind != Kind::Link {
            return self.seen(place, dir, name, stat);
        }
        match link::judge(&place.spot, place.depth - 1, &place.around)? {
            Shown::Link(text) => Ok(Seen { place, stat, shape: Shape::Link(text) }),
            Shown::Followed(end) => {
                let spot = place.spot.followed(&place.around);
                let place = Place { spot, followed: true, ..place };
                self.seen(place, end.dir.as_fd(), &end.name, end.stat)
            }
        }
    }

    /// Looks at the place of a source itself.
    pub(crate) fn look_at(&self, place: Place) -> Result<Seen> {
        let (dir, name) = place.spot.holder()?;
        let stat = place.spot.origin().stat_in(dir.as_fd(), &name);
        let stat = stat.map_err(|error| error.of(place.spot.label()))?;
        self.seen(place.clone(), dir.as_fd(), &name, stat)
    }

    fn seen(&self, place: Place, dir: BorrowedFd<'_>, name: &OsStr, stat: Stat) -> Result<Seen> {
        let shape = match stat.kind {
            Kind::Directory => Shape::Directory,
            Kind::File if self.recognises(&place.spot, dir, name, &stat.identity)? => Shape::Folder,
            Kind::File => Shape::File,
            // Only what a walk ends at can come here as a link: someone made it one just now.
            Kind::Link | Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => Shape::Special,
        };
        Ok(Seen { place, stat, shape })
    }

    /// Whether a format knows the file; one that can't be read is known by none. Where the system lacks
    /// something just now, or the file is gone, that is an error: the next look may find a known format.
    fn recognises(
        &self,
        spot: &Spot,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        identity: &Identity,
    ) -> Result<bool> {
        if identity.size == 0 {
            return Ok(false);
        }
        if let Some(known) = locked(&self.remembered).get(identity) {
            return Ok(*known);
        }
        let held =
            dir.try_clone_to_owned().map_err(|error| self.unread(Error::from(error).of(spot.label())))?;
        let site = Site::new(held, name.to_owned(), spot.label());
        // Only files of known formats are ever saved.
        if self.settler.settle(site).is_err_and(|why| why.kind() == error::Kind::Unfinished) {
            return Ok(true);
        }
        let head = || -> Result<(Identity, bool)> {
            let source = open_in(dir, name, spot)?;
            let mut head = [0; HEAD];
            let read = read_up_to(&source, 0, &mut head)?;
            let known = head.get(..read).and_then(self.recognise).is_some();
            Ok((source.identity()?, known))
        };
        match head() {
            Ok((read, known)) => {
                if read == *identity {
                    locked(&self.remembered).put(read, known);
                }
                Ok(known)
            }
            Err(error) if error.is_shortage() => Err(self.unread(error)),
            Err(error) if matches!(error.errno(), libc::ENOENT | libc::ESTALE) => Err(error),
            Err(_) => Ok(false),
        }
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

/// Stat of a plain file or other entry as it is now, or of what is still open of it.
pub(crate) fn stat_entry(entry: &Entry, key: Key) -> Result<Stat> {
    let found = entry.place.spot.stat();
    if let Ok(stat) = &found
        && stat.key() == key
    {
        return Ok(*stat);
    }
    if let Class::File { first, open } = &entry.class
        && let Some(source) = locked(open).upgrade()
    {
        return Ok(Stat { identity: source.identity()?, ..**first });
    }
    match found {
        Ok(_) => Err(rustix::io::Errno::STALE.into()),
        Err(error) => Err(error),
    }
}
