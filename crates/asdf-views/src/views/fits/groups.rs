//! The images of one shape in a mapping or a sequence, as the extensions of one FITS file.

use std::collections::HashMap;

use asdf_file::asdf::arrays::{ArrayEntry, ArrayUnits, FoundArrays};
use asdf_file::asdf::ndarray::Ndarray;
use asdf_file::folder::shared_path::SharedPath;

use super::nodes::ROOT;
use super::{card, image, path_of};

/// The names of extensions in the products of JWST, in their order, and those of arrays.
const NAMES: [(&str, &[&str]); 4] =
    [("SCI", &["data", "sci", "image"]), ("ERR", &["err"]), ("DQ", &["dq"]), ("WHT", &["weight", "wht"])];
/// Maximum number of extensions of a file.
const MAX_IMAGES: usize = 1024;

/// The images of a mapping or a sequence.
#[derive(Debug)]
pub(super) struct Group {
    /// The path of the collection.
    pub path: SharedPath,
    pub images: Vec<GroupImage>,
}

/// An image of a group.
#[derive(Debug)]
pub(super) struct GroupImage {
    /// The number of the array in the survey's items.
    pub number: usize,
    /// The name of the extension.
    pub name: String,
    /// Its version: the number of extensions with this name so far, from 1 on.
    pub version: usize,
}

/// The images in a collection, by their shapes: the number of the array, its key or number, and the rank of the key.
type ByShape<'f> = HashMap<&'f [u64], Vec<(usize, &'f str, KeyRank)>>;

/// The position of a key in [`NAMES`]: that of its name, and that among the keys of the name.
type KeyRank = (usize, usize);

/// Returns the groups of a tree: of each collection, the images that have the shape of the image with a usual name, or
/// else the shape that most of its images have.
pub(super) fn find(found: &FoundArrays, units: &ArrayUnits) -> Vec<Group> {
    let mut order: Vec<Vec<&str>> = Vec::new();
    let mut collections: HashMap<Vec<&str>, ByShape<'_>> = HashMap::new();
    for (number, item) in found.items.iter().enumerate() {
        let ArrayEntry::Array(array) = &item.what else { continue };
        let Some(shape) = shape_of_image(array) else { continue };
        let mut path = path_of(item);
        // The array of a quantity, or of an uncertainty.
        let is_quantity = path.last() == Some(&"value") && units.of(&path).is_some();
        if is_quantity || path.ends_with(&["uncertainty", "array"]) {
            path.pop();
        }
        let Some(key) = path.pop() else { continue };
        let by_shape = collections.entry(path.clone()).or_insert_with(|| {
            order.push(path);
            ByShape::new()
        });
        by_shape.entry(shape).or_default().push((number, key, rank(key)));
    }
    order.iter().filter_map(|path| group(path, collections.remove(path)?)).collect()
}

/// Returns the shape of an array that is an image of two to four dimensions.
fn shape_of_image(array: &Ndarray) -> Option<&[u64]> {
    let shape = array.shape.as_ref().filter(|shape| !shape.streamed)?;
    let is_image = image::can_be(array) && shape.dimensions.len() >= 2 && !shape.dimensions.contains(&0);
    is_image.then_some(&shape.dimensions[..])
}

/// Returns the position of a key in [`NAMES`], in upper or lower case.
fn rank(key: &str) -> KeyRank {
    let key = key.to_ascii_lowercase();
    let mut names = NAMES.iter().enumerate();
    let found = names.find_map(|(n, (_, keys))| Some((n, keys.iter().position(|known| *known == key)?)));
    found.unwrap_or((NAMES.len(), 0))
}

/// Returns the name of the extension of an array with this key.
pub(super) fn extension_name(key: &str) -> String {
    let usual = NAMES.get(rank(key).0).map(|(name, _)| (*name).to_owned());
    usual.unwrap_or_else(|| card::name(key).to_ascii_uppercase())
}

fn group(path: &[&str], by_shape: ByShape<'_>) -> Option<Group> {
    let several = by_shape.into_values().filter(|images| (2..=MAX_IMAGES).contains(&images.len()));
    let mut images = several.min_by_key(|images| {
        let has_image = images.iter().any(|(_, _, (name, _))| *name == 0);
        let first = images.iter().map(|(number, ..)| *number).min();
        (!has_image, std::cmp::Reverse(images.len()), first)
    })?;
    images.sort_by_key(|(number, _, rank)| (*rank, *number));
    let mut versions: HashMap<String, usize> = HashMap::new();
    let images = images.into_iter().map(|(number, key, _)| {
        let name = extension_name(key);
        let version = versions.entry(name.clone()).or_default();
        *version += 1;
        GroupImage { number, name, version: *version }
    });
    let images = images.collect();
    let path = if path.is_empty() { &[ROOT][..] } else { path };
    Some(Group { path: SharedPath::new(path.iter().copied()), images })
}
