//! One pass over the text of a tree, which collects its nodes and its problems.
//!
//! The survey processes events and builds no document tree. Its memory depends on what was requested, not on
//! the length of the text. It keeps nodes with certain tags and everything below each (up to a limit; of an
//! array in the tree only the shape); aliases; and [`Finding`]s: problems that YAML's grammar allows, but
//! that prevent readers from getting the data.
//!
//! A text that violates the grammar is an error, [`Broken`].

use std::collections::BTreeMap;
use std::sync::Arc;

use self::surveyor::Surveyor;
use super::event::{Failure, Mark};
use super::fast::{FastParser, NeedsLibyaml};
use super::parser::Events;
use super::read::{Unread, each_event};
use crate::content::Content;
use crate::error::{Error, Kind, Result};

mod frame;
pub mod leaves;
pub mod path;
mod rectangle;
pub mod sample;
mod surveyor;
pub mod value;

pub use leaves::{Leaves, Seen};
pub use path::{PathId, Paths, Step};
pub use rectangle::{Rectangle, Shape};
pub use sample::{Changes, TextSample};
pub use value::{Node, Value};

/// Maximum number of findings that are kept. There may be as many as there are nodes.
pub const MOST_FINDINGS: usize = 1000;

/// The nodes to search for.
#[derive(Clone, Copy)]
pub struct Wanted<'w> {
    /// True for the tags of nodes that are kept and reported. A sequence with such a tag counts as an array.
    pub tag: &'w dyn Fn(&str) -> bool,
    /// True for the tags of further nodes that are kept and reported, but never count as arrays.
    pub whole: &'w dyn Fn(&str) -> bool,
    /// Keys (up to eight) that identify a mapping which has lost its tag.
    pub telling: &'w [&'w str],
    /// Key of the array in a node with such a tag. Of a large array only the shape is kept, and likewise of a
    /// large sequence that has the tag itself.
    pub array: &'w str,
    /// Keys of the root with values that are reported, too.
    pub root_keys: &'w [&'w str],
    /// Key of a mapping that refers to another node (`$ref`); empty for none.
    pub reference: &'w str,
    /// Sample of an earlier text, for comparison.
    pub before: Option<&'w TextSample>,
}

impl std::fmt::Debug for Wanted<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Wanted").field("telling", &self.telling).finish_non_exhaustive()
    }
}

impl Wanted<'_> {
    /// A request for no nodes.
    pub const NOTHING: Wanted<'static> = Wanted {
        tag: &|_| false,
        whole: &|_| false,
        telling: &[],
        array: "",
        root_keys: &[],
        reference: "",
        before: None,
    };
}

/// A node with a requested tag or root key.
#[derive(Debug)]
pub struct WantedNode<'f> {
    /// Resolved tag, if the text has one.
    pub tag: Option<&'f str>,
    /// Key in the root of which the node is the value, if that key was requested.
    pub root_key: Option<&'f str>,
    /// Path in the tree.
    pub path: Option<PathId>,
    /// True if the node is the value of a key of the root, or of a mapping without a tag.
    pub plain: bool,
    /// The node, with everything below it and its position.
    pub value: &'f Value,
}

/// The result of a survey.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Number of documents. The survey ends where the second one begins.
    pub documents: usize,
    /// Root of the first document.
    pub root: Option<Root>,
    /// Number of uses of each resolved tag. Beyond a maximum number of tags, further ones are omitted.
    pub tags: BTreeMap<String, u64>,
    /// Number of nodes.
    pub nodes: u64,
    /// Greatest depth of nested collections, and the first position with that depth.
    pub depth: (usize, Mark),
    /// Aliases with the nodes to which they refer.
    pub aliases: Vec<Alias>,
    /// Mappings that refer to another node.
    pub references: Vec<Reference>,
    /// Mappings that have all keys of [`Wanted::telling`], but no requested tag.
    pub untagged: Vec<(Option<PathId>, Mark)>,
    /// Findings in the order of the text; at most [`MOST_FINDINGS`].
    pub findings: Vec<Finding>,
    /// Sample of the nodes, for comparison with a later text.
    pub sample: TextSample,
    /// Differences from the earlier text.
    pub changes: Changes,
    /// Paths of all nodes that were kept.
    pub paths: Paths,
}

/// The root of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Resolved tag, if the text has one.
    pub tag: Option<String>,
    /// True if the root is a mapping.
    pub mapping: bool,
    /// Position in the text.
    pub place: Mark,
}

/// An alias: a node that is the same as an earlier node with an anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// Position of the alias in the text.
    pub place: Mark,
    /// Path of the alias in the tree.
    pub path: Option<PathId>,
    /// Path of the anchored node in the tree.
    pub target: Option<PathId>,
    /// Position of the anchored node in the text; true if it is in flow style (in brackets or braces).
    pub origin: (Mark, bool),
}

/// A mapping that refers to another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Position of the reference's text.
    pub place: Mark,
    /// Path of the mapping in the tree.
    pub path: Option<PathId>,
    /// Text of the reference. Consecutive references with the same text share it.
    pub uri: Arc<str>,
}

