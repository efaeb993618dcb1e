//! Inode numbers, and the nodes that the kernel knows.
//!
//! Each entry gets a serial number at its first lookup: an entry of a mirrored directory, a name in the
//! directory of a mounted file, a file that a program creates there. The inode number is computed from it.
//! Serial numbers only grow, and are not reused within a mount. Nodes that the kernel forgets are dropped: a
//! view of ten million entries costs memory only for the entries that the kernel knows.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, Weak};

use asdf_access::local::stat::Time;
use asdf_file::folder::{self, RenewalKey};
use seekable::sync::locked;

use crate::mounted::file::MountedFile;
use crate::mounted::generation::{Generation, HeldGeneration};
use crate::overlay::file::OverlayFile;
use crate::vfs::entry::{Class, Entry};

/// An inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ino(pub u64);

impl Ino {
    /// The mount's root.
    pub const ROOT: Self = Self(1);

    /// Number in directory listings for a name that was not looked up yet.
    pub const UNKNOWN: Self = Self(0xffff_ffff);

    /// Returns the number for a serial.
    pub(crate) fn of(serial: u64) -> Self {
        Self(2 * serial + 1)
    }

    /// Returns the number of the `tree.yaml` in the directory of the file with this serial, until `tree.yaml`
    /// is first written.
    pub(crate) fn of_tree_in(serial: u64) -> Self {
        Self(2 * serial + 2)
    }

    pub(crate) fn serial(self) -> u64 {
        self.0.saturating_sub(1) / 2
    }

    fn is_tree(self) -> bool {
        self.0 != 0 && self.0.is_multiple_of(2)
    }
}

/// The node behind an inode number.
#[derive(Clone, Debug)]
pub(crate) enum Inode {
    Entry(Arc<Entry>),
    /// A writable `tree.yaml`, under the number that it has until the first write.
    Tree(Arc<Entry>),
    /// A file or directory shown for a mounted file. It is valid from the first look at the file until
    /// another file takes the file's name.
    View(Arc<Entry>, Arc<MountedFile>, Arc<ViewNode>),
    /// An overlay file in the directory of an entry; valid for as long as the overlay file is known.
    OverlayFile(Arc<Entry>, Arc<OverlayFile>),
}

/// A file, link or directory shown for a mounted file: its path, and for a file the bytes of one generation.
///
/// The bytes of a node never change, so the kernel's cache stays valid; a streamed block only gets more
/// bytes. If the file has other bytes in the next generation, it gets another node. Directories and links
/// belong to the newest generation.
#[derive(Debug)]
pub(crate) struct ViewNode {
    pub(crate) serial: u64,
    /// The parent view; `None` for an entry of the file's own directory.
    pub(crate) parent: Option<Arc<ViewNode>>,
    pub(crate) name: Box<OsStr>,
    /// `None` until the first lookup.
    shown: Mutex<Option<NodeState>>,
}

/// The state of a view node in its generation.
#[derive(Clone, Debug)]
pub(crate) struct NodeState {
    generation: Weak<Generation>,
    file: u64,
    number: u64,
    saves: u64,
    outside_changes: u64,
    lineage: u64,
    pub(crate) kind: folder::EntryKind,
    /// Key by which the bytes are compared with those of another generation; `None` for a directory or link.
    renewal: Option<RenewalKey>,
    /// True for a file that no save changes.
    outlasts_saves: bool,
    /// False if the content of the file is an error. Its size is not known then.
    is_readable: bool,
    pub(crate) size: u64,
    pub(crate) mtime: Time,
}

impl NodeState {
    pub(crate) fn new(held: &HeldGeneration, shown: &folder::Node) -> Self {
        let can_be_saved = held.container().is_ok_and(|container| container.is_editable());
        let state = Self {
            generation: Arc::downgrade(held.generation()),
            file: held.file,
            number: held.number,
            saves: held.saves,
            outside_changes: held.outside_changes,
            lineage: held.lineage,
            kind: shown.kind(),
            renewal: None,
            outlasts_saves: !can_be_saved,
            is_readable: true,
            size: 0,
            mtime: held.mtime(),
        };
        match shown {
            folder::Node::Dir(_) => state,
            folder::Node::Link(text) => Self { size: text.len() as u64, ..state },
            folder::Node::File(file) => Self {
                renewal: Some(file.renewal.key()),
                outlasts_saves: !can_be_saved || file.renewal.outlasts_saves(),
                is_readable: file.content.is_ok(),
                size: file.len(),
                mtime: file.mtime.unwrap_or(state.mtime),
                ..state
            },
        }
    }

