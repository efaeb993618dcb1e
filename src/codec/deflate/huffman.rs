//! From the lengths of codes to tables in which a code is looked up by the bits it begins with.
//!
//! A table of `2^bits` entries takes every code of up to `bits` bits, each as often as there are ways
//! to go on after it; a longer code has a pointer there to a subtable behind the first `2^bits`
//! entries. Codes come lowest bit first, so that the numbers here are the standard's codes with their
//! bits reversed.

use super::alphabet::{self, INVALID, LITERAL, SUBTABLE, pair, total_bits, with_code};
use super::fault::Reason;

/// The longest code.
const MAX_BITS: usize = 15;

/// Bits that are looked up at once for a literal or length.
pub(super) const LITERAL_BITS: u32 = 11;
/// Bits that are looked up at once for a distance.
pub(super) const DISTANCE_BITS: u32 = 8;
/// Bits of the longest code in which code lengths are written.
pub(super) const PRECODE_BITS: u32 = 7;

/// The table with its subtables: 2342 entries at most; a power of two so that an index can be cut to it.
pub(super) const LITERAL_TABLE: usize = 4096;
/// The same for distances: 402 entries at most.
pub(super) const DISTANCE_TABLE: usize = 512;
/// The same for the precode, which has no subtables.
pub(super) const PRECODE_TABLE: usize = 1 << PRECODE_BITS;

/// What a set of code lengths may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lenience {
    /// Nothing: each bit pattern is some code's.
    Complete,
    /// It may be a single code of one bit.
    One,
    /// It may be a single code of one bit, or no code at all.
    OneOrNone,
}

/// The tables by which a block's symbols are decoded.
#[derive(Debug)]
pub(super) struct Codes {
    /// Literals and lengths.
    pub(super) literals: Box<[u32; LITERAL_TABLE]>,
    /// Distances.
    pub(super) distances: Box<[u32; DISTANCE_TABLE]>,
}

impl Codes {
    /// Tables in which nothing is valid.
    pub(super) fn new() -> Self {
        Self {
            literals: Box::new([INVALID | 1; LITERAL_TABLE]),
            distances: Box::new([INVALID | 1; DISTANCE_TABLE]),
        }
    }

    /// Makes the tables of a block whose codes have these lengths, 0 for a symbol without a code.
    pub(super) fn build(&mut self, literals: &[u8], distances: &[u8]) -> Result<(), Reason> {
        let (table, symbols) = (&mut self.literals[..], &alphabet::LITERALS[..]);
        build(literals, symbols, table, LITERAL_BITS, Lenience::One)?;
        pair_literals(&mut self.literals);
        let (table, symbols) = (&mut self.distances[..], &alphabet::DISTANCES[..]);
        build(distances, symbols, table, DISTANCE_BITS, Lenience::OneOrNone)
    }
}

/// Puts two literals into an entry whose bits have room for both.
fn pair_literals(table: &mut [u32; LITERAL_TABLE]) {
    // What follows the first one is looked up further in front, where nothing was changed yet.
    for at in (0..1_usize << LITERAL_BITS).rev() {
        let first = table[at];
        let second = table[at >> (total_bits(first) & 15)];
        if first & second & LITERAL != 0 && total_bits(first) + total_bits(second) <= LITERAL_BITS {
            table[at] = pair(first, second);
        }
    }
}

/// How many codes there are of each length.
type Counts = [u16; MAX_BITS + 1];

/// Fills `table` for codes of these `lengths`; `symbols` has the entry of each.
pub(super) fn build(
    lengths: &[u8],
    symbols: &[u32],
    table: &mut [u32],
    bits: u32,
    lenience: Lenience,
) -> Result<(), Reason> {
    let counts = count(lengths);
    let Some(longest) = (1..=MAX_BITS).rfind(|&length| counts[length] > 0) else {
        return match lenience {
            Lenience::OneOrNone => {
                table[..1 << bits].fill(INVALID | 1);
                Ok(())
            }
            _ => Err(Reason::CodeLengths),
        };
    };
    let sorted = sort(lengths, &counts);
    match unused(&counts) {
        Some(0) => {}
        Some(_) if longest == 1 && lenience != Lenience::Complete => {
            single(with_code(symbols[usize::from(sorted[0])], 1), &mut table[..1 << bits]);
            return Ok(());
        }
        _ => return Err(Reason::CodeLengths),
    }
    let mut filler = Filler { counts, sorted: &sorted, symbols, code: 0, taken: 0 };
    filler.short(table, bits);
    if longest > bits as usize {
        filler.long(table, bits, longest as u32);
    }
    Ok(())
}

