//! Paths of directories that share their parents, so that each directory takes memory only for its own name.

use std::ops::ControlFlow;
use std::sync::Arc;

/// The path of a directory; empty for the root.
#[derive(Clone, Debug, Default)]
pub struct SharedPath(Option<Arc<Step>>);

#[derive(Debug)]
struct Step {
    parent: SharedPath,
    name: Box<str>,
}

impl SharedPath {
    /// Makes a path from names, that of the outermost directory first.
    pub fn new<N: Into<Box<str>>>(names: impl IntoIterator<Item = N>) -> Self {
        names.into_iter().fold(Self::default(), |path, name| path.join(name))
    }

    /// Returns the path of the directory `name` in this directory.
    #[must_use]
    pub fn join(&self, name: impl Into<Box<str>>) -> Self {
        Self(Some(Arc::new(Step { parent: self.clone(), name: name.into() })))
    }

    /// Returns the parent, and the directory's own name; `None` for the root.
    pub fn split_last(&self) -> Option<(&Self, &str)> {
        self.0.as_deref().map(|step| (&step.parent, &*step.name))
    }

    /// Returns all names, that of the outermost directory first.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        let mut at = self;
        while let Some((parent, name)) = at.split_last() {
            names.push(name);
            at = parent;
        }
        names.reverse();
        names
    }

    /// Returns a number that is equal for clones of a path. Equal paths that were made separately have
    /// different numbers.
    pub fn address(&self) -> usize {
        self.0.as_ref().map_or(0, |step| Arc::as_ptr(step) as usize)
    }
}

/// Goes up from a node to the nearest one whose value is known. Returns that value, and the nodes on the way from
/// there back down. `up` returns the known value of a node, or its parent.
pub(crate) fn up_to_known<N: Copy, V>(node: N, up: impl Fn(N) -> ControlFlow<V, N>) -> (V, Vec<N>) {
    let mut passed = Vec::new();
    let mut at = node;
    loop {
        match up(at) {
            ControlFlow::Break(known) => {
                passed.reverse();
                return (known, passed);
            }
            ControlFlow::Continue(parent) => passed.push(std::mem::replace(&mut at, parent)),
        }
    }
}

impl SharedPath {
    /// Goes up to the nearest directory whose value is known, as [`up_to_known`] does. The root has the value `root`.
    pub fn up_to_known<V>(&self, root: V, known: impl Fn(&Self) -> Option<V>) -> (V, Vec<(&Self, &str)>)
    where
        V: Clone,
    {
        let (value, passed) = up_to_known(self, |at| match (at.split_last(), known(at)) {
            (None, _) => ControlFlow::Break(root.clone()),
            (_, Some(known)) => ControlFlow::Break(known),
            (Some((parent, _)), None) => ControlFlow::Continue(parent),
        });
        (value, passed.into_iter().filter_map(|path| Some((path, path.split_last()?.1))).collect())
    }
}

impl Drop for SharedPath {
    /// Drops the parents in a loop, because a recursion would be as deep as the path.
    fn drop(&mut self) {
        let mut last = self.0.take();
        while let Some(mut step) = last.and_then(Arc::into_inner) {
            last = step.parent.0.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_share_their_parents() {
        let a = SharedPath::new(["a"]);
        let b = a.join("b");
        let c = a.join("c");
        assert_eq!((b.names(), c.names()), (vec!["a", "b"], vec!["a", "c"]));
        let (parent, name) = c.split_last().unwrap();
        assert_eq!((parent.address(), name), (a.address(), "c"));
        assert!(SharedPath::default().split_last().is_none());
        assert_ne!(a.address(), SharedPath::new(["a"]).address());
        let deep = SharedPath::new(std::iter::repeat_n("d", 1_000_000));
        let (parent, _) = deep.split_last().unwrap();
        let parent = parent.clone();
        drop(deep);
        assert_eq!(parent.names().len(), 999_999);
    }
}
