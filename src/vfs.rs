//! Inodes, lookups, attributes and open files of the mount, independent of fuser and of every format.
//!
//! A [`Vfs`] finds the node at a name, its attributes, and its contents. A single file is shown as the root
//! directory; a single directory is mirrored by the root; several sources are entries of the root. The module
//! decides which other module answers, and nothing else.
//!
//! - `node`: inode numbers, and which nodes the kernel knows
//! - `entry`: entries of mirrored directories
//! - `sources`, `lookup`: the root of the mount, and the node at a name
//! - `read_handle`, `listing`: open files and directories; `read_sizes`: how programs read
//! - `write`: changes by programs, passed to the overlay of the mounted file
//! - `attr`, `xattr`: the attributes of a node
//! - `remount`: switching between read-only and writable
//! - `slow`: requests that take long
//! - `kernel_cache`: bytes that the daemon stores into the kernel's cache, or asks the kernel to drop
//!
//! The kernel may cache an answer for [`TTL`]: a new, removed or changed file is seen within a second.

mod attr;
mod entry;
#[cfg(test)]
mod fake;
mod gallery;
mod kernel_cache;
mod listing;
mod lookup;
mod node;
mod read_handle;
mod read_sizes;
mod remount;
mod slow;
mod sources;
#[cfg(test)]
mod tests;
mod write;
mod xattr;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

pub(crate) use attr::{Attr, Ownership};
pub(crate) use kernel_cache::{Kernel, ReadBytes};
pub(crate) use listing::{DirHandle, DirItem};
pub(crate) use node::Ino;
pub(crate) use read_handle::{Caching, ReadHandle, Reading};
pub(crate) use slow::{Asked, Delay, FileSystem, Stalling};
pub(crate) use write::{NameIn, OpenFile, OverlayWriter};
pub(crate) use xattr::{GONE, Xattr, is_of_mount, may_be_xattr};

use lru::LruCache;
use seekable::error::{Kind, Result, errno};
use seekable::sync::locked;

use crate::mounted::file::MountedFile;
use crate::mounted::open_files::{OpenFiles, Opener};
use crate::mounted::serials::Serials;
use crate::overlay::file::{Backing, OverlayFile};
use crate::overlay::lazy::LazyOverlay;
use crate::overlay::paths::MAX_NAME;
use crate::overlay::{Overlay, SharedByOverlays};
use asdf_access::local::detect::{EntryPosition, FormatDetector};
use asdf_access::local::stat::{FileKind, Stat};
use asdf_access::options::{ShownViews, Verify};
use asdf_file::container::{Context, ReadAt};
use asdf_file::edit::context::EditContext;
use asdf_file::folder;
use asdf_file::history::History;
use entry::{Class, Entry};
use kernel_cache::KernelCache;
use lookup::{FoundNode, ViewContent};
use node::{Inode, KnownNodes, NodeState, ViewNode};
use read_handle::ViewFile;
use read_sizes::ReadSizes;

/// Time for which the kernel may cache a name or the attributes of a node.
pub(crate) const TTL: Duration = Duration::from_millis(500);

/// Options of a mount.
#[derive(Clone)]
pub struct Options {
    /// Mount point: an existing directory, or a path that does not exist yet.
    pub mountpoint: Option<PathBuf>,
    /// Owner and permissions of the nodes.
    pub ownership: Ownership,
    /// True if users other than the owner may read. Links that lead out of the source are then not followed.
    pub allow_other: bool,
    /// Callback that returns the format that recognises a file.
    pub recognise: fn(ReadAt<'_>) -> Result<Option<&'static str>>,
    /// Callback that opens files of known formats.
    pub opener: Opener,
    /// The setting of `-o verify=`: when the checksums of blocks are checked.
    pub verify: Verify,
    /// Views that a file's directory has.
    pub views: ShownViews,
    /// The texts that saves replaced, shown in `.asdf-mount/history/`.
    pub history: Option<Arc<History>>,
    /// State shared by the editors of the mount. `None` in a read-only mount.
    pub edits: Option<Arc<EditContext>>,
    /// Callback that returns memory to the system after many nodes were dropped.
    pub give_back: fn(),
}

impl std::fmt::Debug for Options {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = out.debug_struct("Options");
        out.field("mountpoint", &self.mountpoint).field("ownership", &self.ownership);
        out.field("allow_other", &self.allow_other).finish_non_exhaustive()
    }
}

