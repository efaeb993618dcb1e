//! The fast loop, which decodes nearly everything. It runs only while there is enough input and enough room.
//!
//! The next bits lie in a register, which is refilled from eight bytes of input at once. The next entry is
//! looked up before the refill, so that the look-up does not wait for the refill.
//!
//! An iteration of the loop decodes one entry: up to two literals, or up to one literal and a match. Which of
//! the two it is can't be predicted in most data, and a mispredicted branch costs more than an iteration. The
//! loop avoids that branch: literals without a match are followed by a match of length 0 and distance 0,
//! whose code has no bits. Only in a block with hardly any matches are literals decoded by themselves,
//! several entries per iteration. Anything unusual is left to `careful.rs`, at the first bit of its entry.

use super::WINDOW;
use super::alphabet::{
    END, EXCEPTION, MAX_LENGTH, SUBTABLE, bytes, choosing_bits, distance, is_literals, length, length_mask,
    literals_in, total_bits,
};
use super::bits::{Bits, low};
use super::huffman::{Codes, DISTANCE_BITS, DISTANCE_TABLE, LITERAL_BITS, LITERAL_TABLE};
use super::output::{Match, OutputBuffer};
use super::symbol::OutputSymbol;
use crate::codec::features::dispatched;

/// Items of a match that are copied at once.
const WIDE: usize = 16;

/// Entries of literals decoded in one iteration, in a block with hardly any matches.
const LITERAL_ENTRIES: usize = 4;

/// Output room that an iteration of the loop needs: a literal, the longest match, and the overrun of a wide
/// copy. (Entries of literals need less.)
const ROOM: usize = 1 + MAX_LENGTH + WIDE;

/// The reason why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopExit {
    /// The room or the input may not suffice for another iteration, or the next symbol is for the careful
    /// loop.
    Unfinished,
    /// The block ended.
    EndOfBlock,
}

/// The bit register.
struct Register<'a> {
    /// The input from the next refill on.
    input: &'a [u8],
    bits: u64,
    /// The lowest six bits are the number of valid bits in `bits`. Each higher bit of `bits` is zero or
    /// equals the input's bit; after a refill all 64 bits equal the input's.
    count: u32,
}

impl<'a> Register<'a> {
    /// Refills to at least 56 bits; false if fewer than eight bytes are left.
    #[inline(always)]
    fn fill(&mut self) -> bool {
        let Some(chunk) = self.input.first_chunk() else {
            return false;
        };
        self.bits |= u64::from_le_bytes(*chunk).wrapping_shl(self.count);
        self.input = &self.input[7 - (self.count >> 3 & 7) as usize..];
        self.count |= 56;
        true
    }

    /// Skips all bits of `entry`.
    #[inline(always)]
    fn drop(&mut self, entry: u32) {
        self.bits >>= total_bits(entry);
        self.count = self.count.wrapping_sub(entry);
    }

    /// Returns the number of input bits left.
    #[inline(always)]
    fn bits_left(&self) -> usize {
        self.input.len() * 8 + (self.count & 63) as usize
    }
}

/// Decodes symbols into `output`, up to the first one for the careful loop.
pub(super) fn decode<S: OutputSymbol>(
    codes: &Codes,
    bits: &mut Bits<'_>,
    output: &mut OutputBuffer<'_, S>,
) -> LoopExit {
    let input = bits.bytes.get(bits.at >> 3..).unwrap_or_default();
    let mut register = Register { input, bits: 0, count: 0 };
    if !register.fill() {
        return LoopExit::Unfinished;
    }
    register.drop((bits.at & 7) as u32);
    let out = &mut *output.items;
    let mut pos = output.filled;
    let (reason, bits_left) = dispatched(
        #[inline(always)]
        || {
            if codes.mostly_literals {
                decode_entries::<S, true>(codes, register, out, &mut pos)
            } else {
                decode_entries::<S, false>(codes, register, out, &mut pos)
            }
        },
    );
    output.filled = pos;
    bits.at = bits.bytes.len() * 8 - bits_left;
    reason
}

#[inline(always)]
fn literal_entry(codes: &Codes, bits: u64) -> u32 {
    codes.literals[low(bits, LITERAL_BITS) as usize]
}

/// Returns the entry of a literal or length whose code is longer than the table's bits.
#[inline(always)]
fn long_literal_entry(codes: &Codes, pointer: u32, bits: u64) -> u32 {
    let within = low(bits >> LITERAL_BITS, choosing_bits(pointer)) as usize;
    codes.literals[((pointer >> 16) as usize + within) & (LITERAL_TABLE - 1)]
}

/// Returns the entry of a distance whose code is longer than the table's bits.
#[inline(always)]
fn long_distance_entry(codes: &Codes, pointer: u32, bits: u64) -> u32 {
    let within = low(bits >> DISTANCE_BITS, choosing_bits(pointer)) as usize;
    codes.distances[((pointer >> 16) as usize + within) & (DISTANCE_TABLE - 1)]
}

/// Writes the literals of an entry, up to two, to the front of `room`.
#[inline(always)]
fn put<S: OutputSymbol>(room: &mut [S], entry: u32) {
    // With fewer than two literals, the bytes in excess are overwritten by the output that follows.
    room[..2].copy_from_slice(&bytes(entry).map(S::from_byte));
}

