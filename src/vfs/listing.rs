//! Open directories: their entries at stable positions.
//!
//! Position 0 is `.`, 1 is `..`, then come the names in the order in which they were found. The names of a
//! mirrored directory are read when it is opened, and again after a rewind. The type of an entry is
//! determined when the entry is returned. The entries of a mounted file's directory are listed by its format.

use std::ffi::{OsStr, OsString};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use asdf_access::local::detect::{Detected, EntryForm};
use asdf_access::local::location::{Location, Name, OpenDir};
use asdf_access::local::stat::FileKind;
use asdf_access::options::shown::is_file;
use asdf_file::folder::{self, Dir};
use seekable::error::{Error, Result, errno};
use seekable::sync::{locked_to_read, locked_to_write};

use crate::overlay::file::OverlayFile;
use crate::overlay::is_reserved;
use crate::vfs::Vfs;
use crate::vfs::attr::Attr;
use crate::vfs::entry::{Class, Entry};
use crate::vfs::lookup::{ListedDir, ViewContent, ViewDir};
use crate::vfs::node::{Ino, Inode};
use crate::view::{ABOUT, TREE};

/// The number of positions before the names: those of `.` and `..`.
const DOTS: u64 = 2;

/// An entry returned by readdir.
#[derive(Debug)]
pub struct DirItem<'a> {
    /// The name.
    pub name: &'a OsStr,
    /// Position of the next entry.
    pub next: u64,
    /// Inode number, or [`Ino::UNKNOWN`] if the name was not looked up yet.
    pub ino: Ino,
    /// Type of the entry.
    pub kind: FileKind,
    /// Attributes, if requested; never for `.` and `..`.
    pub attr: Option<Attr>,
}

/// An open directory.
#[derive(Debug)]
pub struct DirHandle {
    ino: Ino,
    parent: Ino,
    names: DirNames,
    /// Position after the last entry, once the directory was read to its end; 0 before.
    end: AtomicU64,
}

impl DirHandle {
    /// True if the directory was read to its end, which was at this position.
    pub fn ends_at(&self, position: u64) -> bool {
        position > 0 && self.end.load(Ordering::Relaxed) == position
    }
}

/// The names in an open directory.
#[derive(Debug)]
enum DirNames {
    /// A directory of a mounted file.
    View(ViewDir),
    /// Names as they were last read; also used for the directory of a writable file.
    Mirrored(Mirrored),
}

/// An open mirrored directory, the open directory of a writable file, or one beside its `tree.yaml`.
#[derive(Debug)]
struct Mirrored {
    entry: Arc<Entry>,
    /// The directory beside `tree.yaml`.
    made: Option<Arc<OverlayFile>>,
    /// Names from the format, in the directory of a writable file; the pages of a gallery.
    shown: Vec<OsString>,
    /// Why the format could not give all of its names.
    unknown: Option<Error>,
    names: RwLock<Arc<[Name]>>,
    /// True once names were returned since they were last read.
    used: AtomicBool,
}

impl Mirrored {
    fn open(entry: Arc<Entry>, shown: Vec<OsString>, unknown: Option<Error>) -> Result<Self> {
        let names = RwLock::new(read(&entry, None, &shown)?);
        Ok(Self { entry, made: None, shown, unknown, names, used: AtomicBool::new(false) })
    }

    /// Opens a directory that a program has made beside `tree.yaml`.
    fn of_made(entry: Arc<Entry>, dir: Arc<OverlayFile>) -> Result<Self> {
        let names = RwLock::new(read(&entry, Some(&dir), &[])?);
        let used = AtomicBool::new(false);
        Ok(Self { entry, made: Some(dir), shown: Vec::new(), unknown: None, names, used })
    }

    fn ino(&self) -> Ino {
        Ino::of(self.made.as_ref().and_then(|made| made.serial).unwrap_or(self.entry.serial))
    }
}

fn read(entry: &Entry, made: Option<&Arc<OverlayFile>>, shown: &[OsString]) -> Result<Arc<[Name]>> {
    if let Some(made) = made {
        let names = entry.lazy_overlay()?.overlay_of(made)?.names(Some(made));
        return match names {
            // The directory was removed.
            Err(error) if error.errno() == libc::ENOENT => Ok([].into()),
            names => Ok(names?.into_iter().map(Name::from).collect()),
        };
    }
    match &entry.class {
        Class::Sources { sources, .. } => Ok(sources.iter().map(|(name, _)| name.clone().into()).collect()),
        Class::Gallery { .. } => Ok(shown.iter().cloned().map(Name::from).collect()),
        Class::MountedFile(overlay) => {
            let written = match overlay.used_overlay() {
                Some(overlay) => overlay.names(None)?,
                None => vec![TREE.into()],
            };
            Ok(written.into_iter().chain(shown.iter().cloned()).map(Name::from).collect())
        }
        _ => Ok(entry.position.location.list()?.into()),
    }
}

