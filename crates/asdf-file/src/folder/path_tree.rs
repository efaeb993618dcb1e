//! Paths that share their prefixes: each path takes memory only for its last component.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;

use super::shared_path::{SharedPath, up_to_known};

/// A path of a [`PathTree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id(u32);

impl Id {
    /// Returns the number of the path. Paths are numbered as they are made.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A tree of paths. A path takes some 30 bytes, plus the text of its last component.
#[derive(Debug)]
pub struct PathTree {
    paths: Vec<Path>,
    /// The last components of all paths, in order.
    text: String,
    /// Paths by hash. If the hash is taken, the next free number is used.
    by_hash: HashMap<u32, Id>,
    hasher: RandomState,
    /// Paths as [`SharedPath`], so that each is made once.
    shared: HashMap<Id, SharedPath>,
    /// Added paths by their address. They are kept, so that no other path gets the address.
    by_address: HashMap<usize, (SharedPath, Id)>,
    /// Maximum length of a path, in bytes. For a longer path, `join` returns `None`.
    longest: usize,
}

#[derive(Debug)]
struct Path {
    parent: Id,
    /// The end of the last component in `text`. The component begins at the end of the previous path's
    /// component.
    end: u32,
    /// Length of all components in bytes, with a slash for each.
    len: u32,
}

impl PathTree {
    /// The path without components.
    pub const ROOT: Id = Id(0);

    /// Makes a tree for paths of at most `longest` bytes.
    pub fn new(longest: usize) -> Self {
        Self {
            paths: vec![Path { parent: Self::ROOT, end: 0, len: 0 }],
            text: String::new(),
            by_hash: HashMap::new(),
            hasher: RandomState::new(),
            shared: HashMap::new(),
            by_address: HashMap::new(),
            longest,
        }
    }

    /// Adds a component to a path; `None` if the result is too long.
    pub(crate) fn join(&mut self, parent: Id, component: &str) -> Option<Id> {
        let len = self.paths.get(parent.index())?.len as usize + component.len() + 1;
        if len > self.longest {
            return None;
        }
        let hash = match self.find(parent, component) {
            Ok(known) => return Some(known),
            Err(free) => free,
        };
        let id = Id(u32::try_from(self.paths.len()).ok()?);
        let end = u32::try_from(self.text.len() + component.len()).ok()?;
        self.paths.push(Path { parent, end, len: u32::try_from(len).ok()? });
        self.text.push_str(component);
        self.by_hash.insert(hash, id);
        Some(id)
    }

    /// Returns the path with one more component, or a free hash for it.
    fn find(&self, parent: Id, component: &str) -> Result<Id, u32> {
        // 32 bits distinguish most paths and take half the memory.
        let mut hash = self.hasher.hash_one((parent, component)) as u32;
        while let Some(id) = self.by_hash.get(&hash) {
            if self.parent(*id) == Some(parent) && self.component(*id) == component {
                return Ok(*id);
            }
            hash = hash.wrapping_add(1);
        }
        Err(hash)
    }

    /// Returns the path with these components, if it exists.
    pub fn get<'c>(&self, mut components: impl Iterator<Item = &'c str>) -> Option<Id> {
        components.try_fold(Self::ROOT, |parent, component| self.find(parent, component).ok())
    }

    /// Returns the path of `parent` and the last component of `other`, if that path exists.
    pub(crate) fn child(&self, parent: Id, other: Id) -> Option<Id> {
        if self.parent(other) == Some(parent) {
            Some(other)
        } else {
            self.find(parent, self.component(other)).ok()
        }
    }

    /// Iterates over all paths.
    pub(crate) fn all(&self) -> impl Iterator<Item = Id> {
        (0_u32..).take(self.paths.len()).map(Id)
    }

    /// Returns the path without its last component; `None` for the root.
    pub fn parent(&self, path: Id) -> Option<Id> {
        (path != Self::ROOT).then(|| self.paths.get(path.index()).map(|path| path.parent))?
    }

