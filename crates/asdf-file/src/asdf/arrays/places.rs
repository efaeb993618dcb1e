//! Paths of nodes in `arrays/`, and targets of links.

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::ffi::OsStr;

use asdf_tree::limits::{MAX_CHAIN, MAX_DEPTH, MAX_ITEMS, MAX_MADE, MAX_STEPS};
use asdf_tree::yaml::event::Mark;
use asdf_tree::yaml::survey::{PathId, Paths};

use super::super::external::unescaped;
use super::entry::ArrayEntry;
use super::node_paths::{NAMES, NodePaths};
use crate::folder::names::original;
use crate::folder::path_dir::Item;
use crate::folder::path_tree::{Id, PathTree};

/// Endings of the files of arrays and masks.
const ENDING: &str = ".npy";
const MASK_ENDING: &str = ".mask.npy";

/// The entry for a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PlaceEntry {
    /// The file of an array.
    Array,
    /// The file of an array's mask, beside the file of the array.
    Mask,
    /// A directory with arrays.
    Dir,
    /// A reference into another file.
    Reference,
    /// A node without arrays of this file, but with references into other files.
    WithReferences,
}

/// The node that an alias or a reference leads to.
pub(super) enum LinkTarget {
    /// A node with an entry.
    Shown(Id),
    /// The path from a reference into another file on, which decides if there is an entry; or a node that
    /// contains such references.
    Pending(Id, Vec<Id>),
}

/// Paths in `arrays/`.
pub(super) struct PathsInArrays {
    paths: NodePaths,
    /// The entry for the node at a place.
    nodes: HashMap<Id, PlaceEntry>,
    /// The target of the alias or reference at each place, by the number of the place.
    mentions: Vec<Option<Id>>,
    /// Number of components visited to resolve aliases and references.
    looked_at: Cell<usize>,
    /// Size of the targets of all links so far, in bytes; numbers of links and references so far.
    targets: usize,
    links: usize,
    references: usize,
    /// True if files or links were left out because there are too many.
    pub(super) is_full: bool,
}

impl PathsInArrays {
    pub(super) fn new() -> Self {
        Self {
            paths: NodePaths::new(NAMES),
            nodes: HashMap::new(),
            mentions: Vec::new(),
            looked_at: Cell::new(0),
            targets: 0,
            links: 0,
            references: 0,
            is_full: false,
        }
    }

    /// Returns the place of a node; `None` if its path is too long.
    pub(super) fn place(&mut self, paths: &Paths, path: Option<PathId>) -> Option<Id> {
        self.paths.of(paths, path)
    }

    /// Returns the place that a fragment (a JSON Pointer) leads to; `None` for the whole tree, or if the path
    /// is too long.
    pub(super) fn place_of_pointer(&mut self, fragment: &str) -> Option<Id> {
        let components = components_of_pointer(fragment)?;
        components.iter().try_fold(PathTree::ROOT, |place, name| self.paths.tree.join(place, name))
    }

    /// Records that an array is shown at a place.
    pub(super) fn announce(&mut self, place: Id) {
        let mut above = self.paths.tree.parent(place);
        while let Some(dir) = above.filter(|dir| *dir != PathTree::ROOT) {
            match self.nodes.entry(dir) {
                // The directories above it are already recorded.
                MapEntry::Occupied(_) => break,
                MapEntry::Vacant(entry) => drop(entry.insert(PlaceEntry::Dir)),
            }
            above = self.paths.tree.parent(dir);
        }
        self.nodes.insert(place, PlaceEntry::Array);
    }

    /// Records that a reference into another file is at a place.
    pub(super) fn announce_reference(&mut self, place: Id) {
        self.announce_link(place, true);
        self.nodes.insert(place, PlaceEntry::Reference);
    }

    /// Records that a link is shown at a place, or may be shown if it is `pending`: so are the directories
    /// above it.
    pub(super) fn announce_link(&mut self, place: Id, pending: bool) {
        let entry = if pending { PlaceEntry::WithReferences } else { PlaceEntry::Dir };
        let mut above = self.paths.tree.parent(place);
        while let Some(dir) = above.filter(|dir| *dir != PathTree::ROOT) {
            match self.nodes.entry(dir) {
                // The directories above it are already recorded.
                MapEntry::Occupied(known) if *known.get() == PlaceEntry::Dir || *known.get() == entry => {
                    break;
                }
                MapEntry::Occupied(mut known) if *known.get() == PlaceEntry::WithReferences => {
                    known.insert(entry);
                }
                MapEntry::Occupied(_) => {}
                MapEntry::Vacant(free) => drop(free.insert(entry)),
            }
            above = self.paths.tree.parent(dir);
        }
    }

