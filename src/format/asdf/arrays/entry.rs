//! The files and links in `arrays/`.

use std::sync::Arc;

use super::super::ndarray::{Ndarray, Number};
use crate::yaml::event::Mark;

/// A file or a link in `arrays/`.
#[derive(Clone, Debug)]
pub(in super::super) enum Entry {
    /// An array in a block, in the tree, or in another file. Its type and shape are known.
    Array(Arc<Ndarray>),
    /// A mask that must be computed, because it is not a boolean array of the same shape.
    Mask(Masked),
    /// A reference into another file that can't be followed, with its position in the tree. The file shown
    /// for it can't be opened.
    Reference(Mark, Arc<str>),
    /// A symbolic link with this text, for an alias or a reference within the file.
    Link(Box<str>),
}

/// An array with its mask.
#[derive(Clone, Debug)]
pub(in super::super) struct Masked {
    /// The masked array.
    pub of: Arc<Ndarray>,
    /// Definition of the mask.
    pub by: MaskedBy,
}

/// The definition of a mask.
#[derive(Clone, Debug)]
pub(in super::super) enum MaskedBy {
    /// Masks the elements that are equal to a number.
    Number(Number),
    /// Masks the elements that are null in the tree.
    Null,
    /// Masks the elements for which another array is not zero. That array may be broadcast.
    Array(Arc<Ndarray>),
}

impl MaskedBy {
    /// Returns the number, if the mask is defined by one.
    pub(super) fn number(&self) -> Option<Number> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }
}
