//! A source in memory, for tests of what reads sources.

use std::path::Path;

use super::{Identity, Source};
use crate::error::Result;

/// Bytes in memory that pass for a file.
#[derive(Debug, Default)]
pub struct MemorySource(pub Vec<u8>);

impl Source for MemorySource {
    fn path(&self) -> &Path {
        Path::new("memory")
    }

    fn identity(&self) -> Result<Identity> {
        Ok(Identity { device: 0, inode: 0, size: self.0.len() as u64, mtime: (0, 0) })
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|start| self.0.get(start..)).unwrap_or_default();
        let read = rest.len().min(buf.len());
        buf[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }
}
