//! Open directories: what is in them, at positions that stay.
//!
//! Position 0 is `.`, 1 is `..`, then the names in the order in which they were found. A mirrored
//! directory is read when it is opened, names only, and again when a program goes back to its start;
//! what a name stands for is found out when it is handed out. The blocks of a file are counted, not
//! listed.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

use crate::error::{Result, errno};
use crate::host::stat::Kind;
use crate::vfs::Vfs;
use crate::vfs::attr::Attr;
use crate::vfs::entry::{Class, Entry};
use crate::vfs::node::{Ino, Node, Part};
use crate::view::{ABOUT, BLOCKS, STATUS, TABLE, TREE};

/// One name of a directory that is read.
#[derive(Debug)]
pub struct Item<'a> {
    /// The name.
    pub name: &'a OsStr,
    /// Where the next one begins.
    pub next: u64,
    /// Its number, [`Ino::UNKNOWN`] if it has none yet.
    pub ino: Ino,
    /// What it is.
    pub kind: Kind,
    /// What is said of it, if that was asked for; never for `.` and `..`.
    pub attr: Option<Attr>,
}

/// An open directory.
#[derive(Debug)]
pub struct Listing {
    ino: Ino,
    parent: Ino,
    names: Names,
}

/// The names in an open directory.
#[derive(Debug)]
enum Names {
    /// Always the same.
    Fixed(Vec<OsString>),
    /// `0.bin` to the one before this number.
    Blocks(u32),
    /// As they were when the directory was read last; also of a folder that can be written.
    Mirrored(Mirrored),
}

/// A mirrored directory, open.
#[derive(Debug)]
struct Mirrored {
    entry: Arc<Entry>,
    names: RwLock<Arc<[OsString]>>,
    /// Whether anything was handed out since the names were read.
    used: AtomicBool,
}

impl Mirrored {
    fn open(entry: Arc<Entry>) -> Result<Self> {
        let names = read(&entry)?;
        Ok(Self { entry, names: RwLock::new(names), used: AtomicBool::new(false) })
    }

    fn names(&self) -> Arc<[OsString]> {
        self.names.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}

fn read(entry: &Entry) -> Result<Arc<[OsString]>> {
    match &entry.class {
        Class::Sources { sources, .. } => Ok(sources.iter().map(|(name, _)| name.clone()).collect()),
        Class::Folder(folder) => {
            let own = [BLOCKS, ABOUT].map(OsString::from);
            let written = folder.used_overlay().map_or_else(|| vec![TREE.into()], |overlay| overlay.names());
            Ok(written.into_iter().chain(own).collect())
        }
        _ => Ok(entry.position.location.names()?.into()),
    }
}

impl Listing {
    /// The names from position `from` on, with their positions; from 0 on, as they are now.
    fn names_from(&self, from: u64) -> Result<NamesFrom<'_>> {
        let mirrored = match &self.names {
            Names::Mirrored(mirrored) => {
                if mirrored.used.swap(true, Ordering::Relaxed) && from == 0 {
                    let names = read(&mirrored.entry)?;
                    *mirrored.names.write().unwrap_or_else(std::sync::PoisonError::into_inner) = names;
                }
                Some(mirrored.names())
            }
            _ => None,
        };
        Ok(NamesFrom { listing: self, mirrored, next: from })
    }
}

/// See [`Listing::names_from`].
struct NamesFrom<'a> {
    listing: &'a Listing,
    mirrored: Option<Arc<[OsString]>>,
    next: u64,
}

impl NamesFrom<'_> {
    /// The next name and the position after it.
    fn next(&mut self) -> Option<(Cow<'_, OsStr>, u64)> {
        let at = self.next;
        let name = match at {
            0 => Cow::Borrowed(OsStr::new(".")),
            1 => Cow::Borrowed(OsStr::new("..")),
            _ => {
                let at = usize::try_from(at - 2).ok()?;
                match (&self.listing.names, &self.mirrored) {
                    (_, Some(names)) => Cow::Borrowed(names.get(at)?.as_os_str()),
                    (Names::Fixed(names), None) => Cow::Borrowed(names.get(at)?.as_os_str()),
                    (Names::Blocks(count), None) if at < *count as usize => {
                        Cow::Owned(format!("{at}.bin").into())
                    }
                    _ => return None,
                }
            }
        };
        self.next = at + 1;
        Some((name, at + 1))
    }
}

/// Number and kind of a name, and what a lookup of it gives if that was asked for.
type Found = (Ino, Kind, Option<(Attr, Node)>);