impl Options {
    /// Returns the options for all built-in formats; their containers share `context`.
    pub fn new(context: Context) -> Self {
        Self {
            mountpoint: None,
            ownership: Ownership::default(),
            allow_other: false,
            recognise: asdf_views::format::recognise,
            opener: Arc::new(move |source| asdf_views::format::open(source, &context)),
            verify: Verify::default(),
            views: ShownViews::default(),
            history: None,
            edits: None,
            give_back: || {},
        }
    }
}

/// The nodes of a mount.
#[derive(Debug)]
pub struct Vfs {
    root: Arc<Entry>,
    ownership: Ownership,
    known: KnownNodes,
    serials: Arc<Serials>,
    detector: FormatDetector,
    open_files: Arc<OpenFiles>,
    kernel_cache: KernelCache,
    /// Which files and threads read in small pieces.
    read_sizes: Arc<ReadSizes>,
    /// State shared by the overlays; `None` in a mount that began read-only.
    shared: Option<Arc<SharedByOverlays>>,
    /// True while the mount is read-only by request, after it began writable.
    is_sealed: AtomicBool,
    /// Count of the remounts between read-only and writable, and the error of the last one.
    remounts: Mutex<(u64, Option<String>)>,
    /// True while the only source is known to be gone.
    is_gone: AtomicBool,
    began: SystemTime,
    give_back: fn(),
    /// Sources that can't be written although a writable mount was requested, and the reason.
    unwritable: Option<Arc<str>>,
    /// Reason why a file of a read-only format is not writable. Users expect this, so
    /// [`Vfs::remarks`] omits it.
    unchangeable: Option<Arc<str>>,
    /// Further remarks for the user, a line each.
    notices: Vec<String>,
    /// Entries with an overlay that was used for writing, the most recent last.
    written: Mutex<LruCache<u64, Arc<Entry>>>,
}

/// Space on the file system of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes of a file system block.
    pub block_size: u32,
    /// Blocks of the file system.
    pub blocks: u64,
    /// Blocks that programs may use.
    pub free: u64,
    /// Inodes of the file system.
    pub files: u64,
    /// Maximum length of a name, in bytes.
    pub name_max: u32,
}

impl Vfs {
    /// Looks `name` up in the directory `parent`. Counts one more lookup of its inode number. On a server, a name
    /// may be longer than [`MAX_NAME`].
    pub fn lookup(&self, parent: Ino, name: &OsStr) -> Result<Attr> {
        let found = match self.find(parent, name) {
            Err(error) if error.errno() == libc::ENOENT && name.len() > MAX_NAME => {
                return Err(errno(libc::ENAMETOOLONG));
            }
            found => found?,
        };
        let attr = self.attr_of_found(&found)?;
        Ok(Attr { ino: self.remember(found.node), ..attr })
    }

    /// Returns the inode number of a node and counts the lookup. If the kernel knows many nodes, asks it to
    /// drop older ones.
    fn remember(&self, node: Inode) -> Ino {
        let ino = self.known.remember(node);
        if self.kernel_cache.may_give_back()
            && let Some(surplus) = self.known.surplus()
        {
            self.kernel_cache.give_back(surplus);
        }
        ino
    }

    /// Subtracts `count` lookups of an inode number.
    pub fn forget(&self, ino: Ino, count: u64) {
        if ino.serial() != 0 && self.known.forget(ino.serial(), count) {
            (self.give_back)();
        }
    }

    /// Returns the attributes of a node.
    pub fn attr(&self, ino: Ino) -> Result<Attr> {
        self.attr_of(&self.node(ino)?)
    }

