//! Blosc's own codec: literals and matches, closely related to FastLZ level 2.
//!
//! ```text
//! 000nnnnn                         n + 1 literal bytes follow
//! lllooooo [l…] oooooooo [oo oo]   copy l + 2 bytes from o + 1 back; if l is 7, bytes are added to it until
//!                                  one is not 255; if o is all ones: 16 more bits, big-endian, + 8191
//! ```
//!
//! The upper bits of the first byte have no meaning: a stream begins with a literal. It also ends with one.
//! The C library drops a match at the end, which leaves the output short, and so does this decoder.

/// Maximum number of literals after a control byte.
const LITERALS: usize = 32;

/// Bytes of a match that are copied at once.
const STEP: usize = 16;

/// The value of a match's 13-bit distance field if 16 more bits of distance follow.
const MAX_DISTANCE: usize = 8191;

/// Decodes `stored` into `out` and returns the number of bytes; `None` for a stream that is invalid or longer
/// than `out`.
pub(super) fn decode(stored: &[u8], out: &mut [u8]) -> Option<usize> {
    let (&first, mut rest) = stored.split_first()?;
    let mut control = usize::from(first & 31);
    let mut done = 0;
    loop {
        if control < 32 {
            let count = control + 1;
            let (literal, after) = rest.split_at_checked(count)?;
            let room = out.get_mut(done..)?;
            match (rest.first_chunk::<LITERALS>(), room.first_chunk_mut::<LITERALS>()) {
                // A copy of the maximum length is a single step. The next step overwrites the excess.
                (Some(literals), Some(room)) => *room = *literals,
                _ => room.get_mut(..count)?.copy_from_slice(literal),
            }
            done += count;
            rest = after;
        } else {
            let (count, distance) = read_match(control, &mut rest)?;
            if distance > done || count > out.len() - done {
                return None;
            }
            if rest.is_empty() {
                return Some(done);
            }
            copy_match(out, done, distance, count);
            done += count;
        }
        let Some((&next, after)) = rest.split_first() else { return Some(done) };
        control = next.into();
        rest = after;
    }
}

/// Reads a match after its first byte, and returns its length and its distance.
fn read_match(control: usize, rest: &mut &[u8]) -> Option<(usize, usize)> {
    let mut next = || {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        Some(usize::from(byte))
    };
    let mut count = (control >> 5) + 2;
    if control >> 5 == 7 {
        loop {
            let more = next()?;
            // At most 255 times the stored size, so no overflow.
            count += more;
            if more != 255 {
                break;
            }
        }
    }
    let mut distance = (control & 31) << 8 | next()?;
    if distance == MAX_DISTANCE {
        distance += next()? << 8 | next()?;
    }
    Some((count, distance + 1))
}

