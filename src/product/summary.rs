//! The facts of a tree, found while its events are read.

use super::{FACTS, is_unknown, position};
use crate::yaml::event::{Event, What};
use crate::yaml::scalar::TAG_PREFIX;

/// Maximum depth at which facts are looked for.
const MAX_DEPTH: usize = 5;
/// Maximum length of a fact in bytes.
const MAX_FACT: usize = 120;

/// Telescopes whose trees do not name them: the start of the tag of their data, and `TELESCOP` in their FITS files.
const TELESCOPES: [(&str, &str); 1] = [("asdf://dkist.nso.edu/", "Daniel K. Inouye Solar Telescope")];

/// The facts found so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileSummary {
    /// The values, and the positions of their paths in the lists of [`FACTS`].
    found: [Option<(usize, String)>; FACTS.len()],
    /// The tag of the first value of the root that is not of a core schema.
    tag: Option<String>,
    /// The keys on the way to the next node; those of sequences are empty.
    path: Vec<String>,
    open: Vec<SummaryLevel>,
}

#[derive(Clone, Copy, Debug)]
struct SummaryLevel {
    is_mapping: bool,
    expects_key: bool,
    /// True if the collection is a key itself.
    is_key: bool,
}

impl FileSummary {
    /// Takes the next event of the tree.
    pub(crate) fn take(&mut self, event: &Event<'_>) {
        match event.what {
            What::MappingStart { tag, .. } => self.begin(true, tag),
            What::SequenceStart { tag, .. } => self.begin(false, tag),
            What::MappingEnd | What::SequenceEnd => {
                let closed = self.open.pop();
                if closed.is_some_and(|closed| !closed.is_key) {
                    self.value_ended();
                }
            }
            What::Scalar { value, .. } => {
                if let Some(open) = self.open.last_mut()
                    && open.is_mapping
                    && open.expects_key
                {
                    open.expects_key = false;
                    if self.open.len() <= MAX_DEPTH {
                        self.path.push(value.to_owned());
                    }
                    return;
                }
                if self.open.len() <= MAX_DEPTH && self.open.iter().all(|open| open.is_mapping) {
                    self.value(value);
                }
                self.value_ended();
            }
            What::Alias(_) => match self.open.last_mut() {
                Some(open) if open.is_mapping && open.expects_key => {
                    open.expects_key = false;
                    if self.open.len() <= MAX_DEPTH {
                        self.path.push(String::new());
                    }
                }
                _ => self.value_ended(),
            },
            _ => {}
        }
    }

    fn begin(&mut self, is_mapping: bool, tag: Option<&str>) {
        if let Some(open) = self.open.last_mut()
            && open.is_mapping
            && open.expects_key
        {
            // A collection as a key.
            open.expects_key = false;
            if self.open.len() <= MAX_DEPTH {
                self.path.push(String::new());
            }
            self.open.push(SummaryLevel { is_mapping, expects_key: is_mapping, is_key: true });
            return;
        }
        if let Some(tag) = tag
            && self.tag.is_none()
            && self.open.len() == 1
            && !tag.starts_with(TAG_PREFIX)
            && !tag.starts_with("tag:stsci.edu:asdf/")
        {
            self.tag = Some(cut(tag));
        }
        self.open.push(SummaryLevel { is_mapping, expects_key: is_mapping, is_key: false });
    }

    /// Removes the key of a value that has ended.
    fn value_ended(&mut self) {
        let depth = self.open.len();
        if let Some(open) = self.open.last_mut()
            && open.is_mapping
            && !open.expects_key
        {
            open.expects_key = true;
            if depth <= MAX_DEPTH {
                self.path.pop();
            }
        }
    }

    fn value(&mut self, value: &str) {
        if is_unknown(value) {
            return;
        }
        for (fact, found) in FACTS.iter().zip(&mut self.found) {
            let known = found.as_ref().map_or(usize::MAX, |(rank, _)| *rank);
            if let Some(rank) = fact.rank(&self.path)
                && rank < known
                && fact.may_be(&self.path, value)
            {
                *found = Some((rank, cut(value)));
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
        self.tag.as_deref()
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
