//! The mount's nodes, as neutral of the kernel's interface as of any format.
//!
//! A [`Tree`] answers what a file system is asked: which node is at a name, what is it, what is in it.
//! One file as a source makes the root that file's folder; one directory is mirrored by the root;
//! several sources stand side by side in it, each under its own name.
//!
//! - `node`: numbers of nodes, and which of them the kernel knows
//! - `spot`, `link`: how a source is reached, and where its symbolic links lead
//! - `mirror`: entries of mirrored directories
//! - `sources`, `names`: what the root is, and which node is at a name
//! - `folder`: the folder that stands for a file: `tree.yaml`, `blocks/`, `.asdf-mount/`
//! - `volume`: the lives of the file behind it; `shelf`: files that were parsed, and are kept open
//! - `open`, `listing`: open files and directories
//! - `attr`, `acl`, `xattr`: what is said of a node
//! - `pages`: what the kernel is given to keep of blocks, or told to forget
//! - `verify`: when the checksum of a block is checked, and what comes of it
//! - `desk`, `sheet`, `naming`, `write`, `pen`: what is written in the folder of a file
//! - `draft`, `seams`, `written`, `refused`: which text of it is tried as a save, and what comes of it
//! - `saver`: who makes a save of a text; `savers`: the sessions that do
//! - `haven`: the state directory; `beside`: which files made beside `tree.yaml` are kept there
//!
//! Nothing here caches what a source is for longer than [`TTL`] allows the kernel to: a file that
//! comes, goes or changes is seen within a second.

mod acl;
mod attr;
mod beside;
mod desk;
mod draft;
#[cfg(test)]
mod fake;
mod folder;
mod haven;
mod link;
mod listing;
mod mirror;
mod names;
mod naming;
mod node;
mod open;
mod pages;
mod pen;
mod refused;
pub mod saver;
pub mod savers;
mod seams;
mod sheet;
mod shelf;
mod sources;
mod spot;
#[cfg(test)]
mod tests;
mod verify;
mod volume;
mod write;
mod written;
mod xattr;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use attr::{Attr, Kind, Ownership, Time};
pub use haven::Haven;
pub use listing::{Item, Listing};
pub use naming::{Maker, Renaming};
pub use node::Ino;
pub use open::{Caching, Reader};
pub use pages::{Given, Kernel};
pub use pen::{Caller, Pen};
pub use verify::Verify;
pub use write::{Change, Moment, OpenFor, Opened};
pub use xattr::Xattr;

use lru::LruCache;

use crate::error::{Error, Result};
use crate::format::{Container, Context};
use crate::source::Source;
use attr::Stat;
use desk::{Desk, Room};
use mirror::{Class, Entry, Scout};
use node::{Known, Node, Part, Serials};
use sheet::{MOST_BYTES, Paper};
use shelf::Shelf;
use volume::Volume;

/// How long the kernel may believe what it was told of a name or a node.
pub const TTL: Duration = Duration::from_millis(500);

/// Opens a source in whatever format it is.
pub type Opener = Arc<dyn Fn(Arc<dyn Source>) -> Result<Arc<dyn Container>> + Send + Sync>;

/// How a tree is to be made.
#[derive(Clone)]
pub struct Options {
    /// Where it will be mounted: a directory that exists, or nothing yet.
    pub mountpoint: Option<PathBuf>,
    /// Whose the nodes are.
    pub ownership: Ownership,
    /// Whether others than the owner may look; links that lead outside are then not followed.
    pub allow_other: bool,
    /// Tells from a file's first bytes whether a format knows it.
    pub recognise: fn(&[u8]) -> Option<&'static str>,
    /// Opens such files.
    pub opener: Opener,
    /// When the checksums of blocks are checked.
    pub verify: Verify,
    /// Makes saves; without it nothing can be written.
    pub savers: Option<Arc<dyn saver::Savers>>,
    /// Gives memory back to the system, when many nodes were dropped.
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
    /// For all formats that are built in, with what their containers share.
    pub fn new(context: Context) -> Self {
        Self {
            mountpoint: None,
            ownership: Ownership::default(),
            allow_other: false,
            recognise: crate::format::recognise,
            opener: Arc::new(move |source| crate::format::open(source, &context)),
            verify: Verify::default(),
            savers: None,
            give_back: || {},
        }
    }
}

/// The nodes of a mount.
#[derive(Debug)]
pub struct Tree {
    root: Arc<Entry>,
    ownership: Ownership,
    known: Known,
    serials: Arc<Serials>,
    scout: Scout,
    shelf: Arc<Shelf>,
    /// What is needed for writing; none in a read-only mount.
    room: Option<Arc<Room>>,
    give_back: fn(),
    /// What can't be written although it was asked for, and why.
    unwritable: Option<String>,
    /// What else the caller should know, a line each.
    notices: Vec<String>,
    /// The folders in which something was written, those written last at the end.
    written: Mutex<LruCache<u32, Arc<Entry>>>,
}

