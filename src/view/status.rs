//! `status.yaml`: what a file is, and what is wrong with it.

use std::path::Path;

use serde::Serialize;

use crate::error::Error;
use crate::format::{Container, Defect};

/// So many defects are listed; of more, only how many there are.
const LISTED: usize = 1000;

#[derive(Serialize)]
struct Status<'a> {
    source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    generation: u64,
    writable: bool,
    read_only_because: &'static str,
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

/// The text of a file's status.
///
/// `container` is the file, or why it can't be opened; `generation` counts how often it was parsed
/// anew; `troubles` are what went wrong while reading it.
pub fn text(
    source: &Path,
    container: Result<&dyn Container, &Error>,
    generation: u64,
    troubles: &[String],
) -> Vec<u8> {
    let mut status = Status {
        source: source.to_string_lossy().into_owned(),
        format: None,
        version: None,
        generation,
        writable: false,
        read_only_because: "this version cannot save",
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
    match serde_yaml::to_string(&status) {
        Ok(text) => text.into_bytes(),
        Err(error) => format!("# the status can't be written: {error}\n").into_bytes(),
    }
}
