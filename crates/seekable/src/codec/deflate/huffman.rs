//! Huffman tables, which look a code up by its leading bits.
//!
//! A table of `2^bits` entries holds every code of up to `bits` bits, repeated for all bits that may follow
//! it. At the first `bits` bits of a longer code, the table has a pointer to a subtable behind the first
//! `2^bits` entries. Codes come lowest bit first, so the numbers here are the standard's codes with their
//! bits reversed.

use super::alphabet::{self, END_OF_BLOCK, EXCEPTION, INVALID, SUBTABLE, joined, with_code};
use super::fault::Reason;

/// Number of bits of the longest code.
const MAX_BITS: usize = 15;

/// Number of bits looked up at once for a literal or length.
pub(super) const LITERAL_BITS: u32 = 11;
/// Number of bits looked up at once for a distance.
pub(super) const DISTANCE_BITS: u32 = 8;
/// Number of bits of the precode's longest code.
pub(super) const PRECODE_BITS: u32 = 7;

/// Size of the literal table: with its subtables at most 2342 entries. A power of two, so that an index can
/// be masked.
pub(super) const LITERAL_TABLE: usize = 4096;
/// Size of the distance table: with its subtables at most 402 entries. This, too, is a power of two.
pub(super) const DISTANCE_TABLE: usize = 512;
/// Size of the precode's table, which has no subtables.
pub(super) const PRECODE_TABLE: usize = 1 << PRECODE_BITS;

/// The kinds of incomplete codes that are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lenience {
    /// None: each bit pattern belongs to a code.
    Complete,
    /// A single code of one bit.
    One,
    /// A single code of one bit, or no code at all.
    OneOrNone,
}

/// The Huffman tables of a block.
#[derive(Debug)]
pub(super) struct Codes {
    /// Literals and lengths.
    pub(super) literals: [u32; LITERAL_TABLE],
    /// Distances.
    pub(super) distances: [u32; DISTANCE_TABLE],
    /// Number of bits of each literal's code, which an entry of several symbols does not tell.
    pub(super) literal_bits: [u8; 256],
    /// True if lengths take less than an eighth of the code space.
    pub(super) mostly_literals: bool,
}

impl Codes {
    /// Returns tables without valid codes.
    pub(super) fn new() -> Box<Self> {
        Box::new(Self {
            literals: [INVALID | 1; LITERAL_TABLE],
            distances: [INVALID | 1; DISTANCE_TABLE],
            literal_bits: [0; 256],
            mostly_literals: false,
        })
    }

    /// Builds the tables from the code lengths of a block; 0 is a symbol without a code.
    pub(super) fn build(&mut self, literals: &[u8], distances: &[u8]) -> Result<(), Reason> {
        for (to, &bits) in self.literal_bits.iter_mut().zip(literals) {
            *to = bits;
        }
        let lengths = literals.iter().skip(END_OF_BLOCK + 1).filter(|&&bits| bits > 0);
        let share: u32 = lengths.map(|&bits| (1 << MAX_BITS) >> bits).sum();
        self.mostly_literals = share < (1 << MAX_BITS) / 8;
        fill(literals, LITERALS, &mut self.literals, |filler, table, bits| filler.short_joined(table, bits))?;
        build(distances, DISTANCES, &mut self.distances)
    }
}

/// The symbols of a kind of code, and the number of bits with which its codes are looked up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alphabet {
    /// The entry of each symbol.
    symbols: &'static [u32],
    /// Number of bits looked up at once.
    bits: u32,
    lenience: Lenience,
}

const LITERALS: Alphabet =
    Alphabet { symbols: &alphabet::LITERALS, bits: LITERAL_BITS, lenience: Lenience::One };
const DISTANCES: Alphabet =
    Alphabet { symbols: &alphabet::DISTANCES, bits: DISTANCE_BITS, lenience: Lenience::OneOrNone };
pub(super) const PRECODE: Alphabet =
    Alphabet { symbols: &alphabet::PRECODE, bits: PRECODE_BITS, lenience: Lenience::Complete };

/// Number of codes of each length.
type Counts = [u16; MAX_BITS + 1];

/// Fills `table` for codes of these `lengths`.
pub(super) fn build(lengths: &[u8], alphabet: Alphabet, table: &mut [u32]) -> Result<(), Reason> {
    fill(lengths, alphabet, table, |filler, table, bits| filler.short(table, bits))
}

