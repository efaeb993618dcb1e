//! Paths of nodes in a view, as components that share their prefixes.

use std::collections::HashMap;
use std::ops::ControlFlow;

use asdf_tree::limits::MAX_NAME;
use asdf_tree::yaml::survey::{PathId, Paths, Step};

use super::entry::ArrayEntry;
use crate::folder::names::{self, ViewNames};
use crate::folder::path_dir::Item;
use crate::folder::path_tree::{Id, PathTree};
use crate::folder::shared_path::up_to_known;

/// The escapes of names in `arrays/`.
pub const NAMES: ViewNames = ViewNames { endings: &[".npy", ".mask"] };

/// Returns the path of an array, or of the array of a mask, in the tree: that of its entry without ending and number of
/// a duplicate.
pub fn path_in_tree(item: &Item<ArrayEntry>) -> Vec<String> {
    let mut path: Vec<String> = item.components().map(str::to_owned).collect();
    if let Some(last) = path.last_mut() {
        let name = last.strip_suffix(".npy").unwrap_or(last);
        *last = names::without_duplicate(name.strip_suffix(".mask").unwrap_or(name)).to_owned();
    }
    path
}

/// Paths in a view. Each is made once, in time proportional to the length of its last component.
#[derive(Debug)]
pub struct NodePaths {
    /// The paths as directories and files.
    pub tree: PathTree,
    names: ViewNames,
    /// The paths of requested nodes, by the number of their path in the tree; `Some(None)` if the path is too
    /// long.
    known: Vec<Option<Option<Id>>>,
    /// Number of files and links so far whose names derive from the same path and ending.
    taken: HashMap<(Id, &'static str), u32>,
}

impl NodePaths {
    /// Makes paths as in `arrays/`.
    pub fn of_arrays() -> Self {
        Self::new(NAMES)
    }

    /// Makes paths with names that are escaped by these rules.
    pub fn new(names: ViewNames) -> Self {
        Self { tree: PathTree::new(MAX_NAME), names, known: Vec::new(), taken: HashMap::new() }
    }

    /// Returns the path of a node; `None` if it is too long. The root has the path of an empty key.
    pub fn of(&mut self, paths: &Paths, path: Option<PathId>) -> Option<Id> {
        match path {
            None => self.join(PathTree::ROOT, b""),
            Some(_) => self.dir(paths, path),
        }
    }

    /// Returns the path of the value of `key` in a node; `None` if it is too long.
    pub(crate) fn of_value(&mut self, paths: &Paths, path: Option<PathId>, key: &str) -> Option<Id> {
        self.dir(paths, path).and_then(|path| self.join(path, key.as_bytes()))
    }

    /// Creates the view's entry for the node at a path, with a unique file name.
    pub fn item<T>(&mut self, path: Id, ending: &'static str, what: T) -> Item<T> {
        let copies = self.taken.entry((path, ending)).or_default();
        let copy = match *copies {
            0 => String::new(),
            copy => format!("~{copy}"),
        };
        *copies += 1;
        let file = [self.tree.component(path), &copy, ending].concat();
        let dir = self.tree.parent(path).unwrap_or(PathTree::ROOT);
        Item { dir: self.tree.shared(dir), file, what }
    }

    fn join(&mut self, path: Id, key: &[u8]) -> Option<Id> {
        if key.len() > MAX_NAME {
            return None;
        }
        let names = self.names.component(key);
        names.iter().try_fold(path, |path, name| self.tree.join(path, name))
    }

    /// Returns the path of a node that contains others.
    fn dir(&mut self, paths: &Paths, path: Option<PathId>) -> Option<Id> {
        let (mut place, new) = up_to_known(path, |at| {
            let Some(id) = at else { return ControlFlow::Break(Some(PathTree::ROOT)) };
            match (self.known.get(id.index()).copied().flatten(), paths.last(at)) {
                (Some(known), _) => ControlFlow::Break(known),
                (None, None) => ControlFlow::Break(None),
                (None, Some((parent, _))) => ControlFlow::Continue(parent),
            }
        });
        for prefix in new {
            let (Some(id), Some((_, step))) = (prefix, paths.last(prefix)) else { return None };
            place = place.and_then(|place| match step {
                Step::Key(key) => self.join(place, key.as_bytes()),
                Step::Item(n) => self.tree.join(place, &n.to_string()),
            });
            if self.known.len() <= id.index() {
                self.known.resize(id.index() + 1, None);
            }
            self.known[id.index()] = Some(place);
        }
        place
    }
}
