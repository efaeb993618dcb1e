//! A range of the source, stored unencoded.

use std::ops::Range;
use std::sync::Arc;

use super::{Content, Soundness};
use crate::error::{Error, Result};
use crate::source::Source;

/// `len` bytes of a source from `offset` on.
#[derive(Clone, Debug)]
pub struct Slice {
    source: Arc<dyn Source>,
    offset: u64,
    len: u64,
    /// Number of readable bytes: fewer than `len` if something else begins in the source before the end.
    there: u64,
}

impl Slice {
    /// Makes the slice without reading. The range may extend past the end of the source.
    pub fn new(source: Arc<dyn Source>, offset: u64, len: u64) -> Self {
        Self { source, offset, len, there: len }
    }

    /// Limits reads to the first `there` bytes, because something else follows them in the source.
    #[must_use]
    pub fn cut(self, there: u64) -> Self {
        Self { there: there.min(self.len), ..self }
    }

    /// Drops the first `skip` bytes.
    #[must_use]
    pub fn from(self, skip: u64) -> Self {
        let skip = skip.min(self.len);
        Self {
            offset: self.offset.saturating_add(skip),
            len: self.len - skip,
            there: self.there.saturating_sub(skip),
            source: self.source,
        }
    }

    /// Returns the error for a read at `offset`, after the readable bytes.
    fn missing(&self, offset: u64) -> Error {
        let len = self.len;
        let there = self.len.min(offset);
        let place = self.offset.saturating_add(offset);
        Error::damaged(format!("the data are cut off: {there} of {len} bytes are there")).at(place)
    }
}

impl Content for Slice {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if offset >= self.len || buf.is_empty() {
            return Ok(0);
        }
        let wanted = self.there.saturating_sub(offset).min(buf.len() as u64) as usize;
        let Some(place) = self.offset.checked_add(offset).filter(|_| wanted > 0) else {
            return Err(self.missing(offset));
        };
        let extent = self.offset..self.offset.saturating_add(self.there);
        match self.source.read_within(extent, place, &mut buf[..wanted])? {
            0 => Err(self.missing(offset)),
            read => Ok(read),
        }
    }

    fn stored(&self) -> Option<(&Arc<dyn Source>, u64)> {
        (self.there == self.len).then_some((&self.source, self.offset))
    }

    fn ranges(&self) -> Vec<Range<u64>> {
        let readable = self.offset..self.offset.saturating_add(self.there);
        std::iter::once(readable).collect()
    }

    fn is_slow(&self) -> bool {
        self.source.is_slow()
    }

    fn soundness(&self) -> Soundness {
        let size = self.source.stat().map_or(0, |stat| stat.size);
        let there = size.saturating_sub(self.offset).min(self.there);
        if there < self.len { Soundness::Broken(there) } else { Soundness::Sound }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{FileSource, MemorySource, SourceStat};

    /// A source that is marked as slow.
    #[derive(Debug)]
    struct Slow(MemorySource);

    impl Source for Slow {
        fn path(&self) -> &std::path::Path {
            self.0.path()
        }
        fn stat(&self) -> Result<SourceStat> {
            self.0.stat()
        }
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
            self.0.read_at(offset, buf)
        }
        fn is_slow(&self) -> bool {
            true
        }
    }

    #[test]
    fn bytes_of_a_slow_source_are_slow_and_of_a_quick_one_not() {
        let quick: Arc<dyn Source> = Arc::new(MemorySource(vec![1; 9]));
        let slow: Arc<dyn Source> = Arc::new(Slow(MemorySource(vec![1; 9])));
        assert_eq!([quick, slow].map(|source| Slice::new(source, 2, 3).is_slow()), [false, true]);
    }

    #[test]
    fn gives_what_is_there_and_then_the_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"0123456789").unwrap();
        let source: Arc<dyn Source> = Arc::new(FileSource::open(file.path()).unwrap());
        let whole = Slice::new(source.clone(), 2, 8);
        let past = Slice::new(source.clone(), 2, 20);
        let cut = Slice::new(source, 2, 8).cut(3);
        let mut buf = [0; 16];
        assert_eq!(whole.read_at(6, &mut buf).unwrap(), 2);
        assert_eq!(whole.read_at(8, &mut buf).unwrap(), 0);
        assert_eq!(whole.soundness(), Soundness::Sound);
        assert_eq!((past.read_at(6, &mut buf).unwrap(), &buf[..2]), (2, &b"89"[..]));
        assert!(past.read_at(8, &mut buf).is_err());
        assert_eq!(past.soundness(), Soundness::Broken(8));
        assert_eq!((cut.read_at(1, &mut buf).unwrap(), &buf[..2]), (2, &b"34"[..]));
        assert!(cut.read_at(3, &mut buf).is_err());
        assert_eq!([whole.ranges(), cut.ranges()].concat(), [2..10, 2..5]);
        assert_eq!((cut.soundness(), cut.stored().is_none()), (Soundness::Broken(3), true));
    }
}
