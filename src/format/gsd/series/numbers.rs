//! Conversion between number types, as in NumPy assignment: floats are truncated to integers. A number out of
//! the range of the new type is an error.

use crate::error::{Error, Result};

/// Element types by their number in entries: unsigned integers come first, then signed ones, then floats.
mod kind {
    pub(super) const INT8: u8 = 5;
    pub(super) const FLOAT32: u8 = 9;
    pub(super) const FLOAT64: u8 = 10;
}

/// A number of any type.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
}

/// Returns the bytes of a number of a type.
fn size(kind: u8) -> usize {
    match kind {
        kind::FLOAT32 => 4,
        kind::FLOAT64 => 8,
        integer => 1 << ((integer - 1) % 4),
    }
}

/// Appends the numbers in `bytes`, of type `from`, to `out` as numbers of type `to`. Neither type is
/// `character`.
///
/// # Errors
/// A number is out of range of type `to`.
pub(super) fn convert(bytes: &[u8], from: u8, to: u8, out: &mut Vec<u8>) -> Result<()> {
    for element in bytes.chunks_exact(size(from)) {
        let number = read(element, from);
        match to {
            kind::FLOAT32 => out.extend(float32(number).to_le_bytes()),
            kind::FLOAT64 => out.extend(float64(number).to_le_bytes()),
            _ => {
                let integer = integer(number).filter(|integer| fits(*integer, to));
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

fn read(element: &[u8], kind: u8) -> Number {
    let mut bytes = [0; 8];
    for (byte, from) in bytes.iter_mut().zip(element) {
        *byte = *from;
    }
    match kind {
        kind::FLOAT32 => Number::Float(f32::from_bits(u64::from_le_bytes(bytes) as u32).into()),
        kind::FLOAT64 => Number::Float(f64::from_le_bytes(bytes)),
        kind::INT8.. => {
            // Sign extension.
            let unused = 64 - 8 * size(kind) as u32;
            Number::Signed(i64::from_le_bytes(bytes) << unused >> unused)
        }
        _ => Number::Unsigned(u64::from_le_bytes(bytes)),
    }
}

fn integer(number: Number) -> Option<i128> {
    match number {
        Number::Unsigned(number) => Some(number.into()),
        Number::Signed(number) => Some(number.into()),
        Number::Float(number) => number.is_finite().then_some(number as i128),
    }
}

/// True if an integer is in the range of a type.
fn fits(integer: i128, kind: u8) -> bool {
    let bits = 8 * size(kind) as u32;
    match kind {
        kind::INT8.. => (-(1_i128 << (bits - 1))..1 << (bits - 1)).contains(&integer),
        _ => (0..1_i128 << bits).contains(&integer),
    }
}

fn float64(number: Number) -> f64 {
    match number {
        Number::Unsigned(number) => number as f64,
        Number::Signed(number) => number as f64,
        Number::Float(number) => number,
    }
}

/// Converts to float32 with one rounding: by way of float64 there would be two.
fn float32(number: Number) -> f32 {
    match number {
        Number::Unsigned(number) => number as f32,
        Number::Signed(number) => number as f32,
        Number::Float(number) => number as f32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(bytes: &[u8], from: u8, to: u8) -> Option<Vec<u8>> {
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
