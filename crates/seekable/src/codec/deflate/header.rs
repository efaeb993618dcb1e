//! The header of a block (RFC 1951, section 3.2.3): its kind and its codes.
//!
//! Code lengths are accepted as by zlib, the reference that other readers follow: a complete code, or a
//! single code of one bit, or, for distances, no code at all.

use super::alphabet::{END_OF_BLOCK, EXCEPTION, MAX_DISTANCES, MAX_LITERALS, code_bits, total_bits};
use super::bits::{Bits, low, peek};
use super::fault::{Reason, Wrong};
use super::huffman::{self, PRECODE, PRECODE_BITS, PRECODE_TABLE};

/// Maximum size of a header in bytes, counted from the byte that holds its first bit.
///
/// Three bits, three counts of 14 bits together, 19 lengths of three bits, and 316 code lengths of
/// seven bits and seven extra bits: 4498 bits.
pub(super) const HEADER_BYTES: usize = 568;

/// Number of bits for the kind of a block, with the flag of the last block.
pub(super) const KIND_BITS: u32 = 3;

/// The order in which the precode's code lengths are stored.
const PRECODE_ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// The code lengths of a block.
#[derive(Clone, Debug)]
pub(super) struct Lengths {
    all: [u8; MAX_LITERALS + MAX_DISTANCES],
    literals: usize,
    distances: usize,
}

impl Lengths {
    /// Returns the code lengths of literals and lengths.
    pub(super) fn literals(&self) -> &[u8] {
        &self.all[..self.literals]
    }

    /// Returns the code lengths of distances.
    pub(super) fn distances(&self) -> &[u8] {
        &self.all[self.literals..self.literals + self.distances]
    }

    /// Reads the code lengths of a dynamic block; `bits` begins after the block's kind.
    pub(super) fn read(bits: &mut Bits<'_>) -> Result<Self, Wrong> {
        let literals = bits.take(5)? as usize + 257;
        let distances = bits.take(5)? as usize + 1;
        let precode = bits.take(4)? as usize + 4;
        if literals > MAX_LITERALS || distances > MAX_DISTANCES {
            return Err(Reason::TooManyCodes.into());
        }
        let mut table = [0; PRECODE_TABLE];
        read_precode(bits, precode, &mut table)?;
        let mut lengths = Self { all: [0; MAX_LITERALS + MAX_DISTANCES], literals, distances };
        read_lengths(bits, &table, &mut lengths.all[..literals + distances])?;
        match lengths.all[END_OF_BLOCK] {
            0 => Err(Reason::NoEnd.into()),
            _ => Ok(lengths),
        }
    }
}

fn read_precode(bits: &mut Bits<'_>, count: usize, table: &mut [u32; PRECODE_TABLE]) -> Result<(), Wrong> {
    let mut lengths = [0; 19];
    for &symbol in &PRECODE_ORDER[..count] {
        lengths[symbol] = bits.take(3)? as u8;
    }
    Ok(huffman::build(&lengths, PRECODE, table)?)
}

fn read_lengths(bits: &mut Bits<'_>, table: &[u32; PRECODE_TABLE], lengths: &mut [u8]) -> Result<(), Wrong> {
    let mut at = 0;
    while at < lengths.len() {
        let word = bits.peek();
        let entry = table[low(word, PRECODE_BITS) as usize];
        debug_assert_eq!(entry & EXCEPTION, 0, "the precode is complete");
        let code = code_bits(entry);
        let extra = |count| (code + count, low(word >> code, count) as usize);
        let ((taken, more), least, value) = match entry >> 16 {
            16 => (extra(2), 3, at.checked_sub(1).map(|before| lengths[before])),
            17 => (extra(3), 3, Some(0)),
            18 => (extra(7), 11, Some(0)),
            length => ((total_bits(entry), 0), 1, Some(length as u8)),
        };
        bits.skip(taken)?;
        let end = at + least + more;
        let (Some(value), Some(run)) = (value, lengths.get_mut(at..end)) else {
            return Err(Reason::Repeat.into());
        };
        run.fill(value);
        at = end;
    }
    Ok(())
}

/// Returns the code lengths of a fixed block.
pub(super) fn fixed() -> ([u8; 288], [u8; 32]) {
    let mut literals = [8; 288];
    literals[144..256].fill(9);
    literals[256..280].fill(7);
    (literals, [5; 32])
}

/// True if a dynamic block that is not the last could begin at `bit` of `bytes`.
///
/// It is true for every such block of every known encoder, and for about one in 10^10 of the other positions.
/// `bytes` must have [`HEADER_BYTES`] after `bit`, unless the stream ends earlier. A header that is cut off is
/// not plausible.
pub(super) fn is_plausible(bytes: &[u8], bit: usize) -> bool {
    // Not the last (0), dynamic (10, lowest bit first).
    if low(peek(bytes, bit), KIND_BITS) != 0b100 {
        return false;
    }
    let mut bits = Bits::new(bytes, bit + KIND_BITS as usize);
    match Lengths::read(&mut bits) {
        Ok(lengths) => huffman::is_complete(lengths.literals()) && is_usual(lengths.distances()),
        Err(_) => false,
    }
}

/// True if the lengths of distance codes are complete, a single code of one bit, or none.
fn is_usual(lengths: &[u8]) -> bool {
    huffman::is_complete(lengths) || lengths.iter().map(|&length| u32::from(length)).sum::<u32>() <= 1
}

#[cfg(test)]
mod tests {
    use super::super::tests::{image, zlib};
    use super::*;

    #[test]
    fn a_header_is_read_and_a_shorter_one_is_short() {
        let block = zlib(&image(60_000), 6).split_off(2);
        assert!(is_plausible(&block, 0));
        let mut bits = Bits::new(&block, 3);
        let lengths = Lengths::read(&mut bits).unwrap();
        assert!(huffman::is_complete(lengths.literals()) && lengths.literals().len() > 256);
        for cut in 0..bits.at / 8 {
            let cut = Lengths::read(&mut Bits::new(&block[..cut], 3));
            assert_eq!(cut.unwrap_err(), Wrong::Short);
        }
    }

    #[test]
    fn what_no_header_may_say_is_refused() {
        // 287 literal and length codes, one too many; then a precode without codes.
        let many = u32::to_le_bytes(30 | 3 << 5);
        let none = [0; 16];
        let read = |bytes: &[u8]| Lengths::read(&mut Bits::new(bytes, 0)).unwrap_err();
        assert_eq!(read(&many), Wrong::Bits(Reason::TooManyCodes));
        assert_eq!(read(&none), Wrong::Bits(Reason::CodeLengths));
    }
}
