//! A sample of a text, to compare a later text with: nodes that have tags, and plain scalars that readers of
//! different YAML versions read differently.
//!
//! A node is identified by a hash of its path. If there are more nodes than can be kept, only those are kept
//! for which the hash ends in enough zero bits. These are the same nodes in both texts.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher, RandomState};
use std::sync::LazyLock;

use super::PathId;
use crate::yaml::event::Mark;
use crate::yaml::scalar::readings::Readings;

/// Number of nodes of each type that are kept for any text; bytes of text that allow one node more.
const KEPT: (u64, u64) = (64 << 10, 64);
/// Maximum number of changes that are listed; further changes are only counted.
const LISTED: usize = 9;
/// Maximum number of different tags that are remembered.
const MOST_TAGS: usize = 10_000;

/// Hasher for the keys and paths of all texts. It has a random seed, so that no text can force collisions.
pub(super) static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The type of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Scalar,
    Sequence,
    Mapping,
}

/// Tagged nodes, scalars and keys of a text, for comparison with another text: as many as can be kept.
#[derive(Clone, Debug, Default)]
pub struct TextSample {
    tagged: Sample<(Kind, u32)>,
    scalars: Sample<Readings>,
    /// Readings of keys in other YAML versions, by a hash of the mapping's path and the reading.
    keys: Sample<()>,
    tags: Vec<Box<str>>,
    /// Index in `tags` of each tag.
    known: HashMap<Box<str>, u32>,
}

/// Differences from an earlier text, for nodes that exist in both.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Number of nodes with a tag in the earlier text that are still at the same path with the same type.
    pub stayed: u64,
    /// Nodes that had a tag, and have none now.
    pub untagged: Listed<Box<str>>,
    /// Scalars with a new value that is the old text as read by another YAML version.
    pub reread: Listed<Box<str>>,
}

/// The first elements of a list, and the number of all.
#[derive(Clone, Debug, Default)]
pub struct Listed<T> {
    /// First elements: path, position in the text, and the missing tag or the new scalar.
    pub first: Vec<(Option<PathId>, Mark, T)>,
    /// Number of elements in all.
    pub count: u64,
}

impl<T> Listed<T> {
    pub(super) fn has_room(&self) -> bool {
        self.first.len() < LISTED
    }
}

/// Returns the hash of the path that extends `path` by `step`; both are given as hashes.
pub(super) fn step(path: u64, step: u64) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let product = u128::from(path.rotate_left(23) ^ step) * u128::from(ODD);
    (product as u64) ^ ((product >> 64) as u64)
}

impl TextSample {
    /// Remembers the tag of a node; `at` is the current offset in the text.
    pub(super) fn add_tagged(&mut self, path: u64, kind: Kind, tag: &str, at: u64) {
        let known = self.known.get(tag).copied();
        let tag = known.unwrap_or_else(|| {
            let next = u32::try_from(self.tags.len()).unwrap_or(u32::MAX);
            if self.tags.len() < MOST_TAGS {
                self.tags.push(tag.into());
                self.known.insert(tag.into(), next);
            }
            next
        });
        self.tagged.add(path, (kind, tag), at);
    }

    pub(super) fn add_scalar(&mut self, path: u64, readings: Readings, at: u64) {
        self.scalars.add(path, readings, at);
    }

    /// Remembers the readings of a key in the mapping at `path`.
    pub(super) fn add_key(&mut self, path: u64, readings: Readings, at: u64) {
        readings.others().for_each(|other| self.keys.add(step(path, other), (), at));
    }

    /// True if any keys are remembered.
    pub(super) fn has_keys(&self) -> bool {
        !self.keys.nodes.is_empty()
    }

    /// Finds an earlier key of the mapping at `path` that readers of another YAML version read as `reading`.
    /// Returns the number of keys that it represents.
    pub(super) fn key(&self, path: u64, reading: u64) -> Option<u64> {
        self.keys.get(step(path, reading)).map(|()| self.keys.mask + 1)
    }

    /// True if no tag and no scalar is remembered.
    pub(super) fn is_empty(&self) -> bool {
        self.tagged.nodes.is_empty() && self.scalars.nodes.is_empty()
    }

    /// Returns the tag that a node of this type had, and the number of nodes that it represents.
    pub(super) fn tag(&self, path: u64, kind: Kind) -> Option<(&str, u64)> {
        let (was, tag) = self.tagged.get(path)?;
        let name = self.tags.get(*tag as usize).map_or("?", |tag| tag);
        (*was == kind).then_some((name, self.tagged.mask + 1))
    }

    /// Returns the readings of a scalar, and the number of scalars that it represents.
    pub(super) fn readings(&self, path: u64) -> Option<(&Readings, u64)> {
        self.scalars.get(path).map(|readings| (readings, self.scalars.mask + 1))
    }
}

/// A sample of many nodes, by the hashes of their paths.
#[derive(Clone, Debug)]
struct Sample<T> {
    nodes: HashMap<u64, T, BuildHasherDefault<IdentityHasher>>,
    /// Bits that are zero in the hash of every node kept.
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
            self.nodes.retain(|path, _| path & mask == 0);
        }
    }

    fn get(&self, path: u64) -> Option<&T> {
        if path & self.mask != 0 { None } else { self.nodes.get(&path) }
    }
}

/// A hasher for keys that already are hashes.
#[derive(Clone, Copy, Debug, Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        // The low bits of all keys may be zero.
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
        let (mut one, mut other) = (TextSample::default(), TextSample::default());
        let paths = |n: u64| step(step(7, n), 3);
        for n in 0..500_000 {
            one.add_tagged(paths(n), Kind::Scalar, "!t", 0);
            other.add_tagged(paths(n), Kind::Scalar, "!t", 0);
        }
        assert!(one.tagged.nodes.len() as u64 <= KEPT.0);
        assert_eq!(one.tagged.nodes, other.tagged.nodes);
        let weight: u64 = (0..500_000).filter_map(|n| Some(one.tag(paths(n), Kind::Scalar)?.1)).sum();
        assert!((480_000..520_000).contains(&weight), "{weight}");
        assert_eq!(one.tag(paths(1 << 40), Kind::Scalar), None);
        // A longer text keeps more.
        let mut long = TextSample::default();
        (0..500_000).for_each(|n| long.add_tagged(paths(n), Kind::Scalar, "!t", n * 100));
        assert_eq!(long.tagged.nodes.len(), 500_000);
    }
}
