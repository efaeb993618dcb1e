//! Adds the arrays that references into other files lead to.

use std::collections::HashSet;
use std::sync::Arc;

use super::super::external::split;
use super::super::view::{AsdfFile, MAX_ON_SERVERS};
use super::entry::ArrayEntry;
use super::places::MAX_CHAIN;
use super::referred::{Below, ENDING, follow};
use super::survey::{FoundArrays, MAX_ARRAYS};
use crate::content::path_dir::{Item, Items};
use crate::content::path_tree::{Id, PathTree};
use crate::content::shared_path::SharedPath;

/// Returns `found` with all references into other files resolved.
pub(super) fn resolved(file: &AsdfFile, found: &FoundArrays) -> FoundArrays {
    let mut resolved = found.clone();
    let is_reference =
        |item: &Item<ArrayEntry>| matches!(item.what, ArrayEntry::Reference(..) | ArrayEntry::Pending(..));
    if !found.items.iter().any(is_reference) {
        return resolved;
    }
    let mut items: Vec<Item<ArrayEntry>> =
        found.items.iter().filter(|item| !is_reference(item)).cloned().collect();
    let mut places = Places::new(&items);
    let mut asked = HashSet::new();
    for item in found.items.iter() {
        let ArrayEntry::Reference(place, uri) = &item.what else { continue };
        let shown = || path_of(item).names().join("/");
        if file.is_on_server(uri) && !asked.contains(split(uri).0) {
            if asked.len() >= MAX_ON_SERVERS {
                resolved.note(*place, || {
                    let shown = shown();
                    format!("{shown} can't be read: the tree refers to more than {MAX_ON_SERVERS} files on servers")
                });
                items.push(item.clone());
                continue;
            }
            asked.insert(split(uri).0);
        }
        let mut new = match follow(file, uri) {
            Ok((arrays, omissions)) if arrays.is_empty() && omissions.is_empty() => {
                resolved.note(*place, || {
                    format!("arrays/ leaves out {}: \"{uri}\" does not refer to an array", shown())
                });
                continue;
            }
            Ok((arrays, omissions)) => {
                for why in omissions {
                    resolved.note(*place, || format!("arrays/ leaves out {}/{why}", shown()));
                }
                arrays.into_iter().map(|below| places.referred(item, uri, below)).collect()
            }
            Err(error) => {
                resolved.note(*place, || format!("{} can't be read: {}", shown(), error.message()));
                vec![item.clone()]
            }
        };
        if items.len() + new.len() > MAX_ARRAYS {
            resolved.note(*place, || {
                let shown = shown();
                format!(
                    "arrays/ leaves out {shown}, and what follows: there are more than {MAX_ARRAYS} arrays"
                )
            });
            break;
        }
        new.retain(|added| places.is_free(added));
        items.extend(new);
    }
    let mut pending: Vec<&Item<ArrayEntry>> =
        found.items.iter().filter(|item| matches!(item.what, ArrayEntry::Pending(..))).collect();
    // A directory may have nothing but such links, so that links to it can be made only after those.
    for _ in 0..MAX_CHAIN {
        let before = pending.len();
        pending.retain(|item| {
            let Some(link) = places.link(item) else { return true };
            if places.is_free(&link) {
                items.push(link);
            }
            false
        });
        if pending.len() == before {
            break;
        }
    }
    for item in pending {
        if let ArrayEntry::Pending(place, target) = &item.what {
            resolved.note(*place, || {
                let from = item.components().collect::<Vec<_>>().join("/");
                format!("arrays/ leaves out {from}: there is no array at {}", target.names().join("/"))
            });
        }
    }
    resolved.items = Items::new(items);
    resolved
}

/// Returns the path of the node that an entry of the view shows.
fn path_of(item: &Item<ArrayEntry>) -> SharedPath {
    item.dir.join(item.file.strip_suffix(ENDING).unwrap_or(&item.file))
}

/// The paths of all entries of the view.
struct Places {
    tree: PathTree,
    taken: HashSet<(Id, String)>,
}

impl Places {
    fn new(items: &[Item<ArrayEntry>]) -> Self {
        let mut places = Self { tree: PathTree::new(usize::MAX), taken: HashSet::new() };
        for item in items {
            _ = places.is_free(item);
        }
        places
    }

    /// True if no earlier item has this path.
    fn is_free(&mut self, item: &Item<ArrayEntry>) -> bool {
        let dir = self.tree.add(&item.dir);
        dir.is_some_and(|dir| self.taken.insert((dir, item.file.clone())))
    }

    /// Returns the link from an alias or a reference to its node; `None` if the node has no entry.
    fn link(&mut self, item: &Item<ArrayEntry>) -> Option<Item<ArrayEntry>> {
        let ArrayEntry::Pending(_, target) = &item.what else { return None };
        let (above, name) = target.split_last()?;
        let to = self.tree.get(above.names().into_iter())?;
        let file = format!("{name}{ENDING}");
        let ending = if self.taken.contains(&(to, file.clone())) {
            ENDING
        } else if self.tree.get(target.names().into_iter()).is_some() {
            ""
        } else {
            return None;
        };
        let from = self.tree.add(&item.dir)?;
        let mut way = self.tree.way(from, to);
        let last = format!("{name}{ending}");
        way.push(&last);
        let text = way.join("/").into();
        Some(Item {
            dir: item.dir.clone(),
            file: format!("{}{ending}", item.file),
            what: ArrayEntry::Link(text),
        })
    }

    /// Returns the entry of an array that a reference leads to.
    fn referred(
        &mut self,
        item: &Item<ArrayEntry>,
        uri: &Arc<str>,
        (path, array): Below,
    ) -> Item<ArrayEntry> {
        let (dir, file) = match path.split_last() {
            Some((last, above)) => {
                let dir = above.iter().fold(path_of(item), |dir, name| dir.join(name.as_str()));
                (dir, format!("{last}{ENDING}"))
            }
            None => (item.dir.clone(), item.file.clone()),
        };
        // Items of one directory share its path.
        let dir = self.tree.add(&dir).map_or(dir, |dir| self.tree.shared(dir));
        Item { dir, file, what: ArrayEntry::Array(Arc::new(array.in_file(uri, path))) }
    }
}
