//! The members of the mappings of a document, as JSON has them.
//!
//! JSON has each name of a mapping once. Most mappings have the members that are written. For the others, those with
//! keys of the same name and those with merge keys, the members are found before the JSON is written.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use asdf_tree::limits::MAX_MADE;
use asdf_tree::yaml::document::{Document, Id, Kind, NodePlace};
use seekable::error::{Error, Result};
use twox_hash::XxHash64;

use super::nulls::Nulls;
use super::numbers::{Number, number};
use super::output::SHORT;
use super::scalar::{self, Json};

/// Approximate size of a merged member without its name and value, in bytes.
const MEMBER: usize = 64;

/// A replacement, which a mapping shows instead of a value that is written in it.
#[derive(Clone, Copy, Debug)]
enum Shown {
    /// The value of a later key with the same name.
    Instead(Id),
    /// Nothing: the value stands at an earlier key with the same name.
    Before,
    /// Nothing: the value of another key with the same name counts.
    Nothing,
}

/// A member of a mapping.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) key: Id,
    pub(super) value: Id,
    /// The number of the merge key that brings the member.
    merge: Option<u32>,
    /// True if the value stands elsewhere, and is only mentioned here.
    pub(super) is_mentioned: bool,
}

/// The members that differ from those that are written.
#[derive(Debug, Default)]
pub(super) struct Members {
    shown: HashMap<Id, Shown>,
    /// The names of keys that equal an earlier key with another name.
    names: HashMap<Id, Box<str>>,
    /// All members of mappings that have merge keys, or are merged into others.
    merged: HashMap<Id, Box<[Member]>>,
    /// The bytes that merge keys add to the text.
    added: usize,
    /// The aliases in merge keys that bring nothing.
    pub(super) nulls: Nulls,
}

/// The places of members by their names.
#[derive(Default)]
struct Names {
    texts: HashMap<Box<str>, usize>,
    numbers: HashMap<Number, usize>,
}

/// The name of a key.
struct KeyName<'t> {
    text: Cow<'t, str>,
    /// The number, if the key is one. Equal numbers are one key.
    number: Option<Number>,
}

/// A mapping that is merged into another one.
#[derive(Clone, Copy)]
struct Source {
    mapping: Id,
    /// The alias, or the mapping itself.
    written: Id,
    /// True if the mapping is written in the merge key.
    is_inline: bool,
}

impl Members {
    /// Finds the members of all mappings of a document.
    ///
    /// # Errors
    ///
    /// A key that is not a scalar, or a merge key that can't be followed.
    pub(super) fn of(document: &Document) -> Result<Self> {
        let mut members = Self::default();
        let mut with_merges = Vec::new();
        let mut hashes = KeyHashes::default();
        for mapping in document.all().filter(|id| document.kind(*id) == Kind::Mapping) {
            if hashes.find(document, mapping)? {
                with_merges.push(mapping);
            }
            if !hashes.repeated.is_empty() {
                members.find_equal(document, mapping, &hashes)?;
            }
        }
        // Mappings that are merged into others end before these.
        with_merges.sort_unstable_by_key(|mapping| (document.end(*mapping), std::cmp::Reverse(*mapping)));
        for mapping in with_merges {
            members.find_merged(document, mapping)?;
        }
        Ok(members)
    }

    /// Returns the approximate memory, in bytes.
    pub(super) fn weight(&self) -> u64 {
        let merged = self.merged.values().map(|members| members.len() * size_of::<Member>() + MEMBER);
        let names = self.names.values().map(|name| name.len() + MEMBER);
        (merged.sum::<usize>() + names.sum::<usize>() + self.shown.len() * MEMBER / 2) as u64
    }

    /// Returns the value that a mapping shows at a key; `None` if it does not show the key.
    pub(super) fn shown(&self, document: &Document, key: Id, value: Id) -> Option<Id> {
        let shown = if self.shown.is_empty() { None } else { self.shown.get(&value) };
        match shown {
            Some(Shown::Instead(other)) => Some(*other),
            Some(Shown::Before | Shown::Nothing) => None,
            None => (!document.is_merge(key)).then_some(value),
        }
    }

