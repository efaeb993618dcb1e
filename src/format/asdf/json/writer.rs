//! Converts events to JSON.
//!
//! Each member has a line of its own; items share lines. Anchors are remembered: those of short scalars with
//! their JSON, all others with their path.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::sync::Arc;

use super::merges::{Members, Merges, is_merge};
use super::numbers::Numbers;
use super::pointers::{Pointer, Pointers, in_pointer};
use super::scalar::{self, Json, reference, string};
use super::{MAX_HELD, Tags};
use crate::error::{Error, Result};
use crate::yaml::event::{Event, Mark, What};

/// Maximum length of a scalar's JSON, in bytes, that is repeated for each alias.
const SHORT: usize = 256;
/// Maximum number of nodes with an anchor whose aliases are null.
const MAX_HIDDEN: usize = 1 << 12;
/// Maximum number of indentation levels.
const MAX_INDENT: usize = 40;
/// Reserved names of the tagged form, without their `$`.
const RESERVED_NAMES: [&str; 3] = ["ref", "tag", "value"];

/// A JSON writer.
#[derive(Debug)]
pub(super) struct Writer {
    tags: Tags,
    /// True if the output has neither line breaks nor indentation.
    pub(super) is_one_line: bool,
    /// The output, which the caller removes regularly.
    pub(super) out: Vec<u8>,
    levels: Vec<Level>,
    /// The path of the next node, as a JSON pointer without its `#`.
    path: String,
    anchors: HashMap<Box<str>, Anchored>,
    pointers: Pointers,
    merges: Arc<Merges>,
    /// Members of completed mappings, by the number of the mapping, for merge keys.
    members: HashMap<u64, Arc<Members>>,
    /// Number of mappings so far.
    mappings: u64,
    /// Bytes remembered for anchors and merge keys.
    held: usize,
    /// Bytes added to the output by long references and merge keys.
    added: usize,
    documents: usize,
    /// The IDs of nodes whose aliases are null, because readers of JSON see another value at the path of the node.
    hidden: Arc<HashSet<u64>>,
    /// The IDs of nodes to which references were written before their path got another value.
    to_hide: HashSet<u64>,
    /// The aliases that are null.
    pub(super) nulls: Nulls,
}

/// The aliases that are null because no reference can be written for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Nulls {
    count: u64,
    /// The first one and the reason.
    first: String,
}

impl Nulls {
    fn add(&mut self, anchor: &str, why: &str, place: Mark) {
        if self.count == 0 {
            self.first = format!("the alias *{anchor} {why} at {place}");
        }
        self.count += 1;
    }

    /// Returns a note; `None` if there are no such aliases.
    pub(super) fn note(&self) -> Option<String> {
        let more = match self.count {
            0 => return None,
            1 => String::new(),
            count => format!(", and {} more aliases", count - 1),
        };
        Some(format!("without a value: {}{more}", self.first))
    }
}

/// The node of an anchor.
#[derive(Clone, Debug)]
enum Anchored {
    /// A short scalar: its JSON, and its text as a name of a member.
    Scalar(Box<[u8]>, Box<str>),
    /// Any other node: its path and, for a mapping, its number.
    Node(Pointer, Option<u64>),
}

/// An open collection.
#[derive(Debug, Default)]
struct Level {
    /// The number of the mapping; `None` for a sequence.
    mapping: Option<u64>,
    /// Number of keys, values and items so far.
    count: u64,
    /// True once a member or item has been written.
    written: bool,
    /// True if the collection is wrapped in an object with its tag.
    wrapped: bool,
    /// True if the collection has an anchor.
    anchored: bool,
    /// Number of open mappings, including this collection.
    mappings: usize,
    /// Length of the collection's own path.
    path: usize,
    /// True while the value of a merge key is read.
    merging: bool,
    /// True if the mapping stands in the place of an alias, as the value of a merge key: `<<: {a: 1}`.
    is_inline: bool,
    /// Number of merge keys so far.
    merges: u64,
    /// The members so far, if a merge key needs them.
    members: Option<Members>,
    /// The name of the last key, if a merge key needs it.
    key: Box<str>,
    /// A repeated key whose name is not written yet: its value may be an alias of its first value.
    repeated: Option<RepeatedKey>,
    /// The numbers among the keys.
    numbers: Numbers,
}

/// A key of a mapping that has this key already, with a value that has an anchor.
#[derive(Debug)]
struct RepeatedKey {
    name: Box<str>,
    place: Mark,
}

