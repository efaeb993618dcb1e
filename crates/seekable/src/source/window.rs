//! A read buffer over a source: short reads close together cost one read of the source.

use super::{Source, read_up_to};
use crate::error::Result;

/// Bytes read at once after a jump: a block's header and a little more.
const JUMP: usize = 4 << 10;
/// Bytes read at once near the last read, for many small consecutive blocks.
const RUN: usize = 64 << 10;

/// The most recently read bytes of a source.
#[derive(Debug)]
pub struct Window<'a> {
    source: &'a dyn Source,
    start: u64,
    bytes: Vec<u8>,
    /// True if the source ends after `bytes`.
    is_last: bool,
}

impl<'a> Window<'a> {
    /// Creates an empty window.
    pub fn new(source: &'a dyn Source) -> Self {
        Self { source, start: 0, bytes: Vec::new(), is_last: false }
    }

    /// Returns `len` bytes from `offset` on, fewer at the end of the source; `len` is small (a header).
    pub fn at(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        if !self.contains(offset, len) {
            let near =
                offset >= self.start && offset - self.start <= 2 * RUN as u64 && !self.bytes.is_empty();
            let want = len.max(if near { RUN } else { JUMP });
            self.bytes.resize(want, 0);
            let read = read_up_to(self.source, offset, &mut self.bytes);
            self.bytes.truncate(*read.as_ref().unwrap_or(&0));
            self.is_last = read? < want;
            self.start = offset;
        }
        let skip = (offset - self.start) as usize;
        let rest = self.bytes.get(skip..).unwrap_or_default();
        Ok(&rest[..rest.len().min(len)])
    }

    fn contains(&self, offset: u64, len: usize) -> bool {
        let end = self.start.saturating_add(self.bytes.len() as u64);
        offset >= self.start && (offset.saturating_add(len as u64) <= end || self.is_last && offset <= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{MemorySource, SourceStat};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A source that counts its reads.
    #[derive(Debug)]
    struct Counted(MemorySource, AtomicUsize);

    impl Source for Counted {
        fn path(&self) -> &std::path::Path {
            self.0.path()
        }

        fn stat(&self) -> Result<SourceStat> {
            self.0.stat()
        }

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.read_at(offset, buf)
        }
    }

    #[test]
    fn the_end_of_a_short_file_is_read_once() {
        let source = Counted(MemorySource((0..200).collect()), AtomicUsize::new(0));
        let mut window = Window::new(&source);
        for offset in [50, 60, 150, 199, 200] {
            let expected: Vec<u8> = (offset..200).take(100).collect();
            assert_eq!(window.at(u64::from(offset), 100).unwrap(), expected, "{offset}");
        }
        let reads = source.1.load(Ordering::Relaxed);
        assert_eq!(window.at(300, 10).unwrap(), b"", "beyond the end");
        // A read that returns fewer bytes than it was asked for is repeated.
        assert!(reads <= 2, "{reads} reads");
    }
}
