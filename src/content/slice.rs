//! A range of the source, as it is.

use std::sync::Arc;

use super::Content;
use crate::error::{Error, Result};
use crate::source::Source;

/// `len` bytes of a source from `offset` on.
#[derive(Clone, Debug)]
pub struct Slice {
    source: Arc<dyn Source>,
    offset: u64,
    len: u64,
}

impl Slice {
    /// Makes the slice; nothing is read, and the range may reach past the end of the source.
    pub fn new(source: Arc<dyn Source>, offset: u64, len: u64) -> Self {
        Self { source, offset, len }
    }
}

impl Content for Slice {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let wanted = self.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        if wanted == 0 {
            return Ok(0);
        }
        let place = self.offset.checked_add(offset).ok_or_else(|| Error::damaged("an offset overflows"))?;
        match self.source.read_at(place, &mut buf[..wanted])? {
            0 => Err(Error::damaged(format!(
                "the file ends {} bytes before this block does",
                self.len - offset
            ))
            .at(place)),
            read => Ok(read),
        }
    }

    fn stored(&self) -> Option<(&Arc<dyn Source>, u64)> {
        Some((&self.source, self.offset))
    }
}
