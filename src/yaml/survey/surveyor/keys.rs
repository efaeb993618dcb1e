//! The keys of mappings: whether a reader can look one up, and whether it is there already.

use std::hash::BuildHasher;

use super::{Surveyor, shorten};
use crate::yaml::event::Mark;
use crate::yaml::scalar::{self, Type};
use crate::yaml::survey::Wrong;
use crate::yaml::survey::standing::HASHER;

impl Surveyor<'_, '_> {
    /// Whether the node that comes is a key.
    pub(super) fn at_key(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.mapping && !frame.awaits_value)
    }

    /// The hash by which keys are the same if a reader takes them for the same.
    pub(super) fn key_hash(&self, text: &str, looks: Type) -> Option<u64> {
        match looks {
            Type::Other => None,
            Type::Bool => Some(HASHER.hash_one(i128::from(scalar::boolean(text).unwrap_or_default()))),
            Type::Int => match scalar::integer(text) {
                Some(value) => Some(HASHER.hash_one(value)),
                None => Some(HASHER.hash_one((1, text))),
            },
            Type::Str | Type::Value => Some(HASHER.hash_one(text)),
            _ => Some(HASHER.hash_one((looks as u8, text))),
        }
    }

    /// Takes a scalar as the key of the innermost collection.
    pub(super) fn scalar_key(&mut self, place: Mark, text: &str, looks: Type) -> Option<u64> {
        let hash = self.key_hash(text, looks);
        match looks {
            Type::Other => {
                let what = "a key has a tag of its own, which Python can't look up".to_owned();
                self.find(Wrong::UnhashableKey, place, text, what);
            }
            Type::Null | Type::Float | Type::Timestamp | Type::Binary => {
                let what = format!(
                    "the key \"{}\" is {}: keys may only be texts, integers and truth values",
                    shorten(text),
                    match looks {
                        Type::Null => "null",
                        Type::Float => "a float",
                        Type::Binary => "binary",
                        _ => "a date",
                    }
                );
                self.find(Wrong::KeyType, place, text, what);
            }
            _ => {}
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

    /// Says so if the innermost mapping has this key already.
    pub(super) fn remember_key(&mut self, place: Mark, hash: u64) {
        let Some(frame) = self.frames.last_mut() else { return };
        if !frame.seen.insert(hash) {
            let key = frame.key.clone();
            let what = format!("the key \"{}\" comes a second time in one mapping", shorten(&key));
            self.find(Wrong::DuplicateKey, place, &key, what);
        }
    }

    /// Says that a collection is no key.
    pub(super) fn unhashable(&mut self, place: Mark) {
        let what = "a key is a sequence or a mapping, which Python can't look up".to_owned();
        self.find(Wrong::UnhashableKey, place, "", what)
    }
}
