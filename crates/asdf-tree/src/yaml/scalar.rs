//! Types of scalars in YAML 1.1, and checks that a scalar is valid for its type.
//!
//! `5` is a number and `"5"` a text; `2001-02-30` looks like a date but is invalid. The rules are those of
//! the YAML 1.1 type repository as implemented by PyYAML, with which Python asdf reads trees. A scalar for
//! which [`unfit`] returns a reason prevents Python asdf from opening the file.

use std::borrow::Cow;

mod number;
pub mod readings;
mod time;

pub use number::{beyond_int64, float};
pub use time::iso_timestamp;

/// The prefix of the tags of YAML's own types.
pub const TAG_PREFIX: &str = "tag:yaml.org,2002:";

/// Maximum number of decimal digits that Python converts to an integer.
const MAX_DIGITS: usize = 4300;

/// The types of scalars in YAML 1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// `~`, `null`, the empty text.
    Null,
    /// `true`, `no`, `On`.
    Bool,
    /// `12`, `0x1f`, `1_000`, `1:30`.
    Int,
    /// `1.5`, `.inf`.
    Float,
    /// `2001-12-14`, `2001-12-14t21:59:43.10-05:00`.
    Timestamp,
    /// `!!binary`.
    Binary,
    /// `<<`, which as a key merges another mapping into its own.
    Merge,
    /// `=`, which as a key is an ordinary text, unless the mapping is tagged as a scalar.
    Value,
    /// Text.
    Str,
    /// A collection type, or a tag that is not YAML's own.
    Other,
}

/// Returns the type of a scalar: by its tag or, if it is `plain` and has no tag, by its text.
pub fn type_of(text: &str, plain: bool, tag: Option<&str>) -> Type {
    match tag {
        Some(tag) => tag.strip_prefix(TAG_PREFIX).map_or(Type::Other, named),
        None if plain => resolve(text),
        None => Type::Str,
    }
}

fn named(name: &str) -> Type {
    match name {
        "null" => Type::Null,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "float" => Type::Float,
        "timestamp" => Type::Timestamp,
        "binary" => Type::Binary,
        "merge" => Type::Merge,
        "value" => Type::Value,
        "str" => Type::Str,
        _ => Type::Other,
    }
}

/// Resolves the type of a plain scalar without a tag.
pub fn resolve(text: &str) -> Type {
    let Some(first) = text.bytes().next() else { return Type::Null };
    match first {
        b'0'..=b'9' | b'+' | b'-' | b'.' if number::is_float(text) => Type::Float,
        b'0'..=b'9' | b'+' | b'-' if number::is_int(text) => Type::Int,
        b'0'..=b'9' if time::looks_like(text) => Type::Timestamp,
        b'~' if text == "~" => Type::Null,
        b'<' if text == "<<" => Type::Merge,
        b'=' if text == "=" => Type::Value,
        b'n' | b'N' if matches!(text, "null" | "Null" | "NULL") => Type::Null,
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' if boolean(text).is_some() => {
            Type::Bool
        }
        _ => Type::Str,
    }
}

/// Parses a boolean.
pub fn boolean(text: &str) -> Option<bool> {
    match text {
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Some(true),
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

/// Returns the name of a key of the type `looks`, which does not depend on its notation: that of `0x10` is
/// `16`, and that of `yes` is `true`. Of any other type it is the text.
pub fn key_name(text: &str, looks: Type) -> Cow<'_, str> {
    let name = match looks {
        Type::Null => Some("null".into()),
        Type::Bool => boolean(&text.to_ascii_lowercase())
            .map(|truth| if truth { "true".into() } else { "false".into() }),
        Type::Int => decimal(text),
        Type::Float => float(text).filter(|value| value.is_finite()).map(|value| format!("{value:?}").into()),
        Type::Timestamp => iso_timestamp(text).map(Cow::Owned),
        Type::Binary => Some(text.split_ascii_whitespace().collect()),
        Type::Merge | Type::Value | Type::Str | Type::Other => None,
    };
    name.unwrap_or(Cow::Borrowed(text))
}

/// Converts an integer to decimal digits. Beyond 128 bits, only decimal integers are converted.
pub fn decimal(text: &str) -> Option<Cow<'_, str>> {
    number::decimal(text)
}

