//! Detection of slow requests, so that no request thread waits for them.
//!
//! A file is parsed when a program first looks into its directory, and its blocks are searched for when they
//! are first listed. This takes seconds for a large tree, or for a tree that refers to other files. A file
//! system provided by a server or by another program may never answer.

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::mounted::file::MountedFile;
use crate::vfs::Vfs;
use crate::vfs::entry::{Class, Entry};
use crate::vfs::node::{Ino, Inode};
use crate::view::status::Writing;
use crate::view::{PAGE, TREE};
pub(crate) use asdf_access::local::mounts::Stalling;
use asdf_file::folder::Dir;

/// The subject of a request about a node.
#[derive(Clone, Copy, Debug)]
pub enum Asked<'a> {
    /// Reads or changes of the node's attributes or bytes.
    Itself,
    /// A name in the directory.
    Name(&'a OsStr),
    /// A handle of the directory.
    Opening,
    /// The directory's listing.
    Listing,
    /// Attributes derived from the directory's names.
    Derived,
}

/// The reason why a request is slow.
#[derive(Clone, Copy, Debug)]
pub struct Delay {
    /// Queue of the request. Requests of one queue are answered one at a time.
    pub file: u64,
    /// File system that must answer, if it may never do so.
    pub stalling: Option<Stalling>,
}

/// A file system on which saves wait together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileSystem {
    /// A file system that may never answer.
    Stalling(Stalling),
    /// The device of a local file system. It does not answer while it is frozen, such as for a snapshot.
    Local(u64),
    /// The file is gone, or is elsewhere.
    Unknown,
}

impl FileSystem {
    pub(super) fn of(entry: &Entry) -> Self {
        if let Some(stalling) = entry.position.stalling {
            return Self::Stalling(stalling);
        }
        let device = entry.position.location.stat().ok().and_then(|stat| stat.key.device());
        device.map_or(Self::Unknown, Self::Local)
    }
}

impl Vfs {
    /// Returns the reason why a request is slow; `None` if it is fast.
    pub fn delay(&self, ino: Ino, asked: Asked<'_>) -> Option<Delay> {
        let node = self.node(ino).ok()?;
        let entry = node.entry();
        if let Some(stalling) = entry.position.stalling {
            return Some(Delay { file: queue_of(entry, asked), stalling: Some(stalling) });
        }
        let mut path = Vec::new();
        let is_made_dir = matches!(&node, Inode::OverlayFile(_, overlay_file) if overlay_file.is_dir);
        let mounted = match (&node, &entry.class) {
            (Inode::View(_, mounted, view), _) => {
                path = view.path();
                if mounted.is_attached() { mounted.clone() } else { self.mounted(entry).ok()? }
            }
            (Inode::Entry(_), Class::Sources { .. } | Class::Directory { .. }) => {
                return delay_in_directory(entry, asked);
            }
            // The files of the directory are looked at.
            (Inode::Entry(_), Class::Gallery { .. } | Class::GalleryPage(_)) => {
                return Some(Delay { file: queue_of(entry, asked), stalling: None });
            }
            (Inode::Entry(_), Class::MountedFile(_)) if !matches!(asked, Asked::Itself) => {
                self.mounted(entry).ok()?
            }
            (Inode::Entry(_), _) => return None,
            (Inode::Tree(_) | Inode::OverlayFile(..), _) => {
                // A writable file itself needs none of the views, nor does a directory beside it.
                if is_made_dir || matches!(asked, Asked::Itself) {
                    path.push(OsStr::new(TREE));
                }
                self.mounted(entry).ok()?
            }
        };
        let name = match asked {
            _ if is_made_dir => path.pop(),
            // The entries of a directory are found when it is read.
            Asked::Itself | Asked::Opening => path.pop(),
            Asked::Name(name) => Some(name),
            Asked::Listing | Asked::Derived => None,
        };
        is_slow(&mounted, &path, name).then_some(Delay { file: mounted.serial, stalling: None })
    }

    /// Returns the file system on which a save of a node waits.
    pub fn file_system(&self, ino: Ino) -> FileSystem {
        self.node(ino).map_or(FileSystem::Unknown, |node| FileSystem::of(node.entry()))
    }

    /// Returns the stalling file system that holds a node.
    pub fn stalling(&self, ino: Ino) -> Option<Stalling> {
        self.node(ino).ok()?.entry().position.stalling
    }
}

/// Returns the queue of a request. Lookups of different names in a directory get different queues.
fn queue_of(entry: &Entry, asked: Asked<'_>) -> u64 {
    match asked {
        Asked::Name(name) if entry.children().is_some() => {
            let mut hasher = DefaultHasher::new();
            (entry.serial, name).hash(&mut hasher);
            hasher.finish()
        }
        _ => entry.serial,
    }
}

/// Returns the reason why a request about a mirrored directory, or about the root above
/// several sources, is slow.
fn delay_in_directory(entry: &Arc<Entry>, asked: Asked<'_>) -> Option<Delay> {
    let file = queue_of(entry, asked);
    match asked {
        // A listing may have many names, and links that must be followed.
        Asked::Opening | Asked::Listing => Some(Delay { file, stalling: None }),
        // The length of the gallery follows from the names of the files.
        Asked::Name(name) if name == PAGE => Some(Delay { file, stalling: stalling_at(entry, name) }),
        Asked::Name(name) => {
            stalling_at(entry, name).map(|stalling| Delay { file, stalling: Some(stalling) })
        }
        Asked::Itself | Asked::Derived => None,
    }
}

/// Returns the stalling file system that a lookup of a name has to ask.
fn stalling_at(entry: &Arc<Entry>, name: &OsStr) -> Option<Stalling> {
    if let Class::Sources { sources, .. } = &entry.class {
        return sources.iter().find(|(known, _)| known == name)?.1.stalling;
    }
    entry.position.location.open_dir().ok()?.stalling_at(name)
}

/// True if listing the directory at `path` under a mounted file, or looking `name` up there, takes long.
fn is_slow(mounted: &Arc<MountedFile>, path: &[&OsStr], name: Option<&OsStr>) -> bool {
    mounted.revalidate();
    match mounted.parsed() {
        Ok(Some(opened)) => {
            mounted.root(&opened, Writing::default).is_slow_below(path, name).unwrap_or_default()
        }
        Ok(None) => true,
        Err(_) => false,
    }
}
