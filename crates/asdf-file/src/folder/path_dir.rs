//! A directory tree of files at paths, and a directory of numbered directories.

use std::ffi::OsStr;
use std::fmt;
use std::sync::Arc;

use seekable::error::Result;

use super::path_items::Tree;
use crate::folder::{Dir, EntryKind, Node};

pub use super::path_items::{Child, DirId, Item, Items};

/// A function that makes the node of an item.
type MakeNode<T> = Arc<dyn Fn(&Item<T>) -> Result<Node> + Send + Sync>;

/// A directory of the tree.
pub struct PathDir<T> {
    tree: Arc<Tree<T>>,
    dir: DirId,
    make: MakeNode<T>,
    is_link: fn(&T) -> bool,
}

impl<T> PathDir<T> {
    /// Makes the root; `make` makes the node of an item.
    pub fn new(items: &Items<T>, make: impl Fn(&T) -> Result<Node> + Send + Sync + 'static) -> Self {
        Self::of_items(items, move |item| make(&item.what))
    }

    /// Makes the root; `make` makes the node of an item, which it gets with its path.
    pub(crate) fn of_items(
        items: &Items<T>,
        make: impl Fn(&Item<T>) -> Result<Node> + Send + Sync + 'static,
    ) -> Self {
        Self { tree: items.0.clone(), dir: DirId::ROOT, make: Arc::new(make), is_link: |_| false }
    }

    /// Lists items as links if `is_link` is true for them.
    #[must_use]
    pub fn with_links(self, is_link: fn(&T) -> bool) -> Self {
        Self { is_link, ..self }
    }
}

impl<T> fmt::Debug for PathDir<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("PathDir").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl<T: Send + Sync + 'static> Dir for PathDir<T> {
    fn lookup(&self, name: &OsStr) -> Result<Option<Node>> {
        self.find(&[name])
    }

    /// Finds the entry in one step, without making the directories on the way.
    fn find(&self, path: &[&OsStr]) -> Result<Option<Node>> {
        let mut child = Child::Dir(self.dir);
        for name in path {
            let Child::Dir(dir) = child else { return Ok(None) };
            match name.to_str().and_then(|name| self.tree.child(dir, name)) {
                Some(below) => child = below,
                None => return Ok(None),
            }
        }
        match child {
            Child::Item(number) => {
                self.tree.items.get(number).map(|item| (self.make)(item)?.if_known()).transpose()
            }
            Child::Dir(dir) => Ok(Some(Node::Dir(Arc::new(Self {
                dir,
                tree: self.tree.clone(),
                make: self.make.clone(),
                is_link: self.is_link,
            })))),
        }
    }

    /// Returns false: the tree is in memory, so nothing is slow.
    fn is_slow_below(&self, _: &[&OsStr], _: Option<&OsStr>) -> Result<bool> {
        Ok(false)
    }

    fn list(&self, from: u64, take: &mut dyn FnMut(&OsStr, EntryKind) -> bool) -> Result<()> {
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        for child in self.tree.children(self.dir).iter().skip(from) {
            let kind = match child {
                Child::Dir(_) => EntryKind::Dir,
                Child::Item(number) => match self.tree.items.get(*number) {
                    Some(item) if (self.is_link)(&item.what) => EntryKind::Link,
                    _ => EntryKind::File,
                },
            };
            if !take(OsStr::new(self.tree.name(*child)), kind) {
                break;
            }
        }
        Ok(())
    }
}

/// A directory of directories named 0, 1, 2 and so on.
pub struct CountedDir<F> {
    count: u64,
    make: F,
}

impl<F: Fn(u64) -> Result<Node> + Send + Sync> CountedDir<F> {
    /// Makes a directory with `count` entries; `make` makes the entry with a number.
    pub fn new(count: u64, make: F) -> Self {
        Self { count, make }
    }
}

impl<F> fmt::Debug for CountedDir<F> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("CountedDir").field("count", &self.count).finish_non_exhaustive()
    }
}

impl<F: Fn(u64) -> Result<Node> + Send + Sync> Dir for CountedDir<F> {
    fn lookup(&self, name: &OsStr) -> Result<Option<Node>> {
        match number(name).filter(|number| *number < self.count) {
            Some(number) => (self.make)(number).map(Some),
            None => Ok(None),
        }
    }

    fn list(&self, from: u64, take: &mut dyn FnMut(&OsStr, EntryKind) -> bool) -> Result<()> {
        for number in from..self.count {
            if !take(OsStr::new(&number.to_string()), EntryKind::Dir) {
                break;
            }
        }
        Ok(())
    }
}

/// Parses a number as [`CountedDir`] writes it.
fn number(name: &OsStr) -> Option<u64> {
    let digits = name.to_str()?;
    let plain = digits == "0" || !digits.starts_with('0');
    let plain = plain && digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::File;
    use crate::folder::shared_path::SharedPath;
    use seekable::content::Text;

    fn dir(paths: &[&str]) -> PathDir<u8> {
        let item = |(path, what): (&&str, u8)| {
            let (dir, stem) = path.rsplit_once('/').unwrap_or(("", path));
            let dir = SharedPath::new(dir.split('/').filter(|name| !name.is_empty()));
            Item { dir, file: format!("{stem}.npy"), what }
        };
        let items = Items::new(paths.iter().zip(0..).map(item).collect());
        PathDir::new(&items, |what| Ok(Node::File(File::new(Arc::new(Text::new([*what]))))))
    }

    fn names(dir: &dyn Dir, from: u64, most: usize) -> Vec<String> {
        let mut names = Vec::new();
        let mut take = |name: &OsStr, kind| {
            let mark = if kind == EntryKind::Dir { "/" } else { "" };
            names.push(format!("{}{mark}", name.to_str().unwrap()));
            names.len() < most
        };
        dir.list(from, &mut take).unwrap();
        names
    }

    fn at(dir: &dyn Dir, path: &str) -> Option<Node> {
        let path: Vec<&OsStr> = path.split('/').map(OsStr::new).collect();
        dir.find(&path).unwrap()
    }

    #[test]
    fn files_lie_at_their_paths() {
        let top = dir(&["b", "a/b/c", "a", "a/x", "a b", "a/b"]);
        assert_eq!(names(&top, 0, 9), ["a/", "a b.npy", "a.npy", "b.npy"]);
        assert_eq!(names(&top, 1, 1), ["a b.npy"]);
        assert!(names(&top, 4, 9).is_empty() && names(&top, u64::MAX, 9).is_empty());
        let Some(Node::Dir(a)) = at(&top, "a") else { panic!("a is a directory") };
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
    fn nothing_is_known_of_a_file_that_cannot_be_read() {
        let tree = dir(&["a/b"]);
        let unreadable = PathDir {
            make: Arc::new(|_| {
                let error =
                    seekable::error::Error::new(seekable::error::Kind::System(libc::EIO), "the disk fails");
                Ok(Node::File(File::unreadable(error)))
            }),
            ..tree
        };
        let path = ["a", "b.npy"].map(OsStr::new);
        assert_eq!(unreadable.find(&path).unwrap_err().errno(), libc::EIO);
    }

    #[test]
    fn frames_are_counted() {
        let make = |_| Ok(Node::Dir(Arc::new(dir(&[])) as Arc<dyn Dir>));
        let frames = CountedDir::new(12, make);
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
