//! The keys of mappings: checks that they are hashable and unique.

use std::hash::BuildHasher;

use super::{Surveyor, shorten};
use crate::yaml::event::Mark;
use crate::yaml::scalar::Type;
use crate::yaml::scalar::readings;
use crate::yaml::survey::Wrong;
use crate::yaml::survey::sample::HASHER;

impl Surveyor<'_, '_> {
    /// True if the current node is a key.
    pub(super) fn at_key(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.mapping && !frame.awaits_value)
    }

    /// Returns the hash of a key. Keys that are equal in Python have the same hash.
    pub(super) fn key_hash(&self, text: &str, looks: Type) -> Option<u64> {
        match looks {
            Type::Other => None,
            Type::Str | Type::Value => Some(HASHER.hash_one(text)),
            _ => Some(HASHER.hash_one(readings::key(text, looks))),
        }
    }

    /// Processes a scalar as a key of the innermost mapping.
    pub(super) fn scalar_key(&mut self, place: Mark, text: &str, looks: Type) -> Option<u64> {
        let hash = self.key_hash(text, looks);
        if looks == Type::Other {
            let what = "a key has a tag of its own, which Python can't look up".to_owned();
            self.find(Wrong::UnhashableKey, place, text, what);
        }
        let bit = match looks {
            Type::Str => self.wanted.telling.iter().take(8).position(|key| *key == text),
            _ => None,
        };
        let Some(frame) = self.frames.last_mut() else { return hash };
        frame.merges = looks == Type::Merge;
        frame.key_hash = hash.unwrap_or_default();
        frame.telling |= bit.map_or(0, |bit| 1 << bit);
        frame.key.clear();
        frame.key.push_str(text);
        if let Some(hash) = hash {
            self.remember_key(place, hash);
        }
        hash
    }

    /// Reports a key that the innermost mapping already has.
    pub(super) fn remember_key(&mut self, place: Mark, hash: u64) {
        let Some(frame) = self.frames.last_mut() else { return };
        if !frame.seen.insert(hash) {
            let key = frame.key.clone();
            let what = format!("the key \"{}\" comes a second time in one mapping", shorten(&key));
            self.find(Wrong::DuplicateKey, place, &key, what);
        }
    }

    /// Reports a collection that is used as a key.
    pub(super) fn unhashable(&mut self, place: Mark) {
        let what = "a key is a sequence or a mapping, which Python can't look up".to_owned();
        self.find(Wrong::UnhashableKey, place, "", what)
    }
}