impl Writer {
    /// Makes a writer. `hidden` are the nodes that a writer of the same tree [had to hide](Self::has_to_hide).
    pub(super) fn new(tags: Tags, merges: Arc<Merges>, hidden: Arc<HashSet<u64>>) -> Self {
        Self {
            tags,
            is_one_line: false,
            out: Vec::new(),
            levels: Vec::new(),
            path: String::new(),
            anchors: HashMap::new(),
            pointers: Pointers::default(),
            merges,
            members: HashMap::new(),
            mappings: 0,
            held: 0,
            added: 0,
            documents: 0,
            hidden,
            to_hide: HashSet::new(),
            nulls: Nulls::default(),
        }
    }

    /// Returns the nodes to which no reference should have been written; empty if the output is right.
    pub(super) fn has_to_hide(&self) -> &HashSet<u64> {
        &self.to_hide
    }

    /// Returns the approximate size in memory, in bytes.
    pub(super) fn weight(&self) -> u64 {
        (self.held + self.out.capacity() + self.path.capacity()) as u64
    }

    /// Ends the output.
    pub(super) fn finish(&mut self) {
        if self.documents == 0 {
            self.out.extend_from_slice(b"{}");
        }
        if !self.is_one_line {
            self.out.push(b'\n');
        }
    }

    /// Converts an event.
    ///
    /// # Errors
    /// A key that is not a scalar, an alias without an anchor, or a second document.
    pub(super) fn take(&mut self, event: &Event<'_>) -> Result<()> {
        let written = self.out.len();
        self.convert(event)?;
        if self.is_inline() {
            // Its members are written at the end of the mapping that has the merge key.
            self.out.truncate(written);
        }
        Ok(())
    }

    fn convert(&mut self, event: &Event<'_>) -> Result<()> {
        let place = event.start;
        if let Some(level) = self.levels.last_mut()
            && let Some(repeated) = level.repeated.take()
        {
            if self.is_node_here(event.what) {
                // The member has this value already.
                self.end_value();
                return Ok(());
            }
            self.begin_member(&repeated.name, repeated.place)?;
        }
        match event.what {
            What::StreamStart | What::StreamEnd | What::DocumentEnd { .. } => Ok(()),
            What::DocumentStart { .. } if self.documents > 0 => refused("a second document begins", place),
            What::DocumentStart { .. } => {
                self.documents += 1;
                Ok(())
            }
            What::Alias(anchor) if self.is_merging() => self.merge(anchor, place),
            What::SequenceStart { .. } if self.is_merging() && self.expects_value() => {
                let level = Level { merging: true, path: self.path.len(), ..Level::default() };
                self.levels.push(level);
                Ok(())
            }
            What::SequenceEnd if self.is_merging() => {
                self.levels.pop();
                self.merged();
                Ok(())
            }
            What::MappingStart { anchor: None, .. } if self.is_merging() => {
                self.begin_inline();
                Ok(())
            }
            What::MappingEnd if self.is_inline() => self.end_inline(place),
            _ if self.is_merging() => refused("a merge key has a value that is not a mapping", place),
            What::Scalar { value, style, tag, anchor }
                if self.expects_key() && is_merge(value, style, tag) =>
            {
                self.merge_key(anchor, place)
            }
            What::Scalar { value, style, tag, anchor } => {
                let json = scalar::of(value, style, tag);
                self.scalar(&json, tag, anchor, place)
            }
            What::Alias(anchor) => self.alias(anchor, place),
            What::SequenceStart { tag, anchor, .. } => self.begin(false, tag, anchor, place),
            What::MappingStart { tag, anchor, .. } => self.begin(true, tag, anchor, place),
            What::SequenceEnd | What::MappingEnd => {
                self.end();
                Ok(())
            }
        }
    }

    fn expects_key(&self) -> bool {
        self.levels.last().is_some_and(|level| level.mapping.is_some() && level.count.is_multiple_of(2))
    }

    fn expects_value(&self) -> bool {
        self.levels.last().is_some_and(|level| level.mapping.is_some() && !level.count.is_multiple_of(2))
    }

    fn is_merging(&self) -> bool {
        self.levels.last().is_some_and(|level| level.merging)
    }

    fn is_inline(&self) -> bool {
        self.levels.last().is_some_and(|level| level.is_inline)
    }

