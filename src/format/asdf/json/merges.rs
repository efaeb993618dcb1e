//! Merge keys (`<<: *a`), which add the members of one mapping to another.
//!
//! The text of the tree is first searched for merge keys. If there are any, one pass finds the mappings
//! involved. Only the members of these mappings are remembered while the JSON is written.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::MAX_HELD;
use crate::content::{Content, any_piece};
use crate::error::{Error, Result};
use crate::yaml::event::{Event, Style, What};
use crate::yaml::read::each_event;
use crate::yaml::scalar::{self, Type};
use crate::yaml::survey::Commented;

/// Approximate size of a number in a set, in bytes.
const NUMBER: usize = 32;

/// The numbers of the mappings that are merged into others, and of the mappings that have merge keys.
/// Mappings are numbered in the order of their starts.
#[derive(Debug, Default)]
pub(super) struct Merges(HashSet<u64>);

impl Merges {
    /// Finds the mappings of a tree that have merge keys or are merged into others.
    pub(super) fn of(tree: &dyn Content) -> Result<Self> {
        let mut finder = MergeFinder::default();
        if !has_merge_key(tree)? {
            return Ok(finder.merges);
        }
        let commented = Commented(tree);
        each_event(&commented, |event| finder.take(event).map(|()| true))?;
        Ok(finder.merges)
    }

    /// True if a mapping has merge keys or is merged into another one: its members must be remembered.
    pub(super) fn has(&self, mapping: u64) -> bool {
        self.0.contains(&mapping)
    }
}

/// True if a scalar is a merge key when it is used as a key.
pub(super) fn is_merge(text: &str, style: Style, tag: Option<&str>) -> bool {
    (text == "<<" || tag.is_some()) && scalar::type_of(text, style == Style::Plain, tag) == Type::Merge
}

/// True if a text may contain a merge key.
fn has_merge_key(text: &dyn Content) -> Result<bool> {
    let finders = ["<<", "merge"].map(memchr::memmem::Finder::new);
    any_piece(text, |piece, _| finders.iter().any(|finder| finder.find(piece).is_some()))
}

#[derive(Default)]
struct MergeFinder {
    merges: Merges,
    frames: Vec<OpenCollection>,
    /// The numbers of mappings with anchors.
    anchors: HashMap<Box<str>, u64>,
    mappings: u64,
    held: usize,
}

/// An open collection.
#[derive(Clone, Copy)]
struct OpenCollection {
    /// The number of the mapping; `None` for a sequence.
    mapping: Option<u64>,
    /// True if the next node is the value of a key.
    is_value: bool,
    /// True if the next node is merged: the value of a merge key, or an item of that value.
    is_merged: bool,
}

impl MergeFinder {
    fn take(&mut self, event: &Event<'_>) -> Result<()> {
        match event.what {
            What::Scalar { value, style, tag, anchor } => {
                if let Some(anchor) = anchor {
                    self.anchors.remove(anchor);
                }
                self.node(is_merge(value, style, tag));
            }
            What::Alias(anchor) => {
                let is_merged = self.frames.last().is_some_and(|frame| frame.is_merged);
                if is_merged && let Some(mapping) = self.anchors.get(anchor) {
                    self.merges.0.insert(*mapping);
                    self.held += NUMBER;
                }
                self.node(false);
            }
            What::SequenceStart { anchor, .. } => {
                if let Some(anchor) = anchor {
                    self.anchors.remove(anchor);
                }
                let is_merged =
                    self.frames.last().is_some_and(|frame| frame.mapping.is_some() && frame.is_merged);
                self.frames.push(OpenCollection { mapping: None, is_value: false, is_merged });
            }
            What::MappingStart { anchor, .. } => {
                self.mappings += 1;
                if let Some(anchor) = anchor {
                    self.held += anchor.len() + NUMBER;
                    self.anchors.insert(anchor.into(), self.mappings);
                }
                self.frames.push(OpenCollection {
                    mapping: Some(self.mappings),
                    is_value: false,
                    is_merged: false,
                });
            }
            What::SequenceEnd | What::MappingEnd => {
                self.frames.pop();
                self.node(false);
            }
            _ => {}
        }
        if self.held > MAX_HELD {
            Err(Error::unsupported("the merge keys of the tree take more than 16 MiB"))
        } else {
            Ok(())
        }
    }

    /// Records that a node has ended in the enclosing collection.
    fn node(&mut self, is_merge: bool) {
        let Some(frame) = self.frames.last_mut() else { return };
        let Some(mapping) = frame.mapping else { return };
        frame.is_merged = !frame.is_value && is_merge;
        if frame.is_merged {
            self.merges.0.insert(mapping);
            self.held += NUMBER;
        }
        frame.is_value = !frame.is_value;
    }
}

/// The members of a mapping, as JSON.
#[derive(Debug, Default)]
pub(super) struct Members(BTreeMap<Box<str>, Member>);

#[derive(Debug)]
struct Member {
    /// The JSON of the value, or a reference to the value.
    json: Box<[u8]>,
    /// The position among the members.
    place: usize,
    /// The number of the merge key, for a merged member.
    merge: Option<u64>,
}

impl Members {
    /// Sets a member, which keeps its position if it is set again, as in Python. `merge` is the number of the
    /// merge key that adds it.
    pub(super) fn set(&mut self, name: &str, json: &[u8], merge: Option<u64>) {
        let place = self.0.get(name).map_or(self.0.len(), |member| member.place);
        self.0.insert(name.into(), Member { json: json.into(), place, merge });
    }

    /// True if the mapping has a member `name` that takes precedence over one added by the merge key `merge`:
    /// an explicit member, or an earlier member that the same merge key has added.
    pub(super) fn overrides_merged(&self, name: &str, merge: u64) -> bool {
        self.0.get(name).is_some_and(|member| member.merge.is_none_or(|known| known == merge))
    }

    /// Returns the names and JSON values of all members, sorted by position.
    pub(super) fn in_order(&self) -> Vec<(&str, &[u8])> {
        self.sorted(|_| true)
    }

    /// Returns the members that merge keys have added.
    pub(super) fn merged(&self) -> Vec<(&str, &[u8])> {
        self.sorted(|member| member.merge.is_some())
    }

    fn sorted(&self, wanted: impl Fn(&Member) -> bool) -> Vec<(&str, &[u8])> {
        let mut members: Vec<_> = self.0.iter().filter(|(_, member)| wanted(member)).collect();
        members.sort_by_key(|(_, member)| member.place);
        members.into_iter().map(|(name, member)| (&**name, &*member.json)).collect()
    }

    /// Returns the approximate size of all members in memory, in bytes.
    pub(super) fn total_weight(&self) -> usize {
        self.0.iter().map(|(name, member)| Self::weight(name, &member.json)).sum()
    }

    /// Returns the approximate size of a member in memory, in bytes.
    pub(super) fn weight(name: &str, json: &[u8]) -> usize {
        name.len() + json.len() + 64
    }
}
