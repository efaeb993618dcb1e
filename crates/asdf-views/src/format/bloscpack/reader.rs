//! Reads the headers of many small chunks with few reads of the file.

use seekable::codec::blosc;
use seekable::error::{Error, Result};
use seekable::source::Window;

use super::chain::LocatedChunk;
use super::places::ChunkLocations;

/// Maximum size of a stored chunk that is read as a whole.
const WHOLE: u64 = 256 << 10;

/// Read buffers for chunks and offsets.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    places: &'a ChunkLocations,
    chunks: Window<'a>,
    offsets: Window<'a>,
}

impl<'a> Reader<'a> {
    /// Creates a reader with empty buffers.
    pub(crate) fn new(places: &'a ChunkLocations) -> Self {
        let window = || Window::new(&*places.source);
        Self { places, chunks: window(), offsets: window() }
    }

    /// Returns item `n` of a file of the variable-length proposal.
    pub(crate) fn item(&mut self, n: u64) -> Result<LocatedChunk> {
        let offset = self.offset(n)?;
        self.header(self.places.item_place(offset)?)
    }

    /// Returns the offset of chunk `n`, if there are offsets.
    pub(crate) fn offset(&mut self, n: u64) -> Result<Option<i64>> {
        let Some(at) = self.places.offsets else { return Ok(None) };
        let at = n.checked_mul(8).and_then(|skip| at.checked_add(skip));
        match at.map(|at| self.offsets.at(at, 8)).transpose()?.and_then(|bytes| bytes.first_chunk()) {
            Some(bytes) => Ok(Some(i64::from_le_bytes(*bytes))),
            None => Err(Error::damaged("the offsets are cut off")),
        }
    }

    /// Returns the chunk that begins at `at`.
    pub(crate) fn header(&mut self, at: u64) -> Result<LocatedChunk> {
        let len = blosc::HEADER_SIZE as usize;
        let bytes = if at < self.places.size { self.chunks.at(at, len)? } else { &[] };
        self.places.parse(at, bytes)
    }

    /// Returns the stored bytes of a chunk with its checksum; `None` if they are longer than `WHOLE` or
    /// incomplete.
    pub(crate) fn stored(&mut self, found: &LocatedChunk) -> Result<Option<&[u8]>> {
        let len = self.places.end_of(found) - found.at;
        if len > WHOLE {
            return Ok(None);
        }
        let bytes = self.chunks.at(found.at, len as usize)?;
        Ok((bytes.len() as u64 == len).then_some(bytes))
    }
}