    /// Begins a member. `is_bare`: its key is a number, a boolean or null.
    fn key(&mut self, name: &str, is_bare: bool, place: Mark) -> Result<()> {
        let Some(level) = self.levels.last_mut() else { return Ok(()) };
        level.count += 1;
        let before = level.numbers.weight();
        let first = if is_bare { level.numbers.first(name) } else { None };
        let added = level.numbers.weight() - before;
        self.hold(added, place)?;
        let name = first.as_deref().unwrap_or(name);
        let Some(level) = self.levels.last_mut() else { return Ok(()) };
        if level.members.is_some() {
            level.key = name.into();
        }
        self.path.push('/');
        self.path.push_str(&in_pointer(name));
        if self.pointers.has(&self.path) {
            if let Some(level) = self.levels.last_mut() {
                level.repeated = Some(RepeatedKey { name: name.into(), place });
            }
            return Ok(());
        }
        self.begin_member(name, place)
    }

    /// True if an event is an alias of the node at the present path.
    fn is_node_here(&self, what: What<'_>) -> bool {
        let What::Alias(anchor) = what else { return false };
        match self.anchors.get(anchor) {
            Some(Anchored::Node(pointer, _)) => {
                *pointer.path == *self.path && self.pointers.is_valid(pointer)
            }
            _ => false,
        }
    }

    /// Writes the name of the member whose path is the present one. References into an earlier member of this
    /// name are no longer valid.
    fn begin_member(&mut self, name: &str, place: Mark) -> Result<()> {
        self.member(name);
        self.to_hide.extend(self.pointers.replace(&self.path));
        if self.to_hide.len() > MAX_HIDDEN {
            return refused(
                "keys are repeated, and their first values have too many anchors with aliases",
                place,
            );
        }
        Ok(())
    }

    /// Writes the name of a member and the separator before it.
    fn member(&mut self, name: &str) {
        let Some(level) = self.levels.last_mut() else { return };
        if level.written {
            self.out.push(b',');
        }
        level.written = true;
        self.new_line();
        let bare = name.trim_start_matches('$');
        let escaped = self.tags == Tags::Kept && bare.len() < name.len() && RESERVED_NAMES.contains(&bare);
        if escaped {
            string(&format!("${name}"), &mut self.out);
        } else {
            string(name, &mut self.out);
        }
        self.out.extend_from_slice(b": ");
    }

    /// Writes the separator before an item and extends the path by its index.
    fn begin_value(&mut self) {
        if let Some(level) = self.levels.last_mut().filter(|level| level.mapping.is_none()) {
            if level.written {
                self.out.extend_from_slice(b", ");
            }
            level.written = true;
            let _ = write!(self.path, "/{}", level.count);
        }
    }

