//! Surveys a tree: the nodes that views want, and errors that the grammar of YAML permits.
//!
//! [`nodes`] finds the nodes with certain tags in a document, each with its content (up to a limit; of an array written in
//! the tree only the shape is kept), and aliases, references and merge keys. [`TextSurvey`] is made from the events of a
//! text: [`Finding`]s are problems that prevent readers from getting the data. A syntax error ends it with [`Broken`].

use std::collections::HashSet;
use std::sync::Arc;

use super::document::Document;
use super::event::{Failure, Mark};
use super::read::Unread;
use seekable::content::Content;
use seekable::error::{Error, Kind, Result};

pub mod findings;
pub mod leaves;
pub mod nodes;
pub mod path;
mod read_tree;
mod rectangle;
pub mod sample;
pub mod value;

pub use leaves::{ElementTypes, Leaves};
pub use path::{PathId, Paths, Step};
pub use rectangle::{Rectangle, SequenceShape};
pub use sample::{Changes, TextSample};
pub use value::{NodeContent, TreeNode};

/// A selection of nodes.
#[derive(Clone, Copy)]
pub struct Wanted<'w> {
    /// Returns true for a tag if nodes with it are kept and passed to the caller.
    pub tag: &'w dyn Fn(&str) -> bool,
    /// Returns true for a tag if nodes with it are kept and passed, too, but are not arrays.
    pub whole: &'w dyn Fn(&str) -> bool,
    /// Keys, up to eight, by which a mapping is recognised although it lacks a selected tag.
    pub telling: &'w [&'w str],
    /// The key, in a node with a selected tag, under which only the shape of an array is kept. A sequence
    /// that itself has a selected tag is also kept only by its shape.
    pub array: &'w str,
    /// Keys of the root with values that are also passed to the caller.
    pub root_keys: &'w [&'w str],
    /// The key of a mapping that stands for another node (`$ref`); empty for none.
    pub reference: &'w str,
}

impl std::fmt::Debug for Wanted<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Wanted").field("telling", &self.telling).finish_non_exhaustive()
    }
}

impl Wanted<'_> {
    /// An empty selection.
    pub const NOTHING: Wanted<'static> =
        Wanted { tag: &|_| false, whole: &|_| false, telling: &[], array: "", root_keys: &[], reference: "" };
}

/// A selected node.
#[derive(Debug)]
pub struct WantedNode<'f> {
    /// The resolved tag, if one is written.
    pub tag: Option<&'f str>,
    /// The selected key of the root, if the node is its value.
    pub root_key: Option<&'f str>,
    /// The path in the tree.
    pub path: Option<PathId>,
    /// True if the node is the value of a key of the root, or of a mapping without a tag.
    pub plain: bool,
    /// The node with its content and its place.
    pub value: &'f TreeNode,
}

/// The results of a search for nodes.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Aliases, with the places of the nodes that they stand for.
    pub aliases: Vec<Alias>,
    /// Mappings that stand for other nodes.
    pub references: Vec<Reference>,
    /// Mappings with merge keys, in the order of their ends.
    pub merges: Vec<Merge>,
    /// Mappings that have all keys of [`Wanted::telling`] but no selected tag.
    pub untagged: Vec<(Option<PathId>, Mark)>,
    /// The paths of everything that was kept.
    pub paths: Paths,
}

/// The results of a survey of a text.
#[derive(Clone, Debug, Default)]
pub struct TextSurvey {
    /// The root of the first document.
    pub root: Option<Root>,
    /// The greatest nesting of collections, and its first offset in the text.
    pub depth: (usize, u64),
    /// Problems in the order of the text, at most [`MAX_NOTES`](crate::limits::MAX_NOTES).
    pub findings: Vec<Finding>,
    /// A sample of the nodes, with which a later text can be compared.
    pub sample: TextSample,
    /// Differences from the earlier text.
    pub changes: Changes,
    /// The paths of everything that was kept.
    pub paths: Paths,
}

/// The root of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The resolved tag, if one is written.
    pub tag: Option<String>,
    /// True if the root is a mapping.
    pub mapping: bool,
    /// The offset in the text.
    pub at: u64,
}

