//! Inode numbers, and which nodes the kernel knows.
//!
//! Each entry has a serial number once it is looked up: an entry of a mirrored directory, a name in the folder
//! of a file, a file that a program makes there. Its inode number comes from that. Serial numbers only grow,
//! and are not used again within a mount. What the kernel forgets is dropped: a view of ten million entries
//! costs only those that the kernel knows.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, Weak};

use crate::content::folder::{self, Renewal, RenewalKey};
use crate::folder::generation::{Generation, Held};
use crate::folder::mounted_file::MountedFile;
use crate::host::stat::Time;
use crate::overlay::file::OverlayFile;
use crate::sync::locked;
use crate::vfs::entry::{Class, Entry};

/// The number of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ino(pub u64);

impl Ino {
    /// The mount's root.
    pub const ROOT: Self = Self(1);

    /// What a directory listing says of a name that was not looked up yet.
    pub const UNKNOWN: Self = Self(0xffff_ffff);

    /// The number of what has this serial.
    pub(crate) fn of(serial: u64) -> Self {
        Self(2 * serial + 1)
    }

    /// The number of the `tree.yaml` in the folder with this serial, while nothing was written to it.
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

/// What a number stands for.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Entry(Arc<Entry>),
    /// A `tree.yaml` that can be written, by the number that it has while nothing was written to it.
    Tree(Arc<Entry>),
    /// Something that the file behind an entry shows, from the first look at that file until another takes its
    /// name.
    View(Arc<Entry>, Arc<MountedFile>, Arc<ViewNode>),
    /// A file in the folder of an entry, which stays for as long as the file is known.
    OverlayFile(Arc<Entry>, Arc<OverlayFile>),
}

/// Something that a mounted file shows: its path, and for a file the bytes of one generation.
///
/// The bytes of a node never change, so what the kernel has of them stays right. A generation in which the file has
/// other bytes has another node. Only streamed blocks grow. Folders and links are those of the newest generation.
#[derive(Debug)]
pub(crate) struct ViewNode {
    pub(crate) serial: u64,
    /// The folder that it lies in; none for what lies in the folder of the file itself.
    pub(crate) parent: Option<Arc<ViewNode>>,
    pub(crate) name: Box<OsStr>,
    /// `None` until the first lookup.
    shown: Mutex<Option<NodeState>>,
}

/// What a node shows.
#[derive(Clone, Debug)]
pub(crate) struct NodeState {
    generation: Weak<Generation>,
    number: u64,
    saves: u64,
    base_version: u64,
    lineage: u64,
    pub(crate) kind: folder::Kind,
    /// Which bytes a file has; none of a folder or link.
    renewal: Option<RenewalKey>,
    /// True of a file that no save changes.
    outlasts_saves: bool,
    pub(crate) size: u64,
    pub(crate) mtime: Time,
}

impl NodeState {
    pub(crate) fn new(held: &Held, shown: &folder::Node) -> Self {
        let (renewal, size) = match shown {
            folder::Node::File(file) => (Some(file.renewal.key()), file.len()),
            folder::Node::Folder(_) => (None, 0),
            folder::Node::Link(text) => (None, text.len() as u64),
        };
        let outlasts_saves = matches!(
            shown,
            folder::Node::File(folder::File { renewal: Renewal::WhileSame(signature), .. })
                if signature.text.is_empty()
        );
        Self {
            generation: Arc::downgrade(held.generation()),
            number: held.number,
            saves: held.saves,
            base_version: held.base_version,
            lineage: held.lineage,
            kind: shown.kind(),
            renewal,
            outlasts_saves,
            size,
            mtime: held.mtime(),
        }
    }

    /// True if both have the same bytes, or are both folders or links.
    fn is_same(&self, other: &Self) -> bool {
        if self.kind != other.kind {
            return false;
        }
        let (Some(own), Some(key)) = (self.renewal, other.renewal) else { return true };
        match (self.number, self.saves) == (other.number, other.saves) {
            // Another file that it is made of may have changed.
            true => own == key,
            false => own.is_same(key, self.base_version == other.base_version, self.lineage == other.lineage),
        }
    }

    /// True while its generation is there: the newest one, or one that a handle reads.
    pub(crate) fn is_alive(&self) -> bool {
        self.generation.strong_count() > 0
    }

