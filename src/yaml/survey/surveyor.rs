//! The state of a survey, which is given the events of the text one by one.

mod arrays;
mod compare;
mod keys;
mod node;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use super::frame::{KeyHashes, OpenCollection, PairList, Record};
use super::rectangle::Rectangle;
use super::{
    Alias, Broken, Finding, MAX_FINDINGS, Merge, MergeSource, NodeContent, PathId, Paths, Reference, Root,
    SequenceShape, Step, Survey, WantedNode,
};
use super::{TreeNode, Wanted, Wrong, path, value};
use crate::error::Error;
use crate::yaml::event::{Event, Failure, Mark, Style, What};
use crate::yaml::scalar::{self, Type};
use node::{Anchored, Outline, Properties, ScalarNode};

/// Maximum number of different tags that are counted.
const MAX_TAGS: usize = 10_000;
/// Maximum number of bytes that are kept: a constant, and the number added for each byte of the text.
const KEPT: (u64, u64) = (64 << 20, 3);
/// Approximate size of a kept node, in bytes.
const NODE: u64 = 128;

pub(super) struct Surveyor<'s, 'w> {
    wanted: Wanted<'w>,
    found: &'s mut dyn FnMut(&Paths, WantedNode<'_>),
    pub(super) survey: Survey,
    frames: Vec<OpenCollection>,
    /// Buffers of collections that have ended, for reuse.
    spare: Vec<(String, Vec<u64>)>,
    names: HashMap<Box<str>, usize>,
    anchors: Vec<Anchored>,
    rectangles: Vec<Rectangle>,
    /// Approximate number of bytes that are kept to the end.
    kept: u64,
    /// Number of nodes kept until their collections end.
    live: u64,
    /// The offset up to which the text has been read.
    read: u64,
}

impl Drop for Surveyor<'_, '_> {
    fn drop(&mut self) {
        // The last anchor is dropped first, because each may hold earlier ones. Otherwise drops would nest as
        // deep as there are anchors.
        while self.anchors.pop().is_some() {}
    }
}

impl<'s, 'w> Surveyor<'s, 'w> {
    /// Begins a survey.
    pub(super) fn new(wanted: Wanted<'w>, found: &'s mut dyn FnMut(&Paths, WantedNode<'_>)) -> Self {
        Self {
            wanted,
            found,
            survey: Survey::default(),
            frames: Vec::new(),
            spare: Vec::new(),
            names: HashMap::new(),
            anchors: Vec::new(),
            rectangles: Vec::new(),
            kept: 0,
            live: 0,
            read: 0,
        }
    }

    /// Takes an event. True if the survey goes on.
    pub(super) fn take(&mut self, event: &Event<'_>) -> std::result::Result<bool, Box<Broken>> {
        let place = event.start;
        self.read = event.end.offset;
        match event.what {
            What::Scalar { value, style, tag, anchor } => {
                self.scalar(place, value, style == Style::Plain, Properties { tag, anchor });
            }
            What::MappingStart { tag, anchor, flow } => {
                self.open((place, flow), true, Properties { tag, anchor });
            }
            What::SequenceStart { tag, anchor, flow } => {
                self.open((place, flow), false, Properties { tag, anchor });
            }
            What::MappingEnd | What::SequenceEnd => self.close(),
            What::Alias(name) => self.alias(place, name),
            What::DocumentStart { .. } => {
                self.survey.documents += 1;
                if self.survey.documents > 1 {
                    self.find(Wrong::SecondDocument, place, "", "a second document begins here".to_owned());
                    return Ok(false);
                }
            }
            _ => {}
        }
        let allowed = KEPT.1.saturating_mul(event.end.offset).saturating_add(KEPT.0);
        if self.kept.saturating_add(self.live.saturating_mul(NODE)) > allowed {
            let problem = "there are too many anchors, aliases and arrays".to_owned();
            let error = Error::unsupported(format!("{problem} at {place}"));
            let failure = Some(Failure { place, problem });
            return Err(Box::new(Broken { error, failure, too_large: true }));
        }
        Ok(true)
    }

    fn find(&mut self, wrong: Wrong, place: Mark, detail: &str, what: String) {
        if self.survey.findings.len() < MAX_FINDINGS {
            let path = self.here();
            let mut hasher = DefaultHasher::new();
            (wrong, detail, self.survey.paths.identity(path, false)).hash(&mut hasher);
            self.survey.findings.push(Finding { wrong, place, what, identity: hasher.finish() });
        }
    }

    /// Returns the path of the collection at `index` of the frames.
    fn path_of(&mut self, index: usize) -> Option<PathId> {
        let known = (1..=index).rev().find(|n| self.frames[*n].path.is_some()).unwrap_or(0);
        let mut path = self.frames.get(known).and_then(|frame| frame.path).unwrap_or(path::ROOT);
        for n in known + 1..=index {
            let step = self.frames[n - 1].step();
            path = self.add_path(path, step);
            self.frames[n].path = Some(path);
        }
        path
    }

    fn add_path(&mut self, parent: Option<PathId>, step: Step) -> Option<PathId> {
        let len = if let Step::Key(key) = &step { key.len() } else { 0 };
        self.kept += 48 + len as u64;
        self.survey.paths.add(parent, step)
    }

    /// Returns the path of the next node of the innermost collection.
    fn here(&mut self) -> Option<PathId> {
        let Some(index) = self.frames.len().checked_sub(1) else { return path::ROOT };
        let parent = self.path_of(index);
        let step = self.frames[index].step();
        self.add_path(parent, step)
    }

    /// True if the innermost collection is the root, or a mapping without a tag.
    fn in_plain_mapping(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.plain)
    }

