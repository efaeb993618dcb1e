//! Conversion of NumPy types from the notation of Bloscpack and Blosc2 to that of `.npy` headers.

use std::fmt::Write;

use serde_json::Value;

use crate::content::literal;
use crate::error::is_unsafe;

/// A data type: its description as a Python literal, and the size of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dtype {
    /// `'<f8'`, or `[('a', '<i4'), ('b', '|S3', (2,))]`.
    pub descr: String,
    /// Size of an element in bytes.
    pub size: u64,
}

/// Maximum dimensions of an array; NumPy allows no more.
const DIMENSIONS: usize = 64;

impl Dtype {
    /// Parses the `dtype` of the metadata: a name, a list of fields, or a text with either in Python syntax.
    /// `None` if it is invalid, or if its elements are more than plain bytes (Python objects).
    pub(crate) fn of(value: &Value) -> Option<Self> {
        let inner;
        let value = match value.as_str() {
            Some(text) if text.starts_with(['\'', '"', '[', '(', 'u']) && text.len() > 1 => {
                // A text such as `uint8` is a type name, not a Python literal.
                inner = literal::parse(text);
                inner.as_ref().unwrap_or(value)
            }
            _ => value,
        };
        let mut descr = String::new();
        let size = whole(value, &mut descr)?;
        Some(Self { descr, size })
    }
}

/// Parses a shape.
pub(crate) fn shape(value: &Value) -> Option<Vec<u64>> {
    match value {
        Value::Number(_) => Some(vec![value.as_u64()?]),
        _ => value
            .as_array()
            .filter(|sizes| sizes.len() <= DIMENSIONS)?
            .iter()
            .map(|size| size.as_u64().filter(|size| *size <= i64::MAX as u64))
            .collect(),
    }
}

/// Returns the number of elements of a shape.
pub(crate) fn elements(shape: &[u64]) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1_u64, |all, size| all.checked_mul(*size))
}

/// Writes a type to `descr` and returns its size.
fn whole(value: &Value, descr: &mut String) -> Option<u64> {
    if let Some(name) = value.as_str() {
        let (order, name, size) = named(name)?;
        let _ = write!(descr, "'{order}{name}'");
        return Some(size);
    }
    let fields = value.as_array().filter(|fields| !fields.is_empty())?;
    let mut size = 0_u64;
    descr.push('[');
    for (n, field) in fields.iter().enumerate() {
        descr.push_str(if n > 0 { ", (" } else { "(" });
        let field = field.as_array()?;
        let (name, kind, sizes) = match &field[..] {
            [name, kind] => (name, kind, None),
            [name, kind, sizes] => (name, kind, Some(shape(sizes)?)),
            _ => return None,
        };
        field_name(name, descr)?;
        descr.push_str(", ");
        let each = whole(kind, descr)?;
        let mut count = 1;
        if let Some(sizes) = sizes {
            count = elements(&sizes)?;
            let list = sizes.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
            let _ = write!(descr, ", ({list}{})", if sizes.len() == 1 { "," } else { "" });
        }
        descr.push(')');
        size = size.checked_add(each.checked_mul(count)?)?;
    }
    descr.push(']');
    Some(size)
}

/// Writes a field's name, or its title and name.
fn field_name(name: &Value, descr: &mut String) -> Option<()> {
    match name {
        Value::String(name) => quoted(name, descr),
        _ => match &name.as_array()?[..] {
            [title, name] => {
                descr.push('(');
                quoted(title.as_str()?, descr);
                descr.push_str(", ");
                quoted(name.as_str()?, descr);
                descr.push(')');
            }
            _ => return None,
        },
    }
    Some(())
}

/// Writes a string as a Python literal.
fn quoted(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            same if same == quote => {
                out.push('\\');
                out.push(same);
            }
            mark if is_unsafe(mark) => {
                // Python's escapes. Writing to a String can't fail.
                let _ = match u32::from(mark) {
                    code @ ..0x100 => write!(out, "\\x{code:02x}"),
                    code @ ..0x1_0000 => write!(out, "\\u{code:04x}"),
                    code => write!(out, "\\U{code:08x}"),
                };
            }
            plain => out.push(plain),
        }
    }
    out.push(quote);
}

