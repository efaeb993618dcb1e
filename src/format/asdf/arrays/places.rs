//! Where in `arrays/` the nodes of a tree are shown, and what links lead to.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use super::super::external::unescaped;
use super::entry::Entry;
use crate::content::names::Names;
use crate::content::path_folder::Item;
use crate::yaml::parser::MAX_DEPTH;
use crate::yaml::survey::Step;

/// The longest path that is shown, in bytes: Linux takes no path of 4096.
const LONGEST_PATH: usize = 3000;
/// Mentions of mentions that are followed, as many as the system follows of links.
const LONGEST_CHAIN: usize = 40;
/// Components that are looked at in all to follow mentions.
const MOST_LOOKED_AT: usize = 1 << 26;

/// The ending of the files, and the one of masks.
const ENDING: &str = ".npy";
const MASK_ENDING: &str = ".mask.npy";
const NAMES: Names = Names { endings: &[ENDING, ".mask"] };

/// The components of a node's path.
pub(super) type Path = Vec<String>;

/// What is shown for a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// The file of an array.
    Array,
    /// The file of an array's mask, which lies beside that of the array.
    Mask,
    /// The folder of the arrays below it.
    Folder,
}

/// Where things are shown.
#[derive(Default)]
pub(super) struct Places {
    /// What is shown for the node at a path.
    nodes: HashMap<Path, Shown>,
    /// Paths at which another node is mentioned, and that node's path.
    mentions: HashMap<Path, Path>,
    taken: HashSet<Path>,
    /// Components that were looked at to follow mentions.
    looked_at: Cell<usize>,
}

impl Places {
    /// Notes that an array is shown at `path`.
    pub(super) fn announce(&mut self, path: &[String]) {
        for depth in 1..path.len() {
            self.nodes.entry(path[..depth].to_vec()).or_insert(Shown::Folder);
        }
        self.nodes.insert(path.to_vec(), Shown::Array);
    }

    /// Notes that the mask of an array is at `path`.
    pub(super) fn announce_mask(&mut self, path: &[String]) {
        self.nodes.insert(path.to_vec(), Shown::Mask);
    }

    /// The file of the array, or the array's mask, at `path`; `None` if that is too long.
    pub(super) fn file(&mut self, path: Path, is_mask: bool, what: Entry) -> Option<Item<Entry>> {
        self.item(path, if is_mask { MASK_ENDING } else { ENDING }, what)
    }

    /// Notes that the node at `to` is mentioned at `from`.
    pub(super) fn mention(&mut self, from: Path, to: Path) {
        self.mentions.insert(from, to);
    }

    /// The path at which the node is shown that a path leads to, mentions followed; `None` if nothing is shown, or the
    /// mentions go round in a circle.
    pub(super) fn resolve(&self, path: &[String]) -> Option<Path> {
        let mut path = path.to_vec();
        for _ in 0..LONGEST_CHAIN {
            if path.len() > MAX_DEPTH || self.looked_at.get() >= MOST_LOOKED_AT {
                return None;
            }
            if self.nodes.contains_key(&path) {
                return Some(path);
            }
            // The shortest part of the path that is a mention.
            let (depth, target) =
                (1..=path.len()).find_map(|depth| Some((depth, self.mention_at(&path[..depth])?)))?;
            path = target.iter().chain(&path[depth..]).cloned().collect();
        }
        None
    }

    fn mention_at(&self, path: &[String]) -> Option<&Path> {
        self.looked_at.set(self.looked_at.get().saturating_add(path.len()));
        self.mentions.get(path).filter(|_| self.looked_at.get() < MOST_LOOKED_AT)
    }

    /// A link from the place where a node is mentioned to the one where it is, if something is shown there.
    pub(super) fn link(&mut self, from: Path, to: &[String], is_mask: bool) -> Option<Item<Entry>> {
        let mut to = self.resolve(to)?;
        let shown = *self.nodes.get(&to)?;
        if shown == Shown::Mask {
            to.pop();
        }
        to.last_mut()?.push_str(match shown {
            Shown::Array => ENDING,
            Shown::Mask => MASK_ENDING,
            Shown::Folder => "",
        });
        // Nothing lies below both but what they share.
        let shared = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
        let shared = shared.min(from.len() - 1).min(to.len() - 1);
        let up = std::iter::repeat_n("..", from.len() - 1 - shared);
        let text = up.chain(to[shared..].iter().map(String::as_str)).collect::<Vec<_>>().join("/");
        let ending = match shown {
            Shown::Folder => "",
            _ if is_mask => MASK_ENDING,
            _ => ENDING,
        };
        self.item(from, ending, Entry::Link(text.into()))
    }

    /// An item whose file name is that of no other.
    fn item(&mut self, path: Path, ending: &str, what: Entry) -> Option<Item<Entry>> {
        let length: usize = path.iter().map(|component| component.len() + 1).sum();
        let stem = path.last().filter(|_| length <= LONGEST_PATH)?;
        let mut file = format!("{stem}{ending}");
        let (mut full, mut copy) = (path.clone(), 0);
        loop {
            if let Some(last) = full.last_mut() {
                last.clone_from(&file);
            }
            if self.taken.insert(full.clone()) {
                return Some(Item { path: path.into(), file, what });
            }
            copy += 1;
            file = format!("{stem}~{copy}{ending}");
        }
    }
}

/// The components of a node's path: keys and numbers of items.
pub(super) fn components(steps: &[&Step]) -> Path {
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

/// The components of the path that a fragment (a JSON Pointer, `/a/0`) leads to; `None` for the whole tree.
pub(super) fn components_of_pointer(fragment: &str) -> Option<Path> {
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