    fn end_value(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            level.count += 1;
            self.path.truncate(level.path);
        }
    }

    fn scalar(
        &mut self,
        json: &Json<'_>,
        tag: Option<&str>,
        anchor: Option<&str>,
        place: Mark,
    ) -> Result<()> {
        let name = json.name();
        if self.expects_key() {
            self.key(name, matches!(json, Json::Bare(_) | Json::NotFinite(_)), place)?;
            let Some(anchor) = anchor else { return Ok(()) };
            let mut bytes = Vec::new();
            json.write(&mut bytes);
            return if bytes.len() > SHORT {
                refused("a long key has an anchor", place)
            } else {
                self.remember(anchor, Anchored::Scalar(bytes.into(), name.into()), place)
            };
        }
        self.begin_value();
        let begun = self.out.len();
        self.scalar_value(json, tag);
        let is_short = self.out.len() - begun <= SHORT && name.len() <= SHORT;
        if is_short {
            self.hold_member(Some(begun), place)?;
        } else if self.is_inline() {
            return refused("a merge key has a mapping with a long text", place);
        } else {
            self.hold_member(None, place)?;
        }
        if let Some(anchor) = anchor {
            let anchored = if is_short {
                Anchored::Scalar(self.out[begun..].into(), name.into())
            } else {
                Anchored::Node(self.pointers.add(&self.path), None)
            };
            self.remember(anchor, anchored, place)?;
        }
        self.end_value();
        Ok(())
    }

    fn scalar_value(&mut self, json: &Json<'_>, tag: Option<&str>) {
        let implied = json.implied_tag();
        let tag = tag.or(implied.as_deref()).filter(|_| self.tags == Tags::Kept);
        match tag {
            Some(tag) => {
                self.open_tag(tag);
                json.write_tagged(&mut self.out);
                self.out.push(b'}');
            }
            None => json.write(&mut self.out),
        }
    }

    fn open_tag(&mut self, tag: &str) {
        self.out.extend_from_slice(b"{\"$tag\": ");
        string(tag, &mut self.out);
        self.out.extend_from_slice(b", \"$value\": ");
    }

    fn alias(&mut self, anchor: &str, place: Mark) -> Result<()> {
        let anchored = self.anchored(anchor, place)?;
        if self.expects_key() {
            return match anchored {
                Anchored::Scalar(json, name) => self.key(&name, !json.starts_with(b"\""), place),
                Anchored::Node(..) => refused("a key is not a scalar, or is too long", place),
            };
        }
        self.begin_value();
        let begun = self.out.len();
        match anchored {
            Anchored::Scalar(json, _) => self.out.extend_from_slice(&json),
            Anchored::Node(pointer, _) if self.mention(anchor, &pointer, place) => {
                reference(&pointer.path, &mut self.out);
                let added = (self.out.len() - begun).saturating_sub(SHORT);
                if self.added + added > MAX_HELD {
                    self.out.truncate(begun);
                    self.out.extend_from_slice(b"null");
                    self.nulls.add(anchor, "would make the text longer by more than 16 MiB", place);
                } else {
                    self.added += added;
                }
            }
            Anchored::Node(..) => self.out.extend_from_slice(b"null"),
        }
        self.hold_member(Some(begun), place)?;
        self.end_value();
        Ok(())
    }

    fn anchored(&self, anchor: &str, place: Mark) -> Result<Anchored> {
        match self.anchors.get(anchor) {
            Some(anchored) => Ok(anchored.clone()),
            None => refused(&format!("the alias *{anchor} has no anchor"), place),
        }
    }

    /// Records a reference to a node. False if no reference can be written.
    fn mention(&mut self, anchor: &str, pointer: &Pointer, place: Mark) -> bool {
        let is_shown = !self.hidden.contains(&pointer.id) && self.pointers.mention(pointer);
        if !is_shown {
            self.nulls.add(anchor, "refers to the first value of a repeated key", place);
        }
        is_shown
    }

    fn begin(
        &mut self,
        is_mapping: bool,
        tag: Option<&str>,
        anchor: Option<&str>,
        place: Mark,
    ) -> Result<()> {
        if self.expects_key() {
            return refused("a key is not a scalar", place);
        }
        if self.is_inline() {
            return refused("a merge key has a mapping with a nested collection", place);
        }
        self.begin_value();
        self.hold_member(None, place)?;
        self.mappings += u64::from(is_mapping);
        let mapping = is_mapping.then_some(self.mappings);
        if let Some(anchor) = anchor {
            let anchored = Anchored::Node(self.pointers.add(&self.path), mapping);
            self.remember(anchor, anchored, place)?;
        }
        let tag = tag.filter(|_| self.tags == Tags::Kept);
        if let Some(tag) = tag {
            self.open_tag(tag);
        }
        self.out.push(if is_mapping { b'{' } else { b'[' });
        self.levels.push(Level {
            mapping,
            wrapped: tag.is_some(),
            anchored: anchor.is_some(),
            mappings: self.levels.last().map_or(0, |level| level.mappings) + usize::from(is_mapping),
            path: self.path.len(),
            members: mapping.filter(|mapping| self.merges.has(*mapping)).map(|_| Members::default()),
            ..Level::default()
        });
        Ok(())
    }

    fn end(&mut self) {
        let members = self.levels.last_mut().and_then(|level| level.members.take());
        for (name, json) in members.iter().flat_map(Members::merged) {
            self.member(name);
            self.out.extend_from_slice(json);
        }
        let Some(level) = self.levels.pop() else { return };
        self.held = self.held.saturating_sub(level.numbers.weight());
        if level.mapping.is_some() && level.written {
            self.new_line();
        }
        self.out.push(if level.mapping.is_some() { b'}' } else { b']' });
        if level.wrapped {
            self.out.push(b'}');
        }
        if let Some((mapping, members)) = level.mapping.zip(members) {
            if level.anchored {
                self.members.insert(mapping, Arc::new(members));
            } else {
                // Without an anchor, no merge key can refer to the mapping.
                self.held = self.held.saturating_sub(members.total_weight());
            }
        }
        self.end_value();
    }

    fn new_line(&mut self) {
        if self.is_one_line {
            return;
        }
        let depth = self.levels.last().map_or(0, |level| level.mappings).min(MAX_INDENT);
        self.out.push(b'\n');
        self.out.extend(std::iter::repeat_n(b' ', 2 * depth));
    }

    fn merge_key(&mut self, anchor: Option<&str>, place: Mark) -> Result<()> {
        if anchor.is_some() {
            return refused("a merge key has an anchor", place);
        }
        let Some(level) = self.levels.last_mut() else { return Ok(()) };
        level.count += 1;
        level.merges += 1;
        level.merging = true;
        Ok(())
    }

    /// Ends the value of a merge key.
    fn merged(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            level.count += 1;
            level.merging = false;
        }
    }

    /// Adds the members of the mapping with this anchor to the mapping that has the merge key. The members
    /// are written at the end of that mapping: a key that follows the merge key overrides them, and readers
    /// such as DuckDB refuse duplicate names.
    fn merge(&mut self, anchor: &str, place: Mark) -> Result<()> {
        let Anchored::Node(pointer, Some(mapping)) = self.anchored(anchor, place)? else {
            return refused("a merge key refers to a node that is not a mapping", place);
        };
        if !self.mention(anchor, &pointer, place) {
            if self.levels.last().is_some_and(|level| level.mapping.is_some()) {
                self.merged();
            }
            return Ok(());
        }
        let Some(members) = self.members.get(&mapping).cloned() else {
            return refused("a merge key refers to a mapping that contains it", place);
        };
        self.merge_members(&members, place)
    }

    /// Begins a mapping that is the value of a merge key, or an item of that value. Nothing of it is written, so no
    /// reference may lead into it.
    fn begin_inline(&mut self) {
        self.mappings += 1;
        self.levels.push(Level {
            mapping: Some(self.mappings),
            is_inline: true,
            path: self.path.len() + "/<<".len(),
            members: Some(Members::default()),
            ..Level::default()
        });
        self.path.push_str("/<<");
    }

    fn end_inline(&mut self, place: Mark) -> Result<()> {
        let Some(level) = self.levels.pop() else { return Ok(()) };
        self.path.truncate(level.path - "/<<".len());
        let members = level.members.unwrap_or_default();
        self.held = self.held.saturating_sub(level.numbers.weight() + members.total_weight());
        self.merge_members(&members, place)
    }

    /// Adds the members of a mapping to the mapping that has the merge key.
    fn merge_members(&mut self, members: &Members, place: Mark) -> Result<()> {
        let list = self.levels.pop_if(|level| level.mapping.is_none());
        for (name, json) in members.in_order() {
            self.add(Members::weight(name, json), place)?;
            let Some(level) = self.levels.last_mut() else { continue };
            let merge = level.merges;
            match &mut level.members {
                Some(known) if known.overrides_merged(name, merge) => continue,
                Some(known) => known.set(name, json, Some(merge)),
                None => {}
            }
            self.hold(Members::weight(name, json), place)?;
        }
        match list {
            Some(list) => self.levels.push(list),
            None => self.merged(),
        }
        Ok(())
    }

    /// Keeps a member if a merge key needs it: its JSON from offset `begun` of the output on, or a reference
    /// to it.
    fn hold_member(&mut self, begun: Option<usize>, place: Mark) -> Result<()> {
        let Some(level) = self.levels.last_mut() else { return Ok(()) };
        let Some(members) = &mut level.members else { return Ok(()) };
        let name = std::mem::take(&mut level.key);
        let mut bytes = Vec::new();
        let json = match begun {
            Some(begun) => &self.out[begun..],
            None => {
                reference(&self.path, &mut bytes);
                &bytes
            }
        };
        members.set(&name, json, None);
        let weight = Members::weight(&name, json);
        self.hold(weight, place)
    }

    /// Remembers the node of an anchor.
    fn remember(&mut self, anchor: &str, anchored: Anchored, place: Mark) -> Result<()> {
        let weight = match &anchored {
            Anchored::Scalar(json, name) => json.len() + name.len(),
            Anchored::Node(pointer, _) => pointer.path.len(),
        };
        self.hold(anchor.len() + weight, place)?;
        self.anchors.insert(anchor.into(), anchored);
        Ok(())
    }

    fn hold(&mut self, bytes: usize, place: Mark) -> Result<()> {
        self.held += bytes;
        if self.held > MAX_HELD {
            refused("the anchors and merge keys of the tree take more than 16 MiB", place)
        } else {
            Ok(())
        }
    }

    /// Counts bytes that a long reference or a merge key adds to the output. Fails if the total is too large.
    fn add(&mut self, bytes: usize, place: Mark) -> Result<()> {
        self.added += bytes;
        if self.added > MAX_HELD {
            refused("long references and merge keys make the text longer by 16 MiB", place)
        } else {
            Ok(())
        }
    }
}

fn refused<T>(what: &str, place: Mark) -> Result<T> {
    Err(Error::damaged(format!("{what} at {place}")))
}
