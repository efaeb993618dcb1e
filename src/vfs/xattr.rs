//! Extended attributes: the facts of a block, and of a file, for `getfattr`.
//!
//! `user.asdf.verified` answers when asked for by name, and is in no list: checking a block reads all
//! of it, and `cp -a`, `rsync -X` and `getfattr -d` ask for whatever is listed.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

use crate::error::Result;
use crate::folder::mounted_file::MountedFile;
use crate::folder::snapshot::Snapshot;
use crate::format::Facts;
use crate::overlay::file::OverlayFile;
use crate::overlay::xattr;
use crate::vfs::Vfs;
use crate::vfs::entry::Class;
use crate::vfs::node::{Ino, Node, Part};

/// The attribute that has a block's checksum checked.
const VERIFIED: &str = "user.asdf.verified";
/// The daemon's process number, on the mount's root.
const PID: &str = "user.asdf-mount.pid";
/// Where the daemon says at its end what it has kept, on the mount's root.
const REPORT: &str = "user.asdf-mount.report";

/// The value of an attribute.
pub enum Xattr {
    /// It is at hand.
    Ready(Vec<u8>),
    /// It takes as long as reading a block does.
    Slow(Box<dyn FnOnce() -> Result<Vec<u8>> + Send>),
    /// There is no such attribute.
    Absent,
}

impl std::fmt::Debug for Xattr {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ready(value) => out.debug_tuple("Ready").field(value).finish(),
            Self::Slow(_) => out.write_str("Slow"),
            Self::Absent => out.write_str("Absent"),
        }
    }
}

/// The attributes of something that are at hand.
type List = Vec<(&'static str, String)>;

/// Those of a block.
fn of_block(facts: &Facts) -> List {
    vec![
        ("user.asdf.offset", facts.offset.to_string()),
        ("user.asdf.header_size", facts.header_size.to_string()),
        ("user.asdf.flags", facts.flags.to_string()),
        ("user.asdf.compression", facts.compression.clone()),
        ("user.asdf.allocated_size", facts.allocated_size.to_string()),
        ("user.asdf.used_size", facts.used_size.to_string()),
        ("user.asdf.data_size", facts.data_size.to_string()),
        ("user.asdf.checksum", facts.checksum.clone()),
    ]
}

/// Those of the folder of a file.
fn of_folder(opened: &Snapshot) -> List {
    let Ok(container) = &opened.container else { return Vec::new() };
    vec![("user.asdf.format", container.format().to_owned()), ("user.asdf.version", container.version())]
}

/// That of the mount's root.
fn of_root() -> (&'static str, String) {
    // Asked anew each time: the daemon may be a child of the process that made the tree.
    (PID, std::process::id().to_string())
}

/// The value of `name` in a list.
fn value(list: List, name: &OsStr) -> Xattr {
    let found = list.into_iter().find(|(known, _)| name == *known);
    found.map_or(Xattr::Absent, |(_, value)| Xattr::Ready(value.into_bytes()))
}

/// What `name` is for a block that has its checksum checked, if it is the name for that.
fn verified(name: &OsStr, mounted: &Arc<MountedFile>, n: u32) -> Option<Xattr> {
    let mounted = mounted.clone();
    let check = move || Ok(mounted.verify(n)?.word().as_bytes().to_vec());
    (name == VERIFIED).then(|| Xattr::Slow(Box::new(check)))
}

impl Vfs {
    /// The value of an extended attribute.
    pub fn xattr(&self, ino: Ino, name: &OsStr) -> Result<Xattr> {
        if let Some(overlay_file) = self.overlay_file_at_once(ino)? {
            return Ok(xattr::get(overlay_file.as_deref(), name)?.map_or(Xattr::Absent, Xattr::Ready));
        }
        if !name.as_bytes().starts_with(b"user.asdf") {
            return Ok(Xattr::Absent);
        }
        if name == REPORT && ino == Ino::ROOT {
            let state_dir = self.shared.as_ref().and_then(|shared| shared.state_dir.as_ref());
            let path = state_dir.map(|state_dir| state_dir.report_path().into_os_string().into_vec());
            return Ok(path.map_or(Xattr::Absent, Xattr::Ready));
        }
        if let (Node::MountedFile(_, mounted), Part::Block(n)) = self.node(ino)?
            && let Some(check) = verified(name, &mounted, n)
        {
            return Ok(check);
        }
        Ok(value(self.xattrs(ino)?, name))
    }

    /// The names of the extended attributes, each with a zero byte after it.
    pub fn xattr_names(&self, ino: Ino) -> Result<Vec<u8>> {
        if let Some(overlay_file) = self.overlay_file_at_once(ino)? {
            return Ok(overlay_file.as_deref().map_or_else(Vec::new, xattr::names));
        }
        let names = self.xattrs(ino)?.into_iter().map(|(name, _)| name);
        Ok(names.flat_map(|name| name.bytes().chain([0])).collect())
    }

    /// Sets or, without a value, removes an extended attribute, as on any file; they are held for as
    /// long as the mount. `exists` is what must hold of it before.
    pub fn set_xattr(
        &self,
        ino: Ino,
        name: &OsStr,
        value: Option<&[u8]>,
        exists: Option<bool>,
    ) -> Result<()> {
        let (_, overlay, overlay_file) = self.overlay_file_of(ino)?;
        overlay.set_xattr(&overlay_file, name, value, exists)
    }

    /// The overlay file of a file that can be written; an inner `None` where nobody has written to it.
    fn overlay_file_at_once(&self, ino: Ino) -> Result<Option<Option<Arc<OverlayFile>>>> {
        Ok(match self.node(ino)? {
            (Node::OverlayFile(_, overlay_file), _) => Some(Some(overlay_file)),
            (Node::Tree(entry), _) => {
                Some(entry.folder()?.used_overlay().map(|overlay| overlay.first()).transpose()?)
            }
            _ => None,
        })
    }

    fn xattrs(&self, ino: Ino) -> Result<List> {
        let mut list = match self.node(ino)? {
            (Node::MountedFile(_, mounted), Part::Block(n)) => {
                let _still = mounted.hold_still();
                mounted.look();
                of_block(&mounted.opened()?.block(n)?.facts)
            }
            (Node::Entry(entry), _) => match &entry.class {
                // The root has its own attribute also when its file is gone.
                Class::Folder(_) => match self.mounted(&entry).and_then(|mounted| mounted.opened()) {
                    Ok(opened) => of_folder(&opened),
                    Err(_) if ino == Ino::ROOT => Vec::new(),
                    Err(error) => return Err(error),
                },
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        if ino == Ino::ROOT {
            list.push(of_root());
        }
        Ok(list)
    }
}
