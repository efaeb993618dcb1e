//! A node of the text, as the surveyor takes it.

use std::rc::Rc;

use crate::yaml::event::Mark;
use crate::yaml::scalar::Type;
use crate::yaml::survey::{PathId, TreeNode};

/// The tag `!`, which means no tag.
pub(super) const NO_TAG: &str = "!";

/// A node with an anchor.
#[derive(Debug)]
pub(super) struct Anchored {
    pub(super) path: Option<PathId>,
    /// The start of the node; true if it stands in brackets or braces.
    pub(super) origin: (Mark, bool),
    pub(super) outline: Outline,
    /// The hash as a key, if the node can be a key.
    pub(super) key: Option<u64>,
    /// The node itself, if it has ended and is small.
    pub(super) value: Option<Rc<TreeNode>>,
}

/// The properties of a node that its aliases need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outline {
    Scalar,
    /// A sequence; true if all items are mappings.
    Sequence(bool),
    /// A mapping, with the number of its keys once it has ended.
    Mapping(Option<u64>),
    /// An alias without an anchor.
    Unknown,
}

/// The properties of a node in the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Properties<'a> {
    /// The tag, unless it is `!`.
    pub(super) tag: Option<&'a str>,
    pub(super) anchor: Option<&'a str>,
}

impl<'a> Properties<'a> {
    /// Returns the properties of a node with this tag, which may be `!`.
    pub(super) fn new(tag: Option<&'a str>, anchor: Option<&'a str>) -> Self {
        Self { tag: tag.filter(|tag| *tag != NO_TAG), anchor }
    }
}

/// A scalar in the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScalarNode<'a> {
    pub(super) place: Mark,
    pub(super) text: &'a str,
    /// True if the scalar's text determines its type.
    pub(super) plain: bool,
    pub(super) looks: Type,
}