/// An alias and its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The place of the alias in the text.
    pub place: Mark,
    /// The path of the alias in the tree.
    pub path: Option<PathId>,
    /// The path of the node in the tree.
    pub target: Option<PathId>,
    /// The place of the node in the text; true if it stands in brackets or braces.
    pub origin: (Mark, bool),
}

/// A mapping with merge keys.
#[derive(Clone, Debug)]
pub struct Merge {
    /// The path of the mapping.
    pub path: Option<PathId>,
    /// The merged mappings. If two of them have the same key, the first one counts.
    pub sources: Vec<MergeSource>,
    /// The names of its own keys.
    names: HashSet<String>,
}

/// A mapping that a merge key merges into another one.
#[derive(Clone, Copy, Debug)]
pub struct MergeSource {
    /// The number of the merge key.
    merge: u64,
    /// The path of the merge key's value, or of an item of it.
    pub path: Option<PathId>,
    /// The path of the mapping: the target of an alias, or else the same path.
    pub target: Option<PathId>,
}

impl Merge {
    /// True if the mapping itself has a key with this name, which the merge keys do not override.
    pub fn has_key(&self, name: &str) -> bool {
        self.names.contains(name)
    }
}

/// A mapping that stands for another node, by a certain key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The place of the key's value in the text.
    pub place: Mark,
    /// The path of the mapping in the tree.
    pub path: Option<PathId>,
    /// The value of the key. Consecutive references with the same value share it.
    pub uri: Arc<str>,
}

/// The type of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wrong {
    /// A repeated key in a mapping. Readers take the last value.
    DuplicateKey,
    /// An alias without an anchor.
    UndefinedAlias,
    /// A repeated anchor.
    RepeatedAnchor,
    /// A key that is a collection or has a tag of its own.
    UnhashableKey,
    /// A node that is invalid for its tag or implicit type.
    Unfit,
    /// A key `<<` with a value that is not a mapping.
    Merge,
    /// A second document.
    SecondDocument,
    /// An integer beyond 64 bits.
    LargeInteger,
}

impl Wrong {
    /// True if Python asdf can't open the file because of the problem.
    pub fn is_fatal(self) -> bool {
        !matches!(self, Self::DuplicateKey | Self::LargeInteger)
    }
}

/// A problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The type of the problem.
    pub wrong: Wrong,
    /// The offset in the text.
    pub at: u64,
    /// The message, without the place.
    pub what: String,
    /// A number that is equal for the same problem at the same path of another text, wherever it stands
    /// there.
    pub identity: u64,
}

/// The reason why a text could not be surveyed.
#[derive(Clone, Debug)]
pub struct Broken {
    /// The error.
    pub error: Error,
    /// The syntax error and its place; `None` if the text could not be read.
    pub failure: Option<Failure>,
    /// True if the only error is that the text exceeds a limit.
    pub too_large: bool,
}

impl From<Unread> for Box<Broken> {
    fn from(unread: Unread) -> Self {
        let Unread { error, failure } = unread;
        let too_large = error.kind() == Kind::Unsupported;
        Self::new(Broken { error, failure, too_large })
    }
}

impl From<Box<Broken>> for Error {
    fn from(broken: Box<Broken>) -> Self {
        broken.error
    }
}

/// Reads the document of a text.
pub fn read(text: &dyn Content) -> std::result::Result<Document, Box<Broken>> {
    let document = Document::read(text).map_err(|error| Unread { error, failure: None })?;
    whole(&document)?;
    Ok(document)
}

/// Returns the fault of a document that ends before its text, unless another document begins there.
pub fn whole(document: &Document) -> std::result::Result<(), Box<Broken>> {
    match document.fault() {
        Some(fault) if document.next_document().is_none() => {
            Err(Unread { error: fault.clone(), failure: document.failure().cloned() }.into())
        }
        _ => Ok(()),
    }
}

/// Checks the document of a whole head, header line and tree.
///
/// Fatal findings are errors: an alias without its anchor, a second document. The error states line and column.
pub fn check_tree(document: &Document) -> Result<()> {
    let survey = findings::survey(document, None);
    match survey.findings.iter().find(|finding| finding.wrong.is_fatal()) {
        Some(Finding { at, what, .. }) => {
            Err(Error::damaged(format!("not a valid tree at {}: {what}", document.mark_at(*at))))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