    /// Returns the last component of a path; empty for the root.
    pub fn component(&self, path: Id) -> &str {
        let end_of = |index: usize| self.paths.get(index).map(|entry| entry.end as usize);
        let range = path.index().checked_sub(1).and_then(end_of).zip(end_of(path.index()));
        range.and_then(|(start, end)| self.text.get(start..end)).unwrap_or_default()
    }

    /// Returns all prefixes of a path, shortest first, ending with the path itself.
    pub(crate) fn prefixes(&self, path: Id) -> Vec<Id> {
        let mut prefixes = Vec::new();
        let mut at = path;
        while let Some(parent) = self.parent(at) {
            prefixes.push(at);
            at = parent;
        }
        prefixes.reverse();
        prefixes
    }

    /// Returns a path as a [`SharedPath`].
    pub fn shared(&mut self, path: Id) -> SharedPath {
        let (mut shared, new) = up_to_known(path, |at| match (self.shared.get(&at), self.parent(at)) {
            (Some(known), _) => ControlFlow::Break(known.clone()),
            (None, None) => ControlFlow::Break(SharedPath::default()),
            (None, Some(parent)) => ControlFlow::Continue(parent),
        });
        for prefix in new {
            shared = shared.join(self.component(prefix));
            self.shared.insert(prefix, shared.clone());
        }
        shared
    }

    /// Adds the components of a [`SharedPath`]; `None` if the path is too long.
    pub fn add(&mut self, path: &SharedPath) -> Option<Id> {
        let known = |at: &SharedPath| self.by_address.get(&at.address()).map(|(_, id)| *id);
        let (mut id, new) = path.up_to_known(Self::ROOT, known);
        for (prefix, name) in new {
            id = self.join(id, name)?;
            self.by_address.insert(prefix.address(), (prefix.clone(), id));
        }
        Some(id)
    }

    /// Returns the way from one directory to another: `..` for each directory to leave, and then the names of
    /// the directories to enter. The time is linear in the length of the way.
    pub fn way(&self, mut from: Id, mut to: Id) -> Vec<&str> {
        let len = |path: Id| self.paths.get(path.index()).map_or(0, |path| path.len);
        let mut up = 0;
        let mut down = Vec::new();
        while from != to {
            // The longer path, or both of the same length, lie below the directory that they share.
            if len(from) >= len(to) {
                from = self.parent(from).unwrap_or(Self::ROOT);
                up += 1;
            } else {
                down.push(self.component(to));
                to = self.parent(to).unwrap_or(Self::ROOT);
            }
        }
        let mut way = vec![".."; up];
        way.extend(down.into_iter().rev());
        way
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_made_once_and_not_too_long() {
        let mut tree = PathTree::new(8);
        let a = tree.join(PathTree::ROOT, "a").unwrap();
        let seven = tree.join(a, "7").unwrap();
        assert_eq!(tree.join(a, "7"), Some(seven));
        assert_ne!(tree.join(a, "07"), Some(seven));
        assert_eq!((tree.shared(seven).names(), tree.parent(seven)), (vec!["a", "7"], Some(a)));
        assert_eq!((tree.join(seven, "xyz").is_some(), tree.join(seven, "wxyz")), (true, None));
        assert_eq!((tree.parent(PathTree::ROOT), tree.shared(PathTree::ROOT).names().len()), (None, 0));
        let b = tree.join(PathTree::ROOT, "b").unwrap();
        assert_eq!((tree.child(b, seven), tree.child(a, seven)), (None, Some(seven)));
        let other = tree.join(b, "7").unwrap();
        assert_eq!((tree.child(b, seven), tree.prefixes(other)), (Some(other), vec![b, other]));
        assert_eq!((tree.get(["b", "7"].into_iter()), tree.get(["7"].into_iter())), (Some(other), None));
        let path = SharedPath::new(["b", "7"]);
        assert_eq!((tree.add(&path), tree.add(&path)), (Some(other), Some(other)));
        assert_eq!(tree.way(seven, other), ["..", "..", "b", "7"]);
        assert_eq!((tree.way(a, seven), tree.way(seven, a)), (vec!["7"], vec![".."]));
        assert_eq!((tree.way(b, PathTree::ROOT), tree.way(b, b)), (vec![".."], vec![]));
    }
}
