//! Converts a scalar written in the tree to the bytes of an element, as Python and then numpy do.

use asdf_tree::yaml::scalar::{self, Type};
use asdf_tree::yaml::survey::leaves::is_complex;

use super::super::ndarray::{ByteOrder, Scalar, complex, with_j};
use crate::array::half;

/// The value of a scalar in the tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'t> {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Complex(f64, f64),
    Text(&'t str),
}

impl<'t> Value<'t> {
    /// Reads a scalar as Python asdf does; `None` for a date, binary data or an invalid number.
    pub(super) fn of(text: &'t str, plain: bool, tag: Option<&str>) -> Option<Self> {
        match scalar::type_of(text, plain, tag) {
            Type::Null => Some(Self::Null),
            Type::Bool => scalar::boolean(&text.to_ascii_lowercase()).map(Self::Bool),
            Type::Int => {
                scalar::integer(text).map(Self::Int).or_else(|| scalar::float(text).map(Self::Float))
            }
            Type::Float => scalar::float(text).map(Self::Float),
            Type::Timestamp | Type::Binary => None,
            Type::Other if is_complex(tag) => {
                let (re, im) = complex(&with_j(text))?;
                Some(Self::Complex(re, im))
            }
            Type::Merge | Type::Value | Type::Str | Type::Other => Some(Self::Text(text)),
        }
    }

    /// Appends the element to `out`, converted as numpy does; `None` if it can't be converted.
    pub(super) fn write(self, scalar: Scalar, byteorder: ByteOrder, out: &mut Vec<u8>) -> Option<()> {
        let mut put = |bytes: &[u8]| match byteorder {
            ByteOrder::Little => out.extend_from_slice(bytes),
            ByteOrder::Big => out.extend(bytes.iter().rev()),
        };
        match scalar {
            Scalar::Bool8 => put(&[u8::from(self.is_true())]),
            Scalar::Float16 => put(&half(self.float()?).to_le_bytes()),
            Scalar::Float32 => put(&(self.float()? as f32).to_le_bytes()),
            Scalar::Float64 => put(&self.float()?.to_le_bytes()),
            Scalar::Complex64 => {
                let (re, im) = self.complex()?;
                put(&(re as f32).to_le_bytes());
                put(&(im as f32).to_le_bytes());
            }
            Scalar::Complex128 => {
                let (re, im) = self.complex()?;
                put(&re.to_le_bytes());
                put(&im.to_le_bytes());
            }
            Scalar::Ascii(len) => {
                let text = self.text();
                let len = usize::try_from(len).ok()?;
                let bytes = text.as_bytes();
                let end = out.len().checked_add(len)?;
                out.extend_from_slice(bytes.get(..len).unwrap_or(bytes));
                out.resize(end, 0);
            }
            Scalar::Ucs4(len) => {
                let text = self.text();
                let mut chars = text.chars();
                for _ in 0..len {
                    put(&chars.next().map_or(0, u32::from).to_le_bytes());
                }
            }
            _ => {
                let (least, greatest) = scalar.range()?;
                let value = self.integer().filter(|value| (least..=greatest).contains(value))?;
                put(value.to_le_bytes().get(..usize::try_from(scalar.size()?).ok()?)?);
            }
        }
        Some(())
    }

    fn is_true(self) -> bool {
        match self {
            Self::Null => false,
            Self::Bool(value) => value,
            Self::Int(value) => value != 0,
            Self::Float(value) => value != 0.0,
            Self::Complex(re, im) => re != 0.0 || im != 0.0,
            Self::Text(text) => !text.is_empty(),
        }
    }

    fn integer(self) -> Option<i128> {
        match self {
            Self::Null => Some(0),
            Self::Bool(value) => Some(value.into()),
            Self::Int(value) => Some(value),
            Self::Float(value) => value.is_finite().then_some(value as i128),
            Self::Complex(..) => None,
            Self::Text(text) => text.trim().replace('_', "").parse().ok(),
        }
    }

    fn float(self) -> Option<f64> {
        match self {
            Self::Null => Some(0.0),
            Self::Bool(value) => Some(value.into()),
            Self::Int(value) => Some(value as f64),
            Self::Float(value) => Some(value),
            Self::Complex(..) => None,
            Self::Text(text) => text.trim().replace('_', "").parse().ok(),
        }
    }

