//! Checks whether a text may become the tree, before anything is written.
//!
//! A text is refused if Python asdf could no longer open the file as the same data (`check/meaning.rs`), or
//! if it would break the file's layout (`check/layout.rs`). Only newly introduced problems are refused:
//! defects of the old tree may stay. Parts that tools drop and users do not miss (the prologue, the last
//! newline, `...`) are restored. Everything else is saved byte for byte.

use std::borrow::Cow;
use std::sync::Arc;

use asdf_tree::schema::Schemas;
use asdf_tree::yaml::event::Mark;
use asdf_tree::yaml::survey::{self, TextSample};

mod arrays;
mod core_schemas;
mod excerpt;
mod layout;
mod lost;
mod meaning;
mod normalize;
mod prologue;
mod standard;
mod version;

pub(crate) use super::refusal::{Class, MAX_FURTHER, Position, Problem, Problems};
pub use crate::edit::context::Validation;
pub(crate) use arrays::TreeFacts;

use prologue::Prologue;

/// Maximum number of warnings reported.
const MAX_WARNINGS: usize = 30;

/// The block sizes of the file that is edited.
pub trait BlockSizes {
    /// Returns the number of blocks.
    fn count(&self) -> usize;

    /// Returns the decoded size of block `n` in bytes, up to the first damage; `None` if it is not known.
    fn size(&self, n: usize) -> Option<u64>;
}

/// Block sizes that are all known.
impl BlockSizes for Vec<u64> {
    fn count(&self) -> usize {
        Vec::len(self)
    }

    fn size(&self, n: usize) -> Option<u64> {
        <[u64]>::get(self, n).copied()
    }
}

/// The saved text: the facts with which a new text is compared.
#[derive(Debug)]
pub struct Old {
    /// The text up to and including the last line of the prologue.
    head: Vec<u8>,
    /// The number of conflict markers.
    conflicts: usize,
    has_tree: bool,
    is_utf8: bool,
    unreadable: bool,
    facts: Result<TreeFacts, Box<survey::Broken>>,
    schemas: Option<Arc<Schemas>>,
}

/// A text that may be saved.
#[derive(Debug)]
pub struct Accepted<'n> {
    /// The text to write.
    pub text: Cow<'n, [u8]>,
    /// Messages for the parts that were restored.
    pub restored: Vec<String>,
    /// The first warnings. If there are more, the last one gives the number of further warnings.
    pub warnings: Vec<Problem>,
    /// This text as [`Old`] for the next check; `None` if it was not surveyed.
    pub next: Option<Old>,
}

impl Old {
    /// Surveys the saved text, which is the whole head of the file. Its nodes and those of later texts are checked by
    /// the schemas, too.
    pub fn of(text: &[u8], schemas: Option<Arc<Schemas>>) -> Self {
        let facts = facts(text, None, schemas.as_deref());
        Self::with_facts(text, facts, schemas)
    }

    fn with_facts(
        text: &[u8],
        facts: Result<TreeFacts, Box<survey::Broken>>,
        schemas: Option<Arc<Schemas>>,
    ) -> Self {
        let prologue = Prologue::of(text);
        let ends = [prologue.comments_end]
            .into_iter()
            .chain(prologue.yaml.iter().map(|line| line.end))
            .chain(prologue.tags.iter().map(|(_, line)| line.end));
        let end = ends.max().unwrap_or(0);
        Self {
            head: text[..end].to_vec(),
            conflicts: layout::conflict_markers(text).count(),
            has_tree: prologue.has_tree(text),
            is_utf8: std::str::from_utf8(text).is_ok(),
            unreadable: prologue.has_tree(text) && prologue.unreadable(text).is_some(),
            facts,
            schemas,
        }
    }

    /// Returns the results of the survey, or the error if the text is not YAML.
    pub fn facts(&self) -> Result<&TreeFacts, &survey::Broken> {
        self.facts.as_ref().map_err(|broken| &**broken)
    }
}

