//! The aliases that are null because no reference can be written for them.

use asdf_tree::yaml::document::{Document, Id};

#[derive(Clone, Debug, Default)]
pub(super) struct Nulls {
    count: u64,
    /// The first one in the text and the reason.
    first: Option<(Id, &'static str)>,
}

impl Nulls {
    pub(super) const REPEATED: &'static str = "refers to the first value of a repeated key";
    pub(super) const IN_MERGE: &'static str = "refers to the value of a merge key";
    pub(super) const LONG_KEY: &'static str = "refers to a long key";
    pub(super) const TOO_LONG: &'static str = "would make the text longer by more than 16 MiB";

    pub(super) fn add(&mut self, alias: Id, why: &'static str) {
        self.count += 1;
        if self.first.is_none_or(|(first, _)| alias < first) {
            self.first = Some((alias, why));
        }
    }

    pub(super) fn add_all(&mut self, others: &Self) {
        if let Some((alias, why)) = others.first {
            self.add(alias, why);
            self.count += others.count - 1;
        }
    }

    /// Returns a note; `None` if there are no such aliases.
    pub(super) fn note(&self, document: &Document) -> Option<String> {
        let (alias, why) = self.first?;
        let name = document.text(alias);
        let place = document.mark(alias);
        let more = match self.count {
            1 => String::new(),
            count => format!(", and {} more aliases", count - 1),
        };
        Some(format!("without a value: the alias *{name} {why} at {place}{more}"))
    }
}
