//! A sample of a text with which a later text is compared: nodes with tags, and plain scalars to which
//! readers of different YAML versions give different values.
//!
//! A node is identified by a hash of its path. If there are too many nodes, only those are kept that have a
//! hash ending in enough zero bits. These are the same nodes in both texts.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher, RandomState};
use std::sync::LazyLock;

use super::PathId;
use crate::limits::MAX_ITEMS;
use crate::yaml::scalar::readings::Readings;

/// The limit of kept nodes of each sort: a constant, and the number of bytes of text that raise it by one.
const KEPT: (u64, u64) = (64 << 10, 64);
/// Maximum number of changes that are listed. Further ones are only counted.
const LISTED: usize = 9;

/// Number of bits that tell which sequences have items.
const ITEM_BITS: usize = 1 << 16;

/// A hasher for keys and paths of all texts. Its seed is random, so that a text can't provoke collisions.
pub(super) static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The type of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeType {
    Scalar,
    Sequence,
    Mapping,
}

/// A sample of tagged nodes, scalars and keys of a text.
#[derive(Clone, Debug, Default)]
pub struct TextSample {
    tagged: Sample<(NodeType, u32)>,
    scalars: Sample<Readings>,
    /// Values of keys in other YAML versions, as hashes of the mapping's path and the value.
    keys: Sample<()>,
    tags: Vec<Box<str>>,
    /// The index in `tags` of each known tag.
    known: HashMap<Box<str>, u32>,
    /// A bit for the path of each sequence with items that are compared, in itself or in sequences within it.
    with_items: Vec<u64>,
}

/// Properties of nodes that an edited text has lost although the nodes are still there.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Number of nodes that had a tag and are still there, at the same path and with the same type.
    pub stayed: u64,
    /// Nodes counted in `stayed` that no longer have a tag.
    pub untagged: FirstItems<Box<str>>,
    /// Scalars with the value that a reader of another YAML version would give the earlier scalar.
    pub reread: FirstItems<Box<str>>,
}

/// The first items of a list, and the length of the list.
#[derive(Clone, Debug, Default)]
pub struct FirstItems<T> {
    /// The first items: path, offset in the text, and the lost tag or new scalar.
    pub first: Vec<(Option<PathId>, u64, T)>,
    /// Number of all items.
    pub count: u64,
}

impl<T> FirstItems<T> {
    pub(super) fn has_room(&self) -> bool {
        self.first.len() < LISTED
    }
}

/// Returns the hash of a path with one more step.
pub(super) fn step(path: u64, step: u64) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let product = u128::from(path.rotate_left(23) ^ step) * u128::from(ODD);
    (product as u64) ^ ((product >> 64) as u64)
}

impl TextSample {
    /// Adds the tag of a node. `at` is the offset up to which the text has been read.
    pub(super) fn add_tagged(&mut self, path: u64, kind: NodeType, tag: &str, at: u64) {
        let known = self.known.get(tag).copied();
        let tag = known.unwrap_or_else(|| {
            let next = u32::try_from(self.tags.len()).unwrap_or(u32::MAX);
            if self.tags.len() < MAX_ITEMS {
                self.tags.push(tag.into());
                self.known.insert(tag.into(), next);
            }
            next
        });
        self.tagged.add(path, (kind, tag), at);
    }

    /// Notes that a sequence has items that are compared.
    pub(super) fn note_items(&mut self, sequence: u64) {
        self.with_items.resize(ITEM_BITS / 64, 0);
        let bit = sequence as usize % ITEM_BITS;
        self.with_items[bit / 64] |= 1 << (bit % 64);
    }

    /// False if no items of a sequence are in the sample. Different paths may have the same bit.
    pub(super) fn may_have_items(&self, sequence: u64) -> bool {
        let bit = sequence as usize % ITEM_BITS;
        self.with_items.get(bit / 64).is_some_and(|bits| bits >> (bit % 64) & 1 == 1)
    }

