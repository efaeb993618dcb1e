//! `preview/`: a small picture of each array that is an image, `PATH.png`, and `preview.png`, the picture of
//! the array at the key `data` of the root, which the standard of 2014 calls the one to be displayed, or else of the
//! first image with a usual name in a mapping of the root, such as `roman`, or else of the largest image of the tree.
//!
//! | module | what it does |
//! |---|---|
//! | [`plane`] | the elements of one plane of an array, averaged to at most 1024 in each direction |
//! | [`levels`] | levels for numbers |
//! | [`picture`] | a plane as a picture, drawn when its file is first read |

use std::cmp::Reverse;
use std::ffi::OsString;
use std::sync::Arc;

use asdf_file::array::{float16, half};
use asdf_file::asdf::arrays::{self, ArrayEntry, FoundArrays, IMAGES, file_of};
use asdf_file::asdf::ndarray::{Datatype, Mask, Ndarray, Number, Scalar, Source};
use asdf_file::asdf::view::{AsdfFile, Directory, View};
use asdf_file::folder::path_dir::{Item, Items, PathDir};
use asdf_file::folder::{File, Node};
use picture::DrawnPlane;
use plane::Plane;
use seekable::content::{Content, Text, any_piece};
use seekable::error::Result;

use super::same_paths::{FileOrLink, is_mask, with_ending};
use crate::picture::file::PictureFile;

mod levels;
mod picture;
mod plane;

/// Keys of nodes whose arrays are parameters, so that none of them is the image of a product.
const NO_PRODUCT: [&str; 3] = ["meta", "wcs", "history"];
const ENDING: &str = ".png";
const ARRAY_ENDING: &str = ".npy";
/// The key of the array of a quantity.
const VALUE: &str = "value";

/// The entries of the directory.
struct Pictures(Items<FileOrLink>);

/// The directory `preview/`.
#[derive(Debug)]
pub(crate) struct Previews;

impl View for Previews {
    fn name(&self) -> &'static str {
        "preview"
    }

    fn node(&self, file: &Arc<AsdfFile>) -> Option<Node> {
        let is_slow = |file: &AsdfFile| file.computed.get::<Pictures>().is_none();
        Some(Directory { file: file.clone(), find: dir, is_slow }.node())
    }
}

fn dir(file: &Arc<AsdfFile>) -> Result<PathDir<FileOrLink>> {
    let Pictures(items) = file.computed.get_or_try_compute(|| previews(file).map(Pictures))?;
    let file = file.clone();
    let make = move |entry: &FileOrLink| match entry {
        FileOrLink::Array(number) => Ok(Node::File(picture_file(&file, arrays::found(&file)?, *number)?)),
        FileOrLink::Link(target) => Ok(Node::Link(OsString::from(&**target))),
    };
    Ok(PathDir::new(items, make).with_links(|entry| matches!(entry, FileOrLink::Link(_))))
}

fn previews(file: &AsdfFile) -> Result<Items<FileOrLink>> {
    Ok(with_ending(arrays::found(file)?, ENDING, |item| {
        !is_mask(item) && matches!(&item.what, ArrayEntry::Array(array) if is_image(array))
    }))
}

/// True if an array can be shown: one or several planes of numbers.
fn is_image(array: &Ndarray) -> bool {
    let (Some(shape), Some(Datatype::Scalar(scalar))) = (&array.shape, &array.datatype) else { return false };
    let dimensions = shape.dimensions.len() + usize::from(shape.streamed);
    let is_text = matches!(scalar, Scalar::Ascii(_) | Scalar::Ucs4(_));
    matches!(dimensions, 2..=4) && !shape.dimensions.contains(&0) && !is_text
}

