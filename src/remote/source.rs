//! An object on a server as a source.

use std::path::Path;
use std::sync::Arc;

use super::object::Object;
use crate::error::Result;
use crate::source::{Provenance, Source, SourceStat};

/// One version of an object on a server. Once the object has another version, reads of bytes that are not in
/// a cache fail with ESTALE, and `stat` returns the new state.
#[derive(Debug)]
pub struct RemoteSource(pub(super) Arc<Object>);

impl Source for RemoteSource {
    fn path(&self) -> &Path {
        &self.0.label
    }

    fn stat(&self) -> Result<SourceStat> {
        Ok(self.0.stat())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if offset >= self.0.size() {
            return Ok(0);
        }
        self.0.read_at(offset, buf).map_err(|error| error.at(offset).of(&self.0.label))
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn provenance(&self) -> Provenance {
        self.0.provenance()
    }

    fn will_need(&self, offset: u64, len: u64) {
        self.0.will_need(offset, len);
    }
}
