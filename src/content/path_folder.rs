//! A directory tree of files at paths, and a directory of numbered directories.

use std::ffi::OsStr;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::folder::{EntryKind, Folder, Node};
use crate::error::Result;

/// A file or link at a path.
#[derive(Clone, Debug)]
pub struct Item<T> {
    /// The components of the path; `file` replaces the last one.
    pub path: Arc<[String]>,
    /// The name of the file.
    pub file: String,
    /// The data that the node is made from.
    pub what: T,
}

impl<T> Item<T> {
    fn component(&self, depth: usize) -> Option<&str> {
        match depth + 1 == self.path.len() {
            true => Some(&self.file),
            false => self.path.get(depth).map(String::as_str),
        }
    }

    /// Returns the components of the path, with `file` as the last one.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        (0..self.path.len()).filter_map(|depth| self.component(depth))
    }

    fn is_file(&self, depth: usize) -> bool {
        depth + 1 == self.path.len()
    }
}

/// Files and links at paths, sorted.
#[derive(Clone, Debug)]
pub struct Items<T>(Arc<[Item<T>]>);

impl<T> Default for Items<T> {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl<T> Items<T> {
    /// Sorts items. Their paths must be unique.
    pub fn new(mut items: Vec<Item<T>>) -> Self {
        items.sort_by(|one, other| one.components().cmp(other.components()));
        Self(items.into())
    }

    /// Iterates over all items, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Item<T>> {
        self.0.iter()
    }

    /// Returns the item with this number in the order.
    pub fn get(&self, number: usize) -> Option<&Item<T>> {
        self.0.get(number)
    }

    /// Returns all items, in order.
    pub fn all(&self) -> &[Item<T>] {
        &self.0
    }

    /// Returns the numbers of the items at a path or below it.
    pub fn numbers_below<'p>(&self, path: impl Iterator<Item = &'p str>) -> Range<usize> {
        let (mut here, mut start) = (&self.0[..], 0);
        for (depth, name) in path.enumerate() {
            start += here.partition_point(|item| item.component(depth) < Some(name));
            here = below(here, depth, name);
        }
        start..start + here.len()
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are no items.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns the items with component `name` at `depth`. All `items` must have the same components above.
pub fn below<'i, T>(items: &'i [Item<T>], depth: usize, name: &str) -> &'i [Item<T>] {
    let start = items.partition_point(|item| item.component(depth) < Some(name));
    let rest = items.get(start..).unwrap_or_default();
    &rest[..rest.partition_point(|item| item.component(depth) == Some(name))]
}

/// A function that makes the node of an item.
type Make<T> = Arc<dyn Fn(&T) -> Result<Node> + Send + Sync>;

/// A directory of the tree.
pub struct PathFolder<T> {
    items: Arc<[Item<T>]>,
    /// The items in this directory or further below.
    span: Range<usize>,
    /// The depth of the directory; 0 for the root.
    depth: usize,
    make: Make<T>,
    is_link: fn(&T) -> bool,
}

impl<T> PathFolder<T> {
    /// Makes the root; `make` makes the node of an item.
    pub fn new(items: &Items<T>, make: impl Fn(&T) -> Result<Node> + Send + Sync + 'static) -> Self {
        Self {
            items: items.0.clone(),
            span: 0..items.0.len(),
            depth: 0,
            make: Arc::new(make),
            is_link: |_| false,
        }
    }

    /// Lists items as links if `is_link` is true for them.
    #[must_use]
    pub fn with_links(self, is_link: fn(&T) -> bool) -> Self {
        Self { is_link, ..self }
    }

    fn items(&self) -> &[Item<T>] {
        self.items.get(self.span.clone()).unwrap_or_default()
    }

    /// Returns the end of the run of items that have the component of item `start`.
    fn end_of(&self, start: usize) -> usize {
        let items = self.items();
        let name = items.get(start).and_then(|item| item.component(self.depth));
        let is_same = |item: &Item<T>| item.component(self.depth) == name;
        match items.get(start + 1) {
            Some(next) if is_same(next) => {
                start + items.get(start..).map_or(0, |rest| rest.partition_point(is_same))
            }
            _ => start + 1,
        }
    }
}

impl<T> fmt::Debug for PathFolder<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("PathFolder").field("span", &self.span).field("depth", &self.depth).finish()
    }
}

impl<T: Send + Sync + 'static> Folder for PathFolder<T> {
    fn lookup(&self, name: &OsStr) -> Result<Option<Node>> {
        let Some(name) = name.to_str() else { return Ok(None) };
        let items = self.items();
        let start = items.partition_point(|item| item.component(self.depth) < Some(name));
        let Some(item) = items.get(start).filter(|item| item.component(self.depth) == Some(name)) else {
            return Ok(None);
        };
        if item.is_file(self.depth) {
            return (self.make)(&item.what).map(Some);
        }
        let span = self.span.start + start..self.span.start + self.end_of(start);
        let (items, make, is_link) = (self.items.clone(), self.make.clone(), self.is_link);
        Ok(Some(Node::Folder(Arc::new(Self { items, span, depth: self.depth + 1, make, is_link }))))
    }

    fn list(&self, from: u64, take: &mut dyn FnMut(&OsStr, EntryKind) -> bool) -> Result<()> {
        let (items, mut start, mut number) = (self.items(), 0, 0);
        while let Some(item) = items.get(start) {
            if let (true, Some(name)) = (number >= from, item.component(self.depth)) {
                let kind = match item.is_file(self.depth) {
                    true if (self.is_link)(&item.what) => EntryKind::Link,
                    true => EntryKind::File,
                    false => EntryKind::Folder,
                };
                if !take(OsStr::new(name), kind) {
                    break;
                }
            }
            start = self.end_of(start);
            number += 1;
        }
        Ok(())
    }
}