    /// True of a file whose bytes and length do not change.
    pub(crate) fn is_fixed(&self) -> bool {
        matches!(self.renewal, Some(RenewalKey::Anew | RenewalKey::WhileSame(..)))
    }
}

impl Node {
    /// The entry that it is, or in whose folder it lies.
    pub(crate) fn entry(&self) -> &Arc<Entry> {
        match self {
            Self::Entry(entry) | Self::Tree(entry) | Self::View(entry, ..) | Self::OverlayFile(entry, _) => {
                entry
            }
        }
    }
}

impl ViewNode {
    /// The serial of the folder that it lies in.
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

    /// What it shows, as of its generation.
    pub(crate) fn shown(&self) -> Option<NodeState> {
        locked(&self.shown).clone()
    }

    /// True of a file whose name a save may give to another node.
    pub(crate) fn is_changed_by_saves(&self) -> bool {
        let shown = locked(&self.shown);
        shown.as_ref().is_some_and(|shown| shown.kind == folder::Kind::File && !shown.outlasts_saves)
    }

    /// The generation whose bytes a file has, if it is still there.
    pub(crate) fn generation(&self) -> Option<Held> {
        let shown = locked(&self.shown);
        let fixed = shown.as_ref().filter(|shown| shown.is_fixed())?;
        Some(fixed.generation.upgrade()?.hold())
    }

    /// Goes on to another generation if it shows the same there; true if it does.
    pub(crate) fn go_on(&self, next: &NodeState) -> bool {
        let mut shown = locked(&self.shown);
        let is_same = shown.as_ref().is_none_or(|shown| shown.is_same(next));
        if is_same {
            // The kernel drops the bytes of a file whose time changes.
            let fixed = shown.as_ref().filter(|shown| shown.is_fixed());
            let mtime = fixed.map_or(next.mtime, |shown| shown.mtime);
            *shown = Some(NodeState { mtime, ..next.clone() });
        }
        is_same
    }

    fn shows_the_same(&self, other: &Self) -> bool {
        let (own, other) = (self.shown(), other.shown());
        own.zip(other).is_none_or(|(own, other)| own.is_same(&other))
    }

    /// The names from the folder of the file down to this.
    pub(crate) fn path(&self) -> Vec<&OsStr> {
        let mut path = self.parent.as_ref().map_or_else(Vec::new, |parent| parent.path());
        path.push(&self.name);
        path
    }
}

impl Node {
    /// The number that the kernel is given.
    pub(crate) fn ino(&self) -> Ino {
        match self {
            Self::Entry(entry) => Ino::of(entry.serial),
            Self::Tree(entry) => Ino::of_tree_in(entry.serial),
            Self::View(_, _, view) => Ino::of(view.serial),
            Self::OverlayFile(entry, file) => file.serial.map_or(Ino::of_tree_in(entry.serial), Ino::of),
        }
    }

    /// The file in the folder of `entry` that has the number of `overlay_file`.
    pub(crate) fn of_overlay_file(entry: Arc<Entry>, overlay_file: Arc<OverlayFile>) -> Self {
        if overlay_file.serial.is_none() { Self::Tree(entry) } else { Self::OverlayFile(entry, overlay_file) }
    }
}

/// The nodes that the kernel knows, with how often each was handed to it.
///
/// One count is kept for a folder and its `tree.yaml`.
#[derive(Debug, Default)]
pub(crate) struct KnownNodes(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    nodes: HashMap<u64, (Node, u64)>,
    /// The serials of the views among them, by a hash of the serial of the folder that they lie in and their name.
    views: HashMap<u64, u64>,
    hasher: RandomState,
    /// Nodes that were dropped since memory was given back.
    dropped: usize,
    /// The kernel is asked for nodes when it knows so many.
    asked_at: usize,
}

impl Counted {
    fn hash(&self, within: u64, name: &OsStr) -> u64 {
        self.hasher.hash_one((within, name))
    }

    fn view(&self, within: u64, name: &OsStr) -> Option<&Arc<ViewNode>> {
        match self.nodes.get(self.views.get(&self.hash(within, name))?) {
            // Another name may have the same hash.
            Some((Node::View(_, mounted, view), _))
                if view.within(mounted) == within && *view.name == *name =>
            {
                Some(view)
            }
            _ => None,
        }
    }
}