    /// Begins a node of any type: counts it, and records it if it is the root or has an anchor. Returns the
    /// index of the anchor.
    fn begin(&mut self, place: Mark, properties: Properties<'_>, outline: Outline) -> Option<usize> {
        let Properties { tag, anchor } = properties;
        self.survey.nodes += 1;
        let mapping = matches!(outline, Outline::Mapping(_));
        if self.frames.is_empty() && self.survey.root.is_none() {
            self.survey.root = Some(Root { tag: tag.map(str::to_owned), mapping, place });
        }
        if let Some(tag) = tag {
            if let Some(count) = self.survey.tags.get_mut(tag) {
                *count += 1;
            } else if self.survey.tags.len() < MAX_TAGS {
                self.kept += 64 + tag.len() as u64;
                self.survey.tags.insert(tag.to_owned(), 1);
            }
        }
        let name = anchor?;
        let path = self.here();
        let index = self.anchors.len();
        self.kept += 192 + name.len() as u64;
        let origin = (place, self.frames.last().is_some_and(|frame| frame.flow));
        self.anchors.push(Anchored { path, origin, outline, key: None, value: None, unfit: None });
        if self.names.insert(name.into(), index).is_some() {
            let what = format!("the anchor \"{}\" is already defined", name.escape_debug());
            self.find(Wrong::RepeatedAnchor, place, name, what);
        }
        Some(index)
    }

