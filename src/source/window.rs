//! A window over a source: short reads close together cost one read of the source.

use super::{Source, read_up_to};
use crate::error::Result;

/// Bytes read at once after a jump: a block's header and some more.
const JUMP: usize = 4 << 10;
/// Bytes read at once when the last read lay near: many small blocks in a row.
const RUN: usize = 64 << 10;

/// Holds the bytes of a source that were read last.
#[derive(Debug)]
pub struct Window<'a> {
    source: &'a dyn Source,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a> Window<'a> {
    /// A window that has read nothing yet.
    pub fn new(source: &'a dyn Source) -> Self {
        Self { source, start: 0, bytes: Vec::new() }
    }

    /// The `len` bytes from `offset` on, fewer at the end of the source; `len` is small (a header).
    pub fn at(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        if !self.holds(offset, len) {
            let near =
                offset >= self.start && offset - self.start <= 2 * RUN as u64 && !self.bytes.is_empty();
            let want = len.max(if near { RUN } else { JUMP });
            self.bytes.resize(want, 0);
            let read = read_up_to(self.source, offset, &mut self.bytes)?;
            self.bytes.truncate(read);
            self.start = offset;
        }
        let skip = (offset - self.start) as usize;
        let rest = self.bytes.get(skip..).unwrap_or_default();
        Ok(&rest[..rest.len().min(len)])
    }

    fn holds(&self, offset: u64, len: usize) -> bool {
        let end = self.start.saturating_add(self.bytes.len() as u64);
        offset >= self.start && offset.saturating_add(len as u64) <= end
    }
}