/// Returns byte order, name and size of a named type: `<f8`, `|S5`, `<M8[ns]`.
fn named(name: &str) -> Option<(char, &str, u64)> {
    let (order, name) = match name.chars().next()? {
        order @ ('<' | '>' | '|' | '=') => (Some(order), &name[1..]),
        _ => (None, name),
    };
    let kind = name.chars().next()?;
    let (digits, unit) = match name.get(1..)?.find('[') {
        Some(at) => name.get(1..)?.split_at(at),
        None => (name.get(1..)?, ""),
    };
    let plain = !digits.is_empty() && digits.len() <= 9 && digits.bytes().all(|digit| digit.is_ascii_digit());
    let size: u64 = digits.parse().ok().filter(|_| plain)?;
    let is_known = match kind {
        'b' => size == 1,
        'i' | 'u' => matches!(size, 1 | 2 | 4 | 8),
        'f' => matches!(size, 2 | 4 | 8 | 12 | 16),
        'c' => matches!(size, 8 | 16 | 24 | 32),
        'S' | 'V' | 'U' => true,
        'm' | 'M' => size == 8,
        _ => false,
    };
    if !is_known || !(unit.is_empty() || (matches!(kind, 'm' | 'M') && is_unit(unit))) {
        return None;
    }
    let has_order = !matches!(kind, 'S' | 'V') && size > 1 || kind == 'U';
    let order = match order {
        Some(order @ ('<' | '>')) if has_order => order,
        Some('>' | '<' | '|') if !has_order => '|',
        Some('=') | None => {
            if has_order {
                '<'
            } else {
                '|'
            }
        }
        _ => return None,
    };
    let size = if kind == 'U' { size * 4 } else { size };
    Some((order, name, size))
}

/// True for a unit of time: `[ns]`, `[25s]`.
fn is_unit(unit: &str) -> bool {
    const UNITS: [&str; 13] = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"];
    let Some(unit) = unit.strip_prefix('[').and_then(|unit| unit.strip_suffix(']')) else { return false };
    let digits = unit.len() - unit.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
    digits <= 9 && UNITS.contains(&&unit[digits..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<(String, u64)> {
        Dtype::of(&literal::parse(text)?).map(|dtype| (dtype.descr, dtype.size))
    }

    #[test]
    fn both_spellings_are_known() {
        for (text, descr, size) in [
            (r#""<f8""#, "'<f8'", 8),
            (r#""'<f8'""#, "'<f8'", 8),
            (r#""'|b1'""#, "'|b1'", 1),
            (r#""u1""#, "'|u1'", 1),
            (r#""'<M8[ns]'""#, "'<M8[ns]'", 8),
            (r#""'<U3'""#, "'<U3'", 12),
            (r#""|S0""#, "'|S0'", 0),
            (r#"[["a","<i4"],["b","<f8"],["c","|S3"]]"#, "[('a', '<i4'), ('b', '<f8'), ('c', '|S3')]", 15),
            (r#""[('a', '<i4', (2, 3)), ('b', '|V2')]""#, "[('a', '<i4', (2, 3)), ('b', '|V2')]", 26),
            (
                r#""[('a', [('x', '>i2'), ('y', '|u1')], (2,))]""#,
                "[('a', [('x', '>i2'), ('y', '|u1')], (2,))]",
                6,
            ),
            (r#""[(('title', \"it's\"), '<f4')]""#, "[(('title', \"it's\"), '<f4')]", 4),
        ] {
            assert_eq!(of(text), Some((descr.to_owned(), size)), "{text}");
        }
    }

    #[test]
    fn what_is_no_type_of_plain_bytes_is_refused() {
        for text in [
            r#""|O""#,
            r#""'|O8'""#,
            r#""<f3""#,
            r#""<i4[ns]""#,
            r#""<M8[x]""#,
            r#""""#,
            r#""<""#,
            "[]",
            "[[]]",
            "3",
            r#"[["a"]]"#,
            r#"[["a","<i4",[-1]]]"#,
            r#""[('a', '<i4')""#,
            r#""__import__('os')""#,
            r#"[["a",3]]"#,
            r#"[["a","<i4",[4294967296,4294967296]]]"#,
            r#""<f99999999999""#,
            r#"["<f8"]"#,
            r#""é""#,
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn shapes_are_sizes() {
        let shape_of = |text| shape(&literal::parse(text).unwrap());
        assert_eq!(shape_of("[]"), Some(vec![]));
        assert_eq!(shape_of("(3, 4)"), Some(vec![3, 4]));
        assert_eq!(
            [shape_of("[-1]"), shape_of("['a']"), shape_of(&format!("{:?}", [1; 65]))],
            [None, None, None]
        );
        assert_eq!(elements(&[]), Some(1));
        assert_eq!(elements(&[u64::MAX, 0, u64::MAX]), Some(0));
        assert_eq!(elements(&[1 << 40, 1 << 40]), None);
    }
}
