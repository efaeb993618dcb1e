//! Elements of arrays as numbers.

use super::ndarray::{Byteorder, Scalar};

/// What makes a number of an element.
pub(super) type ToNumber = fn(&[u8]) -> f64;

/// What makes a number of an element of a type; of a complex number its absolute value. `None` for a text.
pub(super) fn to_number(scalar: Scalar, byteorder: Byteorder) -> Option<ToNumber> {
    /// A number from bytes; those of an element always have its length.
    macro_rules! number {
        ($type:ty, $make:expr) => {
            match byteorder {
                Byteorder::Little => |bytes| {
                    $make(bytes.try_into().map_or_else(|_| Default::default(), <$type>::from_le_bytes))
                },
                Byteorder::Big => |bytes| {
                    $make(bytes.try_into().map_or_else(|_| Default::default(), <$type>::from_be_bytes))
                },
            }
        };
    }
    /// The absolute value of two numbers.
    macro_rules! absolute {
        ($type:ty, $read:ident) => {
            |bytes| {
                let (real, imaginary) = bytes.split_at(bytes.len() / 2);
                let part = |bytes: &[u8]| -> f64 {
                    bytes.try_into().map_or_else(|_| Default::default(), <$type>::$read).into()
                };
                part(real).hypot(part(imaginary))
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
            Byteorder::Little => absolute!(f32, from_le_bytes),
            Byteorder::Big => absolute!(f32, from_be_bytes),
        },
        Scalar::Complex128 => match byteorder {
            Byteorder::Little => absolute!(f64, from_le_bytes),
            Byteorder::Big => absolute!(f64, from_be_bytes),
        },
        Scalar::Ascii(_) | Scalar::Ucs4(_) => return None,
    })
}

/// The number that sixteen bits stand for (IEEE 754 binary16).
pub(super) fn float16(bits: u16) -> f32 {
    let sign = u32::from(bits >> 15) << 31;
    let (exponent, fraction) = (u32::from(bits >> 10 & 0x1f), u32::from(bits & 0x3ff));
    match exponent {
        0 => {
            // 2^-24 times the fraction, which a float32 holds exactly.
            let number = fraction as f32 * f32::from_bits(103 << 23);
            f32::from_bits(number.to_bits() | sign)
        }
        31 => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_the_numbers_that_they_stand_for() {
        let number = |scalar, byteorder, bytes: &[u8]| to_number(scalar, byteorder).unwrap()(bytes);
        assert_eq!(number(Scalar::Int16, Byteorder::Big, &[0xff, 0xfe]), -2.0);
        assert_eq!(number(Scalar::Uint16, Byteorder::Little, &[0xff, 0xfe]), 65_279.0);
        assert_eq!(number(Scalar::Float32, Byteorder::Big, &1.5_f32.to_be_bytes()), 1.5);
        assert_eq!(number(Scalar::Bool8, Byteorder::Big, &[7]), 1.0);
        let complex = [3_f32.to_be_bytes(), 4_f32.to_be_bytes()].concat();
        assert_eq!(number(Scalar::Complex64, Byteorder::Big, &complex), 5.0);
        assert!(to_number(Scalar::Ascii(3), Byteorder::Big).is_none());
    }

    /// As `numpy.array([bits], '<u2').view('<f2')` has them.
    #[test]
    fn sixteen_bits_are_the_floats_of_numpy() {
        let expected = [
            (0x0000, 0.0),
            (0x8000, -0.0),
            (0x0001, 5.960_464_5e-8),
            (0x03ff, 6.097_555e-5),
            (0x0400, 6.103_515_6e-5),
            (0x3c00, 1.0),
            (0xc248, -3.140_625),
            (0x7bff, 65_504.0),
            (0x7c00, f32::INFINITY),
            (0xfc00, f32::NEG_INFINITY),
        ];
        for (bits, value) in expected {
            assert_eq!(float16(bits).to_bits(), f32::to_bits(value), "{bits:#x}");
        }
        assert!(float16(0x7e00).is_nan());
    }
}
