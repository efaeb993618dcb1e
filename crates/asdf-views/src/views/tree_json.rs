//! `tree.json` and `tree.tagged.json` as views of an ASDF file. [`json`] makes their texts, and knows the document alone.

use std::sync::Arc;

use asdf_file::asdf::view::{AsdfFile, View};
use asdf_file::container::{Defect, Severity};
use asdf_file::folder::Node;
use seekable::error::Result;

use super::json::{self, BothMeasured, Tags};

/// The file `tree.json`, or `tree.tagged.json`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonFile(Tags);

impl JsonFile {
    pub(crate) const WITHOUT_TAGS: Self = Self(Tags::Dropped);
    pub(crate) const WITH_TAGS: Self = Self(Tags::Kept);
}

impl View for JsonFile {
    fn name(&self) -> &'static str {
        match self.0 {
            Tags::Dropped => "tree.json",
            Tags::Kept => "tree.tagged.json",
        }
    }

    fn node(&self, file: &Arc<AsdfFile>) -> Option<Node> {
        Some(Node::File(json::file(file.kept_document(), &file.computed, self.0)))
    }

    fn is_made_slowly(&self, file: &AsdfFile) -> bool {
        file.computed.get::<Result<BothMeasured>>().is_none()
    }

    fn defects(&self, file: &AsdfFile) -> Vec<Defect> {
        // Both files have the same defect, which is reported once.
        let files = format!("{} and {}", self.name(), Self::WITH_TAGS.name());
        let what = match file.computed.get::<Result<BothMeasured>>() {
            Some(Err(error)) if self.0 == Tags::Dropped => {
                format!("{files} can't be read: {}", error.message())
            }
            Some(Ok(BothMeasured { note: Some(note), .. })) if self.0 == Tags::Dropped => {
                format!("{files} are {note}")
            }
            _ => return Vec::new(),
        };
        vec![Defect { severity: Severity::Note, offset: 0, block: None, what }]
    }
}
