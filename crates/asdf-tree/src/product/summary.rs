//! The facts of a tree.

use std::collections::{HashMap, HashSet};

use super::{FACTS, is_unknown, position, ranks};
use crate::limits::MAX_ITEMS;
use crate::yaml::document::{Document, Id, Kind, NodePlace};
use crate::yaml::scalar::TAG_PREFIX;

/// Maximum depth at which facts of the file are looked for, and that for the facts of an image.
const MAX_DEPTH: usize = 5;
pub(super) const MAX_PLACED_DEPTH: usize = 16;
/// Maximum number of facts whose places are kept.
const MAX_PLACED: usize = 1 << 14;
/// Maximum length of a fact in bytes.
const MAX_FACT: usize = 120;

/// Telescopes whose trees do not name them: the start of the tag of their data, and `TELESCOP` in their FITS files.
const TELESCOPES: [(&str, &str); 1] = [("asdf://dkist.nso.edu/", "Daniel K. Inouye Solar Telescope")];

/// The facts found so far.
#[derive(Clone, Debug, Default)]
pub struct FileSummary {
    /// The values, and the positions of their paths in the lists of [`FACTS`].
    pub(super) found: [Option<(usize, String)>; FACTS.len()],
    /// All facts with their places.
    pub(super) placed: Vec<PlacedFact>,
    /// The paths of nodes with the tag of an array, also of those that can't be used.
    pub(super) arrays: Vec<Vec<FactStep>>,
    /// True if there are more facts or such nodes than are kept.
    pub(super) is_cut: bool,
    /// The tag of the first value of the root that is not of a core schema, and the key of the value.
    pub(super) tag: Option<(String, String)>,
}

/// A fact and its place.
#[derive(Clone, Debug)]
pub(super) struct PlacedFact {
    /// The path, from the root on.
    pub(super) path: Vec<FactStep>,
    /// The positions in [`FACTS`] and in the list of paths there.
    pub(super) fact: usize,
    pub(super) rank: usize,
    pub(super) value: String,
}

impl PlacedFact {
    /// Returns the path of the mapping from which on the path is one of the fact's paths.
    pub(super) fn mapping(&self) -> &[FactStep] {
        let end = FACTS[self.fact].paths[self.rank].split('.').count();
        self.path.get(..self.path.len().saturating_sub(end)).unwrap_or_default()
    }
}

/// A step of the path of a fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FactStep {
    /// A key; empty for an alias or a collection.
    Key(String),
    Item(u32),
}

impl FactStep {
    /// Returns the key; empty for an item.
    pub(super) fn key(&self) -> &str {
        if let Self::Key(key) = self { key } else { "" }
    }
}

/// A search for the facts of a tree.
struct FactFinder<'d> {
    document: &'d Document,
    summary: FileSummary,
    /// The steps to the next node.
    path: Vec<FactStep>,
    /// The nodes that aliases stand for.
    targets: HashSet<Id>,
    /// The facts in those nodes that have ended.
    facts_of: HashMap<Id, FactsOfNode>,
}

/// The facts in a node: their numbers, and the number of steps to the node.
#[derive(Clone, Copy, Debug)]
struct FactsOfNode {
    first: usize,
    end: usize,
    steps: usize,
}

