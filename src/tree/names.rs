//! From a name in a directory to the node that lies there.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::sync::Arc;

use super::mirror::Class;
use super::node::{Ino, Node, Part};
use super::shelf::Opened;
use super::volume::Volume;
use super::{Tree, desk, errno, spot};
use crate::error::{self, Error, Result};

/// The parts of a file's folder.
pub(crate) const TREE: &str = "tree.yaml";
pub(crate) const BLOCKS: &str = "blocks";
pub(crate) const ABOUT: &str = ".asdf-mount";
pub(crate) const STATUS: &str = "status.yaml";
pub(crate) const TABLE: &str = "blocks.yaml";

impl Tree {
    /// The node at a name.
    pub(crate) fn find(&self, parent: Ino, name: &OsStr) -> Result<(Node, Part)> {
        match self.node(parent)? {
            (Node::Entry(entry), _) => match &entry.class {
                Class::Sources { sources, .. } => {
                    let source = sources.iter().find(|(known, _)| known == name);
                    let (_, place) = source.ok_or_else(no_entry)?;
                    let seen = self.scout.look_at(place.clone())?;
                    Ok((Node::Entry(entry.child(name, seen, &self.serials)?), Part::Whole))
                }
                Class::Directory { key, .. } => {
                    let dir = entry.place.spot.open_dir()?;
                    if spot::stat_of(dir.as_fd())?.key() != *key {
                        return Err(errno(libc::ESTALE));
                    }
                    let seen = self.scout.look(&entry, dir.as_fd(), name)?;
                    Ok((Node::Entry(entry.child(name, seen, &self.serials)?), Part::Whole))
                }
                Class::Folder(_) => {
                    if !desk::is_reserved(name) && self.is_writable(&entry)? {
                        return match entry.folder()?.used_desk() {
                            Some(desk) => Ok((Node::of_sheet(entry, desk.lookup(name)?), Part::Whole)),
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
                    let volume = self.volume(&entry)?;
                    if part != Part::About {
                        volume.opened()?.container()?;
                    }
                    Ok((Node::Volume(entry, volume), part))
                }
                _ => Err(errno(libc::ENOTDIR)),
            },
            (Node::Volume(entry, volume), Part::Blocks) => {
                let n = block_number(name).ok_or_else(no_entry)?;
                {
                    let _still = volume.hold_still();
                    present(&volume)?.block(n)?;
                }
                Ok((Node::Volume(entry, volume), Part::Block(n)))
            }
            (Node::Volume(entry, volume), Part::About) => {
                let opened = present(&volume)?;
                match name.to_str() {
                    Some(STATUS) => Ok((Node::Volume(entry, volume), Part::Status)),
                    Some(TABLE) if opened.container.is_ok() => Ok((Node::Volume(entry, volume), Part::Table)),
                    _ => Err(no_entry()),
                }
            }
            _ => Err(errno(libc::ENOTDIR)),
        }
    }
}

/// What is parsed of a volume now.
fn present(volume: &Volume) -> Result<Arc<Opened>> {
    match volume.look().attached {
        true => volume.opened(),
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
