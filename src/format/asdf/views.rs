//! What the views of a file are made of, each found at the first look.

use std::sync::OnceLock;

use super::{arrays, exploded, external, fits, json, same_paths, tables};
use crate::content::path_folder::Items;
use crate::error::Result;

/// What is known of the views of a file.
#[derive(Debug, Default)]
pub(super) struct Views {
    /// The arrays of the tree.
    pub(super) surveyed: OnceLock<arrays::Found>,
    /// The same, and the arrays in other files that the tree refers to.
    pub(super) arrays: OnceLock<arrays::Found>,
    pub(super) externals: external::Externals,
    /// What the exploded form and its reverse are made of.
    pub(super) exploded: exploded::Kept,
    /// The pictures of arrays.
    pub(super) previews: OnceLock<Items<same_paths::Same>>,
    /// The tables of the tree.
    pub(super) tables: OnceLock<tables::Found>,
    /// Whether the text of the tree may have an array that is to be displayed.
    pub(super) may_display: OnceLock<bool>,
    /// How long the tree is in JSON.
    pub(super) json: OnceLock<Result<json::BothMeasured>>,
    /// What `fits/` shows.
    pub(super) fits: OnceLock<Items<fits::Shown>>,
}
