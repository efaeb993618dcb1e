//! Text in memory.

use std::sync::Arc;

use super::Content;
use crate::error::Result;

/// Bytes in memory.
#[derive(Clone, Debug, Default)]
pub struct Text(Arc<[u8]>);

impl Text {
    /// Takes `bytes`.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self(bytes.into())
    }
}

impl Content for Text {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|start| self.0.get(start..)).unwrap_or_default();
        let read = rest.len().min(buf.len());
        buf[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }
}
