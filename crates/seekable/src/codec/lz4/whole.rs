//! An LZ4 block decoded as a whole, into a given buffer.
//!
//! [`super::block`], the incremental decoder, describes the format. Nearly every sequence is short: both
//! lengths are in the token, or the literals need one byte more, and the match does not overlap its source. A
//! short sequence is decoded in copies of fixed length, which need no loop and few checks; the next copies
//! overwrite the excess. All other sequences, and those near either end, take the slower path.
//!
//! The fast loop is limited by the latency from one token to the next, and by mispredicted branches. It
//! therefore loads the next token early, with only the number of literals between the two tokens, and
//! branches only on rare cases.

/// Bytes copied at once.
const STEP: usize = 16;

/// Maximum number of literals in a short sequence.
const LITERALS: usize = 2 * STEP;

/// The value of a 4-bit length that is followed by more bytes.
const MORE: usize = 15;

/// Length of the shortest match.
const MIN_MATCH: usize = 4;

/// Length of the longest match that the token encodes alone.
const MATCH: usize = MORE - 1 + MIN_MATCH;

/// Maximum size of a short sequence after its token: a length byte, literals, an offset; and the next token.
const WINDOW: usize = 1 + LITERALS + 2 + 1;

/// Bytes that a short sequence may overwrite.
const ROOM: usize = LITERALS + MATCH;

/// Decodes `block` into `out` from `start` on and returns the number of bytes; `None` for a block that is
/// invalid or does not fit in `out`.
///
/// Matches may reach back to the start of `out`. Bytes of `out` behind the output are undefined; after
/// `None`, all bytes from `start` on are.
pub(in crate::codec) fn decode(block: &[u8], out: &mut [u8], start: usize) -> Option<usize> {
    decode_to_end(block, out, start).map(|decoded| decoded.len)
}

/// Decodes `block` into the whole of `out`; false for a block that is invalid, has another length, or breaks the rule for
/// the end of a block: its last match begins at least 12 bytes before the end, and its last 5 bytes are literals. liblz4
/// needs the rule and refuses other blocks; [`decode`] does not.
pub(in crate::codec) fn decode_by_the_rule(block: &[u8], out: &mut [u8]) -> bool {
    let len = out.len();
    decode_to_end(block, out, 0).is_some_and(|decoded| {
        let has_match = decoded.last_literals < decoded.len;
        let keeps_rule = decoded.last_literals >= 5 && decoded.last_match + 12 <= len;
        decoded.len == len && (keeps_rule || !has_match)
    })
}

/// The output of a block, and how it ends.
struct WholeBlock {
    len: usize,
    /// Number of literals after the last match.
    last_literals: usize,
    /// Start of the last match, if that is within the last 12 bytes that there is room for.
    last_match: usize,
}

fn decode_to_end(block: &[u8], out: &mut [u8], start: usize) -> Option<WholeBlock> {
    let mut rest = block;
    let mut done = start;
    let mut last_match = 0;
    loop {
        let (&token, after) = rest.split_first()?;
        rest = after;
        let mut token = usize::from(token);
        // Matches of short sequences begin more than 12 bytes before the end of `out`.
        if !short_ones(&mut token, &mut rest, out, &mut done) {
            let count = length(token >> 4, &mut rest)?;
            let (literals, after) = rest.split_at_checked(count)?;
            out.get_mut(done..)?.get_mut(..count)?.copy_from_slice(literals);
            rest = after;
            done += count;
            if rest.is_empty() {
                return Some(WholeBlock { len: done - start, last_literals: count, last_match });
            }
        }
        let (&offset, after) = rest.split_first_chunk()?;
        rest = after;
        let offset = usize::from(u16::from_le_bytes(offset));
        let count = length(token & MORE, &mut rest)? + MIN_MATCH;
        if offset == 0 || offset > done || count > out.len() - done {
            return None;
        }
        copy_match(out, done, offset, count)?;
        last_match = done;
        done += count;
    }
}

