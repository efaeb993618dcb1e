//! Entries of mirrored directories that have an inode number, or a descendant with one.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use asdf_access::local::detect::{Detected, EntryForm, EntryPosition};
use asdf_access::local::stat::{FileKey, FileKind, Stat};
use asdf_views::info::page::gallery::GalleryPage;
use seekable::error::Result;
use seekable::source::{Source, SourceVersion};
use seekable::sync::locked;

use crate::mounted::serials::Serials;
use crate::overlay::lazy::LazyOverlay;

/// Time after the last change of a file for which another program may still be writing it.
const REWRITTEN: Duration = Duration::from_secs(1);

/// A named entry of a mirrored directory, or the root.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) serial: u64,
    pub(crate) parent: Option<Arc<Entry>>,
    pub(crate) name: OsString,
    pub(crate) position: EntryPosition,
    pub(crate) class: Class,
}

/// The type of an entry, fixed for as long as the entry has its inode number.
///
/// It is small, because the kernel may know a hundred thousand entries: rarely used parts are boxed.
#[derive(Debug)]
pub(crate) enum Class {
    /// The root above several sources.
    Sources { sources: Vec<(OsString, EntryPosition)>, stat: Box<Stat>, children: Box<Children> },
    /// A mirrored directory.
    Directory { key: FileKey, children: Box<Children> },
    /// A file that a format recognises, shown as a directory.
    MountedFile(LazyOverlay),
    /// Any other regular file, with the source of the last open.
    File { first: Box<Stat>, open: Mutex<Option<Box<OpenedSource>>> },
    /// A symbolic link with its target.
    Link { key: FileKey, text: OsString },
    /// A FIFO, socket or device.
    Special { key: FileKey, kind: FileKind },
    /// `.asdf-mount/` of a mirrored directory.
    Gallery { children: Box<Children> },
    /// A page in it.
    GalleryPage(GalleryPage),
}

/// An opened regular file.
#[derive(Debug)]
pub(crate) struct OpenedSource {
    /// The source, while a handle reads it.
    pub(crate) source: Weak<dyn Source>,
    pub(crate) version: SourceVersion,
}

/// The known entries of a directory.
pub(crate) type Children = Mutex<HashMap<OsString, Weak<Entry>>>;

impl Entry {
    /// Creates the entry for a detected file or directory.
    pub(crate) fn of(seen: Detected, serial: u64, parent: Option<Arc<Entry>>, name: &OsStr) -> Entry {
        let key = seen.stat.key;
        let class = match seen.form {
            EntryForm::Directory => Class::Directory { key, children: Box::default() },
            EntryForm::MountedFile => Class::MountedFile(LazyOverlay::default()),
            EntryForm::File => Class::File { first: Box::new(seen.stat), open: Mutex::default() },
            EntryForm::Link(text) => Class::Link { key, text },
            EntryForm::Special => Class::Special { key, kind: seen.stat.kind },
        };
        Entry { serial, parent, name: name.to_owned(), position: seen.position, class }
    }

    pub(crate) fn children(&self) -> Option<&Children> {
        match &self.class {
            Class::Sources { children, .. }
            | Class::Directory { children, .. }
            | Class::Gallery { children } => Some(children),
            _ => None,
        }
    }

    /// Returns the overlay of an entry that is a mounted file, or ENOTDIR.
    pub(crate) fn lazy_overlay(&self) -> Result<&LazyOverlay> {
        match &self.class {
            Class::MountedFile(overlay) => Ok(overlay),
            _ => Err(rustix::io::Errno::NOTDIR.into()),
        }
    }

    /// True if `seen` is still this entry.
    ///
    /// The directory of a mounted file keeps its entry when the file is replaced: a process in the directory
    /// sees the new file. If other users have access, the new file must have the same permissions. The directory also
    /// stays while another program writes the file anew, although no format recognises the file then.
    fn is(&self, seen: &Detected) -> bool {
        let key = seen.stat.key;
        self.position.location.is_followed() == seen.position.location.is_followed()
            && match (&self.class, &seen.form) {
                (Class::Directory { key: own, .. }, EntryForm::Directory) => *own == key,
                (Class::MountedFile(_), EntryForm::MountedFile) => self.position.location.accepts(&seen.stat),
                // Another program has truncated the file, and is writing it again.
                (Class::MountedFile(file), EntryForm::File) => {
                    let is_same = file.current.last_seen().is_some_and(|known| known.key == key);
                    is_same
                        && !seen.stat.source.is_unchanged_for(REWRITTEN)
                        && self.position.location.accepts(&seen.stat)
                }
                (Class::File { first, .. }, EntryForm::File) => first.key == key,
                (Class::Link { key: own, text }, EntryForm::Link(seen)) => *own == key && text == seen,
                (Class::Special { key: own, kind }, EntryForm::Special) => {
                    (*own, *kind) == (key, seen.stat.kind)
                }
                _ => false,
            }
    }

    /// Returns the known entry of `name` if `seen` is still that entry, or a new one.
    pub(crate) fn child(
        self: &Arc<Self>,
        name: &OsStr,
        seen: Detected,
        serials: &Serials,
    ) -> Result<Arc<Self>> {
        let Some(children) = self.children() else { return Err(rustix::io::Errno::NOTDIR.into()) };
        let mut children = locked(children);
        if let Some(known) = children.get(name).and_then(Weak::upgrade).filter(|known| known.is(&seen)) {
            return Ok(known);
        }
        let entry = Arc::new(Self::of(seen, serials.next()?, Some(self.clone()), name));
        children.insert(name.to_owned(), Arc::downgrade(&entry));
        Ok(entry)
    }

    /// Returns the known entry of `name`.
    pub(crate) fn known_child(&self, name: &OsStr) -> Option<Arc<Self>> {
        locked(self.children()?).get(name).and_then(Weak::upgrade)
    }

    /// Removes this entry from its parent's table, unless another thread uses it again.
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

/// Returns the current stat of an entry. For a file that was removed or replaced but is still open, returns
/// the stat of the open file.
pub(crate) fn stat_entry(entry: &Entry, key: FileKey) -> Result<Stat> {
    let found = entry.position.location.stat();
    if let Ok(stat) = &found
        && stat.key == key
    {
        return Ok(*stat);
    }
    if let Class::File { first, open } = &entry.class
        && let Some(source) = locked(open).as_ref().and_then(|opened| opened.source.upgrade())
    {
        return Ok(Stat { source: source.stat()?, ..**first });
    }
    match found {
        Ok(_) => Err(rustix::io::Errno::STALE.into()),
        Err(error) => Err(error),
    }
}
