//! Files and links at paths, as a tree of directories. Time and memory to build it are linear in the number
//! of items and directories, whatever the length of their paths.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::shared_path::SharedPath;

/// A file or link in a directory.
#[derive(Clone, Debug)]
pub struct Item<T> {
    /// The path of the directory.
    pub folder: SharedPath,
    /// The name of the file.
    pub file: String,
    /// The data that the node is made from.
    pub what: T,
}

impl<T> Item<T> {
    /// Returns the components of the path, with `file` as the last one.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.folder.names().into_iter().chain([self.file.as_str()])
    }
}

/// A directory of [`Items`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FolderId(usize);

impl FolderId {
    /// The root.
    pub const ROOT: Self = Self(0);
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Child {
    /// The item with this number.
    Item(usize),
    /// A directory.
    Folder(FolderId),
}

/// Files and links at paths, sorted.
#[derive(Clone, Debug)]
pub struct Items<T>(Arc<Tree<T>>);

/// The items, and the directories that contain them.
#[derive(Debug)]
pub(super) struct Tree<T> {
    /// The items in the order of their paths.
    items: Vec<Item<T>>,
    folders: Vec<FolderNode>,
    /// The directory of each item.
    folder_of: Vec<FolderId>,
    /// The entries of all directories. Those of one directory are contiguous, and sorted by name.
    children: Vec<Child>,
}

#[derive(Debug, Default)]
struct FolderNode {
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

impl<T> Items<T> {
    /// Sorts items. Of several entries with one name, only the first is shown; a file comes before a
    /// directory.
    pub fn new(items: Vec<Item<T>>) -> Self {
        let (mut folders, folder_of) = folders_of(&items);
        let children = children_of(&items, &folder_of, &mut folders);
        let order = order(&children, &mut folders);
        let mut numbers = vec![0; order.len()];
        order.iter().enumerate().for_each(|(number, before)| numbers[*before] = number);
        let mut unsorted: Vec<Option<Item<T>>> = items.into_iter().map(Some).collect();
        let mut sorted = Vec::with_capacity(order.len());
        for before in &order {
            let path = &folders[folder_of[*before].0].path;
            // The items of a directory share its path, however they were made.
            sorted.extend(unsorted[*before].take().map(|item| Item { folder: path.clone(), ..item }));
        }
        let folder_of = order.iter().map(|before| folder_of[*before]).collect();
        let renumbered = children.into_iter().map(|child| match child {
            Child::Item(before) => Child::Item(numbers[before]),
            folder @ Child::Folder(_) => folder,
        });
        let mut tree = Tree { items: sorted, folders, folder_of, children: renumbered.collect() };
        tree.remove_doubles();
        Self(Arc::new(tree))
    }

    /// Iterates over all items, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Item<T>> {
        self.0.items.iter()
    }

    /// Returns the item with this number in the order.
    pub fn get(&self, number: usize) -> Option<&Item<T>> {
        self.0.get(number)
    }

    /// Returns the entry with this name in a directory.
    pub fn child(&self, folder: FolderId, name: &str) -> Option<Child> {
        self.0.child(folder, name)
    }

    /// Returns the numbers of the items in a directory or further below.
    pub fn numbers_in(&self, folder: FolderId) -> Range<usize> {
        self.0.folders.get(folder.0).map_or(0..0, |folder| folder.items.clone())
    }

    /// Returns the numbers of the items at a path or below it.
    pub fn numbers_below<'p>(&self, path: impl Iterator<Item = &'p str>) -> Range<usize> {
        self.numbers_from(FolderId::ROOT, path)
    }

    /// Returns the numbers of the items at or below the path that a link leads to. The link is the item
    /// `number`, and `text` is its target.
    pub fn numbers_behind(&self, number: usize, text: &str) -> Range<usize> {
        let Some(mut folder) = self.0.folder_of.get(number).copied() else { return 0..0 };
        let mut rest = text;
        while let Some(after) = rest.strip_prefix("../") {
            (folder, rest) = (FolderId(self.0.folders[folder.0].parent), after);
        }
        self.numbers_from(folder, rest.split('/'))
    }

