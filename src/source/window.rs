//! A read buffer over a source: short reads close together cost one read of the source.

use super::{Source, read_up_to};
use crate::error::Result;

/// Bytes read at once after a jump: a block's header and a little more.
const JUMP: usize = 4 << 10;
/// Bytes read at once near the last read, for many small consecutive blocks.
const RUN: usize = 64 << 10;

/// The most recently read bytes of a source.
#[derive(Debug)]
pub struct Window<'a> {
    source: &'a dyn Source,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a> Window<'a> {
    /// Creates an empty window.
    pub fn new(source: &'a dyn Source) -> Self {
        Self { source, start: 0, bytes: Vec::new() }
    }

    /// Returns `len` bytes from `offset` on, fewer at the end of the source; `len` is small (a header).
    pub fn at(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        if !self.contains(offset, len) {
            let near =
                offset >= self.start && offset - self.start <= 2 * RUN as u64 && !self.bytes.is_empty();
            let want = len.max(if near { RUN } else { JUMP });
            self.bytes.resize(want, 0);
            let read = read_up_to(self.source, offset, &mut self.bytes);
            self.bytes.truncate(*read.as_ref().unwrap_or(&0));
            read?;
            self.start = offset;
        }
        let skip = (offset - self.start) as usize;
        let rest = self.bytes.get(skip..).unwrap_or_default();
        Ok(&rest[..rest.len().min(len)])
    }

    fn contains(&self, offset: u64, len: usize) -> bool {
        let end = self.start.saturating_add(self.bytes.len() as u64);
        offset >= self.start && offset.saturating_add(len as u64) <= end
    }
}
