//! Packed integers: converts two's complement numbers of any width to doubles.

/// Number of zero bytes after the packed values, so that 16 bytes can be read from the start of any value.
pub(super) const SPARE: usize = 16;

/// Returns the signed integer of `width` bits at bit `bit` as the nearest double.
///
/// `packed` ends with [`SPARE`] zero bytes.
#[inline]
pub(super) fn unpack(packed: &[u8], bit: usize, width: u8) -> f64 {
    if width > 64 {
        return unpack_wide(packed, bit, width);
    }
    if width == 0 {
        return 0.0;
    }
    // 16 bytes hold any 64 bits, at whichever bit of a byte they begin.
    let bytes: [u8; 16] = packed[bit / 8..].first_chunk().copied().unwrap_or_default();
    let word = i128::from_be_bytes(bytes) << (bit % 8) >> (128 - u32::from(width));
    // At most 64 bits remain.
    word as i64 as f64
}

/// Converts a number of more than 64 bits.
fn unpack_wide(packed: &[u8], bit: usize, width: u8) -> f64 {
    let take = |n: usize| packed[(bit + n) / 8] >> (7 - (bit + n) % 8) & 1 == 1;
    let width = usize::from(width);
    let negative = take(0);
    // The magnitude of a negative number is its complement plus one: the bits above its last 1 are inverted,
    // that bit and the zeros below it stay.
    let last = (0..width).rev().find(|&n| take(n)).unwrap_or(0);
    let bit_of = |n: usize| if negative && n < last { !take(n) } else { take(n) };
    let Some(first) = (0..width).find(|&n| bit_of(n)) else { return 0.0 };
    // The first 64 bits of the magnitude. The lowest of these bits is also set if any bit below it is set,
    // which suffices for correct rounding.
    let kept = 64.min(width - first);
    let mut word = (first..first + kept).fold(0u64, |word, n| word << 1 | u64::from(bit_of(n)));
    let below = width - first - kept;
    word |= u64::from(below > 0 && last >= first + kept);
    let magnitude = word as f64 * 2f64.powi(below as i32);
    if negative { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{chunk, cut};
    use super::*;

    #[test]
    fn wide_integers_are_rounded_to_the_nearest_double() {
        for (bits, value) in
            [(65u8, -(1i128 << 64)), (100, (1 << 98) + 1), (128, i128::MIN), (128, i128::MAX)]
        {
            for value in [value, value ^ 1, value / 3, -(value / 5), 0, -1, 1, (1 << 60) + 129] {
                let value = cut(value, bits);
                let packed = [chunk(bits, 0.0, 1.0, &[value])[25..].to_vec(), vec![0; SPARE]].concat();
                assert_eq!(unpack(&packed, 0, bits), value as f64, "{value}");
            }
        }
        assert_eq!(unpack(&[vec![0x80], vec![0; 31 + SPARE]].concat(), 0, 255), -(2f64.powi(254)));
    }
}