    /// Records that the mask of an array is at a place.
    pub(super) fn announce_mask(&mut self, place: Id) {
        self.nodes.insert(place, PlaceEntry::Mask);
    }

    /// Returns the file of an array, or of the array's mask, at a place.
    pub(super) fn file(&mut self, place: Id, is_mask: bool, what: ArrayEntry) -> Item<ArrayEntry> {
        self.paths.item(place, if is_mask { MASK_ENDING } else { ENDING }, what)
    }

    /// Counts a reference into another file. False if there are too many to show it.
    pub(super) fn has_room_for_reference(&mut self) -> bool {
        self.references += 1;
        self.is_full |= self.references > MAX_ITEMS;
        self.references <= MAX_ITEMS
    }

    /// Records an alias or reference at `from` to the node at `to`.
    pub(super) fn mention(&mut self, from: Id, to: Id) {
        set(&mut self.mentions, from.index(), to);
    }

    /// Returns the target of the alias or reference at a place.
    pub(super) fn mentioned(&self, place: Id) -> Option<Id> {
        at_index(&self.mentions, place.index())
    }

    /// True if a place has an entry, or may have one after aliases and references are followed.
    pub(super) fn may_be_shown(&self, place: Id) -> bool {
        self.nodes.contains_key(&place) || self.mentioned(place).is_some()
    }

    /// Returns all places, by the place above them.
    pub(super) fn by_parent(&self) -> HashMap<Id, Vec<Id>> {
        let mut children: HashMap<Id, Vec<Id>> = HashMap::new();
        for place in self.paths.tree.all() {
            if let Some(parent) = self.paths.tree.parent(place) {
                children.entry(parent).or_default().push(place);
            }
        }
        children
    }

    /// Returns the key of the last component of a place; `None` if the key has several components.
    pub(super) fn key(&self, place: Id) -> Option<String> {
        let key = original([OsStr::new(self.paths.tree.component(place))])?;
        String::from_utf8(key).ok()
    }

    /// Returns the place that has the last component of `child` in another place.
    pub(super) fn same_in(&mut self, parent: Id, child: Id) -> Option<Id> {
        let component = self.paths.tree.component(child).to_owned();
        self.paths.tree.join(parent, &component)
    }

    /// Returns the node that a path leads to after aliases and references are followed; `None` if it has no
    /// entry, or if the references are circular.
    pub(super) fn resolve(&self, place: Id) -> Option<LinkTarget> {
        if let Some(target) = self.target_at(place) {
            return Some(target);
        }
        let mut path = self.paths.tree.prefixes(place);
        for _ in 0..MAX_CHAIN {
            self.looked_at.set(self.looked_at.get().saturating_add(path.len()));
            if path.len() > MAX_DEPTH || self.looked_at.get() >= MAX_STEPS {
                return None;
            }
            // The shortest prefix of the path that is an alias or a reference.
            let mut at = Some(PathTree::ROOT);
            let mut mention = None;
            for (depth, name) in path.iter().enumerate() {
                at = at.and_then(|at| self.paths.tree.child(at, *name));
                let Some(here) = at else { break };
                if mention.is_none() && self.nodes.get(&here) == Some(&PlaceEntry::Reference) {
                    return Some(LinkTarget::Pending(here, path[depth + 1..].to_vec()));
                }
                mention = mention.or_else(|| Some((depth + 1, self.mentioned(here)?)));
            }
            if let Some(target) = at.and_then(|at| self.target_at(at)) {
                return Some(target);
            }
            let (depth, target) = mention?;
            path = [&self.paths.tree.prefixes(target)[..], &path[depth..]].concat();
        }
        None
    }

    /// Returns the target at a place that has an entry, or may have one.
    fn target_at(&self, place: Id) -> Option<LinkTarget> {
        Some(match self.nodes.get(&place)? {
            PlaceEntry::Reference | PlaceEntry::WithReferences => LinkTarget::Pending(place, Vec::new()),
            PlaceEntry::Array | PlaceEntry::Mask | PlaceEntry::Dir => LinkTarget::Shown(place),
        })
    }