/// When the kernel knows so many nodes it is asked to give some back: by itself it keeps all that were ever looked up
/// for as long as it has memory. This many take some 20 MB here.
const ASKED_AT: usize = 1 << 15;

/// After so many dropped nodes it is worth while to give memory back: some megabytes.
const MANY: usize = 8192;

impl KnownNodes {
    /// Notes that the number of `node` was handed out, and returns it: that of the same view, if it is known.
    pub(crate) fn remember(&self, node: Node) -> Ino {
        let ino = node.ino();
        let mut known = locked(&self.0);
        // A folder and its tree have one serial.
        let node = if let Node::Tree(entry) = node { Node::Entry(entry) } else { node };
        let serial = match &node {
            Node::View(_, mounted, view) => match known.view(view.within(mounted), &view.name) {
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

    /// The older half of the nodes, the newest of them first, if so many are known that the kernel is to be asked
    /// for some.
    pub(crate) fn surplus(&self) -> Option<Vec<Ino>> {
        let mut known = locked(&self.0);
        let count = known.nodes.len();
        if count < known.asked_at.max(ASKED_AT) {
            return None;
        }
        // What programs use is not given back: then it is asked again when there are many more.
        known.asked_at = count + (count / 4).max(ASKED_AT / 4);
        let is_kept =
            |serial: u64, node: &Node| Ino::of(serial) == Ino::ROOT || matches!(node, Node::OverlayFile(..));
        let nodes = known.nodes.iter().filter(|(serial, (node, _))| !is_kept(**serial, node));
        let mut serials: Vec<u64> = nodes.map(|(serial, _)| *serial).collect();
        drop(known);
        let half = serials.len() / 2;
        if half > 0 {
            serials.select_nth_unstable(half);
        }
        serials.truncate(half);
        // Folders are older than what lies in them, which holds them.
        serials.sort_unstable_by(|one, other| other.cmp(one));
        // The kernel keeps the folder of a file while it has the file's tree.
        Some(serials.into_iter().flat_map(|serial| [Ino::of_tree_in(serial), Ino::of(serial)]).collect())
    }

    /// The view of a name that is known, in the folder with the serial `within`.
    pub(crate) fn view(&self, within: u64, name: &OsStr) -> Option<Arc<ViewNode>> {
        locked(&self.0).view(within, name).cloned()
    }

    /// Notes that `count` of them were given back; the node is dropped with the last. Says whether so many
    /// were dropped that memory can be given back.
    pub(crate) fn forget(&self, serial: u64, count: u64) -> bool {
        let mut guard = locked(&self.0);
        let known = &mut *guard;
        let Some((_, left)) = known.nodes.get_mut(&serial) else { return false };
        *left = left.saturating_sub(count);
        if *left > 0 {
            return false;
        }
        let dropped = known.nodes.remove(&serial);
        if known.nodes.len() < ASKED_AT * 3 / 4 {
            known.asked_at = ASKED_AT;
        }
        if let Some((Node::View(_, mounted, view), _)) = &dropped {
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
        drop(guard); // what it owns is closed without the lock
        let entry = match dropped {
            Some((Node::Entry(entry) | Node::Tree(entry), _)) => Some(entry),
            Some((Node::View(entry, mounted, view), _)) => {
                drop((mounted, view));
                Some(entry)
            }
            Some((Node::OverlayFile(entry, overlay_file), _)) => {
                drop(overlay_file);
                Some(entry)
            }
            None => None,
        };
        entry.into_iter().for_each(Entry::leave_parent);
        many
    }

    /// The node that has a number.
    pub(crate) fn get(&self, ino: Ino) -> Option<Node> {
        let node = locked(&self.0).nodes.get(&ino.serial()).map(|(node, _)| node.clone())?;
        match (node, ino.is_tree()) {
            (Node::Entry(entry), true) if matches!(entry.class, Class::Folder(_)) => Some(Node::Tree(entry)),
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
            let (own, tree) = (Ino::of(serial), Ino::of_tree_in(serial));
            assert_eq!((own.serial(), own.is_tree()), (serial, false));
            assert_eq!((tree.serial(), tree.is_tree()), (serial, true));
        }
        assert_eq!(Ino::of(0), Ino::ROOT);
    }
}
