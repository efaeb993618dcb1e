//! Reads the elements of arrays as numbers.

use super::datatype::{ByteOrder, Scalar, ScalarKind};
use super::recoded::float16;

/// A function that converts an element to a number.
pub type ToNumber = fn(&[u8]) -> f64;

/// Returns a function that converts an element of a type to a number. A complex number becomes its absolute
/// value. `None` for strings.
pub fn to_number(scalar: Scalar, byteorder: ByteOrder) -> Option<ToNumber> {
    /// Reads a number from bytes, whose length is always that of the number.
    macro_rules! number {
        ($type:ty, $make:expr) => {
            match byteorder {
                ByteOrder::Little => |bytes| {
                    $make(bytes.try_into().map_or_else(|_| Default::default(), <$type>::from_le_bytes))
                },
                ByteOrder::Big => |bytes| {
                    $make(bytes.try_into().map_or_else(|_| Default::default(), <$type>::from_be_bytes))
                },
            }
        };
    }
    /// Computes the absolute value of a complex number.
    macro_rules! absolute {
        ($type:ty, $read:ident) => {
            |bytes| {
                let (real, imaginary) = bytes.split_at(bytes.len() / 2);
                let part = |bytes: &[u8]| -> f64 {
                    bytes.try_into().map_or_else(|_| Default::default(), <$type>::$read).into()
                };
                magnitude(part(real), part(imaginary))
            }
        };
    }
    Some(match scalar {
        Scalar::Int8 => number!(i8, f64::from),
        Scalar::Int16 => number!(i16, f64::from),
        Scalar::Int32 => number!(i32, f64::from),
        Scalar::Int64 => number!(i64, |value: i64| value as f64),
        Scalar::Uint8 => number!(u8, f64::from),
        Scalar::Uint16 => number!(u16, f64::from),
        Scalar::Uint32 => number!(u32, f64::from),
        Scalar::Uint64 => number!(u64, |value: u64| value as f64),
        Scalar::Float16 => number!(u16, |bits| f64::from(float16(bits))),
        Scalar::Float32 => number!(f32, f64::from),
        Scalar::Float64 => number!(f64, std::convert::identity),
        Scalar::Bool8 => number!(u8, |value| f64::from(u8::from(value != 0))),
        Scalar::Complex64 => match byteorder {
            ByteOrder::Little => absolute!(f32, from_le_bytes),
            ByteOrder::Big => absolute!(f32, from_be_bytes),
        },
        Scalar::Complex128 => match byteorder {
            ByteOrder::Little => absolute!(f64, from_le_bytes),
            ByteOrder::Big => absolute!(f64, from_be_bytes),
        },
        Scalar::Ascii(_) | Scalar::Ucs4(_) => return None,
    })
}

/// Returns the bits of an element of at most 8 bytes.
pub fn bits(element: &[u8], byteorder: ByteOrder) -> u64 {
    let add = |bits: u64, byte: &u8| bits << 8 | u64::from(*byte);
    match byteorder {
        ByteOrder::Little => element.iter().rev().fold(0, add),
        ByteOrder::Big => element.iter().fold(0, add),
    }
}

/// Returns the value of an integer; `None` if the type is not that of an integer.
pub fn integer(scalar: Scalar, byteorder: ByteOrder, element: &[u8]) -> Option<i128> {
    let (kind, size) = scalar.kind_and_len();
    let bits = bits(element, byteorder);
    match kind {
        ScalarKind::Int => {
            // Sign extension.
            let unused = 64 - 8 * size;
            Some(((bits << unused) as i64 >> unused).into())
        }
        ScalarKind::Uint => Some(bits.into()),
        _ => None,
    }
}

/// Returns the absolute value of a complex number. `f64::hypot` would need glibc 2.35.
fn magnitude(real: f64, imaginary: f64) -> f64 {
    if real.is_infinite() || imaginary.is_infinite() {
        return f64::INFINITY;
    }
    // The squares must neither overflow nor vanish. A power of two scales without rounding.
    let largest = real.abs().max(imaginary.abs());
    let scale = if largest > 1e150 {
        2.0_f64.powi(-600)
    } else if largest < 1e-140 {
        2.0_f64.powi(600)
    } else {
        1.0
    };
    let real = real * scale;
    let imaginary = imaginary * scale;
    (real * real + imaginary * imaginary).sqrt() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_the_numbers_that_they_stand_for() {
        let number = |scalar, byteorder, bytes: &[u8]| to_number(scalar, byteorder).unwrap()(bytes);
        assert_eq!(number(Scalar::Int16, ByteOrder::Big, &[0xff, 0xfe]), -2.0);
        assert_eq!(number(Scalar::Uint16, ByteOrder::Little, &[0xff, 0xfe]), 65_279.0);
        assert_eq!(number(Scalar::Float32, ByteOrder::Big, &1.5_f32.to_be_bytes()), 1.5);
        assert_eq!(number(Scalar::Bool8, ByteOrder::Big, &[7]), 1.0);
        let complex = [3_f32.to_be_bytes(), 4_f32.to_be_bytes()].concat();
        assert_eq!(number(Scalar::Complex64, ByteOrder::Big, &complex), 5.0);
        assert!(to_number(Scalar::Ascii(3), ByteOrder::Big).is_none());
    }
}
