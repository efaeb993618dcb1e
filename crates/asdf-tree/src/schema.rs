//! JSON Schemas (draft 4) with the tags of YAML, as the Python packages for ASDF have them: a manifest names the schema
//! of each tag, and a node is valid if it fits the schemas of its tag, and those that the schema of a node above it has
//! for it.
//!
//! A schema is the [`Document`] of its file: its nodes are the rules, and nothing is copied. [`files`] finds the files,
//! [`rules`] has the keywords, [`array`](mod@array) those for ndarrays, [`value`] the values that they compare, and
//! [`uri`] resolves the names by which schemas refer to each other. The rules are those of Python asdf's validator, with its two
//! peculiarities: the keywords beside a `$ref` count, and a mapping of the tree that has a key `$ref` is not checked.
//!
//! A schema comes from anywhere, too: steps, nesting and the nodes that are remembered have a maximum, and patterns are
//! matched in linear time.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Mutex;

use regex::{Regex, RegexBuilder};
use seekable::content::Borrowed;
use seekable::error::Result;
use seekable::sync::locked;

use crate::limits::MAX_NOTES;
use crate::yaml::document::{Document, Id, NodePlace};
use crate::yaml::scalar::TAG_PREFIX;

mod array;
mod files;
mod rules;
mod uri;
mod value;

use value::Value;

/// Bytes of a compiled pattern, and the number of patterns that are kept.
const MAX_PATTERN: usize = 1 << 20;
const MAX_PATTERNS: usize = 256;

/// The schemas of some directories.
#[derive(Debug, Default)]
pub struct Schemas {
    files: Vec<SchemaFile>,
    /// The file of each id.
    by_id: HashMap<String, usize>,
    /// The schemas of each tag, and the file of the manifest that names them.
    by_tag: HashMap<String, (Vec<String>, usize)>,
    /// The patterns in use; `None` for one that can't be matched in linear time.
    patterns: Mutex<HashMap<String, Option<Regex>>>,
}

#[derive(Debug)]
struct SchemaFile {
    path: PathBuf,
    id: String,
    document: Document,
}

/// A node of a schema: a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Rule {
    file: usize,
    id: Id,
}

/// A node that a schema does not allow, or that can't be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The offset of the node in the text; of an item of a long sequence, that of an item before it.
    pub at: u64,
    /// The path of the node, the rule, and the schema.
    pub what: String,
    /// A number that is equal for the same violation at the same path of another text, wherever it stands there.
    pub identity: u64,
    /// True if the node can't be checked: a schema is missing, or a limit is exceeded.
    pub unchecked: bool,
    /// The end of the node, if it fits none of some alternatives.
    end: Option<u64>,
}

/// The results of a check.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// The violations in the order of the text.
    pub violations: Vec<Violation>,
    /// The tags of nodes that no manifest names.
    pub unknown_tags: BTreeSet<String>,
}

/// Removes violations that another one explains: a node that fits no alternative, because one within fits no schema.
pub fn remove_explained(violations: &mut Vec<Violation>) {
    let places: Vec<(u64, bool)> = violations.iter().map(|one| (one.at, one.end.is_none())).collect();
    violations.retain(|one| {
        let Violation { at, end: Some(end), .. } = one else { return true };
        let first = places.partition_point(|(place, _)| place < at);
        let within = places.partition_point(|(place, _)| place <= at);
        let has_plain = places.get(first).is_some_and(|(_, is_plain)| *is_plain);
        !has_plain && places.get(within).is_none_or(|(place, _)| place >= end)
    });
}

impl Schemas {
    /// Checks all nodes of a document that have tags.
    pub fn check(&self, document: &Document) -> Checked {
        let mut checker = rules::Checker::new(self, document);
        let mut unknown_tags = BTreeSet::new();
        let mut skipped = None;
        for id in document.all() {
            if skipped.is_some_and(|end| id < end) {
                continue;
            }
            if document.place(id) == NodePlace::Key || checker.is_reference(id) {
                skipped = Some(document.end(id));
                continue;
            }
            let Some(tag) = document.tag(id) else { continue };
            if self.by_tag.contains_key(tag) {
                checker.check_tag(id);
            } else if !tag.starts_with(TAG_PREFIX) && unknown_tags.len() < MAX_NOTES {
                unknown_tags.insert(tag.to_owned());
            }
            if checker.has_ended() {
                break;
            }
        }
        Checked { violations: checker.violations(), unknown_tags }
    }

    fn document(&self, rule: Rule) -> &Document {
        &self.files[rule.file].document
    }

