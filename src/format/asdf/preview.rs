//! `preview/`: a small picture of each array that is an image, `PATH.png`, and `preview.png`, the picture of
//! the array at the key `data` of the root. The standard of 2014 calls that array the one to be displayed.
//!
//! | module | what it does |
//! |---|---|
//! | [`plane`] | the elements of the first plane of an array, averaged to at most 1024 in each direction |
//! | [`grey`] | grey levels for numbers |
//! | [`picture`] | the file: made when it is first read |

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use super::AsdfFile;
use super::arrays::{Entry, file_of};
use super::ndarray::{Datatype, Ndarray, Scalar, Source};
use super::same_paths::{Same, is_mask, with_ending};
use crate::content::folder::{File, Folder, Keeping, Kind, Node};
use crate::content::path_folder::{Item, Items, PathFolder};
use crate::content::{Content, Text, read_exact_at};
use crate::error::Result;
use crate::format::Container;

mod grey;
mod picture;
mod plane;

/// The name of the picture of the array to be displayed, and the key of that array.
pub(super) const FILE: &str = "preview.png";
const KEY: &str = "data";
/// The name of that array in `arrays/`.
const ARRAY: &str = "data.npy";
const ENDING: &str = ".png";

/// The directory `preview/`.
#[derive(Debug)]
pub(super) struct Previews {
    file: Arc<AsdfFile>,
}

impl Previews {
    pub(super) fn new(file: Arc<AsdfFile>) -> Self {
        Self { file }
    }

    fn folder(&self) -> PathFolder<Same> {
        let file = self.file.clone();
        let make = move |same: &Same| match same {
            Same::Array(number) => Ok(Node::File(picture_file(&file, *number))),
            Same::Link(target) => Ok(Node::Link(OsString::from(&**target))),
        };
        let items = self.file.views.previews.get_or_init(|| previews(&self.file));
        PathFolder::new(items, make).with_links(|same| matches!(same, Same::Link(_)))
    }
}

impl Folder for Previews {
    fn lookup(&self, name: &OsStr) -> Result<Option<Node>> {
        self.folder().lookup(name)
    }

    fn list(&self, from: u64, take: &mut dyn FnMut(&OsStr, Kind) -> bool) -> Result<()> {
        self.folder().list(from, take)
    }

    fn is_slow(&self) -> bool {
        self.file.is_slow() || self.file.views.previews.get().is_none()
    }
}

fn previews(file: &AsdfFile) -> Items<Same> {
    with_ending(file.found(), ENDING, |item| {
        !is_mask(item) && matches!(&item.what, Entry::Array(array) if is_image(array))
    })
}

/// True if an array can be shown: one or several planes of numbers.
fn is_image(array: &Ndarray) -> bool {
    let (Some(shape), Some(Datatype::Scalar(scalar))) = (&array.shape, &array.datatype) else { return false };
    let dimensions = shape.dimensions.len() + usize::from(shape.streamed);
    let is_text = matches!(scalar, Scalar::Ascii(_) | Scalar::Ucs4(_));
    matches!(dimensions, 2 | 3) && !shape.dimensions.contains(&0) && !is_text
}

/// Returns the picture of the array with this number.
fn picture_file(file: &Arc<AsdfFile>, number: usize) -> File {
    let Some(Entry::Array(array)) = file.found().items.get(number).map(|item| &item.what) else {
        return File::new(Arc::new(Text::default()), Keeping::Nothing);
    };
    let turned = turned(array);
    file_of(file, turned.as_ref().unwrap_or(array), |elements| {
        let picture = picture::Picture::new(elements, turned.is_some(), &file.context.cache)?;
        Ok(Arc::new(picture) as Arc<dyn Content>)
    })
}

/// Returns an array with rows and columns exchanged, if the elements of a column lie closer together than
/// those of a row. It is then read in storage order.
fn turned(array: &Ndarray) -> Option<Ndarray> {
    let (Some(shape), Source::Block(_) | Source::External(_)) = (&array.shape, &array.source) else {
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

impl AsdfFile {
    /// Returns the number of the array at the key `data` of the root, if it can be shown. Searches the text
    /// of the tree for the key before the tree is parsed.
    pub(super) fn displayed(&self) -> Option<usize> {
        if !self.may_have_displayed() {
            return None;
        }
        let items = &self.found().items;
        let is_it = |item: &Item<Entry>| {
            let is_there = item.components().eq([ARRAY]);
            is_there && matches!(&item.what, Entry::Array(array) if is_image(array))
        };
        items.iter().position(is_it)
    }

    /// Returns the file `preview.png`.
    pub(super) fn displayed_file(self: &Arc<Self>) -> Option<File> {
        Some(picture_file(self, self.displayed()?))
    }

    /// True if it is slow now to find out whether there is an array to be displayed.
    pub(super) fn finds_displayed_slowly(&self) -> bool {
        match self.views.may_display.get() {
            Some(may) => *may && self.views.arrays.get().is_none(),
            None => self.views.arrays.get().is_none(),
        }
    }

    /// True if the text of the tree may contain the key.
    fn may_have_displayed(&self) -> bool {
        *self.views.may_display.get_or_init(|| has_line(&*self.tree()).unwrap_or(false))
    }
}

/// Bytes read at once.
const PIECE: usize = 256 << 10;

/// True if a line of the text begins with the key, quoted or not, or the key follows `{` or `,`.
fn has_line(text: &dyn Content) -> Result<bool> {
    let finder = memchr::memmem::Finder::new(KEY);
    // Each piece begins with the end of the one before it.
    let (mut piece, mut at, mut kept) = (vec![0; PIECE], 0, 0);
    while at < text.len() {
        let more = (text.len() - at).min((PIECE - kept) as u64) as usize;
        read_exact_at(text, at, &mut piece[kept..kept + more])?;
        at += more as u64;
        let read = &piece[..kept + more];
        let begins_line = |place: usize| {
            let before = &read[..place];
            let before = before.strip_suffix(b"\"").or(before.strip_suffix(b"'")).unwrap_or(before);
            before.ends_with(b"\n") || matches!(before.trim_ascii_end().last(), Some(b'{' | b','))
        };
        if finder.find_iter(read).any(begins_line) {
            return Ok(true);
        }
        kept = read.len().min(64);
        let from = read.len() - kept;
        piece.copy_within(from..from + kept, 0);
    }
    Ok(false)
}
