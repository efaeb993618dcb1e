//! A collection that the survey is within.

use std::collections::HashSet;
use std::rc::Rc;

use super::path::{PathId, Step};
use super::value::{LARGEST, Value};
use crate::yaml::event::Mark;

/// Keys of a mapping that are compared one by one before a table is made of them.
const FEW: usize = 24;

/// A collection that has begun and not ended.
#[derive(Debug, Default)]
pub(super) struct Frame {
    pub(super) mapping: bool,
    pub(super) place: Mark,
    /// Whether it is written in brackets or braces.
    pub(super) flow: bool,
    /// Its path, once that was asked for.
    pub(super) path: Option<Option<PathId>>,
    /// In a mapping: the last key, and whether its value comes next.
    pub(super) key: String,
    pub(super) awaits_value: bool,
    /// The hash of that key.
    pub(super) key_hash: u64,
    /// The hash of its own path.
    pub(super) hash: u64,
    /// Whether the last key is `<<`.
    pub(super) merges: bool,
    /// Values, or items, so far.
    pub(super) count: u64,
    pub(super) seen: Seen,
    /// Which of the telling keys were met.
    pub(super) telling: u8,
    /// Whether each item must be a mapping of one key (`!!omap`, `!!pairs`).
    pub(super) of_pairs: bool,
    /// Whether all items so far are mappings.
    pub(super) of_mappings: bool,
    pub(super) tag: Option<Rc<str>>,
    /// Whether it has a tag that is wanted.
    pub(super) wanted: bool,
    /// Whether it is to be handed out when it ends.
    pub(super) handed_out: bool,
    /// Whether it is wanted, or below a node that is.
    pub(super) inside: bool,
    /// Whether it is an array in the tree.
    pub(super) array: bool,
    /// Whether it is the root, or a mapping without a tag.
    pub(super) plain: bool,
    pub(super) record: Record,
    /// The rectangle it is a part of.
    pub(super) rectangle: Option<usize>,
    /// Its depth in that rectangle.
    pub(super) depth: usize,
    pub(super) anchor: Option<usize>,
}

/// What is kept of a collection's nodes.
#[derive(Debug, Default)]
pub(super) enum Record {
    /// It was not asked for.
    #[default]
    Off,
    /// All of them so far: items, or keys and values in turn; how many nodes that is with those below.
    Kept(Vec<Value>, usize),
    /// There were too many.
    TooLarge,
}

impl Record {
    pub(super) fn is_on(&self) -> bool {
        matches!(self, Self::Kept(..))
    }

    /// How many nodes are kept, without those below them.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Kept(values, _) => values.len() as u64,
            _ => 0,
        }
    }

    /// Keeps a node with `size` nodes in all, or, if those are too many, `instead` of it.
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
    /// The step from it to the node that comes, or came last.
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
    /// Remembers a key; whether it is new.
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
