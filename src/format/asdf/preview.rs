//! `preview/`: a small picture of each array that is an image, `PATH.png`, and `preview.png`, the picture of
//! the array at the key `data` of the root, which the standard of 2014 calls the one to be displayed, or else of the
//! first image with a usual name in a mapping of the root, such as `roman`.
//!
//! | module | what it does |
//! |---|---|
//! | [`plane`] | the elements of the first plane of an array, averaged to at most 1024 in each direction |
//! | [`grey`] | grey levels for numbers |
//! | [`picture`] | the file: made when it is first read |

use std::ffi::OsString;
use std::sync::Arc;

use super::arrays::{self, ArrayEntry, file_of};
use super::ndarray::{Datatype, Ndarray, Scalar, Source};
use super::same_paths::{FileOrLink, is_mask, with_ending};
use super::view::{AsdfFile, Directory, View};
use crate::content::dir::{File, Node};
use crate::content::path_dir::{Item, Items, PathDir};
use crate::content::{Content, Text, any_piece};
use crate::error::Result;

mod grey;
mod picture;
mod plane;

/// The keys of the array to be displayed, in the root or in one of its mappings, the likeliest first.
const KEYS: [&str; 4] = ["data", "sci", "SCI", "image"];
/// Keys, in lower case, of arrays of flags: each bit has a meaning.
const FLAGS: [&str; 5] = ["dq", "pixeldq", "groupdq", "flags", "mask"];
const ENDING: &str = ".png";
const ARRAY_ENDING: &str = ".npy";

/// The entries of the directory.
struct Pictures(Items<FileOrLink>);

/// The directory `preview/`.
#[derive(Debug)]
pub(super) struct Previews;

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
        FileOrLink::Array(number) => Ok(Node::File(picture_file(&file, *number)?)),
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
fn picture_file(file: &Arc<AsdfFile>, number: usize) -> Result<File> {
    let item = arrays::found(file)?.items.get(number);
    let Some(ArrayEntry::Array(array)) = item.map(|item| &item.what) else {
        return Ok(File::changing(Arc::new(Text::default())));
    };
    let turned = turned(array);
    let is_flags = item.is_some_and(has_flags);
    Ok(file_of(file, turned.as_ref().unwrap_or(array), |elements| {
        let shown = plane::Shown { turned: turned.is_some(), is_flags };
        let picture = picture::Picture::new(elements, shown, &file.context.cache)?;
        Ok(Arc::new(picture) as Arc<dyn Content>)
    }))
}

/// True if the name of an array says that its bits are flags.
fn has_flags(item: &Item<ArrayEntry>) -> bool {
    let name = item.file.strip_suffix(ARRAY_ENDING).unwrap_or(&item.file).to_ascii_lowercase();
    FLAGS.contains(&name.as_str())
}

/// Returns an array with rows and columns exchanged, if the elements of a column lie closer together than
/// those of a row. The elements are then read in storage order.
fn turned(array: &Ndarray) -> Option<Ndarray> {
    let (Some(shape), Source::Block(_) | Source::External(_) | Source::Hdu(_)) =
        (&array.shape, &array.source)
    else {
        return None;
    };
    let [.., down, across] = array.strides.as_deref()? else { return None };
    if shape.dimensions.len() < 2 || down.unsigned_abs() >= across.unsigned_abs() {
        return None;
    }
    let mut turned = array.clone();
    exchange_last_two(&mut turned.shape.as_mut()?.dimensions);
    exchange_last_two(turned.strides.as_mut()?);
    Some(turned)
}

fn exchange_last_two<T>(items: &mut [T]) {
    if let [.., one, other] = items {
        std::mem::swap(one, other);
    }
}

/// The file `preview.png`.
#[derive(Debug)]
pub(super) struct Displayed;

/// True if the text of the tree may contain a key of the array to be displayed.
struct MayBeDisplayed(bool);

impl View for Displayed {
    fn name(&self) -> &'static str {
        "preview.png"
    }

    fn node(&self, file: &Arc<AsdfFile>) -> Option<Node> {
        let number = displayed(file).transpose()?;
        let made = number.and_then(|number| picture_file(file, number));
        Some(Node::File(made.unwrap_or_else(File::unreadable)))
    }

    fn is_there(&self, file: &AsdfFile) -> Result<bool> {
        Ok(displayed(file)?.is_some())
    }

    fn is_sought_slowly(&self, file: &AsdfFile) -> bool {
        let may_be = file.computed.get().is_none_or(|MayBeDisplayed(may_be)| *may_be);
        may_be && !arrays::is_known(file)
    }

    fn is_made_slowly(&self, file: &AsdfFile) -> bool {
        self.is_sought_slowly(file)
    }
}

/// Returns the number of the array to be displayed. Searches the text of the tree for its keys before the tree is
/// parsed.
fn displayed(file: &AsdfFile) -> Result<Option<usize>> {
    if !file.computed.get_or_try_compute(|| has_line(&*file.tree()).map(MayBeDisplayed))?.0 {
        return Ok(None);
    }
    let items = &arrays::found(file)?.items;
    let ranks = items.iter().enumerate().filter_map(|(number, item)| Some((rank(item)?, number)));
    Ok(ranks.min().map(|(_, number)| number))
}

/// Returns how likely an array is the one to be displayed: first by its depth, then by its key. `None` if it is none.
fn rank(item: &Item<ArrayEntry>) -> Option<(usize, usize)> {
    let ArrayEntry::Array(array) = &item.what else { return None };
    let mut path: Vec<&str> = item.components().collect();
    let last = path.last_mut()?;
    *last = last.strip_suffix(ARRAY_ENDING)?;
    // The array of a quantity.
    if let [.., _, "value"] = path[..] {
        path.pop();
    }
    if path.len() > 2 || !is_image(array) {
        return None;
    }
    let key = KEYS.iter().position(|key| path.last() == Some(key))?;
    Some((path.len(), key))
}

/// True if a line of the text begins with one of the keys, indented or quoted or not, or the key follows `{` or `,`.
fn has_line(text: &dyn Content) -> Result<bool> {
    let finders = KEYS.map(memchr::memmem::Finder::new);
    any_piece(text, |piece, _| {
        let begins_line = |place: usize| {
            let before = &piece[..place];
            let before = before.strip_suffix(b"\"").or(before.strip_suffix(b"'")).unwrap_or(before);
            let blanks = before.iter().rev().take_while(|byte| **byte == b' ').count();
            before[..before.len() - blanks].ends_with(b"\n")
                || matches!(before.trim_ascii_end().last(), Some(b'{' | b','))
        };
        finders.iter().any(|finder| finder.find_iter(piece).any(begins_line))
    })
}
