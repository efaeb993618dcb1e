//! The read-ahead depth: how much is decoded before a reader asks for it.
//!
//! It is set here and nowhere else. [`Decoded`](super::Decoded) asks for a number of units or pieces, the readers of
//! segments below it for a number of segments.

use super::UNIT;

/// Units that a reader takes in a row before anything is decoded ahead of it.
pub(super) const IN_A_ROW: u64 = 2;

/// A reader that skips more than this uses all threads at once.
const FAR: u64 = 8 * UNIT;

/// How many units, pieces or segments are decoded ahead of a reader that took so many units in a row: none, then
/// 1, 2, 4 … up to `most`.
pub(super) fn depth(units: u64, most: u64) -> u64 {
    units.checked_sub(IN_A_ROW).map_or(0, |more| most.min(1 << more.min(8)))
}

/// The depth for a reader of segments, from the bytes that it takes.
#[derive(Debug, Default)]
pub(crate) struct Depth {
    /// Bytes taken in a row.
    taken: u64,
    /// Bytes before this offset are skipped.
    until: u64,
}

impl Depth {
    /// The reader took so many bytes more, and stands at a decoded offset now.
    pub(crate) fn took(&mut self, bytes: usize, at: u64) {
        self.taken = self.taken.saturating_add((bytes as u64).min(at.saturating_sub(self.until)));
    }

    /// The reader will skip all bytes up to this offset.
    pub(crate) fn wanted(&mut self, until: u64) {
        self.until = self.until.max(until);
    }

    /// How many segments may be in work while the reader stands at `at`, on so many threads.
    pub(crate) fn get(&self, at: u64, threads: usize) -> usize {
        let most = if threads < 2 { 0 } else { threads + 1 };
        if self.until.saturating_sub(at) > FAR {
            return most;
        }
        usize::try_from(depth(self.taken / UNIT, most as u64)).unwrap_or(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_grows_with_sequential_reads_and_at_once_for_a_far_seek() {
        let mut depth = Depth::default();
        let grown: Vec<_> = (0..8)
            .map(|_| {
                depth.took(UNIT as usize, u64::MAX);
                depth.get(0, 4)
            })
            .collect();
        assert_eq!(grown, [0, 1, 2, 4, 5, 5, 5, 5]);
        assert_eq!(depth.get(0, 1), 0);
        // Skipped bytes do not count.
        let mut depth = Depth::default();
        depth.wanted(4 * UNIT);
        let on_the_way = [1, 2, 3, 4, 5, 6].map(|n| {
            depth.took(UNIT as usize, n * UNIT);
            depth.get(n * UNIT, 4)
        });
        assert_eq!(on_the_way, [0, 0, 0, 0, 0, 1]);
        let mut depth = Depth::default();
        depth.wanted(100 * UNIT);
        assert_eq!((depth.get(0, 4), depth.get(99 * UNIT, 4)), (5, 0));
    }
}
