//! Headers of pieces on a server, requested where the next pieces probably begin.
//!
//! The position of a header is known for certain only from the header before it. Following the headers one by one would
//! take a request for each. But a writer makes all pieces of one decoded size, so their stored sizes differ little: the
//! position of a far header is guessed by interpolation, and a window around the guess is requested, with many others
//! at once. A header is used only if the piece before it ends there. A window without it costs a few KiB, and a header
//! that is found in a window, but is not proven yet, improves the guesses between it and its neighbours, and leads to the
//! next header. The sizes of the next pieces are extrapolated from the last ones: as equal, or along a line or a parabola,
//! whichever was best so far.
//!
//! Many servers take a request for each window. So the first windows are few, and if few headers are wanted, one is
//! requested after the other, unless the pieces have almost equal sizes.

use std::collections::BTreeMap;
use std::ops::Range;

use super::block::is_possible;

/// Size of a header: `n` and `size`.
pub(super) const HEADER: u64 = 8;

/// Minimum stored size of pieces whose headers are requested this way. Smaller ones come with the blocks of the cache.
const MIN_STORED: u64 = 8 << 10;
/// Bytes that may be requested in vain, and those that each header found in a window adds.
const BUDGET: u64 = 1 << 20;
const FOR_EACH: u64 = 64 << 10;
/// Bytes that are requested at once.
const ROUND: u64 = 512 << 10;
/// Minimum and maximum distance of the ends of a window from the guess.
const MIN_HALF: u64 = 64;
const MAX_HALF: u64 = 128 << 10;
/// Maximum distance of the ends of a window between known headers: several windows may find more than a wide one.
const MAX_GUESSED: u64 = 64 << 10;
/// Before this piece, windows are narrow: at most this many bytes for each piece.
const FEW: u64 = 8;
const FOR_EACH_OF_FEW: u64 = 512;
/// The number of wanted headers for each window before the first difference of sizes is known.
const FIRST_STRIDE: u64 = 8;
/// Number of extrapolations: from one piece, two and three.
const ORDERS: usize = 3;
/// Maximum number of headers that are requested for a reader that goes on.
const MAX_ONWARDS: u64 = 16;
/// The assumed difference of stored sizes, as a part of a size, while only one is known.
const ASSUMED: u64 = 8192;

/// A position both in the decoded and in the stored bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PieceStart {
    pub(super) offset: u64,
    pub(super) stored: u64,
}

/// The header of a piece.
#[derive(Clone, Copy)]
pub(super) struct StoredPiece {
    /// Size of the LZ4 block in bytes.
    pub(super) stored: u64,
    /// Decoded size in bytes.
    pub(super) size: u64,
}

/// The windows that were requested, and what they have shown.
#[derive(Default)]
pub(super) struct Scout {
    /// The bytes of each window, by its start.
    windows: BTreeMap<u64, Vec<u8>>,
    /// Stored positions of headers that are not proven, by the decoded offset of the piece.
    anchors: BTreeMap<u64, u64>,
    /// The last piece.
    last: Option<StoredPiece>,
    /// The stored sizes of the last pieces of one decoded size, the last one first.
    recent: [Option<i64>; ORDERS],
    /// The average error of the sizes that each extrapolation predicted; the first is the difference between neighbours.
    errors: [Option<u64>; ORDERS],
    budget: Option<u64>,
    /// Minimum number of headers to request, for a reader that goes on.
    onwards: u64,
}

/// The pieces between two headers that are known or probable.
struct Gap {
    start: PieceStart,
    pieces: u64,
    /// Number of pieces up to the wanted one.
    needed: u64,
    /// The average stored length of a piece with its header.
    step: f64,
    /// The difference of that to the gaps beside this one.
    bend: f64,
}

impl Gap {
    /// Returns the distance of the ends of a window from the guess, for a header after some pieces: for lengths that
    /// change slowly, and for lengths that differ at random.
    fn half(&self, hop: u64, spread: u64) -> u64 {
        let rest = self.pieces.saturating_sub(hop);
        let of_bend = self.bend * hop as f64 * rest as f64 / self.pieces as f64;
        let of_spread = spread.saturating_mul(hop.min(rest).isqrt());
        (of_bend as u64).saturating_add(of_spread).saturating_add(MIN_HALF).min(MAX_GUESSED)
    }
}

/// A range of a stream to be requested.
pub(super) struct Window {
    /// Decoded offset of the piece whose header is looked for.
    pub(super) offset: u64,
    pub(super) range: Range<u64>,
}