/// Fills `table` as [`build`] does; `short` places the codes that the table itself holds.
#[inline]
fn fill(
    lengths: &[u8],
    alphabet: Alphabet,
    table: &mut [u32],
    short: impl FnOnce(&mut Filler<'_>, &mut [u32], u32),
) -> Result<(), Reason> {
    let Alphabet { symbols, bits, lenience } = alphabet;
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
    short(&mut filler, table, bits);
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

/// Returns how many more codes of [`MAX_BITS`] bits would fit; `None` if there are too many codes already.
fn unused(counts: &Counts) -> Option<u32> {
    let mut codes_left = 1 << MAX_BITS;
    for (length, &count) in counts.iter().enumerate().skip(1) {
        codes_left -= i32::from(count) << (MAX_BITS - length);
    }
    u32::try_from(codes_left).ok()
}

/// True if codes of these lengths use each bit pattern exactly once.
pub(super) fn is_complete(lengths: &[u8]) -> bool {
    unused(&count(lengths)) == Some(0)
}

/// Returns the symbols that have a code, sorted by code length, then by symbol.
fn sort(lengths: &[u8], counts: &Counts) -> [u16; 288] {
    let mut next = [0u16; MAX_BITS + 2];
    for length in 1..=MAX_BITS {
        next[length + 1] = next[length] + counts[length];
    }
    let mut sorted = [0; 288];
    for (symbol, &length) in lengths.iter().enumerate().filter(|&(_, &length)| length > 0) {
        let slot = &mut next[usize::from(length) & MAX_BITS];
        sorted[usize::from(*slot)] = symbol as u16;
        *slot += 1;
    }
    sorted
}

/// Fills the table for a single code of one bit, 0; a 1 is invalid.
fn single(entry: u32, table: &mut [u32]) {
    for pair in table.chunks_exact_mut(2) {
        pair.copy_from_slice(&[entry, INVALID | 1]);
    }
}

/// An iterator over a complete set of codes, in their order.
struct Filler<'a> {
    counts: Counts,
    sorted: &'a [u16; 288],
    symbols: &'a [u32],
    /// The next code, bit-reversed.
    code: u32,
    /// Number of symbols in `sorted` that have been placed.
    taken: usize,
}

impl Filler<'_> {
    /// Takes the next code, of `length` bits. Returns it bit-reversed, with its entry.
    fn next(&mut self, length: u32) -> (usize, u32) {
        let code = self.code;
        let entry = with_code(self.symbols[usize::from(self.sorted[self.taken])], length);
        self.taken += 1;
        // Increments a bit-reversed code: clears the 1 bits at the top and sets the 0 bit below them. The
        // last code has no 0 bit.
        let ones = (1 << length) - 1;
        if code != ones {
            let zero = 1 << (code ^ ones).ilog2();
            self.code = code & (zero - 1) | zero;
        }
        (code as usize, entry)
    }

    /// Places the codes of up to `bits` bits. The table begins with one bit and doubles with each further
    /// bit.
    fn short(&mut self, table: &mut [u32], bits: u32) {
        for length in 1..=bits {
            let table = doubled(table, length);
            for _ in 0..self.counts[length as usize] {
                let (code, entry) = self.next(length);
                table[code] = entry;
            }
        }
    }

    /// Places literals and lengths as `short` does. Adds an entry for each literal and next symbol whose
    /// codes have up to `bits` bits together.
    fn short_joined(&mut self, table: &mut [u32], bits: u32) {
        // The codes placed so far: shorter ones first; among codes of one length, literals first.
        let mut placed = [(0, 0); 288];
        // For each length, indices in `placed`: the start of its codes, the end of its literals, the end of
        // its codes.
        let mut spans = [(0, 0, 0); MAX_BITS + 1];
        for length in 1..=bits {
            let table = doubled(table, length);
            let start = self.taken;
            let end = start + usize::from(self.counts[length as usize]);
            let mut literals = start;
            for slot in &mut placed[start..end] {
                let (code, entry) = self.next(length);
                table[code] = entry;
                *slot = (code as u32, entry);
                literals += usize::from(alphabet::is_literals(entry));
            }
            spans[length as usize] = (start, literals, end);
            for first in 1..length {
                let (from, to, _) = spans[first as usize];
                let (more_from, _, more_to) = spans[(length - first) as usize];
                for &(code, literal) in &placed[from..to] {
                    for &(more, entry) in
                        placed[more_from..more_to].iter().filter(|(_, entry)| entry & EXCEPTION == 0)
                    {
                        table[(code | more << first) as usize] = joined(literal, entry);
                    }
                }
            }
        }
    }

    /// Places the codes of more than `bits` bits in subtables behind the first `2^bits` entries.
    fn long(&mut self, table: &mut [u32], bits: u32, longest: u32) {
        let mut end = 1 << bits;
        let mut start = 0;
        let mut stop = 0;
        let mut prefix = usize::MAX;
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
                for slot in (start + (code >> bits)..stop).step_by(step) {
                    table[slot] = entry;
                }
            }
        }
    }

    /// Returns the number of bits that index a subtable whose first code is `least` bits longer than `bits`.
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