fn count(lengths: &[u8]) -> Counts {
    let mut counts = [0; MAX_BITS + 1];
    for &length in lengths {
        counts[usize::from(length) & MAX_BITS] += 1;
    }
    counts[0] = 0;
    counts
}

/// How many codes of [`MAX_BITS`] bits would still fit; `None` if there are too many codes already.
fn unused(counts: &Counts) -> Option<u32> {
    let mut left = 1 << MAX_BITS;
    for (length, &count) in counts.iter().enumerate().skip(1) {
        left -= i32::from(count) << (MAX_BITS - length);
    }
    u32::try_from(left).ok()
}

/// Whether codes of these lengths use each bit pattern exactly once.
pub(super) fn is_complete(lengths: &[u8]) -> bool {
    unused(&count(lengths)) == Some(0)
}

/// The symbols that have a code, shorter codes first, then in their own order.
fn sort(lengths: &[u8], counts: &Counts) -> [u16; 288] {
    let mut next = [0u16; MAX_BITS + 2];
    for length in 1..=MAX_BITS {
        next[length + 1] = next[length] + counts[length];
    }
    let mut sorted = [0; 288];
    for (symbol, &length) in lengths.iter().enumerate().filter(|&(_, &length)| length > 0) {
        let place = &mut next[usize::from(length) & MAX_BITS];
        sorted[usize::from(*place)] = symbol as u16;
        *place += 1;
    }
    sorted
}

/// The table of one code of one bit, 0; a 1 is no code.
fn single(entry: u32, table: &mut [u32]) {
    for pair in table.chunks_exact_mut(2) {
        pair.copy_from_slice(&[entry, INVALID | 1]);
    }
}

/// Goes through the codes of a complete set in their order.
struct Filler<'a> {
    counts: Counts,
    sorted: &'a [u16; 288],
    symbols: &'a [u32],
    /// The next code, reversed.
    code: u32,
    /// How many of `sorted` have been placed.
    taken: usize,
}

impl Filler<'_> {
    /// Takes the next code, of `length` bits: the code, reversed, and its entry.
    fn next(&mut self, length: u32) -> (usize, u32) {
        let code = self.code;
        let entry = with_code(self.symbols[usize::from(self.sorted[self.taken])], length);
        self.taken += 1;
        // The code's lowest bit is the highest here: clear the ones from there down, set the zero
        // below them. After the last code of all there is no zero.
        let ones = (1 << length) - 1;
        if code != ones {
            let zero = 1 << (code ^ ones).ilog2();
            self.code = code & (zero - 1) | zero;
        }
        (code as usize, entry)
    }

    /// Places the codes of up to `bits` bits: a table for codes of one bit, doubled for each more.
    fn short(&mut self, table: &mut [u32], bits: u32) {
        for length in 1..=bits {
            let size = 1 << length;
            if length > 1 {
                let (known, copy) = table[..size].split_at_mut(size / 2);
                copy.copy_from_slice(known);
            }
            for _ in 0..self.counts[length as usize] {
                let (code, entry) = self.next(length);
                table[code] = entry;
            }
        }
    }

    /// Places the codes of more than `bits` bits in subtables behind the first `2^bits` entries.
    fn long(&mut self, table: &mut [u32], bits: u32, longest: u32) {
        let (mut end, mut start, mut stop, mut prefix) = (1 << bits, 0, 0, usize::MAX);
        for length in bits + 1..=longest {
            while self.counts[length as usize] > 0 {
                let (code, entry) = self.next(length);
                if code & ((1 << bits) - 1) != prefix {
                    prefix = code & ((1 << bits) - 1);
                    let choose = self.subtable_bits(length - bits, bits);
                    (start, stop) = (end, end + (1 << choose));
                    end = stop;
                    table[prefix] = (start as u32) << 16 | INVALID | SUBTABLE | choose << 8 | bits;
                }
                self.counts[length as usize] -= 1;
                let step = 1 << (length - bits);
                for place in (start + (code >> bits)..stop).step_by(step) {
                    table[place] = entry;
                }
            }
        }
    }

    /// How many bits choose in a subtable whose first code has `least` bits more than the table.
    fn subtable_bits(&self, least: u32, bits: u32) -> u32 {
        let mut choose = least;
        let mut used = u32::from(self.counts[(bits + choose) as usize]);
        while used < 1 << choose && ((bits + choose) as usize) < MAX_BITS {
            choose += 1;
            used = 2 * used + u32::from(self.counts[(bits + choose) as usize]);
        }
        choose
    }
}

