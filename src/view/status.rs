//! `status.yaml`: the state of a file and its defects.

use std::path::Path;

use asdf_file::container::{Container, Defect};
use asdf_views::format::shown;
use seekable::error::Error;
use serde::Serialize;

/// Maximum number of defects that are listed; further ones are only counted.
const LISTED: usize = 1000;

/// The contents of `status.yaml`.
#[derive(Debug, Serialize)]
pub(crate) struct Status<'a> {
    source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    generation: u64,
    #[serde(flatten)]
    writing: &'a Writing,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks_error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tree_bytes: Option<u64>,
    defects: Vec<Defect>,
    #[serde(skip_serializing_if = "Option::is_none")]
    defects_not_listed: Option<usize>,
    errors: &'a [String],
}

/// The state of writing to a file.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Writing {
    /// True if `tree.yaml` can be written.
    pub writable: bool,
    /// The reason if `tree.yaml` can't be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_because: Option<String>,
    /// True if `tree.yaml` is a draft that differs from the last save.
    pub draft: bool,
    /// Time of the last save in this mount.
    pub last_save: Option<String>,
    /// Warnings of the last save.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub last_warnings: Vec<String>,
    /// The last refusal in this mount.
    pub last_refusal: Option<LastRefusal>,
}

/// A refused text.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LastRefusal {
    /// Time of the refusal.
    pub time: String,
    /// The reason, in one line.
    pub reason: String,
    /// Path of the text's copy outside of the mount.
    pub kept_in: Option<String>,
}

impl<'a> Status<'a> {
    /// Returns the status of a file that is not opened.
    ///
    /// `generation` counts how often the file was parsed again. `errors` are errors of reading it.
    pub(crate) fn new(source: &Path, generation: u64, errors: &'a [String], writing: &'a Writing) -> Self {
        Self {
            source: source.to_string_lossy().into_owned(),
            format: None,
            version: None,
            generation,
            writing,
            error: None,
            blocks: None,
            blocks_error: None,
            tree_bytes: None,
            defects: Vec::new(),
            defects_not_listed: None,
            errors,
        }
    }

    /// Adds the parsed file, or the error of opening it.
    #[must_use]
    pub(crate) fn with_container(mut self, container: Result<&dyn Container, &Error>) -> Self {
        match container {
            Ok(container) => {
                self.format = Some(container.format());
                self.version = Some(container.version());
                match container.block_count() {
                    Ok(count) => self.blocks = Some(count),
                    Err(error) => self.blocks_error = Some(error.to_string()),
                }
                self.tree_bytes = Some(container.tree().len());
                self.defects = container.defects();
                let more = self.defects.len().saturating_sub(LISTED);
                self.defects.truncate(LISTED);
                self.defects_not_listed = (more > 0).then_some(more);
            }
            Err(error) => self.error = Some(error.to_string()),
        }
        self
    }

    /// Returns the text of `status.yaml`.
    pub(crate) fn text(&self) -> Vec<u8> {
        shown::yaml(self)
            .unwrap_or_else(|error| format!("# the status can't be written: {error}\n"))
            .into_bytes()
    }
}
