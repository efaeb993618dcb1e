//! A bit reader over a slice; bits come lowest first within each byte.

use super::fault::Wrong;

/// Returns the bits from `bit` on: at least 57, with zeros after the end of `bytes`.
#[inline(always)]
pub(super) fn peek(bytes: &[u8], bit: usize) -> u64 {
    word(bytes, bit >> 3) >> (bit & 7)
}

/// Returns the little-endian number in eight bytes from `at` on, with zeros after the end.
#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..).and_then(<[u8]>::first_chunk) {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => last_word(bytes, at),
    }
}

#[cold]
fn last_word(bytes: &[u8], at: usize) -> u64 {
    let mut padded = [0; 8];
    let rest = bytes.get(at..).unwrap_or_default();
    for (to, from) in padded.iter_mut().zip(rest) {
        *to = *from;
    }
    u64::from_le_bytes(padded)
}

/// Returns the lowest `count` bits of `word`; `count` is below 64.
#[inline(always)]
pub(super) fn low(word: u64, count: u32) -> u64 {
    word & ((1 << (count & 63)) - 1)
}

/// A bit reader that detects the end of the input.
#[derive(Debug)]
pub(super) struct Bits<'a> {
    pub(super) bytes: &'a [u8],
    /// The position of the next bit.
    pub(super) at: usize,
}

impl<'a> Bits<'a> {
    /// Reads `bytes` from bit `at` on.
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// Returns at least the next 57 bits without taking them, with zeros after the end.
    #[inline(always)]
    pub(super) fn peek(&self) -> u64 {
        peek(self.bytes, self.at)
    }

    /// Skips `count` bits; fails if fewer are left.
    pub(super) fn skip(&mut self, count: u32) -> Result<(), Wrong> {
        let after = self.at + count as usize;
        if after > self.bytes.len() * 8 {
            return Err(Wrong::Short);
        }
        self.at = after;
        Ok(())
    }

    /// Takes `count` bits, at most 57.
    pub(super) fn take(&mut self, count: u32) -> Result<u64, Wrong> {
        let bits = low(self.peek(), count);
        self.skip(count)?;
        Ok(bits)
    }

    /// Skips to the next byte boundary.
    pub(super) fn align(&mut self) {
        self.at = self.at.next_multiple_of(8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_bits_lowest_first_and_refuses_those_that_are_not_there() {
        let mut bits = Bits::new(&[0b1010_0110, 0xff], 1);
        assert_eq!(bits.take(3).unwrap(), 0b011);
        assert_eq!(bits.take(5).unwrap(), 0b1_1010);
        assert_eq!(bits.peek(), 0x7f);
        assert_eq!(bits.take(8), Err(Wrong::Short));
        assert_eq!(bits.at, 9);
        bits.align();
        assert_eq!((bits.at, bits.skip(1)), (16, Err(Wrong::Short)));
        assert_eq!(peek(&[1], 99), 0);
    }
}
