//! Finds the nodes of a document that a caller wants, its aliases, references and merge keys.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use super::read_tree::ReadTree;
use super::rectangle::{Rectangle, SequenceShape};
use super::value::{NodeContent, TreeNode};
use super::{Alias, Broken, Leaves, Merge, MergeSource, Paths, Reference, Survey, Wanted, WantedNode};
use crate::limits::{MAX_SEARCHED, MAX_VALUE};
use crate::yaml::document::{Cursor, Document, Id, Kind, NodePlace, RunEvent};
use crate::yaml::event::{Mark, START, Style};
use crate::yaml::read::Unread;
use crate::yaml::scalar::{self, Type};
use seekable::error::Error;

/// Maximum number of bytes that are kept: a constant, and the number added for each byte of the text.
const KEPT: (u64, u64) = (64 << 20, 3);
/// Approximate size of a kept node, in bytes.
const NODE: u64 = 128;

/// Finds the nodes that `wanted` selects. Each is passed to `found` when it ends, after the selected nodes within it. Nodes
/// that a fault has left open are left out.
pub fn survey(
    document: &Document,
    wanted: Wanted<'_>,
    found: &mut dyn FnMut(&Paths, WantedNode<'_>),
) -> std::result::Result<Survey, Box<Broken>> {
    let mut finder = NodeFinder {
        tree: ReadTree::new(document),
        cursor: document.cursor(START),
        wanted,
        found,
        survey: Survey::default(),
        marks: HashMap::new(),
        values: BTreeMap::new(),
        inner: Vec::new(),
        open: Vec::new(),
        merging: Vec::new(),
        kept: 0,
        live: 0,
    };
    finder.all()?;
    Ok(Survey { paths: std::mem::take(&mut finder.tree.paths), ..std::mem::take(&mut finder.survey) })
}

struct NodeFinder<'d, 'w> {
    tree: ReadTree<'d>,
    /// The place that was computed last.
    cursor: Cursor<'d>,
    wanted: Wanted<'w>,
    found: &'w mut dyn FnMut(&Paths, WantedNode<'_>),
    survey: Survey,
    /// The places of the nodes that aliases stand for.
    marks: HashMap<Id, Mark>,
    /// Such nodes that have ended, and selected ones in a node that is open, each with its number of nodes.
    values: BTreeMap<Id, (Rc<TreeNode>, usize)>,
    /// The selected nodes in `values` that no alias stands for.
    inner: Vec<Id>,
    /// The open collections that are selected, or that aliases stand for.
    open: Vec<(Id, Mark)>,
    /// The mappings with merge keys.
    merging: Vec<Id>,
    /// Approximate number of bytes that are kept to the end, and number of nodes in `inner`.
    kept: u64,
    live: u64,
}

impl Drop for NodeFinder<'_, '_> {
    fn drop(&mut self) {
        // The last value is dropped first, because each may hold earlier ones. Otherwise drops would nest as deep as
        // there are anchors.
        while self.values.pop_last().is_some() {}
    }
}