/// The sizes of a stream.
#[derive(Clone, Copy)]
pub(super) struct StreamSizes {
    pub(super) stored: u64,
    pub(super) decoded: u64,
}

impl Scout {
    /// Notes a piece whose header was read.
    pub(super) fn note(&mut self, piece: StoredPiece) {
        if self.last.is_none_or(|last| last.size != piece.size) {
            self.recent = [None; ORDERS];
        }
        let stored = i64::try_from(piece.stored).unwrap_or(i64::MAX);
        for order in 0..ORDERS {
            if let Some(expected) = extrapolated(&self.recent, order) {
                let error = stored.abs_diff(expected);
                let average = &mut self.errors[order];
                *average = Some(average.map_or(error, |average| (3 * average + error) / 4));
            }
        }
        self.recent.rotate_right(1);
        self.recent[0] = Some(stored);
        self.last = Some(piece);
    }

    /// Returns the extrapolation that was best so far, and its average error.
    fn best_order(&self, last: StoredPiece) -> (usize, u64) {
        let known = (0..ORDERS).filter(|order| extrapolated(&self.recent, *order).is_some());
        let known = known.filter_map(|order| Some((self.errors[order]?, order))).min();
        known.map_or((0, last.stored / ASSUMED), |(error, order)| (order, error))
    }

    /// Returns the bytes of the header at a position, if they were requested.
    pub(super) fn header(&mut self, at: u64) -> Option<[u8; HEADER as usize]> {
        let (header, is_guessed) = self.requested(at)?;
        if is_guessed {
            self.budget = Some((self.budget.unwrap_or(BUDGET) + FOR_EACH).min(BUDGET));
        }
        Some(header)
    }

    /// Returns the bytes of a header, and true if more than these were requested.
    fn requested(&self, at: u64) -> Option<([u8; HEADER as usize], bool)> {
        let longest = 2 * MAX_HALF + HEADER;
        let near = self.windows.range(at.saturating_sub(longest)..=at).rev();
        near.into_iter().find_map(|(start, bytes)| {
            let skip = usize::try_from(at - start).ok()?;
            let header = bytes.get(skip..)?.first_chunk().copied()?;
            Some((header, bytes.len() as u64 > HEADER))
        })
    }

    /// Drops what lies before a position that is proven.
    pub(super) fn forget_before(&mut self, here: PieceStart) {
        self.windows = self.windows.split_off(&here.stored.saturating_sub(2 * MAX_HALF));
        self.anchors = self.anchors.split_off(&here.offset.saturating_add(1));
    }

    /// Returns what to request: the header at `here`, which is proven, and windows for the next pieces up to the one at
    /// decoded offset `wanted`. Nothing if pieces are small.
    pub(super) fn plan(&mut self, here: PieceStart, wanted: u64, sizes: StreamSizes) -> Vec<Window> {
        let Some(last) = self.last.filter(|last| last.stored >= MIN_STORED && last.size > 0) else {
            return Vec::new();
        };
        self.forget_before(here);
        let is_far = wanted.saturating_sub(here.offset) / last.size > MAX_ONWARDS;
        self.onwards = if is_far { 1 } else { (2 * self.onwards).clamp(1, MAX_ONWARDS) };
        let onwards = here.offset.saturating_add((self.onwards - 1).saturating_mul(last.size));
        let gaps = self.gaps(here, wanted.max(onwards), last, sizes);
        let pieces = wanted / last.size;
        let widest = if pieces < FEW { pieces * FOR_EACH_OF_FEW } else { MAX_HALF };
        let stride = if self.errors[0].is_none() { FIRST_STRIDE } else { 1 };
        let header = here.stored..here.stored.saturating_add(HEADER);
        let mut windows = vec![Window { offset: here.offset, range: header.clone() }];
        // This request proves a header at least.
        let mut budget = (self.budget.unwrap_or(BUDGET) + FOR_EACH).min(BUDGET);
        let share = ROUND / (gaps.len() as u64).max(1);
        let (order, error) = self.best_order(last);
        let spread = self.errors[0].unwrap_or(last.stored / ASSUMED).max(1);
        let mut add = |start: PieceStart, step: f64, hop: u64, half: u64| {
            let guess = start.stored.saturating_add((step * hop as f64) as u64);
            let from = guess.saturating_sub(half).max(header.end);
            let to = guess.saturating_add(half + HEADER).min(sizes.stored);
            let len = to.saturating_sub(from);
            if len >= HEADER && len <= budget {
                budget -= len;
                let offset = start.offset.saturating_add(hop.saturating_mul(last.size));
                windows.push(Window { offset, range: from..to });
            }
            len
        };
        for gap in gaps {
            if gap.start != here && self.requested(gap.start.stored).is_none() {
                add(gap.start, 0.0, 0, 0);
            }
            if gap.start == here && stride == 1 {
                let mut taken = 0;
                let mut recent = self.recent;
                let mut len = 0_i64;
                for hop in 1..=gap.needed {
                    let Some(next) = extrapolated(&recent, order) else { break };
                    recent.rotate_right(1);
                    recent[0] = Some(next);
                    len = len.saturating_add(next).saturating_add(HEADER as i64);
                    let half = MIN_HALF.saturating_add(error.saturating_mul(growth(order, hop)));
                    if taken > (share / 2).max(ROUND / 8) || half > widest {
                        break;
                    }
                    taken += add(here, len as f64 / hop as f64, hop, half);
                }
            }
            let fits = share / (2 * gap.half(gap.pieces / 2, spread) + HEADER);
            let count = (gap.needed / stride).min(fits.max(1));
            for n in 1..=count {
                let hop = gap.needed * n / count;
                let half = gap.half(hop, spread);
                if half <= widest {
                    add(gap.start, gap.step, hop, half);
                }
            }
        }
        self.budget = Some(budget);
        windows.sort_by_key(|window| window.range.start);
        windows
    }

