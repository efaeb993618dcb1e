//! The arrays in a column, and what its nodes say of them.

use std::collections::HashSet;

use super::super::ndarray::{self, INLINE_KEY, Ndarray};
use super::super::units;
use crate::content::parquet::Facts;
use crate::yaml::survey::{Node, Value};

/// So many nodes of a column are looked at.
pub(super) const MOST_LOOKED_AT: usize = 1 << 12;
/// So deep below a column its arrays are looked for.
const DEEPEST: usize = 8;

/// The longest text that is said of a column.
const LONGEST_FACT: usize = 1 << 12;

/// The starts of the tags of columns.
const COLUMNS: [&str; 2] = ["tag:stsci.edu:asdf/core/column-1.", "tag:stsci.edu:asdf/table/column-1."];
/// The starts of the tags of times and coordinates.
const TIME: &str = "tag:stsci.edu:asdf/time/time-1.";
const SKY: &str = "tag:astropy.org:astropy/coordinates/skycoord-1.";

/// The array of a column, and its metadata.
#[derive(Clone, Debug)]
pub(in super::super) struct Source {
    /// Its name; empty for an array of records, whose fields are columns.
    pub name: String,
    pub array: Ndarray,
    /// Which elements are missing.
    pub mask: Option<Ndarray>,
    /// Its unit, what it is, the frame of its coordinates, the scale of its times.
    pub facts: Facts,
}

/// True if a tag is that of a column.
pub(super) fn is_column(tag: &str) -> bool {
    COLUMNS.iter().any(|known| tag.starts_with(known)) || tag == "tag:stsci.edu:asdf/0.1.0/core/column"
}

/// Metadata that a node with this tag gives the arrays in it.
fn facts_of(tag: &str, node: &Value) -> Facts {
    let text = |key| node.get(key).and_then(Value::text).filter(|text| text.len() <= LONGEST_FACT);
    let fact = |name, key| text(key).map(|text| (name, text.to_owned()));
    let mut facts = Facts::new();
    if is_column(tag) || units::is_quantity(tag) {
        facts.extend(units::of(node).map(|unit| ("unit", unit)));
    }
    if is_column(tag) {
        facts.extend(fact("description", "description"));
    }
    if tag.starts_with(TIME) {
        // The scale of a time that does not name one.
        facts.push(("scale", text("scale").unwrap_or("utc").to_owned()));
        facts.extend(fact("format", "format"));
    }
    if tag.starts_with(SKY) {
        facts.extend(fact("frame", "frame"));
    }
    facts
}

/// The arrays in a column, each with the keys below which it lies.
pub(super) fn arrays_in(value: &Value) -> Vec<(String, Source)> {
    let mut search = Search { below: Vec::new(), arrays: Vec::new(), facts: Facts::new(), looked_at: 0 };
    search.look_at(value);
    search.arrays
}

/// A search for the arrays in a column.
struct Search {
    below: Vec<String>,
    arrays: Vec<(String, Source)>,
    /// Metadata of the nodes around the one at hand.
    facts: Facts,
    /// Nodes that were looked at. With aliases there may be far more than the text has.
    looked_at: usize,
}

impl Search {
    fn look_at(&mut self, value: &Value) {
        self.looked_at += 1;
        let value = value.target();
        let tag = value.tag.as_deref().unwrap_or_default();
        if ndarray::is_tag(tag) {
            self.take(tag, value);
            return;
        }
        let Node::Mapping(entries) = &value.node else { return };
        let before = self.facts.len();
        self.facts.extend(facts_of(tag, value));
        for (key, value) in entries {
            if self.below.len() >= DEEPEST || self.looked_at >= MOST_LOOKED_AT {
                break;
            }
            if let Some(key) = key.text() {
                self.below.push(key.to_owned());
                self.look_at(value);
                self.below.pop();
            }
        }
        self.facts.truncate(before);
    }

    fn take(&mut self, tag: &str, value: &Value) {
        // `arrays/` says what is wrong with an array.
        let Ok((mut array, _)) = Ndarray::read_leniently(tag, value) else { return };
        if array.settle_inline().is_err() {
            return;
        }
        let mask = value.get("mask").map(Value::target).and_then(|mask| {
            let tag = mask.tag.as_deref().filter(|tag| ndarray::is_tag(tag))?;
            let (mut mask, _) = Ndarray::read_leniently(tag, mask).ok()?;
            mask.settle_inline().ok().map(|()| mask)
        });
        // The array of a quantity is its only one, more or less.
        let telling = self.below.iter().filter(|key| !matches!(key.as_str(), "value" | INLINE_KEY));
        let path = telling.cloned().collect::<Vec<_>>().join(".");
        // The innermost node that says something of a kind counts.
        let mut facts = self.facts.clone();
        let mut known = HashSet::new();
        facts.reverse();
        facts.retain(|(key, _)| known.insert(*key));
        self.arrays.push((path, Source { name: String::new(), array, mask, facts }));
    }
}