    /// Returns the first member that merge keys bring into a mapping from place `from` on, and the next place.
    pub(super) fn merged(&self, mapping: Id, from: usize) -> Option<(Member, usize)> {
        if self.merged.is_empty() {
            return None;
        }
        let members = self.merged.get(&mapping)?;
        let place = from + members.get(from..)?.iter().position(|member| member.merge.is_some())?;
        Some((members[place], place + 1))
    }

    /// Returns the name of a key in JSON.
    pub(super) fn name<'t>(&'t self, document: &'t Document, key: Id) -> Result<Cow<'t, str>> {
        let known = if self.names.is_empty() { None } else { self.names.get(&key) };
        match known {
            Some(name) => Ok(Cow::Borrowed(name)),
            None => Ok(KeyName::of(document, key)?.text),
        }
    }

    /// Returns the step of a JSON pointer that leads to a node from the one that contains it; `None` if the two have one
    /// place. The inner error is the reason why the node is not shown.
    pub(super) fn step(
        &self,
        document: &Document,
        id: Id,
    ) -> Result<std::result::Result<Option<String>, &'static str>> {
        Ok(match document.place(id) {
            NodePlace::Root => Ok(None),
            NodePlace::Key => Err(Nulls::LONG_KEY),
            // The members of a mapping in a merge key stand in the mapping that has the key.
            _ if is_in_merge(document, id) => Ok(None),
            NodePlace::Value(_) if self.is_hidden(id) => Err(Nulls::REPEATED),
            NodePlace::Value(key) => {
                Ok(Some(self.name(document, key)?.replace('~', "~0").replace('/', "~1")))
            }
            NodePlace::Item(index) => Ok(Some(index.to_string())),
        })
    }

    /// True if a node or one that contains it is not shown, because another value counts.
    pub(super) fn is_below_hidden(&self, document: &Document, node: Id) -> bool {
        let mut here = if self.shown.is_empty() { None } else { Some(node) };
        while let Some(id) = here {
            if self.is_hidden(id) {
                return true;
            }
            here = document.parent(id);
        }
        false
    }

    fn is_hidden(&self, value: Id) -> bool {
        !self.shown.is_empty() && matches!(self.shown.get(&value), Some(Shown::Instead(_) | Shown::Nothing))
    }

    /// Finds which values of keys with the same name count: the last ones, as in Python.
    fn find_equal(&mut self, document: &Document, mapping: Id, hashes: &KeyHashes) -> Result<()> {
        let mut names = Names::default();
        let mut groups: Vec<Vec<(Id, Id)>> = Vec::new();
        for (key, value) in document.members(mapping) {
            if document.is_merge(key) {
                continue;
            }
            let name = KeyName::of(document, key)?;
            if !hashes.is_repeated(&name) {
                continue;
            }
            let place = names.place(&name, groups.len());
            match groups.get_mut(place) {
                Some(group) => group.push((key, value)),
                None => groups.push(vec![(key, value)]),
            }
        }
        for group in groups {
            let [(first_key, first_value), later @ ..] = &group[..] else { continue };
            let Some((_, last_value)) = later.last() else { continue };
            // The last value may be an alias of an earlier one.
            let target = document.target(*last_value).unwrap_or(*last_value);
            let is_of_group = group.iter().any(|(_, value)| *value == target);
            let counts = if is_of_group { target } else { *last_value };
            if counts != *first_value {
                self.shown.insert(*first_value, Shown::Instead(counts));
            }
            let name: Box<str> = KeyName::of(document, *first_key)?.text.into();
            for (key, value) in later {
                let shown = if *value == counts { Shown::Before } else { Shown::Nothing };
                self.shown.insert(*value, shown);
                if KeyName::of(document, *key)?.text != *name {
                    self.names.insert(*key, name.clone());
                }
            }
        }
        Ok(())
    }

    /// Finds the members of a mapping that has merge keys, or is merged into another one.
    fn find_merged(&mut self, document: &Document, mapping: Id) -> Result<()> {
        let mut merging = Merging { mapping, found: Vec::new(), names: Names::default(), count: 0 };
        for (key, value) in document.members(mapping) {
            if document.is_merge(key) {
                merging.count += 1;
                for source in sources(document, value)? {
                    self.merge(document, &mut merging, source)?;
                }
                continue;
            }
            let Some(value) = self.shown(document, key, value) else { continue };
            let member = Member { key, value, merge: None, is_mentioned: false };
            let place = merging.names.place(&KeyName::of(document, key)?, merging.found.len());
            match merging.found.get_mut(place) {
                // A member that is set again keeps its position, as in Python.
                Some(known) => {
                    self.hide(known);
                    *known = member;
                }
                None => merging.found.push(member),
            }
        }
        self.merged.insert(mapping, merging.found.into());
        Ok(())
    }

    /// Adds the members of a mapping to one that has a merge key.
    fn merge(&mut self, document: &Document, merging: &mut Merging, source: Source) -> Result<()> {
        if document.is_within(merging.mapping, source.mapping) {
            return refused(document, source.written, "a merge key refers to a mapping that contains it");
        }
        self.added += MEMBER;
        self.check_added(document, source.written)?;
        if !source.is_inline && self.is_below_hidden(document, source.mapping) {
            self.nulls.add(source.written, Nulls::REPEATED);
            return Ok(());
        }
        if !self.merged.contains_key(&source.mapping) {
            self.find_merged(document, source.mapping)?;
        }
        let Some(members) = self.merged.remove(&source.mapping) else { return Ok(()) };
        for member in &members {
            let name = KeyName::of(document, member.key)?;
            self.added += name.text.len() + document.text(member.value).len().min(SHORT) + MEMBER;
            self.check_added(document, source.written)?;
            let member = Member {
                merge: Some(merging.count),
                is_mentioned: member.is_mentioned || !source.is_inline,
                ..*member
            };
            let place = merging.names.place(&name, merging.found.len());
            match merging.found.get_mut(place) {
                // A member of the mapping itself counts, and then the first of the same merge key.
                Some(known) if known.merge.is_none_or(|merge| merge == merging.count) => self.hide(&member),
                Some(known) => {
                    self.hide(known);
                    *known = member;
                }
                None => merging.found.push(member),
            }
        }
        self.merged.insert(source.mapping, members);
        Ok(())
    }

    /// Fails if merge keys add too much to the text.
    fn check_added(&self, document: &Document, at: Id) -> Result<()> {
        if self.added > MAX_MADE {
            return refused(document, at, "merge keys make the text longer by 16 MiB");
        }
        Ok(())
    }

    /// Notes that a member is not shown, because another one counts.
    fn hide(&mut self, member: &Member) {
        if !member.is_mentioned {
            self.shown.insert(member.value, Shown::Nothing);
        }
    }
}

