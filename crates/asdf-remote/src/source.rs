//! An object on a server as a source.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use seekable::error::Result;
use seekable::source::{Provenance, Revision, Source, SourceStat, Surroundings};

use super::object::Object;

/// One version of an object on a server. Once the object has another version, reads of bytes that are not in
/// a cache fail with ESTALE, and `stat` returns the new state.
#[derive(Debug)]
pub struct RemoteSource {
    pub(super) object: Arc<Object>,
    /// The way to the files that the tree names.
    pub(super) surroundings: Option<Arc<dyn Surroundings>>,
}

impl Source for RemoteSource {
    fn path(&self) -> &Path {
        &self.object.label
    }

    fn stat(&self) -> Result<SourceStat> {
        Ok(self.object.stat())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.read_within(0..u64::MAX, offset, buf)
    }

    fn read_within(&self, extent: Range<u64>, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if offset >= self.object.size() {
            return Ok(0);
        }
        let read = self.object.read_at(extent.end, offset, buf);
        read.map_err(|error| error.at(offset).of(&self.object.label))
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Vec<u8>>> {
        self.object.read_ranges(ranges).map_err(|error| error.of(&self.object.label))
    }

    fn kept(&self, name: &str) -> Option<Vec<u8>> {
        self.object.kept(name)
    }

    fn keep(&self, name: &str, bytes: &[u8]) {
        self.object.keep_facts(name, bytes);
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn surroundings(&self) -> Option<&Arc<dyn Surroundings>> {
        self.surroundings.as_ref()
    }

    fn provenance(&self) -> Provenance {
        self.object.provenance()
    }

    fn revision(&self) -> Option<Revision> {
        Some(self.object.revision())
    }

    fn will_need(&self, offset: u64, len: u64) {
        self.object.will_need(offset, len);
    }
}