    fn numbers_from<'p>(&self, mut folder: FolderId, path: impl Iterator<Item = &'p str>) -> Range<usize> {
        let mut path = path.peekable();
        while let Some(name) = path.next() {
            match self.0.child(folder, name) {
                Some(Child::Folder(below)) => folder = below,
                Some(Child::Item(number)) if path.peek().is_none() => return number..number + 1,
                _ => return 0..0,
            }
        }
        self.numbers_in(folder)
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.0.items.len()
    }

    /// True if there are no items.
    pub fn is_empty(&self) -> bool {
        self.0.items.is_empty()
    }

    pub(super) fn tree(&self) -> Arc<Tree<T>> {
        self.0.clone()
    }
}

impl<T> Tree<T> {
    pub(super) fn get(&self, number: usize) -> Option<&Item<T>> {
        self.items.get(number)
    }

    /// Returns the entries of a directory, sorted by name.
    pub(super) fn children(&self, folder: FolderId) -> &[Child] {
        let folder = self.folders.get(folder.0);
        folder.and_then(|folder| self.children.get(folder.children.clone())).unwrap_or_default()
    }

    pub(super) fn name(&self, child: Child) -> &str {
        name(&self.items, &self.folders, child)
    }

    pub(super) fn child(&self, folder: FolderId, name: &str) -> Option<Child> {
        let children = self.children(folder);
        let at = children.binary_search_by(|child| self.name(*child).cmp(name)).ok()?;
        children.get(at).copied()
    }

    /// Removes entries that have the name of the entry before them.
    fn remove_doubles(&mut self) {
        let all = std::mem::take(&mut self.children);
        let mut kept: Vec<Child> = Vec::with_capacity(all.len());
        let mut ranges = Vec::with_capacity(self.folders.len());
        for folder in &self.folders {
            let start = kept.len();
            for child in &all[folder.children.clone()] {
                let last = kept[start..].last();
                if last.is_none_or(|last| self.name(*last) != self.name(*child)) {
                    kept.push(*child);
                }
            }
            ranges.push(start..kept.len());
        }
        self.children = kept;
        self.folders.iter_mut().zip(ranges).for_each(|(folder, range)| folder.children = range);
    }
}

fn name<'n, T>(items: &'n [Item<T>], folders: &'n [FolderNode], child: Child) -> &'n str {
    match child {
        Child::Item(number) => items.get(number).map_or("", |item| &item.file),
        Child::Folder(id) => {
            folders.get(id.0).and_then(|folder| folder.path.split_last()).map_or("", |(_, name)| name)
        }
    }
}

/// Returns all directories above items, and the directory of each item.
fn folders_of<T>(items: &[Item<T>]) -> (Vec<FolderNode>, Vec<FolderId>) {
    let mut folders = vec![FolderNode::default()];
    let (mut by_name, mut by_address) = (HashMap::new(), HashMap::new());
    let folder_of = |item| {
        let Item { folder: path, .. }: &Item<T> = item;
        let (mut new, mut at) = (Vec::new(), path);
        let mut folder = loop {
            let Some((parent, name)) = at.split_last() else { break 0 };
            match by_address.get(&at.address()) {
                Some(known) => break *known,
                None => new.push((at, name)),
            }
            at = parent;
        };
        for (path, name) in new.into_iter().rev() {
            let parent = folder;
            folder = *by_name.entry((parent, name)).or_insert_with(|| {
                folders.push(FolderNode { path: path.clone(), parent, ..FolderNode::default() });
                folders.len() - 1
            });
            by_address.insert(path.address(), folder);
        }
        FolderId(folder)
    };
    let folder_of = items.iter().map(folder_of).collect();
    (folders, folder_of)
}