/// Decodes entries in a loop. Returns the reason why the loop ended, and the number of bits left. `LITERALS`
/// is for blocks with hardly any matches.
#[inline(always)]
fn decode_entries<S: OutputSymbol, const LITERALS: bool>(
    codes: &Codes,
    mut register: Register<'_>,
    out: &mut [S],
    pos: &mut usize,
) -> (LoopExit, usize) {
    let mut entry = literal_entry(codes, register.bits);
    loop {
        if !register.fill() {
            return (LoopExit::Unfinished, register.bits_left());
        }
        // One bounds check for all that an iteration writes.
        let Some(room) = out.get_mut(*pos..).and_then(|rest| rest.first_chunk_mut::<ROOM>()) else {
            return (LoopExit::Unfinished, register.bits_left());
        };
        // Here the register begins with the bits of `entry`; 56 bits are valid and all 64 are right. Four
        // entries of literals take 44 bits, a length with its distance at most 48. The next look-up then
        // takes 11 more.
        if LITERALS && is_literals(entry) {
            let mut count = 0;
            for _ in 0..LITERAL_ENTRIES {
                put(&mut room[count & (2 * LITERAL_ENTRIES - 1)..], entry);
                count += literals_in(entry);
                register.drop(entry);
                entry = literal_entry(codes, register.bits);
                if !is_literals(entry) {
                    break;
                }
            }
            *pos += count;
            continue;
        }
        if entry & EXCEPTION != 0 {
            if entry & SUBTABLE != 0 {
                entry = long_literal_entry(codes, entry, register.bits);
            }
            if entry & EXCEPTION != 0 {
                if entry & END == 0 {
                    return (LoopExit::Unfinished, register.bits_left());
                }
                register.drop(entry);
                return (LoopExit::EndOfBlock, register.bits_left());
            }
        }
        put(room, entry);
        // Without a length the mask is zero, and so are the length and the distance's entry.
        let mask = length_mask(entry);
        let keep = mask as i32 as usize;
        let length = length(entry, register.bits) & keep;
        register.drop(entry);
        let mut far = codes.distances[low(register.bits, DISTANCE_BITS) as usize] & mask;
        if far & EXCEPTION != 0 {
            if far & SUBTABLE != 0 {
                far = long_distance_entry(codes, far, register.bits);
            }
            if far & EXCEPTION != 0 {
                return (LoopExit::Unfinished, left_before(&register, entry));
            }
        }
        let distance = distance(far, register.bits);
        register.drop(far);
        let start = *pos + literals_in(entry);
        let Some(from) = start.checked_sub(distance) else {
            return (LoopExit::Unfinished, left_before(&register, entry.wrapping_add(far)));
        };
        entry = literal_entry(codes, register.bits);
        // Without a match the source is index 0: reading the bytes just written would wait for that write.
        let from = from & keep;
        copy_match(out, start, from, Match { length, distance });
        *pos = start + length;
    }
}

/// Copies a match to `start`; `from` is where its source begins, or any item if its length is 0.
#[inline(always)]
fn copy_match<S: OutputSymbol>(out: &mut [S], start: usize, from: usize, found: Match) {
    if found.length <= WIDE.min(found.distance) {
        // Most matches: short, and without overlap.
        let wide: [S; WIDE] = *out[from..].first_chunk().expect("room for a wide copy");
        out[start..start + WIDE].copy_from_slice(&wide);
    } else {
        long_copy(out, start, found);
    }
}

/// Returns the number of input bits left before some entries were skipped; `sum` is the sum of these entries.
///
/// Not inlined, so that the loop does not compute values that only this function needs.
#[cold]
#[inline(never)]
fn left_before(register: &Register<'_>, sum: u32) -> usize {
    register.bits_left() + total_bits(sum) as usize
}

/// Copies a long match, or one that overlaps its own output, to `pos`; may write up to [`WIDE`] items more
/// than its length. Not inlined, because the loop needs the registers.
#[inline(never)]
fn long_copy<S: OutputSymbol>(out: &mut [S], pos: usize, found: Match) {
    let Match { length, distance } = found;
    debug_assert!(distance <= WINDOW && distance <= pos);
    let from = pos - distance;
    if distance == 1 {
        let item = out[from];
        out[pos..pos + length].fill(item);
        return;
    }
    // Output with a period shorter than a wide copy also repeats at each multiple of the period. Up to the
    // first multiple that is long enough, items are copied one by one.
    let mut back = distance;
    let mut done = 0;
    if distance < WIDE {
        back = distance * WIDE.div_ceil(distance);
        done = length.min(back - distance);
        let span = &mut out[from..pos + done];
        for at in 0..done {
            span[distance + at] = span[at];
        }
    }
    while done < length {
        let at = pos + done;
        let wide: [S; WIDE] = *out[at - back..].first_chunk().expect("room for a wide copy");
        out[at..at + WIDE].copy_from_slice(&wide);
        done += WIDE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_of_any_length_repeats_what_is_any_distance_before_it() {
        let before: Vec<u16> = (0..300).map(|n| n * 7).collect();
        for distance in (1..50).chain([299, 300]) {
            for length in 1..=MAX_LENGTH {
                let mut out = before.clone();
                out.resize(before.len() + length + WIDE + 1, 1);
                long_copy(&mut out, before.len(), Match { length, distance });
                let mut wanted = before.clone();
                for _ in 0..length {
                    wanted.push(wanted[wanted.len() - distance]);
                }
                assert_eq!(out[..wanted.len()], wanted, "{length} from {distance} before");
                assert_eq!(out.last(), Some(&1));
            }
        }
    }
}