    pub(super) fn complex(self) -> Option<(f64, f64)> {
        match self {
            Self::Complex(re, im) => Some((re, im)),
            Self::Text(text) => complex(text),
            other => Some((other.float()?, 0.0)),
        }
    }

    /// Formats the value as Python's `str` does.
    fn text(self) -> String {
        match self {
            Self::Null => "0".to_owned(),
            Self::Bool(value) => if value { "True" } else { "False" }.to_owned(),
            Self::Int(value) => value.to_string(),
            Self::Float(value) => {
                let text = shortest(value);
                let is_whole = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
                if is_whole { format!("{text}.0") } else { text }
            }
            Self::Complex(re, im) if re == 0.0 && re.is_sign_positive() => format!("{}j", shortest(im)),
            Self::Complex(re, im) => {
                let sign = if im.is_nan() || im.is_sign_positive() { "+" } else { "" };
                format!("({}{sign}{}j)", shortest(re), shortest(im))
            }
            Self::Text(text) => text.to_owned(),
        }
    }
}

/// Formats a number with the shortest digits that parse back to it, as Python's `repr` does, but without a
/// final `.0`.
fn shortest(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..16).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str, plain: bool, scalar: Scalar) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        Value::of(text, plain, None)?.write(scalar, ByteOrder::Little, &mut out)?;
        Some(out)
    }

    #[test]
    fn scalars_are_converted_as_numpy_does() {
        for (text, plain, scalar, expected) in [
            ("1", true, Scalar::Int16, &[1, 0][..]),
            ("-1.7", true, Scalar::Int8, &[255]),
            ("0x10", true, Scalar::Uint8, &[16]),
            ("12", false, Scalar::Int8, &[12]),
            ("yes", true, Scalar::Int8, &[1]),
            ("yes", false, Scalar::Bool8, &[1]),
            ("", false, Scalar::Bool8, &[0]),
            ("~", true, Scalar::Uint8, &[0]),
            ("1", true, Scalar::Float32, &[0, 0, 128, 63]),
            ("65520", true, Scalar::Float16, &[0, 0x7c]),
            ("abc", true, Scalar::Ascii(2), b"ab"),
            ("1.5", true, Scalar::Ascii(5), b"1.5\0\0"),
            ("true", true, Scalar::Ascii(5), b"True\0"),
            ("é", true, Scalar::Ucs4(2), &[233, 0, 0, 0, 0, 0, 0, 0]),
            ("1+2j", true, Scalar::Complex64, &[0, 0, 128, 63, 0, 0, 0, 64]),
        ] {
            assert_eq!(written(text, plain, scalar).as_deref(), Some(expected), "{text} as {scalar:?}");
        }
        for (text, scalar) in
            [("300", Scalar::Int8), ("a", Scalar::Float64), ("2001-01-01", Scalar::Ascii(9))]
        {
            assert_eq!(written(text, true, scalar), None, "{text} as {scalar:?}");
        }
    }

    #[test]
    fn floats_are_written_as_python_writes_them() {
        for (value, expected) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (1e16, "1e+16"),
            (1e15, "1000000000000000.0"),
            (1e-4, "0.0001"),
            (1.5e-5, "1.5e-05"),
            (0.1, "0.1"),
            (f64::NAN, "nan"),
            (1e300, "1e+300"),
        ] {
            assert_eq!(Value::Float(value).text(), expected);
        }
        assert_eq!(Value::Complex(0.0, 1.0).text(), "1j");
        assert_eq!(Value::Complex(1.0, -2.5).text(), "(1-2.5j)");
    }

    #[test]
    fn halves_are_rounded_to_even() {
        for (value, expected) in [
            (0.0, 0),
            (-0.0, 0x8000),
            (1.0, 0x3c00),
            (65_519.99, 0x7bff),
            (65_520.0, 0x7c00),
            (2.0_f64.powi(-24), 1),
            (2.0_f64.powi(-25), 0),
            (1.5 * 2.0_f64.powi(-24), 2),
            (1.0 + 2.0_f64.powi(-11), 0x3c00),
            (1.0 + 3.0 * 2.0_f64.powi(-11), 0x3c02),
            (2.0 - 2.0_f64.powi(-12), 0x4000),
            (2.0_f64.powi(-14), 0x400),
            (2.0_f64.powi(-14) - 2.0_f64.powi(-26), 0x400),
        ] {
            assert_eq!(half(value), expected, "{value}");
        }
    }
}
