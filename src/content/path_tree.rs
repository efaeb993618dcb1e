//! Paths that share their beginnings: the memory that they take grows with their last components alone.

use std::collections::HashMap;

/// A path of a [`PathTree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id(u32);

/// A component: a number as it is, or which text it is among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Name {
    /// Decimal digits.
    Number(u64),
    /// Any other text.
    Text(u32),
}

/// Paths of components, from a root on.
#[derive(Debug)]
pub struct PathTree {
    paths: Vec<Path>,
    children: HashMap<(Id, Name), Id>,
    texts: Vec<Box<str>>,
    known: HashMap<Box<str>, u32>,
    /// The longest path, in bytes; longer ones are not made.
    longest: usize,
}

#[derive(Debug)]
struct Path {
    parent: Id,
    name: Name,
    /// Bytes of all components, each with a slash.
    len: u32,
}

impl PathTree {
    /// The path without components.
    pub const ROOT: Id = Id(0);

    /// Holds paths of up to so many bytes.
    pub fn new(longest: usize) -> Self {
        let root = Path { parent: Self::ROOT, name: Name::Number(0), len: 0 };
        Self {
            paths: vec![root],
            children: HashMap::new(),
            texts: Vec::new(),
            known: HashMap::new(),
            longest,
        }
    }

    /// Returns the path with one component more; `None` if it is too long.
    pub fn join(&mut self, parent: Id, component: &str) -> Option<Id> {
        let len = self.paths.get(parent.0 as usize)?.len as usize + component.len() + 1;
        if len > self.longest {
            return None;
        }
        let name = self.name_of(component)?;
        if let Some(id) = self.child(parent, name) {
            return Some(id);
        }
        let id = Id(u32::try_from(self.paths.len()).ok()?);
        self.paths.push(Path { parent, name, len: u32::try_from(len).ok()? });
        self.children.insert((parent, name), id);
        Some(id)
    }

    fn name_of(&mut self, component: &str) -> Option<Name> {
        let is_number = component.len() < 19
            && component.bytes().all(|byte| byte.is_ascii_digit())
            && (component == "0" || !component.starts_with('0'));
        if let (true, Ok(number)) = (is_number, component.parse()) {
            return Some(Name::Number(number));
        }
        if let Some(known) = self.known.get(component) {
            return Some(Name::Text(*known));
        }
        let number = u32::try_from(self.texts.len()).ok()?;
        self.texts.push(component.into());
        self.known.insert(component.into(), number);
        Some(Name::Text(number))
    }

    /// Returns the path one component on, if it was made.
    pub fn child(&self, parent: Id, name: Name) -> Option<Id> {
        self.children.get(&(parent, name)).copied()
    }

    /// Returns a path without its last component; `None` for the root.
    pub fn parent(&self, path: Id) -> Option<Id> {
        (path != Self::ROOT).then(|| self.paths.get(path.0 as usize).map(|path| path.parent))?
    }

    /// Returns the names of the components of a path, from the root on.
    pub fn names(&self, path: Id) -> Vec<Name> {
        let mut names = Vec::new();
        let mut at = path;
        while let Some(parent) = self.parent(at) {
            names.extend(self.paths.get(at.0 as usize).map(|path| path.name));
            at = parent;
        }
        names.reverse();
        names
    }

    /// Returns the components of a path, from the root on.
    pub fn components(&self, path: Id) -> Vec<String> {
        let text = |name: Name| match name {
            Name::Number(number) => number.to_string(),
            Name::Text(text) => {
                self.texts.get(text as usize).map(|text| text.to_string()).unwrap_or_default()
            }
        };
        self.names(path).into_iter().map(text).collect()
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
    }
}
