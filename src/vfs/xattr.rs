//! Extended attributes: properties of a block or file, for `getfattr`.
//!
//! `user.FORMAT.verified` is returned when asked for by name, but never listed: checking a block reads all of
//! it, and `cp -a`, `rsync -X` and `getfattr -d` ask for every listed attribute.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

use asdf_file::container::Verified;
use asdf_file::folder::{self, Attributes};
use asdf_views::format::endings::by_ending;
use seekable::error::{Result, errno};

use crate::mounted::file::MountedFile;
use crate::mounted::generation::Parsed;
use crate::overlay::file::OverlayFile;
use crate::overlay::xattr::{self, XattrCondition};
use crate::vfs::Vfs;
use crate::vfs::entry::Class;
use crate::vfs::node::{Ino, Inode};

/// Last part of the name of the attribute that checks a block's checksum.
const VERIFIED: &str = "verified";
/// The daemon's process ID, an attribute of the mount's root.
const PID: &str = "user.asdf-mount.pid";
/// Path of the report that the daemon writes when it ends, an attribute of the mount's root.
const REPORT: &str = "user.asdf-mount.report";

/// Data that would be lost if the mount ended now, an attribute of the mount's root.
const UNKEPT: &str = "user.asdf-mount.unkept";
/// `ro` or `rw`, an attribute of the mount's root.
const MODE: &str = "user.asdf-mount.mode";
/// The time at which the mount began, an attribute of its root.
const SINCE: &str = "user.asdf-mount.since";
/// The count and the outcome of remounts, an attribute of the mount's root.
const REMOUNTS: &str = "user.asdf-mount.remounts";
/// The sources that are gone, an attribute of the mount's root. It exists only while one is gone.
pub(crate) const GONE: &str = "user.asdf-mount.gone";
/// Maximum length of [`UNKEPT`] in bytes.
const MAX_UNKEPT: usize = 60 << 10;

/// The value of an attribute.
pub enum Xattr {
    /// A value in memory.
    Ready(Vec<u8>),
    /// A value that takes as long as reading a block.
    Slow(Box<dyn FnOnce() -> Result<Vec<u8>> + Send>),
    /// No attribute of this name.
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

/// True if a node may have an attribute of this name. For other names the answer is EOPNOTSUPP.
///
/// After EOPNOTSUPP, `ls -l` asks no further node for an ACL. ENODATA would mean that a node has no ACL yet;
/// a program might then set one and leave the mode unchanged.
pub(crate) fn may_be_xattr(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"user.")
}

/// True for an attribute of the mount itself, which is known at once, without any source.
pub(crate) fn is_of_mount(name: &OsStr) -> bool {
    [PID, MODE, SINCE, REMOUNTS].iter().any(|known| name == *known)
}

/// Returns the attributes of a mounted file's directory.
fn of_mounted_file(opened: &Parsed) -> Attributes {
    let Ok(container) = &opened.container else { return Vec::new() };
    container.attributes()
}

/// Returns the attribute with the daemon's process ID, which the mount's root has.
fn of_root() -> (&'static str, String) {
    // The ID is read anew each time: the daemon may be a child of the process that created the `Vfs`.
    (PID, std::process::id().to_string())
}

/// Returns the value of `name` in a list.
fn value(list: Attributes, name: &OsStr) -> Xattr {
    let found = list.into_iter().find(|(known, _)| name == *known);
    found.map_or(Xattr::Absent, |(_, value)| Xattr::Ready(value.into_bytes()))
}

/// Returns a value that checks the blocks of a file when it is read. It is `mismatch` if a block is damaged;
/// else it is the result for the last block.
fn verified(mounted: Arc<MountedFile>, blocks: Vec<usize>) -> Xattr {
    Xattr::Slow(Box::new(move || {
        let mut found = Verified::None;
        for n in blocks {
            found = mounted.verify(n)?;
            if found == Verified::Mismatch {
                break;
            }
        }
        Ok(found.word().as_bytes().to_vec())
    }))
}