    /// Returns the gaps between headers, from each one that is not read yet to the next one that is, for those that are
    /// wanted.
    fn gaps(&self, here: PieceStart, wanted: u64, last: StoredPiece, sizes: StreamSizes) -> Vec<Gap> {
        let mut gaps: Vec<Gap> = Vec::new();
        let mut start = here;
        let mut step_before = (last.stored + HEADER) as f64;
        let end = (sizes.decoded, sizes.stored);
        for (offset, stored) in self.anchors.iter().map(|(&offset, &stored)| (offset, stored)).chain([end]) {
            if start.offset > wanted {
                break;
            }
            let len = offset.saturating_sub(start.offset);
            if len > 0 {
                let pieces = len.div_ceil(last.size);
                let needed = ((wanted - start.offset) / last.size).min(pieces - 1);
                let step = stored.saturating_sub(start.stored) as f64 * last.size as f64 / len as f64;
                let bend = (step - step_before).abs();
                if let Some(gap) = gaps.last_mut() {
                    gap.bend = gap.bend.max(bend);
                }
                gaps.push(Gap { start, pieces, needed, step, bend });
            }
            let Some(piece) = self.requested(stored).and_then(|(header, _)| stored_size(header)) else {
                break;
            };
            step_before = (piece + HEADER) as f64;
            let stored = stored.saturating_add(HEADER).saturating_add(piece);
            start = PieceStart { offset: offset.saturating_add(last.size), stored };
        }
        gaps
    }

    /// Adds the bytes of windows that were requested; the first one is that of a header which is proven.
    pub(super) fn add(&mut self, windows: Vec<Window>, contents: Vec<Vec<u8>>) {
        let Some(last) = self.last else { return };
        for (n, (window, bytes)) in windows.into_iter().zip(contents).enumerate() {
            if n > 0
                && let Some(at) = likely_header(&bytes, last)
            {
                self.anchors.insert(window.offset, window.range.start + at as u64);
            }
            self.windows.insert(window.range.start, bytes);
        }
    }
}

/// Returns the size that follows some sizes, the last one first: by a polynomial of this order.
fn extrapolated(recent: &[Option<i64>; ORDERS], order: usize) -> Option<i64> {
    let [last, before, third] = *recent;
    match order {
        0 => last,
        1 => last?.checked_mul(2)?.checked_sub(before?),
        _ => last?.checked_sub(before?)?.checked_mul(3)?.checked_add(third?),
    }
}

/// Returns how many times the average error of a size the error of a position after some pieces may be: if sizes are
/// extrapolated as equal, they differ at random, and else the error of each goes into those after it.
fn growth(order: usize, hop: u64) -> u64 {
    match order {
        0 => hop.isqrt(),
        _ => hop.saturating_mul(hop).saturating_mul(2),
    }
}

/// Returns the place in a window of what looks like the header of a piece of the usual size.
fn likely_header(bytes: &[u8], last: StoredPiece) -> Option<usize> {
    let size = u32::try_from(last.size).ok()?.to_le_bytes();
    // LZ4 makes no block longer.
    let most = last.size + last.size / 255 + 16;
    memchr::memmem::find_iter(bytes, &size).find_map(|at| {
        let start = at.checked_sub(4)?;
        let stored = stored_size(*bytes.get(start..)?.first_chunk()?)?;
        (stored <= most && is_possible(stored, last.size)).then_some(start)
    })
}