impl FactFinder<'_> {
    fn node(&mut self, id: Id) {
        let document = self.document;
        match document.kind(id) {
            Kind::Scalar(_) if matches!(self.path.last(), Some(FactStep::Key(_))) => {
                self.value(document.text(id));
            }
            Kind::Scalar(_) | Kind::ScalarRun => {}
            Kind::Alias => self.alias(id),
            kind => {
                self.note_tag(id);
                self.note_array(id);
                let first = self.summary.placed.len();
                if self.path.len() < MAX_PLACED_DEPTH {
                    self.children(id, kind == Kind::Mapping);
                }
                if self.targets.contains(&id) {
                    let facts = FactsOfNode { first, end: self.summary.placed.len(), steps: self.path.len() };
                    self.facts_of.insert(id, facts);
                }
            }
        }
    }

    fn children(&mut self, id: Id, is_mapping: bool) {
        let document = self.document;
        if is_mapping {
            for (key, value) in document.members(id) {
                let name =
                    if matches!(document.kind(key), Kind::Scalar(_)) { document.text(key) } else { "" };
                self.child(FactStep::Key(name.to_owned()), value);
            }
        } else {
            for item in document.children(id) {
                if let NodePlace::Item(number) = document.place(item) {
                    self.child(FactStep::Item(number), item);
                }
            }
        }
    }

    fn child(&mut self, step: FactStep, id: Id) {
        self.path.push(step);
        self.node(id);
        self.path.pop();
    }

    fn note_tag(&mut self, id: Id) {
        let [step] = &self.path[..] else { return };
        let is_own = |tag: &&str| !tag.starts_with(TAG_PREFIX) && !tag.starts_with("tag:stsci.edu:asdf/");
        if let Some(tag) = self.document.tag(id).filter(is_own) {
            self.summary.tag.get_or_insert_with(|| (step.key().to_owned(), cut(tag)));
        }
    }

    fn note_array(&mut self, id: Id) {
        let is_array = |tag: &str| {
            let name = tag.rsplit('/').next().unwrap_or(tag);
            ["ndarray", "chunked-ndarray", "zarr"].into_iter().any(|start| name.starts_with(start))
        };
        if self.document.tag(id).is_some_and(is_array) {
            if self.summary.arrays.len() < MAX_ITEMS {
                self.summary.arrays.push(self.path.clone());
            } else {
                self.summary.is_cut = true;
            }
        }
    }

    /// Adds the facts of the node that an alias stands for.
    fn alias(&mut self, id: Id) {
        let facts = self.document.target(id).and_then(|target| self.facts_of.get(&target).copied());
        let Some(FactsOfNode { first, end, steps }) = facts else { return };
        for number in first..end {
            let Some(fact) = self.summary.placed.get(number) else { break };
            let path = self.path.iter().chain(fact.path.get(steps..).unwrap_or_default()).cloned().collect();
            let copy = PlacedFact { path, ..fact.clone() };
            self.place(copy);
        }
    }

    fn place(&mut self, fact: PlacedFact) {
        if self.summary.placed.len() < MAX_PLACED {
            self.summary.placed.push(fact);
        } else {
            self.summary.is_cut = true;
        }
    }

    fn value(&mut self, value: &str) {
        if is_unknown(value) {
            return;
        }
        // The facts of the file are not in sequences, which have many of each.
        let is_of_file =
            self.path.len() <= MAX_DEPTH && self.path.iter().all(|step| matches!(step, FactStep::Key(_)));
        let found: Vec<(usize, usize)> =
            ranks(&self.path).filter(|(number, _)| FACTS[*number].may_be(&self.path, value)).collect();
        for (number, rank) in found {
            let known = self.summary.found[number].as_ref().map_or(usize::MAX, |(rank, _)| *rank);
            if is_of_file && rank < known {
                self.summary.found[number] = Some((rank, cut(value)));
            }
            self.place(PlacedFact { path: self.path.clone(), fact: number, rank, value: cut(value) });
        }
    }
}

impl FileSummary {
    /// Finds the facts of a tree.
    pub fn of(document: &Document) -> Self {
        let aliases = document.all().filter(|id| document.kind(*id) == Kind::Alias);
        let targets = aliases.filter_map(|id| document.target(id)).collect();
        let summary = Self::default();
        let mut finder =
            FactFinder { document, summary, path: Vec::new(), targets, facts_of: HashMap::new() };
        if let Some(root) = document.root() {
            finder.node(root);
        }
        finder.summary
    }

    /// Returns a fact by its name: `filter`.
    pub fn get(&self, name: &str) -> Option<&str> {
        Some(self.found(name)?.1)
    }

    /// Returns the end of the path at which a fact was found, and its value. The path is empty for a telescope that only
    /// a tag tells.
    pub fn found(&self, name: &str) -> Option<(&'static str, &str)> {
        let position = position(name)?;
        if let Some((rank, value)) = self.found.get(position)? {
            return Some((FACTS.get(position)?.paths.get(*rank)?, value));
        }
        let tag = self.tag().filter(|_| name == "telescope")?;
        TELESCOPES.iter().find(|(start, _)| tag.starts_with(start)).map(|(_, telescope)| ("", *telescope))
    }

    /// Returns the tag of the first value of the root that is not of a core schema.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_ref().map(|(_, tag)| tag.as_str())
    }

    /// Removes the facts of which `other` has another value, or none.
    pub fn keep_common(&mut self, other: &Self) {
        for (own, others) in self.found.iter_mut().zip(&other.found) {
            if own != others {
                *own = None;
            }
        }
        if self.tag != other.tag {
            self.tag = None;
        }
    }

    /// True if mappings of the tree have different values of a fact.
    pub fn has_several(&self) -> bool {
        let mut known: [Option<(&[FactStep], &str)>; FACTS.len()] = [None; FACTS.len()];
        self.is_cut
            || self.placed.iter().any(|placed| {
                let (mapping, value) = *known[placed.fact].get_or_insert((placed.mapping(), &placed.value));
                value != placed.value && mapping != placed.mapping()
            })
    }
}

fn cut(text: &str) -> String {
    let mut end = text.len().min(MAX_FACT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::FileSummary;
    use crate::yaml::document::Document;
    use seekable::content::Text;

    #[test]
    fn a_tag_tells_the_telescope_of_a_tree_that_does_not() {
        let dkist = Some("Daniel K. Inouye Solar Telescope");
        for (tree, telescope) in [
            ("dataset: !<asdf://dkist.nso.edu/tags/dataset-1.2.0> {meta: 1}", dkist),
            ("dataset: !<asdf://dkist.nso.edu/tags/dataset-1.2.0> {telescope: VTT}", Some("VTT")),
            ("dataset: !<asdf://elsewhere.org/tags/dataset-1.2.0> {meta: 1}", None),
        ] {
            let document = Document::read(&Text::new(tree.as_bytes().to_vec())).unwrap();
            assert_eq!(FileSummary::of(&document).get("telescope"), telescope, "{tree}");
        }
    }
}
