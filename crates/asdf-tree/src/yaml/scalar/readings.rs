//! Values that readers of different YAML versions give to the same plain scalar.
//!
//! Python asdf reads a tree with PyYAML, which follows YAML 1.1 except for `y` and `n`. Tools that follow
//! another version read `no`, `0o17` or `190:20:30` as another value, and write that value.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Type, boolean, integer};

/// Hashes of the values of a scalar: in PyYAML, in YAML 1.2, and in strict YAML 1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readings {
    python: u64,
    others: [u64; 2],
}

/// A value, independent of its spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ScalarReading<'t> {
    Null,
    Bool(bool),
    Int(i128),
    /// The bits of a non-integral number.
    Float(u64),
    Text(&'t str),
    /// A value of any other type: the type and the text.
    Other(u8, &'t str),
}

impl ScalarReading<'_> {
    fn hashed(self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

impl Readings {
    /// Reads a plain scalar without a tag that has the type `looks` in PyYAML; `None` if all readers agree.
    pub fn of(text: &str, looks: Type) -> Option<Self> {
        if !may_differ(text, looks) {
            return None;
        }
        let by_python = python(text, looks);
        let others = [core(text), strict(text).unwrap_or(by_python)];
        others
            .iter()
            .any(|other| *other != by_python)
            .then(|| Self { python: by_python.hashed(), others: others.map(ScalarReading::hashed) })
    }

    /// True if the scalar `text` has in PyYAML, with type `looks`, a value that only readers of another YAML
    /// version give to the scalar of these readings.
    pub fn became(&self, text: &str, looks: Type) -> bool {
        let now = reading(text, looks);
        now != self.python && self.others.contains(&now)
    }

    /// Returns the hashes that differ from PyYAML's.
    pub fn others(&self) -> impl Iterator<Item = u64> {
        self.others.into_iter().filter(|other| *other != self.python)
    }
}

/// Returns a hash of the value in PyYAML of a scalar of type `looks`.
pub fn reading(text: &str, looks: Type) -> u64 {
    python(text, looks).hashed()
}

/// Returns a hash that is equal for keys that are equal in Python, such as `1`, `1.0` and `true`.
pub fn key(text: &str, looks: Type) -> u64 {
    match python(text, looks) {
        ScalarReading::Bool(value) => ScalarReading::Int(value.into()).hashed(),
        value => value.hashed(),
    }
}

/// True if readers may give a scalar different values. Recognises most scalars on which all readers agree,
/// without parsing them.
fn may_differ(text: &str, looks: Type) -> bool {
    match looks {
        Type::Bool => !text.eq_ignore_ascii_case("true") && !text.eq_ignore_ascii_case("false"),
        Type::Int => {
            let digits = text.trim_start_matches(['+', '-']);
            (digits.len() > 1 && digits.starts_with('0')) || !digits.bytes().all(|b| b.is_ascii_digit())
        }
        Type::Float => text.contains(['_', ':']),
        Type::Timestamp => true,
        Type::Str => match text.as_bytes() {
            [b'y' | b'Y' | b'n' | b'N'] => true,
            [b'0'..=b'9' | b'+' | b'-' | b'.', ..] => number(text).is_some(),
            _ => false,
        },
        _ => false,
    }
}

/// Reads a scalar of this type as PyYAML does.
fn python(text: &str, looks: Type) -> ScalarReading<'_> {
    let value = match looks {
        Type::Null => Some(ScalarReading::Null),
        Type::Bool => boolean(text).map(ScalarReading::Bool),
        Type::Int => integer(text).map(ScalarReading::Int),
        Type::Float => float(text),
        Type::Str => Some(ScalarReading::Text(text)),
        _ => None,
    };
    value.unwrap_or(ScalarReading::Other(looks as u8, text))
}

/// Reads a plain scalar by the core schema of YAML 1.2.
fn core(text: &str) -> ScalarReading<'_> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => ScalarReading::Null,
        "true" | "True" | "TRUE" => ScalarReading::Bool(true),
        "false" | "False" | "FALSE" => ScalarReading::Bool(false),
        _ => number(text).unwrap_or(ScalarReading::Text(text)),
    }
}

/// Parses a number as YAML 1.2 does.
fn number(text: &str) -> Option<ScalarReading<'_>> {
    for (prefix, base) in [("0o", 8), ("0x", 16)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            let are_digits = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(base));
            return are_digits
                .then(|| i128::from_str_radix(digits, base).ok().map(ScalarReading::Int))
                .flatten();
        }
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    match digits {
        ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN" => return float(text),
        // Rust also parses words such as `inf`.
        _ if !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') => return None,
        _ => {}
    }
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().ok().map(ScalarReading::Int)
    } else {
        text.parse().ok().map(of_float)
    }
}

/// Reads a scalar by strict YAML 1.1; `None` if PyYAML agrees.
fn strict(text: &str) -> Option<ScalarReading<'_>> {
    match text {
        "y" | "Y" => Some(ScalarReading::Bool(true)),
        "n" | "N" => Some(ScalarReading::Bool(false)),
        _ => None,
    }
}

fn float(text: &str) -> Option<ScalarReading<'static>> {
    super::float(text).map(of_float)
}

fn of_float(value: f64) -> ScalarReading<'static> {
    /// Beyond 2^53, not every integer is a float.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        ScalarReading::Int(value as i128)
    } else {
        ScalarReading::Float(value.to_bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::scalar::type_of;

    fn became(old: &str, new: &str, plain: bool) -> bool {
        Readings::of(old, type_of(old, true, None))
            .is_some_and(|readings| readings.became(new, type_of(new, plain, None)))
    }

    #[test]
    fn what_tools_make_of_scalars_is_known() {
        for (old, new, plain) in [
            ("y", "true", true),
            ("Y", "true", true),
            ("n", "false", true),
            ("yes", "yes", false),
            ("No", "No", false),
            ("on", "on", false),
            ("OFF", "OFF", false),
            ("0o17", "15", true),
            ("017", "17", true),
            ("-017", "-17", true),
            ("08", "8", true),
            ("190:20:30", "190:20:30", false),
            ("190:20:30.5", "190:20:30.5", false),
            ("1_000", "1_000", false),
            ("0b11", "0b11", false),
            ("1e3", "1000.0", true),
            ("1e3", "1000", true),
            ("1e3", "1.0e+3", true),
            ("-1.5e10", "-15000000000.0", true),
            ("2001-12-14", "2001-12-14", false),
        ] {
            assert!(became(old, new, plain), "{old} {new}");
        }
    }

    #[test]
    fn other_changes_and_no_changes_are_none_of_a_tools() {
        for (old, new, plain) in [
            ("y", "y", true),
            ("y", "y", false),
            ("y", "false", true),
            ("yes", "true", true),
            ("yes", "no", true),
            ("190:20:30", "685230", true),
            ("017", "15", true),
            ("0x1f", "31", true),
            ("1_000", "1000", true),
            ("5", "6", true),
            ("5", "5", false),
            ("true", "true", false),
            ("1.5", "1.5", false),
            ("2.1.0", "2.1.0", false),
            ("infinity", "x", true),
            ("text", "true", true),
        ] {
            assert!(!became(old, new, plain), "{old} {new}");
        }
    }
}
