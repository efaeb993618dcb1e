//! `status.yaml`: the state of a file and its defects.

use std::path::Path;

use serde::Serialize;

use crate::error::Error;
use crate::format::shown;
use crate::format::{Container, Defect};

/// Maximum number of defects that are listed; further ones are only counted.
const LISTED: usize = 1000;

#[derive(Serialize)]
struct Status<'a> {
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
    troubles: &'a [String],
}

/// The state of writing to a file.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Writing {
    /// True if `tree.yaml` can be written.
    pub writable: bool,
    /// The reason if it can't.
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
pub struct LastRefusal {
    /// Time of the refusal.
    pub time: String,
    /// The reason, in one line.
    pub reason: String,
    /// Path of the text's copy outside of the mount.
    pub kept_in: Option<String>,
}

/// Returns the text of a file's status.
///
/// `container` is the parsed file, or the error of opening it. `generation` counts how often it was parsed
/// again. `troubles` are errors of reading it. `writing` is the state of writing to it.
pub fn text(
    source: &Path,
    container: Result<&dyn Container, &Error>,
    generation: u64,
    troubles: &[String],
    writing: &Writing,
) -> Vec<u8> {
    let mut status = Status {
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
        troubles,
    };
    match container {
        Ok(container) => {
            status.format = Some(container.format());
            status.version = Some(container.version());
            match container.block_count() {
                Ok(count) => status.blocks = Some(count),
                Err(error) => status.blocks_error = Some(error.to_string()),
            }
            status.tree_bytes = Some(container.tree().len());
            status.defects = container.defects();
            let more = status.defects.len().saturating_sub(LISTED);
            status.defects.truncate(LISTED);
            status.defects_not_listed = (more > 0).then_some(more);
        }
        Err(error) => status.error = Some(error.to_string()),
    }
    shown::yaml(&status)
        .unwrap_or_else(|error| format!("# the status can't be written: {error}\n"))
        .into_bytes()
}
