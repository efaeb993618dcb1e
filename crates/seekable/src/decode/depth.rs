//! The read-ahead depth: how much is decoded before a reader asks for it.
//!
//! All read-ahead depths come from here. [`Decoded`](super::Decoded) asks for a number of granules or chunks.
//! The parallel stream readers below it ask for a number of segments.

use super::GRANULE;

/// Number of consecutive granules after which read-ahead starts.
pub(super) const IN_A_ROW: u64 = 2;

/// Minimum distance of a skip that uses all threads at once.
const FAR: u64 = 8 * GRANULE;

/// Returns how many granules, chunks or segments to decode ahead of a reader after `granules` consecutive granules: 0,
/// then 1, 2, 4 … up to `most`.
pub(super) fn depth(granules: u64, most: u64) -> u64 {
    granules.checked_sub(IN_A_ROW).map_or(0, |more| most.min(1 << more.min(8)))
}

/// The depth for a parallel stream reader, from the number of bytes read.
#[derive(Debug, Default)]
pub struct Depth {
    /// Number of bytes read in sequence.
    taken: u64,
    /// End of the bytes that are skipped.
    until: u64,
}

impl Depth {
    /// Records that the reader read `bytes` more and is now at decoded offset `at`.
    pub fn note_read(&mut self, bytes: usize, at: u64) {
        self.taken = self.taken.saturating_add((bytes as u64).min(at.saturating_sub(self.until)));
    }

    /// Records that the reader will skip all bytes up to this offset.
    pub fn wanted(&mut self, until: u64) {
        self.until = self.until.max(until);
    }

    /// Returns how many segments may be in progress while the reader is at `at`, with this number of threads.
    pub fn get(&self, at: u64, threads: usize) -> usize {
        let most = if threads < 2 { 0 } else { threads + 1 };
        if self.until.saturating_sub(at) > FAR {
            return most;
        }
        usize::try_from(depth(self.taken / GRANULE, most as u64)).unwrap_or(most)
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
                depth.note_read(GRANULE as usize, u64::MAX);
                depth.get(0, 4)
            })
            .collect();
        assert_eq!(grown, [0, 1, 2, 4, 5, 5, 5, 5]);
        assert_eq!(depth.get(0, 1), 0);
        // Bytes decoded only to reach a wanted offset do not count as sequential.
        let mut depth = Depth::default();
        depth.wanted(4 * GRANULE);
        let on_the_way = [1, 2, 3, 4, 5, 6].map(|n| {
            depth.note_read(GRANULE as usize, n * GRANULE);
            depth.get(n * GRANULE, 4)
        });
        assert_eq!(on_the_way, [0, 0, 0, 0, 0, 1]);
        let mut depth = Depth::default();
        depth.wanted(100 * GRANULE);
        assert_eq!((depth.get(0, 4), depth.get(99 * GRANULE, 4)), (5, 0));
    }
}