/// Copies `count` bytes from `distance` back to `at`. If the ranges overlap, the bytes repeat.
///
/// The caller has checked that both ranges lie within `out`.
fn copy_match(out: &mut [u8], at: usize, distance: usize, count: usize) {
    let from = at - distance;
    // Whole steps are copied if the bytes after the match may be overwritten: they are decoded later.
    if distance >= STEP
        && count <= 4 * STEP
        && let Some((before, after)) = out.split_at_mut_checked(at)
        && after.len() >= 4 * STEP
        && distance >= count
        && let Some(source) = before.get(from..)
    {
        let steps = count.div_ceil(STEP);
        if let Some(source) = source.get(..steps * STEP) {
            let (sources, _) = source.as_chunks::<STEP>();
            let (targets, _) = after.as_chunks_mut::<STEP>();
            for (to, step) in targets.iter_mut().zip(sources) {
                *to = *step;
            }
            return;
        }
    }
    if distance == 1 {
        let byte = out[from];
        out[at..at + count].fill(byte);
    } else {
        // Copied bytes can be copied again, so each iteration doubles the reach.
        let mut done = 0;
        while done < count {
            let step = (distance + done).min(count - done);
            out.copy_within(from..from + step, at + done);
            done += step;
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Encodes `data` greedily, with matches at the given distances only.
    pub(in super::super) fn encode(data: &[u8], distances: &[usize]) -> Vec<u8> {
        let mut out = vec![];
        let mut literals = vec![];
        let flush = |literals: &mut Vec<u8>, out: &mut Vec<u8>| {
            for run in literals.chunks(32) {
                out.push(run.len() as u8 - 1);
                out.extend(run);
            }
            literals.clear();
        };
        let mut at = 0;
        while at < data.len() {
            let length = |&distance: &usize| {
                if distance > at {
                    return 0;
                }
                (at..data.len()).take_while(|&i| data[i] == data[i - distance]).count()
            };
            let best = distances.iter().copied().max_by_key(|distance| length(distance)).unwrap_or(0);
            let count = if best == 0 { 0 } else { length(&best) };
            // The last byte is always a literal.
            let count = count.min(data.len() - at - 1);
            if count < 3 || at == 0 {
                literals.push(data[at]);
                at += 1;
                continue;
            }
            flush(&mut literals, &mut out);
            put_match(&mut out, count, best);
            at += count;
        }
        flush(&mut literals, &mut out);
        out
    }

    fn put_match(out: &mut Vec<u8>, count: usize, distance: usize) {
        let (near, far) = if distance > MAX_DISTANCE {
            (MAX_DISTANCE, Some(distance - 1 - MAX_DISTANCE))
        } else {
            (distance - 1, None)
        };
        let length = (count - 2).min(7);
        out.push((length << 5 | near >> 8) as u8);
        if length == 7 {
            let mut more = count - 9;
            while more >= 255 {
                out.push(255);
                more -= 255;
            }
            out.push(more as u8);
        }
        out.push(near as u8);
        out.extend(
            far.map(|far| u16::try_from(far).expect("far enough").to_be_bytes()).into_iter().flatten(),
        );
    }

    fn decoded(stored: &[u8], room: usize) -> Option<Vec<u8>> {
        let mut out = vec![0; room];
        let count = decode(stored, &mut out)?;
        out.truncate(count);
        Some(out)
    }

    #[test]
    fn streams_made_by_hand() {
        assert_eq!(decoded(&[2, b'a', b'b', b'c'], 3).as_deref(), Some(&b"abc"[..]));
        assert_eq!(
            decoded(&[0xe2, b'a', b'b', b'c'], 3).as_deref(),
            Some(&b"abc"[..]),
            "the first byte's upper bits"
        );
        // Three bytes from three back, then a literal.
        assert_eq!(decoded(&[2, b'a', b'b', b'c', 1 << 5, 2, 0, b'!'], 9).as_deref(), Some(&b"abcabc!"[..]));
        // A run: 7 + 2 + 1 bytes from one back.
        assert_eq!(decoded(&[0, b'x', 7 << 5, 1, 0, 0, b'!'], 12).as_deref(), Some(&b"xxxxxxxxxxx!"[..]));
    }

    #[test]
    fn a_match_at_the_end_is_dropped() {
        assert_eq!(decoded(&[2, b'a', b'b', b'c', 1 << 5, 2], 9).as_deref(), Some(&b"abc"[..]));
    }

    #[test]
    fn streams_that_make_no_sense() {
        for (what, stored) in [
            ("empty", &[][..]),
            ("literal cut off", &[2, b'a', b'b']),
            ("before the start", &[0, b'a', 1 << 5, 1, 0, b'b']),
            ("match cut off", &[0, b'a', 1 << 5]),
            ("length cut off", &[0, b'a', 7 << 5, 255]),
            ("far distance cut off", &[0, b'a', (1 << 5) | 31, 255, 0]),
            ("too much", &[0, b'a', 7 << 5, 255, 255, 255, 255, 0, 0, 0, b'b']),
            ("too many literals", &[31; 33]),
        ] {
            assert_eq!(decoded(stored, 20), None, "{what}");
        }
    }

    #[test]
    fn a_length_beyond_two_gib_stays_within_the_output() {
        // This sum of length bytes overflows in the C library.
        let mut stored = vec![0, b'a', 7 << 5];
        stored.resize(8_500_000, 255);
        stored.extend([0, 0, 0, b'b']);
        assert_eq!(decoded(&stored, 1000), None);
    }

    #[test]
    fn far_and_long_matches() {
        let mut data: Vec<u8> = (0..90_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for (at, distance) in [(20_000, 8191), (30_000, 8192), (40_000, 8193), (80_000, 65_535 + 8191 + 1)] {
            data.copy_within(at - distance..at - distance + 3000, at);
        }
        let stored = encode(&data, &[1, 8191, 8192, 8193, 65_535 + 8191 + 1]);
        assert!(stored.len() < data.len() - 5000, "the matches were taken");
        assert_eq!(decoded(&stored, data.len()).as_deref(), Some(&data[..]));
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(
            data in proptest::collection::vec(0u8..4, 1..2000),
            distances in proptest::collection::vec(1usize..300, 0..5),
        ) {
            let stored = encode(&data, &distances);
            prop_assert_eq!(decoded(&stored, data.len()), Some(data.clone()));
            prop_assert_ne!(decoded(&stored, data.len() - 1), Some(data));
        }

        #[test]
        fn any_bytes_are_survived(stored in proptest::collection::vec(any::<u8>(), 0..300), room in 0usize..2000) {
            let _ = decoded(&stored, room);
        }
    }
}
