//! Events of a YAML text, with their places.

use std::fmt;

/// A place in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Mark {
    /// The offset in bytes, from 0.
    pub offset: u64,
    /// The line, from 1.
    pub line: u64,
    /// The column in characters, from 1.
    pub column: u64,
}

/// The start of a text.
pub const START: Mark = Mark { offset: 0, line: 1, column: 1 };

impl fmt::Display for Mark {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}, column {}", self.line, self.column)
    }
}

/// A syntax error and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The place of the error.
    pub place: Mark,
    /// The message, without the place.
    pub problem: String,
    /// The start of the collection or scalar that the parser was in, if it says so.
    pub began: Option<Mark>,
}

/// The style of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Without quotes. Only in this style are `5`, `true` and `null` not strings.
    Plain,
    /// In single quotes.
    SingleQuoted,
    /// In double quotes.
    DoubleQuoted,
    /// A block scalar after `|`.
    Literal,
    /// A block scalar after `>`.
    Folded,
}

/// The tag `!`, which asks for no tag.
const NO_TAG: &str = "!";

/// An event and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'e> {
    /// The event itself.
    pub what: What<'e>,
    /// The start: at the tag or anchor if there is one.
    pub start: Mark,
    /// The end.
    pub end: Mark,
}

/// An event without its place. Tags are resolved; `None` if no tag is written, or only `!`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'e> {
    /// The first event of a text.
    StreamStart,
    /// The last event of a text.
    StreamEnd,
    /// The start of a document.
    DocumentStart {
        /// True if `---` is written.
        explicit: bool,
    },
    /// The end of a document.
    DocumentEnd {
        /// True if `...` is written.
        explicit: bool,
    },
    /// An alias of the node with this anchor.
    Alias(&'e str),
    /// A scalar.
    Scalar {
        /// The text after unescaping and folding.
        value: &'e str,
        /// The style.
        style: Style,
        /// The tag.
        tag: Option<&'e str>,
        /// The anchor.
        anchor: Option<&'e str>,
    },
    /// The start of a sequence.
    SequenceStart {
        /// The tag.
        tag: Option<&'e str>,
        /// The anchor.
        anchor: Option<&'e str>,
        /// True if the sequence is written in brackets.
        flow: bool,
    },
    /// The end of a sequence.
    SequenceEnd,
    /// The start of a mapping. Keys and values alternate.
    MappingStart {
        /// The tag.
        tag: Option<&'e str>,
        /// The anchor.
        anchor: Option<&'e str>,
        /// True if the mapping is written in braces.
        flow: bool,
    },
    /// The end of a mapping.
    MappingEnd,
}

impl<'e> What<'e> {
    /// Makes a scalar. The text of a scalar with the tag `!` determines its type, as in PyYAML, even in quotes.
    /// If the text is not written at all, it is the empty string, not null.
    pub(super) fn scalar(
        value: &'e str,
        style: Style,
        tag: Option<&'e str>,
        anchor: Option<&'e str>,
    ) -> Self {
        if tag != Some(NO_TAG) {
            return Self::Scalar { value, style, tag, anchor };
        }
        let is_written = style != Style::Plain || !value.is_empty();
        let style = if is_written { Style::Plain } else { Style::SingleQuoted };
        Self::Scalar { value, style, tag: None, anchor }
    }
}

/// Removes the tag `!`.
pub(super) fn without_no_tag(tag: Option<&str>) -> Option<&str> {
    tag.filter(|tag| *tag != NO_TAG)
}
