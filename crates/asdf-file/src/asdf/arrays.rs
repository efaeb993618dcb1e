//! `arrays/`: each ndarray of the tree as a file `PATH.npy` that numpy reads and maps.
//!
//! | module | what it does |
//! |---|---|
//! | [`survey`](mod@survey) | finds the arrays of a tree, in one pass for each generation of the file |
//! | [`layout`], [`places`], [`node_paths`] | entries of `arrays/` and their paths: files, masks, links |
//! | [`elements`] | the elements of an array: bytes, type and shape |
//! | [`inline`], [`value`] | the elements of an array that is written in the tree |
//! | [`referred`], [`resolved`](mod@resolved) | targets of references into other files |
//! | [`facts`] | the arrays as the catalogue describes them |
//! | [`masks`] | masks of arrays, with a boolean for each element |
//! | [`units`](mod@units) | units of arrays |
//! | [`npy`] | an array as a file `.npy`: header and elements |

use std::ffi::OsString;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use asdf_tree::limits::MAX_NOTES;
use seekable::content::Content;
use seekable::error::{self, Error, Result};
use seekable::sync::locked_at_once;

use super::view::{AsdfFile, Collector, Directory, View};
use crate::container::Defect;
use crate::folder::path_dir::{Item, PathDir};
use crate::folder::{Attributes, File, Node};

mod chunks;
pub mod elements;
mod entry;
mod facts;
mod inline;
mod layout;
mod masks;
mod node_paths;
mod npy;
mod places;
mod referred;
mod resolved;
mod survey;
mod units;
mod value;

pub use chunks::block_of_chunk;
pub use elements::{ArrayPart, Elements, Order, elements_of, file_of, file_of_all, file_of_mask};
pub use entry::{ArrayEntry, Masked, MaskedBy};
use facts::element_type;
pub use facts::{each, each_reference};
pub use layout::own_mask;
pub use masks::{can_be_broadcast, equal_to};
pub use node_paths::{NAMES, NodePaths, path_in_tree};
pub use npy::content as npy_content;
pub use survey::{ArrayBlocks, FoundArrays, UnsurveyedTree, find, surveyed};
pub use units::ArrayUnits;

/// The names of the image among the arrays of a mapping, the likeliest first.
pub const IMAGES: [&str; 4] = ["data", "sci", "SCI", "image"];

/// The arrays of the tree, and those in other files that it refers to.
struct Resolved {
    found: FoundArrays,
    /// The number of paths that are not known because another file could not be read.
    unread: usize,
    /// The time of the last attempt to read those files.
    tried: Mutex<Instant>,
    /// The result after more of them could be read. Entries of this one may be in use.
    later: OnceLock<Box<Resolved>>,
}

impl Resolved {
    fn new(file: &AsdfFile, surveyed: &FoundArrays) -> Self {
        let (found, unread) = resolved::resolved(file, surveyed);
        Self { found, unread, tried: Mutex::new(Instant::now()), later: OnceLock::new() }
    }

    /// Returns the last result.
    fn last(&self) -> &Self {
        let mut last = self;
        while let Some(later) = last.later.get() {
            last = later;
        }
        last
    }

    /// Returns the last result, after another attempt if files could not be read and some time has passed. A result
    /// is kept only if less is unknown, so there are at most as many as unknown paths.
    fn tried_again(&self, file: &AsdfFile, surveyed: &FoundArrays) -> &Self {
        let last = self.last();
        if last.unread == 0 {
            return last;
        }
        // Other threads do not wait for an attempt.
        let Some(mut tried) = locked_at_once(&last.tried) else { return last };
        if tried.elapsed() < file.context.silence || last.later.get().is_some() {
            return last.last();
        }
        let new = Self::new(file, surveyed);
        *tried = Instant::now();
        if new.unread < last.unread { last.later.get_or_init(|| Box::new(new)) } else { last }
    }
}

fn resolved<'f>(file: &'f AsdfFile, surveyed: &FoundArrays) -> &'f Resolved {
    file.computed.get_or_compute(|| Resolved::new(file, surveyed))
}

/// Returns the arrays of the tree, and those in other files that it refers to. They are found at the first
/// call that succeeds, and stay the same: views remember their numbers.
pub fn found(file: &AsdfFile) -> Result<&FoundArrays> {
    Ok(&resolved(file, surveyed(file)?).found)
}

/// Returns the arrays like [`found`]. If files could not be read then, those that can be read now are there, too.
fn found_by_now(file: &AsdfFile) -> Result<&FoundArrays> {
    let surveyed = surveyed(file)?;
    Ok(&resolved(file, surveyed).tried_again(file, surveyed).found)
}

/// Returns the arrays like [`found`], but only those of the tree if it refers to files on servers. Sends no request.
pub fn found_without_requests(file: &AsdfFile) -> Result<&FoundArrays> {
    let surveyed = surveyed(file)?;
    if refers_to_servers(file, surveyed) { Ok(surveyed) } else { found(file) }
}

/// True if the tree refers to arrays in other files on servers.
pub(crate) fn refers_to_servers(file: &AsdfFile, surveyed: &FoundArrays) -> bool {
    let is_on_server = |item: &Item<ArrayEntry>| matches!(&item.what, ArrayEntry::Reference(_, uri) if file.is_on_server(uri));
    surveyed.items.iter().any(is_on_server)
}

/// Finds the arrays for [`Arrays::defects`], without requests to servers.
pub(crate) fn find_omissions(file: &AsdfFile) {
    // The directory itself reports that something can't be read.
    let _ = found_without_requests(file);
}

/// True if [`surveyed`] has been computed already.
pub(crate) fn is_surveyed(file: &AsdfFile) -> bool {
    file.computed.get::<FoundArrays>().is_some()
}

