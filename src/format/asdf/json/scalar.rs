//! One scalar as JSON, by the type that YAML 1.1, as Python asdf reads it, gives it.

use std::borrow::Cow;

use crate::error::in_json;
use crate::yaml::event::Style;
use crate::yaml::scalar::{self, TAG_PREFIX, Type};

/// What a scalar is in JSON.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json<'t> {
    /// `null`, `true`, a number: as it is written.
    Bare(Cow<'t, str>),
    /// A string.
    Text(Cow<'t, str>),
    /// A string that stands for something that JSON has no type for, and the name of its YAML type.
    Typed(String, &'static str),
    /// A number that JSON has no notation for: NaN or an infinity, as the tree writes it.
    NotFinite(&'t str),
}

/// A scalar with this text, style and resolved tag.
pub(super) fn of<'t>(text: &'t str, style: Style, tag: Option<&str>) -> Json<'t> {
    // PyYAML resolves what has the tag `!` as if it had none.
    let tag = tag.filter(|tag| *tag != "!");
    let looks = scalar::type_of(text, style == Style::Plain, tag);
    let as_text = || Json::Text(Cow::Borrowed(text));
    match looks {
        Type::Null => Json::Bare(Cow::Borrowed("null")),
        Type::Bool => match scalar::boolean(&text.to_ascii_lowercase()) {
            Some(truth) => Json::Bare(Cow::Borrowed(if truth { "true" } else { "false" })),
            None => as_text(),
        },
        Type::Int => integer(text).map_or_else(|| Json::Typed(text.to_owned(), "int"), Json::Bare),
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

/// An integer in decimal. One beyond 128 bits is taken as it stands, if it is decimal.
fn integer(text: &str) -> Option<Cow<'_, str>> {
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    if matches!(digits, [b'1'..=b'9', rest @ ..] if rest.iter().all(u8::is_ascii_digit)) {
        return Some(Cow::Borrowed(text));
    }
    if let Some(value) = scalar::integer(text) {
        return Some(value.to_string().into());
    }
    let digits: String = text.chars().filter(|char| *char != '_').collect();
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", digits.strip_prefix('+').unwrap_or(&digits)),
    };
    let is_decimal =
        !digits.starts_with('0') && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_decimal.then(|| format!("{sign}{digits}").into())
}

impl Json<'_> {
    /// The JSON, without what it is a type of.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Bare(text) => out.extend_from_slice(text.as_bytes()),
            Self::Text(text) => string(text, out),
            Self::Typed(text, _) => string(text, out),
            Self::NotFinite(_) => out.extend_from_slice(b"null"),
        }
    }

    /// The tag that tells what is lost without it, if one isn't written.
    pub(super) fn implied_tag(&self) -> Option<String> {
        match self {
            Self::Typed(_, name) => Some(format!("{TAG_PREFIX}{name}")),
            Self::NotFinite(_) => Some(format!("{TAG_PREFIX}float")),
            Self::Bare(_) | Self::Text(_) => None,
        }
    }

    /// The JSON beside a tag.
    pub(super) fn write_tagged(&self, out: &mut Vec<u8>) {
        match self {
            Self::NotFinite(text) => string(text, out),
            other => other.write(out),
        }
    }

    /// The text of it as the name of a member.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Bare(text) | Self::Text(text) => text,
            Self::Typed(text, _) => text,
            Self::NotFinite(text) => text,
        }
    }
}

/// A string in JSON.
pub(super) fn string(text: &str, out: &mut Vec<u8>) {
    // A string is always JSON.
    out.extend(in_json(&serde_json::to_string(text).unwrap_or_default()).bytes());
}
