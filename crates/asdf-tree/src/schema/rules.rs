//! The keywords of schemas, and the search for nodes that do not fit them.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use super::value::{self, Members, Value};
use super::{Rule, Schemas, Violation, array};
use crate::limits::{MAX_ITEMS, MAX_VALUE};
use crate::yaml::document::{Document, Id, Kind, NodePlace};
use crate::yaml::survey::{Paths, Step};

/// Maximum nesting of rules at a node and those below it. Python's is lower.
const MAX_NESTED: usize = 256;
/// Maximum number of steps: a constant, and the number added for each byte of the tree. Trees of Roman, DKIST and weldx take
/// one step a byte, and arrays in the tree two.
const STEPS: (usize, usize) = (1 << 18, 8);
/// Steps after which a result is remembered, also of a node that is neither a collection nor tagged, as most nodes are.
const MAX_FORGOTTEN: usize = 16;
/// Results that are remembered.
const MAX_KNOWN: usize = 1 << 20;
/// Bytes of a schema in a message.
const MAX_SHOWN: usize = 100;

/// A node of a tree that is no alias.
#[derive(Clone, Copy)]
pub(super) struct Node<'n> {
    pub(super) document: &'n Document,
    pub(super) id: Id,
    /// The place of the items of a run, if they are the document.
    piece: Option<&'n Piece>,
}

/// The place of some items of a run.
struct Piece {
    /// The path of the sequence that the run is in.
    above: Vec<Step>,
    /// The position of the first item in that sequence.
    first: u64,
    /// The offset of the run in the text.
    at: u64,
    /// A number that no other piece has; 0 stands for the tree.
    serial: u32,
}

impl<'n> Node<'n> {
    fn value(self) -> Value<'n> {
        Value::of(self.document, self.id)
    }

    /// Returns another node of the same document.
    fn at(self, id: Id) -> Self {
        Self { id, ..self }
    }

    fn offset(self) -> u64 {
        self.piece.map_or_else(|| self.document.offset(self.id), |piece| piece.at)
    }

    /// Returns the path of the node in the tree.
    fn steps(self) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut id = self.id;
        while let Some(parent) = self.document.parent(id) {
            let first =
                self.piece.filter(|_| self.document.parent(parent).is_none()).map_or(0, |piece| piece.first);
            steps.push(match self.document.place(id) {
                NodePlace::Item(n) => Step::Item(u64::from(n) + first),
                NodePlace::Value(key) => {
                    let key = self.document.target(key).unwrap_or(key);
                    Step::Key(self.document.text(key).into())
                }
                NodePlace::Key | NodePlace::Root => Step::Key("(key)".into()),
            });
            id = parent;
        }
        let above = self.piece.iter().flat_map(|piece| piece.above.iter().rev().cloned());
        steps.extend(above);
        steps.reverse();
        steps
    }
}

/// A known result.
#[derive(Clone, Copy, PartialEq)]
enum Known {
    /// The node fits the rule, or is being compared with it: a rule that leads back to itself holds.
    Fits,
    Fails {
        is_reported: bool,
    },
}

/// The members of a schema, with the names of the keywords.
type Keywords<'c> = Rc<[(&'c str, Rule)]>;

/// The check of one document.
pub(super) struct Checker<'c> {
    schemas: &'c Schemas,
    document: &'c Document,
    /// Nodes with rules, and whether they fit them.
    known: HashMap<(u32, Id, Rule), Known>,
    keywords: HashMap<Rule, Keywords<'c>>,
    references: HashMap<Rule, Option<Rule>>,
    enums: HashMap<Rule, Rc<HashSet<String>>>,
    /// The steps that may still be made.
    steps: usize,
    /// The nesting of rules.
    depth: usize,
    /// The number of alternatives around the present rule: a node may violate one of them.
    alternatives: usize,
    pieces: u32,
    violations: Vec<Violation>,
}