/// Returns the stored size in a header.
fn stored_size([a, b, c, d, ..]: [u8; HEADER as usize]) -> Option<u64> {
    u64::from(u32::from_be_bytes([a, b, c, d])).checked_sub(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a stream of headers and zeros, for pieces of these stored sizes, and the starts of the pieces.
    fn stream(sizes: &[u64], size: u64) -> (Vec<u8>, Vec<u64>) {
        let mut bytes = Vec::new();
        let mut starts = Vec::new();
        for stored in sizes {
            starts.push(bytes.len() as u64);
            bytes.extend_from_slice(&(*stored as u32 + 4).to_be_bytes());
            bytes.extend_from_slice(&(size as u32).to_le_bytes());
            bytes.resize(bytes.len() + *stored as usize, 0xff);
        }
        (bytes, starts)
    }

    /// Follows the headers to the last one. Returns the number of rounds, and the bytes that were requested.
    fn follow(sizes: &[u64], size: u64) -> (usize, u64) {
        let (bytes, starts) = stream(sizes, size);
        let whole = StreamSizes { stored: bytes.len() as u64, decoded: size * sizes.len() as u64 };
        let wanted = whole.decoded - 1;
        let mut scout = Scout::default();
        scout.note(StoredPiece { stored: sizes[0], size });
        let (mut rounds, mut requested) = (0, 0);
        for (n, start) in starts.iter().enumerate().skip(1) {
            let here = PieceStart { offset: size * n as u64, stored: *start };
            let mut header = scout.header(*start);
            if header.is_none() {
                rounds += 1;
                let windows = scout.plan(here, wanted, whole);
                let read = |window: &Window| {
                    requested += window.range.end - window.range.start;
                    bytes[window.range.start as usize..window.range.end as usize].to_vec()
                };
                let read = windows.iter().map(read).collect();
                scout.add(windows, read);
                header = scout.header(*start);
            }
            assert_eq!(header.unwrap()[..4], (sizes[n] as u32 + 4).to_be_bytes());
            scout.note(StoredPiece { stored: sizes[n], size });
        }
        (rounds, requested)
    }

    #[test]
    fn headers_of_like_pieces_are_found_in_few_rounds() {
        assert_eq!(follow(&[20_000; 100], 64 << 10).0, 2);
        let (rounds, requested) = follow(&[20_000; 1000], 64 << 10);
        assert!(rounds <= 12 && requested < 1 << 20, "{rounds} {requested}");
        // Sizes that differ by some hundred bytes, as those of noise do.
        let mut dice = crate::codec::samples::Dice(3);
        let sizes: Vec<u64> = (0..64).map(|_| 20_000 + dice.roll(300) as u64).collect();
        let (rounds, requested) = follow(&sizes, 64 << 10);
        assert!(rounds <= 4 && requested < 1 << 20, "{rounds} {requested}");
    }

    /// As of an image with a bright spot.
    #[test]
    fn sizes_that_change_slowly_are_extrapolated() {
        let mut dice = crate::codec::samples::Dice(5);
        let spot = |n: i32| (-f64::from((n - 38).pow(2)) / 150.0).exp();
        let size_of = |n| 424_000 + (250_000.0 * spot(n)) as u64 + dice.roll(400) as u64;
        let sizes: Vec<u64> = (0..64).map(size_of).collect();
        let (rounds, requested) = follow(&sizes, 1 << 20);
        assert!(rounds <= 20 && requested < 4 << 20, "{rounds} {requested}");
    }

    /// A header that was found far ahead leads to those after it, while those before it are followed.
    #[test]
    fn headers_are_followed_from_several_places_at_once() {
        let mut dice = crate::codec::samples::Dice(11);
        let sizes: Vec<u64> = (0..64).map(|_| 2_400_000 + dice.roll(200_000) as u64).collect();
        let (rounds, requested) = follow(&sizes, 4 << 20);
        assert!(rounds <= 40 && requested < 5_600_000, "{rounds} {requested}");
    }

    #[test]
    fn each_round_finds_a_header_and_the_waste_is_bounded() {
        let mut dice = crate::codec::samples::Dice(7);
        let sizes: Vec<u64> = (0..50).map(|_| 8_192 + dice.roll(40_000) as u64).collect();
        let (rounds, requested) = follow(&sizes, 64 << 10);
        assert!(rounds < 50 && requested <= BUDGET + 50 * (FOR_EACH + HEADER), "{rounds} {requested}");
    }
}
