//! Finds the arrays in a column, and their metadata.

use std::collections::HashSet;
use std::sync::Arc;

use asdf_file::asdf::ndarray::{self, INLINE_KEY, Ndarray};
use asdf_file::asdf::units;
use asdf_tree::limits::{MAX_CHAIN, MAX_NAME, MAX_SEARCHED};
use asdf_tree::yaml::survey::{NodeContent, TreeNode};

use super::times::{Times, default_scale};
use crate::parquet::Facts;

/// Tag prefixes of columns.
const COLUMNS: [&str; 2] = ["tag:stsci.edu:asdf/core/column-1.", "tag:stsci.edu:asdf/table/column-1."];
/// Tag prefixes of times and coordinates.
const TIME: &str = "tag:stsci.edu:asdf/time/time-1.";
const TIME_DELTA: &str = "tag:astropy.org:astropy/time/timedelta-1.";
/// Tag prefix of uncertainties.
const UNCERTAINTY: &str = "tag:astropy.org:astropy/nddata/uncertainty-1.";
const SKY: &str = "tag:astropy.org:astropy/coordinates/skycoord-1.";

/// The array of a column and its metadata.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// The name; empty for a structured array, which has a column for each field.
    pub name: String,
    pub array: Arc<Ndarray>,
    /// The mask of missing elements.
    pub mask: Option<Arc<Ndarray>>,
    /// Unit, description, coordinate frame, time scale and format, kind of uncertainty.
    pub facts: Facts,
    /// The metadata of the fields of a structured array, if they have their own.
    pub facts_of_fields: Vec<Facts>,
    /// The times of the column, if they may be shown as timestamps.
    pub times: Option<Times>,
}

/// True for the tag of a column.
pub(super) fn is_column(tag: &str) -> bool {
    COLUMNS.iter().any(|known| tag.starts_with(known)) || tag == "tag:stsci.edu:asdf/0.1.0/core/column"
}

/// True for the tag of a time.
pub(super) fn is_time(tag: &str) -> bool {
    tag.starts_with(TIME)
}

/// Returns the metadata that a node with this tag gives the arrays in it.
fn facts_of(tag: &str, node: &TreeNode) -> Facts {
    let text = |key| node.get(key).and_then(TreeNode::text).filter(|text| text.len() <= MAX_NAME);
    let fact = |name, key| text(key).map(|text| (name, text.to_owned()));
    let mut facts = Facts::new();
    if is_column(tag) || units::is_quantity(tag) {
        let unit = units::of_any(node).filter(|unit| unit.len() <= MAX_NAME);
        facts.extend(unit.map(|unit| ("unit", unit)));
    }
    if is_column(tag) {
        facts.extend(fact("description", "description"));
    }
    if is_time(tag) {
        facts.push(("scale", text("scale").unwrap_or(default_scale(text("format"))).to_owned()));
        facts.extend(fact("format", "format"));
        facts.extend(fact("base_format", "base_format"));
    }
    if tag.starts_with(TIME_DELTA) {
        // Days, whatever the format says: the two parts of a time.
        facts.push(("unit", "d".to_owned()));
        facts.extend(fact("scale", "scale"));
        facts.extend(fact("format", "format"));
    }
    let kind = if tag.starts_with(UNCERTAINTY) { text("name") } else { text("uncertainty_type") };
    // The names that asdf-astropy writes, in the words of astropy.
    let kind = kind.map(|kind| match kind {
        "stddev" => "std",
        "variance" => "var",
        kind => kind,
    });
    if let Some(kind) = kind.filter(|_| tag.starts_with(UNCERTAINTY) || tag.is_empty()) {
        let unit = units::of_any(node).filter(|unit| unit.len() <= MAX_NAME);
        facts.extend(unit.map(|unit| ("unit", unit)));
        facts.push(("uncertainty_type", kind.to_owned()));
    }
    if tag.starts_with(SKY) {
        facts.extend(fact("frame", "frame"));
    }
    facts
}

/// True if a node is an array.
fn is_array(value: &TreeNode) -> bool {
    value.target().tag.as_deref().is_some_and(ndarray::is_tag)
}

/// Returns the arrays in a column, each with its dotted path of keys below the column.
pub(super) fn arrays_in(value: &TreeNode) -> Vec<(String, Source)> {
    let mut search = Search { below: Vec::new(), arrays: Vec::new(), facts: Facts::new(), looked_at: 0 };
    search.look_at(value);
    search.arrays
}

/// A search for the arrays in a column.
struct Search {
    below: Vec<String>,
    arrays: Vec<(String, Source)>,
    /// Metadata of the nodes around the current one.
    facts: Facts,
    /// Number of nodes visited. Aliases can make it far larger than the number of nodes in the text.
    looked_at: usize,
}

impl Search {
    fn look_at(&mut self, value: &TreeNode) {
        self.looked_at += 1;
        let value = value.target();
        let tag = value.tag.as_deref().unwrap_or_default();
        if ndarray::is_tag(tag) {
            self.add(tag, value);
            return;
        }
        let NodeContent::Mapping(entries) = &value.node else { return };
        let before = self.facts.len();
        self.facts.extend(facts_of(tag, value));
        for (key, below) in entries {
            if self.below.len() >= MAX_CHAIN || self.looked_at >= MAX_SEARCHED {
                break;
            }
            if let Some(key) = key.text() {
                let first = self.arrays.len();
                self.below.push(key.to_owned());
                self.look_at(below);
                self.below.pop();
                let is_time = is_time(tag) && key == "value" && is_array(below);
                if is_time && let Some((_, source)) = self.arrays.get_mut(first) {
                    source.times = Times::of(value, &source.array);
                }
            }
        }
        self.facts.truncate(before);
    }

    fn add(&mut self, tag: &str, value: &TreeNode) {
        // An array that can't be read is no column; `arrays/` reports it.
        let Ok((mut array, _)) = Ndarray::read_leniently(tag, value) else { return };
        if array.infer_inline().is_err() {
            return;
        }
        let mask = value.get("mask").map(TreeNode::target).and_then(|mask| {
            let mask_tag = mask.tag.as_deref().filter(|mask_tag| ndarray::is_tag(mask_tag))?;
            let (mut mask, _) = Ndarray::read_leniently(mask_tag, mask).ok()?;
            mask.infer_inline().ok().map(|()| Arc::new(mask))
        });
        // A quantity has one array, so the keys that lead to it are left out of the name.
        let telling = self.below.iter().filter(|key| !matches!(key.as_str(), "value" | INLINE_KEY));
        let path = telling.cloned().collect::<Vec<_>>().join(".");
        // If several nodes around the array have a key, the value of the innermost node is used.
        let mut facts = self.facts.clone();
        let mut known = HashSet::new();
        facts.reverse();
        facts.retain(|(key, _)| known.insert(*key));
        self.arrays.push((
            path,
            Source {
                name: String::new(),
                array: Arc::new(array),
                mask,
                facts,
                facts_of_fields: Vec::new(),
                times: None,
            },
        ));
    }
}