    /// True if the innermost collection keeps its nodes.
    fn recording(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.record.is_on())
    }

    /// Returns the selected key of the root whose value is the next or last node.
    fn root_key(&self) -> Option<&'w str> {
        let [root] = self.frames.as_slice() else { return None };
        let keys = if root.mapping && root.awaits_value { self.wanted.root_keys } else { &[] };
        keys.iter().copied().find(|key| *key == root.key)
    }

    fn scalar(&mut self, place: Mark, text: &str, plain: bool, properties: Properties<'_>) {
        let anchor = self.begin(place, properties, Outline::Scalar);
        let tag = properties.tag;
        let looks = scalar::type_of(text, plain, tag);
        let scalar = ScalarNode { place, text, plain, looks };
        if tag.is_some() || matches!(looks, Type::Int | Type::Timestamp) {
            if let Some(why) = scalar::unfit(text, looks, tag) {
                self.find(Wrong::Unfit, place, text, format!("\"{}\" can't be read: {why}", shorten(text)));
            } else if looks == Type::Int && scalar::beyond_int64(text) {
                let what = format!("the integer {} is beyond 64 bits", shorten(text));
                self.find(Wrong::LargeInteger, place, text, what);
            }
        }
        if !self.at_key() {
            self.compare_scalar(scalar, tag);
        } else if tag.is_none() {
            self.compare_key(scalar);
        }
        let root_key = self.root_key();
        let has_tag = |tag: &str| (self.wanted.tag)(tag) || (self.wanted.whole)(tag);
        let wanted = root_key.is_some() || tag.is_some_and(has_tag);
        let recording = self.recording() || anchor.is_some() || wanted;
        let value = recording.then(|| TreeNode {
            place,
            tag: tag.map(Rc::from),
            node: if text.len() <= value::MAX_SCALAR {
                NodeContent::Scalar { text: text.into(), plain }
            } else {
                NodeContent::Unknown
            },
            leaves: None,
        });
        if let Some(index) = self.frames.last().and_then(|frame| frame.rectangle) {
            self.rectangles[index].elements.add(place, text, looks, tag);
        }
        if looks == Type::Str && !self.at_key() {
            self.refer(place, text);
        }
        if let Some(value) = &value
            && wanted
        {
            let path = self.here();
            let in_plain = self.in_plain_mapping();
            (self.found)(&self.survey.paths, WantedNode { tag, root_key, path, plain: in_plain, value });
        }
        if self.at_key() {
            let key = self.scalar_key(place, text, looks);
            if let Some(anchor) = anchor {
                self.anchors[anchor].key = key;
            }
        } else if let Some(anchor) = anchor {
            self.anchors[anchor].key = self.key_hash(text, looks);
        }
        if let Some(anchor) = anchor {
            self.kept += text.len().min(value::MAX_SCALAR) as u64;
            self.anchors[anchor].value = value.clone().map(Rc::new);
        }
        self.finish(place, Outline::Scalar, value, 1);
    }

    /// Records a text that may be the reference of the enclosing mapping.
    fn refer(&mut self, place: Mark, uri: &str) {
        let wanted = self.wanted.reference;
        let refers = |frame: &OpenCollection| frame.mapping && !wanted.is_empty() && frame.key == wanted;
        let Some(index) = self.frames.len().checked_sub(1).filter(|index| refers(&self.frames[*index]))
        else {
            return;
        };
        let path = self.path_of(index);
        self.kept += 64 + uri.len() as u64;
        let last = self.survey.references.last().filter(|last| *last.uri == *uri);
        let uri = last.map_or_else(|| uri.into(), |last| last.uri.clone());
        self.survey.references.push(Reference { place, path, uri });
    }

    fn alias(&mut self, place: Mark, name: &str) {
        self.survey.nodes += 1;
        let Some(&anchor) = self.names.get(name) else {
            let what = format!("the alias \"*{}\" has no anchor before it", name.escape_debug());
            self.find(Wrong::UndefinedAlias, place, name, what);
            if self.at_key()
                && let Some(frame) = self.frames.last_mut()
            {
                frame.key = format!("*{name}");
                frame.merges = false;
                frame.at_value = false;
            }
            return self.finish(place, Outline::Unknown, Some(TreeNode::unknown(place)), 1);
        };
        let path = self.here();
        if matches!(self.anchors[anchor].outline, Outline::Mapping(_)) {
            self.take_source(self.frames.len(), path, self.anchors[anchor].path);
        }
        if self.is_constructed(matches!(self.anchors[anchor].outline, Outline::Mapping(_)))
            && let Some(why) = self.anchors[anchor].unfit.take()
        {
            self.find(Wrong::Unfit, place, "", format!("a collection can't be read: {why}"));
        }
        let Anchored { path: target, origin, outline, key, ref value, .. } = self.anchors[anchor];
        let node = value.clone().map_or(NodeContent::Unknown, NodeContent::Same);
        if let (Some(index), Outline::Sequence(_)) = (self.frames.last().and_then(|f| f.rectangle), outline) {
            self.rectangles[index].unknown();
        }
        self.kept += 48;
        self.survey.aliases.push(Alias { place, path, target, origin });
        if let Some(index) = self.frames.last().and_then(|frame| frame.rectangle) {
            self.rectangles[index].elements.seen.aliases = true;
        }
        if self.at_key() {
            let text = match &node {
                NodeContent::Same(value) => value.text().map(str::to_owned),
                _ => None,
            };
            if let Some(frame) = self.frames.last_mut() {
                frame.key_hash = key.unwrap_or_default();
                let is_merge =
                    matches!(&node, NodeContent::Same(value) if value.scalar_type() == Some(Type::Merge));
                frame.merges = is_merge && frame.pair.is_none();
                frame.has_merges |= frame.merges;
                frame.at_value = false;
                frame.key = text.unwrap_or_else(|| format!("*{name}"));
            }
            match key {
                Some(hash) => self.remember_key(place, hash),
                None => self.unhashable(place),
            }
        }
        let alias = TreeNode { place, tag: None, node, leaves: None };
        if let Some(root_key) = self.root_key() {
            let found = WantedNode { tag: None, root_key: Some(root_key), path, plain: true, value: &alias };
            (self.found)(&self.survey.paths, found);
        }
        self.finish(place, outline, Some(alias), 1);
    }

    fn open(&mut self, (place, flow): (Mark, bool), mapping: bool, properties: Properties<'_>) {
        let outline = if mapping { Outline::Mapping(None) } else { Outline::Sequence(true) };
        let anchor = self.begin(place, properties, outline);
        let tag = properties.tag;
        let is_merge_key =
            self.at_key() && tag.is_some_and(|tag| tag.strip_prefix(scalar::TAG_PREFIX) == Some("merge"));
        let is_constructed = self.is_constructed(mapping);
        // An alias may stand where PyYAML constructs the node.
        let has_meaning = is_constructed || anchor.is_some();
        let findings = self.survey.findings.len();
        let mut unfit = None;
        if let Some(why) = tag.and_then(|tag| scalar::unfit_collection(mapping, tag)) {
            if mapping && is_constructed && tag.is_some_and(scalar::may_be_value) {
                unfit = Some((why, findings));
            } else if is_constructed {
                self.find(Wrong::Unfit, place, "", format!("a collection can't be read: {why}"));
            } else if let Some(anchor) = anchor {
                self.anchors[anchor].unfit = Some(why);
            }
        }
        if self.at_key() {
            if !is_merge_key {
                self.unhashable(place);
            }
            if let Some(frame) = self.frames.last_mut() {
                frame.key.clear();
                frame.key.push('?');
                frame.merges = is_merge_key && frame.pair.is_none();
                frame.has_merges |= frame.merges;
                frame.at_value = false;
                frame.key_hash = 0;
            }
        } else {
            self.compare_collection(place, mapping, tag.filter(|_| has_meaning));
        }
        let hash = self.next_hash();
        let has_wanted_tag = tag.is_some_and(self.wanted.tag);
        let wanted = has_meaning && has_wanted_tag;
        let is_whole = has_meaning && tag.is_some_and(self.wanted.whole);
        let handed_out = wanted || is_whole || self.root_key().is_some();
        let inside = wanted || anchor.is_some() || self.frames.last().is_some_and(|frame| frame.inside);
        let recording = handed_out || anchor.is_some() || self.recording();
        let array = (wanted && !mapping)
            || self.frames.last().is_some_and(|frame| frame.wanted && frame.key == self.wanted.array);
        let of_pairs = if is_constructed && !mapping { tag.and_then(PairList::of) } else { None };
        let pair = self.frames.last().and_then(|frame| frame.of_pairs).filter(|_| mapping);
        let (rectangle, depth) = self.open_rectangle(mapping, inside);
        let (mut key, mut hashes) = self.spare.pop().unwrap_or_default();
        key.clear();
        hashes.clear();
        self.frames.push(OpenCollection {
            mapping,
            place,
            flow,
            key,
            hash,
            seen: KeyHashes::Few(hashes),
            of_pairs,
            pair,
            merged: !mapping && self.in_merge(),
            unfit,
            of_mappings: true,
            tag: if recording { tag.map(Rc::from) } else { None },
            has_wanted_tag,
            wanted,
            handed_out,
            inside,
            array,
            plain: mapping && (tag.is_none() || self.frames.is_empty()),
            record: if recording { Record::Kept(Vec::new(), 1) } else { Record::Off },
            rectangle,
            depth,
            anchor,
            ..OpenCollection::default()
        });
        let index = self.frames.len() - 1;
        if mapping && self.owner_of_source(index).is_some() {
            let path = self.path_of(index);
            self.take_source(index, path, path);
        }
        if self.frames.len() > self.survey.depth.0 {
            self.survey.depth = (self.frames.len(), place);
        }
    }

    /// True if the next node is the value of a merge key.
    fn in_merge(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.mapping && frame.awaits_value && frame.merges)
    }

    /// Returns the index of the mapping into which a merge key merges the node at depth `index` of the frames.
    fn owner_of_source(&self, index: usize) -> Option<usize> {
        let parent = self.frames.get(index.checked_sub(1)?)?;
        if parent.mapping {
            (parent.merges && parent.awaits_value).then_some(index - 1)
        } else if parent.merged {
            index.checked_sub(2)
        } else {
            None
        }
    }

    /// Records the mapping, or the alias of one, in frame `index` if it is a value of a merge key.
    fn take_source(&mut self, index: usize, path: Option<PathId>, target: Option<PathId>) {
        if let Some(owner) = self.owner_of_source(index) {
            self.kept += 32;
            let owner = &mut self.frames[owner];
            owner.sources.push(MergeSource { merge: owner.count, path, target });
        }
    }

    /// True if PyYAML constructs the next node by its tag. It does not construct the value of a merge key, a
    /// mapping in a list of such values, and a pair of an ordered mapping: it takes the keys and values out of
    /// them.
    fn is_constructed(&self, is_mapping: bool) -> bool {
        let in_list = self
            .frames
            .last()
            .is_some_and(|frame| !frame.mapping && (frame.merged || frame.of_pairs.is_some()));
        !(self.in_merge() || is_mapping && in_list)
    }

    /// Judges a mapping with the tag of a scalar at its end. If it has the key `=`, PyYAML reads the value of
    /// this key, and constructs no other node of the mapping.
    fn judge_scalar(&mut self, frame: &OpenCollection, why: &'static str, before: usize) {
        let within = self.survey.findings.split_off(before);
        let is_scalar = frame.has_value == Some(true);
        if !is_scalar {
            self.find(Wrong::Unfit, frame.place, "", format!("a collection can't be read: {why}"));
        }
        let room = MAX_FINDINGS.saturating_sub(self.survey.findings.len());
        let is_kept = |finding: &Finding| {
            !is_scalar || matches!(finding.wrong, Wrong::UndefinedAlias | Wrong::RepeatedAnchor)
        };
        self.survey.findings.extend(within.into_iter().filter(is_kept).take(room));
    }

    fn close(&mut self) {
        let Some(index) = self.frames.len().checked_sub(1) else { return };
        let whole = self.wanted.telling.iter().take(8).fold(0_u8, |bits, _| bits << 1 | 1);
        let frame = &self.frames[index];
        let untagged = whole != 0 && frame.telling == whole && !frame.has_wanted_tag;
        let path = (untagged || frame.handed_out || !frame.sources.is_empty()).then(|| self.path_of(index));
        let Some(mut frame) = self.frames.pop() else { return };
        if !frame.sources.is_empty() {
            self.kept += 64 + 16 * frame.seen.len() as u64;
            // A later merge key overrides an earlier one.
            frame.sources.sort_by_key(|source| std::cmp::Reverse(source.merge));
            let sources = std::mem::take(&mut frame.sources);
            self.survey.merges.push(Merge { path: path.flatten(), sources, keys: frame.seen.clone() });
        }
        if let Some((why, before)) = frame.unfit {
            self.judge_scalar(&frame, why, before);
        }
        if untagged {
            self.kept += 32;
            self.survey.untagged.push((path.flatten(), frame.place));
        }
        let (shape, leaves) = self.close_rectangle(&frame).unwrap_or((SequenceShape::Unknown, None));
        let outline = if frame.mapping {
            // Merge keys change the number of keys.
            Outline::Mapping((!frame.has_merges).then_some(frame.count))
        } else {
            Outline::Sequence(frame.of_mappings)
        };
        let record = std::mem::take(&mut frame.record);
        self.live = self.live.saturating_sub(record.len());
        let (node, size) = match record {
            Record::Off => (None, 0),
            Record::Kept(_, size) if frame.array && size > value::MAX_ARRAY_NODES => {
                (Some(NodeContent::LargeSequence(shape)), 1)
            }
            Record::Kept(values, size) if frame.mapping => (Some(NodeContent::mapping(values)), size),
            Record::Kept(values, size) => (Some(NodeContent::Sequence(values, shape)), size),
            Record::TooLarge if frame.mapping => (Some(NodeContent::Unknown), 1),
            Record::TooLarge => (Some(NodeContent::LargeSequence(shape)), 1),
        };
        let mut value = node.map(|node| TreeNode { place: frame.place, tag: frame.tag.take(), node, leaves });
        if frame.handed_out
            && let Some(value) = &value
        {
            let tag = value.tag.as_deref();
            let root_key = self.root_key();
            let path = path.flatten();
            let plain = self.in_plain_mapping();
            (self.found)(&self.survey.paths, WantedNode { tag, root_key, path, plain, value });
        }
        if let Some(anchor) = frame.anchor {
            self.kept += NODE * size as u64;
            self.anchors[anchor].outline = outline;
            if let Some(kept) = value.take().map(Rc::new) {
                value = Some(TreeNode {
                    place: frame.place,
                    tag: None,
                    node: NodeContent::Same(kept.clone()),
                    leaves: None,
                });
                self.anchors[anchor].value = Some(kept);
            }
        }
        if let KeyHashes::Few(hashes) = frame.seen {
            self.spare.push((frame.key, hashes));
        }
        self.finish(frame.place, outline, value, size);
    }

    /// Ends a node and adds it to its collection.
    fn finish(&mut self, place: Mark, outline: Outline, value: Option<TreeNode>, size: usize) {
        let Some(frame) = self.frames.last_mut() else { return };
        if frame.record.is_on() {
            let value = value.unwrap_or_else(|| TreeNode::unknown(place));
            let before = frame.record.len();
            frame.record.push(value, size, TreeNode::without_content);
            self.live = self.live.saturating_add(frame.record.len()).saturating_sub(before);
        }
        let mut wrong = None;
        if frame.mapping && !frame.awaits_value {
            frame.awaits_value = true;
            return;
        }
        if frame.mapping {
            if frame.at_value {
                frame.has_value.get_or_insert(!matches!(outline, Outline::Sequence(_)));
            }
            let mergeable =
                matches!(outline, Outline::Mapping(_) | Outline::Sequence(true) | Outline::Unknown);
            if frame.merges && !mergeable {
                wrong =
                    Some((Wrong::Merge, "the value of \"<<\" is neither a mapping nor a list of mappings"));
            }
        } else {
            frame.of_mappings &= matches!(outline, Outline::Mapping(_));
            if frame.of_pairs.is_some()
                && !matches!(outline, Outline::Mapping(Some(1) | None) | Outline::Unknown)
            {
                wrong = Some((Wrong::Unfit, "an item of an ordered mapping is not a mapping with one key"));
            }
            if let (Some(index), Outline::Scalar | Outline::Unknown) = (frame.rectangle, outline) {
                self.rectangles[index].leaf(frame.depth + 1);
            }
        }
        if let Some((wrong, what)) = wrong {
            self.find(wrong, place, "", what.to_owned());
        }
        if let Some(frame) = self.frames.last_mut() {
            frame.count += 1;
            frame.awaits_value = false;
        }
    }
}

/// Shortens a text for a message.
fn shorten(text: &str) -> String {
    const MAX_SHOWN: usize = 60;
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", text[..end].escape_debug()),
        None => text.escape_debug().to_string(),
    }
}
