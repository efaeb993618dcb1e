//! The careful loop, which decodes one symbol at a time with all checks. It runs near the end of the input or
//! of the room, and at errors.

use super::alphabet::{
    END, EXCEPTION, MAX_LENGTH, SUBTABLE, bytes, choosing_bits, distance, length, literals_in, total_bits,
};
use super::bits::{Bits, low};
use super::fault::{Reason, Wrong};
use super::huffman::{Codes, DISTANCE_BITS, DISTANCE_TABLE, LITERAL_BITS, LITERAL_TABLE};
use super::output::{Match, OutputBuffer};
use super::symbol::OutputSymbol;

/// Upper bound of the bytes that a symbol and its distance touch: 48 bits that begin within a byte.
pub(super) const SYMBOL_BYTES: usize = 8;

/// The reason why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopExit {
    /// More input is needed, and the input has not ended.
    Input,
    /// The output is full. The rest of the last match, possibly empty, had no room.
    Full(Match),
    /// The block ended.
    EndOfBlock,
}

/// A decoded symbol.
enum Symbol {
    Literal(u8),
    Match(Match),
    End,
}

/// Decodes symbols into `out`. `ended` is true if no input follows `bits`.
///
/// On return, also with an error, `bits` is at the first bit that was not decoded.
pub(super) fn decode<S: OutputSymbol>(
    codes: &Codes,
    bits: &mut Bits<'_>,
    ended: bool,
    out: &mut OutputBuffer<'_, S>,
) -> Result<LoopExit, Wrong> {
    loop {
        if !ended && (bits.at >> 3) + SYMBOL_BYTES > bits.bytes.len() {
            return Ok(LoopExit::Input);
        }
        let (symbol, taken) = symbol(codes, bits.peek(), (bits.bytes.len() * 8).saturating_sub(bits.at))?;
        let has_room = out.filled < out.items.len();
        let mut rest = Match::default();
        match symbol {
            Symbol::End => {
                bits.at += taken;
                return Ok(LoopExit::EndOfBlock);
            }
            Symbol::Match(found) if found.distance > out.filled => return Err(Reason::TooFar.into()),
            _ if !has_room => return Ok(LoopExit::Full(rest)),
            Symbol::Literal(byte) => {
                out.items[out.filled] = S::from_byte(byte);
                out.filled += 1;
            }
            Symbol::Match(found) => {
                debug_assert!(found.length <= MAX_LENGTH);
                rest = out.copy(found)?;
            }
        }
        bits.at += taken;
        if rest.length > 0 {
            return Ok(LoopExit::Full(rest));
        }
    }
}

/// Returns the symbol at the start of `word` and its number of bits; fails if the symbol is longer than
/// `bits_left`, the number of bits left.
fn symbol(codes: &Codes, word: u64, bits_left: usize) -> Result<(Symbol, usize), Wrong> {
    let mut entry = codes.literals[low(word, LITERAL_BITS) as usize];
    if entry & SUBTABLE != 0 {
        let within = low(word >> LITERAL_BITS, choosing_bits(entry)) as usize;
        entry = codes.literals[((entry >> 16) as usize + within) & (LITERAL_TABLE - 1)];
    }
    let [byte, _] = bytes(entry);
    let taken = match literals_in(entry) {
        0 => total_bits(entry) as usize,
        // Only the first literal is taken, whatever else the entry holds.
        _ => codes.literal_bits[usize::from(byte)].into(),
    };
    if taken > bits_left {
        return Err(Wrong::Short);
    }
    if literals_in(entry) > 0 {
        return Ok((Symbol::Literal(byte), taken));
    }
    if entry & EXCEPTION != 0 {
        return if entry & END != 0 { Ok((Symbol::End, taken)) } else { Err(Reason::Symbol.into()) };
    }
    let length = length(entry, word);
    let word = word >> taken;
    let mut distance_entry = codes.distances[low(word, DISTANCE_BITS) as usize];
    if distance_entry & SUBTABLE != 0 {
        let within = low(word >> DISTANCE_BITS, choosing_bits(distance_entry)) as usize;
        distance_entry = codes.distances[((distance_entry >> 16) as usize + within) & (DISTANCE_TABLE - 1)];
    }
    let taken = taken + total_bits(distance_entry) as usize;
    if taken > bits_left {
        return Err(Wrong::Short);
    }
    if distance_entry & EXCEPTION != 0 {
        return Err(Reason::Distance.into());
    }
    Ok((Symbol::Match(Match { length, distance: distance(distance_entry, word) }), taken))
}
