//! A node that was asked for, with what is below it, up to a bound.

use std::rc::Rc;

use super::{Leaves, Shape};
use crate::yaml::event::Mark;
use crate::yaml::scalar::{self, Type};

/// Nodes kept of one value: enough for a table of some thousand columns.
pub(super) const LARGEST: usize = 64 << 10;
/// Nodes kept of an array in the tree.
pub(super) const LARGEST_ARRAY: usize = 4 << 10;
/// The longest scalar that is kept.
pub(super) const LONGEST_SCALAR: usize = 64 << 10;

/// A node.
#[derive(Clone, Debug)]
pub struct Value {
    /// Where it begins.
    pub place: Mark,
    /// Its resolved tag, if one is written.
    pub tag: Option<Rc<str>>,
    /// What it is.
    pub node: Node,
    /// What its elements are, of the outermost sequence of an array.
    pub leaves: Option<Box<Leaves>>,
}

/// What a node is.
#[derive(Clone, Debug)]
pub enum Node {
    /// A scalar.
    Scalar {
        /// Its text.
        text: Box<str>,
        /// Whether it is written without quotes.
        plain: bool,
    },
    /// A sequence, with the shape it has as an array.
    Sequence(Vec<Value>, Shape),
    /// A mapping: keys and values in order.
    Mapping(Vec<(Value, Value)>),
    /// A mention of another node by its anchor.
    Same(Rc<Value>),
    /// A sequence of which only the shape it has as an array is kept.
    LargeSequence(Shape),
    /// Anything else that is too large to keep, or a node that mentions itself.
    Unknown,
}

impl Node {
    /// A mapping of keys and values in turn.
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
    /// A node of which nothing but its place is known.
    pub(super) fn unknown(place: Mark) -> Self {
        Self { place, tag: None, node: Node::Unknown, leaves: None }
    }

    /// The same node without what is below it.
    pub(super) fn without_content(self) -> Self {
        let node = match self.node {
            Node::Sequence(_, shape) | Node::LargeSequence(shape) => Node::LargeSequence(shape),
            Node::Mapping(_) => Node::Unknown,
            other => other,
        };
        Self { node, ..self }
    }

    /// The node meant: itself, or the one with the anchor.
    pub fn target(&self) -> &Self {
        let mut value = self;
        while let Node::Same(target) = &value.node {
            value = target;
        }
        value
    }

    /// The value of `key` in a mapping: the last one written, or else one merged in by `<<`.
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

    /// Whether all of it was kept, so that [`get`](Self::get) finds whatever is there.
    pub fn is_whole(&self) -> bool {
        !matches!(self.target().node, Node::Unknown | Node::LargeSequence(_))
    }

    fn merges(&self) -> bool {
        self.scalar_type() == Some(Type::Merge)
    }

    /// The type, if it is a scalar.
    pub fn scalar_type(&self) -> Option<Type> {
        match &self.target().node {
            Node::Scalar { text, plain } => Some(scalar::type_of(text, *plain, self.target().tag.as_deref())),
            _ => None,
        }
    }

    /// The text, if it is a scalar that is a text.
    pub fn text(&self) -> Option<&str> {
        match (&self.target().node, self.scalar_type()?) {
            (Node::Scalar { text, .. }, Type::Str) => Some(text),
            _ => None,
        }
    }

    /// The number, if it is a scalar that is an integer.
    pub fn integer(&self) -> Option<i128> {
        match (&self.target().node, self.scalar_type()?) {
            (Node::Scalar { text, .. }, Type::Int) => scalar::integer(text),
            _ => None,
        }
    }

    /// The items, if it is a sequence that was kept.
    pub fn items(&self) -> Option<&[Self]> {
        match &self.target().node {
            Node::Sequence(items, _) => Some(items),
            _ => None,
        }
    }
}
