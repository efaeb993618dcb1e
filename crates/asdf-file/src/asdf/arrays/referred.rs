//! References into other files (`$ref: other.asdf#/path`), and the arrays that they lead to.

use std::sync::Arc;

use asdf_tree::limits::{MAX_CHAIN, MAX_ITEMS, MAX_SEARCHED};
use seekable::error::{Error, Kind, Result};

use super::super::external::split;
use super::super::ndarray::{Ndarray, ReferredArray};
use super::super::view::AsdfFile;
use super::entry::ArrayEntry;
use super::places::components_of_pointer;
use super::survey::surveyed;
use crate::folder::path_dir::{Child, DirId, Items};

/// The ending of an array's file.
pub(super) const ENDING: &str = ".npy";
const MASK_ENDING: &str = ".mask.npy";

/// An array, and its path relative to the target of a reference; empty for the target itself.
pub(super) type Below = (Vec<String>, Arc<Ndarray>);

/// Returns the array that a reference leads to.
pub(super) fn array_of(file: &AsdfFile, elsewhere: &ReferredArray) -> Result<(Arc<AsdfFile>, Arc<Ndarray>)> {
    let target =
        find(file.external(&elsewhere.uri)?, [path_in(&elsewhere.uri), elsewhere.path.clone()].concat())?;
    let array = target.arrays.into_iter().find(|(path, _)| path.is_empty());
    let gone =
        || Error::new(Kind::Unrecognised, format!("there is no longer an array at \"{}\"", elsewhere.uri));
    Ok((target.file, array.ok_or_else(gone)?.1))
}

/// The arrays that a reference into another file leads to.
pub(super) struct Followed {
    pub(super) arrays: Vec<Below>,
    /// The reasons why others are left out.
    pub(super) omissions: Vec<String>,
    /// Paths below which nothing is known, because a further file could not be read.
    pub(super) unread: Vec<(Vec<String>, Error)>,
}

impl Followed {
    pub(super) fn is_empty(&self) -> bool {
        self.arrays.is_empty() && self.omissions.is_empty() && self.unread.is_empty()
    }
}

/// Follows a reference from `file` into another file.
pub(super) fn follow(file: &AsdfFile, uri: &str) -> Result<Followed> {
    let mut search = Search::default();
    search.add(find(opened(file, uri)?, path_in(uri))?, &[])?;
    Ok(Followed { arrays: search.arrays, omissions: search.omissions, unread: search.unread })
}

/// Opens another file. If it can't be read, the error is one of reading.
fn opened(file: &AsdfFile, uri: &str) -> Result<Arc<AsdfFile>> {
    file.external(uri).map_err(|error| {
        if file.was_unread(uri) { Error::new(Kind::System(libc::EIO), error.message()) } else { error }
    })
}

/// A node of another file, after all references and links on the way to it.
struct FoundNode {
    file: Arc<AsdfFile>,
    path: Vec<String>,
    /// The arrays at the path or below it.
    arrays: Vec<Below>,
    /// The links and references below the path, with their paths relative to it.
    further: Vec<(Vec<String>, NextStep)>,
}

/// A link or a reference: the next step on the way to a node.
enum NextStep {
    /// A path in the same file.
    Link(Vec<String>),
    /// A URI, and the rest of the path.
    Reference(Arc<str>, Vec<String>),
}

impl NextStep {
    /// Returns the file and the path that the step leads to.
    fn target(self, file: Arc<AsdfFile>) -> Result<(Arc<AsdfFile>, Vec<String>)> {
        match self {
            Self::Link(path) => Ok((file, path)),
            Self::Reference(uri, more) => Ok((opened(&file, &uri)?, [path_in(&uri), more].concat())),
        }
    }
}

/// Finds the node at a path of a file.
fn find(mut file: Arc<AsdfFile>, mut path: Vec<String>) -> Result<FoundNode> {
    for _ in 0..MAX_CHAIN {
        match look(&surveyed(&file)?.items, &path) {
            There::Arrays { arrays, further } => return Ok(FoundNode { file, path, arrays, further }),
            There::Step(step) => (file, path) = step.target(file)?,
        }
    }
    Err(Error::new(Kind::Unrecognised, "the chain of references is too long or circular"))
}

