//! Bits out of a slice, lowest bit of each byte first.

use super::fault::Wrong;

/// The bits from `bit` on: 57 of them at least, zeros after the end of `bytes`.
#[inline(always)]
pub(super) fn peek(bytes: &[u8], bit: usize) -> u64 {
    word(bytes, bit >> 3) >> (bit & 7)
}

/// Eight bytes from `at` on as a number, zeros after the end.
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

/// The lowest `count` bits of `word`; `count` is below 64.
#[inline(always)]
pub(super) fn low(word: u64, count: u32) -> u64 {
    word & ((1 << (count & 63)) - 1)
}

/// A reader that knows where the bits end.
#[derive(Debug)]
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bits<'a> {
    /// Reads `bytes` from bit `at` on.
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// The bit that comes next.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The next bits without taking them: 57 of them at least, zeros after the end.
    pub(super) fn peek(&self) -> u64 {
        peek(self.bytes, self.at)
    }

    /// Passes over `count` bits, if there are as many.
    pub(super) fn skip(&mut self, count: u32) -> Result<(), Wrong> {
        let after = self.at + count as usize;
        if after > self.bytes.len() * 8 {
            return Err(Wrong::Short);
        }
        self.at = after;
        Ok(())
    }

    /// Takes `count` bits, 57 at most.
    pub(super) fn take(&mut self, count: u32) -> Result<u64, Wrong> {
        let bits = low(self.peek(), count);
        self.skip(count)?;
        Ok(bits)
    }

    /// Passes over what is left of a byte that was begun.
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
        assert_eq!(bits.at(), 9);
        bits.align();
        assert_eq!((bits.at(), bits.skip(1)), (16, Err(Wrong::Short)));
        assert_eq!(peek(&[1], 99), 0);
    }
}
