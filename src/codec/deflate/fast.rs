//! The loop that decodes nearly everything: it may count on enough input and enough room.
//!
//! The next bits lie in a register that is filled up from eight bytes of input at once. What the next
//! bits mean is looked up before the register is filled, so that the look-up doesn't wait for the fill.
//!
//! A turn takes what one look-up says: up to two literals, or up to one and a match. Which of them it is
//! can't be predicted in most data, and a branch that is predicted wrong costs more than a turn. So there
//! is none: literals alone are followed by a match of no length and no distance, whose code has no bits.
//! Only in a block of hardly any matches are literals taken by themselves, several look-ups a turn.
//! Anything unusual is left, at the first bit of its entry, to `careful.rs`.

use super::WINDOW;
use super::alphabet::{END, EXCEPTION, MAX_LENGTH, SUBTABLE};
use super::alphabet::{
    bytes, choosing_bits, distance, is_literals, length, length_mask, literals_in, total_bits,
};
use super::bits::low;
use super::huffman::{Codes, DISTANCE_BITS, DISTANCE_TABLE, LITERAL_BITS, LITERAL_TABLE};
use super::unit::Unit;
use crate::codec::features::dispatched;

/// Items of a match that are copied at a time.
const WIDE: usize = 16;

/// Entries of literals that are taken in one turn, in a block of hardly any matches.
const LITERAL_ENTRIES: usize = 4;

/// How much room a turn may need: a literal, the longest match, and what a wide copy writes more. (The
/// entries of literals need less.)
const ROOM: usize = 1 + MAX_LENGTH + WIDE;

/// Why the loop was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// The room or the input may not suffice for another turn, or the next symbol is for the careful loop.
    Unfinished,
    /// The block ended.
    EndOfBlock,
}

/// The register of bits.
struct Register<'a> {
    /// What the next fill begins with.
    input: &'a [u8],
    bits: u64,
    /// How many of `bits` count, in the lowest six bits. Those above are either zero or right; after a
    /// fill all 64 are right.
    count: u32,
}

impl<'a> Register<'a> {
    /// Fills up to 56 bits at least, if there are eight bytes more.
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

    /// Passes over all bits of `entry`.
    #[inline(always)]
    fn drop(&mut self, entry: u32) {
        self.bits >>= total_bits(entry);
        self.count = self.count.wrapping_sub(entry);
    }

    /// How many bits of input there are from here on.
    #[inline(always)]
    fn left(&self) -> usize {
        self.input.len() * 8 + (self.count & 63) as usize
    }
}

/// Decodes symbols from bit `at` of `bytes` on into `out[*filled..]`, as long as all is usual.
pub(super) fn decode<S: Unit>(
    codes: &Codes,
    bytes: &[u8],
    at: &mut usize,
    out: &mut [S],
    filled: &mut usize,
) -> Left {
    let mut register = Register { input: bytes.get(*at >> 3..).unwrap_or_default(), bits: 0, count: 0 };
    if !register.fill() {
        return Left::Unfinished;
    }
    register.drop((*at & 7) as u32);
    let mut pos = *filled;
    let (left, rest) = dispatched(
        #[inline(always)]
        || match codes.mostly_literals {
            true => turns::<S, true>(codes, register, out, &mut pos),
            false => turns::<S, false>(codes, register, out, &mut pos),
        },
    );
    *filled = pos;
    *at = bytes.len() * 8 - rest;
    left
}

#[inline(always)]
fn literal_entry(codes: &Codes, bits: u64) -> u32 {
    codes.literals[low(bits, LITERAL_BITS) as usize]
}

/// The entry of a literal or length whose code is longer than the table's bits.
#[inline(always)]
fn long_literal_entry(codes: &Codes, pointer: u32, bits: u64) -> u32 {
    let within = low(bits >> LITERAL_BITS, choosing_bits(pointer)) as usize;
    codes.literals[((pointer >> 16) as usize + within) & (LITERAL_TABLE - 1)]
}

/// The entry of a distance whose code is longer than the table's bits.
#[inline(always)]
fn long_distance_entry(codes: &Codes, pointer: u32, bits: u64) -> u32 {
    let within = low(bits >> DISTANCE_BITS, choosing_bits(pointer)) as usize;
    codes.distances[((pointer >> 16) as usize + within) & (DISTANCE_TABLE - 1)]
}

