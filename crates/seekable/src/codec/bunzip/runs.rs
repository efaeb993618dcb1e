//! The last decoding stage, run lengths: four equal bytes are followed by a count, 0 to 255, of further such
//! bytes.
//!
//! A block of 900 000 bytes may expand to 46.6 MB. [`Runs`] finds the counts without expanding the runs.
//! [`Cursor`] then gives the expanded bytes in stretches, each of literal bytes or of one repeated byte.

use super::crc::Crc;

/// Number of equal bytes before a count.
const EQUAL: usize = 4;

/// Number of bytes that are tested at once for the start of a run.
const STRETCH: usize = 64;

/// Maximum value of a count byte.
const MAX_COUNT: usize = u8::MAX as usize;

/// The positions of the count bytes in a text.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// Positions of the count bytes, each after four equal bytes, in ascending order.
    counts: Vec<u32>,
    /// Length of the text with its runs expanded.
    len: u64,
}

/// The error for a text that ends where a count byte should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CountMissing;

/// A stretch of the expanded text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stretch<'a> {
    Literal(&'a [u8]),
    Repeated(u8, usize),
}

impl Runs {
    /// Finds the count bytes in `text`, which is shorter than 2³² bytes.
    pub(super) fn find(&mut self, text: &[u8]) -> Result<(), CountMissing> {
        self.counts.clear();
        self.len = 0;
        let mut at = 0;
        let mut len = text.len() as u64;
        while at < text.len() {
            let rest = &text[at..];
            if rest.first_chunk().is_some_and(|stretch| !may_hold_run(stretch)) {
                at += STRETCH;
                continue;
            }
            let near = &rest[..rest.len().min(STRETCH + EQUAL - 1)];
            let Some(run) = first_run(near) else {
                at += STRETCH;
                continue;
            };
            let count = at + run + EQUAL;
            len = len - 1 + u64::from(*text.get(count).ok_or(CountMissing)?);
            self.counts.push(count as u32);
            at = count + 1;
        }
        self.len = len;
        Ok(())
    }

    /// Returns the length of the text with its runs expanded.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the CRC of the text with its runs expanded.
    pub(super) fn crc(&self, text: &[u8]) -> u32 {
        let mut crc = Crc::new();
        let mut cursor = Cursor::default();
        while let Some(stretch) = cursor.next(text, self, usize::MAX) {
            match stretch {
                Stretch::Literal(bytes) => crc.update(bytes),
                Stretch::Repeated(byte, count) => crc.update(&[byte; MAX_COUNT][..count]),
            }
        }
        crc.value()
    }
}

/// Returns the position of the first four equal bytes.
fn first_run(bytes: &[u8]) -> Option<usize> {
    bytes.windows(EQUAL).position(|four| four.iter().all(|byte| *byte == four[0]))
}

/// True if a run begins in the first [`STRETCH`] bytes; without branches, so that the compiler vectorises it.
#[inline]
fn may_hold_run(bytes: &[u8; STRETCH + EQUAL - 1]) -> bool {
    let mut any = 0;
    for at in 0..STRETCH {
        let [a, b, c, d] = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        any |= u8::from((a ^ b) | (b ^ c) | (c ^ d) == 0);
    }
    any != 0
}

/// A position in an expanded text.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    /// Position in the text before its runs are expanded.
    at: usize,
    /// Number of count bytes before the position.
    passed: usize,
    /// Number of bytes of the current run still to come.
    repeat: usize,
}

impl Cursor {
    /// Fills `out` as far as there is text left, and returns the number of bytes.
    pub(super) fn read(&mut self, text: &[u8], runs: &Runs, out: &mut [u8]) -> usize {
        let mut done = 0;
        while let Some(stretch) = self.next(text, runs, out.len() - done) {
            done += match stretch {
                Stretch::Literal(bytes) => {
                    out[done..done + bytes.len()].copy_from_slice(bytes);
                    bytes.len()
                }
                Stretch::Repeated(byte, count) => {
                    out[done..done + count].fill(byte);
                    count
                }
            };
        }
        done
    }

    /// Returns the next stretch, not empty and at most `limit` bytes long.
    #[inline]
    fn next<'a>(&mut self, text: &'a [u8], runs: &Runs, limit: usize) -> Option<Stretch<'a>> {
        if limit == 0 {
            return None;
        }
        loop {
            if self.repeat > 0 {
                let count = self.repeat.min(limit);
                self.repeat -= count;
                // The count is the byte before the cursor, and the repeated byte is before the count.
                return Some(Stretch::Repeated(text[self.at - 2], count));
            }
            let count = runs.counts.get(self.passed).map_or(text.len(), |&count| count as usize);
            if self.at < count {
                let end = count.min(self.at.saturating_add(limit));
                let literal = &text[self.at..end];
                self.at = end;
                return Some(Stretch::Literal(literal));
            }
            self.repeat = usize::from(*text.get(count)?);
            self.at = count + 1;
            self.passed += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Expands runs byte by byte.
    fn slowly(text: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let mut equal = 0;
        let mut last = None;
        for &byte in text {
            if equal == EQUAL {
                out.extend(std::iter::repeat_n(last.unwrap(), usize::from(byte)));
                (equal, last) = (0, None);
                continue;
            }
            equal = if last == Some(byte) { equal + 1 } else { 1 };
            last = Some(byte);
            out.push(byte);
        }
        (equal < EQUAL).then_some(out)
    }

    fn compare(text: &[u8], pieces: usize) {
        let mut runs = Runs::default();
        let Some(wanted) = slowly(text) else {
            assert_eq!(runs.find(text), Err(CountMissing));
            return;
        };
        assert_eq!(runs.find(text), Ok(()));
        assert_eq!(runs.len(), wanted.len() as u64);
        let mut crc = Crc::new();
        crc.update(&wanted);
        assert_eq!(runs.crc(text), crc.value());
        let mut cursor = Cursor::default();
        let mut out = vec![0; pieces];
        let mut at = 0;
        while at < wanted.len() {
            let here = pieces.min(wanted.len() - at);
            assert_eq!(cursor.read(text, &runs, &mut out), here);
            assert_eq!(out[..here], wanted[at..at + here]);
            at += here;
        }
        assert_eq!(cursor.read(text, &runs, &mut out), 0);
    }

    proptest! {
        #[test]
        fn gives_what_byte_by_byte_gives(
            parts in prop::collection::vec((0u8..8, 1usize..9), 0..120),
            noise in prop::collection::vec(any::<u8>(), 0..200),
            pieces in 1usize..300,
        ) {
            let text: Vec<u8> =
                parts.iter().flat_map(|&(byte, times)| std::iter::repeat_n(byte, times)).collect();
            compare(&text, pieces);
            compare(&[&noise[..], &text, &noise].concat(), pieces);
        }
    }

    #[test]
    fn a_run_may_begin_anywhere_in_a_stretch_and_lie_across_two() {
        for start in 0..200 {
            let mut text: Vec<u8> = (0..=255).collect();
            text[start..start + EQUAL].fill(7);
            text[start + EQUAL] = 200;
            compare(&text, 97);
            compare(&text[..start + EQUAL], 97);
        }
    }
}
