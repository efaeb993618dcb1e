//! A selected node with its content, up to a limit.

use std::rc::Rc;

use super::{Leaves, SequenceShape};
use crate::yaml::event::Mark;
use crate::yaml::scalar::{self, Type};

/// A node.
#[derive(Clone, Debug)]
pub struct TreeNode {
    /// The start.
    pub place: Mark,
    /// The resolved tag, if one is written.
    pub tag: Option<Rc<str>>,
    /// The type and content.
    pub node: NodeContent,
    /// Properties of the elements, for the outermost sequence of an array.
    pub leaves: Option<Box<Leaves>>,
}

/// The type and content of a node.
#[derive(Clone, Debug)]
pub enum NodeContent {
    /// A scalar.
    Scalar {
        /// The text.
        text: Box<str>,
        /// True if the scalar is written without quotes.
        plain: bool,
    },
    /// A sequence, with its shape as an array.
    Sequence(Vec<TreeNode>, SequenceShape),
    /// A mapping, with keys and values in order.
    Mapping(Vec<(TreeNode, TreeNode)>),
    /// An alias of another node.
    Same(Rc<TreeNode>),
    /// A sequence of which only the shape as an array is kept.
    LargeSequence(SequenceShape),
    /// Any other node that is too large to keep, or an alias of a node within that node itself.
    Unknown,
}

impl NodeContent {
    /// Makes a mapping of alternating keys and values.
    pub(super) fn mapping(values: Vec<TreeNode>) -> Self {
        let mut pairs = Vec::with_capacity(values.len() / 2);
        let mut values = values.into_iter();
        while let (Some(key), Some(value)) = (values.next(), values.next()) {
            pairs.push((key, value));
        }
        Self::Mapping(pairs)
    }
}

impl TreeNode {
    /// Returns a collection without its nodes, a sequence with its shape; any other node as it is.
    pub(super) fn without_content(self) -> Self {
        let node = match self.node {
            NodeContent::Sequence(_, shape) | NodeContent::LargeSequence(shape) => {
                NodeContent::LargeSequence(shape)
            }
            NodeContent::Mapping(_) => NodeContent::Unknown,
            other => other,
        };
        Self { node, ..self }
    }

    /// Returns the node itself, or the node that an alias stands for.
    pub fn target(&self) -> &Self {
        let mut value = self;
        while let NodeContent::Same(target) = &value.node {
            value = target;
        }
        value
    }

    /// Returns the value of `key` in a mapping: the last one written, or else one that `<<` merges in.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.get_within(key, 16)
    }

    fn get_within(&self, key: &str, depth: usize) -> Option<&Self> {
        let NodeContent::Mapping(entries) = &self.target().node else { return None };
        let own = entries.iter().rev().find(|(name, _)| name.text() == Some(key));
        if let Some((_, value)) = own {
            return Some(value);
        }
        let mut merged = entries.iter().filter(|(name, _)| name.merges());
        let depth = depth.checked_sub(1)?;
        merged.find_map(|(_, value)| match &value.target().node {
            NodeContent::Sequence(items, _) => items.iter().find_map(|item| item.get_within(key, depth)),
            _ => value.get_within(key, depth),
        })
    }

    /// True if the whole node is kept, so that [`get`](Self::get) finds all its keys.
    pub fn is_whole(&self) -> bool {
        !matches!(self.target().node, NodeContent::Unknown | NodeContent::LargeSequence(_))
    }

    fn merges(&self) -> bool {
        self.scalar_type() == Some(Type::Merge)
    }

    /// Returns the type of a scalar.
    pub fn scalar_type(&self) -> Option<Type> {
        match &self.target().node {
            NodeContent::Scalar { text, plain } => {
                Some(scalar::type_of(text, *plain, self.target().tag.as_deref()))
            }
            _ => None,
        }
    }

    /// Returns the text of a scalar of type string.
    pub fn text(&self) -> Option<&str> {
        match (&self.target().node, self.scalar_type()?) {
            (NodeContent::Scalar { text, .. }, Type::Str) => Some(text),
            _ => None,
        }
    }

    /// Returns the number of a scalar of type integer.
    pub fn integer(&self) -> Option<i128> {
        match (&self.target().node, self.scalar_type()?) {
            (NodeContent::Scalar { text, .. }, Type::Int) => scalar::integer(text),
            _ => None,
        }
    }

    /// Returns the items of a sequence that was kept.
    pub fn items(&self) -> Option<&[Self]> {
        match &self.target().node {
            NodeContent::Sequence(items, _) => Some(items),
            _ => None,
        }
    }
}
