//! The types of the elements of arrays.

use std::fmt;

use super::literal::{quoted, tuple};

/// The type of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Datatype {
    /// A number or a string, filled up with NUL.
    Scalar(Scalar),
    /// Fields, packed without gaps.
    Record(Vec<Field>),
    /// Another type, such as a time, in numpy's notation.
    Other(String),
}

/// A number or a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the standard's names
pub enum Scalar {
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
    Bool8,
    /// A string of this many bytes.
    Ascii(u64),
    /// A string of this many characters of four bytes.
    Ucs4(u64),
}

/// The kind of a number or string, as numpy's letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)] // their names say it
pub enum ScalarKind {
    Bool = b'b',
    Int = b'i',
    Uint = b'u',
    Float = b'f',
    Complex = b'c',
    Ascii = b'S',
    Ucs4 = b'U',
}

impl Scalar {
    /// All numbers.
    const NUMBERS: [Self; 14] = [
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Uint8,
        Self::Uint16,
        Self::Uint32,
        Self::Uint64,
        Self::Float16,
        Self::Float32,
        Self::Float64,
        Self::Complex64,
        Self::Complex128,
        Self::Bool8,
    ];

    /// Returns the standard's name, the kind, and the length: in characters of a `ucs4`, in bytes of all others.
    const fn facts(self) -> (&'static str, ScalarKind, u64) {
        match self {
            Self::Int8 => ("int8", ScalarKind::Int, 1),
            Self::Int16 => ("int16", ScalarKind::Int, 2),
            Self::Int32 => ("int32", ScalarKind::Int, 4),
            Self::Int64 => ("int64", ScalarKind::Int, 8),
            Self::Uint8 => ("uint8", ScalarKind::Uint, 1),
            Self::Uint16 => ("uint16", ScalarKind::Uint, 2),
            Self::Uint32 => ("uint32", ScalarKind::Uint, 4),
            Self::Uint64 => ("uint64", ScalarKind::Uint, 8),
            Self::Float16 => ("float16", ScalarKind::Float, 2),
            Self::Float32 => ("float32", ScalarKind::Float, 4),
            Self::Float64 => ("float64", ScalarKind::Float, 8),
            Self::Complex64 => ("complex64", ScalarKind::Complex, 8),
            Self::Complex128 => ("complex128", ScalarKind::Complex, 16),
            Self::Bool8 => ("bool8", ScalarKind::Bool, 1),
            Self::Ascii(len) => ("ascii", ScalarKind::Ascii, len),
            Self::Ucs4(len) => ("ucs4", ScalarKind::Ucs4, len),
        }
    }

    /// Returns the number with the standard's name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NUMBERS.into_iter().find(|number| number.facts().0 == name)
    }

    /// Returns the number with numpy's letter for its kind, and a size in bytes.
    pub fn of_letter(letter: u8, size: u64) -> Option<Self> {
        Self::NUMBERS.into_iter().find(|number| (number.kind() as u8, number.facts().2) == (letter, size))
    }

    /// Returns the number of a kind and a size in bytes.
    pub fn number(kind: ScalarKind, size: u64) -> Option<Self> {
        Self::of_letter(kind as u8, size)
    }

    /// Returns the standard's name of the type, without the length of a string.
    pub const fn name(self) -> &'static str {
        self.facts().0
    }

    /// Returns the kind.
    pub fn kind(self) -> ScalarKind {
        self.facts().1
    }

    /// Returns the kind and the length: in characters of a `ucs4`, in bytes of all others.
    pub fn kind_and_len(self) -> (ScalarKind, u64) {
        let (_, kind, len) = self.facts();
        (kind, len)
    }

    /// Returns the size of an element in bytes; `None` on overflow.
    pub fn size(self) -> Option<u64> {
        let (_, kind, len) = self.facts();
        if kind == ScalarKind::Ucs4 { len.checked_mul(4) } else { Some(len) }
    }

    /// Returns the range of an integer type; `None` for other types.
    pub fn range(self) -> Option<(i128, i128)> {
        let (_, kind, size) = self.facts();
        match kind {
            ScalarKind::Int => Some((-(1 << (8 * size - 1)), (1 << (8 * size - 1)) - 1)),
            ScalarKind::Uint => Some((0, (1 << (8 * size)) - 1)),
            _ => None,
        }
    }

    /// True if the order of an element's bytes matters.
    pub(crate) fn has_order(self) -> bool {
        let (_, kind, len) = self.facts();
        kind == ScalarKind::Ucs4 || kind != ScalarKind::Ascii && len > 1
    }

    /// Returns the type in numpy's notation: `<f4`.
    pub fn in_numpy(self, byteorder: ByteOrder) -> String {
        let (_, kind, len) = self.facts();
        let order = match byteorder {
            _ if !self.has_order() => '|',
            ByteOrder::Little => '<',
            ByteOrder::Big => '>',
        };
        format!("{order}{}{len}", char::from(kind as u8))
    }
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The title, which numpy allows besides the name.
    pub title: Option<String>,
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
    /// Returns the type as the `descr` of a `.npy` header, a Python literal.
    pub fn descr(&self, byteorder: ByteOrder) -> String {
        match self {
            Self::Scalar(scalar) => format!("'{}'", scalar.in_numpy(byteorder)),
            Self::Record(fields) => {
                format!("[{}]", fields.iter().map(Field::descr).collect::<Vec<_>>().join(", "))
            }
            Self::Other(name) => format!("'{name}'"),
        }
    }

    /// Returns the size of an element in bytes; `None` if it is unknown, or overflows.
    pub fn size(&self) -> Option<u64> {
        Some(match self {
            Self::Record(fields) => fields.iter().try_fold(0_u64, |sum, field| {
                let count = field.shape.iter().try_fold(1_u64, |count, len| count.checked_mul(*len))?;
                sum.checked_add(field.datatype.size()?.checked_mul(count)?)
            })?,
            Self::Other(name) => {
                let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
                let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
                digits.get(..end)?.parse().ok()?
            }
            Self::Scalar(scalar) => scalar.size()?,
        })
    }

    /// Returns the type of a number or a string.
    pub fn scalar(&self) -> Option<Scalar> {
        match self {
            Self::Scalar(scalar) => Some(*scalar),
            Self::Record(_) | Self::Other(_) => None,
        }
    }
}

