//! Entries of `arrays/`.

use std::sync::Arc;

use asdf_tree::yaml::event::Mark;
use seekable::error::Error;

use super::super::ndarray::{Datatype, Ndarray, Number};
use crate::folder::shared_path::SharedPath;

/// An entry at a path.
#[derive(Clone, Debug)]
pub enum ArrayEntry {
    /// An array in a block, in the tree, or in another file. Type and shape are known.
    Array(Arc<Ndarray>),
    /// The mask of an array, computed from its [`MaskedBy`]. A mask that is itself a boolean array of the
    /// right shape is an [`Array`](Self::Array) instead.
    Mask(Masked),
    /// A reference into another file that can't be resolved, with its place in the tree. The entry is a file
    /// that can't be opened.
    Reference(Mark, Arc<str>),
    /// A name whose node is not known, because another file could not be read. Lookups of it fail with the error.
    Unread(Error),
    /// An alias or a reference, at a place in the tree, to a node that a reference into another file leads to,
    /// or that contains such references. It becomes a link if that node has an entry.
    Pending(Mark, SharedPath),
    /// A symbolic link with this target, for an alias or a reference.
    Link(Box<str>),
}

/// An array and the rule for its masked elements.
#[derive(Clone, Debug)]
pub struct Masked {
    /// The array.
    pub of: Arc<Ndarray>,
    /// The rule for the masked elements.
    pub by: MaskedBy,
}

/// The rule that determines which elements of an array are masked.
#[derive(Clone, Debug)]
pub enum MaskedBy {
    /// Elements equal to a number are masked.
    Number(Number),
    /// Elements that are null in the tree are masked.
    Null,
    /// Elements are masked where another array is not zero. That array may be broadcast.
    Array(Arc<Ndarray>),
    /// Values that equal the null of their field are masked.
    Fields,
}

impl Masked {
    /// True if the mask has a boolean for each field of a structured array.
    pub fn has_fields(&self) -> bool {
        match &self.by {
            MaskedBy::Array(mask) => matches!(mask.datatype, Some(Datatype::Structured(_))),
            by => matches!(by, MaskedBy::Fields),
        }
    }
}

impl MaskedBy {
    /// Returns the number that masked elements equal; `None` for the other rules.
    pub fn number(&self) -> Option<Number> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }
}