    /// Returns the target of a symbolic link.
    pub fn read_link(&self, ino: Ino) -> Result<OsString> {
        match self.node(ino)? {
            Inode::Entry(entry) => match &entry.class {
                Class::Link { text, .. } => Ok(text.clone()),
                _ => Err(errno(libc::EINVAL)),
            },
            Inode::OverlayFile(_, overlay_file) => match &locked(&overlay_file.body).backing {
                Backing::Link(text) => Ok(text.clone()),
                _ => Err(errno(libc::EINVAL)),
            },
            Inode::View(entry, mounted, view) => match self.shown(&entry, &mounted, &view)?.what {
                folder::Node::Link(text) => Ok(text),
                _ => Err(errno(libc::EINVAL)),
            },
            Inode::Tree(_) => Err(errno(libc::EINVAL)),
        }
    }

    /// Opens a read-only file.
    pub fn open(&self, ino: Ino) -> Result<ReadHandle> {
        match self.node(ino)? {
            Inode::Entry(entry) => match &entry.class {
                Class::GalleryPage(page) => {
                    let content = Arc::new(self.gallery_page(&entry, *page)?);
                    Ok(ReadHandle::generated(content, ino, &self.read_sizes))
                }
                _ => ReadHandle::of_entry(&entry, &self.read_sizes),
            },
            Inode::View(entry, mounted, view) => {
                let found = self.shown(&entry, &mounted, &view).inspect_err(|error| {
                    mounted.report(error);
                })?;
                match found.what {
                    folder::Node::File(file) => {
                        let kernel_cache = self.kernel_cache.clone();
                        let opened = ViewFile { mounted, view, kernel_cache };
                        ReadHandle::of_view(opened, found.held, file, &self.read_sizes)
                    }
                    folder::Node::Dir(_) => Err(errno(libc::EISDIR)),
                    folder::Node::Link(_) => Err(errno(libc::EINVAL)),
                }
            }
            Inode::OverlayFile(..) | Inode::Tree(_) => Err(errno(libc::EINVAL)),
        }
    }

    /// Sets the kernel that is notified about cached bytes and nodes.
    pub fn serve(&self, kernel: impl Kernel + 'static) {
        self.kernel_cache.of(Box::new(kernel));
    }

    /// Returns the space on the file system of the mount's first source.
    pub fn space(&self) -> Result<Space> {
        let stat = self.root.position.location.file_system()?;
        Ok(Space {
            block_size: u32::try_from(stat.f_frsize).unwrap_or(4096),
            blocks: stat.f_blocks,
            free: stat.f_bavail,
            files: stat.f_files,
            name_max: u32::try_from(stat.f_namemax).unwrap_or(255),
        })
    }

    fn node(&self, ino: Ino) -> Result<Inode> {
        self.known.get(ino).ok_or_else(|| errno(libc::ESTALE))
    }

    fn mounted(&self, entry: &Entry) -> Result<Arc<MountedFile>> {
        entry.lazy_overlay()?.current.mounted(&entry.position.location, &self.serials, &self.open_files)
    }

    fn attr_of(&self, node: &Inode) -> Result<Attr> {
        match node {
            Inode::Entry(entry) => self.attr_of_entry(entry),
            Inode::Tree(entry) => self.attr_of_tree(entry),
            Inode::View(entry, mounted, view) => self.attr_of_known_view(entry, mounted, view),
            Inode::OverlayFile(entry, overlay_file) => self.attr_of_overlay_file(
                entry,
                &*entry.lazy_overlay()?.overlay_of(overlay_file)?,
                overlay_file,
            ),
        }
    }

    fn attr_of_found(&self, found: &FoundNode) -> Result<Attr> {
        match (&found.node, &found.shown) {
            (Inode::View(_, mounted, view), Some(shown)) => self.attr_of_view(view, mounted, shown),
            (node, _) => self.attr_of(node),
        }
    }

