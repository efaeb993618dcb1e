//! The description of a file in the catalogue.

use super::Container;
use super::asdf::json;
use crate::error::Result;

/// An array of a file, as the catalogue describes it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ArrayFacts {
    /// The path, as in `arrays/`.
    pub path: String,
    /// The type of an element, in the format's words.
    pub datatype: String,
    /// The length of each dimension.
    pub shape: Vec<u64>,
    /// The place of the elements.
    pub source: ArraySource,
}

/// The place of an array's elements: in JSON a number or a text.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(untagged)]
pub enum ArraySource {
    /// The number of a block.
    Block(usize),
    /// The URI of another file, or `inline`: in the tree.
    Text(String),
}

/// Returns the tree in JSON, by the rules of `tree.json`. If it is longer than `longest` bytes, fails.
///
/// # Errors
/// The tree is not valid, or too long.
pub fn tree_in_json(container: &dyn Container, longest: u64) -> Result<Vec<u8>> {
    json::of_tree(&*container.tree(), longest)
}
