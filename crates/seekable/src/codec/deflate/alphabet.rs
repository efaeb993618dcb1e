//! The meaning of each symbol (RFC 1951, section 3.2.5), as entries of the decoding tables.
//!
//! An entry is the result of one table look-up: up to two literals, or up to one literal and the length after
//! it.
//!
//! ```text
//! bits 24..32    the base of a length, less 3; or the second literal
//! bits 16..24    the first literal
//! bits 16..32    in a distance: its base; in a pointer: where the subtable begins
//! bit  15        set if there is a length (after the literal, if any)
//! bit  14        an exception: bit 13 marks a pointer to a subtable, bit 12 the end of the block; with
//!                neither the symbol is invalid
//! bits 8..12     number of code bits, without extra bits; in a pointer: number of bits that index the
//!                subtable
//! bits 6..8      number of literals
//! bits 0..6      number of code bits and extra bits together
//! ```
//!
//! The alphabets below hold entries without the length of their code, which [`with_code`] adds. The layout
//! makes an entry for two symbols ([`joined`]) a mere sum.

/// One literal, in the bits that count literals.
const LITERAL: u32 = 1 << 6;
/// Flag of a length, after a literal or alone.
const LENGTH: u32 = 1 << 15;
/// Flag of an entry that is neither a literal nor a length or distance.
pub(super) const EXCEPTION: u32 = 1 << 14;
/// Flag of a pointer to a subtable.
pub(super) const SUBTABLE: u32 = 1 << 13;
/// Flag of the end of the block.
pub(super) const END: u32 = 1 << 12;
/// Entry of an invalid symbol.
pub(super) const INVALID: u32 = EXCEPTION;

/// Maximum number of literal and length codes in a dynamic block.
pub(super) const MAX_LITERALS: usize = 286;
/// Maximum number of distance codes in a dynamic block.
pub(super) const MAX_DISTANCES: usize = 30;
/// The literal/length symbol that ends a block.
pub(super) const END_OF_BLOCK: usize = 256;
/// The shortest match.
const MIN_LENGTH: usize = 3;
/// The longest match.
pub(super) const MAX_LENGTH: usize = 258;

/// Entries of literals, the end of the block, and lengths. The last two of the 288 symbols occur in the fixed
/// code only and are invalid.
pub(super) static LITERALS: [u32; 288] = literals();
/// Entries of distances. The last two of the 32 symbols occur in the fixed code only and are invalid.
pub(super) static DISTANCES: [u32; 32] = distances();
/// Entries of the precode's symbols; the precode encodes the code lengths.
pub(super) static PRECODE: [u32; 19] = precode();

/// Returns the entry of a symbol whose code has `length` bits.
pub(super) fn with_code(symbol: u32, length: u32) -> u32 {
    symbol + (length | length << 8)
}

/// Returns one entry for a literal and the symbol after it: another literal or a length.
pub(super) fn joined(first: u32, second: u32) -> u32 {
    let after = match second & LENGTH {
        0 => (second & 0xffff) | ((second & 0x00ff_0000) << 8),
        _ => second,
    };
    first + after
}

/// True if an entry holds literals and nothing else.
#[inline(always)]
pub(super) fn is_literals(entry: u32) -> bool {
    entry & (LENGTH | EXCEPTION) == 0
}

/// Returns all ones if the entry has a length, else zero.
#[inline(always)]
pub(super) fn length_mask(entry: u32) -> u32 {
    const UP: u32 = LENGTH.leading_zeros();
    ((entry << UP) as i32 >> 31) as u32
}

/// Returns the number of literals in the entry: at most two, or at most one beside a length.
#[inline(always)]
pub(super) fn literals_in(entry: u32) -> usize {
    ((entry / LITERAL) & 3) as usize
}

/// Returns the first literal, and the second one if there is one.
#[inline(always)]
pub(super) fn bytes(entry: u32) -> [u8; 2] {
    [(entry >> 16) as u8, (entry >> 24) as u8]
}

/// Returns the number of code bits and extra bits together.
#[inline(always)]
pub(super) fn total_bits(entry: u32) -> u32 {
    entry & 63
}

