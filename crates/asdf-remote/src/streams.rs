//! Detection of sequential readers, and how far to read ahead of them.
//!
//! A reader goes on if it has read [`PIECES`] further pieces in a row, or [`LONG`] blocks. It gets a window of four times
//! the blocks that it has read in a row. Each read elsewhere halves what counts as read in a row, so that random reads soon
//! cost no more than the blocks that they need. All numbers are blocks.

use std::ops::Range;

use super::block::{BLOCK, FIRST};

/// Maximum window.
pub(super) const WINDOW: u64 = (64 << 20) / BLOCK;
/// Maximum length of a request.
pub(super) const REQUEST: u64 = (8 << 20) / BLOCK;
/// Minimum window.
const STEP: u64 = (1 << 20) / BLOCK;
/// Number of further pieces after which a reader goes on. The header of a block, and some data behind it, are no stream yet.
const PIECES: u64 = 3;
/// Number of blocks after which a reader of large pieces goes on. Most trees are shorter.
const LONG: u64 = (3 << 19) / BLOCK;
/// Maximum number of readers of a file that are tracked.
const READERS: usize = 16;
/// Number of blocks by which the reads of one reader may be out of order.
const BEHIND: u64 = 2 * STEP;

/// The sequential readers of a file. The reader that read last is at the end.
#[derive(Debug, Default)]
pub(super) struct Streams(Vec<Reader>);

#[derive(Clone, Copy, Debug)]
struct Reader {
    /// The block after the last block read.
    next: u64,
    /// Number of further pieces read in a row, at most [`WINDOW`].
    pieces: u64,
    /// Number of blocks read in a row, at most [`WINDOW`].
    in_a_row: u64,
    /// End of the blocks that were requested ahead.
    ahead: u64,
}

impl Streams {
    /// Records a read of some blocks. Returns the blocks to request ahead, none of them at or after `end`; `most` is
    /// the maximum window.
    pub(super) fn read(&mut self, read: Range<u64>, end: u64, most: u64) -> Range<u64> {
        let continues = |reader: &Reader| read.start <= reader.next && read.start + BEHIND >= reader.next;
        let Some(at) = self.0.iter().rposition(continues) else {
            for reader in &mut self.0 {
                reader.pieces /= 2;
                reader.in_a_row /= 2;
            }
            if self.0.len() >= READERS {
                self.0.remove(0);
            }
            // The first blocks came with the opening: a reader goes on when it has passed them.
            let next = if read.start == 0 { read.end.max(FIRST / BLOCK) } else { read.end };
            self.0.push(Reader { next, pieces: 0, in_a_row: next - read.start, ahead: next });
            return 0..0;
        };
        let mut reader = self.0.remove(at);
        let mut ahead = 0..0;
        if read.end > reader.next {
            reader.pieces = (reader.pieces + 1).min(WINDOW);
            reader.in_a_row = reader.in_a_row.saturating_add(read.end - reader.next).min(WINDOW);
            reader.next = read.end;
            ahead = reader.request(end, most);
        }
        self.0.push(reader);
        ahead
    }

    /// True if the reader that read last has read several blocks in a row.
    pub(super) fn goes_on(&self) -> bool {
        self.0.last().is_some_and(|reader| reader.window(WINDOW) > 2 * STEP)
    }
}

impl Reader {
    /// Returns the number of blocks to have ahead, at most `most`.
    fn window(&self, most: u64) -> u64 {
        if self.pieces < PIECES && self.in_a_row < LONG {
            return 0;
        }
        self.in_a_row.saturating_mul(4).max(STEP).min(most)
    }

    /// Returns the blocks to be requested: half a window at least, or whole requests once the window has room for several.
    /// One request at a time is then received beside the reader, and leaves it a processor.
    fn request(&mut self, extent_end: u64, most: u64) -> Range<u64> {
        let window = self.window(most);
        let start = self.ahead.max(self.next);
        let mut end = self.next.saturating_add(window).min(extent_end);
        let has_room_for_several = window > REQUEST;
        if has_room_for_several && end < extent_end {
            end = start + end.saturating_sub(start) / REQUEST * REQUEST;
        }
        let is_half_empty = (start - self.next).saturating_mul(2) <= window;
        let is_worth_it = has_room_for_several || is_half_empty || end == extent_end;
        if start >= end || !is_worth_it {
            return 0..0;
        }
        self.ahead = end;
        start..end
    }
}

