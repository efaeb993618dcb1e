//! Paths of nodes in `arrays/`, and targets of links.

use std::cell::Cell;
use std::collections::hash_map::Entry as MapEntry;
use std::collections::{HashMap, HashSet};

use super::super::external::unescaped;
use super::entry::ArrayEntry;
use crate::content::names::ViewNames;
use crate::content::path_folder::Item;
use crate::content::path_tree::{Id, PathTree};
use crate::yaml::parser::MAX_DEPTH;
use crate::yaml::survey::{PathId, Paths, Step};

/// Maximal length of a path, in bytes. Linux refuses paths of 4096 bytes.
const LONGEST_PATH: usize = 3000;
/// Maximal length of a chain of aliases and references, equal to the system's limit for links.
const LONGEST_CHAIN: usize = 40;
/// Maximal number of components visited in all to resolve aliases and references.
const MOST_LOOKED_AT: usize = 1 << 26;

/// Endings of the files of arrays and masks.
const ENDING: &str = ".npy";
const MASK_ENDING: &str = ".mask.npy";
const NAMES: ViewNames = ViewNames { endings: &[ENDING, ".mask"] };

/// Maximal size of the paths of all files and links, in bytes.
const MOST_PATHS: usize = 64 << 20;
/// Size of a component without its text, in bytes.
const COMPONENT: usize = 48;
/// Maximal number of links.
const MOST_LINKS: usize = 1 << 17;

/// The entry for a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PlaceEntry {
    /// The file of an array.
    Array,
    /// The file of an array's mask, beside the file of the array.
    Mask,
    /// A directory with arrays.
    Folder,
}

/// Paths in `arrays/`.
pub(super) struct PathsInArrays {
    tree: PathTree,
    /// The places of requested nodes, by the number of their path; `Some(None)` if the path is too long.
    known: Vec<Option<Option<Id>>>,
    /// The entry for the node at a place.
    nodes: HashMap<Id, PlaceEntry>,
    /// The target of the alias or reference at each place, by the number of the place.
    mentions: Vec<Option<Id>>,
    /// Used file names, with their directories.
    taken: HashSet<(Option<Id>, Box<str>)>,
    /// Number of components visited to resolve aliases and references.
    looked_at: Cell<usize>,
    /// Size of all paths so far, in bytes, and number of links so far.
    used: usize,
    links: usize,
    /// True if files or links were left out because there are too many.
    pub(super) is_full: bool,
}

impl PathsInArrays {
    pub(super) fn new() -> Self {
        Self {
            tree: PathTree::new(LONGEST_PATH),
            known: Vec::new(),
            nodes: HashMap::new(),
            mentions: Vec::new(),
            taken: HashSet::new(),
            looked_at: Cell::new(0),
            used: 0,
            links: 0,
            is_full: false,
        }
    }

    /// Returns the place of a node; `None` if its path is too long.
    pub(super) fn place(&mut self, paths: &Paths, path: Option<PathId>) -> Option<Id> {
        match path {
            None => NAMES.component(b"").iter().try_fold(PathTree::ROOT, |id, name| self.tree.join(id, name)),
            Some(_) => self.folder(paths, path),
        }
    }

    /// Returns the place of a node that contains others.
    fn folder(&mut self, paths: &Paths, path: Option<PathId>) -> Option<Id> {
        let mut steps = Vec::new();
        let mut at = path;
        let mut place = loop {
            let Some(id) = at else { break Some(PathTree::ROOT) };
            if let Some(known) = at_index(&self.known, id.index()) {
                break known;
            }
            let (parent, step) = paths.last(at)?;
            steps.push((id, step));
            at = parent;
        };
        for (id, step) in steps.into_iter().rev() {
            place = place.and_then(|place| match step {
                Step::Key(key) if key.len() > LONGEST_PATH => None,
                Step::Key(key) => {
                    let names = NAMES.component(key.as_bytes());
                    names.iter().try_fold(place, |place, name| self.tree.join(place, name))
                }
                Step::Item(n) => self.tree.join(place, &n.to_string()),
            });
            set(&mut self.known, id.index(), place);
        }
        place
    }

    /// Returns the place that a fragment (a JSON Pointer) leads to; `None` for the whole tree, or if the path
    /// is too long.
    pub(super) fn place_of_pointer(&mut self, fragment: &str) -> Option<Id> {
        let components = components_of_pointer(fragment)?;
        components.iter().try_fold(PathTree::ROOT, |place, name| self.tree.join(place, name))
    }

    /// Records that an array is shown at a place.
    pub(super) fn announce(&mut self, place: Id) {
        let mut above = self.tree.parent(place);
        while let Some(folder) = above.filter(|folder| *folder != PathTree::ROOT) {
            match self.nodes.entry(folder) {
                // The directories above it are already recorded.
                MapEntry::Occupied(_) => break,
                MapEntry::Vacant(entry) => drop(entry.insert(PlaceEntry::Folder)),
            }
            above = self.tree.parent(folder);
        }
        self.nodes.insert(place, PlaceEntry::Array);
    }

