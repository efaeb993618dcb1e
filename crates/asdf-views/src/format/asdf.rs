//! The ASDF format: its names, and the list of its views. A new view is a line in [`VIEWS`].

use std::sync::{Arc, LazyLock};

use asdf_file::asdf::head::{NAME, recognises};
use asdf_file::asdf::view::{AsdfFile, View};
use asdf_file::asdf::{arrays, in_fits};
use asdf_file::container::{Container, Context, Format, ReadAt};
use seekable::error::Result;
use seekable::source::Source;

use crate::views::{exploded, fits, hdus, imploded, preview, refs, tables, tree_json};

#[cfg(test)]
#[path = "asdf/tests/csv.rs"]
mod csv;

/// The views, in the order of the directory.
const VIEWS: &[&dyn View] = &[
    &arrays::Arrays,
    &exploded::Exploded,
    &fits::Fits,
    &preview::Previews,
    &tables::Tables,
    &tree_json::JsonFile::WITHOUT_TAGS,
    &tree_json::JsonFile::WITH_TAGS,
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
    &tree_json::JsonFile::WITHOUT_TAGS,
    &tree_json::JsonFile::WITH_TAGS,
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
