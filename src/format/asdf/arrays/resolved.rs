//! Adds the arrays that references into other files lead to.

use std::collections::HashSet;
use std::sync::Arc;

use super::super::ndarray::{Elsewhere, Ndarray, Source};
use super::super::view::AsdfFile;
use super::entry::ArrayEntry;
use super::referred::{Below, ENDING, follow, path_of};
use super::survey::{FoundArrays, MOST_ARRAYS};
use crate::content::path_folder::{Item, Items};

/// Returns `found` with all references into other files resolved.
pub(super) fn resolved(file: &AsdfFile, found: &FoundArrays) -> FoundArrays {
    let mut resolved = found.clone();
    let is_reference = |item: &Item<ArrayEntry>| matches!(item.what, ArrayEntry::Reference(..));
    if !found.items.iter().any(is_reference) {
        return resolved;
    }
    let mut items: Vec<Item<ArrayEntry>> =
        found.items.iter().filter(|item| !is_reference(item)).cloned().collect();
    let mut taken: HashSet<Vec<String>> = items.iter().map(path_of).collect();
    for item in found.items.iter() {
        let ArrayEntry::Reference(place, uri) = &item.what else { continue };
        let shown = item.path.join("/");
        let mut new = match follow(file, uri, &[]) {
            Ok((_, arrays)) if arrays.is_empty() => {
                resolved.note(
                    *place,
                    format!(
                        "arrays/ leaves out {shown}: \"{uri}\" does not refer to an \
                                               array"
                    ),
                );
                continue;
            }
            Ok((_, arrays)) => arrays.into_iter().map(|below| referred(item, uri, below)).collect(),
            Err(error) => {
                resolved.note(*place, format!("{shown} can't be read: {}", error.message()));
                vec![item.clone()]
            }
        };
        if items.len() + new.len() > MOST_ARRAYS {
            let what = format!(
                "arrays/ leaves out {shown}, and what follows: there are more than {MOST_ARRAYS} arrays"
            );
            resolved.note(*place, what);
            break;
        }
        new.retain(|item| taken.insert(path_of(item)));
        items.extend(new);
    }
    resolved.items = Items::new(items);
    resolved
}

/// Returns the entry of an array that a reference leads to.
fn referred(item: &Item<ArrayEntry>, uri: &str, (path, array): Below) -> Item<ArrayEntry> {
    let all: Vec<String> = item.path.iter().chain(&path).cloned().collect();
    let file = match path.last() {
        Some(last) => format!("{last}{ENDING}"),
        None => item.file.clone(),
    };
    let elsewhere = Elsewhere { uri: uri.to_owned(), path };
    let array = Ndarray { source: Source::Elsewhere(Box::new(elsewhere)), ..(*array).clone() };
    Item { path: all.into(), file, what: ArrayEntry::Array(Arc::new(array)) }
}