/// The space of the file system that a node comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks that scratch files may take; where nothing can be written, those of the source's file system.
    pub blocks: u64,
    /// Blocks of these that are free.
    pub free: u64,
    /// Nodes in all.
    pub files: u64,
    /// Longest name, in bytes.
    pub name_max: u32,
}

impl Tree {
    /// Looks `name` up in the directory `parent`; its number is handed out once more with that.
    pub fn lookup(&self, parent: Ino, name: &OsStr) -> Result<Attr> {
        let (node, part) = self.find(parent, name)?;
        let attr = self.attr_of(&node, part)?;
        self.known.remember(node);
        Ok(attr)
    }

    /// Takes back a number that was handed out `count` times.
    pub fn forget(&self, ino: Ino, count: u64) {
        if ino.serial() != 0 && self.known.forget(ino.serial(), count) {
            (self.give_back)();
        }
    }

    /// What is said of a node.
    pub fn attr(&self, ino: Ino) -> Result<Attr> {
        let (node, part) = self.node(ino)?;
        self.attr_of(&node, part)
    }

    /// The text of a symbolic link.
    pub fn read_link(&self, ino: Ino) -> Result<OsString> {
        match self.node(ino)? {
            (Node::Entry(entry), _) => match &entry.class {
                Class::Link { text, .. } => Ok(text.clone()),
                _ => Err(errno(libc::EINVAL)),
            },
            (Node::Sheet(_, sheet), _) => match &locked(&sheet.body).paper {
                Paper::Link(text) => Ok(text.clone()),
                _ => Err(errno(libc::EINVAL)),
            },
            _ => Err(errno(libc::EINVAL)),
        }
    }

    /// Opens a file for reading that can't be written.
    pub fn open(&self, ino: Ino) -> Result<Reader> {
        match self.node(ino)? {
            (Node::Entry(entry), _) => Reader::of_entry(&entry),
            (Node::Volume(entry, volume), part) => {
                let writing = || self.writing(&entry, &volume);
                Reader::of_part(volume.clone(), part, writing)
            }
            (Node::Sheet(..) | Node::Tree(_), _) => Err(errno(libc::EINVAL)),
        }
    }

    /// Says who is to be told of the bytes of nodes.
    pub fn serve(&self, kernel: impl Kernel + 'static) {
        self.shelf.pages.of(Box::new(kernel));
    }

    /// The space of the file system that the mount's first source lies on.
    pub fn space(&self) -> Result<Space> {
        let stat = rustix::fs::fstatvfs(self.root.place.spot.origin().fd())?;
        let size = stat.f_frsize.max(1);
        // As full as its scratch files make it; one that has none is empty.
        let scratch = self.room.as_ref().map(|room| (MOST_BYTES / size, room.budget.free() / size));
        let (blocks, free) = scratch.unwrap_or((stat.f_blocks, stat.f_blocks));
        Ok(Space {
            block_size: u32::try_from(stat.f_frsize).unwrap_or(4096),
            blocks,
            free,
            files: stat.f_files,
            name_max: u32::try_from(stat.f_namemax).unwrap_or(255),
        })
    }

    fn node(&self, ino: Ino) -> Result<(Node, Part)> {
        let part = ino.part().ok_or_else(|| errno(libc::ESTALE))?;
        match (self.known.get(ino.serial()), part) {
            (Some(node @ (Node::Entry(_) | Node::Sheet(..))), Part::Whole) => Ok((node, part)),
            (Some(Node::Entry(entry)), Part::Tree) if matches!(entry.class, Class::Folder(_)) => {
                Ok((Node::Tree(entry), part))
            }
            (Some(node @ Node::Volume(..)), part) if part != Part::Whole => Ok((node, part)),
            _ => Err(errno(libc::ESTALE)),
        }
    }

    fn volume(&self, entry: &Entry) -> Result<Arc<Volume>> {
        entry.folder()?.volume(&entry.place, &self.serials, &self.shelf)
    }

    fn attr_of(&self, node: &Node, part: Part) -> Result<Attr> {
        match node {
            Node::Entry(entry) => self.attr_of_entry(entry),
            Node::Tree(entry) => self.attr_of_tree(entry),
            Node::Volume(entry, volume) => self.attr_of_part(entry, volume, part),
            Node::Sheet(entry, sheet) => entry.folder()?.desk_of(sheet)?.attr(sheet),
        }
    }

