//! Conversion between number types, as in NumPy assignment: floats are truncated to integers. A number out of
//! the range of the new type is an error.

use asdf_file::array::{ByteOrder, Scalar, numbers};
use seekable::error::{Error, Result};

/// A number of any type.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Integer(i128),
    Float(f64),
}

/// Appends the numbers in `bytes`, of type `from`, to `out` as numbers of type `to`. Neither type is
/// `character`.
///
/// # Errors
/// A number is out of range of type `to`.
pub(super) fn convert(bytes: &[u8], from: Scalar, to: Scalar, out: &mut Vec<u8>) -> Result<()> {
    let size = |scalar: Scalar| scalar.size().unwrap_or(1) as usize;
    for element in bytes.chunks_exact(size(from)) {
        let number = read(element, from);
        match to {
            Scalar::Float32 => out.extend(float32(number).to_le_bytes()),
            Scalar::Float64 => out.extend(float64(number).to_le_bytes()),
            _ => {
                let fits =
                    |integer: &i128| to.range().is_some_and(|(least, most)| (least..=most).contains(integer));
                let integer = integer(number).filter(fits);
                let integer = integer.ok_or_else(|| {
                    Error::unsupported(format!(
                        "the type that the number has in frame 0 can't hold {}",
                        float64(number)
                    ))
                })?;
                out.extend(&integer.to_le_bytes()[..size(to)]);
            }
        }
    }
    Ok(())
}

fn read(element: &[u8], scalar: Scalar) -> Number {
    let bits = numbers::bits(element, ByteOrder::Little);
    match scalar {
        Scalar::Float32 => Number::Float(f32::from_bits(bits as u32).into()),
        Scalar::Float64 => Number::Float(f64::from_bits(bits)),
        _ => Number::Integer(numbers::integer(scalar, ByteOrder::Little, element).unwrap_or_default()),
    }
}

fn integer(number: Number) -> Option<i128> {
    match number {
        Number::Integer(number) => Some(number),
        Number::Float(number) => number.is_finite().then_some(number as i128),
    }
}

fn float64(number: Number) -> f64 {
    match number {
        Number::Integer(number) => number as f64,
        Number::Float(number) => number,
    }
}

/// Converts to float32 with one rounding: by way of float64 there would be two.
fn float32(number: Number) -> f32 {
    match number {
        Number::Integer(number) => number as f32,
        Number::Float(number) => number as f32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::gsd::entry::IndexEntry;

    fn converted(bytes: &[u8], from: u8, to: u8) -> Option<Vec<u8>> {
        let entry = |kind| IndexEntry { slot: 0, frame: 0, n: 1, m: 1, location: 0, id: 0, kind, flags: 0 };
        let [from, to] = [from, to].map(|kind| entry(kind).element().unwrap().scalar);
        let mut out = Vec::new();
        convert(bytes, from, to, &mut out).ok().map(|()| out)
    }

    #[test]
    fn numbers_keep_their_values_and_lose_fractions() {
        assert_eq!(converted(&2.75_f64.to_le_bytes(), 10, 8).unwrap(), 2_i64.to_le_bytes());
        assert_eq!(converted(&(-2.75_f32).to_le_bytes(), 9, 5).unwrap(), (-2_i8).to_le_bytes());
        assert_eq!(converted(&(-3_i16).to_le_bytes(), 6, 8).unwrap(), (-3_i64).to_le_bytes());
        assert_eq!(converted(&[200, 7], 1, 10).unwrap(), [200_f64, 7.0].map(f64::to_le_bytes).concat());
        assert_eq!(converted(&u64::MAX.to_le_bytes(), 4, 4).unwrap(), u64::MAX.to_le_bytes());
        // A conversion by way of float64 would round this number twice.
        let odd = (1_u64 << 60) + (1 << 36) + 1;
        assert_eq!(converted(&odd.to_le_bytes(), 4, 9).unwrap(), (odd as f32).to_le_bytes());
        assert_eq!(converted(&f64::NAN.to_le_bytes(), 10, 9).map(|nan| nan[3] & 0x7f), Some(0x7f));
    }

    #[test]
    fn a_number_that_a_type_cannot_hold_is_an_error() {
        assert!(converted(&256_u16.to_le_bytes(), 2, 1).is_none());
        assert!(converted(&(-1_i8).to_le_bytes(), 5, 4).is_none());
        assert!(converted(&u64::MAX.to_le_bytes(), 4, 8).is_none());
        for wrong in [f64::NAN, f64::INFINITY, 1e300, -129.0, 128.0] {
            assert!(converted(&wrong.to_le_bytes(), 10, 5).is_none(), "{wrong}");
        }
        assert_eq!(converted(&(-128.9_f64).to_le_bytes(), 10, 5).unwrap(), [0x80]);
    }
}
