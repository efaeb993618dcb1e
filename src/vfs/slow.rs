//! Which requests take long, so that no thread that answers the kernel waits for them.
//!
//! A file is parsed when a program first looks into its folder, and its blocks are looked for when they are
//! first listed. That may take seconds for a large file, or for one on a server.

use std::ffi::OsStr;

use crate::content::folder;
use crate::folder::mounted_file::{Look, MountedFile};
use crate::vfs::Vfs;
use crate::vfs::entry::Class;
use crate::vfs::node::{Ino, Node};
use crate::view::status::Writing;

/// A file of at most so many bytes is parsed and looked through in a moment.
const SMALL: u64 = 256 << 10;

/// What a request asks of a node.
#[derive(Clone, Copy, Debug)]
pub enum Asked<'a> {
    /// Its attributes or its bytes.
    Itself,
    /// One of its names.
    Name(&'a OsStr),
    /// All of its names, or what is derived from them.
    Names,
}

impl Vfs {
    /// The file for which an answer has to wait: its serial number. `None` if the answer is at hand.
    pub fn waits_for(&self, ino: Ino, asked: Asked<'_>) -> Option<u64> {
        let (mounted, view) = match (self.node(ino).ok()?, asked) {
            (Node::View(_, mounted, view), _) => (mounted, Some(view)),
            (Node::Entry(entry), Asked::Name(_) | Asked::Names)
                if matches!(entry.class, Class::Folder(_)) =>
            {
                (self.mounted(&entry).ok()?, None)
            }
            (Node::Tree(entry) | Node::OverlayFile(entry, _), _) => (self.mounted(&entry).ok()?, None),
            (Node::Entry(_), _) => return None,
        };
        let mut path = view.as_ref().map_or_else(Vec::new, |view| view.path());
        let name = match asked {
            Asked::Itself => path.pop(),
            Asked::Name(name) => Some(name),
            Asked::Names => None,
        };
        is_slow(&mounted, &mounted.look(), &path, name).then_some(mounted.serial)
    }
}

/// Whether a lookup of `name`, or a listing, in the folder at `path` in the folder of a file takes long.
fn is_slow(
    mounted: &std::sync::Arc<MountedFile>,
    look: &Look,
    path: &[&OsStr],
    name: Option<&OsStr>,
) -> bool {
    if look.stat.source.size <= SMALL {
        return false;
    }
    match mounted.parsed() {
        Ok(Some(opened)) => {
            folder::is_slow(&mounted.root(&opened, Writing::default), path, name).unwrap_or_default()
        }
        Ok(None) => true,
        Err(_) => false,
    }
}