/// Returns the picture of the array with this number.
fn picture_file(file: &Arc<AsdfFile>, found: &FoundArrays, number: usize) -> Result<File> {
    let item = found.items.get(number);
    let Some(ArrayEntry::Array(array)) = item.map(|item| &item.what) else {
        return Ok(File::changing(Arc::new(Text::default())));
    };
    let is_flags = item.is_some_and(|item| has_flags(item, array));
    let has_colors = !is_flags && has_colors(array);
    Ok(file_of(file, array, |elements| {
        let masked = masked_number(array);
        let shown = plane::Shown { is_flags, has_colors, masked };
        let plane = Plane::first(elements, shown)?;
        let picture = PictureFile::new(DrawnPlane(plane), &file.context.cache);
        Ok(Arc::new(picture) as Arc<dyn Content>)
    }))
}

/// Returns the number that masks the elements equal to it.
fn masked_number(array: &Ndarray) -> Option<f64> {
    let Mask::Value(_, Some(number)) = array.mask else { return None };
    let number = match number {
        Number::Int(value) => value as f64,
        Number::Float(value) => value,
        Number::Complex(..) => return None,
    };
    match array.datatype {
        Some(Datatype::Scalar(Scalar::Complex64 | Scalar::Complex128)) => None,
        Some(Datatype::Scalar(Scalar::Float16)) => Some(f64::from(float16(half(number)))),
        Some(Datatype::Scalar(Scalar::Float32)) => Some(f64::from(number as f32)),
        _ => Some(number),
    }
}

/// True if the bits of an array are flags, by its name and type: `dq`, `pixeldq`, `flags`, `quality`, `mask` and so on.
fn has_flags(item: &Item<ArrayEntry>, array: &Ndarray) -> bool {
    let Some(Datatype::Scalar(scalar)) = &array.datatype else { return false };
    let components: Vec<&str> = item.components().collect();
    let name = match components[..] {
        // The array of a quantity.
        [.., name, VALUE] => name,
        [.., name] => name.strip_suffix(ARRAY_ENDING).unwrap_or(name),
        [] => "",
    };
    let name = name.to_ascii_lowercase();
    let is_named =
        name.ends_with("dq") || name.ends_with("mask") || name.contains("flag") || name.contains("quality");
    let are_floats = || {
        matches!(
            scalar,
            Scalar::Float16 | Scalar::Float32 | Scalar::Float64 | Scalar::Complex64 | Scalar::Complex128
        )
    };
    is_named && !are_floats()
}

/// True if the last dimension of an array has the colors of a pixel: red, green, blue, and possibly alpha. That of an
/// array of other numbers than bytes may also be the side of a small image in a cube.
fn has_colors(array: &Ndarray) -> bool {
    let (Some(shape), Some(Datatype::Scalar(scalar))) = (&array.shape, &array.datatype) else { return false };
    let is_cube = shape.dimensions.len() + usize::from(shape.streamed) >= 3;
    let [.., colors @ (3 | 4)] = shape.dimensions[..] else { return false };
    let are_sides = || shape.dimensions.iter().rev().skip(1).take(2).all(|side| *side > colors);
    is_cube
        && match scalar {
            Scalar::Uint8 => true,
            Scalar::Uint16 | Scalar::Float16 | Scalar::Float32 | Scalar::Float64 => are_sides(),
            _ => false,
        }
}

/// The file `preview.png`.
#[derive(Debug)]
pub(crate) struct Displayed;

/// True if the text of the tree may contain an array to be displayed.
struct MayBeDisplayed(bool);

impl View for Displayed {
    fn name(&self) -> &'static str {
        "preview.png"
    }

    fn node(&self, file: &Arc<AsdfFile>) -> Option<Node> {
        let number = displayed(file).transpose()?;
        let made =
            number.and_then(|number| picture_file(file, arrays::found_without_requests(file)?, number));
        Some(Node::File(made.unwrap_or_else(File::unreadable)))
    }

    fn is_there(&self, file: &AsdfFile) -> Result<bool> {
        Ok(displayed(file)?.is_some())
    }

    fn displayed(&self, file: &AsdfFile) -> Result<Option<Vec<String>>> {
        let Some(number) = displayed(file)? else { return Ok(None) };
        Ok(arrays::found_without_requests(file)?.items.get(number).map(arrays::path_in_tree))
    }

    fn is_sought_slowly(&self, file: &AsdfFile) -> bool {
        let may_be = file.computed.get().is_none_or(|MayBeDisplayed(may_be)| *may_be);
        may_be && !arrays::is_known(file)
    }

    fn is_made_slowly(&self, file: &AsdfFile) -> bool {
        self.is_sought_slowly(file)
    }
}

