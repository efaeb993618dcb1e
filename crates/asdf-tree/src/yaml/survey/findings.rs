//! Finds what the grammar of YAML permits but readers do not get over, and compares a document with a sample of an earlier
//! one: lost tags, and scalars that have been read by the rules of another YAML version.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};

use super::read_tree::{PairList, ReadTree};
use super::sample::{HASHER, IdentityHasher, NodeType, step};
use super::{Finding, PathId, Root, TextSample, TextSurvey, Wrong};
use crate::limits::MAX_NOTES;
use crate::yaml::document::{Document, Id, Kind, NodePlace, RunEvent};
use crate::yaml::event::{Mark, START, Style};
use crate::yaml::scalar::readings::{self, Readings, reading};
use crate::yaml::scalar::{self, TAG_PREFIX, Type};

/// Surveys a document. `before` is a sample of an earlier one.
pub fn survey(document: &Document, before: Option<&TextSample>) -> TextSurvey {
    let before = before.filter(|before| !before.is_empty() || before.has_keys());
    let tree = ReadTree::new(document);
    let survey = TextSurvey::default();
    let mut finder =
        FindingFinder { tree, before, survey, open: Vec::new(), unfit: HashMap::new(), repeated: 0 };
    if let Some(root) = document.root() {
        let tag = document.tag(root).map(str::to_owned);
        let mapping = document.kind(root) == Kind::Mapping;
        finder.survey.root = Some(Root { tag, mapping, at: document.offset(root) });
        finder.walk(root);
    }
    if let Some(at) = document.next_document() {
        finder.find_at(
            Wrong::SecondDocument,
            NodeSpot { at, id: None, item: None },
            "",
            "a second document begins here".to_owned(),
        );
    }
    TextSurvey { paths: finder.tree.paths, ..finder.survey }
}

/// Returns a hash that is equal for keys that readers take as equal; `None` for keys that can't be hashed.
pub(super) fn key_hash(text: &str, looks: Type) -> Option<u64> {
    match looks {
        Type::Other => None,
        Type::Str | Type::Value => Some(HASHER.hash_one(text)),
        _ => Some(HASHER.hash_one(readings::key(text, looks))),
    }
}

struct FindingFinder<'d, 's> {
    tree: ReadTree<'d>,
    before: Option<&'s TextSample>,
    survey: TextSurvey,
    open: Vec<OpenCollection>,
    /// Why collections are invalid for their tags, if PyYAML does not construct them where they stand.
    unfit: HashMap<Id, &'static str>,
    /// The number of repeated anchors so far.
    repeated: usize,
}

/// An open collection.
struct OpenCollection {
    id: Id,
    /// The hash of its path.
    hash: u64,
    /// The last key, value or item so far.
    last: Option<Id>,
    /// The type of the sequence of pairs that it is, or that it is an item of.
    pairs: Option<PairList>,
    /// The hashes of the keys so far, and hash and type of the last key.
    seen: HashSet<u64, BuildHasherDefault<IdentityHasher>>,
    key: (u64, Option<Type>),
    /// For a mapping with the key `=`: true if the first value of this key can be a scalar.
    has_value: Option<bool>,
    /// For a mapping with the tag of a scalar: the reason why it is invalid without the key `=`, and the number of
    /// findings before it.
    unfit: Option<(&'static str, usize)>,
}

/// A place in the text, and the node there. Of an item of a run, it is the item's sequence and the item's position.
#[derive(Clone, Copy)]
struct NodeSpot {
    at: u64,
    id: Option<Id>,
    item: Option<u64>,
}

impl NodeSpot {
    fn of(document: &Document, id: Id) -> Self {
        Self { at: document.offset(id), id: Some(id), item: None }
    }
}

/// A scalar.
#[derive(Clone, Copy)]
struct Scalar<'t> {
    spot: NodeSpot,
    text: &'t str,
    is_plain: bool,
    tag: Option<&'t str>,
    looks: Type,
}

