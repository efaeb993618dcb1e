//! An LZ4 block decoded whole, into room that is there.
//!
//! What a block looks like is told in [`super::block`], which decodes it piecemeal. Nearly every sequence of one is
//! short: its lengths stand in its token, that of the literals perhaps in a byte more, and its match does not
//! overlap what it repeats. Such a sequence is decoded in copies of a fixed length, which need no loop and few
//! checks; what they write too much, the next ones write over. All others, and those near either end, go
//! the slower way.
//!
//! What the fast loop waits for is the way from one token to the next, and branches that were guessed wrong.
//! Hence it reads the next token by itself, with nothing but the number of literals between the two, and has
//! branches only for what is rare.

/// Bytes of a copy.
const STEP: usize = 16;

/// Literals of a short sequence at most.
const LITERALS: usize = 2 * STEP;

/// What the 4 bits of a length stand for if more bytes follow.
const MORE: usize = 15;

/// The shortest match.
const SHORTEST: usize = 4;

/// The longest match whose length is all in the token.
const MATCH: usize = MORE - 1 + SHORTEST;

/// Bytes of a short sequence behind its token at most: a length byte, literals, an offset; and the next token.
const WINDOW: usize = 1 + LITERALS + 2 + 1;

/// What a short sequence may write over.
const ROOM: usize = LITERALS + MATCH;

/// Decodes `block` into `out` from `start` on and says how many bytes came; `None` for a block that makes no
/// sense or has more than `out` holds.
///
/// Matches may reach back to the start of `out`. What is in `out` behind the bytes that came, and after
/// `None` from `start` on, means nothing.
pub(in crate::codec) fn decode(block: &[u8], out: &mut [u8], start: usize) -> Option<usize> {
    let mut rest = block;
    let mut done = start;
    loop {
        let (&token, after) = rest.split_first()?;
        rest = after;
        let mut token = usize::from(token);
        if !short_ones(&mut token, &mut rest, out, &mut done) {
            let count = length(token >> 4, &mut rest)?;
            let (literals, after) = rest.split_at_checked(count)?;
            out.get_mut(done..)?.get_mut(..count)?.copy_from_slice(literals);
            rest = after;
            done += count;
            if rest.is_empty() {
                return Some(done - start);
            }
        }
        let (&offset, after) = rest.split_first_chunk()?;
        rest = after;
        let offset = usize::from(u16::from_le_bytes(offset));
        let count = length(token & MORE, &mut rest)? + SHORTEST;
        if offset == 0 || offset > done || count > out.len() - done {
            return None;
        }
        copy_match(out, done, offset, count)?;
        done += count;
    }
}

/// Decodes sequences for as long as they are short and far from both ends. The one that is not stays, from behind
/// its token on; says whether its literals are done, so that its offset is next.
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
        let count = (*token & MORE) + SHORTEST;
        let here = *done + literals;
        // Where the match is shorter than its offset, the bytes that it repeats are there before it begins;
        // what else a copy takes along need not be right.
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

/// What a sequence at `done` may write over.
#[inline(always)]
fn room_at(out: &mut [u8], done: usize) -> Option<&mut [u8; ROOM]> {
    out.split_at_mut_checked(done)?.1.first_chunk_mut()
}

/// Copies the first `N` bytes, if both have so many.
#[inline(always)]
fn copy<const N: usize>(from: &[u8], to: &mut [u8]) {
    if let (Some(from), Some(to)) = (from.first_chunk::<N>(), to.first_chunk_mut::<N>()) {
        *to = *from;
    }
}

/// A length that begins with the 4 bits of a token.
#[inline]
fn length(code: usize, rest: &mut &[u8]) -> Option<usize> {
    let mut length = code;
    if code == MORE {
        loop {
            let (&more, after) = rest.split_first()?;
            *rest = after;
            // Bounded by 255 times the stored size: can't overflow.
            length += usize::from(more);
            if more != 255 {
                break;
            }
        }
    }
    Some(length)
}

/// For each offset of less than a step: what makes a step of that many bytes when they are multiplied by it, and
/// how many bytes of that step are whole repetitions.
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

/// Copies `count` bytes from `offset` back to `at`; where they overlap, the bytes repeat. `None` never comes if
/// both ends lie within `out`, as the caller has checked, and `offset` is not 0.
#[inline]
fn copy_match(out: &mut [u8], at: usize, offset: usize, count: usize) -> Option<()> {
    let from = at - offset;
    // In whole steps, where the bytes behind the match may be written over: they come later.
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
        // What was copied can be copied again: each turn doubles the reach.
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
