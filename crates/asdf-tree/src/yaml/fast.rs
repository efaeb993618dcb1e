//! Events of a YAML text in memory, several times as fast as with libyaml.
//!
//! libyaml decides what is valid YAML ([`parser`](super::parser)), since Python asdf reads with it. But it
//! scans a text character by character and allocates each string, which would take most of the time of a
//! save. Nearly all trees are written in a subset of YAML that can be read much faster. This module is
//! libyaml's scanner and parser for that subset, with the same names of tokens and states, so that the two
//! can be compared. Strings are borrowed from the text. Anything outside the subset, and any error, returns
//! [`NeedsLibyaml`]: libyaml then reads the text from its start. The tests compare both parsers event by
//! event.
//!
//! Left to libyaml: tabs, carriage returns and other rare line breaks, a byte order mark, keys after `?`,
//! escapes in tags, directives other than `%YAML` and `%TAG`, several documents, and all errors.

use std::borrow::Cow;
use std::collections::HashMap;

use self::scanner::{Scanner, TokenPlace};
use super::event::{Event, Style, What, without_no_tag};
use crate::limits::MAX_DEPTH;

mod names;
mod scalar;
mod scanner;
mod states;

/// The default prefixes of the tag handles `!` and `!!`.
const DEFAULT_TAGS: [(&str, &str); 2] = [("!", "!"), ("!!", "tag:yaml.org,2002:")];
/// Maximum number of different tags in a text.
const MAX_TAGS: usize = 1000;

/// The error for a text that must be read with libyaml.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeedsLibyaml;

type Result<T> = std::result::Result<T, NeedsLibyaml>;

/// The state of the parser, named after the item it expects next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParserState {
    StreamStart,
    DocumentStart,
    DocumentContent,
    DocumentEnd,
    /// After the first document.
    AfterDocument,
    BlockSequenceFirstEntry,
    BlockSequenceEntry,
    IndentlessSequenceEntry,
    BlockMappingFirstKey,
    BlockMappingKey,
    BlockMappingValue,
    FlowSequenceFirstEntry,
    FlowSequenceEntry,
    FlowSequenceEntryMappingKey,
    FlowSequenceEntryMappingValue,
    FlowSequenceEntryMappingEnd,
    FlowMappingFirstKey,
    FlowMappingKey,
    FlowMappingValue,
    FlowMappingEmptyValue,
    End,
}

/// An event. Its strings are kept in the parser.
#[derive(Clone, Copy, Debug)]
enum EventKind<'t> {
    StreamStart,
    StreamEnd,
    DocumentStart(bool),
    DocumentEnd(bool),
    Alias(&'t str),
    /// A scalar. Its text is kept in the parser.
    Scalar(Style, Properties<'t>),
    SequenceStart(bool, Properties<'t>),
    SequenceEnd,
    MappingStart(bool, Properties<'t>),
    MappingEnd,
}

/// Tag and anchor before a node.
#[derive(Clone, Copy, Debug, Default)]
struct Properties<'t> {
    /// Index into the parser's `tags`.
    tag: Option<usize>,
    anchor: Option<&'t str>,
}

type FastEvent<'t> = (EventKind<'t>, TokenPlace, TokenPlace);

/// The events of a text, in order.
#[derive(Debug)]
pub struct FastParser<'t> {
    scanner: Scanner<'t>,
    state: ParserState,
    states: Vec<ParserState>,
    /// Prefixes of tag handles.
    handles: Vec<(&'t str, &'t str)>,
    /// Tags as they are written, handle and suffix, with their index in `tags`.
    known: HashMap<(&'t str, &'t str), usize>,
    tags: Vec<Box<str>>,
    depth: usize,
    /// The text of the current event, if it is a scalar.
    value: Cow<'t, str>,
}

impl<'t> FastParser<'t> {
    /// Begins to parse `text`; `None` if it needs libyaml.
    pub fn new(text: &'t [u8]) -> Option<Self> {
        Some(Self {
            scanner: Scanner::new(text)?,
            state: ParserState::StreamStart,
            states: Vec::new(),
            handles: Vec::new(),
            known: HashMap::new(),
            tags: Vec::new(),
            depth: 0,
            value: Cow::Borrowed(""),
        })
    }

    /// Returns the next event; `None` after the end of the stream.
    ///
    /// # Errors
    ///
    /// The text is invalid or outside the subset. All earlier events are valid; libyaml must read
    /// the later ones.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>> {
        if self.state == ParserState::End {
            return Ok(None);
        }
        let (kind, start, end) = self.step()?;
        match kind {
            EventKind::SequenceStart(..) | EventKind::MappingStart(..) => self.depth += 1,
            EventKind::SequenceEnd | EventKind::MappingEnd => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        if self.depth > MAX_DEPTH {
            return Err(NeedsLibyaml);
        }
        let tag =
            |properties: Properties<'t>| properties.tag.and_then(|tag| self.tags.get(tag).map(|tag| &**tag));
        let what = match kind {
            EventKind::StreamStart => What::StreamStart,
            EventKind::StreamEnd => What::StreamEnd,
            EventKind::DocumentStart(explicit) => What::DocumentStart { explicit },
            EventKind::DocumentEnd(explicit) => What::DocumentEnd { explicit },
            EventKind::Alias(name) => What::Alias(name),
            EventKind::Scalar(style, properties) => {
                What::scalar(&self.value, style, tag(properties), properties.anchor)
            }
            EventKind::SequenceStart(flow, properties) => {
                let tag = without_no_tag(tag(properties));
                What::SequenceStart { tag, anchor: properties.anchor, flow }
            }
            EventKind::SequenceEnd => What::SequenceEnd,
            EventKind::MappingStart(flow, properties) => {
                let tag = without_no_tag(tag(properties));
                What::MappingStart { tag, anchor: properties.anchor, flow }
            }
            EventKind::MappingEnd => What::MappingEnd,
        };
        Ok(Some(Event { what, start: start.into(), end: end.into() }))
    }

    /// Returns the index of a tag in `tags`.
    fn tag(&mut self, handle: &'t str, suffix: &'t str) -> Result<usize> {
        if let Some(known) = self.known.get(&(handle, suffix)) {
            return Ok(*known);
        }
        if self.tags.len() >= MAX_TAGS {
            return Err(NeedsLibyaml);
        }
        let tag = match handle {
            "" => suffix.into(),
            _ => {
                let found = self.handles.iter().find(|(known, _)| *known == handle);
                let (_, prefix) = found.ok_or(NeedsLibyaml)?;
                [prefix, suffix].concat().into_boxed_str()
            }
        };
        self.tags.push(tag);
        self.known.insert((handle, suffix), self.tags.len() - 1);
        Ok(self.tags.len() - 1)
    }
}

#[cfg(test)]
mod tests;
