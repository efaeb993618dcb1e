//! Files and links at paths, as a tree of directories. Time and memory to build it are linear in the number
//! of items and directories, whatever the length of their paths.

use std::collections::HashMap;
use std::ops::{Deref, Range};
use std::sync::Arc;

use super::shared_path::SharedPath;

/// A file or link in a directory.
#[derive(Clone, Debug)]
pub struct Item<T> {
    /// The path of the directory.
    pub dir: SharedPath,
    /// The name of the file.
    pub file: String,
    /// The data that the node is made from.
    pub what: T,
}

impl<T> Item<T> {
    /// Returns the components of the path, with `file` as the last one.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.dir.names().into_iter().chain([self.file.as_str()])
    }
}

/// A directory of [`Items`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DirId(usize);

impl DirId {
    /// The root.
    pub(crate) const ROOT: Self = Self(0);
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Child {
    /// The item with this number.
    Item(usize),
    /// A directory.
    Dir(DirId),
}

/// Files and links at paths, in the order of their paths.
#[derive(Clone, Debug)]
pub struct Items<T>(pub(crate) Arc<Tree<T>>);

/// The items, and the directories that contain them.
#[derive(Debug)]
pub(crate) struct Tree<T> {
    /// The items in the order of their paths.
    pub(super) items: Vec<Item<T>>,
    dirs: Vec<DirNode>,
    /// The directory of each item.
    dir_of: Vec<DirId>,
    /// The entries of all directories. Those of one directory are contiguous, and sorted by name.
    children: Vec<Child>,
}

#[derive(Debug, Default)]
struct DirNode {
    path: SharedPath,
    parent: usize,
    children: Range<usize>,
    /// The numbers of the items in this directory or further below.
    items: Range<usize>,
}

impl<T> Default for Items<T> {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl<T> Deref for Items<T> {
    type Target = [Item<T>];

    fn deref(&self) -> &[Item<T>] {
        &self.0.items
    }
}

impl<T> Items<T> {
    /// Sorts items. Of several entries with one name, only the first is shown; a file comes before a
    /// directory.
    pub fn new(items: Vec<Item<T>>) -> Self {
        let (mut dirs, dir_of) = dirs_of(&items);
        let children = children_of(&items, &dir_of, &mut dirs);
        let order = order(&children, &mut dirs);
        let mut numbers = vec![0; order.len()];
        for (number, before) in order.iter().enumerate() {
            numbers[*before] = number;
        }
        let mut unsorted: Vec<Option<Item<T>>> = items.into_iter().map(Some).collect();
        let mut sorted = Vec::with_capacity(order.len());
        for before in &order {
            let path = &dirs[dir_of[*before].0].path;
            // The items of a directory share its path, however they were made.
            sorted.extend(unsorted[*before].take().map(|item| Item { dir: path.clone(), ..item }));
        }
        let dir_of = order.iter().map(|before| dir_of[*before]).collect();
        let renumbered = children.into_iter().map(|child| match child {
            Child::Item(before) => Child::Item(numbers[before]),
            dir @ Child::Dir(_) => dir,
        });
        let mut tree = Tree { items: sorted, dirs, dir_of, children: renumbered.collect() };
        tree.remove_doubles();
        Self(Arc::new(tree))
    }

    /// Returns the numbers of the items in a directory or further below.
    pub(crate) fn numbers_in(&self, dir: DirId) -> Range<usize> {
        self.0.dirs.get(dir.0).map_or(0..0, |dir| dir.items.clone())
    }

    /// Returns the numbers of the items at a path or below it.
    pub fn numbers_below<'p>(&self, path: impl Iterator<Item = &'p str>) -> Range<usize> {
        self.numbers_from(DirId::ROOT, path)
    }

