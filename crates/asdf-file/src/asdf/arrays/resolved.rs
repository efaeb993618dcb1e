//! Adds the arrays that references into other files lead to.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use asdf_tree::limits::{MAX_CHAIN, MAX_ITEMS};
use seekable::error::Error;

use super::super::external::split;
use super::super::view::{AsdfFile, MAX_ON_SERVERS};
use super::entry::ArrayEntry;
use super::referred::{Below, ENDING, Followed, follow};
use super::survey::FoundArrays;
use crate::folder::path_dir::{Item, Items};
use crate::folder::path_tree::{Id, PathTree};
use crate::folder::shared_path::SharedPath;

/// Returns `found` with all references into other files resolved, and the number of paths that are not known because
/// another file could not be read.
pub(super) fn resolved(file: &AsdfFile, found: &FoundArrays) -> (FoundArrays, usize) {
    let mut resolved = found.clone();
    let is_reference =
        |item: &Item<ArrayEntry>| matches!(item.what, ArrayEntry::Reference(..) | ArrayEntry::Pending(..));
    if !found.items.iter().any(is_reference) {
        return (resolved, 0);
    }
    let mut items: Vec<Item<ArrayEntry>> =
        found.items.iter().filter(|item| !is_reference(item)).cloned().collect();
    let mut places = Places::new(&items);
    let mut asked = HashSet::new();
    let mut unread = Unread::default();
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
            Ok(followed) if followed.is_empty() => {
                resolved.note(*place, || {
                    format!("arrays/ leaves out {}: \"{uri}\" does not refer to an array", shown())
                });
                continue;
            }
            Ok(Followed { arrays, omissions, unread: unread_below }) => {
                for why in omissions {
                    resolved.note(*place, || format!("arrays/ leaves out {}/{why}", shown()));
                }
                let mut new: Vec<_> =
                    arrays.into_iter().map(|below| places.referred(item, uri, below)).collect();
                for (path, error) in unread_below {
                    let path = path.iter().fold(path_of(item), |path, name| path.join(name.as_str()));
                    let shown = path.names().join("/");
                    resolved.note(*place, || format!("{shown} can't be read: {}", error.message()));
                    new.extend(unread.add(&path, &error));
                }
                new
            }
            Err(error) => {
                resolved.note(*place, || format!("{} can't be read: {}", shown(), error.message()));
                let mut new = vec![item.clone()];
                if error.is_of_reading() {
                    new.extend(unread.add(&path_of(item), &error));
                }
                new
            }
        };
        if items.len() + new.len() > MAX_ITEMS {
            resolved.note(*place, || {
                let shown = shown();
                format!(
                    "arrays/ leaves out {shown}, and what follows: there are more than {MAX_ITEMS} arrays"
                )
            });
            break;
        }
        new.retain(|added| places.is_free(added));
        items.extend(new);
    }
    resolve_pending(found, &mut resolved, &mut items, &mut places, &mut unread);
    resolved.items = Items::new(items);
    (resolved, unread.paths.len())
}

/// Adds the entries for references within the tree to what other files have to `items`.
fn resolve_pending(
    found: &FoundArrays,
    resolved: &mut FoundArrays,
    items: &mut Vec<Item<ArrayEntry>>,
    places: &mut Places,
    unread: &mut Unread,
) {
    let mut pending: Vec<&Item<ArrayEntry>> =
        found.items.iter().filter(|item| matches!(item.what, ArrayEntry::Pending(..))).collect();
    // A directory may have nothing but such links, so that links to it can be made only after those.
    for _ in 0..MAX_CHAIN {
        let before = pending.len();
        pending.retain(|item| {
            let ArrayEntry::Pending(place, target) = &item.what else { return false };
            let link = places.link(item);
            let why = unread.above(target).cloned();
            if link.is_none() && why.is_none() {
                return true;
            }
            items.extend(link.filter(|link| places.is_free(link)));
            if let Some(why) = why {
                let path = item.dir.join(&*item.file);
                let shown = path.names().join("/");
                resolved.note(*place, || format!("{shown} can't be read: {}", why.message()));
                items.extend(unread.add(&path, &why).into_iter().filter(|name| places.is_free(name)));
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
}

/// The paths below which nothing is known, because another file could not be read.
#[derive(Default)]
struct Unread {
    paths: HashMap<Vec<String>, Error>,
}

impl Unread {
    /// Adds a path. Returns entries for the two names that it may have: of an array, and of a directory.
    fn add(&mut self, path: &SharedPath, error: &Error) -> Vec<Item<ArrayEntry>> {
        let names = path.names();
        let Some((name, above)) = names.split_last() else { return Vec::new() };
        let dir = SharedPath::new(above.iter().copied());
        let entry = |file: String| Item { dir: dir.clone(), file, what: ArrayEntry::Unread(error.clone()) };
        let entries = vec![entry((*name).to_owned()), entry(format!("{name}{ENDING}"))];
        self.paths.insert(names.into_iter().map(str::to_owned).collect(), error.clone());
        entries
    }

    /// Returns the error if a path is such a path, or lies below one.
    fn above(&self, path: &SharedPath) -> Option<&Error> {
        let names: Vec<String> = path.names().into_iter().map(str::to_owned).collect();
        if self.paths.is_empty() {
            return None;
        }
        (1..=names.len()).find_map(|len| self.paths.get(&names[..len]))
    }
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
