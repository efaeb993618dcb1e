//! An event of a YAML text: what it is, and where it stands.

use std::fmt;

/// A place in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Mark {
    /// Bytes from the start of the text.
    pub offset: u64,
    /// Line, from 1.
    pub line: u64,
    /// Column in characters, from 1.
    pub column: u64,
}

impl fmt::Display for Mark {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}, column {}", self.line, self.column)
    }
}

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Where.
    pub place: Mark,
    /// What, without the place.
    pub problem: String,
}

/// How a scalar is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Without quotes: `5`, `true` and `null` in this style are no strings.
    Plain,
    /// In single quotes.
    SingleQuoted,
    /// In double quotes.
    DoubleQuoted,
    /// A block after `|`.
    Literal,
    /// A block after `>`.
    Folded,
}

/// One event and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'e> {
    /// What it is.
    pub what: What<'e>,
    /// Where it begins: at its tag or anchor if there is one.
    pub start: Mark,
    /// Where it ends.
    pub end: Mark,
}

/// What an event is. A tag is always the resolved one, whatever its spelling; `None` if none is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'e> {
    /// The first event of all.
    StreamStart,
    /// The last event of all.
    StreamEnd,
    /// A document begins.
    DocumentStart {
        /// Whether `---` is written.
        explicit: bool,
    },
    /// A document ends.
    DocumentEnd {
        /// Whether `...` is written.
        explicit: bool,
    },
    /// A mention of the node with this anchor.
    Alias(&'e str),
    /// A scalar.
    Scalar {
        /// Its text, escapes and folding undone.
        value: &'e str,
        /// How it is written.
        style: Style,
        /// Its tag.
        tag: Option<&'e str>,
        /// Its anchor.
        anchor: Option<&'e str>,
    },
    /// A sequence begins.
    SequenceStart {
        /// Its tag.
        tag: Option<&'e str>,
        /// Its anchor.
        anchor: Option<&'e str>,
        /// Whether it is written in brackets.
        flow: bool,
    },
    /// A sequence ends.
    SequenceEnd,
    /// A mapping begins; keys and values follow in turn.
    MappingStart {
        /// Its tag.
        tag: Option<&'e str>,
        /// Its anchor.
        anchor: Option<&'e str>,
        /// Whether it is written in braces.
        flow: bool,
    },
    /// A mapping ends.
    MappingEnd,
}