    /// Returns the numbers of the items at or below the path that a link leads to. The link is the item
    /// `number`, and `text` is its target.
    pub fn numbers_behind(&self, number: usize, text: &str) -> Range<usize> {
        let Some(mut dir) = self.0.dir_of.get(number).copied() else { return 0..0 };
        let mut rest = text;
        while let Some(after) = rest.strip_prefix("../") {
            (dir, rest) = (DirId(self.0.dirs[dir.0].parent), after);
        }
        self.numbers_from(dir, rest.split('/'))
    }

    fn numbers_from<'p>(&self, mut dir: DirId, path: impl Iterator<Item = &'p str>) -> Range<usize> {
        let mut path = path.peekable();
        while let Some(name) = path.next() {
            match self.0.child(dir, name) {
                Some(Child::Dir(below)) => dir = below,
                Some(Child::Item(number)) if path.peek().is_none() => return number..number + 1,
                _ => return 0..0,
            }
        }
        self.numbers_in(dir)
    }
}

impl<T> Tree<T> {
    /// Returns the entries of a directory, sorted by name.
    pub(super) fn children(&self, dir: DirId) -> &[Child] {
        let dir = self.dirs.get(dir.0);
        dir.and_then(|dir| self.children.get(dir.children.clone())).unwrap_or_default()
    }

    pub(super) fn name(&self, child: Child) -> &str {
        name(&self.items, &self.dirs, child)
    }

    /// Returns the entry with this name in a directory.
    pub(crate) fn child(&self, dir: DirId, name: &str) -> Option<Child> {
        let children = self.children(dir);
        let at = children.binary_search_by(|child| self.name(*child).cmp(name)).ok()?;
        children.get(at).copied()
    }

    /// Removes entries that have the name of the entry before them.
    fn remove_doubles(&mut self) {
        let all = std::mem::take(&mut self.children);
        let mut kept: Vec<Child> = Vec::with_capacity(all.len());
        let mut ranges = Vec::with_capacity(self.dirs.len());
        for dir in &self.dirs {
            let start = kept.len();
            for child in &all[dir.children.clone()] {
                let last = kept[start..].last();
                if last.is_none_or(|last| self.name(*last) != self.name(*child)) {
                    kept.push(*child);
                }
            }
            ranges.push(start..kept.len());
        }
        self.children = kept;
        for (dir, range) in self.dirs.iter_mut().zip(ranges) {
            dir.children = range;
        }
    }
}

fn name<'n, T>(items: &'n [Item<T>], dirs: &'n [DirNode], child: Child) -> &'n str {
    match child {
        Child::Item(number) => items.get(number).map_or("", |item| &item.file),
        Child::Dir(id) => dirs.get(id.0).and_then(|dir| dir.path.split_last()).map_or("", |(_, name)| name),
    }
}

/// Returns all directories above items, and the directory of each item.
fn dirs_of<T>(items: &[Item<T>]) -> (Vec<DirNode>, Vec<DirId>) {
    let mut dirs = vec![DirNode::default()];
    let mut by_name = HashMap::new();
    let mut by_address = HashMap::new();
    let dir_of = |item| {
        let Item { dir: path, .. }: &Item<T> = item;
        let (mut dir, new) = path.up_to_known(0, |at| by_address.get(&at.address()).copied());
        for (prefix, name) in new {
            let parent = dir;
            dir = *by_name.entry((parent, name)).or_insert_with(|| {
                dirs.push(DirNode { path: prefix.clone(), parent, ..DirNode::default() });
                dirs.len() - 1
            });
            by_address.insert(prefix.address(), dir);
        }
        DirId(dir)
    };
    let dir_of = items.iter().map(dir_of).collect();
    (dirs, dir_of)
}

