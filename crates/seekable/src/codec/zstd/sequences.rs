//! The three repeated offsets that a block's sequences leave to the next block (RFC 8878, 3.1.1.4 and
//! 3.1.1.5).

use super::bits::Backwards;
use super::block::Sequences;
use super::fse::{FseState, Table};

/// Number of extra bits of each match length code.
const MATCH_BITS: [u8; 53] = [
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1,
    1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
];

/// Number of extra bits of each literal length code.
const LITERAL_BITS: [u8; 36] = [
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13,
    14, 15, 16,
];

/// The offsets of the last three matches, the latest first; 0 is an unknown one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offsets([u32; 3]);

impl Offsets {
    /// The offsets at the start of a frame.
    pub(super) const FIRST: Self = Self([1, 4, 8]);
    pub(super) const UNKNOWN: Self = Self([0; 3]);

    /// Returns the offsets if all are known.
    pub(super) fn known(self) -> Option<[u32; 3]> {
        (!self.0.contains(&0)).then_some(self.0)
    }

    /// Returns the offsets after a match; `value` is the offset value of its sequence.
    fn after(self, value: u32, without_literals: bool) -> Option<Self> {
        let [first, second, third] = self.0;
        if value > 3 {
            return Some(Self([value - 3, first, second]));
        }
        Some(Self(match value + u32::from(without_literals) {
            1 => self.0,
            2 => [second, first, third],
            3 => [third, first, second],
            // The latest offset less 1, which must not be 0.
            _ if first == 1 => return None,
            _ => [first.saturating_sub(1), first, second],
        }))
    }
}

/// Returns the offsets after a block's sequences; `None` if the sequences are broken.
pub(super) fn follow(
    sequences: &Sequences<'_>,
    tables: &[Table; 3],
    mut offsets: Offsets,
) -> Option<Offsets> {
    let mut bits = Backwards::new(sequences.bits)?;
    let [lengths, codes, matches] = tables;
    let mut begin = |table: &Table| table.state(bits.take(table.log)?);
    let mut length = begin(lengths)?;
    let mut code = begin(codes)?;
    let mut matched = begin(matches)?;
    for sequences_left in (0..sequences.count).rev() {
        let value = 1_u32.checked_shl(code.code.into())?;
        offsets = offsets.after(value + bits.take(code.code.into())?, length.code == 0)?;
        let match_bits = MATCH_BITS.get(usize::from(matched.code))?;
        let literal_bits = LITERAL_BITS.get(usize::from(length.code))?;
        bits.skip(u32::from(match_bits + literal_bits))?;
        if sequences_left > 0 {
            let of_length = length.bits;
            let of_match = matched.bits;
            let of_code = code.bits;
            let all = bits.take(u32::from(of_length + of_match + of_code))?;
            length = following(lengths, length, all >> (of_match + of_code))?;
            matched = following(matches, matched, all >> of_code & ((1 << of_match) - 1))?;
            code = following(codes, code, all & ((1 << of_code) - 1))?;
        }
    }
    bits.is_at_end().then_some(offsets)
}

/// Returns the state after `state`; `bits` are the bits read for it.
fn following(table: &Table, state: FseState, bits: u32) -> Option<FseState> {
    table.state(u32::from(state.base) + bits)
}