/// The kind of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wrong {
    /// A key occurs twice in one mapping; readers use the last value.
    DuplicateKey,
    /// An alias without an anchor before it.
    UndefinedAlias,
    /// An anchor that is defined twice.
    RepeatedAnchor,
    /// A key that is a collection, or has a tag of its own.
    UnhashableKey,
    /// A node that does not match its tag or its syntax, for example an invalid date.
    Unfit,
    /// A key `<<` with a value that is not a mapping.
    Merge,
    /// A second document.
    SecondDocument,
    /// An integer beyond 64 bits.
    LargeInteger,
}

impl Wrong {
    /// True if Python asdf can't open a file with this problem.
    pub fn is_fatal(self) -> bool {
        !matches!(self, Self::DuplicateKey | Self::LargeInteger)
    }
}

/// A problem in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Kind of the problem.
    pub wrong: Wrong,
    /// Position in the text.
    pub place: Mark,
    /// Description, without the position.
    pub what: String,
    /// Hash that is equal for the same problem at the same path in another text, whatever the position.
    pub identity: u64,
}

/// The reason why a survey failed.
#[derive(Clone, Debug)]
pub struct Broken {
    /// The error for callers that need no details.
    pub error: Error,
    /// Position and kind of the syntax error; `None` if the text could not be read.
    pub failure: Option<Failure>,
    /// True if only a limit was exceeded.
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

/// Surveys `events`. Each requested node is passed to `found` when it ends, inner nodes first.
pub fn survey(
    mut events: Events<'_>,
    wanted: Wanted<'_>,
    found: &mut dyn FnMut(&Paths, WantedNode<'_>),
) -> std::result::Result<Survey, Box<Broken>> {
    let mut surveyor = Surveyor::new(wanted, found);
    loop {
        match events.next_event() {
            Ok(Some(event)) if surveyor.take(event)? => {}
            Ok(_) => return Ok(std::mem::take(&mut surveyor.survey)),
            Err(error) => return Err(Unread { error, failure: events.failure().cloned() }.into()),
        }
    }
}

/// Surveys a text. Short texts are read by the fast parser.
pub fn survey_text(
    text: &dyn Content,
    wanted: Wanted<'_>,
    found: &mut dyn FnMut(&Paths, WantedNode<'_>),
) -> std::result::Result<Survey, Box<Broken>> {
    let mut surveyor = Surveyor::new(wanted, found);
    each_event(text, |event| surveyor.take(event))?;
    Ok(std::mem::take(&mut surveyor.survey))
}

/// Surveys a text in memory with the fast parser.
///
/// # Errors
///
/// Fails if the fast parser does not support part of the text. Then call [`survey`], and
/// discard the nodes found so far.
pub fn survey_fast(
    text: &[u8],
    wanted: Wanted<'_>,
    found: &mut dyn FnMut(&Paths, WantedNode<'_>),
) -> std::result::Result<Survey, NeedsLibyaml> {
    let mut events = FastParser::new(text).ok_or(NeedsLibyaml)?;
    let mut surveyor = Surveyor::new(wanted, found);
    while let Some(event) = events.next_event()? {
        if !surveyor.take(event).map_err(|_| NeedsLibyaml)? {
            break;
        }
    }
    Ok(std::mem::take(&mut surveyor.survey))
}

/// Checks that the text of a whole head (header line and tree) can be parsed.
///
/// Problems that prevent a reader from opening the tree are errors too, for example an alias
/// without an anchor, or a second document. The error names line and column. Nodes that are
/// `wanted` are passed to `found`.
pub fn check_tree(
    content: &dyn Content,
    wanted: Wanted<'_>,
    found: &mut dyn FnMut(&Paths, WantedNode<'_>),
) -> Result<()> {
    let commented = Commented(content);
    let survey = survey_text(&commented, wanted, found)?;
    match survey.findings.iter().find(|finding| finding.wrong.is_fatal()) {
        Some(Finding { place, what, .. }) => {
            Err(Error::damaged(format!("not a valid tree at {place}: {what}")))
        }
        None => Ok(()),
    }
}

/// A head in which the `%ASDF` line of 2014 is changed to a `#ASDF` comment. YAML would take `%ASDF` for an
/// unknown directive.
#[derive(Debug)]
pub struct Commented<'a>(pub &'a dyn Content);

impl Content for Commented<'_> {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let read = self.0.read_at(offset, buf)?;
        if offset == 0 && read > 0 && buf.first() == Some(&b'%') && self.begins_with_asdf()? {
            buf[0] = b'#';
        }
        Ok(read)
    }
}

impl Commented<'_> {
    fn begins_with_asdf(&self) -> Result<bool> {
        let mut word = [0; 5];
        let mut read = 0;
        while read < word.len() {
            match self.0.read_at(read as u64, &mut word[read..])? {
                0 => break,
                more => read += more,
            }
        }
        Ok(&word == b"%ASDF")
    }
}

#[cfg(test)]
mod tests;