    /// Returns a node of a schema, or the one that it is an alias of.
    fn rule(&self, file: usize, id: Id) -> Option<Rule> {
        self.files[file].document.target(id).map(|id| Rule { file, id })
    }

    fn value(&self, rule: Rule) -> Value<'_> {
        Value::of(self.document(rule), rule.id)
    }

    /// Returns the value of a key of a schema.
    fn get(&self, rule: Rule, key: &str) -> Option<Rule> {
        let value = value::member(self.document(rule), rule.id, key)?;
        self.rule(rule.file, value)
    }

    /// Returns the schema to which a reference in `from` leads.
    fn resolve(&self, from: Rule, reference: &str) -> Option<Rule> {
        let (address, fragment) = uri::split(reference);
        let file = if address.is_empty() {
            from.file
        } else {
            *self.by_id.get(&uri::join(&self.base(from), address))?
        };
        let mut rule = self.rule(file, self.files[file].document.root()?)?;
        for step in fragment.trim_start_matches('/').split('/').filter(|_| !fragment.is_empty()) {
            let name = step.replace("~1", "/").replace("~0", "~");
            if name.is_empty() {
                continue;
            }
            rule = match self.get(rule, &name) {
                Some(rule) => rule,
                None => self.items(rule).nth(name.parse().ok()?)?,
            };
        }
        Some(rule)
    }

    /// Returns the address from which a reference in a schema is relative: the id of the file, and those of schemas
    /// within.
    fn base(&self, rule: Rule) -> String {
        let document = self.document(rule);
        let above = std::iter::successors(Some(rule.id), |id| document.parent(*id));
        let ids: Vec<&str> = above
            .filter_map(|id| value::member(document, id, "id").and_then(|id| value::text(document, id)))
            .collect();
        ids.iter().rev().fold(String::new(), |base, id| uri::join(&base, uri::split(id).0))
    }

    /// Iterates over the items of a sequence in a schema. A sequence of more than 16 numbers or words has none.
    fn items(&self, rule: Rule) -> impl Iterator<Item = Rule> + '_ {
        let is_sequence = value::is_sequence(self.document(rule), rule.id);
        let items = is_sequence.then(|| self.document(rule).children(rule.id)).into_iter().flatten();
        items.filter_map(move |id| self.rule(rule.file, id))
    }

    /// Returns the name of a schema for messages: the nearest title, and the id.
    fn name(&self, rule: Rule) -> String {
        let document = self.document(rule);
        let mut above = std::iter::successors(Some(rule.id), |id| document.parent(*id));
        let title = above
            .find_map(|id| value::text(document, value::member(document, id, "title")?))
            .map_or_else(String::new, |title| format!("\"{}\", ", title.trim().escape_debug()));
        format!("{title}{}", self.files[rule.file].id)
    }

    /// True if a pattern matches a part of a text, as `re.search` does; `None` if the pattern can't be matched.
    fn matches(&self, pattern: &str, text: &str) -> Option<bool> {
        let mut patterns = locked(&self.patterns);
        if patterns.len() > MAX_PATTERNS {
            patterns.clear();
        }
        if !patterns.contains_key(pattern) {
            let built =
                RegexBuilder::new(pattern).size_limit(MAX_PATTERN).dfa_size_limit(MAX_PATTERN).build();
            patterns.insert(pattern.to_owned(), built.ok());
        }
        patterns.get(pattern)?.as_ref().map(|regex| regex.is_match(text))
    }

    /// True if a tag matches one with wildcards: `*` stands for all but a slash, and `**` for everything.
    fn tag_matches(&self, wanted: &str, tag: &str) -> bool {
        if !wanted.contains('*') {
            return wanted == tag;
        }
        let pattern = regex::escape(wanted).replace(r"\*\*", ".*").replace(r"\*", "[^/]*");
        self.matches(&format!("^(?:{pattern})$"), tag) == Some(true)
    }

    /// Reads the schemas and manifests below directories.
    ///
    /// # Errors
    ///
    /// A directory or a file in it can't be read, is not YAML, or there are no schemas.
    pub fn read(directories: &[PathBuf]) -> Result<Self> {
        files::read(directories)
    }

    /// Reads schemas and manifests from texts.
    ///
    /// # Errors
    ///
    /// A text is not YAML.
    pub fn of_texts(texts: &[&[u8]]) -> Result<Self> {
        let mut schemas = Self::default();
        for (n, text) in texts.iter().enumerate() {
            schemas.add(PathBuf::from(format!("text {n}")), &Borrowed(text))?;
        }
        schemas.read_manifests();
        Ok(schemas)
    }
}

#[cfg(test)]
mod tests;