/// Splits blocks for which `is_missing` is true into requests. A gap of one block is requested, too.
pub(super) fn requests(blocks: Range<u64>, is_missing: impl Fn(u64) -> bool) -> Vec<Range<u64>> {
    let mut requests: Vec<Range<u64>> = Vec::new();
    for block in blocks.filter(|block| is_missing(*block)) {
        match requests.last_mut() {
            Some(last) if block <= last.end + 1 && block - last.start < REQUEST => last.end = block + 1,
            _ => requests.push(block..block + 1),
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequential_reader_gets_a_growing_window_in_whole_requests() {
        let (mut streams, total) = (Streams::default(), 1000 * STEP);
        let (mut end, mut sizes) = (FIRST / BLOCK, Vec::new());
        for block in 0..600 * STEP {
            let ahead = streams.read(block..block + 1, total, WINDOW);
            if !ahead.is_empty() {
                assert!(ahead.start == end.max(block + 1) && ahead.end > end, "{ahead:?}");
                sizes.push(ahead.end - ahead.start);
                end = ahead.end;
            }
            // Further reads within the block change nothing.
            assert_eq!(streams.read(block..block + 1, total, WINDOW), 0..0);
            assert!(end <= block + 1 + WINDOW);
        }
        assert!(sizes.iter().all(|size| *size >= STEP / 2), "{sizes:?}");
        assert!(sizes.iter().skip(8).all(|size| size.is_multiple_of(REQUEST)), "{sizes:?}");
        assert!(end > 640 * STEP, "{end}");
    }

    #[test]
    fn random_reads_cost_one_block_until_one_goes_on() {
        let mut streams = Streams::default();
        for n in 1..10 {
            assert_eq!(streams.read(100 * n..100 * n + 1, 10_000, WINDOW), 0..0);
        }
        assert_eq!(streams.read(901..902, 10_000, WINDOW), 0..0);
        assert_eq!(streams.read(902..903, 10_000, WINDOW), 0..0);
        assert_eq!(streams.read(903..904, 10_000, WINDOW), 904..904 + STEP);
    }

    #[test]
    fn a_reader_of_large_pieces_goes_on_with_the_second_one() {
        let mut streams = Streams::default();
        assert_eq!(streams.read(0..STEP + 1, 10_000, WINDOW), 0..0);
        let read = 2 * STEP + 1;
        assert_eq!(streams.read(STEP..read, 10_000, WINDOW), read..read + REQUEST);
        // A tree of 1 MiB is no stream.
        assert_eq!(streams.read(500..500 + STEP / 2, 10_000, WINDOW), 0..0);
        assert_eq!(streams.read(500 + STEP / 2..500 + STEP, 10_000, WINDOW), 0..0);
    }

    #[test]
    fn random_reads_drain_the_windows() {
        let mut streams = Streams::default();
        for block in 0..20 * STEP {
            streams.read(block..block + 1, 1000 * STEP, WINDOW);
        }
        for n in 0..10 {
            let block = STEP * (100 + 37 * n);
            assert_eq!(streams.read(block..block + 1, 1000 * STEP, WINDOW), 0..0);
        }
        assert!(streams.0.iter().all(|reader| reader.window(WINDOW) == 0));
        assert!(streams.0.len() <= READERS);
    }

    #[test]
    fn several_readers_do_not_disturb_each_other() {
        let mut streams = Streams::default();
        for block in 0..20 * STEP {
            for start in [0, 200 * STEP, 400 * STEP] {
                streams.read(start + block..start + block + 1, 1000 * STEP, WINDOW);
            }
        }
        assert_eq!(streams.0.len(), 3);
        assert!(streams.0.iter().all(|reader| reader.window(WINDOW) == WINDOW));
    }

    #[test]
    fn the_end_of_the_file_is_requested() {
        let (mut streams, total) = (Streams::default(), 23 * STEP);
        let mut end = 1;
        for block in 0..total {
            end = end.max(streams.read(block..block + 1, total, WINDOW).end);
        }
        assert_eq!(end, total);
        assert_eq!(streams.read(total..u64::MAX, total, WINDOW), 0..0);
    }

    #[test]
    fn small_gaps_are_requested_with_the_blocks_around_them() {
        let missing = |blocks: &'static [u64]| move |block| blocks.contains(&block);
        assert_eq!(requests(0..20, missing(&[1, 2, 4, 7])), [1..5, 7..8]);
        assert_eq!(
            requests(0..2 * REQUEST + 4, |_| true),
            [0..REQUEST, REQUEST..2 * REQUEST, 2 * REQUEST..2 * REQUEST + 4]
        );
        assert_eq!(requests(5..5, |_| true), []);
    }
}
