//! The data from which the views of a file are made, each computed at first use.

use std::sync::OnceLock;

use super::{arrays, exploded, external, fits, json, same_paths, tables};
use crate::content::path_folder::Items;
use crate::error::Result;

/// The computed data of a file's views.
#[derive(Debug, Default)]
pub(super) struct Views {
    /// The arrays of the tree.
    pub(super) surveyed: OnceLock<arrays::Found>,
    /// The arrays of the tree, and those in other files that it refers to.
    pub(super) arrays: OnceLock<arrays::Found>,
    pub(super) externals: external::Externals,
    /// The data for the exploded and the imploded form.
    pub(super) exploded: exploded::Kept,
    /// The pictures of arrays.
    pub(super) previews: OnceLock<Items<same_paths::Same>>,
    /// The tables of the tree.
    pub(super) tables: OnceLock<tables::Found>,
    /// True if the text of the tree may have an array that is to be displayed.
    pub(super) may_display: OnceLock<bool>,
    /// The length of the tree in JSON.
    pub(super) json: OnceLock<Result<json::BothMeasured>>,
    /// The entries of `fits/`.
    pub(super) fits: OnceLock<Items<fits::FitsEntry>>,
}
