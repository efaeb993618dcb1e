//! What is shown at a path of `arrays/`.

use std::sync::Arc;

use super::super::ndarray::{Ndarray, Number};
use crate::yaml::event::Mark;

/// What lies at a path.
#[derive(Clone, Debug)]
pub(in super::super) enum Entry {
    /// An array in a block, in the tree, or in another file. Its type and its shape are known.
    Array(Arc<Ndarray>),
    /// Which elements of an array are masked, where that is no array of the same shape.
    Mask(Masked),
    /// A reference into another file that can't be followed, and where it is in the tree. Its file can't be opened.
    Reference(Mark, Arc<str>),
    /// A symbolic link with this text: a node that is mentioned by its anchor, or by a reference.
    Link(Box<str>),
}

/// An array, and what says which of its elements are masked.
#[derive(Clone, Debug)]
pub(in super::super) struct Masked {
    /// The array.
    pub of: Arc<Ndarray>,
    /// What masks it.
    pub by: MaskedBy,
}

/// What says which elements of an array are masked.
#[derive(Clone, Debug)]
pub(in super::super) enum MaskedBy {
    /// Those that are equal to a number.
    Number(Number),
    /// Those that are null in the tree.
    Null,
    /// Those where another array is not zero. It may be broadcast.
    Array(Arc<Ndarray>),
}

impl MaskedBy {
    /// The number, if it is one.
    pub(super) fn number(&self) -> Option<Number> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }
}