/// True if [`found`] has been computed already.
pub fn is_known(file: &AsdfFile) -> bool {
    file.computed.get::<Resolved>().is_some()
}

/// The directory `arrays/`. The tree is searched when a program first looks into the directory.
#[derive(Debug)]
pub struct Arrays;

impl View for Arrays {
    fn name(&self) -> &'static str {
        "arrays"
    }

    fn node(&self, file: &Arc<AsdfFile>) -> Option<Node> {
        Some(Directory { file: file.clone(), find: dir, is_slow: |file| !is_known(file) }.node())
    }

    fn wants(&self, tag: &str) -> bool {
        super::units::array_key(tag).is_some()
    }

    fn collector(&self) -> Option<Box<dyn Collector>> {
        Some(Box::new(units::UnitFinder::default()))
    }

    fn defects(&self, file: &AsdfFile) -> Vec<Defect> {
        let resolved = file.computed.get().map(|resolved: &Resolved| &resolved.last().found);
        let Some(found) = resolved.or_else(|| file.computed.get()) else { return Vec::new() };
        found.defects.iter().cloned().chain(defects_of_externals(file, found)).collect()
    }
}

fn dir(file: &Arc<AsdfFile>) -> Result<PathDir<ArrayEntry>> {
    let items = &found_by_now(file)?.items;
    let file = file.clone();
    let make = move |item: &Item<ArrayEntry>| {
        Ok(match &item.what {
            ArrayEntry::Array(array) => {
                let unit = unit_of(&file, item)?;
                Node::File(npy_file(unit, |content| file_of(&file, array, content)))
            }
            ArrayEntry::Mask(masked) => {
                Node::File(npy_file(None, |content| file_of_mask(&file, masked, content)))
            }
            ArrayEntry::Reference(_, uri) => Node::File(reached_again(&file, uri)?),
            ArrayEntry::Unread(error) => return Err(error.clone()),
            ArrayEntry::Link(target) => Node::Link(OsString::from(&**target)),
            ArrayEntry::Pending(_, target) => Node::Link(OsString::from(target.names().join("/"))),
        })
    };
    Ok(PathDir::of_items(items, make).with_links(|entry| matches!(entry, ArrayEntry::Link(_))))
}

/// Makes a file `.npy` with type, shape and unit of its elements as extended attributes. `make` makes a file of the
/// content that it is given.
fn npy_file(
    unit: Option<&str>,
    make: impl FnOnce(&mut dyn FnMut(&Elements) -> Result<Arc<dyn Content>>) -> File,
) -> File {
    let mut attributes = Vec::new();
    let made = make(&mut |elements| {
        attributes = attributes_of(elements, unit);
        npy::content(elements)
    });
    File { attributes: Some(Arc::new(move || attributes.clone())), ..made }
}

/// Returns the units of the arrays of the tree.
pub fn units(file: &AsdfFile) -> Result<&ArrayUnits> {
    surveyed(file)?;
    Ok(file.computed.get_or_compute(ArrayUnits::default))
}

fn unit_of<'f>(file: &'f AsdfFile, item: &Item<ArrayEntry>) -> Result<Option<&'f str>> {
    let mut path: Vec<&str> = item.components().collect();
    if let Some(last) = path.last_mut() {
        *last = last.strip_suffix(".npy").unwrap_or(last);
    }
    Ok(units(file)?.of(&path).map(|unit| &*unit.text))
}

/// Returns type, shape and unit as extended attributes; type and shape are as the tree writes them.
fn attributes_of(elements: &Elements, unit: Option<&str>) -> Attributes {
    let datatype = element_type(&elements.datatype, elements.byteorder);
    let mut attributes = vec![
        ("user.asdf.datatype", datatype.to_string()),
        ("user.asdf.shape", format!("{:?}", elements.dimensions)),
    ];
    attributes.extend(unit.map(|unit| ("user.asdf.unit", unit.to_owned())));
    attributes
}

/// Returns the defects of arrays in other files.
fn defects_of_externals(file: &AsdfFile, found: &FoundArrays) -> Vec<Defect> {
    let defect = |external: &survey::ExternalArray| {
        let block = file.known_external(&external.uri)?.and_then(|other| other.block(0));
        let array = block.and_then(|block| Elements::in_block(&external.array, &block));
        array.err().map(|why| external.defect(&why))
    };
    found.externals.iter().filter_map(defect).take(MAX_NOTES).collect()
}

/// The reason why a reference to a server is not followed.
const NOT_FOLLOWED: &str = "the tree refers to too many files on servers";

/// Returns the file shown for a reference that could not be resolved: the array that it leads to, if its server did not
/// answer then, and answers now.
fn reached_again(file: &Arc<AsdfFile>, uri: &Arc<str>) -> Result<File> {
    if !file.may_be_back(uri) {
        return Ok(unreadable(file, uri));
    }
    match referred::follow(file, uri) {
        Ok(followed) => match &followed.arrays[..] {
            [(path, array)] if path.is_empty() => {
                Ok(file_of(file, &Arc::new(array.in_file(uri, path.clone())), npy::content))
            }
            _ => Ok(unreadable(file, uri)),
        },
        Err(error) if error.is_of_reading() => Err(error),
        Err(_) => Ok(unreadable(file, uri)),
    }
}

/// Returns the file shown for a reference that can't be resolved.
fn unreadable(file: &AsdfFile, uri: &str) -> File {
    let why = file.known_external(uri).unwrap_or_else(|| Err(Error::unsupported(NOT_FOLLOWED))).err();
    let why = why.unwrap_or_else(|| {
        Error::new(error::Kind::Unrecognised, "the other file can be read now: mount again")
    });
    File::unreadable(why)
}
