//! The loop that decodes one symbol at a time and looks at everything: near the end of the input or of
//! the room, and where something is wrong.

use super::alphabet::{END, EXCEPTION, MAX_LENGTH, SUBTABLE, bytes, choosing_bits, total_bits};
use super::alphabet::{distance, length, literals_in};
use super::bits::{low, peek};
use super::fault::{Reason, Wrong};
use super::huffman::{Codes, DISTANCE_BITS, DISTANCE_TABLE, LITERAL_BITS, LITERAL_TABLE};
use super::unit::Unit;

/// How many bytes a symbol and its distance touch at most: 48 bits that begin within a byte.
pub(super) const SYMBOL_BYTES: usize = 8;

/// The part of a match for which there was no room yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rest {
    /// How many items; 0 if there is none.
    pub(super) length: usize,
    /// How far back they are.
    pub(super) distance: usize,
}

impl Rest {
    /// Copies as much of it as there is room for in `out[*filled..]`.
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

/// Why the loop was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// More input is there and needed.
    Input,
    /// There is no room for the next item.
    MemoryBudget,
    /// The block ended.
    EndOfBlock,
}

/// What a symbol says.
enum Symbol {
    Literal(u8),
    Match { length: usize, distance: usize },
    End,
}

/// Decodes symbols from bit `at` of `bytes` on into `out[*filled..]`.
///
/// `at` is left at the first bit of what was not decoded, whatever happens. `ended` says that no more
/// bytes come after these. A match that is longer than the room leaves its `rest`.
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

/// The symbol that `word` begins with and how many bits it takes, `there` of which there are.
fn symbol(codes: &Codes, word: u64, there: usize) -> Result<(Symbol, usize), Wrong> {
    let mut entry = codes.literals[low(word, LITERAL_BITS) as usize];
    if entry & SUBTABLE != 0 {
        let within = low(word >> LITERAL_BITS, choosing_bits(entry)) as usize;
        entry = codes.literals[((entry >> 16) as usize + within) & (LITERAL_TABLE - 1)];
    }
    let [byte, _] = bytes(entry);
    let taken = match literals_in(entry) {
        0 => total_bits(entry) as usize,
        // The first one alone, whatever else the entry holds.
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