impl<'c> Checker<'c> {
    pub(super) fn new(schemas: &'c Schemas, document: &'c Document) -> Self {
        Self {
            schemas,
            document,
            known: HashMap::new(),
            keywords: HashMap::new(),
            references: HashMap::new(),
            enums: HashMap::new(),
            steps: STEPS.0 + STEPS.1 * document.text.len(),
            depth: 0,
            alternatives: 0,
            pieces: 0,
            violations: Vec::new(),
        }
    }

    /// Returns the violations in the order of the text; of one node, those without alternatives are first.
    pub(super) fn violations(mut self) -> Vec<Violation> {
        self.violations.sort_by(|one, other| {
            (one.at, one.end.is_some(), &one.what).cmp(&(other.at, other.end.is_some(), &other.what))
        });
        self.violations.dedup();
        self.violations
    }

    /// True after the last step. A violation then says so.
    pub(super) fn has_ended(&self) -> bool {
        self.steps == 0
    }

    /// Checks a node by the schemas of its tag.
    pub(super) fn check_tag(&mut self, id: Id) {
        self.fits_tag(Node { document: self.document, id, piece: None });
    }

    /// True for a mapping that stands for a node elsewhere, by the key `$ref`.
    pub(super) fn is_reference(&self, id: Id) -> bool {
        value::member(self.document, id, "$ref").is_some()
    }

    /// Takes some steps. False if there are not so many.
    fn step(&mut self, steps: usize) -> bool {
        match self.steps.checked_sub(steps) {
            Some(0) | None => self.end("checking the tree takes too long"),
            Some(rest) => self.steps = rest,
        }
        self.steps > 0
    }

    fn end(&mut self, what: &str) {
        if self.steps > 0 {
            self.steps = 0;
            self.violations.truncate(MAX_ITEMS - 1);
            let Some(id) = self.document.root() else { return };
            let root = Node { document: self.document, id, piece: None };
            self.add(root, format!("{what}: not all nodes are checked by the schemas"), true, None);
        }
    }

    fn add(&mut self, node: Node<'_>, what: String, unchecked: bool, end: Option<u64>) {
        if self.violations.len() == MAX_ITEMS {
            self.end("there are too many violations");
            return;
        }
        let mut paths = Paths::default();
        let path = node.steps().into_iter().fold(None, |path, step| paths.add(path, step));
        let mut hasher = DefaultHasher::new();
        (paths.identity(path, false), &what).hash(&mut hasher);
        let what = format!("{}: {what}", paths.show(path));
        self.violations.push(Violation {
            at: node.offset(),
            what,
            identity: hasher.finish(),
            unchecked,
            end,
        });
    }

    /// Reports that a node violates a rule, unless there may be an alternative. Returns false.
    fn fail(&mut self, node: Node<'_>, rule: Rule, what: impl FnOnce() -> String) -> bool {
        if self.alternatives == 0 {
            let what = format!("{} (schema {})", what(), self.schemas.name(rule));
            let is_alternative = what.starts_with("anyOf ") || what.starts_with("oneOf ");
            let end = (is_alternative && node.piece.is_none()).then(|| node.document.end_offset(node.id));
            self.add(node, what, false, end);
        }
        false
    }

    /// Reports that a node can't be compared with a rule. Returns true, as if it fitted.
    fn unchecked(&mut self, node: Node<'_>, rule: Rule, what: &str) -> bool {
        let file = self.schemas.files[rule.file].path.display();
        self.add(node, format!("it can't be checked: {what}, in {file}"), true, None);
        true
    }

    /// True if a node fits an alternative, whose violations are not reported.
    fn fits_alternative(&mut self, node: Node<'_>, rule: Rule) -> bool {
        self.alternatives += 1;
        let fits = self.fits(node, rule);
        self.alternatives -= 1;
        fits
    }

