//! The facts of a tree, found while its events are read.

use std::collections::HashMap;

use super::{FACTS, is_unknown, position, ranks};
use crate::yaml::event::{Event, What};
use crate::yaml::scalar::TAG_PREFIX;

/// Maximum depth at which facts of the file are looked for, and that for the facts of an image.
const MAX_DEPTH: usize = 5;
pub(super) const MAX_PLACED_DEPTH: usize = 16;
/// Maximum number of facts whose places are kept, and of anchors.
const MAX_PLACED: usize = 1 << 14;
const MAX_ANCHORS: usize = 1 << 14;
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
    /// True if there are more facts than are kept.
    pub(super) is_cut: bool,
    /// The tag of the first value of the root that is not of a core schema, and the key of the value.
    pub(super) tag: Option<(String, String)>,
    /// The keys on the way to the next node; those of sequences are empty.
    path: Vec<String>,
    open: Vec<SummaryLevel>,
    /// The facts in nodes with an anchor.
    anchors: HashMap<String, AnchoredFacts>,
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
    Key(String),
    Item(u64),
}

/// The facts in a node with an anchor: their numbers, and the number of steps to the node.
#[derive(Clone, Copy, Debug)]
struct AnchoredFacts {
    first: usize,
    end: usize,
    steps: usize,
}

#[derive(Clone, Debug)]
struct SummaryLevel {
    is_mapping: bool,
    expects_key: bool,
    /// True if the collection is a key itself.
    is_key: bool,
    /// Number of items of a sequence so far.
    items: u64,
    /// The anchor, and the number of placed facts at the start.
    anchor: Option<(String, usize)>,
}

impl FileSummary {
    /// Takes the next event of the tree.
    pub(crate) fn take(&mut self, event: &Event<'_>) {
        match event.what {
            What::MappingStart { tag, anchor, .. } => self.begin(true, tag, anchor),
            What::SequenceStart { tag, anchor, .. } => self.begin(false, tag, anchor),
            What::MappingEnd | What::SequenceEnd => {
                let Some(closed) = self.open.pop() else { return };
                if !closed.is_mapping && self.open.len() < MAX_PLACED_DEPTH {
                    self.path.pop();
                }
                if closed.is_key {
                    return;
                }
                if let Some((anchor, first)) = closed.anchor
                    && self.anchors.len() < MAX_ANCHORS
                {
                    let facts = AnchoredFacts { first, end: self.placed.len(), steps: self.open.len() };
                    self.anchors.insert(anchor, facts);
                }
                self.value_ended();
            }
            What::Scalar { value, .. } => {
                if let Some(open) = self.open.last_mut()
                    && open.is_mapping
                    && open.expects_key
                {
                    open.expects_key = false;
                    if self.open.len() <= MAX_PLACED_DEPTH {
                        self.path.push(value.to_owned());
                    }
                    return;
                }
                if self.open.len() <= MAX_PLACED_DEPTH && self.open.last().is_some_and(|open| open.is_mapping)
                {
                    self.value(value);
                }
                self.value_ended();
            }
            What::Alias(name) => match self.open.last_mut() {
                Some(open) if open.is_mapping && open.expects_key => {
                    open.expects_key = false;
                    if self.open.len() <= MAX_PLACED_DEPTH {
                        self.path.push(String::new());
                    }
                }
                _ => {
                    self.take_alias(name);
                    self.value_ended();
                }
            },
            _ => {}
        }
    }

    /// Adds the facts of the node that an alias stands for.
    fn take_alias(&mut self, name: &str) {
        let Some(AnchoredFacts { first, end, steps }) = self.anchors.get(name).copied() else { return };
        if self.open.len() > MAX_PLACED_DEPTH || self.open.iter().any(|open| open.is_key) {
            return;
        }
        let place = self.steps();
        for number in first..end {
            let Some(fact) = self.placed.get(number) else { break };
            let path = place.iter().chain(fact.path.get(steps..).unwrap_or_default()).cloned().collect();
            let copy = PlacedFact { path, ..fact.clone() };
            self.place(copy);
        }
    }

    fn place(&mut self, fact: PlacedFact) {
        if self.placed.len() < MAX_PLACED {
            self.placed.push(fact);
        } else {
            self.is_cut = true;
        }
    }

    /// Returns the steps to the value that is next.
    fn steps(&self) -> Vec<FactStep> {
        let step = |(key, open): (&String, &SummaryLevel)| {
            if open.is_mapping { FactStep::Key(key.clone()) } else { FactStep::Item(open.items) }
        };
        self.path.iter().zip(&self.open).map(step).collect()
    }

