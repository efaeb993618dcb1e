//! A source that counts what is read from it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use seekable::Result;
use seekable::source::{MemorySource, Source, SourceStat};

/// Bytes in memory that count their readers.
#[derive(Debug, Default)]
pub(crate) struct CountedSource {
    source: MemorySource,
    reads: AtomicUsize,
    bytes: AtomicUsize,
}

impl CountedSource {
    pub(crate) fn new(bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self { source: MemorySource(bytes), ..Self::default() })
    }

    /// Returns the numbers of reads and of bytes read so far.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.reads.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

impl Source for CountedSource {
    fn path(&self) -> &Path {
        self.source.path()
    }

    fn stat(&self) -> Result<SourceStat> {
        self.source.stat()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let read = self.source.read_at(offset, buf)?;
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(read, Ordering::Relaxed);
        Ok(read)
    }
}
