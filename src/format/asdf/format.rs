//! The ASDF format as an entry in the list of formats.

use std::sync::Arc;

use super::{AsdfFile, NAME, edit, recognises};
use crate::error::Result;
use crate::format::editor::EditSupport;
use crate::format::{Container, Context, Format};
use crate::source::Source;

/// The ASDF format.
#[derive(Clone, Copy, Debug)]
pub struct Asdf;

impl Format for Asdf {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "an ASDF file"
    }

    fn magic(&self) -> &'static str {
        "#ASDF"
    }

    fn view_names(&self) -> &'static [&'static str] {
        &[
            "arrays",
            "exploded",
            "fits",
            "imploded.asdf",
            "preview",
            "preview.png",
            "tables",
            "tree.json",
            "tree.tagged.json",
        ]
    }

    fn recognise(&self, head: &[u8]) -> bool {
        recognises(head)
    }

    fn open(&self, source: Arc<dyn Source>, context: &Context) -> Result<Arc<dyn Container>> {
        Ok(Arc::new(AsdfFile::open(source, context)?))
    }

    fn edit_support(&self) -> Option<&'static dyn EditSupport> {
        Some(&edit::Support)
    }
}
