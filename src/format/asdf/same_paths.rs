//! Files of another view at the paths that arrays have in `arrays/`: `x.npy` there is `x.png` here.

use std::collections::HashSet;

use super::arrays::{Entry, Found};
use super::ndarray::Ndarray;
use crate::content::path_folder::{Item, Items};

/// The ending of the files of arrays, and of those of their masks.
const ENDING: &str = ".npy";
const MASK: &str = ".mask.npy";

/// What lies at a path.
#[derive(Clone, Debug)]
pub(super) enum Same {
    /// The file of the array with this number among those that were found.
    Array(usize),
    /// A symbolic link with this text.
    Link(Box<str>),
}

/// The files for those arrays that are `wanted`, and the links that lead to them; no masks.
pub(super) fn with_ending(
    found: &Found,
    ending: &'static str,
    wanted: impl Fn(&Ndarray) -> bool,
) -> Items<Same> {
    let mut items = Vec::new();
    // The paths of what is shown in `arrays/`, and of the folders that it lies in.
    let mut shown = HashSet::new();
    for (number, item) in found.items.iter().enumerate() {
        let Entry::Array(array) = &item.what else { continue };
        if item.file.ends_with(MASK) || !wanted(array) {
            continue;
        }
        let mut path = String::new();
        for component in item.components() {
            path.push('/');
            path.push_str(component);
            shown.insert(path.clone());
        }
        items.extend(renamed(item, ending, Same::Array(number)));
    }
    for item in found.items.iter() {
        let Entry::Link(text) = &item.what else { continue };
        if !shown.contains(&target(item, text)) {
            continue;
        }
        let text: Vec<String> = text.split('/').map(|part| component(part, ending)).collect();
        let mut text = text.join("/");
        if let Some(stem) = text.strip_suffix(ENDING) {
            text = format!("{stem}{ending}");
        }
        items.push(match item.file.ends_with(ENDING) {
            true => match renamed(item, ending, Same::Link(text.into())) {
                Some(item) => item,
                None => continue,
            },
            false => Item {
                path: item.path.iter().map(|part| component(part, ending)).collect(),
                file: component(&item.file, ending),
                what: Same::Link(text.into()),
            },
        });
    }
    Items::new(items)
}

fn renamed(item: &Item<Entry>, ending: &str, what: Same) -> Option<Item<Same>> {
    let stem = item.file.strip_suffix(ENDING)?;
    let path = match item.path.iter().any(|part| part.ends_with(ending)) {
        true => item.path.iter().map(|part| component(part, ending)).collect(),
        false => item.path.clone(),
    };
    Some(Item { path, file: format!("{}{ending}", component(stem, ending)), what })
}

/// A component in which an ending that this view gives is escaped, as `content::names` does it.
fn component(part: &str, ending: &str) -> String {
    match part.strip_suffix(ending) {
        Some(stem) => format!("{stem}%2E{}", &ending[1..]),
        None => part.to_owned(),
    }
}

/// The path that a link in `arrays/` leads to.
fn target(item: &Item<Entry>, text: &str) -> String {
    let mut parts: Vec<&str> = item.components().collect();
    parts.pop();
    for part in text.split('/') {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.iter().flat_map(|part| ["/", part]).collect()
}