impl Field {
    fn descr(&self) -> String {
        let name = match &self.title {
            Some(title) => format!("({}, {})", quoted(title), quoted(&self.name)),
            None => quoted(&self.name),
        };
        let descr = self.datatype.descr(self.byteorder);
        match &self.shape[..] {
            [] => format!("({name}, {descr})"),
            shape => format!("({name}, {descr}, {})", tuple(shape)),
        }
    }
}

impl From<Scalar> for Datatype {
    fn from(scalar: Scalar) -> Self {
        Self::Scalar(scalar)
    }
}

impl fmt::Display for Datatype {
    /// Writes the standard's name.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(Scalar::Ascii(len)) => write!(out, "[ascii, {len}]"),
            Self::Scalar(Scalar::Ucs4(len)) => write!(out, "[ucs4, {len}]"),
            Self::Scalar(scalar) => out.write_str(scalar.name()),
            Self::Other(name) => out.write_str(name),
            Self::Record(fields) => {
                let fields = fields.iter().map(|field| format!("{}: {}", field.name, field.datatype));
                write!(out, "{{{}}}", fields.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_found_by_name_and_by_kind_and_size() {
        for number in Scalar::NUMBERS {
            let (kind, size) = number.kind_and_len();
            assert_eq!(Scalar::named(number.name()), Some(number));
            assert_eq!(Scalar::number(kind, size), Some(number));
            let datatype = Datatype::from(number);
            assert_eq!((datatype.scalar(), datatype.size()), (Some(number), Some(size)));
            assert_eq!(datatype.to_string(), number.name());
        }
        assert_eq!(Scalar::Int8.range(), Some((-128, 127)));
        assert_eq!(Scalar::Uint64.range(), Some((0, u64::MAX.into())));
    }

    #[test]
    fn types_are_written_in_both_notations() {
        let field = |title: Option<&str>, name: &str, datatype, shape: &[u64]| Field {
            title: title.map(str::to_owned),
            name: name.to_owned(),
            datatype,
            byteorder: ByteOrder::Big,
            shape: shape.to_vec(),
        };
        let inner = Datatype::Record(vec![field(None, "x", Datatype::Scalar(Scalar::Uint8), &[])]);
        let fields = [
            field(None, "it's", Datatype::Scalar(Scalar::Float32), &[]),
            field(Some("t"), "n", inner, &[2, 3]),
            field(None, "u", Datatype::Scalar(Scalar::Ucs4(2)), &[1]),
        ];
        for (datatype, shown, descr, size) in [
            (Datatype::Scalar(Scalar::Complex128), "complex128", "'>c16'", Some(16)),
            (Datatype::Scalar(Scalar::Bool8), "bool8", "'|b1'", Some(1)),
            (Datatype::Scalar(Scalar::Ascii(5)), "[ascii, 5]", "'|S5'", Some(5)),
            (
                Datatype::Scalar(Scalar::Ucs4(1 << 62)),
                "[ucs4, 4611686018427387904]",
                "'>U4611686018427387904'",
                None,
            ),
            (Datatype::Other("<M8[ns]".to_owned()), "<M8[ns]", "'<M8[ns]'", Some(8)),
            (Datatype::Other("|V3".to_owned()), "|V3", "'|V3'", Some(3)),
            (
                Datatype::Record(fields.to_vec()),
                "{it's: float32, n: {x: uint8}, u: [ucs4, 2]}",
                r#"[("it's", '>f4'), (('t', 'n'), [('x', '|u1')], (2, 3)), ('u', '>U2', (1,))]"#,
                Some(18),
            ),
        ] {
            assert_eq!((&*datatype.to_string(), &*datatype.descr(ByteOrder::Big)), (shown, descr));
            assert_eq!(datatype.size(), size, "{descr}");
        }
    }
}