/// Returns the entries of all directories, sorted by directory and name, and notes in each directory the range
/// of its entries.
fn children_of<T>(items: &[Item<T>], folder_of: &[FolderId], folders: &mut [FolderNode]) -> Vec<Child> {
    let of_items = folder_of.iter().enumerate().map(|(number, folder)| (folder.0, Child::Item(number)));
    let of_folders = folders.iter().enumerate().skip(1);
    let of_folders = of_folders.map(|(id, folder)| (folder.parent, Child::Folder(FolderId(id))));
    let mut all: Vec<(usize, Child)> = of_items.chain(of_folders).collect();
    // The sort is stable: files stay before directories with the same name.
    all.sort_by(|(one_folder, one), (other_folder, other)| {
        let names = || name(items, folders, *one).cmp(name(items, folders, *other));
        one_folder.cmp(other_folder).then_with(names)
    });
    let mut start = 0;
    for children in all.chunk_by(|(one, _), (other, _)| one == other) {
        folders[children[0].0].children = start..start + children.len();
        start += children.len();
    }
    all.into_iter().map(|(_, child)| child).collect()
}

/// Returns the numbers of all items in the order of their paths, and sets the items of each directory.
fn order(children: &[Child], folders: &mut [FolderNode]) -> Vec<usize> {
    let mut order = Vec::new();
    let mut next: Vec<usize> = folders.iter().map(|folder| folder.children.start).collect();
    let mut open = vec![0];
    while let Some(&folder) = open.last() {
        let child = children[..folders[folder].children.end].get(next[folder]);
        next[folder] += 1;
        match child {
            Some(Child::Item(number)) => order.push(*number),
            Some(Child::Folder(FolderId(id))) => {
                folders[*id].items.start = order.len();
                open.push(*id);
            }
            None => {
                folders[folder].items.end = order.len();
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
        let (mut folder, mut items) = (SharedPath::default(), Vec::new());
        for what in 0..DEPTH {
            folder = folder.join("d");
            items.extend(["b", "a"].map(|file| Item { folder: folder.clone(), file: file.to_owned(), what }));
        }
        let items = Items::new(items);
        assert_eq!((items.len(), items.numbers_in(FolderId::ROOT)), (2 * DEPTH, 0..2 * DEPTH));
        assert_eq!(items.iter().take(3).map(|item| &*item.file).collect::<String>(), "aba");
        let (path, last) = (std::iter::repeat_n("d", DEPTH), 2 * DEPTH - 2);
        assert_eq!(items.numbers_below(path.clone()), last..2 * DEPTH);
        assert_eq!(items.numbers_below(path.chain(["b"])), last + 1..2 * DEPTH);
        assert_eq!(items.numbers_behind(last, "../b"), last - 1..last);
    }

    #[test]
    fn equal_paths_are_one_directory_and_the_first_of_equal_names_is_shown() {
        let item = |path: &str, what| {
            let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
            let folder = SharedPath::new(folder.split('/').filter(|name| !name.is_empty()));
            Item { folder, file: file.to_owned(), what }
        };
        let paths = ["x/a", "y", "x/b/c", "y/z", "x/a", "y"];
        let items = Items::new(paths.into_iter().zip(0..).map(|(path, what)| item(path, what)).collect());
        let numbers = |path: &str| items.numbers_below(path.split('/'));
        assert_eq!(items.iter().map(|item| item.what).collect::<Vec<_>>(), [0, 4, 2, 1, 5, 3]);
        assert_eq!((numbers("x"), numbers("x/a"), numbers("x/b"), numbers("y")), (0..3, 0..1, 2..3, 3..4));
        for path in ["", "z", "x/a/b", "x/b/d", "y/z"] {
            assert!(numbers(path).is_empty(), "{path}");
        }
        let addresses: Vec<_> = items.iter().take(2).map(|item| item.folder.address()).collect();
        assert_eq!(addresses[0], addresses[1]);
        assert_eq!(items.numbers_behind(2, "../a"), 0..1);
        assert_eq!(items.numbers_behind(0, "b/c"), 2..3);
        assert_eq!(items.numbers_behind(0, "../x/b"), 2..3);
    }
}
