//! A source that is read once from its start to its end, with short reads elsewhere in between.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use super::{Source, SourceStat, read_up_to};
use crate::error::Result;
use crate::sync::locked;

/// Bytes read at once near the last read. Longer reads bypass the buffer.
const PIECE: usize = 64 << 10;
/// Bytes read at once after a jump.
const JUMP: usize = 4 << 10;

/// A source that keeps the bytes that were read last, so that headers and data of small blocks cost no system
/// call each.
#[derive(Debug)]
pub struct BufferedSource {
    source: Arc<dyn Source>,
    /// The offset of the kept bytes, and the bytes.
    kept: Mutex<(u64, Vec<u8>)>,
}

impl BufferedSource {
    /// Creates a buffer over `source`, which does not change meanwhile.
    pub fn new(source: Arc<dyn Source>) -> Self {
        Self { source, kept: Mutex::default() }
    }
}

impl Source for BufferedSource {
    fn inner(&self) -> Option<&dyn Source> {
        Some(&*self.source)
    }

    fn stat(&self) -> Result<SourceStat> {
        self.source.stat()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if buf.len() >= PIECE {
            return self.source.read_at(offset, buf);
        }
        let mut kept = locked(&self.kept);
        let (start, bytes) = &mut *kept;
        let skip = offset.checked_sub(*start).and_then(|skip| usize::try_from(skip).ok());
        let held = skip.and_then(|skip| bytes.get(skip..)).filter(|held| held.len() >= buf.len());
        let held = match held {
            Some(held) => held,
            None => {
                let is_near = skip.is_some_and(|skip| !bytes.is_empty() && skip <= 2 * PIECE);
                bytes.resize(buf.len().max(if is_near { PIECE } else { JUMP }), 0);
                let read = read_up_to(&*self.source, offset, bytes);
                bytes.truncate(*read.as_ref().unwrap_or(&0));
                read?;
                *start = offset;
                bytes.as_slice()
            }
        };
        let len = held.len().min(buf.len());
        buf[..len].copy_from_slice(&held[..len]);
        Ok(len)
    }

    fn read_within(&self, extent: Range<u64>, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if buf.len() >= PIECE {
            return self.source.read_within(extent, offset, buf);
        }
        self.read_at(offset, buf)
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Vec<u8>>> {
        self.source.read_ranges(ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::counted::CountedSource;

    #[test]
    fn short_reads_give_the_bytes_of_few_reads() {
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
        let counted = CountedSource::new(bytes.clone());
        let source = BufferedSource::new(counted.clone());
        let mut at = 0;
        while at < bytes.len() {
            let mut buf = [0; 62];
            let read = source.read_at(at as u64, &mut buf).unwrap();
            assert_eq!(buf[..read], bytes[at..bytes.len().min(at + 62)]);
            at += read;
        }
        assert!(counted.counts().0 < 40, "{counted:?}");
        // A few bytes back, beyond the end, a long read.
        let mut buf = vec![0; 200_000];
        for (at, len) in
            [(500_000, 62), (499_990, 62), (999_990, 62), (1_000_000, 1), (1_000_001, 9), (7, 200_000)]
        {
            let read = source.read_at(at, &mut buf[..len]).unwrap();
            let end = bytes.len().min(at as usize + len);
            assert_eq!(buf[..read], *bytes.get(at as usize..end).unwrap_or_default(), "{at}");
        }
    }
}
