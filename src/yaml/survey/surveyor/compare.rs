//! Comparison with an earlier text: lost tags, and scalars that have been read by the rules of another YAML
//! version.

use super::node::ScalarNode;
use super::{Surveyor, shorten};
use crate::yaml::event::Mark;
use crate::yaml::scalar::readings::{Readings, reading};
use crate::yaml::scalar::{self, Type};
use crate::yaml::survey::sample::{NodeType, step};

impl Surveyor<'_, '_> {
    /// Returns the hash of the path of the next node.
    pub(super) fn next_hash(&self) -> u64 {
        match self.frames.last() {
            Some(frame) if frame.mapping => step(frame.hash, frame.key_hash),
            // The count is inverted, so that it is unlikely to equal a key's hash.
            Some(frame) => step(frame.hash, !frame.count),
            None => 0,
        }
    }

    pub(super) fn compare_collection(&mut self, place: Mark, mapping: bool, tag: Option<&str>) {
        let (kind, usual) = if mapping { (NodeType::Mapping, "map") } else { (NodeType::Sequence, "seq") };
        let tag = tag.filter(|tag| tag.strip_prefix(scalar::TAG_PREFIX) != Some(usual));
        if tag.is_some() || self.wanted.before.is_some_and(|before| !before.is_empty()) {
            self.compare_tag(self.next_hash(), place, kind, tag);
        }
    }

    pub(super) fn compare_scalar(&mut self, scalar: ScalarNode<'_>, tag: Option<&str>) {
        let ScalarNode { place, text, plain, looks } = scalar;
        // A tag that does not change the type of the scalar may come and go.
        let tag = tag.filter(|_| looks == Type::Other || scalar::type_of(text, plain, None) != looks);
        let readings = if plain && tag.is_none() { Readings::of(text, looks) } else { None };
        let before = self.wanted.before.filter(|before| !before.is_empty());
        if tag.is_none() && readings.is_none() && before.is_none() {
            return;
        }
        let hash = self.next_hash();
        self.compare_tag(hash, place, NodeType::Scalar, tag);
        if let Some((was, weight)) = before.and_then(|before| before.readings(hash))
            && was.became(text, looks)
        {
            self.reread(place, text, weight);
        }
        if let Some(readings) = readings {
            self.survey.sample.add_scalar(hash, readings, self.read);
        }
    }

    /// Compares a key with the earlier text.
    pub(super) fn compare_key(&mut self, key: ScalarNode<'_>) {
        let ScalarNode { place, text, plain, looks } = key;
        let Some(mapping) = self.frames.last().map(|frame| frame.hash) else { return };
        let before = self.wanted.before.filter(|before| before.has_keys());
        if let Some(weight) = before.and_then(|before| before.key(mapping, reading(text, looks))) {
            self.reread(place, text, weight);
        }
        if let Some(readings) = plain.then(|| Readings::of(text, looks)).flatten() {
            self.survey.sample.add_key(mapping, readings, self.read);
        }
    }

    fn reread(&mut self, place: Mark, text: &str, weight: u64) {
        let path = self.survey.changes.reread.has_room().then(|| self.here());
        let reread = &mut self.survey.changes.reread;
        reread.count += weight;
        if let Some(path) = path {
            reread.first.push((path, place, shorten(text).into()));
        }
    }

    fn compare_tag(&mut self, hash: u64, place: Mark, kind: NodeType, tag: Option<&str>) {
        if let Some((was, weight)) = self.wanted.before.and_then(|before| before.tag(hash, kind)) {
            self.survey.changes.stayed += weight;
            if tag.is_none() {
                let path = self.survey.changes.untagged.has_room().then(|| self.here());
                let untagged = &mut self.survey.changes.untagged;
                untagged.count += weight;
                if let Some(path) = path {
                    untagged.first.push((path, place, was.into()));
                }
            }
        }
        if let Some(tag) = tag {
            self.survey.sample.add_tagged(hash, kind, tag, self.read);
        }
    }
}
