//! The ASDF format in all three generations of its layout.
//!
//! A file consists of a head (header line, comments, tree), padding, blocks, and an optional block index.
//! Opening reads the head. The blocks are found when a program first asks for one.
//!
//! This file only lists the parts: a new view is a line in [`VIEWS`] and a `mod`. `scripts/imports.py` lists
//! which modules may import which.
//!
//! | module | content |
//! |---|---|
//! | [`head`], [`header`], [`block`], [`index`], [`checksum`], [`growth`] | the layout of a file |
//! | [`chain`], [`quantize`] | encoded blocks |
//! | [`stored`] | a file as it is stored: head and blocks |
//! | [`in_fits`] | a FITS file with an ASDF file in it |
//! | [`view`], [`computed`] | the trait of all views; a file with the results computed from its tree |
//! | [`kept_document`] | the document of a file's tree, and how long it is kept |
//! | [`arrays`] | the survey of the tree, the elements of arrays, and the view `arrays/` |
//! | [`fits`], [`preview`], [`tables`] … | views |
//! | [`edit`], [`check`] | saves; `--check` |
//! | [`container`] | the file as the mount sees it: blocks and views |

use std::sync::{Arc, LazyLock};

use seekable::error::Result;
use seekable::source::Source;

use self::head::{NAME, recognises};
use self::view::{AsdfFile, View};
use super::{Container, Context, Format, ReadAt};

mod arrays;
pub(crate) mod block;
pub(crate) mod chain;
mod check;
pub(crate) mod checksum;
mod computed;
mod container;
#[cfg(test)]
#[path = "asdf/tests/csv.rs"]
mod csv;
pub(crate) mod defect;
pub(crate) mod edit;
mod exploded;
mod external;
mod facts;
mod fits;
mod growth;
mod hdus;
pub(crate) mod head;
pub(crate) mod header;
mod image_facts;
mod imploded;
mod in_fits;
pub(crate) mod index;
pub(crate) mod json;
mod kept_document;
pub(crate) mod ndarray;
mod preview;
pub(crate) mod quantize;
mod refs;
mod same_paths;
mod sources;
mod stored;
mod tables;
mod units;
mod view;

/// The views, in the order of the directory.
const VIEWS: &[&dyn View] = &[
    &arrays::Arrays,
    &exploded::Exploded,
    &fits::Fits,
    &preview::Previews,
    &tables::Tables,
    &json::Json::WITHOUT_TAGS,
    &json::Json::WITH_TAGS,
    &refs::Refs,
    &preview::Displayed,
    &imploded::Imploded,
];

/// The views of an ASDF file in a FITS file, in the order of the directory.
const VIEWS_IN_FITS: &[&dyn View] = &[
    &arrays::Arrays,
    &fits::Fits,
    &hdus::Hdus,
    &preview::Previews,
    &tables::Tables,
    &json::Json::WITHOUT_TAGS,
    &json::Json::WITH_TAGS,
    &refs::Refs,
    &preview::Displayed,
];

/// The ASDF format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asdf;

/// ASDF in FITS: a FITS file with an ASDF file in its extension `ASDF`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AsdfInFits;

impl Format for AsdfInFits {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "an ASDF file"
    }

    fn unsure_endings(&self) -> &'static [&'static str] {
        &[".fits", ".fit", ".fts"]
    }

    fn view_names(&self) -> &'static [&'static str] {
        static NAMES: LazyLock<Vec<&str>> =
            LazyLock::new(|| VIEWS_IN_FITS.iter().map(|view| view.name()).collect());
        &NAMES
    }

    fn recognise(&self, head: &[u8]) -> bool {
        in_fits::may_be_fits(head)
    }

    fn confirm(&self, read: ReadAt<'_>) -> Result<bool> {
        in_fits::has_asdf(read)
    }

    fn open(&self, source: Arc<dyn Source>, context: &Context) -> Result<Arc<dyn Container>> {
        Ok(Arc::new(AsdfFile::open_in_fits(source, context, VIEWS_IN_FITS)?))
    }
}

impl Format for Asdf {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "an ASDF file"
    }

    fn endings(&self) -> &'static [&'static str] {
        &[".asdf"]
    }

    fn view_names(&self) -> &'static [&'static str] {
        static NAMES: LazyLock<Vec<&str>> = LazyLock::new(|| VIEWS.iter().map(|view| view.name()).collect());
        &NAMES
    }

    fn recognise(&self, head: &[u8]) -> bool {
        recognises(head)
    }

    fn open(&self, source: Arc<dyn Source>, context: &Context) -> Result<Arc<dyn Container>> {
        Ok(Arc::new(AsdfFile::open(source, context, VIEWS)?))
    }
}

#[cfg(test)]
mod tests;
