//! Detection of sequential readers, and how far to read ahead of them.
//!
//! A reader that goes on to the next block gets a window, which doubles with each block. Reads elsewhere
//! halve the windows, so that random reads soon cost no more than the blocks that they need. All numbers are
//! blocks.

use std::ops::Range;

/// Maximum window.
pub(super) const WINDOW: u64 = 64;
/// Maximum length of a request.
pub(super) const REQUEST: u64 = 8;
/// Maximum number of readers of a file that are tracked.
const READERS: usize = 16;
/// Number of blocks by which the reads of one reader may be out of order.
const BEHIND: u64 = 2;

/// The sequential readers of a file. The reader that read last is at the end.
#[derive(Debug, Default)]
pub(super) struct Streams(Vec<Reader>);

#[derive(Clone, Copy, Debug)]
struct Reader {
    /// The block after the last block read.
    next: u64,
    window: u64,
    /// End of the blocks that were requested ahead.
    ahead: u64,
}

impl Streams {
    /// Records a read of some blocks in a file of `total` blocks. Returns the blocks to request ahead; `most` is
    /// the maximum window.
    pub(super) fn read(&mut self, read: Range<u64>, total: u64, most: u64) -> Range<u64> {
        let continues = |reader: &Reader| read.start <= reader.next && read.start + BEHIND >= reader.next;
        let Some(at) = self.0.iter().rposition(continues) else {
            self.0.iter_mut().for_each(|reader| reader.window /= 2);
            if self.0.len() >= READERS {
                self.0.remove(0);
            }
            let window = u64::from(read.start == 0);
            self.0.push(Reader { next: read.end, window, ahead: read.end });
            return 0..0;
        };
        let mut reader = self.0.remove(at);
        let is_further = read.end > reader.next;
        if is_further {
            reader.next = read.end;
            reader.window = if reader.window == 0 { 1 } else { (reader.window * 2).min(most) };
        }
        let ahead = if is_further && reader.window > 1 { reader.request(total) } else { 0..0 };
        self.0.push(reader);
        ahead
    }

    /// True if the reader that read last has read several blocks in a row.
    pub(super) fn goes_on(&self) -> bool {
        self.0.last().is_some_and(|reader| reader.window > BEHIND)
    }
}

impl Reader {
    /// Returns the blocks to be requested: whole requests, once the window has room for several.
    fn request(&mut self, total: u64) -> Range<u64> {
        let start = self.ahead.max(self.next);
        let mut end = self.next.saturating_add(self.window).min(total);
        if self.window > REQUEST && end < total {
            end = start + end.saturating_sub(start) / REQUEST * REQUEST;
        }
        if start >= end {
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
        let (mut streams, total) = (Streams::default(), 1000);
        let (mut end, mut sizes) = (1, Vec::new());
        for block in 0..600 {
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
        assert!(sizes.iter().skip(8).all(|size| *size == REQUEST), "{sizes:?}");
        assert!(end > 640, "{end}");
    }

    #[test]
    fn random_reads_drain_the_windows() {
        let mut streams = Streams::default();
        for block in 0..20 {
            streams.read(block..block + 1, 1000, WINDOW);
        }
        for n in 0..10 {
            let block = 100 + 37 * n;
            assert_eq!(streams.read(block..block + 1, 1000, WINDOW), 0..0);
        }
        assert!(streams.0.iter().all(|reader| reader.window <= 1));
        assert!(streams.0.len() <= READERS);
    }

    #[test]
    fn several_readers_do_not_disturb_each_other() {
        let mut streams = Streams::default();
        for block in 0..20 {
            for start in [0, 200, 400] {
                streams.read(start + block..start + block + 1, 1000, WINDOW);
            }
        }
        assert_eq!(streams.0.len(), 3);
        assert!(streams.0.iter().all(|reader| reader.window == WINDOW));
    }

    #[test]
    fn the_end_of_the_file_is_requested() {
        let mut streams = Streams::default();
        let mut end = 1;
        for block in 0..23 {
            end = end.max(streams.read(block..block + 1, 23, WINDOW).end);
        }
        assert_eq!(end, 23);
        assert_eq!(streams.read(23..u64::MAX, 23, WINDOW), 0..0);
    }

    #[test]
    fn small_gaps_are_requested_with_the_blocks_around_them() {
        let missing = |blocks: &'static [u64]| move |block| blocks.contains(&block);
        assert_eq!(requests(0..20, missing(&[1, 2, 4, 7])), [1..5, 7..8]);
        assert_eq!(requests(0..20, |_| true), [0..8, 8..16, 16..20]);
        assert_eq!(requests(5..5, |_| true), []);
    }
}
