//! What the symbols stand for (RFC 1951, section 3.2.5), as entries of the decoding tables.
//!
//! An entry is what one look at the next bits tells:
//!
//! ```text
//! bits 16..32    the base of a length or distance; or where a subtable begins; or (bit 7) literals: the
//!                first one in bits 16..24, and (bit 6) the second one in bits 24..32
//! bit  15        no length or distance, but: (bit 14) the pointer to a subtable; (bit 13) the end of
//!                the block; (neither) nothing that a stream may hold
//! bits 8..12     bits of the code alone, or of the first literal's; of a pointer: how many bits choose
//!                within the subtable
//! bits 0..6      bits of code and extra bits together, or of all literals
//! ```
//!
//! The alphabets below hold entries without their code's length, which [`with_code`] adds.

/// A literal, or two.
pub(super) const LITERAL: u32 = 1 << 7;
/// Two literals.
const PAIR: u32 = 1 << 6;
/// Neither a literal nor a length or distance.
pub(super) const EXCEPTION: u32 = 1 << 15;
/// The pointer to a subtable.
pub(super) const SUBTABLE: u32 = 1 << 14;
/// The end of the block.
pub(super) const END: u32 = 1 << 13;
/// Nothing that a stream may hold.
pub(super) const INVALID: u32 = EXCEPTION;

/// Codes for literals and lengths in a dynamic block, at most.
pub(super) const MAX_LITERALS: usize = 286;
/// Codes for distances in a dynamic block, at most.
pub(super) const MAX_DISTANCES: usize = 30;
/// The literal/length symbol that ends a block.
pub(super) const END_OF_BLOCK: usize = 256;
/// The longest match.
pub(super) const MAX_LENGTH: usize = 258;

/// Literals, the end of the block, lengths; the last two occur in the fixed code only, as invalid.
pub(super) static LITERALS: [u32; 288] = literals();
/// Distances; the last two occur in the fixed code only, as invalid.
pub(super) static DISTANCES: [u32; 32] = distances();
/// The symbols of the code in which code lengths are written.
pub(super) static PRECODE: [u32; 19] = precode();

/// The entry of a symbol whose code has `length` bits.
pub(super) fn with_code(symbol: u32, length: u32) -> u32 {
    symbol + (length | length << 8)
}

/// The entry of two literals that stand one after the other.
#[inline(always)]
pub(super) fn pair(first: u32, second: u32) -> u32 {
    (first | PAIR | (second & 0x00ff_0000) << 8) + total_bits(second)
}

/// How many literals there are in the entry of some.
#[inline(always)]
pub(super) fn literals_in(entry: u32) -> usize {
    1 + (entry & PAIR != 0) as usize
}

/// The byte of the first literal.
#[inline(always)]
pub(super) fn byte(entry: u32) -> u8 {
    (entry >> 16) as u8
}

/// The byte of the second one, if there is one.
#[inline(always)]
pub(super) fn second_byte(entry: u32) -> u8 {
    (entry >> 24) as u8
}

/// Bits of code and extra bits together.
#[inline(always)]
pub(super) fn total_bits(entry: u32) -> u32 {
    entry & 63
}

/// Bits of the code alone, or of the first literal's; of a pointer: the bits that choose within the subtable.
#[inline(always)]
pub(super) fn code_bits(entry: u32) -> u32 {
    entry >> 8 & 15
}

/// The length or distance that `entry` and its extra bits in `bits` mean; `bits` begin with the code.
#[inline(always)]
pub(super) fn value(entry: u32, bits: u64) -> usize {
    let extra = super::bits::low(bits, total_bits(entry)) >> code_bits(entry);
    (entry >> 16) as usize + extra as usize
}

const fn with_extra(base: u32, extra: u32) -> u32 {
    base << 16 | extra
}

const fn literals() -> [u32; 288] {
    let mut entries = [INVALID; 288];
    let mut symbol = 0;
    while symbol < END_OF_BLOCK {
        entries[symbol] = LITERAL | (symbol as u32) << 16;
        symbol += 1;
    }
    entries[END_OF_BLOCK] = EXCEPTION | END;
    // Lengths: eight with no extra bits, then four for each number of extra bits.
    let mut base = 3;
    let mut n = 0;
    while n < 28 {
        let extra = if n < 8 { 0 } else { n / 4 - 1 };
        entries[END_OF_BLOCK + 1 + n as usize] = with_extra(base, extra);
        base += 1 << extra;
        n += 1;
    }
    entries[END_OF_BLOCK + 29] = with_extra(MAX_LENGTH as u32, 0);
    entries
}

const fn distances() -> [u32; 32] {
    let mut entries = [INVALID; 32];
    // Four with no extra bits, then two for each number of extra bits.
    let mut base = 1;
    let mut n = 0;
    while n < MAX_DISTANCES as u32 {
        let extra = if n < 4 { 0 } else { n / 2 - 1 };
        entries[n as usize] = with_extra(base, extra);
        base += 1 << extra;
        n += 1;
    }
    entries
}

const fn precode() -> [u32; 19] {
    let mut entries = [0; 19];
    let mut symbol = 0;
    while symbol < 19 {
        entries[symbol as usize] = with_extra(symbol, 0);
        symbol += 1;
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alphabets_are_those_of_the_standard() {
        let of = |symbol: usize| (LITERALS[symbol] >> 16, LITERALS[symbol] & 0xff);
        assert_eq!([of(257), of(264), of(265)], [(3, 0), (10, 0), (11, 1)]);
        assert_eq!([of(284), of(285)], [(227, 5), (258, 0)]);
        let of = |symbol: usize| (DISTANCES[symbol] >> 16, DISTANCES[symbol] & 0xff);
        assert_eq!([of(0), of(4), of(29)], [(1, 0), (5, 1), (24577, 13)]);
        assert_eq!((LITERALS[286], DISTANCES[30]), (INVALID, INVALID));
    }

    #[test]
    fn a_value_is_its_base_and_its_extra_bits() {
        let entry = with_code(DISTANCES[29], 7);
        assert_eq!((total_bits(entry), code_bits(entry)), (20, 7));
        assert_eq!(value(entry, 5 << 7 | 0x7f), 24577 + 5);
        assert_eq!(byte(with_code(LITERALS[200], 9)), 200);
    }

    #[test]
    fn two_literals_are_both_there_and_the_first_one_alone() {
        let (first, second) = (with_code(LITERALS[200], 3), with_code(LITERALS[255], 7));
        let both = pair(first, second);
        assert_eq!((literals_in(first), literals_in(both)), (1, 2));
        assert_eq!((byte(both), second_byte(both)), (200, 255));
        assert_eq!((code_bits(both), total_bits(both)), (3, 10));
        assert_eq!(both & (LITERAL | EXCEPTION), LITERAL);
    }
}