impl<'w> NodeFinder<'_, 'w> {
    fn all(&mut self) -> std::result::Result<(), Box<Broken>> {
        for id in self.tree.document.all() {
            self.close(Some(id));
            let is_target = self.tree.targets.contains(&id);
            if is_target {
                let place = self.mark(id);
                self.marks.insert(id, place);
            }
            match self.tree.document.kind(id) {
                Kind::Scalar(_) => self.scalar(id),
                Kind::Alias => self.alias(id),
                Kind::ScalarRun => {}
                _ if is_target || self.is_handed_out(id) || self.is_untagged(id) => {
                    let place = self.mark(id);
                    self.open.push((id, place));
                }
                _ => {}
            }
            if self.is_key(id)
                && self.tree.document.is_merge(id)
                && let Some(mapping) = self.tree.document.parent(id)
                && self.merging.last() != Some(&mapping)
            {
                self.merging.push(mapping);
            }
            let offset = self.tree.document.offset(id);
            let allowed = KEPT.1.saturating_mul(offset).saturating_add(KEPT.0);
            if self.kept.saturating_add(self.live.saturating_mul(NODE)) > allowed {
                let what = format!("there are too many anchors, aliases and arrays at {}", self.mark(id));
                return Err(Unread { error: Error::unsupported(what), failure: None }.into());
            }
        }
        self.close(None);
        let mut merging = std::mem::take(&mut self.merging);
        merging
            .sort_unstable_by_key(|mapping| (self.tree.document.end(*mapping), std::cmp::Reverse(*mapping)));
        merging.dedup();
        for mapping in merging {
            self.merge(mapping);
        }
        Ok(())
    }

    /// Returns the place of a node that is not before the last one that was asked for.
    fn mark(&mut self, id: Id) -> Mark {
        self.cursor.mark(self.tree.document.offset(id))
    }

    fn is_key(&self, id: Id) -> bool {
        self.tree.document.place(id) == NodePlace::Key
    }

    /// Ends the open collections before a node.
    fn close(&mut self, before: Option<Id>) {
        let document = self.tree.document;
        while let Some((id, place)) =
            self.open.pop_if(|(id, _)| before.is_none_or(|before| document.end(*id) <= before))
        {
            if !document.is_unfinished(id) {
                self.end(id, place);
            }
        }
    }

    fn end(&mut self, id: Id, place: Mark) {
        if self.is_untagged(id) {
            self.kept += 32;
            let path = self.tree.path(id);
            self.survey.untagged.push((path, place));
        }
        let is_handed_out = self.is_handed_out(id);
        let is_target = self.tree.targets.contains(&id);
        if !is_handed_out && !is_target {
            return;
        }
        let (value, size) = self.value(id, place);
        let value = Rc::new(value);
        if is_handed_out {
            self.hand_out(id, &value);
        }
        if is_target {
            self.kept += 192 + NODE * size as u64;
            self.values.insert(id, (value, size));
        } else if !self.open.is_empty() {
            self.live += size as u64;
            self.values.insert(id, (value, size));
            self.inner.push(id);
        }
        if self.open.is_empty() {
            for inner in self.inner.drain(..) {
                self.values.remove(&inner);
            }
            self.live = 0;
        }
    }

    fn scalar(&mut self, id: Id) {
        self.refer(id);
        let tag = self.tree.document.tag(id);
        let is_wanted = tag.is_some_and(|tag| (self.wanted.tag)(tag) || (self.wanted.whole)(tag));
        let is_target = self.tree.targets.contains(&id);
        if !(is_wanted || is_target || self.root_key(id).is_some()) {
            return;
        }
        let place = self.mark(id);
        let value = Rc::new(self.leaf(id, place));
        if is_wanted || self.root_key(id).is_some() {
            self.hand_out(id, &value);
        }
        if is_target {
            self.kept += 192 + self.tree.document.text(id).len() as u64;
            self.values.insert(id, (value, 1));
        }
    }

    /// Records a text that is the reference of its mapping.
    fn refer(&mut self, id: Id) {
        let NodePlace::Value(key) = self.tree.document.place(id) else { return };
        if self.wanted.reference.is_empty()
            || !self.tree.is_named(key, self.wanted.reference)
            || self.tree.type_of(id) != Some(Type::Str)
        {
            return;
        }
        let uri = self.tree.document.text(id);
        let path = self.tree.document.parent(id).and_then(|mapping| self.tree.path(mapping));
        self.kept += 64 + uri.len() as u64;
        let last = self.survey.references.last().filter(|last| *last.uri == *uri);
        let uri = last.map_or_else(|| uri.into(), |last| last.uri.clone());
        let place = self.mark(id);
        self.survey.references.push(Reference { place, path, uri });
    }

    fn alias(&mut self, id: Id) {
        let Some(target) = self.tree.document.target(id) else { return };
        self.kept += 48;
        let is_flow =
            self.tree.document.parent(target).is_some_and(|parent| self.tree.document.is_flow(parent));
        let Some(origin) = self.marks.get(&target).map(|mark| (*mark, is_flow)) else { return };
        let place = self.mark(id);
        let path = self.tree.path(id);
        let target = self.tree.path(target);
        self.survey.aliases.push(Alias { place, path, target, origin });
        if self.root_key(id).is_some() {
            let value = self.leaf(id, place);
            self.hand_out(id, &value);
        }
    }

    fn hand_out(&mut self, id: Id, value: &TreeNode) {
        let path = self.tree.path(id);
        let root_key = self.root_key(id);
        let parent =
            self.tree.document.parent(id).filter(|parent| self.tree.document.kind(*parent) == Kind::Mapping);
        let plain = parent.is_some_and(|parent| {
            self.tree.document.tag(parent).is_none() || Some(parent) == self.tree.document.root()
        });
        let tag = self.tree.document.tag(id);
        (self.found)(&self.tree.paths, WantedNode { tag, root_key, path, plain, value });
    }

    /// Returns the key by which a node is the value of a selected key of the root.
    fn root_key(&self, id: Id) -> Option<&'w str> {
        let NodePlace::Value(key) = self.tree.document.place(id) else { return None };
        let is_in_root = self.tree.document.parent(id) == self.tree.document.root();
        self.wanted.root_keys.iter().copied().find(|known| is_in_root && self.tree.is_named(key, known))
    }

    fn is_handed_out(&self, id: Id) -> bool {
        self.tree.has_tag(id, |tag| (self.wanted.tag)(tag) || (self.wanted.whole)(tag))
            || self.root_key(id).is_some()
    }

    /// True for a mapping that has the telling keys but no selected tag.
    fn is_untagged(&self, id: Id) -> bool {
        let document = self.tree.document;
        if self.wanted.telling.is_empty()
            || document.kind(id) != Kind::Mapping
            || document.tag(id).is_some_and(self.wanted.tag)
        {
            return false;
        }
        let has = |telling: &&str| {
            document
                .members(id)
                .any(|(key, _)| document.text(key) == *telling && self.tree.type_of(key) == Some(Type::Str))
        };
        self.wanted.telling.iter().all(has)
    }

    /// Records a mapping with merge keys.
    fn merge(&mut self, mapping: Id) {
        let document = self.tree.document;
        let mut sources = Vec::new();
        let mut names = HashSet::new();
        for (merge, (key, value)) in document.members(mapping).enumerate() {
            if !self.tree.is_merged(value) {
                names.insert(self.tree.key_name(key));
                continue;
            }
            let listed: Vec<Id> = match document.kind(value) {
                Kind::Sequence => document.children(value).collect(),
                _ => vec![value],
            };
            for source in listed {
                let target = document.target(source).filter(|id| document.kind(*id) == Kind::Mapping);
                if let Some(target) = target {
                    self.kept += 32;
                    let path = self.tree.path(source);
                    let target = self.tree.path(target);
                    sources.push(MergeSource { merge: merge as u64, path, target });
                }
            }
        }
        if !sources.is_empty() {
            self.kept += 64 + 64 * names.len() as u64;
            // A later merge key overrides an earlier one.
            sources.sort_by_key(|source| std::cmp::Reverse(source.merge));
            let path = self.tree.path(mapping);
            self.survey.merges.push(Merge { path, sources, names });
        }
    }

    /// Returns a scalar or an alias.
    fn leaf(&self, id: Id, place: Mark) -> TreeNode {
        let text = self.tree.document.text(id);
        let node = match self.tree.document.kind(id) {
            Kind::Scalar(style) if text.len() <= MAX_VALUE => {
                NodeContent::Scalar { text: text.into(), plain: style == Style::Plain }
            }
            Kind::Alias => {
                let target = self.tree.document.target(id).and_then(|target| self.values.get(&target));
                target.map_or(NodeContent::Unknown, |(target, _)| NodeContent::Same(target.clone()))
            }
            _ => NodeContent::Unknown,
        };
        TreeNode { place, tag: self.tree.document.tag(id).map(Rc::from), node, leaves: None }
    }

    /// Returns a collection with its content, and its number of nodes.
    fn value(&self, id: Id, place: Mark) -> (TreeNode, usize) {
        let document = self.tree.document;
        let mut cursor = document.cursor(place);
        let mut open = vec![self.opened(id, place)];
        let mut next = document.next_child(id, None).unwrap_or(document.end(id));
        loop {
            while let Some(ended) = open.pop_if(|last| last.is_too_large || document.end(last.id) <= next) {
                next = document.end(ended.id);
                let (value, size) = self.closed(ended);
                match open.last_mut() {
                    Some(parent) => parent.push(value, size),
                    None => return (value, size),
                }
            }
            let here = next;
            next = document.end(here);
            let Some(parent) = open.last_mut() else { continue };
            let place = cursor.mark(document.offset(here));
            match (self.values.get(&here), document.kind(here)) {
                (Some((value, size)), _) => {
                    let node = NodeContent::Same(value.clone());
                    parent.push(TreeNode { place, tag: None, node, leaves: None }, *size);
                }
                (None, Kind::Scalar(_) | Kind::Alias) => parent.push(self.leaf(here, place), 1),
                (None, Kind::ScalarRun) => self.add_run(here, place, parent),
                (None, Kind::Sequence | Kind::Mapping) => {
                    open.push(self.opened(here, place));
                    next = document.next_child(here, None).unwrap_or(next);
                }
            }
        }
    }

    fn opened(&self, id: Id, place: Mark) -> OpenValue {
        OpenValue { id, place, values: Vec::new(), size: 1, is_array: self.is_array(id), is_too_large: false }
    }

    /// Returns a collection that has ended, and its number of nodes.
    fn closed(&self, value: OpenValue) -> (TreeNode, usize) {
        let OpenValue { id, place, values, size, is_array, is_too_large } = value;
        let is_mapping = self.tree.document.kind(id) == Kind::Mapping;
        let has_shape = is_array || self.tree.targets.contains(&id) && !is_mapping;
        let measured = has_shape.then(|| self.measured(id, place));
        let (shape, leaves) = measured
            .map_or((SequenceShape::Unknown, None), |(shape, leaves)| (shape, Some(Box::new(leaves))));
        let node = match (is_too_large, is_mapping) {
            (false, true) => NodeContent::mapping(values),
            (false, false) => NodeContent::Sequence(values, shape),
            (true, true) => NodeContent::Unknown,
            (true, false) => NodeContent::LargeSequence(shape),
        };
        let size = if is_too_large { 1 } else { size };
        (TreeNode { place, tag: self.tree.document.tag(id).map(Rc::from), node, leaves }, size)
    }

    /// True for the sequence of an array in the tree.
    fn is_array(&self, id: Id) -> bool {
        let document = self.tree.document;
        let is_data = match document.place(id) {
            NodePlace::Value(key) if self.tree.is_named(key, self.wanted.array) => {
                document.parent(id).is_some_and(|parent| self.tree.has_tag(parent, self.wanted.tag))
            }
            _ => false,
        };
        document.kind(id) == Kind::Sequence && (is_data || self.tree.has_tag(id, self.wanted.tag))
    }

    /// Adds the items of a run, until there are too many.
    fn add_run(&self, run: Id, place: Mark, parent: &mut OpenValue) {
        let mut open: Vec<(Mark, Vec<TreeNode>, usize)> = Vec::new();
        // An error ends the run.
        let _ = self.tree.document.read_run(run, place, |event, place| {
            let (node, size) = match event {
                RunEvent::Scalar(text) if text.len() <= MAX_VALUE => {
                    (NodeContent::Scalar { text: text.into(), plain: true }, 1)
                }
                RunEvent::Scalar(_) => (NodeContent::Unknown, 1),
                RunEvent::SequenceStart => {
                    open.push((place, Vec::new(), 1));
                    return Ok(());
                }
                RunEvent::SequenceEnd => {
                    let Some((begin, values, size)) = open.pop() else { return Ok(()) };
                    let node = NodeContent::Sequence(values, SequenceShape::Unknown);
                    add(TreeNode { place: begin, tag: None, node, leaves: None }, size, &mut open, parent);
                    return if parent.is_too_large { Err(Error::unsupported("")) } else { Ok(()) };
                }
            };
            add(TreeNode { place, tag: None, node, leaves: None }, size, &mut open, parent);
            if parent.is_too_large { Err(Error::unsupported("")) } else { Ok(()) }
        });
    }

    /// Measures a sequence as an array.
    fn measured(&self, id: Id, place: Mark) -> (SequenceShape, Leaves) {
        let document = self.tree.document;
        let mut rectangle = Rectangle::default();
        rectangle.open(0);
        let mut cursor = document.cursor(place);
        // The open sequences, and the numbers of their items so far.
        let mut open = vec![(id, 0)];
        let mut next = document.next_child(id, None).unwrap_or(document.end(id));
        loop {
            while let Some((_, count)) = open.pop_if(|(id, _)| document.end(*id) <= next) {
                rectangle.close(open.len(), count);
            }
            let depth = open.len();
            let Some((_, count)) = open.last_mut() else { break };
            let here = next;
            next = document.end(here);
            *count += document.items_in(here);
            let place = cursor.mark(document.offset(here));
            match document.kind(here) {
                Kind::Scalar(_) => {
                    rectangle.leaf(depth);
                    let looks = self.tree.type_of(here).unwrap_or(Type::Other);
                    let tag = document.tag(here);
                    rectangle.elements.add(place, document.text(here), looks, tag);
                }
                Kind::Alias => {
                    let target = document.target(here);
                    rectangle.elements.seen.aliases |= target.is_some();
                    match target.map(|target| document.kind(target)) {
                        Some(Kind::Sequence) => rectangle.unknown(),
                        Some(Kind::Mapping) => {}
                        _ => rectangle.leaf(depth),
                    }
                }
                Kind::ScalarRun => self.measure_run(here, place, depth, &mut rectangle),
                Kind::Mapping => rectangle.mapping(),
                Kind::Sequence => {
                    rectangle.open(depth);
                    open.push((here, 0));
                    next = document.next_child(here, None).unwrap_or(next);
                }
            }
        }
        (rectangle.shape(), rectangle.elements)
    }

    fn measure_run(&self, run: Id, place: Mark, depth: usize, rectangle: &mut Rectangle) {
        let mut counts: Vec<u64> = Vec::new();
        // The function never fails.
        let _ = self.tree.document.read_run(run, place, |event, place| {
            let depth = depth + counts.len();
            if event != RunEvent::SequenceEnd
                && let Some(count) = counts.last_mut()
            {
                *count += 1;
            }
            match event {
                RunEvent::Scalar(text) => {
                    rectangle.leaf(depth);
                    rectangle.elements.add(place, text, scalar::type_of(text, true, None), None);
                }
                RunEvent::SequenceStart => {
                    rectangle.open(depth);
                    counts.push(0);
                }
                RunEvent::SequenceEnd => {
                    let count = counts.pop().unwrap_or_default();
                    rectangle.close(depth - 1, count);
                }
            }
            Ok(())
        });
    }
}

/// A collection whose content is being added.
struct OpenValue {
    id: Id,
    place: Mark,
    values: Vec<TreeNode>,
    /// The number of nodes so far.
    size: usize,
    is_array: bool,
    is_too_large: bool,
}

impl OpenValue {
    /// Adds a node. `size` counts it and all nodes within it. If there would be too many, it is added without them.
    fn push(&mut self, value: TreeNode, size: usize) {
        let sum = self.size + size;
        self.is_too_large |= if self.is_array { sum > MAX_SEARCHED } else { self.values.len() >= MAX_VALUE };
        if self.is_too_large {
            self.values = Vec::new();
        } else if sum <= MAX_VALUE {
            self.size = sum;
            self.values.push(value);
        } else {
            self.values.push(value.without_content());
        }
    }
}

/// Adds a node to the innermost open sequence of a run, or to the collection that has the run.
fn add(node: TreeNode, size: usize, open: &mut [(Mark, Vec<TreeNode>, usize)], parent: &mut OpenValue) {
    match open.last_mut() {
        Some((_, values, sum)) => {
            values.push(node);
            *sum += size;
        }
        None => parent.push(node, size),
    }
}
