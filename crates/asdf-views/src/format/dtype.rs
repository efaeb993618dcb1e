//! NumPy types in the notation of Bloscpack and Blosc2.

use asdf_file::array::{ByteOrder, Datatype, Field, Scalar, literal};
use serde_json::Value;

/// Maximum dimensions of an array; NumPy allows no more.
const DIMENSIONS: usize = 64;

/// Parses the `dtype` of the metadata: a name, a list of fields, or a text with either in Python syntax.
/// `None` if it is invalid, or if its elements are more than plain bytes (Python objects).
pub(crate) fn dtype(value: &Value) -> Option<(Datatype, ByteOrder)> {
    let inner;
    let value = match value.as_str() {
        Some(text) if text.starts_with(['\'', '"', '[', '(', 'u']) && text.len() > 1 => {
            // A text such as `uint8` is a type name, not a Python literal.
            inner = literal::parse(text);
            inner.as_ref().unwrap_or(value)
        }
        _ => value,
    };
    whole(value).filter(|(datatype, _)| datatype.size().is_some())
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

fn whole(value: &Value) -> Option<(Datatype, ByteOrder)> {
    if let Some(name) = value.as_str() {
        return named(name);
    }
    let fields = value.as_array().filter(|fields| !fields.is_empty())?;
    let fields = fields.iter().map(field).collect::<Option<Vec<_>>>()?;
    Some((Datatype::Record(fields), ByteOrder::Little))
}

fn field(value: &Value) -> Option<Field> {
    let (names, kind, shape) = match &value.as_array()?[..] {
        [names, kind] => (names, kind, Vec::new()),
        [names, kind, sizes] => (names, kind, shape(sizes)?),
        _ => return None,
    };
    let (title, name) = match names.as_array().map(Vec::as_slice) {
        Some([title, name]) => (Some(title.as_str()?.to_owned()), name),
        _ => (None, names),
    };
    let (datatype, byteorder) = whole(kind)?;
    Some(Field { title, name: name.as_str()?.to_owned(), datatype, byteorder, shape })
}

/// Returns a named type: `<f8`, `|S5`, `<M8[ns]`.
fn named(name: &str) -> Option<(Datatype, ByteOrder)> {
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
    let has_unit = matches!(kind, 'm' | 'M') && is_unit(unit);
    let datatype = match (kind, size) {
        _ if !unit.is_empty() && !has_unit => return None,
        ('S', _) => Some(Datatype::Scalar(Scalar::Ascii(size))),
        ('U', _) => Some(Datatype::Scalar(Scalar::Ucs4(size))),
        ('V', _) | ('f', 12 | 16) | ('c', 24 | 32) | ('m' | 'M', 8) => None,
        _ => Some(Scalar::of_letter(u8::try_from(kind).ok()?, size)?.into()),
    };
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
    let byteorder = if order == '>' { ByteOrder::Big } else { ByteOrder::Little };
    Some((datatype.unwrap_or_else(|| Datatype::Other(format!("{order}{name}"))), byteorder))
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
        let (datatype, byteorder) = dtype(&literal::parse(text)?)?;
        Some((datatype.descr(byteorder), datatype.size()?))
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