/// Parses a scalar of type [`Type::Int`]; `None` beyond 128 bits.
pub fn integer(text: &str) -> Option<i128> {
    number::integer(text)
}

/// Returns the reason why a scalar is invalid for its tag or implicit type; `None` if it is valid. `looks` is
/// its [`type_of`].
pub fn unfit(text: &str, looks: Type, tag: Option<&str>) -> Option<&'static str> {
    match (tag, looks) {
        (None, Type::Int) => number::unfit_int(text),
        (None, Type::Timestamp) => time::unfit(text),
        (None, _) => None,
        (Some(_), Type::Int) => number::unfit_tagged_int(text),
        (Some(_), Type::Float) => number::unfit_tagged_float(text),
        (Some(_), Type::Timestamp) => time::unfit(text),
        (Some(_), Type::Bool) => boolean(&text.to_ascii_lowercase())
            .is_none()
            .then_some("it is tagged !!bool but is not a boolean"),
        (Some(_), Type::Binary) => unfit_base64(text.as_bytes()),
        (Some(tag), Type::Other) => match tag.strip_prefix(TAG_PREFIX) {
            Some("seq" | "omap" | "pairs") => Some("it is tagged as a sequence but is not one"),
            Some("map" | "set") => Some("it is tagged as a mapping but is not one"),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the reason why a collection is invalid for its tag; `None` if it is valid.
pub fn unfit_collection(mapping: bool, tag: &str) -> Option<&'static str> {
    match (tag.strip_prefix(TAG_PREFIX)?, mapping) {
        ("null" | "bool" | "int" | "float" | "timestamp" | "binary" | "str", _) => {
            Some("it is tagged as a scalar but is a collection")
        }
        ("seq" | "omap" | "pairs", true) => Some("it is tagged as a sequence but is not one"),
        ("map" | "set", false) => Some("it is tagged as a mapping but is not one"),
        _ => None,
    }
}

/// True for the tags of scalars that a mapping with the key `=` may have, too. PyYAML reads the value of that
/// key in its place.
pub fn may_be_value(tag: &str) -> bool {
    matches!(tag.strip_prefix(TAG_PREFIX), Some("null" | "bool" | "int" | "float" | "binary" | "str"))
}

/// Returns the reason why Python's decoder refuses a base64 text, if it does. The decoder skips characters
/// outside the alphabet and checks only the padding.
fn unfit_base64(text: &[u8]) -> Option<&'static str> {
    if !text.is_ascii() {
        return Some("it is tagged !!binary but is not ASCII");
    }
    let mut in_group = 0;
    let mut padding = 0;
    for byte in text {
        match byte {
            b'=' if in_group >= 2 => {
                padding += 1;
                if in_group + padding >= 4 {
                    return None;
                }
            }
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => {
                (in_group, padding) = ((in_group + 1) % 4, 0);
            }
            _ => {}
        }
    }
    (in_group != 0).then_some("it is tagged !!binary and its base64 text is cut off")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_are_what_yaml_1_1_takes_them_for() {
        for (texts, expected) in [
            (&["", "~", "null", "Null", "NULL"][..], Type::Null),
            (&["yes", "Off", "TRUE", "n0", "no"][..3], Type::Bool),
            (&["0", "-1", "+1_000", "0x1F", "-0b1_", "017", "0_", "190:20:30", "0x_"], Type::Int),
            (&["1.", "-1.5e+3", ".5", "1._", "-.INF", ".nan", "190:20:30.15", "+1.0"], Type::Float),
            (
                &["2001-01-01", "2001-99-99", "2001-1-1T1:00:00Z", "2001-01-01 \t1:02:03.5 -5:30"],
                Type::Timestamp,
            ),
            (&["<<"], Type::Merge),
            (&["="], Type::Value),
            (
                &[
                    "a",
                    "yES",
                    "1e3",
                    "08",
                    "1:99",
                    "._",
                    "0o17",
                    "2001-1-1",
                    "+",
                    "-",
                    ".",
                    "1:2:",
                    "+.nan",
                    "1.5e3",
                    "2001-01-01T",
                    "0xg",
                    "nULL",
                    "2001-01-01T1:2:03",
                    "20011-01-01",
                    "-2001-01-01",
                    "0b2",
                ],
                Type::Str,
            ),
        ] {
            for text in texts {
                assert_eq!(resolve(text), expected, "{text}");
            }
        }
    }

    #[test]
    fn what_python_can_not_make_is_unfit() {
        let plain = |text: &str| unfit(text, resolve(text), None);
        for text in [
            "0x_",
            "-0b_",
            "2001-99-99",
            "2001-02-29",
            "1900-02-29",
            "0000-01-01",
            "2001-01-01 24:00:00",
            "2001-01-01 00:60:00",
            "2001-01-01 00:00:60",
            "2001-01-01T00:00:00+24",
            "2001-01-01T00:00:00-23:60",
        ] {
            assert!(plain(text).is_some(), "{text}");
            assert!(unfit(text, type_of(text, false, None), None).is_none(), "{text}");
        }
        assert!(plain(&"9".repeat(4301)).is_some());
        for text in [
            &"9".repeat(4300),
            "0_",
            "2000-02-29",
            "9999-12-31",
            "2001-01-01T00:00:00+23:59",
            "<<",
            "=",
            "08",
            "2001-1-1 1:00:00.",
            "2001-01-01T00:00:00 +00:99",
        ] {
            assert_eq!(plain(text), None, "{text}");
        }
    }

    #[test]
    fn a_tag_asks_for_content_that_fits() {
        let tagged = |name: &str, text: &str| {
            let tag = format!("{TAG_PREFIX}{name}");
            unfit(text, type_of(text, true, Some(&tag)), Some(&tag)).is_some()
        };
        for (name, text) in [
            ("int", "abc"),
            ("int", ""),
            ("int", "-"),
            ("int", "1.5"),
            ("int", "0b2"),
            ("int", "0x"),
            ("float", "a"),
            ("float", "_"),
            ("bool", "a"),
            ("timestamp", "hello"),
            ("binary", "a"),
            ("binary", "ä"),
            ("seq", "a"),
            ("map", ""),
            ("set", "x"),
            ("omap", "x"),
            ("timestamp", "2001-13-1"),
        ] {
            assert!(tagged(name, text), "{name} {text}");
        }
        for (name, text) in [
            ("int", "1"),
            ("int", "+0b1"),
            ("int", "0o7"),
            ("float", "1e3"),
            ("float", "nan"),
            ("float", "-.inf"),
            ("bool", "yEs"),
            ("null", "a"),
            ("str", "1"),
            ("binary", "aGk="),
            ("binary", "aG k=\n=x"),
            ("foo", "a"),
            ("timestamp", "2001-1-1"),
            ("merge", "a"),
            ("float", "1:30.5"),
        ] {
            assert!(!tagged(name, text), "{name} {text}");
        }
        assert!(unfit_collection(true, "tag:yaml.org,2002:str").is_some());
        assert!(unfit_collection(true, "tag:yaml.org,2002:omap").is_some());
        assert!(unfit_collection(false, "tag:yaml.org,2002:map").is_some());
        assert!(unfit_collection(true, "tag:yaml.org,2002:set").is_none());
        assert!(unfit_collection(false, "tag:x").is_none());
    }
}