/// Decodes sequences while they are short and far from both ends. Stops after the token of the first other
/// sequence. Returns true if the literals of that sequence are decoded, so that its offset is next.
#[inline(always)]
fn short_ones(token: &mut usize, rest: &mut &[u8], out: &mut [u8], done: &mut usize) -> bool {
    let Some(last) = out.len().checked_sub(ROOM) else { return false };
    while *done <= last
        && let Some(window) = rest.first_chunk::<WINDOW>()
        && let Some(room) = room_at(out, *done)
    {
        let mut literals = *token >> 4;
        let mut end = literals;
        if literals < MORE {
            copy::<STEP>(window, room);
        } else {
            literals += usize::from(window[0]);
            end = literals + 1;
            if literals > LITERALS {
                break;
            }
            copy::<LITERALS>(&window[1..], room);
        }
        let offset = usize::from(u16::from_le_bytes([window[end], window[end + 1]]));
        let count = (*token & MORE) + MIN_MATCH;
        let here = *done + literals;
        // If the match is not longer than its offset, its source exists before it begins. Further bytes of a
        // copy may be wrong.
        if count <= MATCH
            && offset >= count
            && let Some(from) = here.checked_sub(offset)
            && let Some(&source) = out.get(from..).and_then(|source| source.first_chunk::<MATCH>())
            && let Some(room) = room_at(out, *done).and_then(|room| room.get_mut(literals..))
        {
            copy::<STEP>(&source, room);
            if count > STEP
                && let Some(room) = room.get_mut(STEP..)
            {
                copy::<{ MATCH - STEP }>(&source[STEP..], room);
            }
            *token = usize::from(window[end + 2]);
            *rest = &rest[end + 3..];
            *done = here + count;
        } else {
            *rest = &rest[end..];
            *done = here;
            return true;
        }
    }
    false
}

/// Returns the bytes that a sequence at `done` may overwrite.
#[inline(always)]
fn room_at(out: &mut [u8], done: usize) -> Option<&mut [u8; ROOM]> {
    out.split_at_mut_checked(done)?.1.first_chunk_mut()
}

/// Copies the first `N` bytes, if both slices have that many.
#[inline(always)]
fn copy<const N: usize>(from: &[u8], to: &mut [u8]) {
    if let (Some(from), Some(to)) = (from.first_chunk::<N>(), to.first_chunk_mut::<N>()) {
        *to = *from;
    }
}

/// Reads a length that begins with the 4 bits of a token.
#[inline]
fn length(code: usize, rest: &mut &[u8]) -> Option<usize> {
    let mut length = code;
    if code == MORE {
        loop {
            let (&more, after) = rest.split_first()?;
            *rest = after;
            // At most 255 times the stored size, so no overflow.
            length += usize::from(more);
            if more != 255 {
                break;
            }
        }
    }
    Some(length)
}

/// For each offset below a step: the factor that repeats that many bytes over a whole step, and the number of
/// bytes in whole repetitions.
const REPEAT: [(u128, usize); STEP] = {
    let mut repeat = [(0, 0); STEP];
    let mut offset = 1;
    while offset < STEP {
        let mut at = 0;
        while at < STEP {
            repeat[offset].0 |= 1 << (8 * at);
            at += offset;
        }
        repeat[offset].1 = STEP - STEP % offset;
        offset += 1;
    }
    repeat
};

/// Copies `count` bytes from `offset` back to `at`. If the ranges overlap, the bytes repeat. Never returns
/// `None` if both ranges lie within `out`, as the caller has checked, and `offset` is not 0.
#[inline]
fn copy_match(out: &mut [u8], at: usize, offset: usize, count: usize) -> Option<()> {
    let from = at - offset;
    // Whole steps are copied if the bytes after the match may be overwritten: they are decoded later.
    if offset >= STEP && count <= 4 * STEP && out.len() - at >= 4 * STEP {
        copy_step(out, from, at)?;
        copy_step(out, from + STEP, at + STEP)?;
        if count > 2 * STEP {
            copy_step(out, from + 2 * STEP, at + 2 * STEP)?;
            copy_step(out, from + 3 * STEP, at + 3 * STEP)?;
        }
    } else if offset < STEP && count <= 8 * STEP && out.len() - at >= 9 * STEP {
        let (repeat, whole) = *REPEAT.get(offset)?;
        let source = u128::from_le_bytes(*out.get(from..)?.first_chunk()?) & ((1 << (8 * offset)) - 1);
        let source = source.wrapping_mul(repeat).to_le_bytes();
        let mut done = 0;
        while done < count {
            *out.get_mut(at + done..)?.first_chunk_mut()? = source;
            done += whole;
        }
    } else if offset == 1 {
        let byte = *out.get(from)?;
        out.get_mut(at..at + count)?.fill(byte);
    } else {
        // Copied bytes can be copied again, so each iteration doubles the reach.
        let mut done = 0;
        while done < count {
            let step = (offset + done).min(count - done);
            out.copy_within(from..from + step, at + done);
            done += step;
        }
    }
    Some(())
}

/// Copies a step within `out`.
#[inline(always)]
fn copy_step(out: &mut [u8], from: usize, to: usize) -> Option<()> {
    let source: [u8; STEP] = *out.get(from..)?.first_chunk()?;
    *out.get_mut(to..)?.first_chunk_mut()? = source;
    Some(())
}

#[cfg(test)]
mod tests;
