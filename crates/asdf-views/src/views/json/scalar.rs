//! Converts a scalar to JSON, with the type that Python asdf gives it by YAML 1.1.

use std::borrow::Cow;

use asdf_tree::yaml::event::Style;
use asdf_tree::yaml::scalar::{self, TAG_PREFIX, Type};
use seekable::error::to_json;

/// The JSON form of a scalar.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json<'t> {
    /// `null`, a boolean or a number, in JSON notation.
    Bare(Cow<'t, str>),
    /// A string.
    Text(Cow<'t, str>),
    /// A string for a type that JSON does not have, and the name of its YAML type.
    Typed(String, &'static str),
    /// NaN or infinity, for which JSON has no notation, as written in the tree.
    NotFinite(&'t str),
}

/// Converts a scalar with this text, style and resolved tag.
pub(super) fn of<'t>(text: &'t str, style: Style, tag: Option<&str>) -> Json<'t> {
    let looks = scalar::type_of(text, style == Style::Plain, tag);
    let as_text = || Json::Text(Cow::Borrowed(text));
    match looks {
        Type::Null => Json::Bare(Cow::Borrowed("null")),
        Type::Bool => match scalar::boolean(&text.to_ascii_lowercase()) {
            Some(truth) => Json::Bare(Cow::Borrowed(if truth { "true" } else { "false" })),
            None => as_text(),
        },
        Type::Int => scalar::decimal(text).map_or_else(|| Json::Typed(text.to_owned(), "int"), Json::Bare),
        Type::Float => match scalar::float(text) {
            Some(value) if value.is_finite() => Json::Bare(format!("{value:?}").into()),
            Some(_) => Json::NotFinite(text),
            None => as_text(),
        },
        Type::Timestamp => {
            scalar::iso_timestamp(text).map_or_else(as_text, |iso| Json::Typed(iso, "timestamp"))
        }
        Type::Binary => Json::Text(text.split_ascii_whitespace().collect()),
        Type::Merge | Type::Value | Type::Str | Type::Other => as_text(),
    }
}

impl<'t> Json<'t> {
    /// Writes the value as JSON, without the name of its type. NaN and infinity become `null`.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Bare(text) => out.extend_from_slice(text.as_bytes()),
            Self::Text(text) => string(text, out),
            Self::Typed(text, _) => string(text, out),
            Self::NotFinite(_) => out.extend_from_slice(b"null"),
        }
    }

    /// Returns the tag that preserves the type, for a scalar without an explicit tag.
    pub(super) fn implied_tag(&self) -> Option<String> {
        match self {
            Self::Typed(_, name) => Some(format!("{TAG_PREFIX}{name}")),
            Self::NotFinite(_) => Some(format!("{TAG_PREFIX}float")),
            Self::Bare(_) | Self::Text(_) => None,
        }
    }

    /// Writes the value as JSON to stand beside a tag. NaN and infinity become strings.
    pub(super) fn write_tagged(&self, out: &mut Vec<u8>) {
        match self {
            Self::NotFinite(text) => string(text, out),
            other => other.write(out),
        }
    }

    /// Returns the text as the name of a member.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Bare(text) | Self::Text(text) => text,
            Self::Typed(text, _) => text,
            Self::NotFinite(text) => text,
        }
    }

    /// Returns the text as the name of a member.
    pub(super) fn into_name(self) -> Cow<'t, str> {
        match self {
            Self::Bare(text) | Self::Text(text) => text,
            Self::Typed(text, _) => Cow::Owned(text),
            Self::NotFinite(text) => Cow::Borrowed(text),
        }
    }
}

/// Writes a JSON string.
pub(super) fn string(text: &str, out: &mut Vec<u8>) {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')) {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
        return;
    }
    // Serialising a string can't fail.
    out.extend_from_slice(to_json(text).as_bytes());
}

/// Writes a reference to the node at a path.
pub(super) fn reference(path: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"$ref\": ");
    string(&format!("#{path}"), out);
    out.push(b'}');
}
