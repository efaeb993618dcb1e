//! The numbers of nodes, and which nodes the kernel knows.
//!
//! A number has two halves. The upper one is the serial of something that was met in a source: an
//! entry of a mirrored directory, or one life of a file behind a folder. The lower one says which
//! part of it: so the blocks of a file need no table, however many there are. Serials are counted
//! up and never used again within a mount.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::folder::mounted_file::MountedFile;
use crate::overlay::file::OverlayFile;
use crate::sync::locked;
use crate::vfs::entry::Entry;

/// The number of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ino(pub u64);

/// What of an entry or of a file's life a number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// The entry itself.
    Whole,
    /// `tree.yaml`
    Tree,
    /// `blocks/`
    Blocks,
    /// `.asdf-mount/`
    About,
    /// `.asdf-mount/status.yaml`
    Status,
    /// `.asdf-mount/blocks.yaml`
    Table,
    /// `blocks/N.bin`
    Block(u32),
}

/// The lower half of the number of block 0.
const FIRST_BLOCK: u32 = 0x100;

impl Ino {
    /// The mount's root.
    pub const ROOT: Self = Self(1);

    /// What a directory listing says of a name that nobody looked up yet.
    pub const UNKNOWN: Self = Self(0xffff_ffff);

    pub(crate) fn new(serial: u32, part: Part) -> Self {
        let part = match part {
            Part::Whole => 1,
            Part::Tree => 2,
            Part::Blocks => 3,
            Part::About => 4,
            Part::Status => 5,
            Part::Table => 6,
            Part::Block(n) => FIRST_BLOCK + n.min(Self::LAST_BLOCK),
        };
        Self(u64::from(serial) << 32 | u64::from(part))
    }

    /// The highest block that has a number: more than fit in a file of 200 GiB.
    pub(crate) const LAST_BLOCK: u32 = u32::MAX - FIRST_BLOCK - 1;

    pub(crate) fn serial(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(crate) fn part(self) -> Option<Part> {
        Some(match self.0 as u32 {
            1 => Part::Whole,
            2 => Part::Tree,
            3 => Part::Blocks,
            4 => Part::About,
            5 => Part::Status,
            6 => Part::Table,
            n => Part::Block(n.checked_sub(FIRST_BLOCK).filter(|n| *n <= Self::LAST_BLOCK)?),
        })
    }
}

/// What a serial stands for.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Entry(Arc<Entry>),
    /// A `tree.yaml` that can be written, by the number that it has while nobody writes to it.
    Tree(Arc<Entry>),
    /// A life of the file behind an entry, which stays for as long as a part of that is known.
    MountedFile(Arc<Entry>, Arc<MountedFile>),
    /// A file in the folder of an entry, which stays for as long as the file is known.
    OverlayFile(Arc<Entry>, Arc<OverlayFile>),
}

impl Node {
    fn serial(&self) -> u32 {
        match self {
            Self::Entry(entry) | Self::Tree(entry) => entry.serial,
            Self::MountedFile(_, mounted) => mounted.serial,
            Self::OverlayFile(entry, overlay_file) => overlay_file.serial.unwrap_or(entry.serial),
        }
    }

    /// The file in the folder of `entry` that has the number of `overlay_file`.
    pub(crate) fn of_overlay_file(entry: Arc<Entry>, overlay_file: Arc<OverlayFile>) -> Self {
        if overlay_file.serial.is_none() { Self::Tree(entry) } else { Self::OverlayFile(entry, overlay_file) }
    }
}

/// The nodes that the kernel knows, with how often each was handed to it.
///
/// One count is kept for a serial, over all of its parts.
#[derive(Debug, Default)]
pub(crate) struct KnownNodes(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    nodes: HashMap<u32, (Node, u64)>,
    /// Nodes that were dropped since memory was given back.
    dropped: usize,
}

/// After so many dropped nodes it is worth while to give memory back: some megabytes.
const MANY: usize = 8192;

impl KnownNodes {
    /// Notes that a number with the serial of `node` was handed out.
    pub(crate) fn remember(&self, node: Node) {
        // A folder and its tree have one serial.
        let node = if let Node::Tree(entry) = node { Node::Entry(entry) } else { node };
        locked(&self.0).nodes.entry(node.serial()).or_insert((node, 0)).1 += 1;
    }

    /// Notes that `count` of them were given back; the node is dropped with the last. Says whether so many
    /// were dropped that memory can be given back.
    pub(crate) fn forget(&self, serial: u32, count: u64) -> bool {
        let mut guard = locked(&self.0);
        let known = &mut *guard;
        let Some((_, left)) = known.nodes.get_mut(&serial) else { return false };
        *left = left.saturating_sub(count);
        let mut many = false;
        if *left == 0 {
            let dropped = known.nodes.remove(&serial);
            known.dropped += 1;
            if known.dropped >= MANY.max(known.nodes.len()) {
                known.dropped = 0;
                known.nodes.shrink_to_fit();
                many = true;
            }
            drop(guard); // what it owns is closed without the lock
            match dropped {
                Some((Node::Entry(entry) | Node::Tree(entry), _)) => entry.leave_parent(),
                Some((Node::MountedFile(entry, mounted), _)) => {
                    drop(mounted);
                    entry.leave_parent();
                }
                Some((Node::OverlayFile(entry, overlay_file), _)) => {
                    drop(overlay_file);
                    entry.leave_parent();
                }
                None => {}
            }
        }
        many
    }

    pub(crate) fn get(&self, serial: u32) -> Option<Node> {
        locked(&self.0).nodes.get(&serial).map(|(node, _)| node.clone())
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        locked(&self.0).nodes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_says_what_it_was_made_from() {
        let parts = [Part::Whole, Part::Tree, Part::Blocks, Part::About, Part::Status, Part::Table];
        for part in parts.into_iter().chain([Part::Block(0), Part::Block(Ino::LAST_BLOCK)]) {
            for serial in [0, 1, u32::MAX] {
                let ino = Ino::new(serial, part);
                assert_eq!((ino.serial(), ino.part()), (serial, Some(part)));
                assert_ne!(ino, Ino::UNKNOWN);
            }
        }
        assert_eq!(Ino::new(0, Part::Whole), Ino::ROOT);
        assert_eq!((Ino(0).part(), Ino(7).part(), Ino::UNKNOWN.part()), (None, None, None));
    }
}
