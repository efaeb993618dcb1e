//! The facts of an array in the catalogue.

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
    /// The URI of another file, or `inline` for elements in the tree.
    Text(String),
}
