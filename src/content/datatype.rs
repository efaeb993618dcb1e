//! The types of the elements of arrays.

use std::fmt;

use serde_json::Value;

use super::literal;

/// The type of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)] // the standard's names
pub enum Datatype {
    Bool8,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Float16,
    Float32,
    Float64,
    Complex64,
    Complex128,
    /// A string of this many bytes, filled up with NUL.
    Ascii(u64),
    /// A string of this many characters of four bytes, filled up with NUL.
    Ucs4(u64),
    /// Fields, packed without gaps.
    Record(Vec<Field>),
    /// Another type, such as a time, in numpy's notation.
    Other(String),
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Field {
    /// The name.
    pub name: String,
    /// The type.
    pub datatype: Datatype,
    /// The order of the bytes of a number.
    pub byteorder: ByteOrder,
    /// The lengths of its dimensions; empty for a single value.
    pub shape: Vec<u64>,
}

/// The order of the bytes of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// The lowest byte is first. Also the order of bytes and texts, which have none.
    Little,
    /// The highest byte is first.
    Big,
}

impl Datatype {
    /// Parses the `descr` of a `.npy` header.
    pub(crate) fn of_numpy(descr: &str) -> (Self, ByteOrder) {
        let other = || Self::Other(descr.trim_matches('\'').to_owned());
        let value = literal::parse(descr);
        let parsed = value.and_then(|value| Self::of_value(&value));
        parsed.unwrap_or_else(|| (other(), order_of(descr.trim_start_matches('\''))))
    }

    fn of_value(value: &Value) -> Option<(Self, ByteOrder)> {
        if let Some(name) = value.as_str() {
            let datatype = scalar(name).unwrap_or_else(|| Self::Other(name.to_owned()));
            return Some((datatype, order_of(name)));
        }
        let fields = value.as_array()?.iter().map(Field::of_value).collect::<Option<Vec<_>>>()?;
        Some((Self::Record(fields), ByteOrder::Little))
    }

    /// Returns the size of an element in bytes; `None` if it is unknown, or overflows.
    pub fn size(&self) -> Option<u64> {
        Some(match self {
            Self::Bool8 | Self::Int8 | Self::Uint8 => 1,
            Self::Int16 | Self::Uint16 | Self::Float16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float32 => 4,
            Self::Int64 | Self::Uint64 | Self::Float64 | Self::Complex64 => 8,
            Self::Complex128 => 16,
            Self::Ascii(len) => *len,
            Self::Ucs4(len) => len.checked_mul(4)?,
            Self::Record(fields) => fields.iter().try_fold(0_u64, |sum, field| {
                let count = field.shape.iter().try_fold(1_u64, |count, len| count.checked_mul(*len))?;
                sum.checked_add(field.datatype.size()?.checked_mul(count)?)
            })?,
            Self::Other(name) => {
                let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
                let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
                digits.get(..end)?.parse().ok()?
            }
        })
    }
}

impl Field {
    fn of_value(value: &Value) -> Option<Self> {
        let items = value.as_array()?;
        let name = match items.first()? {
            Value::String(name) => name,
            // A title and a name.
            names => names.as_array()?.get(1)?.as_str()?,
        };
        let (datatype, byteorder) = Datatype::of_value(items.get(1)?)?;
        let shape = match items.get(2) {
            None => Vec::new(),
            Some(shape) => shape.as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()?,
        };
        Some(Self { name: name.to_owned(), datatype, byteorder, shape })
    }
}

fn order_of(name: &str) -> ByteOrder {
    if name.starts_with('>') { ByteOrder::Big } else { ByteOrder::Little }
}

/// Returns the type with a name in numpy's notation, such as `<f4`.
fn scalar(name: &str) -> Option<Datatype> {
    let name = name.trim_start_matches(['<', '>', '|', '=']);
    Some(match name {
        "b1" => Datatype::Bool8,
        "i1" => Datatype::Int8,
        "i2" => Datatype::Int16,
        "i4" => Datatype::Int32,
        "i8" => Datatype::Int64,
        "u1" => Datatype::Uint8,
        "u2" => Datatype::Uint16,
        "u4" => Datatype::Uint32,
        "u8" => Datatype::Uint64,
        "f2" => Datatype::Float16,
        "f4" => Datatype::Float32,
        "f8" => Datatype::Float64,
        "c8" => Datatype::Complex64,
        "c16" => Datatype::Complex128,
        _ => match (name.get(..1)?, name.get(1..)?.parse().ok()?) {
            ("S", len) => Datatype::Ascii(len),
            ("U", len) => Datatype::Ucs4(len),
            _ => return None,
        },
    })
}

impl fmt::Display for Datatype {
    /// Writes the standard's name.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ascii(len) => write!(out, "[ascii, {len}]"),
            Self::Ucs4(len) => write!(out, "[ucs4, {len}]"),
            Self::Other(name) => out.write_str(name),
            Self::Record(fields) => {
                let fields = fields.iter().map(|field| format!("{}: {}", field.name, field.datatype));
                write!(out, "{{{}}}", fields.collect::<Vec<_>>().join(", "))
            }
            scalar => out.write_str(&format!("{scalar:?}").to_lowercase()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_npy_headers_are_parsed() {
        for (descr, shown, order, size) in [
            ("'<f4'", "float32", ByteOrder::Little, Some(4)),
            ("'>c16'", "complex128", ByteOrder::Big, Some(16)),
            ("'|b1'", "bool8", ByteOrder::Little, Some(1)),
            ("'|S5'", "[ascii, 5]", ByteOrder::Little, Some(5)),
            ("'>U2'", "[ucs4, 2]", ByteOrder::Big, Some(8)),
            ("'<M8[ns]'", "<M8[ns]", ByteOrder::Little, Some(8)),
            ("'|V3'", "|V3", ByteOrder::Little, Some(3)),
            (
                r#"[("it's", '>f4'), ('b', '<i2', (2, 3)), (('t', 'n'), [('x', '|u1')])]"#,
                "{it's: float32, b: int16, n: {x: uint8}}",
                ByteOrder::Little,
                Some(17),
            ),
            ("'<U4611686018427387904'", "[ucs4, 4611686018427387904]", ByteOrder::Little, None),
            ("nonsense", "nonsense", ByteOrder::Little, None),
        ] {
            let (datatype, byteorder) = Datatype::of_numpy(descr);
            assert_eq!((datatype.to_string().as_str(), byteorder), (shown, order), "{descr}");
            assert_eq!(datatype.size(), size, "{descr}");
        }
    }
}