    /// Returns the attributes of an entry in the directory of a mounted file.
    pub(crate) fn attr_of_view(
        &self,
        view: &ViewNode,
        mounted: &MountedFile,
        shown: &ViewContent,
    ) -> Result<Attr> {
        if let folder::Node::File(file) = &shown.what
            && file.content.is_err()
            && shown.held.is_stale()
        {
            // The content can't be read, perhaps because the source has changed. Size 0 would then be wrong.
            return Err(errno(libc::ESTALE));
        }
        let state = view.shown().unwrap_or_else(|| NodeState::new(&shown.held, &shown.what));
        let grows = matches!(&shown.what, folder::Node::File(file) if file.grows);
        Ok(Attr { grows, ..self.attr_of_state(view, mounted, &state) })
    }

    /// Returns the attributes of a node by its number. While a file's generation exists, these are the
    /// attributes that the kernel was given before.
    fn attr_of_known_view(
        &self,
        entry: &Arc<Entry>,
        mounted: &Arc<MountedFile>,
        view: &ViewNode,
    ) -> Result<Attr> {
        if let Some(state) = view.shown().filter(|state| state.is_fixed() && state.is_alive()) {
            return Ok(self.attr_of_state(view, mounted, &state));
        }
        self.shown(entry, mounted, view).and_then(|shown| self.attr_of_view(view, mounted, &shown))
    }

    fn attr_of_state(&self, view: &ViewNode, mounted: &MountedFile, state: &NodeState) -> Attr {
        let kind = match state.kind {
            folder::EntryKind::Dir => FileKind::Directory,
            folder::EntryKind::Link => FileKind::Link,
            folder::EntryKind::File => FileKind::File,
        };
        let attr = self.ownership.attr(Ino::of(view.serial), kind, state.size, &mounted.revalidate().stat);
        Attr { mtime: state.mtime, ..attr }
    }

    /// True if files in a directory can be written.
    fn is_writable(&self, entry: &Entry) -> Result<bool> {
        match (&entry.class, &self.shared) {
            (Class::MountedFile(overlay), Some(shared)) if !self.is_read_only() => {
                match overlay.is_writable(&entry.position, shared) {
                    Err(error) if !matches!(error.kind(), Kind::System(_) | Kind::Changed) => Ok(false),
                    is_writable => is_writable,
                }
            }
            _ => Ok(false),
        }
    }

    /// Returns the overlay of a mounted file; `None` if it can't be written.
    fn overlay(&self, entry: &Entry) -> Result<Option<Arc<Overlay>>> {
        match (&entry.class, &self.shared) {
            (Class::MountedFile(overlay), Some(shared)) => overlay.overlay(&entry.position, shared),
            _ => Ok(None),
        }
    }

    /// Returns the attributes of a mounted file's directory; `stat` is the file's stat.
    fn attr_of_mounted_file(&self, ino: Ino, overlay: &LazyOverlay, stat: &Stat) -> Attr {
        let attr = match self.shared {
            Some(_) => self.ownership.writable(ino, FileKind::Directory, 0, stat),
            None => self.ownership.attr(ino, FileKind::Directory, 0, stat),
        };
        match overlay.used_overlay().and_then(|overlay| overlay.changed()) {
            Some(time) => Attr { mtime: time.max(attr.mtime), ctime: time.max(attr.ctime), ..attr },
            None => attr,
        }
    }