impl Vfs {
    /// Returns the value of an extended attribute.
    pub fn xattr(&self, ino: Ino, name: &OsStr) -> Result<Xattr> {
        if !may_be_xattr(name) {
            return Err(errno(libc::EOPNOTSUPP));
        }
        if let Some(overlay_file) = self.overlay_file_at_once(ino)? {
            let value = overlay_file.and_then(|overlay_file| xattr::get(&overlay_file, name));
            return Ok(value.map_or(Xattr::Absent, Xattr::Ready));
        }
        if ino == Ino::ROOT
            && let Some(value) = self.xattr_of_mount(name)
        {
            return Ok(Xattr::Ready(value.into_bytes()));
        }
        if name == REPORT && ino == Ino::ROOT {
            let state_dir = self.shared.as_ref().and_then(|shared| shared.state_dir.as_ref());
            let path = state_dir.map(|state_dir| state_dir.report_path().into_os_string().into_vec());
            return Ok(path.map_or(Xattr::Absent, Xattr::Ready));
        }
        if name == UNKEPT && ino == Ino::ROOT {
            let mut lines = self.unkept().join("\n").into_bytes();
            lines.truncate(MAX_UNKEPT);
            return Ok(if lines.is_empty() { Xattr::Absent } else { Xattr::Ready(lines) });
        }
        if name == GONE && ino == Ino::ROOT {
            let mut lines = self.gone().into_bytes();
            lines.truncate(MAX_UNKEPT);
            return Ok(if lines.is_empty() { Xattr::Absent } else { Xattr::Ready(lines) });
        }
        if name.as_bytes().ends_with(VERIFIED.as_bytes())
            && let Inode::View(entry, mounted, view) = self.node(ino)?
            && name == &*format!("user.{}.{VERIFIED}", mounted.opened()?.container()?.format())
            && let folder::Node::File(file) = self.shown(&entry, &mounted, &view)?.what
            && !file.blocks.is_empty()
        {
            return Ok(verified(mounted, file.blocks));
        }
        Ok(value(self.xattrs(ino)?, name))
    }

    /// Returns the value of an attribute of the mount itself, which needs no source.
    fn xattr_of_mount(&self, name: &OsStr) -> Option<String> {
        match name.to_str()? {
            PID => Some(of_root().1),
            MODE => Some(self.mode().to_owned()),
            SINCE => Some(self.since()),
            REMOUNTS => Some(self.remounts()),
            _ => None,
        }
    }

    /// Returns the attribute names of a mounted file's directory without parsing the file; `None` for any
    /// other node, and once the file is parsed.
    ///
    /// `ls -l` asks for the names of each entry, to find out whether there is an ACL.
    pub fn xattr_names_unparsed(&self, ino: Ino) -> Option<Vec<u8>> {
        let Ok(Inode::Entry(entry)) = self.node(ino) else { return None };
        if ino == Ino::ROOT || entry.lazy_overlay().ok()?.current.is_parsed() {
            return None;
        }
        let location = &entry.position.location;
        let format = match entry.position.stalling {
            // The listing has the name, so the server need not be asked.
            Some(_) => location.listed().and_then(|_| by_ending(&entry.name))?,
            None => self.detector.format_of(location)?,
        };
        Some(format!("user.{format}.format\0user.{format}.version\0").into_bytes())
    }

    /// Returns the names of the extended attributes, each terminated by NUL.
    pub fn xattr_names(&self, ino: Ino) -> Result<Vec<u8>> {
        if let Some(overlay_file) = self.overlay_file_at_once(ino)? {
            return Ok(overlay_file.as_deref().map_or_else(Vec::new, xattr::names));
        }
        let names = self.xattrs(ino)?.into_iter().map(|(name, _)| name);
        Ok(names.flat_map(|name| name.bytes().chain([0])).collect())
    }

    /// Sets an extended attribute, or removes it if there is no value. Attributes last as long as the mount.
    pub fn set_xattr(
        &self,
        ino: Ino,
        name: &OsStr,
        value: Option<&[u8]>,
        condition: XattrCondition,
    ) -> Result<()> {
        let (_, overlay, overlay_file) = self.overlay_file_of(ino)?;
        overlay.set_xattr(&overlay_file, name, value, condition)
    }

    /// Returns the overlay file of a writable file. The outer `None` means a read-only node, the inner `None`
    /// that nothing was written yet.
    fn overlay_file_at_once(&self, ino: Ino) -> Result<Option<Option<Arc<OverlayFile>>>> {
        Ok(match self.node(ino)? {
            Inode::OverlayFile(_, overlay_file) => Some(Some(overlay_file)),
            Inode::Tree(entry) => {
                Some(entry.lazy_overlay()?.used_overlay().map(|overlay| overlay.first()).transpose()?)
            }
            _ => None,
        })
    }

    fn xattrs(&self, ino: Ino) -> Result<Attributes> {
        let mut list = match self.node(ino)? {
            Inode::View(entry, mounted, view) => match self.shown_now(&entry, &mounted, &view)?.what {
                folder::Node::File(file) => file.attributes.map_or_else(Vec::new, |attributes| attributes()),
                _ => Vec::new(),
            },
            Inode::Entry(entry) => match &entry.class {
                // The root keeps its own attributes after its file is gone.
                Class::MountedFile(_) => match self.mounted(&entry).and_then(|mounted| mounted.opened()) {
                    Ok(opened) => of_mounted_file(&opened),
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
