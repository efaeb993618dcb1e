//! The loop that decodes nearly everything: it may count on enough input and enough room.
//!
//! The next bits lie in a register that is filled up from eight bytes of input at once. What the next
//! bits mean is looked up before the register is filled, so that the look-up doesn't wait for the fill.
//! Anything unusual is left, at the first bit of its symbol, to `careful.rs`.

use super::WINDOW;
use super::alphabet::{END, EXCEPTION, LITERAL, MAX_LENGTH, SUBTABLE};
use super::alphabet::{byte, code_bits, literals_in, second_byte, total_bits, value};
use super::bits::low;
use super::huffman::{Codes, DISTANCE_BITS, DISTANCE_TABLE, LITERAL_BITS, LITERAL_TABLE};
use super::unit::Unit;

/// Items of a match that are copied at a time.
const WIDE: usize = 16;

/// How much room a turn may need: two entries of two literals, the longest match, and what a wide copy
/// writes more.
const ROOM: usize = 4 + MAX_LENGTH + WIDE;

/// How much input there must be: what two fills read, the second seven bytes further on.
const INPUT: usize = 7 + 8;

/// A length and its distance leave this many bits at least, or the distance waits for a fill.
const DISTANCE_NEEDS: u32 = 32;

/// Why the loop was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Room or input may not be enough for another turn, or the next symbol is for the careful loop.
    Unfinished,
    /// The block ended.
    EndOfBlock,
}

/// The register of bits.
struct Register<'a> {
    bytes: &'a [u8],
    /// The byte that the next fill begins with.
    next: usize,
    bits: u64,
    /// How many of `bits` count. Those above are either zero or right.
    count: u32,
}

impl<'a> Register<'a> {
    #[inline(always)]
    fn new(bytes: &'a [u8], bit: usize) -> Self {
        let mut register = Self { bytes, next: bit >> 3, bits: 0, count: 0 };
        register.fill();
        register.drop((bit & 7) as u32);
        register.fill();
        register
    }

    /// Fills up to 56 bits at least.
    #[inline(always)]
    fn fill(&mut self) {
        let chunk = self.bytes[self.next..self.next + 8].first_chunk().expect("eight bytes");
        self.bits |= u64::from_le_bytes(*chunk).wrapping_shl(self.count);
        self.next += ((63 - self.count) >> 3) as usize;
        self.count |= 56;
    }

    #[inline(always)]
    fn drop(&mut self, count: u32) {
        self.bits >>= count;
        self.count -= count;
    }

    /// The bit that comes next.
    #[inline(always)]
    fn at(&self) -> usize {
        self.next * 8 - self.count as usize
    }
}

/// Decodes symbols from bit `at` of `bytes` on into `out[*filled..]`, as long as all is usual.
#[inline(always)]
pub(super) fn decode<S: Unit>(
    codes: &Codes,
    bytes: &[u8],
    at: &mut usize,
    out: &mut [S],
    filled: &mut usize,
) -> Left {
    let Some(last_input) = bytes.len().checked_sub(INPUT).filter(|&last| *at >> 3 <= last) else {
        return Left::Unfinished;
    };
    let mut pos = *filled;
    let mut register = Register::new(bytes, *at);
    let left = turns(codes, &mut register, last_input, out, &mut pos);
    *filled = pos;
    *at = register.at();
    left
}

#[inline(always)]
fn literal_entry(codes: &Codes, bits: u64) -> u32 {
    codes.literals[low(bits, LITERAL_BITS) as usize]
}

/// The entry of a literal or length whose code is longer than the table's bits.
#[inline(always)]
fn long_literal_entry(codes: &Codes, pointer: u32, bits: u64) -> u32 {
    let within = low(bits >> LITERAL_BITS, code_bits(pointer)) as usize;
    codes.literals[((pointer >> 16) as usize + within) & (LITERAL_TABLE - 1)]
}

/// The entry of a distance whose code is longer than the table's bits.
#[inline(always)]
fn long_distance_entry(codes: &Codes, pointer: u32, bits: u64) -> u32 {
    let within = low(bits >> DISTANCE_BITS, code_bits(pointer)) as usize;
    codes.distances[((pointer >> 16) as usize + within) & (DISTANCE_TABLE - 1)]
}

/// Writes the literals of an entry behind the first `count` items of `room`, a few; how many there are then.
#[inline(always)]
fn put<S: Unit>(room: &mut [S; ROOM], count: usize, entry: u32) -> usize {
    let at = count & 7;
    // Where there is no second one the next item comes in its place.
    (room[at], room[at + 1]) = (S::from_byte(byte(entry)), S::from_byte(second_byte(entry)));
    at + literals_in(entry)
}