    /// Records that the mask of an array is at a place.
    pub(super) fn announce_mask(&mut self, place: Id) {
        self.nodes.insert(place, PlaceEntry::Mask);
    }

    /// Returns the file of an array, or of the array's mask, at a place; `None` if there are too many.
    pub(super) fn file(&mut self, place: Id, is_mask: bool, what: ArrayEntry) -> Option<Item<ArrayEntry>> {
        self.item(place, if is_mask { MASK_ENDING } else { ENDING }, what)
    }

    /// Records an alias or reference at `from` to the node at `to`.
    pub(super) fn mention(&mut self, from: Id, to: Id) {
        set(&mut self.mentions, from.index(), to);
    }

    /// Returns the place of the entry that a path leads to after aliases and references are followed; `None`
    /// if there is no entry, or if the references are circular.
    pub(super) fn resolve(&self, place: Id) -> Option<Id> {
        if self.nodes.contains_key(&place) {
            return Some(place);
        }
        let mut path = self.tree.prefixes(place);
        for _ in 0..LONGEST_CHAIN {
            self.looked_at.set(self.looked_at.get().saturating_add(path.len()));
            if path.len() > MAX_DEPTH || self.looked_at.get() >= MOST_LOOKED_AT {
                return None;
            }
            // The shortest prefix of the path that is an alias or a reference.
            let (mut at, mut mention) = (Some(PathTree::ROOT), None);
            for (depth, name) in path.iter().enumerate() {
                at = at.and_then(|at| self.tree.child(at, *name));
                let Some(here) = at else { break };
                mention = mention.or_else(|| Some((depth + 1, at_index(&self.mentions, here.index())?)));
            }
            if let Some(shown) = at.filter(|at| self.nodes.contains_key(at)) {
                return Some(shown);
            }
            let (depth, target) = mention?;
            path = [&self.tree.prefixes(target)[..], &path[depth..]].concat();
        }
        None
    }

    /// Returns a link from an alias or reference to its node, if the node has an entry.
    pub(super) fn link(&mut self, from: Id, to: Id, is_mask: bool) -> Option<Item<ArrayEntry>> {
        let to = self.resolve(to)?;
        let shown = *self.nodes.get(&to)?;
        if self.links >= MOST_LINKS {
            self.is_full = true;
            return None;
        }
        let (place, mut to) = (from, self.tree.components(to));
        let from = self.tree.components(from);
        if shown == PlaceEntry::Mask {
            to.pop();
        }
        to.last_mut()?.push_str(match shown {
            PlaceEntry::Array => ENDING,
            PlaceEntry::Mask => MASK_ENDING,
            PlaceEntry::Folder => "",
        });
        // The last component of each path is not a shared directory.
        let shared = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
        let shared = shared.min(from.len() - 1).min(to.len() - 1);
        let up = std::iter::repeat_n("..", from.len() - 1 - shared);
        let text = up.chain(to[shared..].iter().map(String::as_str)).collect::<Vec<_>>().join("/");
        let ending = match shown {
            PlaceEntry::Folder => "",
            _ if is_mask => MASK_ENDING,
            _ => ENDING,
        };
        self.links += 1;
        self.used += text.len();
        self.item(place, ending, ArrayEntry::Link(text.into()))
    }

    /// Returns an item with a unique file name.
    fn item(&mut self, place: Id, ending: &str, what: ArrayEntry) -> Option<Item<ArrayEntry>> {
        if self.used > MOST_PATHS {
            return None;
        }
        let path = self.tree.components(place);
        self.used += path.iter().map(|component| component.len() + COMPONENT).sum::<usize>();
        if self.used > MOST_PATHS {
            self.is_full = true;
            return None;
        }
        let folder = self.tree.parent(place);
        let stem = path.last()?;
        let (mut file, mut copy) = (format!("{stem}{ending}"), 0);
        while !self.taken.insert((folder, file.as_str().into())) {
            copy += 1;
            file = format!("{stem}~{copy}{ending}");
        }
        Some(Item { path: path.into(), file, what })
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

/// Returns the components of a node's path: escaped keys, and numbers of items.
pub(in super::super) fn components(steps: &[&Step]) -> Vec<String> {
    let mut components = Vec::with_capacity(steps.len());
    for step in steps {
        match step {
            Step::Key(key) => components.extend(NAMES.component(key.as_bytes())),
            Step::Item(n) => components.push(n.to_string()),
        }
    }
    if components.is_empty() {
        components.extend(NAMES.component(b""));
    }
    components
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