/// Writes what there may be of literals in an entry to the front of `room`.
#[inline(always)]
fn put<S: Unit>(room: &mut [S], entry: u32) {
    // Where there is none, or one, what comes next comes in its place.
    room[..2].copy_from_slice(&bytes(entry).map(S::from_byte));
}

/// Turn after turn; why it ended, and how many bits are left. `LITERALS` is for blocks of hardly any
/// matches.
#[inline(always)]
fn turns<S: Unit, const LITERALS: bool>(
    codes: &Codes,
    mut register: Register<'_>,
    out: &mut [S],
    pos: &mut usize,
) -> (Left, usize) {
    let mut entry = literal_entry(codes, register.bits);
    loop {
        if !register.fill() {
            return (Left::Unfinished, register.left());
        }
        // One look at the room for all that a turn writes.
        let Some(room) = out.get_mut(*pos..).and_then(|rest| rest.first_chunk_mut::<ROOM>()) else {
            return (Left::Unfinished, register.left());
        };
        // Here `entry` is what the register begins with, of which 56 bits count and all 64 are right.
        // Four entries of literals take 44 bits, a length and its distance 48 at most. What is looked
        // up then has 11 bits more.
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
                    return (Left::Unfinished, register.left());
                }
                register.drop(entry);
                return (Left::EndOfBlock, register.left());
            }
        }
        put(room, entry);
        // Zero if there is no length: then so are the length and the distance's entry.
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
                return (Left::Unfinished, left_before(&register, entry));
            }
        }
        let distance = distance(far, register.bits);
        register.drop(far);
        let start = *pos + literals_in(entry);
        let Some(from) = start.checked_sub(distance) else {
            return (Left::Unfinished, left_before(&register, entry.wrapping_add(far)));
        };
        entry = literal_entry(codes, register.bits);
        // Where nothing is copied, reading what was just written would wait for that.
        let from = from & keep;
        copy_match(out, start, from, distance, length);
        *pos = start + length;
    }
}

/// Copies `length` units from `from`, which lies `distance` before `start` unless `length` is 0.
#[inline(always)]
fn copy_match<S: Unit>(out: &mut [S], start: usize, from: usize, distance: usize, length: usize) {
    if length <= WIDE.min(distance) {
        // Most matches: short, and without overlap.
        let wide: [S; WIDE] = *out[from..].first_chunk().expect("room for a wide copy");
        out[start..start + WIDE].copy_from_slice(&wide);
    } else {
        long_copy(out, start, distance, length);
    }
}

/// How many bits of input there are from before the entries on whose sum this is, which were passed over.
///
/// A function of its own, so that what only this needs isn't worked out in each turn.
#[cold]
#[inline(never)]
fn left_before(register: &Register<'_>, sum: u32) -> usize {
    register.left() + total_bits(sum) as usize
}

/// Copies a match that is long, or that repeats what it begins to write; may write up to [`WIDE`] items
/// more than `length`. Not inlined: the registers are needed for the turns.
#[inline(never)]
fn long_copy<S: Unit>(out: &mut [S], pos: usize, distance: usize, length: usize) {
    debug_assert!(distance <= WINDOW && distance <= pos);
    let from = pos - distance;
    if distance == 1 {
        let item = out[from];
        out[pos..pos + length].fill(item);
        return;
    }
    // What repeats itself after less than a wide copy repeats itself after each multiple of that: up to
    // the first one that is long enough it is copied item by item.
    let (mut back, mut done) = (distance, 0);
    if distance < WIDE {
        back = distance * WIDE.div_ceil(distance);
        done = length.min(back - distance);
        let span = &mut out[from..pos + done];
        (0..done).for_each(|at| span[distance + at] = span[at]);
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
                long_copy(&mut out, before.len(), distance, length);
                let mut wanted = before.clone();
                (0..length).for_each(|_| wanted.push(wanted[wanted.len() - distance]));
                assert_eq!(out[..wanted.len()], wanted, "{length} from {distance} before");
                assert_eq!(out.last(), Some(&1));
            }
        }
    }
}