    /// True if both have the same bytes, or both are directories or both are links.
    fn is_same(&self, other: &Self) -> bool {
        if self.kind != other.kind {
            return false;
        }
        let (Some(own), Some(key)) = (self.renewal, other.renewal) else { return true };
        if self.file != other.file {
            // Another file has taken the name.
            false
        } else if (self.number, self.saves) == (other.number, other.saves) {
            // Bytes may differ within a generation: another file, to which the tree refers, may have changed.
            own == key
        } else {
            own.is_same(key, self.outside_changes == other.outside_changes, self.lineage == other.lineage)
        }
    }

    /// True while the generation exists: it is the newest one, or a handle reads it.
    pub(crate) fn is_alive(&self) -> bool {
        self.generation.strong_count() > 0
    }

    /// True for a file with constant bytes and length.
    pub(crate) fn is_fixed(&self) -> bool {
        matches!(self.renewal, Some(RenewalKey::Anew | RenewalKey::WhileSame(..)))
    }
}

impl Inode {
    /// Returns the entry itself, or the entry of the directory that contains the node.
    pub(crate) fn entry(&self) -> &Arc<Entry> {
        match self {
            Self::Entry(entry) | Self::Tree(entry) | Self::View(entry, ..) | Self::OverlayFile(entry, _) => {
                entry
            }
        }
    }
}

impl ViewNode {
    /// Returns the serial of the parent directory.
    fn within(&self, mounted: &MountedFile) -> u64 {
        self.parent.as_ref().map_or(mounted.serial, |parent| parent.serial)
    }

    pub(crate) fn new(
        serial: u64,
        parent: Option<Arc<Self>>,
        name: &OsStr,
        shown: Option<NodeState>,
    ) -> Self {
        Self { serial, parent, name: name.into(), shown: Mutex::new(shown) }
    }

    /// Returns the node's state in its generation.
    pub(crate) fn shown(&self) -> Option<NodeState> {
        locked(&self.shown).clone()
    }

    /// True for a file if a save may give its name to another node.
    pub(crate) fn is_changed_by_saves(&self) -> bool {
        let shown = locked(&self.shown);
        shown.as_ref().is_some_and(|shown| shown.kind == folder::EntryKind::File && !shown.outlasts_saves)
    }

    /// Returns the generation that has the file's bytes, if it still exists.
    pub(crate) fn generation(&self) -> Option<HeldGeneration> {
        let shown = locked(&self.shown);
        let fixed = shown.as_ref().filter(|shown| shown.is_fixed())?;
        Some(fixed.generation.upgrade()?.hold())
    }

    /// Moves to another generation if the data are the same there, and can be read. Returns true if they are the same.
    pub(crate) fn carry_over(&self, next: &NodeState) -> bool {
        let mut shown = locked(&self.shown);
        let is_same = shown.as_ref().is_none_or(|shown| shown.is_same(next));
        // The kernel would end the file of an open handle at the size of a content that is an error.
        if is_same && (next.is_readable || shown.is_none()) {
            // The old mtime stays, because the kernel drops the cached bytes of a file whose mtime changes.
            let fixed = shown.as_ref().filter(|shown| shown.is_fixed());
            let mtime = fixed.map_or(next.mtime, |shown| shown.mtime);
            *shown = Some(NodeState { mtime, ..next.clone() });
        }
        is_same
    }

    fn shows_the_same(&self, other: &Self) -> bool {
        let own = self.shown();
        let other = other.shown();
        own.zip(other).is_none_or(|(own, other)| own.is_same(&other))
    }

    /// Returns the names from the file's directory down to this node.
    pub(crate) fn path(&self) -> Vec<&OsStr> {
        let mut path = self.parent.as_ref().map_or_else(Vec::new, |parent| parent.path());
        path.push(&self.name);
        path
    }
}

