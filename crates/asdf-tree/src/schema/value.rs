//! Nodes as the values that Python asdf reads, which rules compare.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::limits::{MAX_CHAIN, MAX_NAME};
use crate::yaml::document::{Document, Id, Kind};
use crate::yaml::event::Style;
use crate::yaml::scalar::{self, Type, type_of};

/// Maximum nesting of a value that is compared.
const MAX_WRITTEN: usize = 100;

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'d> {
    Null,
    Bool(bool),
    /// An integer, within 128 bits.
    Int(i128),
    Float(f64),
    Text(&'d str),
    /// A date, or a date with a time of day.
    Time(&'d str),
    Binary(&'d str),
    Sequence,
    Mapping,
}

impl<'d> Value<'d> {
    /// Returns the value of a node that is no alias.
    pub(super) fn of(document: &'d Document, id: Id) -> Self {
        let style = match document.kind(id) {
            Kind::Mapping => return Self::Mapping,
            Kind::Scalar(style) => style,
            Kind::Sequence | Kind::ScalarRun | Kind::Alias => return Self::Sequence,
        };
        let text = document.text(id);
        match type_of(text, style == Style::Plain, document.tag(id)) {
            Type::Null => Self::Null,
            Type::Bool => Self::Bool(scalar::boolean(&text.to_ascii_lowercase()) == Some(true)),
            Type::Int => {
                let beyond = if text.starts_with('-') { i128::MIN } else { i128::MAX };
                Self::Int(scalar::integer(text).unwrap_or(beyond))
            }
            Type::Float => Self::Float(scalar::float(text).unwrap_or(f64::NAN)),
            Type::Timestamp => Self::Time(text),
            Type::Binary => Self::Binary(text),
            Type::Merge | Type::Value | Type::Str | Type::Other => Self::Text(text),
        }
    }

    /// Returns a number, which may be rounded.
    pub(super) fn number(self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(value as f64),
            Self::Float(value) => Some(value),
            _ => None,
        }
    }

    /// Returns a number that is not negative.
    pub(super) fn count(self) -> Option<u64> {
        match self {
            Self::Int(value) => u64::try_from(value).ok(),
            _ => None,
        }
    }

    /// Returns the name of the type, with an article.
    pub(super) fn type_name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) => "an integer",
            Self::Float(_) => "a number",
            Self::Text(_) => "a string",
            Self::Time(_) => "a timestamp",
            Self::Binary(_) => "binary",
            Self::Sequence => "an array",
            Self::Mapping => "an object",
        }
    }
}

/// True if a number is less than another one.
pub(super) fn is_less(one: Value<'_>, other: Value<'_>) -> bool {
    compare(one, other) == Some(Ordering::Less)
}

/// True for two equal numbers.
pub(super) fn is_same_number(one: Value<'_>, other: Value<'_>) -> bool {
    compare(one, other) == Some(Ordering::Equal)
}

fn compare(one: Value<'_>, other: Value<'_>) -> Option<Ordering> {
    match (one, other) {
        (Value::Int(one), Value::Int(other)) => Some(one.cmp(&other)),
        _ => one.number()?.partial_cmp(&other.number()?),
    }
}

pub(super) fn is_sequence(document: &Document, id: Id) -> bool {
    document.kind(id) == Kind::Sequence
}

/// Returns the text of a node that is a text.
pub(super) fn text(document: &Document, id: Id) -> Option<&str> {
    match Value::of(document, document.target(id)?) {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

/// Returns the value of a key of a mapping, without those of merge keys. The last one counts.
pub(super) fn member(document: &Document, id: Id, key: &str) -> Option<Id> {
    if document.kind(id) != Kind::Mapping {
        return None;
    }
    document.members(id).filter(|(name, _)| text(document, *name) == Some(key)).last().map(|(_, value)| value)
}

/// The members of a mapping, with those of merge keys.
#[derive(Debug, Default)]
pub(super) struct Members<'d> {
    /// The values of the keys that are texts.
    pub(super) named: BTreeMap<&'d str, Id>,
    /// The values of all other keys, by what the keys are.
    pub(super) others: BTreeMap<String, Id>,
}

impl<'d> Members<'d> {
    /// Returns the members of a mapping; `None` if more than `most` keys are read.
    pub(super) fn of(document: &'d Document, id: Id, most: &mut usize) -> Option<Self> {
        let mut members = Self::default();
        members.add(document, id, most, 0)?;
        Some(members)
    }

    pub(super) fn len(&self) -> usize {
        self.named.len() + self.others.len()
    }

    /// Adds the members of a mapping, before which those that are there count.
    fn add(&mut self, document: &'d Document, id: Id, most: &mut usize, depth: usize) -> Option<()> {
        let mut own = Self::default();
        let mut merged = Vec::new();
        for (key, value) in document.members(id) {
            *most = most.checked_sub(1)?;
            let Some(target) = document.target(value) else { continue };
            if document.is_merge(key) {
                let is_list = document.kind(target) == Kind::Sequence;
                merged.extend((!is_list).then_some(target));
                let items = is_list.then(|| document.children(target)).into_iter().flatten();
                merged.extend(items.filter_map(|item| document.target(item)));
            } else if let Some(name) = text(document, key) {
                own.named.insert(name, target);
            } else if let Some(key) = document.target(key) {
                own.others.insert(shown(document, key, MAX_NAME), target);
            }
        }
        for (name, value) in own.named {
            self.named.entry(name).or_insert(value);
        }
        for (name, value) in own.others {
            self.others.entry(name).or_insert(value);
        }
        for source in merged {
            if depth < MAX_CHAIN && document.kind(source) == Kind::Mapping {
                self.add(document, source, most, depth + 1)?;
            }
        }
        Some(())
    }
}

/// Writes a node so that two are equal in Python exactly if they are written alike; `None` if that takes more than `most`
/// bytes.
pub(super) fn written(document: &Document, id: Id, most: usize) -> Option<String> {
    let mut writer = Writer { text: String::new(), most, depth: 0, keys: None };
    writer.node(document, id).then_some(writer.text)
}

/// Writes a node as [`written`] does, and of the mappings in it only these keys.
pub(super) fn written_keys(document: &Document, id: Id, keys: &[&str], most: usize) -> Option<String> {
    let mut writer = Writer { text: String::new(), most, depth: 0, keys: Some(keys) };
    writer.node(document, id).then_some(writer.text)
}

/// Returns the beginning of a node, as [`written`] writes it, for messages.
pub(super) fn shown(document: &Document, id: Id, most: usize) -> String {
    let mut writer = Writer { text: String::new(), most, depth: 0, keys: None };
    if !writer.node(document, id) {
        let end = (0..=most.min(writer.text.len())).rev().find(|at| writer.text.is_char_boundary(*at));
        writer.text.truncate(end.unwrap_or(0));
        writer.text.push('…');
    }
    writer.text
}

/// A node that is being written.
struct Writer<'k> {
    text: String,
    /// Maximum number of bytes. Each node has one at least, so that aliases end.
    most: usize,
    depth: usize,
    keys: Option<&'k [&'k str]>,
}

