//! The loop that decodes one symbol at a time and looks at everything: near the end of the input or of
//! the room, and where something is wrong.

use super::alphabet::{END, EXCEPTION, LITERAL, MAX_LENGTH, SUBTABLE, byte, code_bits, total_bits, value};
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
    Room,
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
            _ if !has_room => return Ok(Left::Room),
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
            return Ok(Left::Room);
        }
    }
}

/// The symbol that `word` begins with and how many bits it takes, `there` of which there are.
fn symbol(codes: &Codes, word: u64, there: usize) -> Result<(Symbol, usize), Wrong> {
    let mut entry = codes.literals[low(word, LITERAL_BITS) as usize];
    if entry & LITERAL == 0 && entry & (EXCEPTION | SUBTABLE) == EXCEPTION | SUBTABLE {
        let within = low(word >> LITERAL_BITS, code_bits(entry)) as usize;
        entry = codes.literals[((entry >> 16) as usize + within) & (LITERAL_TABLE - 1)];
    }
    let taken = match entry & LITERAL {
        0 => total_bits(entry) as usize,
        // One at a time.
        _ => code_bits(entry) as usize,
    };
    if taken > there {
        return Err(Wrong::Short);
    }
    if entry & LITERAL != 0 {
        return Ok((Symbol::Literal(byte(entry)), taken));
    }
    if entry & EXCEPTION != 0 {
        return if entry & END != 0 { Ok((Symbol::End, taken)) } else { Err(Reason::Symbol.into()) };
    }
    let length = value(entry, word);
    let word = word >> taken;
    let mut entry = codes.distances[low(word, DISTANCE_BITS) as usize];
    if entry & (EXCEPTION | SUBTABLE) == EXCEPTION | SUBTABLE {
        let within = low(word >> DISTANCE_BITS, code_bits(entry)) as usize;
        entry = codes.distances[((entry >> 16) as usize + within) & (DISTANCE_TABLE - 1)];
    }
    let taken = taken + total_bits(entry) as usize;
    if taken > there {
        return Err(Wrong::Short);
    }
    if entry & EXCEPTION != 0 {
        return Err(Reason::Distance.into());
    }
    Ok((Symbol::Match { length, distance: value(entry, word) }, taken))
}
