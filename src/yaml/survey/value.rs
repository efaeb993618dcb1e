//! A copy of a requested node, with the nodes below it, up to a limit.

use std::rc::Rc;

use super::{Leaves, Shape};
use crate::yaml::event::Mark;
use crate::yaml::scalar::{self, Type};

/// Maximum number of nodes kept of one value: enough for a table with some thousand columns.
pub(super) const LARGEST: usize = 64 << 10;
/// Maximum number of nodes kept of an array in the tree.
pub(super) const LARGEST_ARRAY: usize = 4 << 10;
/// Maximum length of a scalar that is kept, in bytes.
pub(super) const LONGEST_SCALAR: usize = 64 << 10;

/// A node.
#[derive(Clone, Debug)]
pub struct Value {
    /// Position in the text.
    pub place: Mark,
    /// Resolved tag, if the text has one.
    pub tag: Option<Rc<str>>,
    /// Type and content.
    pub node: Node,
    /// Range and types of the elements, for the outermost sequence of an array.
    pub leaves: Option<Box<Leaves>>,
}

/// The type and content of a node.
#[derive(Clone, Debug)]
pub enum Node {
    /// A scalar.
    Scalar {
        /// Its text.
        text: Box<str>,
        /// True if the scalar is plain: without quotes.
        plain: bool,
    },
    /// A sequence with its shape as an array.
    Sequence(Vec<Value>, Shape),
    /// A mapping: keys and values in order.
    Mapping(Vec<(Value, Value)>),
    /// An alias of another node.
    Same(Rc<Value>),
    /// A sequence of which only the shape as an array is kept.
    LargeSequence(Shape),
    /// Any other node that is too large to keep, or a node that contains an alias of itself.
    Unknown,
}

impl Node {
    /// Returns a mapping from alternating keys and values.
    pub(super) fn mapping(values: Vec<Value>) -> Self {
        let mut pairs = Vec::with_capacity(values.len() / 2);
        let mut values = values.into_iter();
        while let (Some(key), Some(value)) = (values.next(), values.next()) {
            pairs.push((key, value));
        }
        Self::Mapping(pairs)
    }
}

impl Value {
    /// Returns a node of which only the position is known.
    pub(super) fn unknown(place: Mark) -> Self {
        Self { place, tag: None, node: Node::Unknown, leaves: None }
    }

    /// Returns the node without the nodes below it.
    pub(super) fn without_content(self) -> Self {
        let node = match self.node {
            Node::Sequence(_, shape) | Node::LargeSequence(shape) => Node::LargeSequence(shape),
            Node::Mapping(_) => Node::Unknown,
            other => other,
        };
        Self { node, ..self }
    }

    /// Returns the node itself, or the target of an alias.
    pub fn target(&self) -> &Self {
        let mut value = self;
        while let Node::Same(target) = &value.node {
            value = target;
        }
        value
    }

    /// Returns the value of `key` in a mapping: the last one written, or else one merged by `<<`.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.get_within(key, 16)
    }

    fn get_within(&self, key: &str, depth: usize) -> Option<&Self> {
        let Node::Mapping(entries) = &self.target().node else { return None };
        let own = entries.iter().rev().find(|(name, _)| name.text() == Some(key));
        if let Some((_, value)) = own {
            return Some(value);
        }
        let mut merged = entries.iter().filter(|(name, _)| name.merges());
        let depth = depth.checked_sub(1)?;
        merged.find_map(|(_, value)| match &value.target().node {
            Node::Sequence(items, _) => items.iter().find_map(|item| item.get_within(key, depth)),
            _ => value.get_within(key, depth),
        })
    }

    /// True if the whole node was kept, so that [`get`](Self::get) finds every key.
    pub fn is_whole(&self) -> bool {
        !matches!(self.target().node, Node::Unknown | Node::LargeSequence(_))
    }

    fn merges(&self) -> bool {
        self.scalar_type() == Some(Type::Merge)
    }

    /// Returns the type of a scalar.
    pub fn scalar_type(&self) -> Option<Type> {
        match &self.target().node {
            Node::Scalar { text, plain } => Some(scalar::type_of(text, *plain, self.target().tag.as_deref())),
            _ => None,
        }
    }

    /// Returns the text of a scalar of type string.
    pub fn text(&self) -> Option<&str> {
        match (&self.target().node, self.scalar_type()?) {
            (Node::Scalar { text, .. }, Type::Str) => Some(text),
            _ => None,
        }
    }

    /// Returns the value of a scalar of type integer.
    pub fn integer(&self) -> Option<i128> {
        match (&self.target().node, self.scalar_type()?) {
            (Node::Scalar { text, .. }, Type::Int) => scalar::integer(text),
            _ => None,
        }
    }

    /// Returns the items of a sequence, if they were kept.
    pub fn items(&self) -> Option<&[Self]> {
        match &self.target().node {
            Node::Sequence(items, _) => Some(items),
            _ => None,
        }
    }
}
