//! A node of the text, as the surveyor takes it.

use std::rc::Rc;

use crate::yaml::event::Mark;
use crate::yaml::scalar::Type;
use crate::yaml::survey::{PathId, TreeNode};

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
    /// The reason why the node is invalid for its tag, if PyYAML does not construct the node where it stands.
    pub(super) unfit: Option<&'static str>,
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
    pub(super) tag: Option<&'a str>,
    pub(super) anchor: Option<&'a str>,
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