/// Returns the number of the array to be displayed, among those found without requests to servers that the tree names.
/// Searches the text of the tree for signs of an array before the tree is parsed.
fn displayed(file: &AsdfFile) -> Result<Option<usize>> {
    if !file.computed.get_or_try_compute(|| may_have_array(&*file.tree()).map(MayBeDisplayed))?.0 {
        return Ok(None);
    }
    let items = &arrays::found_without_requests(file)?.items;
    let ranks = items.iter().enumerate().filter_map(|(number, item)| Some((rank(item)?, number)));
    Ok(ranks.min().map(|(_, number)| number))
}

/// The place of an array among those that may be displayed; the least is displayed.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// It has a usual name, in the root or in one of its mappings.
    Named { depth: usize, key: usize },
    /// It is an image. The largest is displayed; of equal ones, that in the first block. Blocks have the order of their
    /// arrays in the tree.
    Image(Reverse<u64>, u64),
    /// It has flags, and is in the block with this number.
    Flags(u64),
}

/// Returns the rank of an array; `None` if it is not to be displayed.
fn rank(item: &Item<ArrayEntry>) -> Option<Rank> {
    let ArrayEntry::Array(array) = &item.what else { return None };
    if !is_image(array) {
        return None;
    }
    let mut path: Vec<&str> = item.components().collect();
    let last = path.last_mut()?;
    *last = last.strip_suffix(ARRAY_ENDING)?;
    // The array of a quantity.
    if let [.., _, VALUE] = path[..] {
        path.pop();
    }
    let key = IMAGES.iter().position(|key| path.last() == Some(key));
    if let Some(key) = key.filter(|_| path.len() <= 2) {
        return Some(Rank::Named { depth: path.len(), key });
    }
    let dimensions = &array.shape.as_ref()?.dimensions;
    let is_line = dimensions.iter().rev().take(2).any(|side| *side == 1);
    let is_parameter = path.iter().any(|step| NO_PRODUCT.contains(step));
    let block = match &array.source {
        Source::Block(number) => u64::try_from(*number).unwrap_or(u64::MAX),
        _ => u64::MAX,
    };
    if is_line || is_parameter {
        return None;
    }
    Some(if has_flags(item, array) {
        Rank::Flags(block)
    } else {
        Rank::Image(Reverse(pixels(array, dimensions)), block)
    })
}

/// Returns the number of pixels of an image, or of each image of a cube.
fn pixels(array: &Ndarray, dimensions: &[u64]) -> u64 {
    let sides = dimensions.iter().rev().skip(usize::from(has_colors(array))).take(2);
    sides.fold(1, |pixels, side| pixels.saturating_mul(*side))
}

/// True if the text may have an array. It may if it contains an array's tag, or one of the keys at the start of a line
/// (also indented or quoted) or after `{` or `,`.
fn may_have_array(text: &dyn Content) -> Result<bool> {
    let keys = IMAGES.map(memchr::memmem::Finder::new);
    let tags = ["ndarray", "zarr"].map(memchr::memmem::Finder::new);
    any_piece(text, |piece, _| {
        let begins_line = |place: usize| {
            let before = &piece[..place];
            let before = before.strip_suffix(b"\"").or(before.strip_suffix(b"'")).unwrap_or(before);
            let blanks = before.iter().rev().take_while(|byte| **byte == b' ').count();
            before[..before.len() - blanks].ends_with(b"\n")
                || matches!(before.trim_ascii_end().last(), Some(b'{' | b','))
        };
        tags.iter().any(|tag| tag.find(piece).is_some())
            || keys.iter().any(|key| key.find_iter(piece).any(begins_line))
    })
}