impl Mirrored {
    /// Returns the names. With `anew`, reads them again if any were returned since they were last read.
    fn names(&self, anew: bool) -> Result<Arc<[Name]>> {
        if self.used.swap(true, Ordering::Relaxed) && anew {
            let names = read(&self.entry, self.made.as_ref(), &self.shown)?;
            *locked_to_write(&self.names) = names;
        }
        Ok(locked_to_read(&self.names).clone())
    }
}

/// Inode number and type of a name, and the result of a lookup if requested.
type Looked = (Ino, FileKind, Option<(Attr, Inode)>);

/// Callback that takes an item. Returns true if the buffer is full and the item was not taken.
type Take<'a> = &'a mut dyn FnMut(DirItem<'_>) -> bool;

impl Vfs {
    /// Opens a directory.
    pub fn open_dir(&self, ino: Ino) -> Result<DirHandle> {
        let (parent, names) = match self.node(ino)? {
            Inode::Entry(entry) => {
                let parent = Ino::of(entry.parent.as_ref().map_or(0, |parent| parent.serial));
                let names = match &entry.class {
                    Class::MountedFile(overlay) if self.is_writable(&entry)? => {
                        // If the source can't be reached, the directory has only the files that programs have
                        // written.
                        if let Err(error) = self.mounted(&entry)
                            && overlay.used_overlay().is_none_or(|overlay| overlay.is_unwritten())
                        {
                            return Err(error);
                        }
                        let (shown, unknown) = self.names_beside_tree(&entry);
                        DirNames::Mirrored(Mirrored::open(entry, shown, unknown)?)
                    }
                    Class::MountedFile(_) => {
                        let (mounted, held) = self.newest(&entry)?;
                        self.confirm_format(&entry, &held)?;
                        DirNames::View(ViewDir { entry, mounted, view: None })
                    }
                    Class::Sources { .. } | Class::Directory { .. } => {
                        DirNames::Mirrored(Mirrored::open(entry, Vec::new(), None)?)
                    }
                    Class::Gallery { .. } => {
                        let names = self.gallery_names(&entry)?;
                        DirNames::Mirrored(Mirrored::open(entry, names, None)?)
                    }
                    _ => return Err(errno(libc::ENOTDIR)),
                };
                (parent, names)
            }
            Inode::View(entry, mounted, view) => match self.shown(&entry, &mounted, &view)?.what {
                folder::Node::Dir(_) => {
                    (Ino::UNKNOWN, DirNames::View(ViewDir { entry, mounted, view: Some(view) }))
                }
                _ => return Err(errno(libc::ENOTDIR)),
            },
            Inode::OverlayFile(entry, dir) if dir.is_dir => {
                (Ino::UNKNOWN, DirNames::Mirrored(Mirrored::of_made(entry, dir)?))
            }
            _ => return Err(errno(libc::ENOTDIR)),
        };
        Ok(DirHandle { ino, parent, names, end: AtomicU64::new(0) })
    }

    /// Returns the names that the format provides in a file's directory, except `tree.yaml`, and the reason why they
    /// are not all. The directory can be written even while nothing of the file can be read.
    fn names_beside_tree(&self, entry: &Arc<Entry>) -> (Vec<OsString>, Option<Error>) {
        let (mounted, held) = match self.newest(entry) {
            Ok(newest) => newest,
            // Nothing more is known of a file that is gone.
            Err(error) => return (vec![ABOUT.into()], (error.errno() != libc::ENOENT).then_some(error)),
        };
        let mut names = Vec::new();
        let listed = self.root_of(entry, &mounted, &held).list(0, &mut |name, _| {
            if name != TREE {
                names.push(name.to_owned());
            }
            true
        });
        match listed {
            Ok(()) => (names, held.container().err()),
            Err(error) => (vec![ABOUT.into()], Some(error)),
        }
    }

    /// True for the directory of a mounted file, and for those in it.
    pub(crate) fn is_of_a_mounted_file(&self, ino: Ino) -> bool {
        match self.node(ino) {
            Ok(Inode::Entry(entry)) => matches!(entry.class, Class::MountedFile(_)),
            node => matches!(node, Ok(Inode::View(..))),
        }
    }

    /// Passes the entries of a directory to `take`, from a position on, until `take` returns true.
    ///
    /// With `attrs` each name is also looked up, as by [`Vfs::lookup`], except for `.` and `..`. Entries that
    /// vanished since the directory was read are omitted.
    ///
    /// # Errors
    /// If not all entries can be known, those that are known are passed first. The call that passes no more returns
    /// the error.
    pub fn read_dir(&self, listing: &DirHandle, from: u64, attrs: bool, take: Take<'_>) -> Result<()> {
        if from == 0 {
            listing.end.store(0, Ordering::Relaxed);
        }
        let dots = [(".", listing.ino), ("..", listing.parent)];
        for (next, (name, ino)) in (1..).zip(dots).skip(usize::try_from(from).unwrap_or(usize::MAX)) {
            if take(DirItem { name: OsStr::new(name), next, ino, kind: FileKind::Directory, attr: None }) {
                return Ok(());
            }
        }
        let end = match &listing.names {
            DirNames::View(parent) => self.list_view(parent, from, attrs, take),
            DirNames::Mirrored(mirrored) => self.list_mirrored(mirrored, from, attrs, take),
        }?;
        listing.end.store(end.unwrap_or(0), Ordering::Relaxed);
        Ok(())
    }

    /// Returns the position after the last entry, if that was taken.
    fn list_view(&self, parent: &ViewDir, from: u64, attrs: bool, take: Take<'_>) -> Result<Option<u64>> {
        let Some(listed) = self.listed(parent)? else { return Ok(None) };
        let serial = listed.parent.serial();
        let found = |name: &OsStr, kind: folder::EntryKind| -> Result<Looked> {
            if attrs {
                return self.item_of_view(&listed, name, kind_of(kind));
            }
            let known = self.known.view(serial, name);
            Ok((known.map_or(Ino::UNKNOWN, |view| Ino::of(view.serial)), kind_of(kind), None))
        };
        let first = from.saturating_sub(DOTS);
        let mut next = first + DOTS;
        let mut handout = Handout::new(take, None);
        listed.dir.list(first, &mut |name, kind| {
            next += 1;
            handout.pass(self, name, next, found(name, kind))
        })?;
        let unknown = if parent.view.is_none() { listed.held.container().err() } else { None };
        handout.end(next, unknown)
    }

    /// Returns the result of a lookup in a directory of a view. An entry of which nothing can be known now is listed all
    /// the same: the kernel looks its name up, which gives the error.
    fn item_of_view(&self, listed: &ListedDir, name: &OsStr, kind: FileKind) -> Result<Looked> {
        if kind == FileKind::File && listed.dir.is_slow_at(name) {
            return self.unmade(&listed.parent, name, kind);
        }
        match self.known_item(listed, name) {
            Err(error) if error.errno() != libc::ENOENT && !error.is_shortage() => {
                self.unmade(&listed.parent, name, kind)
            }
            found => found,
        }
    }

    fn known_item(&self, listed: &ListedDir, name: &OsStr) -> Result<Looked> {
        let ListedDir { parent, held, dir } = listed;
        let what = dir.lookup(name)?.ok_or_else(|| errno(libc::ENOENT))?.if_known()?;
        let shown = ViewContent { held: held.clone(), what };
        let node = self.view_node(parent, name, Some(&shown))?;
        let Inode::View(_, mounted, view) = &node else { return Err(errno(libc::ENOENT)) };
        let attr = self.attr_of_view(view, mounted, &shown)?;
        Ok((attr.ino, attr.kind, Some((attr, node))))
    }

    /// Returns attributes for an entry that only a lookup can tell more about. The kernel does not cache them.
    /// Until then, the size of a file is the last size that the kernel got, so that the kernel keeps pages that programs
    /// have mapped.
    fn unmade(&self, parent: &ViewDir, name: &OsStr, kind: FileKind) -> Result<Looked> {
        let node = self.view_node(parent, name, None)?;
        let size = match &node {
            Inode::View(_, _, view) => view.shown().map_or(0, |shown| shown.size),
            _ => 0,
        };
        let attr = self.ownership.attr(node.ino(), kind, size, &parent.mounted.revalidate().stat);
        Ok((attr.ino, kind, Some((Attr { grows: true, ..attr }, node))))
    }

    /// Returns the position after the last entry, if that was taken.
    fn list_mirrored(
        &self,
        mirrored: &Mirrored,
        from: u64,
        attrs: bool,
        take: Take<'_>,
    ) -> Result<Option<u64>> {
        let names = mirrored.names(from == 0)?;
        let entry = &mirrored.entry;
        let dir = match entry.class {
            Class::Directory { .. } => Some(entry.position.location.open_dir()?),
            _ => None,
        };
        // The views of a writable file, which are looked up in one generation.
        let shown = match entry.class {
            Class::MountedFile(_) if mirrored.made.is_none() => {
                self.newest(entry).ok().map(|(mounted, held)| {
                    let root = Arc::new(self.root_of(entry, &mounted, &held));
                    ListedDir {
                        parent: ViewDir { entry: entry.clone(), mounted, view: None },
                        held,
                        dir: root,
                    }
                })
            }
            _ => None,
        };
        let location = dir.as_ref().map(|_| &entry.position.location);
        let mut handout = Handout::new(take, location);
        let first = usize::try_from(from.saturating_sub(DOTS)).unwrap_or(usize::MAX);
        for (next, name) in (DOTS + 1..).zip(&*names).skip(first) {
            let found = match &dir {
                Some(dir) => match self.item_in(entry, dir, name, attrs) {
                    Err(error) if error.errno() == libc::EIO => {
                        self.unreadable_item(entry, dir, name, attrs).and_then(|item| item.ok_or(error))
                    }
                    found => found,
                },
                None => match shown.as_ref().filter(|_| is_reserved(&name.name)) {
                    Some(shown) => {
                        let kind = if is_file(&name.name) { FileKind::File } else { FileKind::Directory };
                        self.item_of_view(shown, &name.name, kind)
                    }
                    None => self.find(mirrored.ino(), &name.name).and_then(|found| {
                        let attr = self.attr_of_found(&found)?;
                        Ok((attr.ino, attr.kind, Some((attr, found.node))))
                    }),
                }
                .map(|(ino, kind, found)| (ino, kind, found.filter(|_| attrs))),
            };
            if !handout.pass(self, &name.name, next, found) {
                break;
            }
        }
        handout.end(DOTS + names.len() as u64, mirrored.unknown.clone())
    }

    /// Returns the result of [`Vfs::item_in`] for a local file whose first bytes can't be read, so that it does not
    /// end the listing; `None` for anything else. The kernel looks the name up, which gives the error.
    fn unreadable_item(
        &self,
        entry: &Arc<Entry>,
        dir: &OpenDir<'_>,
        name: &Name,
        attrs: bool,
    ) -> Result<Option<Looked>> {
        let known = entry.known_child(&name.name);
        let is_mounted_file = known.is_some_and(|known| matches!(known.class, Class::MountedFile(_)));
        let form = if is_mounted_file { EntryForm::MountedFile } else { EntryForm::File };
        let Some(seen) = self.detector.unread_file(dir, &name.name, form)? else { return Ok(None) };
        if attrs {
            return self.item_listed(entry, &name.name, seen, false).map(Some);
        }
        Ok(Some((Ino::UNKNOWN, seen.kind(), None)))
    }

    /// Returns inode number and type of a name in a mirrored directory; with `attrs` the result of a lookup.
    fn item_in(&self, entry: &Arc<Entry>, dir: &OpenDir<'_>, name: &Name, attrs: bool) -> Result<Looked> {
        if !attrs {
            let kind = self.detector.kind(dir, name)?;
            let name = &name.name;
            let known = entry.known_child(name);
            return Ok((known.map_or(Ino::UNKNOWN, |known| Ino::of(known.serial)), kind, None));
        }
        if let Some((seen, is_certain)) = self.detector.listed(dir, name) {
            return self.item_listed(entry, &name.name, seen, is_certain);
        }
        let name = &name.name;
        let seen = self.detector.detect(dir, name)?;
        let stat = seen.stat;
        let kind = seen.kind();
        let child = entry.child(name, seen, &self.serials)?;
        let ino = Ino::of(child.serial);
        let attr = match &child.class {
            // `stat` was read just now, so it is not read again.
            Class::File { .. } => self.ownership.mirrored(ino, &stat),
            Class::Directory { .. } | Class::Special { .. } => self.ownership.attr(ino, kind, 0, &stat),
            Class::MountedFile(overlay) => self.attr_of_mounted_file(ino, overlay, &stat),
            Class::Link { text, .. } => self.ownership.attr(ino, kind, text.len() as u64, &stat),
            Class::Sources { .. } | Class::Gallery { .. } | Class::GalleryPage(_) => {
                self.attr_of_entry(&child)?
            }
        };
        Ok((ino, kind, Some((attr, Inode::Entry(child)))))
    }
}

impl Vfs {
    /// Returns the result of [`Vfs::item_in`] for an entry whose first bytes were not read: one of a directory on
    /// a server, by the directory's listing, or one on a failing disk. If `is_certain` is false, some attributes
    /// are not known: the kernel then caches no attribute of the entry, and looks its name up.
    fn item_listed(
        &self,
        entry: &Arc<Entry>,
        name: &OsStr,
        seen: Detected,
        is_certain: bool,
    ) -> Result<Looked> {
        let mut stat = seen.stat;
        let kind = seen.kind();
        let known = if is_certain { None } else { entry.known_child(name) };
        let child = match known {
            Some(known) if matches!(known.class, Class::File { .. }) == (kind == FileKind::File) => known,
            _ => entry.child(name, seen, &self.serials)?,
        };
        let ino = Ino::of(child.serial);
        if let Class::File { first, .. } = &child.class {
            stat = **first;
        }
        let attr = match &child.class {
            Class::File { .. } => self.ownership.mirrored(ino, &stat),
            Class::MountedFile(overlay) => self.attr_of_mounted_file(ino, overlay, &stat),
            _ => self.ownership.attr(ino, kind, 0, &stat),
        };
        let attr = Attr { grows: attr.grows || !is_certain, ..attr };
        Ok((ino, kind, Some((attr, Inode::Entry(child)))))
    }
}

/// The state of a listing: the [`Take`] that gets the entries, and the result so far.
struct Handout<'a> {
    take: Take<'a>,
    /// True once an entry was taken.
    any: bool,
    /// Location of a mirrored directory.
    location: Option<&'a Location>,
    result: Result<()>,
    /// True once an entry was not taken.
    stopped: bool,
}

