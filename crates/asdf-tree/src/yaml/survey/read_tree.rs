//! The nodes of a document as PyYAML reads them, and their paths.

use std::collections::{HashMap, HashSet};

use super::path::{PathId, Paths, ROOT, Step};
use crate::yaml::document::{Document, Id, Kind, NodePlace};
use crate::yaml::event::Style;
use crate::yaml::scalar::{self, TAG_PREFIX, Type};

/// The type of a sequence of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PairList {
    /// `!!omap`, in which keys must be hashable.
    OrderedMap,
    /// `!!pairs`.
    Pairs,
}

/// A document with the paths that were asked for.
pub(super) struct ReadTree<'d> {
    pub(super) document: &'d Document,
    /// The nodes that aliases stand for.
    pub(super) targets: HashSet<Id>,
    pub(super) paths: Paths,
    path_ids: HashMap<Id, Option<PathId>>,
}

impl<'d> ReadTree<'d> {
    pub(super) fn new(document: &'d Document) -> Self {
        let aliases = document.all().filter(|id| document.kind(*id) == Kind::Alias);
        let targets = aliases.filter_map(|id| document.target(id)).collect();
        Self { document, targets, paths: Paths::default(), path_ids: HashMap::new() }
    }

    /// Returns the path of a node, or of an item of a run in it.
    pub(super) fn path_of(&mut self, id: Id, item: Option<u64>) -> Option<PathId> {
        let path = self.path(id);
        item.map_or(path, |item| self.paths.add(path, Step::Item(item)))
    }

    /// Returns the path of a node.
    pub(super) fn path(&mut self, id: Id) -> Option<PathId> {
        let mut unknown = Vec::new();
        let mut path = ROOT;
        let mut next = Some(id);
        while let Some(here) = next {
            if let Some(known) = self.path_ids.get(&here) {
                path = *known;
                break;
            }
            next = self.document.parent(here);
            if next.is_some() {
                unknown.push(here);
            }
        }
        for here in unknown.into_iter().rev() {
            let step = match self.document.place(here) {
                NodePlace::Item(number) => Step::Item(u64::from(number)),
                NodePlace::Value(key) => Step::Key(self.key_name(key).into()),
                NodePlace::Key | NodePlace::Root => Step::Key("?".into()),
            };
            path = self.paths.add(path, step);
            if here != id || self.targets.contains(&here) {
                self.path_ids.insert(here, path);
            }
        }
        path
    }

    pub(super) fn key_name(&self, key: Id) -> String {
        let text = self.document.text(key);
        match self.document.kind(key) {
            Kind::Alias => {
                let target = self.document.target(key).filter(|key| self.type_of(*key) == Some(Type::Str));
                target.map_or_else(|| format!("*{text}"), |target| self.document.text(target).to_owned())
            }
            Kind::Scalar(_) => match self.type_of(key) {
                Some(Type::Str) | None => text.to_owned(),
                Some(looks) => scalar::key_name(text, looks).to_string(),
            },
            _ => "?".to_owned(),
        }
    }

    /// True if a key has this name.
    pub(super) fn is_named(&self, key: Id, name: &str) -> bool {
        matches!(self.document.kind(key), Kind::Scalar(_)) && self.document.text(key) == name
    }

    /// Returns the type of a scalar.
    pub(super) fn type_of(&self, id: Id) -> Option<Type> {
        match self.document.kind(id) {
            Kind::Scalar(style) => {
                let tag = self.document.tag(id);
                Some(scalar::type_of(self.document.text(id), style == Style::Plain, tag))
            }
            _ => None,
        }
    }

    /// True if PyYAML constructs a collection, or an alias of one, by its tag. It does not construct the value of a merge key, a mapping in
    /// a list of such values, and a pair of an ordered mapping: it takes the keys and values out of them.
    pub(super) fn is_constructed(&self, id: Id) -> bool {
        let document = self.document;
        let is_mapping = document.target(id).is_some_and(|target| document.kind(target) == Kind::Mapping);
        match document.place(id) {
            NodePlace::Value(_) => !self.is_merged(id),
            NodePlace::Item(_) if is_mapping => {
                !document.parent(id).is_some_and(|list| self.is_merged(list) || self.pairs(list).is_some())
            }
            _ => true,
        }
    }

    /// True for the value of a merge key.
    pub(super) fn is_merged(&self, id: Id) -> bool {
        let NodePlace::Value(key) = self.document.place(id) else { return false };
        let mapping = self.document.parent(id);
        let list = mapping.and_then(|mapping| self.document.parent(mapping));
        self.document.is_merge(key) && list.is_none_or(|list| self.pairs(list).is_none())
    }

    /// Returns the type of a sequence of pairs.
    pub(super) fn pairs(&self, id: Id) -> Option<PairList> {
        let tag = self.document.tag(id).filter(|_| self.document.kind(id) == Kind::Sequence)?;
        let pairs = match tag.strip_prefix(TAG_PREFIX)? {
            "omap" => PairList::OrderedMap,
            "pairs" => PairList::Pairs,
            _ => return None,
        };
        self.is_constructed(id).then_some(pairs)
    }

    /// True if a collection has a tag that `is_it` accepts, and is constructed by it.
    pub(super) fn has_tag(&self, id: Id, is_it: impl Fn(&str) -> bool) -> bool {
        self.document.tag(id).is_some_and(is_it) && (self.targets.contains(&id) || self.is_constructed(id))
    }
}