    /// True if a node fits the schemas of its tag.
    fn fits_tag(&mut self, node: Node<'_>) -> bool {
        let schemas = self.schemas;
        let Some((addresses, manifest)) = node.document.tag(node.id).and_then(|tag| schemas.by_tag.get(tag))
        else {
            return true;
        };
        let Some(id) = schemas.files[*manifest].document.root() else { return true };
        let root = Rule { file: *manifest, id };
        addresses.iter().fold(true, |fits, address| {
            let fits_one = match schemas.resolve(root, address) {
                Some(rule) => self.fits(node, rule),
                None => self.unchecked(node, root, &format!("there is no schema {}", address.escape_debug())),
            };
            fits && fits_one
        })
    }

    /// True if a node fits a rule, and the schemas of its tag.
    fn fits(&mut self, node: Node<'_>, rule: Rule) -> bool {
        let is_reference = value::member(node.document, node.id, "$ref").is_some();
        if !self.step(1) || is_reference {
            return true;
        }
        if self.depth == MAX_NESTED {
            return self.unchecked(node, rule, "schemas lead to each other too many times");
        }
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        let key = (node.piece.map_or(0, |piece| piece.serial), node.id, rule);
        match self.known.get(&key) {
            Some(Known::Fits) => return true,
            Some(Known::Fails { is_reported }) if *is_reported || self.alternatives > 0 => return false,
            _ => {}
        }
        self.known.insert(key, Known::Fits);
        let before = self.steps;
        self.depth += 1;
        let fits_tag = self.fits_tag(node);
        let fits = self.fits_keywords(node, rule) && fits_tag;
        self.depth -= 1;
        let is_leaf =
            matches!(node.document.kind(node.id), Kind::Scalar(_)) && node.document.tag(node.id).is_none();
        if !fits {
            self.known.insert(key, Known::Fails { is_reported: self.alternatives == 0 });
        } else if (is_leaf || node.piece.is_some()) && before - self.steps < MAX_FORGOTTEN {
            self.known.remove(&key);
        }
        fits
    }