/// Returns the entries of all directories, sorted by directory and name, and notes in each directory the range
/// of its entries.
fn children_of<T>(items: &[Item<T>], dir_of: &[DirId], dirs: &mut [DirNode]) -> Vec<Child> {
    let of_items = dir_of.iter().enumerate().map(|(number, dir)| (dir.0, Child::Item(number)));
    let of_dirs = dirs.iter().enumerate().skip(1);
    let of_dirs = of_dirs.map(|(id, dir)| (dir.parent, Child::Dir(DirId(id))));
    let mut all: Vec<(usize, Child)> = of_items.chain(of_dirs).collect();
    // The sort is stable: files stay before directories with the same name.
    all.sort_by(|(one_dir, one), (other_dir, other)| {
        let names = || name(items, dirs, *one).cmp(name(items, dirs, *other));
        one_dir.cmp(other_dir).then_with(names)
    });
    let mut start = 0;
    for children in all.chunk_by(|(one, _), (other, _)| one == other) {
        dirs[children[0].0].children = start..start + children.len();
        start += children.len();
    }
    all.into_iter().map(|(_, child)| child).collect()
}

/// Returns the numbers of all items in the order of their paths, and sets the items of each directory.
fn order(children: &[Child], dirs: &mut [DirNode]) -> Vec<usize> {
    let mut order = Vec::new();
    let mut next: Vec<usize> = dirs.iter().map(|dir| dir.children.start).collect();
    let mut open = vec![0];
    while let Some(&dir) = open.last() {
        let child = children[..dirs[dir].children.end].get(next[dir]);
        next[dir] += 1;
        match child {
            Some(Child::Item(number)) => order.push(*number),
            Some(Child::Dir(DirId(id))) => {
                dirs[*id].items.start = order.len();
                open.push(*id);
            }
            None => {
                dirs[dir].items.end = order.len();
                open.pop();
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_paths_take_memory_for_their_own_names_only() {
        // A copy of each path would take some 60 GB.
        const DEPTH: usize = 50_000;
        let mut dir = SharedPath::default();
        let mut items = Vec::new();
        for what in 0..DEPTH {
            dir = dir.join("d");
            items.extend(["b", "a"].map(|file| Item { dir: dir.clone(), file: file.to_owned(), what }));
        }
        let items = Items::new(items);
        assert_eq!((items.len(), items.numbers_in(DirId::ROOT)), (2 * DEPTH, 0..2 * DEPTH));
        assert_eq!(items.iter().take(3).map(|item| &*item.file).collect::<String>(), "aba");
        let path = std::iter::repeat_n("d", DEPTH);
        let last = 2 * DEPTH - 2;
        assert_eq!(items.numbers_below(path.clone()), last..2 * DEPTH);
        assert_eq!(items.numbers_below(path.chain(["b"])), last + 1..2 * DEPTH);
        assert_eq!(items.numbers_behind(last, "../b"), last - 1..last);
    }

    #[test]
    fn equal_paths_are_one_directory_and_the_first_of_equal_names_is_shown() {
        let item = |path: &str, what| {
            let (dir, file) = path.rsplit_once('/').unwrap_or(("", path));
            let dir = SharedPath::new(dir.split('/').filter(|name| !name.is_empty()));
            Item { dir, file: file.to_owned(), what }
        };
        let paths = ["x/a", "y", "x/b/c", "y/z", "x/a", "y"];
        let items = Items::new(paths.into_iter().zip(0..).map(|(path, what)| item(path, what)).collect());
        let numbers = |path: &str| items.numbers_below(path.split('/'));
        assert_eq!(items.iter().map(|item| item.what).collect::<Vec<_>>(), [0, 4, 2, 1, 5, 3]);
        assert_eq!((numbers("x"), numbers("x/a"), numbers("x/b"), numbers("y")), (0..3, 0..1, 2..3, 3..4));
        for path in ["", "z", "x/a/b", "x/b/d", "y/z"] {
            assert!(numbers(path).is_empty(), "{path}");
        }
        let addresses: Vec<_> = items.iter().take(2).map(|item| item.dir.address()).collect();
        assert_eq!(addresses[0], addresses[1]);
        assert_eq!(items.numbers_behind(2, "../a"), 0..1);
        assert_eq!(items.numbers_behind(0, "b/c"), 2..3);
        assert_eq!(items.numbers_behind(0, "../x/b"), 2..3);
    }
}
