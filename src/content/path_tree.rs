//! Paths that share their prefixes: each path takes memory only for its last component.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// A path of a [`PathTree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id(u32);

impl Id {
    /// Returns the number of the path. Paths are numbered as they are made.
    pub fn index(self) -> usize {
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
    /// Maximal length of a path, in bytes. For a longer path, `join` returns `None`.
    longest: usize,
}

#[derive(Debug)]
struct Path {
    parent: Id,
    /// The end of the last component in `text`. It begins at the end of the previous path's.
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
            longest,
        }
    }

    /// Adds a component to a path; `None` if the result is too long.
    pub fn join(&mut self, parent: Id, component: &str) -> Option<Id> {
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

    /// Returns the path of `parent` and the last component of `other`, if that path exists.
    pub fn child(&self, parent: Id, other: Id) -> Option<Id> {
        match self.parent(other) == Some(parent) {
            true => Some(other),
            false => self.find(parent, self.component(other)).ok(),
        }
    }

    /// Returns the path without its last component; `None` for the root.
    pub fn parent(&self, path: Id) -> Option<Id> {
        (path != Self::ROOT).then(|| self.paths.get(path.index()).map(|path| path.parent))?
    }

    /// Returns the last component of a path; empty for the root.
    fn component(&self, path: Id) -> &str {
        let end = |index: usize| self.paths.get(index).map(|path| path.end as usize);
        let range = path.index().checked_sub(1).and_then(end).zip(end(path.index()));
        range.and_then(|(start, end)| self.text.get(start..end)).unwrap_or_default()
    }

    /// Returns all prefixes of a path, shortest first, ending with the path itself.
    pub fn prefixes(&self, path: Id) -> Vec<Id> {
        let mut prefixes = Vec::new();
        let mut at = path;
        while let Some(parent) = self.parent(at) {
            prefixes.push(at);
            at = parent;
        }
        prefixes.reverse();
        prefixes
    }

    /// Returns the components of a path, from the root on.
    pub fn components(&self, path: Id) -> Vec<String> {
        self.prefixes(path).into_iter().map(|prefix| self.component(prefix).to_owned()).collect()
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
        assert_eq!(
            (tree.components(seven), tree.parent(seven)),
            (vec!["a".to_owned(), "7".to_owned()], Some(a))
        );
        assert_eq!((tree.join(seven, "xyz").is_some(), tree.join(seven, "wxyz")), (true, None));
        assert_eq!((tree.parent(PathTree::ROOT), tree.components(PathTree::ROOT).len()), (None, 0));
        let b = tree.join(PathTree::ROOT, "b").unwrap();
        assert_eq!((tree.child(b, seven), tree.child(a, seven)), (None, Some(seven)));
        let other = tree.join(b, "7").unwrap();
        assert_eq!((tree.child(b, seven), tree.prefixes(other)), (Some(other), vec![b, other]));
    }
}