    pub(super) fn add_scalar(&mut self, path: u64, readings: Readings, at: u64) {
        self.scalars.add(path, readings, at);
    }

    /// Adds the readings of a key of the mapping at `path`.
    pub(super) fn add_key(&mut self, path: u64, readings: Readings, at: u64) {
        for other in readings.others() {
            self.keys.add(step(path, other), (), at);
        }
    }

    /// True if any keys are kept.
    pub(super) fn has_keys(&self) -> bool {
        !self.keys.nodes.is_empty()
    }

    /// Looks up a key with the value `reading` in the mapping at `path`. If a reader of another YAML version
    /// may have written this key, returns the number of keys that the sampled key represents.
    pub(super) fn key(&self, path: u64, reading: u64) -> Option<u64> {
        self.keys.get(step(path, reading)).map(|()| self.keys.mask + 1)
    }

    /// True if the sample has neither tags nor scalars.
    pub(super) fn is_empty(&self) -> bool {
        self.tagged.nodes.is_empty() && self.scalars.nodes.is_empty()
    }

    /// Returns the tag that the node at `path` had if it was of this type, and the number of nodes that the
    /// sampled node represents.
    pub(super) fn tag(&self, path: u64, kind: NodeType) -> Option<(&str, u64)> {
        let (was, tag) = self.tagged.get(path)?;
        let name = self.tags.get(*tag as usize).map_or("?", |tag| tag);
        (*was == kind).then_some((name, self.tagged.mask + 1))
    }

    /// Returns the readings of a scalar, and the number of scalars that the sampled scalar represents.
    pub(super) fn readings(&self, path: u64) -> Option<(&Readings, u64)> {
        self.scalars.get(path).map(|readings| (readings, self.scalars.mask + 1))
    }
}

/// A sample of nodes, by the hashes of their paths.
#[derive(Clone, Debug)]
struct Sample<T> {
    nodes: HashMap<u64, T, BuildHasherDefault<IdentityHasher>>,
    /// Bits that are zero in the hashes of all kept nodes.
    mask: u64,
}

impl<T> Default for Sample<T> {
    fn default() -> Self {
        Self { nodes: HashMap::default(), mask: 0 }
    }
}

impl<T> Sample<T> {
    fn add(&mut self, path: u64, node: T, at: u64) {
        if path & self.mask != 0 {
            return;
        }
        self.nodes.insert(path, node);
        if self.nodes.len() as u64 > KEPT.0 + at / KEPT.1 {
            self.mask = self.mask << 1 | 1;
            let mask = self.mask;
            self.nodes.retain(|known, _| known & mask == 0);
        }
    }

    fn get(&self, path: u64) -> Option<&T> {
        if path & self.mask != 0 { None } else { self.nodes.get(&path) }
    }
}

/// A hasher that returns its input with the bits rotated.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        // The low bits of all kept hashes may be zero; a hash table needs low bits that differ.
        self.0 = hash.rotate_right(24);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_nodes_a_part_is_kept_the_same_of_each_text() {
        let mut one = TextSample::default();
        let mut other = TextSample::default();
        let paths = |n: u64| step(step(7, n), 3);
        for n in 0..500_000 {
            one.add_tagged(paths(n), NodeType::Scalar, "!t", 0);
            other.add_tagged(paths(n), NodeType::Scalar, "!t", 0);
        }
        assert!(one.tagged.nodes.len() as u64 <= KEPT.0);
        assert_eq!(one.tagged.nodes, other.tagged.nodes);
        let weight: u64 = (0..500_000).filter_map(|n| Some(one.tag(paths(n), NodeType::Scalar)?.1)).sum();
        assert!((480_000..520_000).contains(&weight), "{weight}");
        assert_eq!(one.tag(paths(1 << 40), NodeType::Scalar), None);
        // A longer text may have a larger sample.
        let mut long = TextSample::default();
        for n in 0..500_000 {
            long.add_tagged(paths(n), NodeType::Scalar, "!t", n * 100);
        }
        assert_eq!(long.tagged.nodes.len(), 500_000);
    }
}