impl Inode {
    /// Returns the inode number for the kernel.
    pub(crate) fn ino(&self) -> Ino {
        match self {
            Self::Entry(entry) => Ino::of(entry.serial),
            Self::Tree(entry) => Ino::of_tree_in(entry.serial),
            Self::View(_, _, view) => Ino::of(view.serial),
            Self::OverlayFile(entry, file) => file.serial.map_or(Ino::of_tree_in(entry.serial), Ino::of),
        }
    }

    /// Returns the node for an overlay file in the directory of `entry`.
    pub(crate) fn of_overlay_file(entry: Arc<Entry>, overlay_file: Arc<OverlayFile>) -> Self {
        if overlay_file.serial.is_none() { Self::Tree(entry) } else { Self::OverlayFile(entry, overlay_file) }
    }
}

/// The nodes that the kernel knows, with their lookup counts.
///
/// The directory of a mounted file and its `tree.yaml` share one count.
#[derive(Debug, Default)]
pub(crate) struct KnownNodes(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    nodes: HashMap<u64, (Inode, u64)>,
    /// Serials of the views in `nodes`, by a hash of the parent's serial and the name.
    views: HashMap<u64, u64>,
    hasher: RandomState,
    /// Nodes dropped since memory was last returned to the system.
    dropped: usize,
    /// Number of nodes at which the kernel is next asked to drop some.
    asked_at: usize,
}

impl Counted {
    fn hash(&self, within: u64, name: &OsStr) -> u64 {
        self.hasher.hash_one((within, name))
    }

    fn view(&self, within: u64, name: &OsStr) -> Option<&Arc<ViewNode>> {
        match self.nodes.get(self.views.get(&self.hash(within, name))?) {
            // Another name may have the same hash.
            Some((Inode::View(_, mounted, view), _))
                if view.within(mounted) == within && *view.name == *name =>
            {
                Some(view)
            }
            _ => None,
        }
    }
}

/// Smallest number of nodes at which the kernel is asked to drop some. Unasked, the kernel keeps every node
/// that was ever looked up, until memory is short. This many nodes take some 20 MB in the daemon.
const ASKED_AT: usize = 1 << 15;

/// Number of dropped nodes after which memory is returned to the system: some megabytes.
const MANY: usize = 8192;

impl KnownNodes {
    /// Counts one more lookup of `node` and returns its number, or the number of a
    /// known node of the same view.
    pub(crate) fn remember(&self, node: Inode) -> Ino {
        let ino = node.ino();
        let mut known = locked(&self.0);
        // A file's directory and its `tree.yaml` have one serial.
        let node = if let Inode::Tree(entry) = node { Inode::Entry(entry) } else { node };
        let serial = match &node {
            Inode::View(_, mounted, view) => match known.view(view.within(mounted), &view.name) {
                Some(known) if Arc::ptr_eq(known, view) || known.shows_the_same(view) => known.serial,
                _ => {
                    let hash = known.hash(view.within(mounted), &view.name);
                    known.views.insert(hash, view.serial);
                    view.serial
                }
            },
            _ => ino.serial(),
        };
        known.nodes.entry(serial).or_insert((node, 0)).1 += 1;
        if serial == ino.serial() { ino } else { Ino::of(serial) }
    }

    /// Returns the older half of the nodes, newest first, if the kernel knows so many
    /// that it should drop some.
    pub(crate) fn surplus(&self) -> Option<Vec<Ino>> {
        let mut known = locked(&self.0);
        let count = known.nodes.len();
        if count < known.asked_at.max(ASKED_AT) {
            return None;
        }
        // The kernel keeps nodes that programs use, so it is asked again only once it knows many more nodes.
        known.asked_at = count + (count / 4).max(ASKED_AT / 4);
        let is_kept = |serial: u64, node: &Inode| {
            Ino::of(serial) == Ino::ROOT || matches!(node, Inode::OverlayFile(..))
        };
        let nodes = known.nodes.iter().filter(|(serial, (node, _))| !is_kept(**serial, node));
        let mut serials: Vec<u64> = nodes.map(|(serial, _)| *serial).collect();
        drop(known);
        let half = serials.len() / 2;
        if half > 0 {
            serials.select_nth_unstable(half);
        }
        serials.truncate(half);
        // Newest first: a directory is older than its entries, which hold references to it.
        serials.sort_unstable_by(|one, other| other.cmp(one));
        // The kernel keeps a file's directory as long as it has the file's `tree.yaml`.
        Some(serials.into_iter().flat_map(|serial| [Ino::of_tree_in(serial), Ino::of(serial)]).collect())
    }

