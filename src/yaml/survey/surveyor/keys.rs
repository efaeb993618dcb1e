//! Checks of mapping keys: they must be hashable and unique.

use std::hash::BuildHasher;

use super::{Surveyor, shorten};
use crate::yaml::event::Mark;
use crate::yaml::scalar::{self, Type, readings};
use crate::yaml::survey::Wrong;
use crate::yaml::survey::frame::PairList;
use crate::yaml::survey::sample::HASHER;

impl Surveyor<'_, '_> {
    /// True if the next node is a key.
    pub(super) fn at_key(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.mapping && !frame.awaits_value)
    }

    /// Returns a hash that is equal for keys that readers take as equal.
    pub(super) fn key_hash(&self, text: &str, looks: Type) -> Option<u64> {
        match looks {
            Type::Other => None,
            Type::Str | Type::Value => Some(HASHER.hash_one(text)),
            _ => Some(HASHER.hash_one(readings::key(text, looks))),
        }
    }

    /// Takes a scalar as a key of the innermost mapping. Returns its hash.
    pub(super) fn scalar_key(&mut self, place: Mark, text: &str, looks: Type) -> Option<u64> {
        let hash = self.key_hash(text, looks);
        let is_hashable = match self.frames.last().and_then(|frame| frame.pair) {
            None => looks != Type::Other,
            Some(PairList::OrderedMap) => !matches!(looks, Type::Other | Type::Merge | Type::Value),
            Some(PairList::Pairs) => true,
        };
        if !is_hashable {
            let what = "a key has a custom tag, which Python can't hash".to_owned();
            self.find(Wrong::UnhashableKey, place, text, what);
        }
        let bit = match looks {
            Type::Str => self.wanted.telling.iter().take(8).position(|key| *key == text),
            _ => None,
        };
        let Some(frame) = self.frames.last_mut() else { return hash };
        frame.merges = looks == Type::Merge && frame.pair.is_none();
        frame.has_merges |= frame.merges;
        frame.at_value = looks == Type::Value;
        frame.key_hash = hash.unwrap_or_default();
        frame.telling |= bit.map_or(0, |bit| 1 << bit);
        frame.key.clear();
        match looks {
            Type::Str => frame.key.push_str(text),
            _ => frame.key.push_str(&scalar::key_name(text, looks)),
        }
        if let Some(hash) = hash
            && !frame.merges
        {
            self.remember_key(place, hash);
        }
        hash
    }

    /// Records a key. A repeated key is a finding.
    pub(super) fn remember_key(&mut self, place: Mark, hash: u64) {
        let Some(frame) = self.frames.last_mut() else { return };
        if !frame.seen.insert(hash) {
            let key = frame.key.clone();
            let what = format!("the key \"{}\" is repeated in the same mapping", shorten(&key));
            self.find(Wrong::DuplicateKey, place, &key, what);
        }
    }

    /// Records the finding that a collection is a key. In `!!pairs`, which PyYAML reads as a list of tuples, it
    /// may be one.
    pub(super) fn unhashable(&mut self, place: Mark) {
        if self.frames.last().is_some_and(|frame| frame.pair == Some(PairList::Pairs)) {
            return;
        }
        let what = "a key is a sequence or a mapping, which Python can't hash".to_owned();
        self.find(Wrong::UnhashableKey, place, "", what);
    }
}