    fn attr_of_entry(&self, entry: &Entry) -> Result<Attr> {
        let ino = Ino::of(entry.serial);
        let own = |kind, size, stat: &Stat| self.ownership.attr(ino, kind, size, stat);
        Ok(match &entry.class {
            Class::Sources { sources, stat, .. } => {
                Attr { nlink: 2 + sources.len() as u32, ..own(FileKind::Directory, 0, stat) }
            }
            Class::MountedFile(overlay) => {
                // Until a program looks into the file, its attributes come from the listing of its directory.
                if overlay.current.last_seen().is_none()
                    && let Some((stat, _)) = entry.position.location.listed()
                    && stat.source.mtime != (0, 0)
                {
                    return Ok(self.attr_of_mounted_file(ino, overlay, &stat));
                }
                let stat = match self.mounted(entry) {
                    Ok(mounted) => {
                        self.note_gone(entry, false);
                        mounted.revalidate().stat
                    }
                    // The root of the mount needs attributes even after its file is gone.
                    Err(error) if entry.serial == 0 => {
                        self.note_gone(entry, error.errno() == libc::ENOENT);
                        entry.position.location.stat_without_file()?
                    }
                    Err(error) => return Err(error),
                };
                self.attr_of_mounted_file(ino, overlay, &stat)
            }
            Class::Directory { key, .. } => {
                if entry.serial == 0 {
                    self.note_gone(entry, entry.position.location.is_removed_directory());
                }
                own(FileKind::Directory, 0, &entry::stat_entry(entry, *key)?)
            }
            Class::File { first, .. } => self.ownership.mirrored(ino, &entry::stat_entry(entry, first.key)?),
            Class::Link { key, text } => {
                own(FileKind::Link, text.len() as u64, &entry::stat_entry(entry, *key)?)
            }
            Class::Gallery { .. } | Class::GalleryPage(_) => self.attr_of_gallery(entry)?,
            Class::Special { key, kind } => own(*kind, 0, &entry::stat_entry(entry, *key)?),
        })
    }

    /// Logs that the only source is gone, or is back.
    fn note_gone(&self, entry: &Entry, is_gone: bool) {
        if entry.serial != 0 || self.is_gone.swap(is_gone, Ordering::Relaxed) == is_gone {
            return;
        }
        let label = entry.position.location.label();
        if is_gone && matches!(entry.class, Class::Directory { .. }) {
            tracing::warn!("{}: is gone; mount it again once it is back", label.display());
        } else if is_gone {
            tracing::warn!("{}: is gone; the mount shows it again once it is back", label.display());
        } else {
            tracing::info!("{}: is back", label.display());
        }
    }

    /// Returns the sources that are gone, a line each.
    fn gone(&self) -> String {
        let is_gone = |position: &EntryPosition| {
            position.location.is_removed_directory()
                || position.location.stat().is_err_and(|error| error.errno() == libc::ENOENT)
        };
        let positions = match &self.root.class {
            Class::Sources { sources, .. } => sources.iter().map(|(_, position)| position).collect(),
            _ => vec![&self.root.position],
        };
        let gone = positions.into_iter().filter(|position| is_gone(position));
        let lines: Vec<_> = gone.map(|position| position.location.label().display().to_string()).collect();
        lines.join("\n")
    }

    /// Returns the attributes of an overlay file.
    fn attr_of_overlay_file(
        &self,
        entry: &Entry,
        overlay: &Overlay,
        overlay_file: &Arc<OverlayFile>,
    ) -> Result<Attr> {
        let stat = overlay.stat_of(overlay_file)?;
        let ino = overlay_file.serial.map_or(Ino::of_tree_in(entry.serial), Ino::of);
        let attr = self.ownership.writable(ino, stat.kind, stat.size, &stat.source);
        Ok(Attr {
            mode: stat.mode.map_or(attr.mode, |mode| (mode & 0o7777) as u16),
            uid: stat.uid.unwrap_or(attr.uid),
            gid: stat.gid.unwrap_or(attr.gid),
            nlink: stat.nlink,
            atime: stat.atime,
            mtime: stat.mtime,
            ctime: stat.ctime,
            ..attr
        })
    }

    /// Returns the attributes of a writable `tree.yaml` under the inode number that it
    /// has before the first write.
    fn attr_of_tree(&self, entry: &Entry) -> Result<Attr> {
        if let Some(overlay) = entry.lazy_overlay()?.used_overlay() {
            return self.attr_of_overlay_file(entry, &overlay, &overlay.first()?);
        }
        let (mounted, held) = self.newest(entry)?;
        let stat = mounted.revalidate().stat;
        let size = held.container()?.tree().len();
        Ok(self.ownership.writable(Ino::of_tree_in(entry.serial), FileKind::File, size, &stat))
    }
}
