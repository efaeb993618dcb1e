//! From a name in a directory to the node that lies there.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::sync::Arc;

use crate::error::errno;
use crate::error::{self, Error, Result};
use crate::folder::mounted_file::MountedFile;
use crate::folder::snapshot::Snapshot;
use crate::host::at::stat_of;
use crate::overlay;
use crate::vfs::Vfs;
use crate::vfs::entry::Class;
use crate::vfs::node::{Ino, Node, Part};
use crate::view::{ABOUT, BLOCKS, STATUS, TABLE, TREE};

impl Vfs {
    /// The node at a name.
    pub(crate) fn find(&self, parent: Ino, name: &OsStr) -> Result<(Node, Part)> {
        match self.node(parent)? {
            (Node::Entry(entry), _) => match &entry.class {
                Class::Sources { sources, .. } => {
                    let source = sources.iter().find(|(known, _)| known == name);
                    let (_, position) = source.ok_or_else(no_entry)?;
                    let seen = self.detector.look_at(position.clone())?;
                    Ok((Node::Entry(entry.child(name, seen, &self.serials)?), Part::Whole))
                }
                Class::Directory { key, .. } => {
                    let dir = entry.position.location.open_dir()?;
                    if stat_of(dir.as_fd())?.key != *key {
                        return Err(errno(libc::ESTALE));
                    }
                    let seen = self.detector.look(&entry.position, dir.as_fd(), name)?;
                    Ok((Node::Entry(entry.child(name, seen, &self.serials)?), Part::Whole))
                }
                Class::Folder(_) => {
                    if !overlay::is_reserved(name) && self.is_writable(&entry)? {
                        return match entry.folder()?.used_overlay() {
                            Some(overlay) => {
                                Ok((Node::of_overlay_file(entry, overlay.lookup(name)?), Part::Whole))
                            }
                            None if name == TREE => Ok((Node::Tree(entry), Part::Tree)),
                            None => Err(errno(libc::ENOENT)),
                        };
                    }
                    let part = match name.to_str() {
                        Some(TREE) => Part::Tree,
                        Some(BLOCKS) => Part::Blocks,
                        Some(ABOUT) => Part::About,
                        _ => return Err(no_entry()),
                    };
                    let mounted = self.mounted(&entry)?;
                    if part != Part::About {
                        mounted.opened()?.container()?;
                    }
                    Ok((Node::MountedFile(entry, mounted), part))
                }
                _ => Err(errno(libc::ENOTDIR)),
            },
            (Node::MountedFile(entry, mounted), Part::Blocks) => {
                let n = block_number(name).ok_or_else(no_entry)?;
                {
                    let _still = mounted.hold_still();
                    current(&mounted)?.block(n)?;
                }
                Ok((Node::MountedFile(entry, mounted), Part::Block(n)))
            }
            (Node::MountedFile(entry, mounted), Part::About) => {
                let opened = current(&mounted)?;
                match name.to_str() {
                    Some(STATUS) => Ok((Node::MountedFile(entry, mounted), Part::Status)),
                    Some(TABLE) if opened.container.is_ok() => {
                        Ok((Node::MountedFile(entry, mounted), Part::Table))
                    }
                    _ => Err(no_entry()),
                }
            }
            _ => Err(errno(libc::ENOTDIR)),
        }
    }
}

/// What is parsed of a mounted file now.
fn current(mounted: &MountedFile) -> Result<Arc<Snapshot>> {
    match mounted.look().attached {
        true => mounted.opened(),
        // No new names for a file that is gone; who has one of its parts open keeps it.
        false => Err(no_entry()),
    }
}

/// The N of `N.bin`, written as we write it.
fn block_number(name: &OsStr) -> Option<u32> {
    let digits = name.to_str()?.strip_suffix(".bin")?;
    let plain = digits == "0" || !digits.starts_with('0');
    let plain = plain && digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|n| plain && *n <= Ino::LAST_BLOCK)
}

fn no_entry() -> Error {
    Error::new(error::Kind::NotFound, "there is nothing of that name")
}