/// A directory of directories named 0, 1, 2 and so on.
pub struct CountedFolder<F> {
    count: u64,
    make: F,
}

impl<F: Fn(u64) -> Result<Node> + Send + Sync> CountedFolder<F> {
    /// Makes a directory with `count` entries; `make` makes the entry with a number.
    pub fn new(count: u64, make: F) -> Self {
        Self { count, make }
    }
}

impl<F> fmt::Debug for CountedFolder<F> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("CountedFolder").field("count", &self.count).finish_non_exhaustive()
    }
}

impl<F: Fn(u64) -> Result<Node> + Send + Sync> Folder for CountedFolder<F> {
    fn lookup(&self, name: &OsStr) -> Result<Option<Node>> {
        match number(name).filter(|number| *number < self.count) {
            Some(number) => (self.make)(number).map(Some),
            None => Ok(None),
        }
    }

    fn list(&self, from: u64, take: &mut dyn FnMut(&OsStr, EntryKind) -> bool) -> Result<()> {
        for number in from..self.count {
            if !take(OsStr::new(&number.to_string()), EntryKind::Folder) {
                break;
            }
        }
        Ok(())
    }
}

/// Parses a number as [`CountedFolder`] writes it.
fn number(name: &OsStr) -> Option<u64> {
    let digits = name.to_str()?;
    let plain = digits == "0" || !digits.starts_with('0');
    let plain = plain && digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Text;
    use crate::content::folder::{File, Keeping, resolve};

    fn folder(paths: &[&str]) -> PathFolder<u8> {
        let item = |(path, what): (&&str, u8)| {
            let path: Vec<String> = path.split('/').map(str::to_owned).collect();
            Item { file: format!("{}.npy", path[path.len() - 1]), path: path.into(), what }
        };
        let items = Items::new(paths.iter().zip(0..).map(item).collect());
        PathFolder::new(&items, |what| Ok(Node::File(File::new(Arc::new(Text::new([*what])), Keeping::All))))
    }

    fn names(folder: &dyn Folder, from: u64, most: usize) -> Vec<String> {
        let mut names = Vec::new();
        let mut take = |name: &OsStr, kind| {
            let mark = if kind == EntryKind::Folder { "/" } else { "" };
            names.push(format!("{}{mark}", name.to_str().unwrap()));
            names.len() < most
        };
        folder.list(from, &mut take).unwrap();
        names
    }

    fn at(folder: &dyn Folder, path: &str) -> Option<Node> {
        let path: Vec<&OsStr> = path.split('/').map(OsStr::new).collect();
        resolve(folder, &path).unwrap()
    }

    #[test]
    fn files_lie_at_their_paths() {
        let top = folder(&["b", "a/b/c", "a", "a/x", "a b", "a/b"]);
        assert_eq!(names(&top, 0, 9), ["a/", "a b.npy", "a.npy", "b.npy"]);
        assert_eq!(names(&top, 1, 1), ["a b.npy"]);
        assert!(names(&top, 4, 9).is_empty() && names(&top, u64::MAX, 9).is_empty());
        let Some(Node::Folder(a)) = at(&top, "a") else { panic!("a is a folder") };
        assert_eq!(names(&*a, 0, 9), ["b/", "b.npy", "x.npy"]);
        for (path, what) in [("b.npy", 0), ("a/b/c.npy", 1), ("a.npy", 2), ("a/x.npy", 3), ("a/b.npy", 5)] {
            let Some(Node::File(file)) = at(&top, path) else { panic!("{path} is no file") };
            let mut byte = [9];
            assert_eq!((file.content.unwrap().read_at(0, &mut byte).unwrap(), byte[0]), (1, what), "{path}");
        }
        for path in ["c", "a/b/c", "", "b", "b/x", "a/", "zz", "a/b/c.npy/d"] {
            assert!(at(&top, path).is_none(), "{path}");
        }
    }

    #[test]
    fn frames_are_counted() {
        let make = |_| Ok(Node::Folder(Arc::new(folder(&[])) as Arc<dyn Folder>));
        let frames = CountedFolder::new(12, make);
        assert_eq!(names(&frames, 10, 9), ["10/", "11/"]);
        assert_eq!(names(&frames, 0, 2), ["0/", "1/"]);
        assert!(names(&frames, 12, 9).is_empty());
        for name in ["0", "11"] {
            assert!(at(&frames, name).is_some());
        }
        for name in ["12", "00", "01", "+1", "-1", "", " 1", "1.", "99999999999999999999"] {
            assert!(at(&frames, name).is_none(), "{name}");
        }
    }
}
