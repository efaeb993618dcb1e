//! The state of the survey for an open collection.

use std::collections::HashSet;
use std::rc::Rc;

use super::path::{PathId, Step};
use super::value::{LARGEST, Value};
use crate::yaml::event::Mark;

/// Number of keys of a mapping that are compared one by one before a hash table is used.
const FEW: usize = 24;

/// An open collection: it has begun and not ended.
#[derive(Debug, Default)]
pub(super) struct Frame {
    pub(super) mapping: bool,
    pub(super) place: Mark,
    /// True if it is in flow style: in brackets or braces.
    pub(super) flow: bool,
    /// Path of the collection, once it was requested.
    pub(super) path: Option<Option<PathId>>,
    /// In a mapping: the last key; true if its value comes next.
    pub(super) key: String,
    pub(super) awaits_value: bool,
    /// Hash of the last key.
    pub(super) key_hash: u64,
    /// Hash of the collection's path.
    pub(super) hash: u64,
    /// True if the last key is `<<`.
    pub(super) merges: bool,
    /// Number of values or items so far.
    pub(super) count: u64,
    pub(super) seen: Seen,
    /// Bits for the keys of [`Wanted::telling`](super::Wanted::telling) that were found.
    pub(super) telling: u8,
    /// True if each item must be a mapping with one key (`!!omap`, `!!pairs`).
    pub(super) of_pairs: bool,
    /// True if all items so far are mappings.
    pub(super) of_mappings: bool,
    pub(super) tag: Option<Rc<str>>,
    /// True if the collection has a requested tag.
    pub(super) wanted: bool,
    /// True if the collection is reported when it ends.
    pub(super) handed_out: bool,
    /// True if the collection is a requested array or anchored, or is below a node that is.
    pub(super) inside: bool,
    /// True if the collection is an array in the tree.
    pub(super) array: bool,
    /// True for the root, if it is a mapping, and for mappings without a tag.
    pub(super) plain: bool,
    pub(super) record: Record,
    /// Index of the [`Rectangle`](super::Rectangle) to which it belongs.
    pub(super) rectangle: Option<usize>,
    /// Depth in that rectangle.
    pub(super) depth: usize,
    pub(super) anchor: Option<usize>,
}

/// The nodes of a collection that are kept.
#[derive(Debug, Default)]
pub(super) enum Record {
    /// Nodes are not kept.
    #[default]
    Off,
    /// All nodes so far: items, or keys and values alternating; and the number of
    /// nodes including those below.
    Kept(Vec<Value>, usize),
    /// There were too many nodes.
    TooLarge,
}

impl Record {
    pub(super) fn is_on(&self) -> bool {
        matches!(self, Self::Kept(..))
    }

    /// Returns the number of nodes kept, without those below them.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Kept(values, _) => values.len() as u64,
            _ => 0,
        }
    }

    /// Keeps a node that has `size` nodes in all. If the limit is exceeded, keeps the result of `instead`.
    pub(super) fn push(&mut self, value: Value, size: usize, instead: impl FnOnce(Value) -> Value) {
        let Self::Kept(values, total) = self else { return };
        if values.len() >= LARGEST {
            *self = Self::TooLarge;
            return;
        }
        match total.checked_add(size).filter(|sum| *sum <= LARGEST) {
            Some(sum) => {
                *total = sum;
                values.push(value);
            }
            None => values.push(instead(value)),
        }
    }
}

impl Frame {
    /// Returns the step to the current node.
    pub(super) fn step(&self) -> Step {
        match self.mapping {
            true if self.awaits_value => Step::Key(self.key.as_str().into()),
            true => Step::Key("?".into()),
            false => Step::Item(self.count),
        }
    }
}

/// The keys of a mapping, as hashes with a random seed.
#[derive(Debug)]
pub(super) enum Seen {
    Few(Vec<u64>),
    Many(HashSet<u64>),
}

impl Default for Seen {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Seen {
    /// Adds a key. Returns true if it is new.
    pub(super) fn insert(&mut self, hash: u64) -> bool {
        match self {
            Self::Few(hashes) if hashes.contains(&hash) => false,
            Self::Few(hashes) if hashes.len() < FEW => {
                hashes.push(hash);
                true
            }
            Self::Few(hashes) => {
                let mut many: HashSet<u64> = hashes.iter().copied().collect();
                let new = many.insert(hash);
                *self = Self::Many(many);
                new
            }
            Self::Many(hashes) => hashes.insert(hash),
        }
    }
}
