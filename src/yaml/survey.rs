//! One pass over the text of a tree: what is in it, and what is wrong with it.
//!
//! The survey goes by events and never makes a tree of the tree, so its memory does not grow with
//! the text but with what was asked for: nodes with certain tags, each with what is below it (up to
//! a bound: an array written in the tree is kept as its shape); aliases; and the [`Finding`]s,
//! things that YAML's grammar lets pass and that still keep a reader from getting the data.
//!
//! A text that breaks the grammar is an error, [`Broken`].

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

/// Findings that are kept; there may be as many as there are nodes.
pub const MOST_FINDINGS: usize = 1000;

/// What to look for.
#[derive(Clone, Copy)]
pub struct Wanted<'w> {
    /// Whether nodes with this tag are to be kept and handed out.
    pub tag: &'w dyn Fn(&str) -> bool,
    /// Whether nodes with this tag are to be kept and handed out too, although they are no arrays.
    pub whole: &'w dyn Fn(&str) -> bool,
    /// Keys (up to eight) by which a mapping is known that has lost its tag.
    pub telling: &'w [&'w str],
    /// The key, in a node with such a tag, below which only the shape of an array is to be kept. The
    /// same goes for a sequence that has the tag itself.
    pub array: &'w str,
    /// Keys of the root whose values are to be handed out too.
    pub root_keys: &'w [&'w str],
    /// The key by which a mapping stands for another node (`$ref`); empty for none.
    pub reference: &'w str,
    /// What stood in an earlier text, to be compared with.
    pub before: Option<&'w TextSample>,
}

impl std::fmt::Debug for Wanted<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Wanted").field("telling", &self.telling).finish_non_exhaustive()
    }
}

impl Wanted<'_> {
    /// Nothing.
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

/// A node with a tag, or below a key, that was wanted.
#[derive(Debug)]
pub struct WantedNode<'f> {
    /// Its resolved tag, if one is written.
    pub tag: Option<&'f str>,
    /// The key of the root that it is the value of, if that was wanted.
    pub root_key: Option<&'f str>,
    /// Where it is in the tree.
    pub path: Option<PathId>,
    /// Whether it is the value of a key of the root, or of a mapping without a tag.
    pub plain: bool,
    /// It and what is below it; its place.
    pub value: &'f Value,
}

/// What is in a text.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// How many documents there are; what follows the first is not looked at.
    pub documents: usize,
    /// The root of the first document.
    pub root: Option<Root>,
    /// How many times each tag is written, resolved. Of more than a bound the rest is left out.
    pub tags: BTreeMap<String, u64>,
    /// How many nodes there are.
    pub nodes: u64,
    /// How deep collections nest, and where they first do.
    pub depth: (usize, Mark),
    /// Places where a node is mentioned by its anchor, and where the node itself is.
    pub aliases: Vec<Alias>,
    /// Mappings that stand for another node.
    pub references: Vec<Reference>,
    /// Mappings with all telling keys, but without a tag that was wanted.
    pub untagged: Vec<(Option<PathId>, Mark)>,
    /// What is wrong, in the order of the text; not more than [`MOST_FINDINGS`].
    pub findings: Vec<Finding>,
    /// Its nodes, to compare a later text with.
    pub sample: TextSample,
    /// What of the earlier text is not as it was.
    pub changes: Changes,
    /// The paths of all that was kept.
    pub paths: Paths,
}

/// The root of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its resolved tag, if one is written.
    pub tag: Option<String>,
    /// Whether it is a mapping.
    pub mapping: bool,
    /// Where it begins.
    pub place: Mark,
}

/// A node that is mentioned by its anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// Where the mention is in the text.
    pub place: Mark,
    /// Where the mention is in the tree.
    pub path: Option<PathId>,
    /// Where the node is in the tree.
    pub target: Option<PathId>,
    /// Where the node is in the text, and whether it stands in brackets or braces there.
    pub origin: (Mark, bool),
}

/// A mapping that stands for another node, by a key for that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Where the value of the key is in the text.
    pub place: Mark,
    /// Where the mapping is in the tree.
    pub path: Option<PathId>,
    /// The value of the key. References in a row with the same value share it.
    pub uri: Arc<str>,
}

/// What kind of thing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wrong {
    /// A key comes twice in one mapping; readers take the last.
    DuplicateKey,
    /// An alias without its anchor.
    UndefinedAlias,
    /// An anchor that is defined twice.
    RepeatedAnchor,
    /// A key that is a collection, or has a tag of its own.
    UnhashableKey,
    /// A node that can't be what its tag or its look says.
    Unfit,
    /// A key `<<` whose value is no mapping.
    Merge,
    /// A second document.
    SecondDocument,
    /// An integer beyond 64 bits.
    LargeInteger,
}

impl Wrong {
    /// Whether Python asdf can't open the file because of it.
    pub fn is_fatal(self) -> bool {
        !matches!(self, Self::DuplicateKey | Self::LargeInteger)
    }
}

/// Something wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind.
    pub wrong: Wrong,
    /// Where in the text.
    pub place: Mark,
    /// What, in words, without the place.
    pub what: String,
    /// The same for the same thing at the same path of another text, wherever it stands there.
    pub identity: u64,
}

/// Why a text could not be surveyed.
#[derive(Clone, Debug)]
pub struct Broken {
    /// The error as any other.
    pub error: Error,
    /// Where the text is at fault, and for what; `None` if it could not be read.
    pub failure: Option<Failure>,
    /// Whether it is only too much of something.
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

/// Surveys `events`, handing out each node that is wanted when it ends, those within it before it.
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

/// Surveys a text, with the fast parser where it is short.
pub fn survey_text(
    text: &dyn Content,
    wanted: Wanted<'_>,
    found: &mut dyn FnMut(&Paths, WantedNode<'_>),
) -> std::result::Result<Survey, Box<Broken>> {
    let mut surveyor = Surveyor::new(wanted, found);
    each_event(text, |event| surveyor.take(event))?;
    Ok(std::mem::take(&mut surveyor.survey))
}

/// The same for a text in memory, with the fast parser.
///
/// # Errors
///
/// The fast parser does not know part of the text. Call [`survey`], and forget what was handed out so far.
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

/// Checks that the text of a whole head, header line and tree, can be parsed.
///
/// What keeps a reader from making anything of it is an error too: an alias without its anchor, a
/// second document. The error says line and column. Nodes that are `wanted` are handed out.
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

/// A head in which the `%ASDF` of 2014, which YAML takes for a directive it doesn't know, is the
/// comment that `#ASDF` is.
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