impl<'a> Handout<'a> {
    fn new(take: Take<'a>, location: Option<&'a Location>) -> Self {
        Self { take, any: false, location, result: Ok(()), stopped: false }
    }

    /// Returns `position`, the one after the last entry, if all entries were taken. If there are more that are not
    /// known, for the reason `unknown`, the next call begins there.
    fn end(self, position: u64, unknown: Option<Error>) -> Result<Option<u64>> {
        self.result?;
        match unknown.filter(|_| !self.stopped) {
            Some(error) if !self.any => Err(error),
            Some(_) => Ok(None),
            None => Ok((!self.stopped).then_some(position)),
        }
    }

    /// Passes one entry on, unless it vanished. Returns true if more entries can be taken.
    fn pass(&mut self, vfs: &Vfs, name: &OsStr, next: u64, found: Result<Looked>) -> bool {
        let (ino, kind, looked_up) = match found {
            Ok(found) => found,
            // The listing stops here. The next call starts with this entry, and may have enough memory or
            // descriptors, or a server that answers.
            Err(error) if error.is_shortage() || self.is_unanswered(&error) => {
                if !self.any {
                    self.result = Err(error);
                }
                self.stopped = true;
                return false;
            }
            Err(_) => return true,
        };
        let attr = looked_up.map(|(attr, node)| Attr { ino: vfs.remember(node), ..attr });
        let ino = attr.map_or(ino, |attr| attr.ino);
        if (self.take)(DirItem { name, next, ino, kind, attr }) {
            if attr.is_some() {
                vfs.forget(ino, 1);
            }
            self.stopped = true;
            return false;
        }
        self.any = true;
        true
    }

    /// True if a server failed, which says nothing about the entry.
    fn is_unanswered(&self, error: &Error) -> bool {
        let is_omitted = matches!(error.errno(), libc::EACCES | libc::ESTALE);
        !is_omitted && self.location.is_some_and(|location| !location.is_gone(error))
    }
}

fn kind_of(kind: folder::EntryKind) -> FileKind {
    match kind {
        folder::EntryKind::Dir => FileKind::Directory,
        folder::EntryKind::File => FileKind::File,
        folder::EntryKind::Link => FileKind::Link,
    }
}
