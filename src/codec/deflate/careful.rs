//! The careful loop, which decodes one symbol at a time with all checks. It runs near the end of the input or
//! of the room, and at errors.

use super::alphabet::{END, EXCEPTION, MAX_LENGTH, SUBTABLE, bytes, choosing_bits, total_bits};
use super::alphabet::{distance, length, literals_in};
use super::bits::{low, peek};
use super::fault::{Reason, Wrong};
use super::huffman::{Codes, DISTANCE_BITS, DISTANCE_TABLE, LITERAL_BITS, LITERAL_TABLE};
use super::unit::Unit;

/// Upper bound of the bytes that a symbol and its distance touch: 48 bits that begin within a byte.
pub(super) const SYMBOL_BYTES: usize = 8;

/// The part of a match that did not fit into the room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rest {
    /// Number of items left to copy; 0 if there is no match.
    pub(super) length: usize,
    /// Distance of the match.
    pub(super) distance: usize,
}

impl Rest {
    /// Copies as many of its items as fit into `out[*filled..]`.
    pub(super) fn copy<S: Unit>(&mut self, out: &mut [S], filled: &mut usize) -> Result<(), Reason> {
        if self.distance > *filled {
            return Err(Reason::TooFar);
        }
        let now = self.length.min(out.len() - *filled);
        for at in *filled..*filled + now {
            out[at] = out[at - self.distance];
        }
        *filled += now;
        self.length -= now;
        Ok(())
    }
}

/// The reason why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// More input is needed, and there is more.
    Input,
    /// There is no room for the next item.
    MemoryBudget,
    /// The block ended.
    EndOfBlock,
}

/// A decoded symbol.
enum Symbol {
    Literal(u8),
    Match { length: usize, distance: usize },
    End,
}

/// Decodes symbols from bit `at` of `bytes` on into `out[*filled..]`.
///
/// On return, also with an error, `at` is the first bit that was not decoded. `ended` says that no bytes
/// follow `bytes`. If a match is longer than the room, its remainder is left in `rest`.
pub(super) fn decode<S: Unit>(
    codes: &Codes,
    bytes: &[u8],
    ended: bool,
    at: &mut usize,
    out: &mut [S],
    filled: &mut usize,
    rest: &mut Rest,
) -> Result<Left, Wrong> {
    let end = bytes.len() * 8;
    loop {
        if !ended && (*at >> 3) + SYMBOL_BYTES > bytes.len() {
            return Ok(Left::Input);
        }
        let (symbol, taken) = symbol(codes, peek(bytes, *at), end.saturating_sub(*at))?;
        let has_room = *filled < out.len();
        match symbol {
            Symbol::End => {
                *at += taken;
                return Ok(Left::EndOfBlock);
            }
            Symbol::Match { distance, .. } if distance > *filled => return Err(Reason::TooFar.into()),
            _ if !has_room => return Ok(Left::MemoryBudget),
            Symbol::Literal(byte) => {
                out[*filled] = S::from_byte(byte);
                *filled += 1;
            }
            Symbol::Match { length, distance } => {
                debug_assert!(length <= MAX_LENGTH);
                *rest = Rest { length, distance };
                rest.copy(out, filled)?;
            }
        }
        *at += taken;
        if rest.length > 0 {
            return Ok(Left::MemoryBudget);
        }
    }
}

/// Returns the symbol at the start of `word` and its number of bits; fails if that exceeds `there`, the
/// number of bits left.
fn symbol(codes: &Codes, word: u64, there: usize) -> Result<(Symbol, usize), Wrong> {
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
    if taken > there {
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
    let mut entry = codes.distances[low(word, DISTANCE_BITS) as usize];
    if entry & SUBTABLE != 0 {
        let within = low(word >> DISTANCE_BITS, choosing_bits(entry)) as usize;
        entry = codes.distances[((entry >> 16) as usize + within) & (DISTANCE_TABLE - 1)];
    }
    let taken = taken + total_bits(entry) as usize;
    if taken > there {
        return Err(Wrong::Short);
    }
    if entry & EXCEPTION != 0 {
        return Err(Reason::Distance.into());
    }
    Ok((Symbol::Match { length, distance: distance(entry, word) }, taken))
}