    /// Returns the members of a mapping, or none if that takes too many steps.
    fn members<'d>(&mut self, document: &'d Document, id: Id) -> Members<'d> {
        Members::of(document, id, &mut self.steps).unwrap_or_else(|| {
            self.steps = 1;
            self.step(1);
            Members::default()
        })
    }

    fn keywords(&mut self, rule: Rule) -> Keywords<'c> {
        if let Some(known) = self.keywords.get(&rule) {
            return known.clone();
        }
        let schemas = self.schemas;
        let members = self.members(schemas.document(rule), rule.id);
        let keywords: Keywords<'c> =
            members.named.into_iter().map(|(name, id)| (name, Rule { id, ..rule })).collect();
        self.keywords.insert(rule, keywords.clone());
        keywords
    }

    /// True if a node fits all keywords of a schema.
    fn fits_keywords(&mut self, node: Node<'_>, rule: Rule) -> bool {
        if self.schemas.value(rule) != Value::Mapping {
            return self.unchecked(node, rule, "a schema is not a mapping");
        }
        let value = node.value();
        let members = (value == Value::Mapping).then(|| self.members(node.document, node.id));
        let mut fits = true;
        for (keyword, wanted) in self.keywords(rule).iter() {
            if !self.step(1) {
                return true;
            }
            fits &= match (value, &members) {
                (Value::Mapping, Some(members)) => self.fits_mapping(node, members, rule, keyword, *wanted),
                (Value::Sequence, _) => self.fits_sequence(node, rule, keyword, *wanted),
                _ => self.fits_scalar(node, value, rule, keyword, *wanted),
            } && self.fits_any_value(node, value, rule, keyword, *wanted);
            if !fits && self.alternatives > 0 {
                return false;
            }
        }
        fits
    }

    /// True if a node fits a keyword that is for nodes of all types, or for ndarrays.
    fn fits_any_value(
        &mut self,
        node: Node<'_>,
        value: Value<'_>,
        rule: Rule,
        keyword: &str,
        wanted: Rule,
    ) -> bool {
        let schemas = self.schemas;
        let document = schemas.document(wanted);
        let fits = match keyword {
            "$ref" => return self.fits_reference(node, rule, wanted),
            "tag" => {
                let tag = tag_of(node, value);
                let pattern = value::text(document, wanted.id).unwrap_or_default();
                tag.is_some_and(|tag| self.schemas.tag_matches(pattern, tag))
            }
            "type" => return self.fits_type(node, value, rule, wanted),
            "enum" => self.is_in(node, wanted),
            "allOf" => {
                let mut fits = true;
                for one in schemas.items(wanted) {
                    fits &= self.fits(node, one);
                }
                return fits;
            }
            "anyOf" => schemas.items(wanted).any(|one| self.fits_alternative(node, one)),
            "oneOf" => schemas.items(wanted).filter(|one| self.fits_alternative(node, *one)).count() == 1,
            "not" => !self.fits_alternative(node, wanted),
            "ndim" | "max_ndim" | "datatype" if array::is_array(node.document, node.id) => {
                let is_exact = || {
                    let exact = self.schemas.get(rule, "exact_datatype");
                    exact.is_some_and(|exact| self.schemas.value(exact) == Value::Bool(true))
                };
                match keyword {
                    "ndim" => array::dimensions(node.document, node.id) == self.schemas.value(wanted).count(),
                    "max_ndim" => array::dimensions(node.document, node.id).is_some_and(|ndim| {
                        self.schemas.value(wanted).count().is_none_or(|most| ndim <= most)
                    }),
                    _ => array::has_datatype(node.document, node.id, document, wanted.id, is_exact()),
                }
            }
            _ => true,
        };
        fits || self.fail_plainly(node, rule, keyword, wanted)
    }

    /// Reports a violation of a keyword by its value.
    fn fail_plainly(&mut self, node: Node<'_>, rule: Rule, keyword: &str, wanted: Rule) -> bool {
        if self.alternatives > 0 {
            return false;
        }
        let shown = value::shown(self.schemas.document(wanted), wanted.id, MAX_SHOWN);
        let found = match keyword {
            "tag" => match node.document.tag(node.id) {
                Some(tag) => format!(", and this is {}", tag.escape_debug()),
                None => format!(", and this is {} without a tag", node.value().type_name()),
            },
            "type" => format!(", and this is {}", node.value().type_name()),
            "ndim" | "max_ndim" => match array::dimensions(node.document, node.id) {
                Some(count) => format!(", and this has {count}"),
                None => String::new(),
            },
            _ => String::new(),
        };
        let verb = if keyword == "not" { "forbids" } else { "wants" };
        self.fail(node, rule, || format!("{keyword} {verb} {shown}{found}"))
    }

    fn fits_reference(&mut self, node: Node<'_>, rule: Rule, wanted: Rule) -> bool {
        let schemas = self.schemas;
        let reference = value::text(schemas.document(wanted), wanted.id).unwrap_or_default();
        let target = *self.references.entry(wanted).or_insert_with(|| schemas.resolve(rule, reference));
        match target {
            Some(target) => self.fits(node, target),
            None => {
                let what = format!("$ref: {} leads nowhere", reference.escape_debug());
                self.unchecked(node, wanted, &what)
            }
        }
    }

    fn fits_type(&mut self, node: Node<'_>, value: Value<'_>, rule: Rule, wanted: Rule) -> bool {
        let schemas = self.schemas;
        let document = schemas.document(wanted);
        let names = match value::text(document, wanted.id) {
            Some(name) => vec![name.to_owned()],
            None => value::texts(document, wanted.id),
        };
        for name in &names {
            let is_of_type = match name.as_str() {
                "null" => value == Value::Null,
                "boolean" => matches!(value, Value::Bool(_)),
                "integer" => matches!(value, Value::Int(_)),
                "number" => value.number().is_some(),
                // A date with a time of day is a string if its format is that.
                "string" => {
                    let is_time = matches!(value, Value::Time(text) if text.contains(':'));
                    let format = schemas.get(rule, "format").filter(|_| is_time);
                    let format = format.and_then(|format| value::text(schemas.document(format), format.id));
                    matches!(value, Value::Text(_)) || format == Some("date-time")
                }
                "array" => value == Value::Sequence,
                "object" => value == Value::Mapping,
                name => {
                    let what = format!("there is no type {}", name.escape_debug());
                    return self.unchecked(node, wanted, &what);
                }
            };
            if is_of_type {
                return true;
            }
        }
        self.fail_plainly(node, rule, "type", wanted)
    }

    /// True if a node equals one of the items of a sequence in a schema.
    fn is_in(&mut self, node: Node<'_>, wanted: Rule) -> bool {
        let schemas = self.schemas;
        let known = self.enums.entry(wanted).or_insert_with(|| {
            let mut values = HashSet::new();
            value::each_item(schemas.document(wanted), wanted.id, &mut |document, item| {
                values.extend(value::written(document, item, MAX_VALUE));
                true
            });
            Rc::new(values)
        });
        let known = known.clone();
        let text = value::written(node.document, node.id, MAX_VALUE);
        self.step(1 + text.as_ref().map_or(MAX_VALUE, String::len) / 16);
        text.is_some_and(|text| known.contains(&text)) || self.steps == 0
    }

    /// True if a scalar fits a keyword for texts or numbers.
    fn fits_scalar(
        &mut self,
        node: Node<'_>,
        value: Value<'_>,
        rule: Rule,
        keyword: &str,
        wanted: Rule,
    ) -> bool {
        let schemas = self.schemas;
        let limit = schemas.value(wanted);
        let fits = match (keyword, value) {
            ("minLength" | "maxLength", Value::Text(text)) => {
                let len = text.chars().count() as u64;
                limit
                    .count()
                    .is_none_or(|limit| if keyword == "minLength" { len >= limit } else { len <= limit })
            }
            ("pattern", Value::Text(text)) => {
                let pattern = value::text(schemas.document(wanted), wanted.id).unwrap_or_default();
                match schemas.matches(pattern, text) {
                    Some(matches) => self.step(1 + text.len() / 16) && matches || self.steps == 0,
                    None => {
                        return self.unchecked(
                            node,
                            wanted,
                            &format!("the pattern {pattern:?} is not supported"),
                        );
                    }
                }
            }
            ("minimum" | "maximum", Value::Int(_) | Value::Float(_)) => {
                let is_minimum = keyword == "minimum";
                let exclusive = if is_minimum { "exclusiveMinimum" } else { "exclusiveMaximum" };
                let is_exclusive =
                    schemas.get(rule, exclusive).is_some_and(|rule| schemas.value(rule) == Value::Bool(true));
                let (low, high) = if is_minimum { (limit, value) } else { (value, limit) };
                !(value::is_less(high, low) || is_exclusive && value::is_same_number(low, high))
            }
            ("multipleOf", Value::Int(_) | Value::Float(_)) => match (value, limit) {
                (Value::Int(number), Value::Int(factor)) => {
                    number.checked_rem(factor).is_none_or(|rest| rest == 0)
                }
                _ => match (value.number(), limit.number()) {
                    (Some(number), Some(factor)) if factor != 0.0 => (number / factor).fract() == 0.0,
                    _ => true,
                },
            },
            _ => true,
        };
        fits || self.fail_plainly(node, rule, keyword, wanted)
    }

    /// True if a sequence fits a keyword for sequences.
    fn fits_sequence(&mut self, node: Node<'_>, rule: Rule, keyword: &str, wanted: Rule) -> bool {
        let schemas = self.schemas;
        let limit = schemas.value(wanted);
        let fits = match keyword {
            "minItems" => limit.count().is_none_or(|limit| node.document.count(node.id) >= limit),
            "maxItems" => limit.count().is_none_or(|limit| node.document.count(node.id) <= limit),
            "items" if limit == Value::Mapping => {
                return self.each_item(node, &mut |checker, item, _| checker.fits(item, wanted));
            }
            "items" => {
                let rules: Vec<Rule> = schemas.items(wanted).collect();
                return self.each_item(node, &mut |checker, item, n| {
                    rules.get(n).is_none_or(|rule| checker.fits(item, *rule))
                });
            }
            "additionalItems" => {
                let items =
                    schemas.get(rule, "items").filter(|items| schemas.value(*items) == Value::Sequence);
                let Some(items) = items else { return true };
                let count = schemas.items(items).count();
                if limit == Value::Mapping {
                    return self
                        .each_item(node, &mut |checker, item, n| n < count || checker.fits(item, wanted));
                }
                limit != Value::Bool(false) || node.document.count(node.id) <= count as u64
            }
            "uniqueItems" if limit == Value::Bool(true) => {
                let mut known = HashSet::new();
                self.each_item(node, &mut |checker, item, _| {
                    let Some(text) = value::written(item.document, item.id, MAX_VALUE) else {
                        return checker.unchecked(item, wanted, "an item is too long for uniqueItems");
                    };
                    !checker.step(1 + text.len() / 16) || known.insert(text)
                })
            }
            _ => true,
        };
        fits || self.fail_plainly(node, rule, keyword, wanted)
    }

    /// Passes the items of a sequence to `take` with their positions. True if it returns true for all.
    fn each_item(
        &mut self,
        node: Node<'_>,
        take: &mut dyn FnMut(&mut Self, Node<'_>, usize) -> bool,
    ) -> bool {
        let document = node.document;
        let mut fits = true;
        let mut position = 0;
        for child in document.children(node.id) {
            if document.kind(child) != Kind::ScalarRun {
                if let Some(item) = document.target(child) {
                    fits &= take(self, node.at(item), position);
                }
                position += 1;
                continue;
            }
            let above = node.steps();
            for number in 0..document.piece_count(child) {
                if self.steps == 0 || !fits && self.alternatives > 0 {
                    return fits;
                }
                let Ok(items) = document.piece(child, number) else { continue };
                let Some(root) = items.root() else { continue };
                self.pieces += 1;
                let at = node.at(child).offset();
                let piece = Piece { above: above.clone(), first: position as u64, at, serial: self.pieces };
                for item in items.children(root) {
                    let item = Node { document: &items, id: item, piece: Some(&piece) };
                    let count = items.items_in(item.id) as usize;
                    fits &= take(self, item, position);
                    position += count;
                }
            }
        }
        fits
    }

    /// True if a mapping fits a keyword for mappings.
    fn fits_mapping(
        &mut self,
        node: Node<'_>,
        members: &Members<'_>,
        rule: Rule,
        keyword: &str,
        wanted: Rule,
    ) -> bool {
        let schemas = self.schemas;
        let limit = schemas.value(wanted);
        let count = members.len() as u64;
        let fits = match keyword {
            "minProperties" => limit.count().is_none_or(|limit| count >= limit),
            "maxProperties" => limit.count().is_none_or(|limit| count <= limit),
            "required" => {
                let names = value::texts(schemas.document(wanted), wanted.id);
                let missing: Vec<_> =
                    names.into_iter().filter(|name| !members.named.contains_key(name.as_str())).collect();
                return missing.into_iter().fold(true, |_, name| {
                    self.fail(node, rule, || format!("required wants the key \"{}\"", name.escape_debug()))
                });
            }
            "properties" => {
                let mut fits = true;
                let properties = self.keywords(wanted);
                self.step(properties.len() / 4);
                for (name, rule) in properties.iter() {
                    let value = members.named.get(name);
                    fits &= value.is_none_or(|value| self.fits(node.at(*value), *rule));
                }
                return fits;
            }
            "patternProperties" => {
                let mut fits = true;
                for (pattern, rule) in self.keywords(wanted).iter() {
                    for (name, value) in &members.named {
                        if self.step(1 + name.len() / 16) && self.matches(node, wanted, pattern, name) {
                            fits &= self.fits(node.at(*value), *rule);
                        }
                    }
                }
                return fits;
            }
            "additionalProperties" => return self.fits_additional(node, members, rule, wanted),
            "dependencies" => {
                let mut fits = true;
                for (name, needed) in self.keywords(wanted).iter() {
                    if !members.named.contains_key(name) {
                        continue;
                    }
                    if schemas.value(*needed) == Value::Mapping {
                        fits &= self.fits(node, *needed);
                        continue;
                    }
                    for other in value::texts(schemas.document(*needed), needed.id) {
                        if !members.named.contains_key(other.as_str()) {
                            let what = || {
                                let other = other.escape_debug();
                                format!("dependencies wants the key \"{other}\" beside \"{name}\"")
                            };
                            fits = self.fail(node, rule, what);
                        }
                    }
                }
                return fits;
            }
            _ => true,
        };
        fits || self.fail_plainly(node, rule, keyword, wanted)
    }

    /// True if the members that no other keyword names fit `additionalProperties`.
    fn fits_additional(&mut self, node: Node<'_>, members: &Members<'_>, rule: Rule, wanted: Rule) -> bool {
        let limit = self.schemas.value(wanted);
        if limit == Value::Bool(true) {
            return true;
        }
        let mut keywords = |name| self.schemas.get(rule, name).map(|rule| self.keywords(rule));
        let known = keywords("properties");
        let known: HashSet<&str> =
            known.iter().flat_map(|known| known.iter()).map(|(name, _)| *name).collect();
        let patterns = keywords("patternProperties");
        let mut fits = true;
        let named = members.named.iter().map(|(name, value)| (*name, *value));
        let others = members.others.iter().map(|(name, value)| (name.as_str(), *value));
        for (name, value) in named.filter(|(name, _)| !known.contains(name)).chain(others) {
            let is_text = members.named.contains_key(name);
            let is_known = is_text
                && patterns.iter().flat_map(|patterns| patterns.iter()).any(|(pattern, rule)| {
                    self.step(1 + name.len() / 16) && self.matches(node, *rule, pattern, name)
                });
            if is_known {
                continue;
            }
            fits &= if limit == Value::Mapping {
                self.fits(node.at(value), wanted)
            } else {
                let what = || format!("additionalProperties allows no key \"{}\"", name.escape_debug());
                self.fail(node.at(value), rule, what)
            };
        }
        fits
    }

    fn matches(&mut self, node: Node<'_>, rule: Rule, pattern: &str, name: &str) -> bool {
        let matches = self.schemas.matches(pattern, name);
        if matches.is_none() {
            self.unchecked(node, rule, &format!("the pattern {pattern:?} is not supported"));
        }
        matches == Some(true)
    }
}

/// Returns the tag of a node: the one that is written, or that of its type. Null and timestamps have none.
fn tag_of<'n>(node: Node<'n>, value: Value<'_>) -> Option<&'n str> {
    if let Some(tag) = node.document.tag(node.id) {
        return Some(tag);
    }
    match value {
        Value::Bool(_) => Some("tag:yaml.org,2002:bool"),
        Value::Int(_) => Some("tag:yaml.org,2002:int"),
        Value::Float(_) => Some("tag:yaml.org,2002:float"),
        Value::Text(_) | Value::Binary(_) => Some("tag:yaml.org,2002:str"),
        Value::Sequence => Some("tag:yaml.org,2002:seq"),
        Value::Mapping => Some("tag:yaml.org,2002:map"),
        Value::Null | Value::Time(_) => None,
    }
}
