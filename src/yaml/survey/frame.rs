//! An open collection of the survey.

use std::collections::HashSet;
use std::rc::Rc;

use super::MergeSource;
use super::path::{PathId, Step};
use super::value::{MAX_NODES, TreeNode};
use crate::yaml::event::Mark;
use crate::yaml::scalar::TAG_PREFIX;

/// Number of keys of a mapping that are compared linearly before a hash table is used.
const FEW: usize = 24;

/// An open collection.
#[derive(Debug, Default)]
pub(super) struct OpenCollection {
    pub(super) mapping: bool,
    pub(super) place: Mark,
    /// True if the collection is written in brackets or braces.
    pub(super) flow: bool,
    /// The path, once it has been requested.
    pub(super) path: Option<Option<PathId>>,
    /// In a mapping: the last key, and true if its value comes next.
    pub(super) key: String,
    pub(super) awaits_value: bool,
    /// The hash of the last key.
    pub(super) key_hash: u64,
    /// The hash of the collection's own path.
    pub(super) hash: u64,
    /// True if the last key is `<<`.
    pub(super) merges: bool,
    /// Number of values or items so far.
    pub(super) count: u64,
    pub(super) seen: KeyHashes,
    /// A bit for each key of `Wanted::telling` that was found.
    pub(super) telling: u8,
    /// For a sequence of pairs: each item must be a mapping with one key.
    pub(super) of_pairs: Option<PairList>,
    /// For a mapping that is an item of a sequence of pairs: the type of that sequence.
    pub(super) pair: Option<PairList>,
    /// True for a sequence that is the value of a merge key.
    pub(super) merged: bool,
    /// True if a mapping has merge keys.
    pub(super) has_merges: bool,
    /// The mappings that merge keys merge into a mapping.
    pub(super) sources: Vec<MergeSource>,
    /// True if the last key is `=`.
    pub(super) at_value: bool,
    /// For a mapping with the key `=`: true if the first value of this key can be a scalar.
    pub(super) has_value: Option<bool>,
    /// For a mapping with the tag of a scalar: the reason why it is invalid without the key `=`, and the
    /// number of findings before it.
    pub(super) unfit: Option<(&'static str, usize)>,
    /// True if all items so far are mappings.
    pub(super) of_mappings: bool,
    pub(super) tag: Option<Rc<str>>,
    /// True if the collection has a selected tag.
    pub(super) has_wanted_tag: bool,
    /// True if the collection has a selected tag by which PyYAML constructs it.
    pub(super) wanted: bool,
    /// True if the collection is passed to the caller at its end.
    pub(super) handed_out: bool,
    /// True if the collection is selected or lies within a selected node.
    pub(super) inside: bool,
    /// True for an array in the tree.
    pub(super) array: bool,
    /// True for the root, and for a mapping without a tag.
    pub(super) plain: bool,
    pub(super) record: Record,
    /// The index of the array (`Rectangle`) that the collection is part of.
    pub(super) rectangle: Option<usize>,
    /// The depth of the collection in that array.
    pub(super) depth: usize,
    pub(super) anchor: Option<usize>,
}

/// The type of a sequence of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PairList {
    /// `!!omap`, in which keys must be hashable.
    OrderedMap,
    /// `!!pairs`.
    Pairs,
}

impl PairList {
    /// Returns the type of a sequence with this tag; `None` if it is not one of pairs.
    pub(super) fn of(tag: &str) -> Option<Self> {
        match tag.strip_prefix(TAG_PREFIX)? {
            "omap" => Some(Self::OrderedMap),
            "pairs" => Some(Self::Pairs),
            _ => None,
        }
    }
}

/// The kept nodes of a collection.
#[derive(Debug, Default)]
pub(super) enum Record {
    /// Nodes are not kept.
    #[default]
    Off,
    /// All nodes so far (items, or alternating keys and values), and a total that includes the nodes in them.
    Kept(Vec<TreeNode>, usize),
    /// There were too many nodes.
    TooLarge,
}

impl Record {
    pub(super) fn is_on(&self) -> bool {
        matches!(self, Self::Kept(..))
    }

    /// Returns the number of kept nodes, not counting the nodes within them.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Kept(values, _) => values.len() as u64,
            _ => 0,
        }
    }

    /// Keeps a node. `size` counts it and all nodes within it. If the total would exceed `MAX_NODES`, the
    /// result of `instead` is kept in its place.
    pub(super) fn push(&mut self, value: TreeNode, size: usize, instead: impl FnOnce(TreeNode) -> TreeNode) {
        let Self::Kept(values, total) = self else { return };
        if values.len() >= MAX_NODES {
            *self = Self::TooLarge;
            return;
        }
        match total.checked_add(size).filter(|sum| *sum <= MAX_NODES) {
            Some(sum) => {
                *total = sum;
                values.push(value);
            }
            None => values.push(instead(value)),
        }
    }
}

impl OpenCollection {
    /// Returns the step from the collection to its next or last node.
    pub(super) fn step(&self) -> Step {
        if !self.mapping {
            Step::Item(self.count)
        } else if self.awaits_value {
            Step::Key(self.key.as_str().into())
        } else {
            Step::Key("?".into())
        }
    }
}

/// The keys of a mapping, as hashes with a random seed.
#[derive(Clone, Debug)]
pub(super) enum KeyHashes {
    Few(Vec<u64>),
    Many(HashSet<u64>),
}

impl Default for KeyHashes {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl KeyHashes {
    /// True if a key was added.
    pub(super) fn has(&self, hash: u64) -> bool {
        match self {
            Self::Few(hashes) => hashes.contains(&hash),
            Self::Many(hashes) => hashes.contains(&hash),
        }
    }

    /// Returns the number of keys.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Few(hashes) => hashes.len(),
            Self::Many(hashes) => hashes.len(),
        }
    }

    /// Adds a key; true if the key is new.
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
