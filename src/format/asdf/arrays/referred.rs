//! References into other files (`$ref: other.asdf#/path`), and the arrays that they lead to.

use std::sync::Arc;

use super::super::external::split;
use super::super::ndarray::{Ndarray, ReferredArray};
use super::super::view::AsdfFile;
use super::entry::ArrayEntry;
use super::places::components_of_pointer;
use super::survey::surveyed;
use crate::content::path_folder::{Child, FolderId, Items};
use crate::error::{Error, Kind, Result};

/// Maximal length of a chain of references.
const LONGEST_CHAIN: usize = 16;
/// The ending of an array's file.
pub(super) const ENDING: &str = ".npy";
const MASK_ENDING: &str = ".mask.npy";

/// An array, and its path relative to the target of a reference; empty for the target itself.
pub(super) type Below = (Vec<String>, Arc<Ndarray>);

/// Returns the array that a reference leads to.
pub(super) fn array_of(file: &AsdfFile, elsewhere: &ReferredArray) -> Result<(Arc<AsdfFile>, Arc<Ndarray>)> {
    let (other, arrays) = follow(file, &elsewhere.uri, &elsewhere.path)?;
    let array = arrays.into_iter().find(|(path, _)| path.is_empty());
    let gone =
        || Error::new(Kind::Unrecognised, format!("there is no longer an array at \"{}\"", elsewhere.uri));
    Ok((other, array.ok_or_else(gone)?.1))
}

/// Follows a reference from `file` into another file, and there the path `more`. Returns that file and its
/// arrays at the path or below.
pub(super) fn follow(file: &AsdfFile, uri: &str, more: &[String]) -> Result<(Arc<AsdfFile>, Vec<Below>)> {
    let mut other = file.external(uri)?;
    let mut path = path_in(uri);
    path.extend_from_slice(more);
    for _ in 0..LONGEST_CHAIN {
        let next = match look(&surveyed(&other)?.items, &path) {
            There::Arrays(arrays) => return Ok((other, arrays)),
            There::Link(target) => {
                path = target;
                continue;
            }
            There::Reference(uri, more) => {
                path = path_in(&uri);
                path.extend(more);
                uri
            }
        };
        other = other.external(&next)?;
    }
    Err(Error::new(Kind::Unrecognised, "the chain of references is too long or circular"))
}

/// Returns the path in the fragment of a reference: the path in the other file.
fn path_in(uri: &str) -> Vec<String> {
    split(uri).1.and_then(components_of_pointer).unwrap_or_default()
}

/// The entries at a path or below it.
enum There {
    Arrays(Vec<Below>),
    Link(Vec<String>),
    /// A reference at the start of the path, and the rest of the path.
    Reference(Arc<str>, Vec<String>),
}

fn look(items: &Items<ArrayEntry>, path: &[String]) -> There {
    let (mut here, mut arrays) = (Some(FolderId::ROOT), Vec::new());
    for (depth, name) in path.iter().enumerate() {
        let Some(folder) = here else { break };
        let (way, rest) = path.split_at(depth + 1);
        let children = [format!("{name}{ENDING}"), name.clone()].map(|name| items.child(folder, &name));
        here = None;
        for child in children.into_iter().flatten() {
            let what = match child {
                Child::Folder(below) => {
                    here = Some(below);
                    continue;
                }
                Child::Item(number) => items.get(number).map(|item| &item.what),
            };
            match what {
                Some(ArrayEntry::Link(text)) => return There::Link([&target(way, text), rest].concat()),
                Some(ArrayEntry::Reference(_, uri)) => return There::Reference(uri.clone(), rest.to_vec()),
                Some(ArrayEntry::Array(array)) if rest.is_empty() => arrays.push((Vec::new(), array.clone())),
                _ => {}
            }
        }
    }
    let below = here.map_or(0..0, |folder| items.numbers_in(folder));
    for item in below.filter_map(|number| items.get(number)) {
        if let (ArrayEntry::Array(array), Some(stem), false) =
            (&item.what, item.file.strip_suffix(ENDING), item.file.ends_with(MASK_ENDING))
        {
            let folders = item.folder.names().into_iter().skip(path.len());
            arrays.push((folders.chain([stem]).map(str::to_owned).collect(), array.clone()));
        }
    }
    There::Arrays(arrays)
}

/// Returns the path that a link at `from` leads to, without its ending.
fn target(from: &[String], text: &str) -> Vec<String> {
    let mut target = from.to_vec();
    target.pop();
    let text = text.strip_suffix(ENDING).unwrap_or(text);
    for part in text.split('/') {
        match part {
            ".." => drop(target.pop()),
            part => target.push(part.to_owned()),
        }
    }
    target
}