/// The members of a mapping with merge keys, found so far.
struct Merging {
    mapping: Id,
    found: Vec<Member>,
    names: Names,
    /// The number of merge keys so far.
    count: u32,
}

/// The hashes of the names and numbers of the keys of a mapping.
#[derive(Default)]
struct KeyHashes {
    hashes: Vec<u64>,
    /// The hashes that come twice.
    repeated: HashSet<u64>,
}

impl KeyHashes {
    /// Finds the hashes that come twice in a mapping. True if the mapping has merge keys.
    fn find(&mut self, document: &Document, mapping: Id) -> Result<bool> {
        self.hashes.clear();
        self.repeated.clear();
        let mut has_merges = false;
        for (key, _) in document.members(mapping) {
            if document.is_merge(key) {
                has_merges = true;
                continue;
            }
            let name = KeyName::of(document, key)?;
            self.hashes.push(hash(&name.text));
            self.hashes.extend(name.number.map(Number::hashed));
        }
        self.hashes.sort_unstable();
        let pairs = self.hashes.windows(2);
        self.repeated.extend(pairs.filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]));
        Ok(has_merges)
    }

    /// True if another key of the mapping may have the same name or number.
    fn is_repeated(&self, name: &KeyName<'_>) -> bool {
        let number = name.number.map(Number::hashed);
        self.repeated.contains(&hash(&name.text))
            || number.is_some_and(|number| self.repeated.contains(&number))
    }
}

