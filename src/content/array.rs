//! Arrays.

use std::sync::Arc;

use super::Content;

/// An array: its elements, and how they are to be read.
#[derive(Debug)]
pub struct Array {
    /// The type of an element as a Python literal.
    pub descr: String,
    /// True if the first index varies fastest.
    pub fortran_order: bool,
    /// The length of each dimension.
    pub shape: Vec<u64>,
    /// The elements.
    pub elements: Arc<dyn Content>,
}
