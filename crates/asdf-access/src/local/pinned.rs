//! One version of a file elsewhere, as a source.

use std::ops::Range;
use std::sync::Arc;

use seekable::error::Result;
use seekable::source::{Place, Source, SourceStat};
use seekable::workers::while_waiting;

/// An opened version of a file elsewhere. `stat` returns the state at opening, so no request is needed after
/// each read. While a worker thread waits for bytes, another thread takes its place.
#[derive(Debug)]
pub(super) struct PinnedSource {
    source: Arc<dyn Source>,
    stat: SourceStat,
}

impl PinnedSource {
    /// Opens the current version of a file.
    pub(super) fn open(place: &dyn Place) -> Result<Arc<dyn Source>> {
        let source = place.open()?;
        Ok(Arc::new(Self { stat: source.stat()?, source }))
    }
}

impl Source for PinnedSource {
    fn inner(&self) -> Option<&dyn Source> {
        Some(&*self.source)
    }

    fn stat(&self) -> Result<SourceStat> {
        Ok(self.stat)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        while_waiting(|| self.source.read_at(offset, buf)).map_err(|error| error.of(self.path()))
    }

    fn read_within(&self, extent: Range<u64>, offset: u64, buf: &mut [u8]) -> Result<usize> {
        while_waiting(|| self.source.read_within(extent, offset, buf)).map_err(|error| error.of(self.path()))
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Vec<u8>>> {
        while_waiting(|| self.source.read_ranges(ranges)).map_err(|error| error.of(self.path()))
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn will_need(&self, offset: u64, len: u64) {
        while_waiting(|| self.source.will_need(offset, len));
    }
}