    fn begin(&mut self, is_mapping: bool, tag: Option<&str>, anchor: Option<&str>) {
        if let Some(open) = self.open.last_mut()
            && open.is_mapping
            && open.expects_key
        {
            // A collection as a key.
            open.expects_key = false;
            if self.open.len() <= MAX_PLACED_DEPTH {
                self.path.push(String::new());
            }
            self.open_level(is_mapping, true, None);
            return;
        }
        if let Some(tag) = tag
            && self.tag.is_none()
            && self.open.len() == 1
            && !tag.starts_with(TAG_PREFIX)
            && !tag.starts_with("tag:stsci.edu:asdf/")
        {
            self.tag = Some((self.path.first().cloned().unwrap_or_default(), cut(tag)));
        }
        let first = self.placed.len();
        self.open_level(is_mapping, false, anchor.map(|anchor| (anchor.to_owned(), first)));
    }

    fn open_level(&mut self, is_mapping: bool, is_key: bool, anchor: Option<(String, usize)>) {
        self.open.push(SummaryLevel { is_mapping, expects_key: is_mapping, is_key, items: 0, anchor });
        if !is_mapping && self.open.len() <= MAX_PLACED_DEPTH {
            self.path.push(String::new());
        }
    }

    /// Removes the key of a value that has ended, or counts an item.
    fn value_ended(&mut self) {
        let depth = self.open.len();
        let Some(open) = self.open.last_mut() else { return };
        if !open.is_mapping {
            open.items += 1;
        } else if !open.expects_key {
            open.expects_key = true;
            if depth <= MAX_PLACED_DEPTH {
                self.path.pop();
            }
        }
    }

    fn value(&mut self, value: &str) {
        if is_unknown(value) {
            return;
        }
        // The facts of the file are not in sequences, which have many of each.
        let is_of_file = self.open.len() <= MAX_DEPTH && self.open.iter().all(|open| open.is_mapping);
        let found: Vec<(usize, usize)> =
            ranks(&self.path).filter(|(number, _)| FACTS[*number].may_be(&self.path, value)).collect();
        for (number, rank) in found {
            let known = self.found[number].as_ref().map_or(usize::MAX, |(rank, _)| *rank);
            if is_of_file && rank < known {
                self.found[number] = Some((rank, cut(value)));
            }
            if !self.open.iter().any(|open| open.is_key) {
                self.place(PlacedFact { path: self.steps(), fact: number, rank, value: cut(value) });
            }
        }
    }

    /// Returns a fact by its name: `filter`.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        Some(self.found(name)?.1)
    }

    /// Returns the end of the path at which a fact was found, and its value. The path is empty for a telescope that only
    /// a tag tells.
    pub(crate) fn found(&self, name: &str) -> Option<(&'static str, &str)> {
        let position = position(name)?;
        if let Some((rank, value)) = self.found.get(position)? {
            return Some((FACTS.get(position)?.paths.get(*rank)?, value));
        }
        let tag = self.tag().filter(|_| name == "telescope")?;
        TELESCOPES.iter().find(|(start, _)| tag.starts_with(start)).map(|(_, telescope)| ("", *telescope))
    }

    /// Returns the tag of the first value of the root that is not of a core schema.
    pub(crate) fn tag(&self) -> Option<&str> {
        self.tag.as_ref().map(|(_, tag)| tag.as_str())
    }

    /// Removes the facts of which `other` has another value, or none.
    pub(crate) fn keep_common(&mut self, other: &Self) {
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
    pub(crate) fn has_several(&self) -> bool {
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
    use crate::content::Text;
    use crate::yaml::read::{Unread, each_event};

    #[test]
    fn a_tag_tells_the_telescope_of_a_tree_that_does_not() {
        let dkist = Some("Daniel K. Inouye Solar Telescope");
        for (tree, telescope) in [
            ("dataset: !<asdf://dkist.nso.edu/tags/dataset-1.2.0> {meta: 1}", dkist),
            ("dataset: !<asdf://dkist.nso.edu/tags/dataset-1.2.0> {telescope: VTT}", Some("VTT")),
            ("dataset: !<asdf://elsewhere.org/tags/dataset-1.2.0> {meta: 1}", None),
        ] {
            let mut summary = FileSummary::default();
            let text = Text::new(tree.as_bytes().to_vec());
            each_event(&text, |event| -> Result<bool, Unread> {
                summary.take(event);
                Ok(true)
            })
            .unwrap();
            assert_eq!(summary.get("telescope"), telescope, "{tree}");
        }
    }
}