/// Turn after turn: up to three entries of literals, or up to two and a match.
#[inline(always)]
fn turns<S: Unit>(
    codes: &Codes,
    register: &mut Register<'_>,
    last_input: usize,
    out: &mut [S],
    pos: &mut usize,
) -> Left {
    let mut entry = literal_entry(codes, register.bits);
    loop {
        if register.next > last_input {
            return Left::Unfinished;
        }
        // One look at the room for all that a turn writes.
        let Some(room) = out.get_mut(*pos..).and_then(|rest| rest.first_chunk_mut::<ROOM>()) else {
            return Left::Unfinished;
        };
        // Here the register holds 56 bits or more, and `entry` is what they begin with. Three
        // entries of the table's 11 bits leave 23 or more, two leave 34.
        if entry & LITERAL != 0 {
            register.drop(total_bits(entry));
            let mut count = put(room, 0, entry);
            entry = literal_entry(codes, register.bits);
            if entry & LITERAL != 0 {
                register.drop(total_bits(entry));
                count = put(room, count, entry);
                entry = literal_entry(codes, register.bits);
                if entry & LITERAL != 0 {
                    register.drop(total_bits(entry));
                    count = put(room, count, entry);
                    entry = literal_entry(codes, register.bits);
                    *pos += count;
                    register.fill();
                    continue;
                }
            }
            *pos += count;
        }
        if entry & EXCEPTION != 0 {
            if entry & SUBTABLE != 0 {
                entry = long_literal_entry(codes, entry, register.bits);
                if entry & LITERAL != 0 {
                    register.drop(total_bits(entry));
                    out[*pos] = S::from_byte(byte(entry));
                    *pos += 1;
                    entry = literal_entry(codes, register.bits);
                    register.fill();
                    continue;
                }
            }
            if entry & EXCEPTION != 0 {
                if entry & END == 0 {
                    return Left::Unfinished;
                }
                register.drop(total_bits(entry));
                return Left::EndOfBlock;
            }
        }
        // A length takes up to 20 bits; its distance up to 28.
        let length = value(entry, register.bits);
        register.drop(total_bits(entry));
        let mut far = codes.distances[low(register.bits, DISTANCE_BITS) as usize];
        if far & EXCEPTION != 0 {
            register.fill();
            if far & SUBTABLE != 0 {
                far = long_distance_entry(codes, far, register.bits);
            }
            if far & EXCEPTION != 0 {
                return back(register, entry);
            }
        } else if register.count < DISTANCE_NEEDS {
            register.fill();
        }
        let distance = value(far, register.bits);
        if distance > *pos {
            return back(register, entry);
        }
        register.drop(total_bits(far));
        entry = literal_entry(codes, register.bits);
        register.fill();
        copy(out, *pos, distance, length);
        *pos += length;
    }
}

/// Leaves the loop before the length of this `entry`, which was taken already.
#[cold]
fn back(register: &mut Register<'_>, entry: u32) -> Left {
    let before = register.at() - total_bits(entry) as usize;
    (register.next, register.count) = (before.div_ceil(8), (before.next_multiple_of(8) - before) as u32);
    Left::Unfinished
}

/// Copies a match; may write up to [`WIDE`] items more than `length`.
#[inline(always)]
fn copy<S: Unit>(out: &mut [S], pos: usize, distance: usize, length: usize) {
    debug_assert!(distance <= WINDOW && distance <= pos);
    let from = pos - distance;
    if length <= WIDE.min(distance) {
        // Most matches: short, and not into themselves.
        let wide: [S; WIDE] = *out[from..].first_chunk().expect("room for a wide copy");
        out[pos..pos + WIDE].copy_from_slice(&wide);
        return;
    }
    long_copy(out, pos, distance, length);
}

/// Copies a match that is long, or that repeats what it begins to write.
#[inline(always)]
fn long_copy<S: Unit>(out: &mut [S], pos: usize, distance: usize, length: usize) {
    let from = pos - distance;
    if distance >= WIDE {
        let span = &mut out[from..pos + length + WIDE];
        let mut done = 0;
        loop {
            let wide: [S; WIDE] = *span[done..done + WIDE].first_chunk().expect("of that length");
            span[distance + done..distance + done + WIDE].copy_from_slice(&wide);
            done += WIDE;
            if done >= length {
                return;
            }
        }
    }
    if distance == 1 {
        let item = out[from];
        out[pos..pos + length].fill(item);
        return;
    }
    let span = &mut out[from..pos + length];
    for done in 0..length {
        span[distance + done] = span[done];
    }
}