/// The search for all arrays below a node of another file.
#[derive(Default)]
struct Search {
    arrays: Vec<Below>,
    omissions: Vec<String>,
    unread: Vec<(Vec<String>, Error)>,
    /// The nodes on the way to the present one: a reference to one of them would be endless.
    above: Vec<(*const AsdfFile, Vec<String>)>,
    nodes: usize,
}

impl Search {
    /// Adds the arrays of a node. `prefix` is the path to the node.
    fn add(&mut self, target: FoundNode, prefix: &[String]) -> Result<()> {
        self.nodes += 1;
        if self.nodes > MAX_SEARCHED || self.arrays.len() > MAX_ITEMS {
            return Err(Error::unsupported("too many references follow each other"));
        }
        let below = |path: Vec<String>| [prefix, &path].concat();
        self.arrays.extend(target.arrays.into_iter().map(|(path, array)| (below(path), array)));
        let this = (Arc::as_ptr(&target.file), target.path);
        if self.above.len() >= MAX_CHAIN || self.above.contains(&this) {
            return Ok(());
        }
        self.above.push(this);
        for (path, step) in target.further {
            let path = below(path);
            match step.target(target.file.clone()).and_then(|(file, path_there)| find(file, path_there)) {
                Ok(further) => self.add(further, &path)?,
                Err(error) if error.is_shortage() => return Err(error),
                Err(error) if error.is_of_reading() => self.unread.push((path, error)),
                Err(error) => self.omissions.push(format!("{}: {}", path.join("/"), error.message())),
            }
        }
        self.above.pop();
        Ok(())
    }
}

/// Returns the path in the fragment of a reference: the path in the other file.
fn path_in(uri: &str) -> Vec<String> {
    split(uri).1.and_then(components_of_pointer).unwrap_or_default()
}

/// The entries at a path or below it.
enum There {
    Arrays {
        arrays: Vec<Below>,
        further: Vec<(Vec<String>, NextStep)>,
    },
    /// A link or a reference on the way.
    Step(NextStep),
}

fn look(items: &Items<ArrayEntry>, path: &[String]) -> There {
    let mut here = Some(DirId::ROOT);
    let mut arrays = Vec::new();
    for (depth, name) in path.iter().enumerate() {
        let Some(dir) = here else { break };
        let (way, rest) = path.split_at(depth + 1);
        let children = [format!("{name}{ENDING}"), name.clone()].map(|name| items.0.child(dir, &name));
        here = None;
        for child in children.into_iter().flatten() {
            let what = match child {
                Child::Dir(below) => {
                    here = Some(below);
                    continue;
                }
                Child::Item(number) => items.get(number).map(|item| &item.what),
            };
            match what {
                Some(ArrayEntry::Array(array)) if rest.is_empty() => arrays.push((Vec::new(), array.clone())),
                Some(entry) => {
                    if let Some(step) = step(entry, way, rest) {
                        return There::Step(step);
                    }
                }
                None => {}
            }
        }
    }
    let mut further = Vec::new();
    let below = here.map_or(0..0, |dir| items.numbers_in(dir));
    for item in below.filter_map(|number| items.get(number)) {
        if item.file.ends_with(MASK_ENDING) {
            continue;
        }
        let stem = item.file.strip_suffix(ENDING).unwrap_or(&item.file);
        let way: Vec<String> = item.dir.names().into_iter().chain([stem]).map(str::to_owned).collect();
        let relative = way.get(path.len()..).unwrap_or_default().to_vec();
        match &item.what {
            ArrayEntry::Array(array) => arrays.push((relative, array.clone())),
            entry => further.extend(step(entry, &way, &[]).map(|step| (relative, step))),
        }
    }
    There::Arrays { arrays, further }
}

/// Returns the step that a link or a reference at the path `way` makes; `rest` is the path below it.
fn step(entry: &ArrayEntry, way: &[String], rest: &[String]) -> Option<NextStep> {
    match entry {
        ArrayEntry::Link(text) => Some(NextStep::Link([&target(way, text), rest].concat())),
        ArrayEntry::Pending(_, target) => {
            let target = target.names().into_iter().map(str::to_owned);
            Some(NextStep::Link(target.chain(rest.iter().cloned()).collect()))
        }
        ArrayEntry::Reference(_, uri) => Some(NextStep::Reference(uri.clone(), rest.to_vec())),
        ArrayEntry::Array(_) | ArrayEntry::Mask(_) | ArrayEntry::Unread(_) => None,
    }
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
