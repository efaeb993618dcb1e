//! The Huffman codes of a block, with tables made from code lengths.
//!
//! Codes are canonical: shorter ones first, equal lengths in the order of their symbols. Lengths that make no
//! complete code are handled as libbz2 does: bits that begin no code are an error when they occur, and if a
//! length has too many codes, the first ones count.

/// Number of bits in the longest code.
pub(super) const MAX_LENGTH: u32 = 20;

/// Number of symbols in the largest alphabet: two for runs, 255 list indices, and the end of the block.
pub(super) const SYMBOLS: usize = 258;

/// Codes of up to this many bits are found with one look-up.
const SHORT: u32 = 10;

/// Bits of a short table's entry that hold the length.
const LENGTH_BITS: u32 = 5;

/// A Huffman code, with its tables.
#[derive(Debug)]
pub(super) struct Code {
    /// For the next [`SHORT`] bits: symbol and length of the code they begin with, or 0 if the code is
    /// longer.
    short: [u16; 1 << SHORT],
    /// For each length: the first value of [`MAX_LENGTH`] bits after all codes up to that length.
    limit: [u32; MAX_LENGTH as usize + 1],
    /// For each length: the difference between a code and its index in `symbols`.
    base: [i32; MAX_LENGTH as usize + 1],
    /// The symbols in the order of their codes.
    symbols: [u16; SYMBOLS],
}

impl Code {
    /// A code without symbols.
    pub(super) const EMPTY: Self = Self {
        short: [0; 1 << SHORT],
        limit: [0; MAX_LENGTH as usize + 1],
        base: [0; MAX_LENGTH as usize + 1],
        symbols: [0; SYMBOLS],
    };

    /// Sets the code in which symbol `i` has `lengths[i]` bits, 1 to [`MAX_LENGTH`].
    pub(super) fn set(&mut self, lengths: &[u8]) {
        self.short.fill(0);
        let mut code = 0u32;
        let mut index = 0usize;
        for length in 1..=MAX_LENGTH {
            let first = index;
            self.base[length as usize] = index as i32 - code as i32;
            let of_length = lengths.iter().enumerate().filter(|&(_, &len)| u32::from(len) == length);
            for (symbol, _) in of_length {
                self.symbols[index] = symbol as u16;
                index += 1;
            }
            let room = (1u32 << length).saturating_sub(code) as usize;
            if let Some(spare) = SHORT.checked_sub(length) {
                let entries = &self.symbols[first..index.min(first + room)];
                for (entry, &symbol) in (code..).zip(entries) {
                    let from = (entry as usize) << spare;
                    self.short[from..from + (1 << spare)].fill(symbol << LENGTH_BITS | length as u16);
                }
            }
            code += (index - first) as u32;
            self.limit[length as usize] = code.min(1 << length) << (MAX_LENGTH - length);
            code <<= 1;
        }
    }

    /// Returns the symbol at the start of `bits` (highest bit first), and the length of its code.
    #[inline(always)]
    pub(super) fn symbol(&self, bits: u64) -> Option<(u16, u32)> {
        let entry = self.short[(bits >> (64 - SHORT)) as usize];
        if entry != 0 {
            return Some((entry >> LENGTH_BITS, u32::from(entry) & ((1 << LENGTH_BITS) - 1)));
        }
        self.long(bits)
    }

    fn long(&self, bits: u64) -> Option<(u16, u32)> {
        let value = (bits >> (64 - MAX_LENGTH)) as u32;
        let length = (SHORT + 1..=MAX_LENGTH).find(|&length| value < self.limit[length as usize])?;
        let index = self.base[length as usize] + (value >> (MAX_LENGTH - length)) as i32;
        Some((*self.symbols.get(usize::try_from(index).ok()?)?, length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Decodes as libbz2 does: bit by bit, with limit and base of each length.
    fn slowly(lengths: &[u8], bits: u64) -> Option<(u16, u32)> {
        let mut in_order: Vec<u16> = (0..lengths.len() as u16).collect();
        in_order.sort_by_key(|&symbol| lengths[usize::from(symbol)]);
        let mut code = 0u64;
        let mut index = 0u64;
        for length in 1..=MAX_LENGTH {
            let count = lengths.iter().filter(|&&len| u32::from(len) == length).count() as u64;
            let value = bits >> (64 - length);
            if value < code + count {
                return Some((in_order[(index + value - code) as usize], length));
            }
            index += count;
            code = (code + count) << 1;
        }
        None
    }

    proptest! {
        #[test]
        fn any_lengths_are_taken_as_libbz2_takes_them(
            lengths in prop::collection::vec(1u8..=20, 3..=SYMBOLS),
            shift in 0u8..19,
            samples in prop::collection::vec(any::<u64>(), 200),
        ) {
            let lengths: Vec<u8> = lengths.iter().map(|&len| len.saturating_add(shift).min(20)).collect();
            let mut code = Code::EMPTY;
            code.set(&[1; 40]);
            code.set(&lengths);
            for bits in samples.into_iter().flat_map(|bits| [bits, bits >> 6, bits >> 12, !(bits >> 9)]) {
                prop_assert_eq!(code.symbol(bits), slowly(&lengths, bits));
            }
        }
    }

    #[test]
    fn an_incomplete_code_has_bits_that_mean_nothing() {
        let mut code = Code::EMPTY;
        code.set(&[2, 2, 12]);
        assert_eq!(code.symbol(0), Some((0, 2)));
        assert_eq!(code.symbol(0b01 << 62), Some((1, 2)));
        assert_eq!(code.symbol(0b1000_0000_0000 << 52), Some((2, 12)));
        assert_eq!(code.symbol(u64::MAX), None);
    }
}