impl Vfs {
    /// Opens a directory.
    pub fn open_dir(&self, ino: Ino) -> Result<Listing> {
        let fixed = |names: &[&str]| Names::Fixed(names.iter().map(OsString::from).collect());
        let (parent, names) = match self.node(ino)? {
            (Node::Entry(entry), _) => {
                let parent = entry.parent.as_ref().map_or(0, |parent| parent.serial);
                let names = match &entry.class {
                    Class::Folder(_) if self.is_writable(&entry)? => {
                        Names::Mirrored(Mirrored::open(entry.clone())?)
                    }
                    Class::Folder(_) => match self.mounted(&entry)?.opened()?.container() {
                        Ok(_) => fixed(&[TREE, BLOCKS, ABOUT]),
                        Err(_) => fixed(&[ABOUT]),
                    },
                    Class::Sources { .. } | Class::Directory { .. } => {
                        Names::Mirrored(Mirrored::open(entry.clone())?)
                    }
                    _ => return Err(errno(libc::ENOTDIR)),
                };
                (Ino::new(parent, Part::Whole), names)
            }
            (Node::MountedFile(_, mounted), Part::Blocks) => {
                let _still = mounted.hold_still();
                mounted.look();
                let count = mounted.opened()?.container()?.block_count()?;
                let count = u32::try_from(count).unwrap_or(u32::MAX).min(Ino::LAST_BLOCK);
                (Ino::UNKNOWN, Names::Blocks(count))
            }
            (Node::MountedFile(_, mounted), Part::About) => {
                mounted.look();
                let readable = mounted.opened()?.container().is_ok();
                (Ino::UNKNOWN, fixed(if readable { &[STATUS, TABLE] } else { &[STATUS] }))
            }
            _ => return Err(errno(libc::ENOTDIR)),
        };
        Ok(Listing { ino, parent, names })
    }

    /// Hands out what is in a directory, from a position on, until `take` says that it has enough.
    ///
    /// With `attrs` each name is also looked up, as by [`Vfs::lookup`], except for `.` and `..`. What
    /// vanished since the directory was read is left out. The item that `take` answers with true was not
    /// taken.
    pub fn read_dir(
        &self,
        listing: &Listing,
        from: u64,
        attrs: bool,
        take: &mut dyn FnMut(Item<'_>) -> bool,
    ) -> Result<()> {
        let dir = match &listing.names {
            Names::Mirrored(mirrored) if matches!(mirrored.entry.class, Class::Directory { .. }) => {
                Some((&mirrored.entry, mirrored.entry.position.location.open_dir()?))
            }
            _ => None,
        };
        let mut names = listing.names_from(from)?;
        let mut taken = false;
        while let Some((name, next)) = names.next() {
            let mut found = None;
            let (ino, kind) = match next {
                1 => (listing.ino, Kind::Directory),
                2 => (listing.parent, Kind::Directory),
                _ => {
                    let item = match &dir {
                        Some((entry, dir)) => self.item_in(entry, dir.as_fd(), &name, attrs),
                        None => self.find(listing.ino, &name).and_then(|(node, part)| {
                            let attr = self.attr_of(&node, part)?;
                            Ok((attr.ino, attr.kind, attrs.then_some((attr, node))))
                        }),
                    };
                    match item {
                        Ok((ino, kind, looked_up)) => {
                            found = looked_up;
                            (ino, kind)
                        }
                        // What is missing may be had at the next call, which begins here.
                        Err(error) if error.is_shortage() && taken => break,
                        Err(error) if error.is_shortage() => return Err(error),
                        Err(_) => continue,
                    }
                }
            };
            let attr = found.as_ref().map(|(attr, _)| *attr);
            if let Some((_, node)) = found {
                self.known.remember(node);
            }
            if take(Item { name: &name, next, ino, kind, attr }) {
                if attr.is_some() {
                    self.forget(ino, 1);
                }
                break;
            }
            taken = true;
        }
        Ok(())
    }

    /// Number and kind of a name in a mirrored directory, and with `attrs` all that a lookup gives.
    fn item_in(&self, entry: &Arc<Entry>, dir: BorrowedFd<'_>, name: &OsStr, attrs: bool) -> Result<Found> {
        let seen = self.detector.look(&entry.position, dir, name)?;
        if attrs {
            let (stat, kind) = (seen.stat, seen.kind());
            let child = entry.child(name, seen, &self.serials)?;
            let ino = Ino::new(child.serial, Part::Whole);
            let attr = match &child.class {
                // Just looked at: no need to ask again.
                Class::File { .. } => self.ownership.attr(ino, kind, stat.source.size, &stat),
                Class::Directory { .. } | Class::Special { .. } => self.ownership.attr(ino, kind, 0, &stat),
                Class::Folder(_) => Attr { nlink: 4, ..self.own_folder(ino, &stat) },
                Class::Link { text, .. } => self.ownership.attr(ino, kind, text.len() as u64, &stat),
                Class::Sources { .. } => self.attr_of_entry(&child)?,
            };
            return Ok((ino, kind, Some((attr, Node::Entry(child)))));
        }
        let known = entry.known_child(name);
        let ino = known.map_or(Ino::UNKNOWN, |known| Ino::new(known.serial, Part::Whole));
        Ok((ino, seen.kind(), None))
    }
}