/// Returns the number of code bits. The entry must not be an exception.
#[inline(always)]
pub(super) fn code_bits(entry: u32) -> u32 {
    // The mask has six bits, as for a shift count, though the field has only four: bits 12 and 13 are zero
    // outside exceptions.
    entry >> 8 & 63
}

/// Returns the number of bits that index the subtable of `pointer`.
#[inline(always)]
pub(super) fn choosing_bits(pointer: u32) -> u32 {
    pointer >> 8 & 15
}

/// Returns the extra bits of `entry`; `bits` begins with the first code of `entry`.
#[inline(always)]
fn extra(entry: u32, bits: u64) -> usize {
    (super::bits::low(bits, total_bits(entry)) >> code_bits(entry)) as usize
}

/// Returns the length in an entry that has one.
#[inline(always)]
pub(super) fn length(entry: u32, bits: u64) -> usize {
    (entry >> 24) as usize + MIN_LENGTH + extra(entry, bits)
}

/// Returns the distance in an entry.
#[inline(always)]
pub(super) fn distance(entry: u32, bits: u64) -> usize {
    (entry >> 16) as usize + extra(entry, bits)
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
    let mut base = 0;
    let mut n = 0;
    while n < 28 {
        let extra = if n < 8 { 0 } else { n / 4 - 1 };
        entries[END_OF_BLOCK + 1 + n as usize] = LENGTH | base << 24 | extra;
        base += 1 << extra;
        n += 1;
    }
    entries[END_OF_BLOCK + 29] = LENGTH | ((MAX_LENGTH - MIN_LENGTH) as u32) << 24;
    entries
}

const fn distances() -> [u32; 32] {
    let mut entries = [INVALID; 32];
    // Distances: four with no extra bits, then two for each number of extra bits.
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
        let of = |symbol: usize| (length(LITERALS[symbol], 0), total_bits(LITERALS[symbol]));
        assert_eq!([of(257), of(264), of(265)], [(3, 0), (10, 0), (11, 1)]);
        assert_eq!([of(284), of(285)], [(227, 5), (258, 0)]);
        let of = |symbol: usize| (distance(DISTANCES[symbol], 0), total_bits(DISTANCES[symbol]));
        assert_eq!([of(0), of(4), of(29)], [(1, 0), (5, 1), (24577, 13)]);
        assert_eq!((LITERALS[286], DISTANCES[30]), (INVALID, INVALID));
    }

    #[test]
    fn a_value_is_its_base_and_its_extra_bits() {
        let entry = with_code(DISTANCES[29], 7);
        assert_eq!((total_bits(entry), code_bits(entry)), (20, 7));
        assert_eq!(distance(entry, 5 << 7 | 0x7f), 24577 + 5);
        let entry = with_code(LITERALS[284], 15);
        assert_eq!((total_bits(entry), code_bits(entry)), (20, 15));
        assert_eq!(length(entry, 30 << 15 | 0x7fff), 257);
        assert_eq!(bytes(with_code(LITERALS[200], 9))[0], 200);
    }

    #[test]
    fn two_literals_are_one_entry() {
        let first = with_code(LITERALS[200], 3);
        let second = with_code(LITERALS[255], 7);
        let both = joined(first, second);
        assert_eq!((literals_in(first), literals_in(both)), (1, 2));
        assert_eq!((bytes(both), total_bits(both)), ([200, 255], 10));
        assert!(is_literals(first) && is_literals(both));
    }

    #[test]
    fn a_literal_and_any_length_are_one_entry() {
        let first = with_code(LITERALS[255], 5);
        for &length_alone in &LITERALS[END_OF_BLOCK + 1..END_OF_BLOCK + 30] {
            let alone = with_code(length_alone, 6);
            let both = joined(first, alone);
            assert_eq!((literals_in(alone), literals_in(both), bytes(both)[0]), (0, 1, 255));
            assert_eq!([length_mask(alone), length_mask(both), length_mask(first)], [!0, !0, 0]);
            assert!(!is_literals(alone) && !is_literals(both) && is_literals(first));
            assert_eq!(total_bits(both), total_bits(alone) + 5);
            for bits in [0, 0x5555_5555, u64::MAX] {
                assert_eq!(length(both, bits << 5 | 0x1f), length(alone, bits));
            }
        }
    }
}
