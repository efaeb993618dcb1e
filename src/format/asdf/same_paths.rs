//! Files of another view at the paths of arrays in `arrays/`: `x.npy` there is `x.png` here.

use super::arrays::{ArrayEntry, FoundArrays};
use crate::content::path_folder::{Item, Items};

/// The endings of the files of arrays and of their masks.
const ENDING: &str = ".npy";
const MASK: &str = ".mask.npy";

/// An entry at a path.
#[derive(Clone, Debug)]
pub(super) enum Same {
    /// The file of the array or mask with this number among those found.
    Array(usize),
    /// A symbolic link with this text.
    Link(Box<str>),
}

/// True if an item is the mask of an array.
pub(super) fn is_mask(item: &Item<ArrayEntry>) -> bool {
    item.file.ends_with(MASK)
}

/// Returns the files for the `wanted` arrays and masks, and the links that lead to them.
pub(super) fn with_ending(
    found: &FoundArrays,
    ending: &'static str,
    wanted: impl Fn(&Item<ArrayEntry>) -> bool,
) -> Items<Same> {
    let mut items = Vec::new();
    // The number of items shown before each item.
    let mut before = vec![0];
    for (number, item) in found.items.iter().enumerate() {
        let is_shown = !matches!(item.what, ArrayEntry::Link(_)) && wanted(item);
        before.push(before[number] + usize::from(is_shown));
        if is_shown {
            items.extend(renamed(item, ending, Same::Array(number)));
        }
    }
    for item in found.items.iter() {
        let ArrayEntry::Link(text) = &item.what else { continue };
        let target = found.items.numbers_below(target(item, text).into_iter());
        if before[target.start] == before[target.end] {
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

fn renamed(item: &Item<ArrayEntry>, ending: &str, what: Same) -> Option<Item<Same>> {
    let stem = item.file.strip_suffix(ENDING)?;
    let path = match item.path.iter().any(|part| part.ends_with(ending)) {
        true => item.path.iter().map(|part| component(part, ending)).collect(),
        false => item.path.clone(),
    };
    Some(Item { path, file: format!("{}{ending}", component(stem, ending)), what })
}

/// Returns a component with this view's ending escaped as in `content::names`.
pub(super) fn component(part: &str, ending: &str) -> String {
    match part.strip_suffix(ending) {
        Some(stem) => format!("{stem}%2E{}", &ending[1..]),
        None => part.to_owned(),
    }
}

/// Returns the path that a link in `arrays/` leads to.
fn target<'i>(item: &'i Item<ArrayEntry>, text: &'i str) -> Vec<&'i str> {
    let mut parts: Vec<&str> = item.components().collect();
    parts.pop();
    for part in text.split('/') {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts
}

/// Returns the text of a link at the path `from` to the path `to`.
pub(super) fn relative(from: &[String], to: &[String]) -> String {
    // The last component of each path is never shared, as no entry lies below a file or a link.
    let shared = from.iter().zip(to).take_while(|(one, other)| one == other).count();
    let shared = shared.min(from.len().saturating_sub(1)).min(to.len().saturating_sub(1));
    let up = std::iter::repeat_n("..", from.len().saturating_sub(1 + shared));
    up.chain(to[shared..].iter().map(String::as_str)).collect::<Vec<_>>().join("/")
}