impl Names {
    /// Returns the place of the member with the same name or number; `next` if there is none yet.
    fn place(&mut self, name: &KeyName<'_>, next: usize) -> usize {
        let of_number = name.number.and_then(|number| self.numbers.get(&number).copied());
        let place = of_number.or_else(|| self.texts.get(&*name.text).copied()).unwrap_or(next);
        if of_number.is_none() {
            self.texts.entry((*name.text).into()).or_insert(place);
        }
        if let Some(number) = name.number {
            self.numbers.entry(number).or_insert(place);
        }
        place
    }
}

impl<'t> KeyName<'t> {
    fn of(document: &'t Document, key: Id) -> Result<Self> {
        let target = target(document, key)?;
        let Kind::Scalar(style) = document.kind(target) else {
            return refused(document, key, "a key is not a scalar");
        };
        let json = scalar::of(document.text(target), style, document.tag(target));
        let is_number = matches!(json, Json::Bare(_) | Json::NotFinite(_));
        let number = if is_number { number(json.name()) } else { None };
        Ok(Self { text: json.into_name(), number })
    }
}

/// Returns a fast hash of a name. Other names with the same hash only take time.
fn hash(name: &str) -> u64 {
    XxHash64::oneshot(0, name.as_bytes())
}

/// Returns the mappings that the value of a merge key merges.
fn sources(document: &Document, value: Id) -> Result<Vec<Source>> {
    let found = target(document, value)?;
    let is_inline = found == value;
    match document.kind(found) {
        Kind::Mapping => Ok(vec![Source { mapping: found, written: value, is_inline }]),
        Kind::Sequence => {
            let mut sources = Vec::new();
            for item in document.children(found) {
                let mapping = target(document, item)?;
                if document.kind(mapping) != Kind::Mapping {
                    return not_merged(document, item, is_inline && mapping == item);
                }
                sources.push(Source { mapping, written: item, is_inline: is_inline && mapping == item });
            }
            Ok(sources)
        }
        _ => not_merged(document, value, is_inline),
    }
}

fn not_merged<T>(document: &Document, at: Id, is_inline: bool) -> Result<T> {
    if is_inline {
        refused(document, at, "a merge key has a value that is not a mapping")
    } else {
        refused(document, at, "a merge key refers to a node that is not a mapping")
    }
}

/// Returns the node that an alias stands for, or any other node itself.
pub(super) fn target(document: &Document, id: Id) -> Result<Id> {
    match document.target(id) {
        Some(target) => Ok(target),
        None => refused(document, id, &format!("the alias *{} has no anchor", document.text(id))),
    }
}

/// True if a node is the value of a merge key, or an item of that value.
pub(super) fn is_in_merge(document: &Document, id: Id) -> bool {
    let list = match document.place(id) {
        NodePlace::Value(key) => return document.is_merge(key),
        NodePlace::Item(_) => document.parent(id),
        NodePlace::Root | NodePlace::Key => None,
    };
    list.is_some_and(|list| matches!(document.place(list), NodePlace::Value(key) if document.is_merge(key)))
}

pub(super) fn refused<T>(document: &Document, id: Id, what: &str) -> Result<T> {
    Err(Error::damaged(format!("{what} at {}", document.mark(id))))
}
