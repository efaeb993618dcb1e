//! Comparison of a text with an earlier one: missing tags, and scalars that are read differently.

use super::{Surveyor, shorten};
use crate::yaml::event::Mark;
use crate::yaml::scalar::readings::{Readings, reading};
use crate::yaml::scalar::{self, Type};
use crate::yaml::survey::sample::{Kind, step};

impl Surveyor<'_, '_> {
    /// Returns the path hash of the current node.
    pub(super) fn next_hash(&self) -> u64 {
        match self.frames.last() {
            Some(frame) if frame.mapping => step(frame.hash, frame.key_hash),
            // It is unlikely that the hash of a key is also that of an item.
            Some(frame) => step(frame.hash, !frame.count),
            None => 0,
        }
    }

    pub(super) fn compare_collection(&mut self, place: Mark, mapping: bool, tag: Option<&str>) {
        let (kind, usual) = if mapping { (Kind::Mapping, "map") } else { (Kind::Sequence, "seq") };
        let tag = tag.filter(|tag| tag.strip_prefix(scalar::TAG_PREFIX) != Some(usual));
        if tag.is_some() || self.wanted.before.is_some_and(|before| !before.is_empty()) {
            self.compare_tag(self.next_hash(), place, kind, tag);
        }
    }

    pub(super) fn compare_scalar(
        &mut self,
        place: Mark,
        text: &str,
        plain: bool,
        looks: Type,
        tag: Option<&str>,
    ) {
        // A tag that is equal to the scalar's implicit type may be added or removed.
        let tag = tag.filter(|_| looks == Type::Other || scalar::type_of(text, plain, None) != looks);
        let readings = if plain && tag.is_none() { Readings::of(text, looks) } else { None };
        let before = self.wanted.before.filter(|before| !before.is_empty());
        if tag.is_none() && readings.is_none() && before.is_none() {
            return;
        }
        let hash = self.next_hash();
        self.compare_tag(hash, place, Kind::Scalar, tag);
        if let Some((was, weight)) = before.and_then(|before| before.readings(hash))
            && was.became(text, looks)
        {
            self.reread(place, text, weight);
        }
        if let Some(readings) = readings {
            self.survey.sample.add_scalar(hash, readings, self.read);
        }
    }

    /// Compares a scalar that is a key, as [`compare_scalar`](Self::compare_scalar) does for values.
    pub(super) fn compare_key(&mut self, place: Mark, text: &str, plain: bool, looks: Type) {
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

    fn compare_tag(&mut self, hash: u64, place: Mark, kind: Kind, tag: Option<&str>) {
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