impl Writer<'_> {
    /// Writes a node. False if it is too long or nested too deep.
    fn node(&mut self, document: &Document, id: Id) -> bool {
        let Some(id) = document.target(id) else { return false };
        match Value::of(document, id) {
            Value::Null => self.text.push_str("null"),
            Value::Bool(value) => self.text.push_str(if value { "true" } else { "false" }),
            Value::Int(value) => self.text.push_str(&value.to_string()),
            Value::Float(value) if value.fract() == 0.0 && value.abs() < 1e15 => {
                self.text.push_str(&format!("{value:.0}"));
            }
            Value::Float(value) => self.text.push_str(&format!("{value:?}")),
            Value::Text(text) => self.text.push_str(&format!("\"{}\"", text.escape_debug())),
            Value::Time(text) => self.text.push_str(&scalar::key_name(text, Type::Timestamp)),
            Value::Binary(text) => self.text.push_str(&format!("!!binary \"{}\"", text.escape_debug())),
            Value::Sequence | Value::Mapping if self.depth == MAX_WRITTEN => return false,
            Value::Sequence => {
                self.text.push('[');
                self.depth += 1;
                let mut is_first = true;
                let is_whole = each_item(document, id, &mut |document, item| {
                    self.text.push_str(if std::mem::take(&mut is_first) { "" } else { ", " });
                    self.node(document, item)
                });
                self.depth -= 1;
                self.text.push(']');
                return is_whole && self.text.len() <= self.most;
            }
            Value::Mapping => return self.mapping(document, id),
        }
        self.text.len() <= self.most
    }

    fn mapping(&mut self, document: &Document, id: Id) -> bool {
        let Some(members) = Members::of(document, id, &mut self.most.clone()) else { return false };
        self.text.push('{');
        self.depth += 1;
        let named =
            members.named.iter().map(|(name, value)| (format!("\"{}\"", name.escape_debug()), *value));
        let mut is_first = true;
        for (name, value) in named.chain(members.others) {
            if self.keys.is_some_and(|keys| !keys.contains(&name.trim_matches('"'))) {
                continue;
            }
            self.text.push_str(if std::mem::take(&mut is_first) { "" } else { ", " });
            self.text.push_str(&name);
            self.text.push_str(": ");
            if !self.node(document, value) {
                return false;
            }
        }
        self.depth -= 1;
        self.text.push('}');
        self.text.len() <= self.most
    }
}

/// Passes the items of a sequence, also those of runs, to `take` with their documents, until it returns false. False
/// then, and if an item can't be read.
pub(super) fn each_item(document: &Document, id: Id, take: &mut dyn FnMut(&Document, Id) -> bool) -> bool {
    document.children(id).all(|child| {
        if document.kind(child) != Kind::ScalarRun {
            return document.target(child).is_none_or(|item| take(document, item));
        }
        (0..document.piece_count(child)).all(|piece| {
            let Ok(piece) = document.piece(child, piece) else { return false };
            piece.root().is_none_or(|root| piece.children(root).all(|item| take(&piece, item)))
        })
    })
}

/// Returns the texts in a sequence.
pub(super) fn texts(document: &Document, id: Id) -> Vec<String> {
    let mut texts = Vec::new();
    each_item(document, id, &mut |document, item| {
        texts.extend(text(document, item).map(str::to_owned));
        true
    });
    texts
}