    /// Whether something can be written in a directory.
    fn is_writable(&self, entry: &Entry) -> Result<bool> {
        match (&entry.class, &self.room) {
            (Class::Folder(folder), Some(room)) => folder.can_be_written(&entry.place, room),
            _ => Ok(false),
        }
    }

    /// What is written in a folder; `None` where nothing can be.
    fn desk(&self, entry: &Entry) -> Result<Option<Arc<Desk>>> {
        let tree = Ino::new(entry.serial, Part::Tree);
        match (&entry.class, &self.room) {
            (Class::Folder(folder), Some(room)) => folder.desk(&entry.place, room, tree),
            _ => Ok(None),
        }
    }

    /// What is said of the folder of a file with `stat`.
    fn own_folder(&self, ino: Ino, stat: &Stat) -> Attr {
        match self.room {
            Some(_) => self.ownership.writable(ino, Kind::Directory, 0, stat),
            None => self.ownership.attr(ino, Kind::Directory, 0, stat),
        }
    }

    fn attr_of_entry(&self, entry: &Entry) -> Result<Attr> {
        let ino = Ino::new(entry.serial, Part::Whole);
        let own = |kind, size, stat: &Stat| self.ownership.attr(ino, kind, size, stat);
        Ok(match &entry.class {
            Class::Sources { sources, stat, .. } => {
                Attr { nlink: 2 + sources.len() as u32, ..own(Kind::Directory, 0, stat) }
            }
            Class::Folder(folder) => {
                let look = match self.volume(entry) {
                    Ok(volume) => volume.look().stat,
                    // The root stays when its file is gone: it is where the mount is.
                    Err(_) if entry.serial == 0 => entry.place.spot.origin().stat()?,
                    Err(error) => return Err(error),
                };
                let attr = Attr { nlink: 4, ..self.own_folder(ino, &look) };
                match folder.used_desk().and_then(|desk| desk.changed()) {
                    Some(time) => Attr { mtime: time.max(attr.mtime), ctime: time.max(attr.ctime), ..attr },
                    None => attr,
                }
            }
            Class::Directory { key, .. } => own(Kind::Directory, 0, &mirror::stat_entry(entry, *key)?),
            Class::File { first, .. } => {
                let stat = mirror::stat_entry(entry, first.key())?;
                own(Kind::File, stat.identity.size, &stat)
            }
            Class::Link { key, text } => {
                own(Kind::Link, text.len() as u64, &mirror::stat_entry(entry, *key)?)
            }
            Class::Special { key, kind } => own(*kind, 0, &mirror::stat_entry(entry, *key)?),
        })
    }

    /// What is said of a `tree.yaml` that can be written, by its first number.
    fn attr_of_tree(&self, entry: &Entry) -> Result<Attr> {
        if let Some(desk) = entry.folder()?.used_desk() {
            return desk.attr(&desk.first()?);
        }
        let volume = self.volume(entry)?;
        let stat = volume.look().stat;
        let size = volume.opened()?.container()?.tree().len();
        Ok(self.ownership.writable(Ino::new(entry.serial, Part::Tree), Kind::File, size, &stat))
    }

    fn attr_of_part(&self, entry: &Entry, volume: &Arc<Volume>, part: Part) -> Result<Attr> {
        let _still = matches!(part, Part::Table | Part::Block(_)).then(|| volume.hold_still());
        volume.look();
        let opened = volume.opened()?;
        let mut grows = false;
        let (kind, size) = match part {
            Part::Blocks | Part::About | Part::Whole => (Kind::Directory, 0),
            Part::Tree => (Kind::File, opened.container()?.tree().len()),
            Part::Status => {
                let writing = self.writing(entry, volume);
                (Kind::File, crate::content::Content::len(&volume.status(&opened, &writing)))
            }
            Part::Table => (Kind::File, crate::view::blocks::size(opened.container()?.block_count()?)),
            Part::Block(n) => {
                let block = opened.block(n)?;
                if block.content.is_err() && opened.is_outlived() {
                    // What can't be read may be there no more: that is no reason to say that it is empty.
                    return Err(errno(libc::ESTALE));
                }
                grows = block.streamed;
                // No file is longer: the kernel would refuse all of the attributes.
                let claimed = block.facts.data_size.min(i64::MAX as u64);
                (Kind::File, block.content.map_or(claimed, |content| content.len()))
            }
        };
        let attr = self.ownership.attr(Ino::new(volume.serial, part), kind, size, &volume.look().stat);
        Ok(if kind == Kind::Directory { Attr { nlink: 2, ..attr } } else { Attr { grows, ..attr } })
    }
}

fn errno(errno: i32) -> Error {
    Error::from(std::io::Error::from_raw_os_error(errno))
}

/// Locks; what a thread left behind that panicked is as good as any other state here.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
