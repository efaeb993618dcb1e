//! A part of another source, which begins at offset 0.

use std::ops::Range;
use std::sync::Arc;

use super::{Lent, Source, SourceStat, read_range};
use crate::error::Result;

/// The bytes of a range of a source. All offsets are relative to the start of the range.
#[derive(Debug)]
pub struct SourceSection {
    source: Arc<dyn Source>,
    range: Range<u64>,
}

impl SourceSection {
    /// Selects a range, cut at the end of `source`.
    ///
    /// # Errors
    /// The size of `source` can't be found out.
    pub fn new(source: Arc<dyn Source>, range: Range<u64>) -> Result<Self> {
        let end = range.end.min(source.stat()?.size);
        Ok(Self { source, range: range.start.min(end)..end })
    }

    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Returns how many of the `wanted` bytes at `offset` are in the range.
    fn count_at(&self, offset: u64, wanted: usize) -> usize {
        usize::try_from(self.len().saturating_sub(offset)).unwrap_or(usize::MAX).min(wanted)
    }

    /// Returns the range of the source that a range of the section is.
    fn in_source(&self, range: &Range<u64>) -> Range<u64> {
        let place = |offset: u64| self.range.start.saturating_add(offset).min(self.range.end);
        place(range.start)..place(range.end)
    }
}

impl Source for SourceSection {
    fn inner(&self) -> Option<&dyn Source> {
        Some(&*self.source)
    }

    fn next_data(&self, offset: u64) -> Option<Range<u64>> {
        let data = self.source.next_data(self.range.start.saturating_add(offset))?;
        let place = |at: u64| at.clamp(self.range.start, self.range.end) - self.range.start;
        Some(place(data.start)..place(data.end))
    }

    fn stat(&self) -> Result<SourceStat> {
        Ok(SourceStat { size: self.len(), ..self.source.stat()? })
    }

    fn size_now(&self) -> Result<u64> {
        Ok(self.len())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        match self.count_at(offset, buf.len()) {
            0 => Ok(0),
            count => {
                self.source.read_within(self.range.clone(), self.range.start + offset, &mut buf[..count])
            }
        }
    }

    fn read_within(&self, extent: Range<u64>, offset: u64, buf: &mut [u8]) -> Result<usize> {
        match self.count_at(offset, buf.len()) {
            0 => Ok(0),
            count => {
                let extent = self.in_source(&extent);
                self.source.read_within(extent, self.range.start + offset, &mut buf[..count])
            }
        }
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Vec<u8>>> {
        if ranges.iter().any(|range| range.end > self.len()) {
            return ranges.iter().map(|range| read_range(self, range)).collect();
        }
        let ranges: Vec<_> = ranges.iter().map(|range| self.in_source(range)).collect();
        self.source.read_ranges(&ranges)
    }

    fn lend(&self, offset: u64, len: usize) -> Option<Lent<'_>> {
        let is_within = self.count_at(offset, len) == len && len > 0;
        is_within.then(|| self.source.lend(self.range.start + offset, len)).flatten()
    }

    fn start_in_file(&self) -> u64 {
        self.source.start_in_file().saturating_add(self.range.start)
    }

    fn will_need(&self, offset: u64, len: u64) {
        let range = self.in_source(&(offset..offset.saturating_add(len)));
        self.source.will_need(range.start, range.end - range.start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::MemorySource;
    use std::path::Path;

    #[test]
    fn a_section_has_its_bytes_and_no_others() {
        let whole: Arc<dyn Source> = Arc::new(MemorySource((0..100).collect()));
        let section = SourceSection::new(whole.clone(), 10..30).unwrap();
        let read = |offset| {
            let mut buf = [0; 50];
            let read = section.read_at(offset, &mut buf).unwrap();
            buf[..read].to_vec()
        };
        assert_eq!(read(0), (10..30).collect::<Vec<u8>>());
        assert_eq!(read(15), (25..30).collect::<Vec<u8>>());
        assert_eq!((read(20), read(u64::MAX)), (vec![], vec![]));
        assert_eq!(section.read_ranges(&[0..2, 5..6]).unwrap(), [vec![10, 11], vec![15]]);
        assert_eq!(section.read_ranges(&[18..40, 40..50]).unwrap(), [vec![28, 29], vec![]]);
        assert_eq!((section.stat().unwrap().size, section.start_in_file()), (20, 10));
        assert_eq!(SourceSection::new(whole.clone(), 90..u64::MAX).unwrap().size_now().unwrap(), 10);
        assert_eq!(SourceSection::new(whole, 200..300).unwrap().size_now().unwrap(), 0);
    }

    #[test]
    fn holes_of_a_section_are_those_of_its_source() {
        use std::os::unix::fs::FileExt;
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"data", 512 << 10).unwrap();
        file.set_len(1 << 20).unwrap();
        let whole: Arc<dyn Source> =
            Arc::new(crate::source::FileSource::from_file(file, Path::new("x")).unwrap());
        let section = SourceSection::new(whole.clone(), 4096..1 << 20).unwrap();
        let expected = whole.next_data(4096).map(|data| data.start - 4096..data.end - 4096);
        assert_eq!(section.next_data(0), expected);
    }
}
