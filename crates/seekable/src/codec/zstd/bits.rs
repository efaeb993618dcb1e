//! Bit readers for both directions in which zstd reads a block.

/// A bit reader from the first byte on, the lowest bit of a byte first.
pub(super) struct Forwards<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Forwards<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Takes the next `count` bits, at most 16; `None` if fewer are left.
    pub(super) fn take(&mut self, count: u32) -> Option<u32> {
        let end = self.at.checked_add(count as usize).filter(|end| *end <= self.bytes.len() * 8)?;
        let bits = bits_at(self.bytes, self.at, count);
        self.at = end;
        u32::try_from(bits).ok()
    }

    /// Returns the number of bytes taken, including a partly taken one.
    pub(super) fn bytes_taken(&self) -> usize {
        self.at.div_ceil(8)
    }
}

/// A bit reader from the last byte back, the highest bit first.
pub(super) struct Backwards<'a> {
    bytes: &'a [u8],
    bits_left: usize,
}

impl<'a> Backwards<'a> {
    /// Reads the bits below the highest set bit of the last byte; `None` if that byte is 0 or missing.
    pub(super) fn new(bytes: &'a [u8]) -> Option<Self> {
        let last = bytes.last()?.checked_ilog2()?;
        Some(Self { bytes, bits_left: (bytes.len() - 1) * 8 + last as usize })
    }

    /// Takes the next `count` bits, at most 32; `None` if fewer are left.
    pub(super) fn take(&mut self, count: u32) -> Option<u32> {
        self.bits_left = self.bits_left.checked_sub(count as usize)?;
        u32::try_from(bits_at(self.bytes, self.bits_left, count)).ok()
    }

    /// Skips the next `count` bits; `None` if fewer are left.
    pub(super) fn skip(&mut self, count: u32) -> Option<()> {
        self.bits_left = self.bits_left.checked_sub(count as usize)?;
        Some(())
    }

    /// True if no bits are left.
    pub(super) fn is_at_end(&self) -> bool {
        self.bits_left == 0
    }
}

/// Returns up to 32 bits from `bit` on, with zeros after the end.
fn bits_at(bytes: &[u8], bit: usize, count: u32) -> u64 {
    let rest = bytes.get(bit / 8..).unwrap_or_default();
    let word = match rest.first_chunk::<8>() {
        Some(eight) => u64::from_le_bytes(*eight),
        None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    word >> (bit % 8) & ((1 << count) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_in_both_directions_and_end_with_the_bytes() {
        let bytes = [0b1011_0010, 0b0000_0101, 0b0001_1100];
        let mut forwards = Forwards::new(&bytes);
        assert_eq!([3, 1, 6].map(|count| forwards.take(count)), [Some(0b010), Some(0), Some(0b01_1011)]);
        assert_eq!((forwards.bytes_taken(), forwards.take(15), forwards.take(14)), (2, None, Some(0x701)));
        let mut backwards = Backwards::new(&bytes).unwrap();
        assert_eq!([2, 2, 6].map(|count| backwards.take(count)), [Some(0b11), Some(0), Some(1)]);
        assert_eq!((backwards.take(11), backwards.is_at_end()), (None, false));
        let mut backwards = Backwards::new(&bytes).unwrap();
        assert_eq!((backwards.take(20), backwards.is_at_end()), (Some(0b1100_0000_0101_1011_0010), true));
        assert!(Backwards::new(&[1, 0]).is_none() && Backwards::new(&[]).is_none());
    }
}
