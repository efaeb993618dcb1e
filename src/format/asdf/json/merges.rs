//! Merge keys (`<<: *a`), which add the members of one mapping to another.
//!
//! The text of the tree is first searched for a merge key. If there is one, a pass determines the mappings
//! concerned. Only the members of these are kept in memory while the JSON is written.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::MOST_HELD;
use crate::content::{Content, read_exact_at};
use crate::error::{Error, Result};
use crate::yaml::event::{Event, Style, What};
use crate::yaml::read::each_event;
use crate::yaml::scalar::{self, Type};
use crate::yaml::survey::Commented;

/// Bytes of a text that are searched at a time.
const PIECE: usize = 256 << 10;
/// Approximate memory of a number in a set, in bytes.
const NUMBER: usize = 32;

/// The numbers of the mappings that are merged into others, or into which others are merged. Mappings are
/// counted in the order in which they begin.
#[derive(Debug, Default)]
pub(super) struct Merges(HashSet<u64>);

impl Merges {
    /// Finds the mappings of a tree that take part in merges.
    pub(super) fn of(tree: &dyn Content) -> Result<Self> {
        let mut finder = Finder::default();
        if !has_merge_key(tree)? {
            return Ok(finder.merges);
        }
        let commented = Commented(tree);
        each_event(&commented, |event| finder.take(&event).map(|()| true))?;
        Ok(finder.merges)
    }

    /// True if the members of this mapping are needed.
    pub(super) fn has(&self, mapping: u64) -> bool {
        self.0.contains(&mapping)
    }
}

/// True if a scalar is a merge key when used as a key.
pub(super) fn is_merge(text: &str, style: Style, tag: Option<&str>) -> bool {
    scalar::type_of(text, style == Style::Plain, tag.filter(|tag| *tag != "!")) == Type::Merge
}

/// True if a text may contain a merge key.
fn has_merge_key(text: &dyn Content) -> Result<bool> {
    let finders = ["<<", "merge"].map(memchr::memmem::Finder::new);
    // Each piece begins with the end of the previous one.
    let (mut piece, mut at, mut kept) = (vec![0; PIECE], 0, 0);
    while at < text.len() {
        let more = (text.len() - at).min((PIECE - kept) as u64) as usize;
        read_exact_at(text, at, &mut piece[kept..kept + more])?;
        at += more as u64;
        let read = kept + more;
        if finders.iter().any(|finder| finder.find(&piece[..read]).is_some()) {
            return Ok(true);
        }
        kept = read.min(4);
        piece.copy_within(read - kept..read, 0);
    }
    Ok(false)
}

#[derive(Default)]
struct Finder {
    merges: Merges,
    frames: Vec<Frame>,
    /// Numbers of the mappings with anchors.
    anchors: HashMap<Box<str>, u64>,
    mappings: u64,
    held: usize,
}

/// An open collection.
#[derive(Clone, Copy)]
struct Frame {
    /// Number of the mapping; `None` for a sequence.
    mapping: Option<u64>,
    /// True if the next node is the value of a key.
    is_value: bool,
    /// True if the next node is merged: it is the value of a merge key, or an item of that value.
    is_merged: bool,
}

impl Finder {
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
                if let Some(mapping) = self.anchors.get(anchor).filter(|_| is_merged) {
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
                self.frames.push(Frame { mapping: None, is_value: false, is_merged });
            }
            What::MappingStart { anchor, .. } => {
                self.mappings += 1;
                if let Some(anchor) = anchor {
                    self.held += anchor.len() + NUMBER;
                    self.anchors.insert(anchor.into(), self.mappings);
                }
                self.frames.push(Frame { mapping: Some(self.mappings), is_value: false, is_merged: false });
            }
            What::SequenceEnd | What::MappingEnd => {
                self.frames.pop();
                self.node(false);
            }
            _ => {}
        }
        match self.held > MOST_HELD {
            true => Err(Error::unsupported("the merge keys of the tree take more than 16 MiB")),
            false => Ok(()),
        }
    }

    /// Updates the state of the innermost collection after a node has ended.
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
    /// JSON of the value, or a reference to the value.
    json: Box<[u8]>,
    /// Position among the members.
    place: usize,
    /// Number of the merge key, for a merged member.
    merge: Option<u64>,
}

impl Members {
    /// Sets a member; `merge` is the number of its merge key, if it was merged.
    pub(super) fn set(&mut self, name: &str, json: &[u8], merge: Option<u64>) {
        let place = self.0.len();
        self.0.insert(name.into(), Member { json: json.into(), place, merge });
    }

    /// True if a member added by the merge key `merge` must be ignored. An explicit member takes precedence,
    /// and so does an earlier member of the same merge key.
    pub(super) fn keeps_out(&self, name: &str, merge: u64) -> bool {
        self.0.get(name).is_some_and(|member| member.merge.is_none_or(|known| known == merge))
    }

    /// Returns names and values in order.
    pub(super) fn in_order(&self) -> Vec<(&str, &[u8])> {
        self.sorted(|_| true)
    }

    /// Returns the merged members.
    pub(super) fn merged(&self) -> Vec<(&str, &[u8])> {
        self.sorted(|member| member.merge.is_some())
    }

    fn sorted(&self, wanted: impl Fn(&Member) -> bool) -> Vec<(&str, &[u8])> {
        let mut members: Vec<_> = self.0.iter().filter(|(_, member)| wanted(member)).collect();
        members.sort_by_key(|(_, member)| member.place);
        members.into_iter().map(|(name, member)| (&**name, &*member.json)).collect()
    }

    /// Returns the approximate memory of all members, in bytes.
    pub(super) fn total_weight(&self) -> usize {
        self.0.iter().map(|(name, member)| Self::weight(name, &member.json)).sum()
    }

    /// Returns the approximate memory of a member, in bytes.
    pub(super) fn weight(name: &str, json: &[u8]) -> usize {
        name.len() + json.len() + 64
    }
}
