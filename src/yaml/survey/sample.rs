//! A sample of a text, to compare a later text with: nodes that have tags, and plain scalars that readers of
//! different YAML versions read differently.
//!
//! A node is known by a hash of its path. Where there are more nodes than can be kept, those are kept whose hashes
//! end in enough zeros, which are the same nodes in both texts.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher, RandomState};
use std::sync::LazyLock;

use super::PathId;
use crate::yaml::event::Mark;
use crate::yaml::scalar::readings::Readings;

/// Nodes of a kind that are kept of any text, and bytes of a larger one for each further node.
const KEPT: (u64, u64) = (64 << 10, 64);
/// Changes that are listed; the others are only counted.
const LISTED: usize = 9;
/// Different tags that are remembered by name.
const MOST_TAGS: usize = 10_000;

/// Hashes keys and paths of all texts, with a random seed, so that a text cannot be made to collide.
pub(super) static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Scalar,
    Sequence,
    Mapping,
}

/// Tagged nodes, scalars and keys of a text, to compare another text with: as many as can be kept.
#[derive(Clone, Debug, Default)]
pub struct TextSample {
    tagged: Sample<(Kind, u32)>,
    scalars: Sample<Readings>,
    /// What readers of other versions would make of keys, by the path of the mapping and that.
    keys: Sample<()>,
    tags: Vec<Box<str>>,
    /// Which tag of `tags` this is.
    known: HashMap<Box<str>, u32>,
}

/// What of an earlier text a text has no more, although the nodes are there.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// How many nodes that had a tag are still there, at the same path and of the same kind.
    pub stayed: u64,
    /// Those of them that have none now.
    pub untagged: Listed<Box<str>>,
    /// Scalars that are now what a reader of another version of YAML takes the earlier ones for.
    pub reread: Listed<Box<str>>,
}

/// The first of something, and how many there are.
#[derive(Clone, Debug, Default)]
pub struct Listed<T> {
    /// The first: where they are in the tree and in the text, and the tag that is gone or the new scalar.
    pub first: Vec<(Option<PathId>, Mark, T)>,
    /// How many there are in all.
    pub count: u64,
}

impl<T> Listed<T> {
    pub(super) fn has_room(&self) -> bool {
        self.first.len() < LISTED
    }
}

/// The hash of the path that leads on from the path with this hash.
pub(super) fn step(path: u64, step: u64) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let product = u128::from(path.rotate_left(23) ^ step) * u128::from(ODD);
    (product as u64) ^ ((product >> 64) as u64)
}

impl TextSample {
    /// Remembers the tag of a node; `at` is how far the text has been read.
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

    /// Remembers the readings of a key of the mapping at `path`.
    pub(super) fn add_key(&mut self, path: u64, readings: Readings, at: u64) {
        readings.others().for_each(|other| self.keys.add(step(path, other), (), at));
    }

    /// Whether any keys are remembered.
    pub(super) fn has_keys(&self) -> bool {
        !self.keys.nodes.is_empty()
    }

    /// Whether a key of the mapping at `path` that is read as this may have been one that PyYAML reads in
    /// another way; for how many such keys it stands.
    pub(super) fn key(&self, path: u64, reading: u64) -> Option<u64> {
        self.keys.get(step(path, reading)).map(|()| self.keys.mask + 1)
    }

    /// Whether nothing of any text has to be looked up here.
    pub(super) fn is_empty(&self) -> bool {
        self.tagged.nodes.is_empty() && self.scalars.nodes.is_empty()
    }

    /// The tag that a node of this kind had, and for how many nodes it stands.
    pub(super) fn tag(&self, path: u64, kind: Kind) -> Option<(&str, u64)> {
        let (was, tag) = self.tagged.get(path)?;
        let name = self.tags.get(*tag as usize).map_or("?", |tag| tag);
        (*was == kind).then_some((name, self.tagged.mask + 1))
    }

    /// The readings of a scalar, and for how many it stands.
    pub(super) fn readings(&self, path: u64) -> Option<(&Readings, u64)> {
        self.scalars.get(path).map(|readings| (readings, self.scalars.mask + 1))
    }
}

/// Some of many nodes, by the hashes of their paths.
#[derive(Clone, Debug)]
struct Sample<T> {
    nodes: HashMap<u64, T, BuildHasherDefault<IdentityHasher>>,
    /// Bits that are zero in the hashes of all that are kept.
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

/// Takes a hash for its own hash.
#[derive(Clone, Copy, Debug, Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        // The low bits of those that are kept may all be zero.
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
        // A longer text may keep more.
        let mut long = TextSample::default();
        (0..500_000).for_each(|n| long.add_tagged(paths(n), Kind::Scalar, "!t", n * 100));
        assert_eq!(long.tagged.nodes.len(), 500_000);
    }
}