/// Returns the first `2^length` entries of a table, after copying the first half of them to the second half.
/// Nothing is copied if `length` is 1.
fn doubled(table: &mut [u32], length: u32) -> &mut [u32] {
    let table = &mut table[..1 << length];
    if length > 1 {
        let (known, copy) = table.split_at_mut(1 << (length - 1));
        copy.copy_from_slice(known);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::alphabet::{bytes, choosing_bits, code_bits, is_literals, total_bits};
    use super::super::tests::writer::{Dice, lengths};
    use super::*;
    use proptest::prelude::*;

    /// Looks a code up as the decoder does.
    fn look(table: &[u32], bits: u32, code: usize) -> u32 {
        let entry = table[code & ((1 << bits) - 1)];
        if entry & SUBTABLE == 0 {
            return entry;
        }
        table[(entry >> 16) as usize + (code >> bits & ((1 << choosing_bits(entry)) - 1))]
    }

    /// Returns the code lengths of a complete code, made by random splits.
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
            build(&lengths, LITERALS, &mut table).unwrap();
            prop_assert!(is_complete(&lengths));
            // The standard's assignment of codes (RFC 1951, section 3.2.2).
            let mut code = 0u32;
            for length in 1..=15u8 {
                for symbol in (0..lengths.len()).filter(|&symbol| lengths[symbol] == length) {
                    let reversed = code.reverse_bits() >> (32 - u32::from(length));
                    let bits = reversed as usize | usize::from(noise) << length;
                    let entry = with_code(LITERALS.symbols[symbol], length.into());
                    prop_assert_eq!(look(&table, LITERAL_BITS, bits & 0x7fff), entry);
                    code += 1;
                }
                code <<= 1;
            }
        }
    }

    proptest! {
        #[test]
        fn a_literal_is_joined_with_what_comes_after_it_wherever_there_is_room(lengths in complete()) {
            let mut codes = Codes::new();
            codes.build(&lengths, &[]).unwrap();
            let mut single = vec![INVALID | 1; LITERAL_TABLE];
            build(&lengths, LITERALS, &mut single).unwrap();
            for at in 0..1 << LITERAL_BITS {
                let first = single[at];
                let mut wanted = first;
                if is_literals(first) {
                    let second = single[at >> code_bits(first)];
                    let both = code_bits(first) + choosing_bits(second);
                    if second & EXCEPTION == 0 && both <= LITERAL_BITS {
                        wanted = joined(first, second);
                    }
                    prop_assert_eq!(u32::from(codes.literal_bits[usize::from(bytes(first)[0])]), code_bits(first));
                }
                prop_assert_eq!(codes.literals[at], wanted);
            }
            prop_assert_eq!(&codes.literals[1 << LITERAL_BITS..], &single[1 << LITERAL_BITS..]);
        }
    }

    #[test]
    fn uneven_codes_fit_their_tables() {
        let mut dice = Dice::new(31);
        let mut codes = Codes::new();
        for _ in 0..2000 {
            let literals = lengths(286, &mut dice);
            let distances = lengths(30, &mut dice);
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
            let mut takes = |lenience| build(lengths, Alphabet { lenience, ..PRECODE }, &mut table).is_ok();
            let taken = [takes(Complete), takes(One), takes(OneOrNone)];
            assert_eq!(taken, [complete, one, none], "{lengths:?}");
        }
    }

    #[test]
    fn one_code_leaves_the_other_bit_invalid() {
        let mut table = [0; 128];
        build(&[0, 0, 0, 1], Alphabet { lenience: Lenience::One, ..PRECODE }, &mut table).unwrap();
        assert_eq!((bytes(table[0])[0], total_bits(table[0])), (3, 1));
        assert_eq!((table[1] & EXCEPTION, total_bits(table[1])), (EXCEPTION, 1));
    }
}