    /// Returns the known view of a name in the directory with the serial `within`.
    pub(crate) fn view(&self, within: u64, name: &OsStr) -> Option<Arc<ViewNode>> {
        locked(&self.0).view(within, name).cloned()
    }

    /// Subtracts `count` lookups of a node, and drops the node when none are left. Returns true if so many
    /// nodes were dropped that memory should be returned to the system.
    pub(crate) fn forget(&self, serial: u64, count: u64) -> bool {
        let mut guard = locked(&self.0);
        let known = &mut *guard;
        let Some((_, lookups_left)) = known.nodes.get_mut(&serial) else { return false };
        *lookups_left = lookups_left.saturating_sub(count);
        if *lookups_left > 0 {
            return false;
        }
        let dropped = known.nodes.remove(&serial);
        if known.nodes.len() < ASKED_AT * 3 / 4 {
            known.asked_at = ASKED_AT;
        }
        if let Some((Inode::View(_, mounted, view), _)) = &dropped {
            let hash = known.hash(view.within(mounted), &view.name);
            if known.views.get(&hash) == Some(&view.serial) {
                known.views.remove(&hash);
            }
        }
        known.dropped += 1;
        let many = known.dropped >= MANY.max(known.nodes.len());
        if many {
            known.dropped = 0;
            known.nodes.shrink_to_fit();
            known.views.shrink_to_fit();
        }
        drop(guard); // the node is dropped after the lock is released
        let entry = match dropped {
            Some((Inode::Entry(entry) | Inode::Tree(entry), _)) => Some(entry),
            Some((Inode::View(entry, mounted, view), _)) => {
                drop((mounted, view));
                Some(entry)
            }
            Some((Inode::OverlayFile(entry, overlay_file), _)) => {
                drop(overlay_file);
                Some(entry)
            }
            None => None,
        };
        entry.into_iter().for_each(Entry::leave_parent);
        many
    }

    /// Returns the node with a number.
    pub(crate) fn get(&self, ino: Ino) -> Option<Inode> {
        let node = locked(&self.0).nodes.get(&ino.serial()).map(|(node, _)| node.clone())?;
        match (node, ino.is_tree()) {
            (Inode::Entry(entry), true) if matches!(entry.class, Class::MountedFile(_)) => {
                Some(Inode::Tree(entry))
            }
            (node, false) => Some(node),
            _ => None,
        }
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
        for serial in [0, 1, u64::from(u32::MAX), u64::MAX / 2 - 2] {
            let own = Ino::of(serial);
            let tree = Ino::of_tree_in(serial);
            assert_eq!((own.serial(), own.is_tree()), (serial, false));
            assert_eq!((tree.serial(), tree.is_tree()), (serial, true));
        }
        assert_eq!(Ino::of(0), Ino::ROOT);
    }

    #[test]
    fn a_file_keeps_its_size_while_its_content_is_an_error() {
        let state = |size, is_readable| NodeState {
            generation: Weak::new(),
            file: 1,
            number: 0,
            saves: 0,
            outside_changes: 0,
            lineage: 0,
            kind: folder::EntryKind::File,
            renewal: Some(RenewalKey::WhileSame(1, 2)),
            outlasts_saves: true,
            is_readable,
            size,
            mtime: (0, 0),
        };
        let node = ViewNode::new(1, None, OsStr::new("x.npy"), Some(state(256, true)));
        assert!(node.carry_over(&state(0, false)));
        assert_eq!(node.shown().unwrap().size, 256);
        let node = ViewNode::new(1, None, OsStr::new("x.npy"), Some(state(0, false)));
        assert!(node.carry_over(&state(256, true)));
        assert_eq!(node.shown().unwrap().size, 256);
    }
}