impl<'d> FindingFinder<'d, '_> {
    fn find(&mut self, wrong: Wrong, id: Id, detail: &str, what: String) {
        let spot = NodeSpot::of(self.tree.document, id);
        self.find_at(wrong, spot, detail, what);
    }

    fn find_at(&mut self, wrong: Wrong, spot: NodeSpot, detail: &str, what: String) {
        if self.survey.findings.len() < MAX_NOTES {
            let path = self.path_at(spot);
            let mut hasher = DefaultHasher::new();
            (wrong, detail, self.tree.paths.identity(path, false)).hash(&mut hasher);
            self.survey.findings.push(Finding { wrong, at: spot.at, what, identity: hasher.finish() });
        }
    }

    fn path_at(&mut self, spot: NodeSpot) -> Option<PathId> {
        spot.id.and_then(|id| self.tree.path_of(id, spot.item))
    }

    fn walk(&mut self, root: Id) {
        let document = self.tree.document;
        self.node(root, 0);
        while let Some(open) = self.open.last_mut() {
            let Some(child) = document.next_child(open.id, open.last) else {
                self.close();
                continue;
            };
            open.last = Some(child);
            match document.place(child) {
                NodePlace::Key => self.key(child),
                // The number is inverted, so that it is unlikely to equal a key's hash.
                NodePlace::Item(number) if document.kind(child) != Kind::ScalarRun => {
                    let hash = step(open.hash, !u64::from(number));
                    self.node(child, hash);
                }
                NodePlace::Value(_) => {
                    let hash = step(open.hash, open.key.0);
                    self.node(child, hash);
                }
                _ => {
                    let hash = open.hash;
                    self.run(child, hash);
                    self.ended(child);
                }
            }
        }
    }

    /// Takes a value or an item. `hash` is that of its path.
    fn node(&mut self, id: Id, hash: u64) {
        match self.tree.document.kind(id) {
            Kind::Sequence | Kind::Mapping => return self.collection(id, hash, false),
            Kind::Alias => drop(self.alias(id)),
            _ => {
                let scalar = self.scalar(id);
                self.compare_scalar(scalar, hash);
            }
        }
        self.ended(id);
    }

    fn repeated_anchor(&mut self, id: Id) {
        while let Some((repeated, name)) = self.tree.document.repeated.get(self.repeated)
            && *repeated == id
        {
            self.repeated += 1;
            let what = format!("the anchor \"{}\" is already defined", name.escape_debug());
            self.find(Wrong::RepeatedAnchor, id, name, what);
        }
    }

    /// Takes a scalar, and judges its text.
    fn scalar(&mut self, id: Id) -> Scalar<'d> {
        self.repeated_anchor(id);
        let document = self.tree.document;
        let is_plain = document.kind(id) == Kind::Scalar(Style::Plain);
        let looks = self.tree.type_of(id).unwrap_or(Type::Other);
        let (text, tag) = (document.text(id), document.tag(id));
        let scalar = Scalar { spot: NodeSpot::of(document, id), text, is_plain, tag, looks };
        self.judge(scalar);
        scalar
    }

    fn judge(&mut self, scalar: Scalar<'_>) {
        let Scalar { spot, text, tag, looks, .. } = scalar;
        if tag.is_none() && !matches!(looks, Type::Int | Type::Timestamp) {
            return;
        }
        if let Some(why) = scalar::unfit(text, looks, tag) {
            let what = format!("\"{}\" can't be read: {why}", shorten(text));
            self.find_at(Wrong::Unfit, spot, text, what);
        } else if looks == Type::Int && scalar::beyond_int64(text) {
            let what = format!("the integer {} is beyond 64 bits", shorten(text));
            self.find_at(Wrong::LargeInteger, spot, text, what);
        }
    }

    /// Takes an alias. Returns the node that it stands for.
    fn alias(&mut self, id: Id) -> Option<Id> {
        let Some(target) = self.tree.document.target(id) else {
            let name = self.tree.document.text(id);
            let what = format!("the alias \"*{}\" has no anchor before it", name.escape_debug());
            self.find(Wrong::UndefinedAlias, id, name, what);
            return None;
        };
        if self.tree.is_constructed(id)
            && let Some(why) = self.unfit.remove(&target)
        {
            self.find(Wrong::Unfit, id, "", format!("a collection can't be read: {why}"));
        }
        Some(target)
    }

    fn collection(&mut self, id: Id, hash: u64, is_key: bool) {
        self.repeated_anchor(id);
        let document = self.tree.document;
        let is_mapping = document.kind(id) == Kind::Mapping;
        let tag = document.tag(id);
        let is_constructed = self.tree.is_constructed(id);
        let is_target = self.tree.targets.contains(&id);
        let findings = self.survey.findings.len();
        let why = tag.and_then(|tag| scalar::unfit_collection(is_mapping, tag));
        let may_be_value = is_mapping && is_constructed && tag.is_some_and(scalar::may_be_value);
        if let Some(why) = why.filter(|_| !may_be_value) {
            if is_constructed {
                self.find(Wrong::Unfit, id, "", format!("a collection can't be read: {why}"));
            } else if is_target {
                self.unfit.insert(id, why);
            }
        }
        if is_key {
            self.unhashable(id);
        } else {
            let (kind, usual) =
                if is_mapping { (NodeType::Mapping, "map") } else { (NodeType::Sequence, "seq") };
            let tag = tag.filter(|_| is_constructed || is_target);
            let tag = tag.filter(|tag| tag.strip_prefix(TAG_PREFIX) != Some(usual));
            self.compare_tag(hash, NodeSpot::of(document, id), kind, tag);
        }
        self.note_depth(self.open.len() + 1, document.offset(id));
        let list = if is_mapping { document.parent(id) } else { Some(id) };
        self.open.push(OpenCollection {
            id,
            hash,
            last: None,
            pairs: list.and_then(|list| self.tree.pairs(list)),
            seen: HashSet::default(),
            key: (0, None),
            has_value: None,
            unfit: why.filter(|_| may_be_value).map(|why| (why, findings)),
        });
    }

    /// Ends the innermost collection.
    fn close(&mut self) {
        let Some(closed) = self.open.pop() else { return };
        if let Some((why, before)) = closed.unfit {
            self.judge_scalar(closed.id, why, before, closed.has_value == Some(true));
        }
        self.ended(closed.id);
    }

    fn note_depth(&mut self, depth: usize, at: u64) {
        if depth > self.survey.depth.0 {
            self.survey.depth = (depth, at);
        }
    }

    /// Judges a mapping with the tag of a scalar at its end. If it has the key `=`, PyYAML reads the value of this key,
    /// and constructs no other node of the mapping.
    fn judge_scalar(&mut self, id: Id, why: &'static str, before: usize, is_scalar: bool) {
        let within = self.survey.findings.split_off(before);
        if !is_scalar {
            self.find(Wrong::Unfit, id, "", format!("a collection can't be read: {why}"));
        }
        let room = MAX_NOTES.saturating_sub(self.survey.findings.len());
        let is_kept = |finding: &Finding| {
            !is_scalar || matches!(finding.wrong, Wrong::UndefinedAlias | Wrong::RepeatedAnchor)
        };
        self.survey.findings.extend(within.into_iter().filter(is_kept).take(room));
    }

    /// Judges a value or an item after what is in it.
    fn ended(&mut self, id: Id) {
        let document = self.tree.document;
        let Some(open) = self.open.last_mut() else { return };
        let target = document.target(id);
        let kind = target.map(|target| document.kind(target));
        match document.place(id) {
            NodePlace::Value(_) => {
                if open.key.1 == Some(Type::Value) {
                    open.has_value.get_or_insert(kind != Some(Kind::Sequence));
                }
                let is_mapping =
                    |item: Id| document.target(item).is_some_and(|item| document.kind(item) == Kind::Mapping);
                let is_mergeable = match (target, kind) {
                    (Some(list), Some(Kind::Sequence)) => document.children(list).all(is_mapping),
                    _ => matches!(kind, None | Some(Kind::Mapping)),
                };
                if !is_mergeable && self.tree.is_merged(id) {
                    let what = "the value of \"<<\" is neither a mapping nor a list of mappings";
                    self.find(Wrong::Merge, id, "", what.to_owned());
                }
            }
            NodePlace::Item(_) if open.pairs.is_some() => {
                let is_pair = target.is_none_or(|pair| {
                    document.kind(pair) == Kind::Mapping
                        && (document.count(pair) == 1
                            || document.members(pair).any(|(_, value)| self.tree.is_merged(value)))
                });
                if !is_pair {
                    let what = "an item of an ordered mapping is not a mapping with one key";
                    self.find(Wrong::Unfit, id, "", what.to_owned());
                }
            }
            _ => {}
        }
    }

    /// Takes a key.
    fn key(&mut self, key: Id) {
        let document = self.tree.document;
        let Some(OpenCollection { hash: mapping, pairs, .. }) = self.open.last() else { return };
        let (mapping, pairs) = (*mapping, *pairs);
        let (hash, looks) = match document.kind(key) {
            Kind::Scalar(_) => {
                let scalar = self.scalar(key);
                if scalar.tag.is_none() {
                    self.compare_key(scalar, mapping);
                }
                let looks = scalar.looks;
                let is_hashable = match pairs {
                    None => looks != Type::Other,
                    Some(PairList::OrderedMap) => !matches!(looks, Type::Other | Type::Merge | Type::Value),
                    Some(PairList::Pairs) => true,
                };
                if !is_hashable {
                    let what = "a key has a custom tag, which Python can't hash".to_owned();
                    self.find(Wrong::UnhashableKey, key, scalar.text, what);
                }
                (key_hash(scalar.text, looks), Some(looks))
            }
            Kind::Alias => {
                let target = self.alias(key);
                let looks = target.and_then(|target| self.tree.type_of(target));
                let text = target.map_or("", |target| document.text(target));
                let hash = looks.and_then(|looks| key_hash(text, looks));
                if hash.is_none() && target.is_some() {
                    self.unhashable(key);
                }
                (hash, looks.filter(|looks| *looks != Type::Value))
            }
            _ => (None, None),
        };
        let of_path = hash.unwrap_or_else(|| HASHER.hash_one(("not hashable", self.tree.key_name(key))));
        let Some(open) = self.open.last_mut() else { return };
        open.key = (of_path, looks);
        let is_merge = looks == Some(Type::Merge) && pairs.is_none();
        if hash.is_some_and(|hash| !is_merge && !open.seen.insert(hash)) {
            let name = self.tree.key_name(key);
            let what = format!("the key \"{}\" is repeated in the same mapping", shorten(&name));
            self.find(Wrong::DuplicateKey, key, &name, what);
        }
        if matches!(document.kind(key), Kind::Sequence | Kind::Mapping) {
            self.collection(key, step(mapping, 0), true);
        }
    }

    /// Records the finding that a collection is a key. In `!!pairs`, which PyYAML reads as a list of tuples, it may be one,
    /// and so may a key with the tag of a merge key.
    fn unhashable(&mut self, key: Id) {
        let document = self.tree.document;
        let list = document.parent(key).and_then(|mapping| document.parent(mapping));
        let is_of_pairs = list.and_then(|list| self.tree.pairs(list)) == Some(PairList::Pairs);
        let is_merge = document.tag(key).and_then(|tag| tag.strip_prefix(TAG_PREFIX)) == Some("merge");
        if !is_of_pairs && !is_merge {
            let what = "a key is a sequence or a mapping, which Python can't hash".to_owned();
            self.find(Wrong::UnhashableKey, key, "", what);
        }
    }

    /// Takes the items of a run. `hash` is that of the path of the sequence.
    fn run(&mut self, run: Id, hash: u64) {
        let document = self.tree.document;
        let (Some(id), NodePlace::Item(first)) = (document.parent(run), document.place(run)) else { return };
        if document.is_decimal(run) && !self.before.is_some_and(|before| before.may_have_items(hash)) {
            self.note_depth(self.open.len() + document.levels_in(run), document.offset(run));
            return;
        }
        // The open sequences within the run: their hashes, and the numbers of their next items.
        let mut open = vec![(hash, u64::from(first))];
        self.note_items();
        let start = Mark { offset: document.offset(run), ..START };
        // The function never fails.
        let _ = document.read_run(run, start, |event, Mark { offset: at, .. }| {
            if event == RunEvent::SequenceEnd {
                open.pop();
                return Ok(());
            }
            let Some((hash, number)) = open.last_mut() else { return Ok(()) };
            let own = step(*hash, !*number);
            *number += 1;
            let item = open.first().map(|(_, next)| next - 1);
            let spot = NodeSpot { at, id: Some(id), item };
            if let RunEvent::Scalar(text) = event {
                let looks = scalar::type_of(text, true, None);
                let scalar = Scalar { spot, text, is_plain: true, tag: None, looks };
                self.judge(scalar);
                self.compare_scalar(scalar, own);
            } else {
                self.note_depth(self.open.len() + open.len(), at);
                self.compare_tag(own, spot, NodeType::Sequence, None);
                self.survey.sample.note_items(own);
                open.push((own, 0));
            }
            Ok(())
        });
    }

    /// Notes that the open sequences have items to compare, up to the first mapping above.
    fn note_items(&mut self) {
        let document = self.tree.document;
        let is_sequence = |open: &&OpenCollection| document.kind(open.id) == Kind::Sequence;
        for open in self.open.iter().rev().take_while(is_sequence) {
            self.survey.sample.note_items(open.hash);
        }
    }

    fn compare_scalar(&mut self, scalar: Scalar<'_>, hash: u64) {
        let Scalar { spot, text, is_plain, looks, .. } = scalar;
        // A tag that does not change the type of the scalar may come and go.
        let tag =
            scalar.tag.filter(|_| looks == Type::Other || scalar::type_of(text, is_plain, None) != looks);
        let readings = if is_plain && tag.is_none() { Readings::of(text, looks) } else { None };
        // One of YAML's own, such as !!float, belongs to the value, and goes with it.
        let own = tag.filter(|_| matches!(looks, Type::Other | Type::Binary));
        self.compare_tag(hash, spot, NodeType::Scalar, own);
        if let Some((was, weight)) = self.before.and_then(|before| before.readings(hash))
            && was.became(text, looks)
        {
            self.reread(scalar, weight);
        }
        if let Some(readings) = readings {
            self.note_items();
            self.survey.sample.add_scalar(hash, readings, spot.at);
        }
    }

    /// Compares a key with the earlier text. `mapping` is the hash of the path of its mapping.
    fn compare_key(&mut self, key: Scalar<'_>, mapping: u64) {
        let Scalar { text, is_plain, looks, .. } = key;
        let before = self.before.filter(|before| before.has_keys());
        if let Some(weight) = before.and_then(|before| before.key(mapping, reading(text, looks))) {
            self.reread(key, weight);
        }
        if let Some(readings) = is_plain.then(|| Readings::of(text, looks)).flatten() {
            self.survey.sample.add_key(mapping, readings, key.spot.at);
        }
    }

    fn reread(&mut self, scalar: Scalar<'_>, weight: u64) {
        let has_room = self.survey.changes.reread.has_room();
        let path = has_room.then(|| self.path_at(scalar.spot));
        let reread = &mut self.survey.changes.reread;
        reread.count += weight;
        reread.first.extend(path.map(|path| (path, scalar.spot.at, shorten(scalar.text).into())));
    }

    fn compare_tag(&mut self, hash: u64, spot: NodeSpot, kind: NodeType, tag: Option<&str>) {
        if let Some((was, weight)) = self.before.and_then(|before| before.tag(hash, kind)) {
            self.survey.changes.stayed += weight;
            if tag.is_none() {
                let has_room = self.survey.changes.untagged.has_room();
                let path = has_room.then(|| self.path_at(spot));
                let untagged = &mut self.survey.changes.untagged;
                untagged.count += weight;
                untagged.first.extend(path.map(|path| (path, spot.at, was.into())));
            }
        }
        if let Some(tag) = tag {
            self.note_items();
            self.survey.sample.add_tagged(hash, kind, tag, spot.at);
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
