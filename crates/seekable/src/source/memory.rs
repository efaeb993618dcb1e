//! A source in memory.

use std::path::Path;

use super::{Revision, Source, SourceStat, SourceVersion};
use crate::error::Result;

/// Bytes in memory that behave like an unchanging file.
#[derive(Debug, Default)]
pub struct MemorySource(pub Vec<u8>);

impl Source for MemorySource {
    fn path(&self) -> &Path {
        Path::new("memory")
    }

    fn stat(&self) -> Result<SourceStat> {
        Ok(SourceStat { size: self.0.len() as u64, mtime: (0, 0), version: SourceVersion::of_tag("memory") })
    }

    fn revision(&self) -> Option<Revision> {
        Some(Revision { size: self.0.len() as u64, etag: None, mtime: None })
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|start| self.0.get(start..)).unwrap_or_default();
        let read = rest.len().min(buf.len());
        buf[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }
}