#[cfg(test)]
mod tests {
    use super::super::alphabet::{EXCEPTION, LITERAL, LITERALS, PRECODE, byte, code_bits, total_bits};
    use super::super::tests::writer::{Dice, lengths};
    use super::*;
    use proptest::prelude::*;

    /// Looks a code up as the decoder does.
    fn look(table: &[u32], bits: u32, code: usize) -> u32 {
        let entry = table[code & ((1 << bits) - 1)];
        if entry & LITERAL != 0 || entry & SUBTABLE == 0 {
            return entry;
        }
        table[(entry >> 16) as usize + (code >> bits & ((1 << code_bits(entry)) - 1))]
    }

    /// Code lengths of a complete code, by splitting codes at random.
    fn complete() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<prop::sample::Index>(), 1..285).prop_map(|splits| {
            let mut lengths = vec![1u8, 1];
            for split in splits {
                let open: Vec<usize> = (0..lengths.len()).filter(|&i| lengths[i] < 15).collect();
                let Some(&at) = open.get(split.index(open.len().max(1))) else { break };
                lengths[at] += 1;
                lengths.push(lengths[at]);
            }
            lengths
        })
    }

    proptest! {
        #[test]
        fn each_code_is_found_whatever_follows_it(lengths in complete(), noise: u16) {
            let mut table = vec![0; LITERAL_TABLE];
            build(&lengths, &LITERALS, &mut table, LITERAL_BITS, Lenience::Complete).unwrap();
            prop_assert!(is_complete(&lengths));
            // The standard's way of giving out codes (RFC 1951, section 3.2.2).
            let mut code = 0u32;
            for length in 1..=15u8 {
                for symbol in (0..lengths.len()).filter(|&symbol| lengths[symbol] == length) {
                    let reversed = code.reverse_bits() >> (32 - u32::from(length));
                    let bits = reversed as usize | usize::from(noise) << length;
                    prop_assert_eq!(look(&table, LITERAL_BITS, bits & 0x7fff), with_code(LITERALS[symbol], length.into()));
                    code += 1;
                }
                code <<= 1;
            }
        }
    }

    #[test]
    fn uneven_codes_fit_their_tables() {
        let mut dice = Dice::new(31);
        let mut codes = Codes::new();
        for _ in 0..2000 {
            let (literals, distances) = (lengths(286, &mut dice), lengths(30, &mut dice));
            codes.build(&literals, &distances).unwrap();
        }
    }

    #[test]
    fn incomplete_codes_pass_only_where_zlib_takes_them() {
        use Lenience::{Complete, One, OneOrNone};
        let mut table = vec![0; LITERAL_TABLE];
        for (lengths, complete, one, none) in [
            (&[1u8, 1][..], true, true, true),
            (&[0, 1], false, true, true),
            (&[0, 0], false, false, true),
            (&[0, 2], false, false, false),
            (&[1, 2], false, false, false),
            (&[1, 1, 1], false, false, false),
        ] {
            let mut takes = |lenience| build(lengths, &PRECODE, &mut table, 7, lenience).is_ok();
            let taken = [takes(Complete), takes(One), takes(OneOrNone)];
            assert_eq!(taken, [complete, one, none], "{lengths:?}");
        }
    }

    #[test]
    fn one_code_leaves_the_other_bit_invalid() {
        let mut table = [0; 128];
        build(&[0, 0, 0, 1], &PRECODE, &mut table, 7, Lenience::One).unwrap();
        assert_eq!((byte(table[0]), total_bits(table[0])), (3, 1));
        assert_eq!((table[1] & EXCEPTION, total_bits(table[1])), (EXCEPTION, 1));
    }
}