/// Checks `new`, which replaces `old` in a file with these blocks.
pub fn check<'n>(
    new: &'n [u8],
    old: &Old,
    blocks: &dyn BlockSizes,
    level: Validation,
) -> Result<Accepted<'n>, Box<Problems>> {
    refuse(new, layout::before_normalizing(new, &old.head))?;
    let normalized = normalize::normalize(new, &old.head);
    let draft = Draft { text: &normalized.text, normalized: &normalized };
    refuse(new, layout::problems(&draft))?;
    refuse(new, layout::conflicts(&draft, old.conflicts))?;
    let mut warnings = Vec::new();
    let mut next = None;
    if level != Validation::Off {
        let before = old.facts.as_ref().ok().map(|facts| &facts.survey.sample);
        let facts = facts(draft.text, before, old.schemas.as_deref());
        let judgement = meaning::problems(&draft, &facts, old, blocks);
        next = Some(Old::with_facts(draft.text, facts, old.schemas.clone()));
        let mut faults = judgement.problems;
        if level == Validation::Strict {
            refuse(new, std::mem::take(&mut faults))?;
        }
        faults.extend(judgement.warnings);
        warnings = first_warnings(new, faults);
    }
    let restored = normalized.restored.clone();
    Ok(Accepted { text: normalized.text, restored, warnings, next })
}

/// True if a saved text was written as `written`: it is the same but for the parts that a save restores.
pub fn was_written_as(saved: &[u8], written: &[u8]) -> bool {
    *normalize::normalize(written, saved).text == *saved
}

fn refuse(text: &[u8], faults: Vec<Fault>) -> Result<(), Box<Problems>> {
    match Problems::of(faults.into_iter().map(|fault| fault.into_problem(text))) {
        Some(problems) => Err(Box::new(problems)),
        None => Ok(()),
    }
}

/// Returns the first warnings, and a last one with the number of further ones.
fn first_warnings(text: &[u8], faults: Vec<Fault>) -> Vec<Problem> {
    let more = faults.len().saturating_sub(MAX_WARNINGS);
    let first = faults.into_iter().take(MAX_WARNINGS).map(|fault| fault.into_problem(text));
    let more = (more > 0).then(|| Fault::of_all(format!("and {more} more"), "").into_problem(text));
    first.chain(more).collect()
}

/// Surveys a whole text, and finds what it lost compared with the text `before`.
fn facts(
    text: &[u8],
    before: Option<&TextSample>,
    schemas: Option<&Schemas>,
) -> Result<TreeFacts, Box<survey::Broken>> {
    let standard = Prologue::of(text).standard.and_then(|line| {
        let words = prologue::words(&text[line]);
        words.get(1).and_then(|word| std::str::from_utf8(word).ok())
    });
    TreeFacts::of(text, standard, before, schemas)
}

/// A text that is checked.
struct Draft<'d, 'n> {
    /// The normalized text.
    text: &'d [u8],
    normalized: &'d normalize::Normalized<'n>,
}

impl Draft<'_, '_> {
    /// Makes a fault from an offset in the normalized text. The fault has the offset in the text as written.
    fn fault(&self, offset: usize, what: impl Into<String>, to_do: &str) -> Fault {
        Fault::new(Some(self.normalized.original(offset)), what, to_do)
    }
}

/// A problem whose line number is not computed yet. There may be as many faults as nodes, and only a few are
/// reported.
#[derive(Debug)]
struct Fault {
    class: Class,
    what: String,
    to_do: String,
    /// The fault's offset in the text as written; `None` if the fault concerns the text as a whole.
    offset: Option<usize>,
}

impl Fault {
    fn new(offset: Option<usize>, what: impl Into<String>, to_do: &str) -> Self {
        Self { class: Class::Invalid, what: what.into(), to_do: to_do.to_owned(), offset }
    }

    /// Makes a fault of the text as a whole.
    fn of_all(what: impl Into<String>, to_do: &str) -> Self {
        Self::new(None, what, to_do)
    }

    /// Converts the fault to a problem with line and column in `text`.
    fn into_problem(self, text: &[u8]) -> Problem {
        let position = self.offset.map(|offset| {
            let (line, column, excerpt) = excerpt::at(text, offset);
            Position { offset: offset as u64, line, column, excerpt }
        });
        Problem { class: self.class, what: self.what, to_do: self.to_do, position }
    }
}

/// Problems in the order of the text, and warnings.
#[derive(Debug, Default)]
struct Judgement {
    problems: Vec<Fault>,
    warnings: Vec<Fault>,
}

/// Returns the byte offset of a place in the text.
fn offset(place: Mark) -> usize {
    usize::try_from(place.offset).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