    /// Returns a link from an alias or reference at a place in the tree to its node, if the node has an entry.
    pub(super) fn link(&mut self, from: Id, to: Id, place: Mark) -> Option<Item<ArrayEntry>> {
        match self.resolve(to)? {
            LinkTarget::Shown(to) => self.link_to(from, to, false),
            LinkTarget::Pending(to, below) => self.pending(from, to, &below, place),
        }
    }

    /// Returns the entry of a link from `from` to a node that may have an entry.
    fn pending(&mut self, from: Id, to: Id, below: &[Id], place: Mark) -> Option<Item<ArrayEntry>> {
        if from == to && below.is_empty() {
            return None;
        }
        let target = self.paths.tree.shared(to);
        let target = below.iter().fold(target, |path, name| path.join(self.paths.tree.component(*name)));
        let len: usize = target.names().iter().map(|name| name.len() + 1).sum();
        self.has_room_for_link(len).then(|| self.paths.item(from, "", ArrayEntry::Pending(place, target)))
    }

    /// Counts a link and the length of its target. False if there are too many to show it.
    fn has_room_for_link(&mut self, target: usize) -> bool {
        self.links += 1;
        self.targets += target;
        let has_room = self.links <= MAX_ITEMS && self.targets <= MAX_MADE;
        self.is_full |= !has_room;
        has_room
    }

    /// Returns a link to a node with an entry; `None` if it is the node itself: a repeated key that has the
    /// same value.
    pub(super) fn link_to(&mut self, from: Id, to: Id, is_mask: bool) -> Option<Item<ArrayEntry>> {
        let shown = *self.nodes.get(&to)?;
        if from == to && !is_mask {
            return None;
        }
        let tree = &self.paths.tree;
        // The mask of an array stands beside the array.
        let to = if shown == PlaceEntry::Mask { tree.parent(to)? } else { to };
        let mut text = tree.way(tree.parent(from)?, tree.parent(to)?).join("/");
        if !text.is_empty() {
            text.push('/');
        }
        text.push_str(tree.component(to));
        text.push_str(match shown {
            PlaceEntry::Array => ENDING,
            PlaceEntry::Mask => MASK_ENDING,
            PlaceEntry::Dir | PlaceEntry::Reference | PlaceEntry::WithReferences => "",
        });
        let ending = match shown {
            PlaceEntry::Array | PlaceEntry::Mask if is_mask => MASK_ENDING,
            PlaceEntry::Array | PlaceEntry::Mask => ENDING,
            PlaceEntry::Dir | PlaceEntry::Reference | PlaceEntry::WithReferences => "",
        };
        self.has_room_for_link(text.len())
            .then(|| self.paths.item(from, ending, ArrayEntry::Link(text.into())))
    }
}

/// Returns the value of a table at an index, if there is one.
fn at_index<T: Copy>(table: &[Option<T>], index: usize) -> Option<T> {
    table.get(index).copied().flatten()
}

/// Sets the value of a table at an index.
fn set<T: Copy>(table: &mut Vec<Option<T>>, index: usize, what: T) {
    if table.len() <= index {
        table.resize(index + 1, None);
    }
    table[index] = Some(what);
}

/// Returns the components of the path of a fragment (a JSON Pointer such as `/a/0`); `None` for the whole
/// tree.
pub(super) fn components_of_pointer(fragment: &str) -> Option<Vec<String>> {
    let pointer = String::from_utf8_lossy(&unescaped(fragment)).into_owned();
    let pointer = pointer.trim_start_matches('/');
    if pointer.is_empty() {
        return None;
    }
    let names = pointer.split('/').map(|name| name.replace("~1", "/").replace("~0", "~"));
    Some(names.flat_map(|name| NAMES.component(name.as_bytes())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_unescaped() {
        let of = |pointer| components_of_pointer(pointer).map(|path| path.join(" "));
        assert_eq!(of("/a/0/b").as_deref(), Some("a 0 b"));
        assert_eq!(of("a~1b/~0/~01").as_deref(), Some("a%2Fb ~ %7E1"));
        assert_eq!(of("/a%20b/%C3%A9").as_deref(), Some("a b é"));
        assert_eq!((of(""), of("/")), (None, None));
    }
}
