//! The blocks of a file on a server as its index lists them.
//!
//! Following the chain takes a request for each block. An index is believed instead if it lists the blocks in order, the
//! first one begins where the tree and its padding end, and the first and the last one end where the next block or the
//! index begins. The header of any other block has to prove the same before its data are read. Otherwise the chain is
//! followed, as in local files.

use seekable::error::Result;
use seekable::source::Source;

use super::super::header::{Header, MAX_FIELDS};
use super::super::index;
use super::{BlockScan, BlockSearch, FEW_FROM_SERVER, KeptHeaders, first, is_ascending};

/// Bytes at the start and at the end of a file that a search for blocks reads from a server.
const START: u64 = (256 << 10) - MAX_FIELDS as u64;
const END: u64 = 64 << 10;

/// The blocks that an index lists, at least two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexedBlocks {
    /// The offset of each block.
    pub offsets: Vec<u64>,
    /// The end of the last block: the offset of the index.
    end: u64,
}

impl IndexedBlocks {
    /// True if the header of block `n` is sound, and the block ends where the next one begins.
    pub(crate) fn proves(&self, n: usize, header: &Header) -> bool {
        let next = self.offsets.get(n + 1).copied().unwrap_or(self.end);
        let is_stored = header.label_text().is_empty() && !header.encoded();
        first::USUAL_HEADERS.contains(&header.header_size)
            && !header.streamed()
            && header.unknown_flags() == 0
            && header.used_size <= header.allocated_size
            && (!is_stored || header.data_size == header.used_size)
            && self.offsets.get(n) == Some(&header.offset)
            && header.end() == Some(next)
    }
}

impl BlockSearch {
    /// Returns the blocks that the index lists, if it can be believed. Unless `is_proven`, the last block need not prove
    /// it if that takes a request.
    pub(crate) fn by_index(
        &self,
        source: &dyn Source,
        kept: Option<&KeptHeaders>,
        is_proven: bool,
    ) -> Result<Option<IndexedBlocks>> {
        let mut scan = self.scan(source, kept);
        if scan.is_short(self.head_end, FEW_FROM_SERVER)? {
            return Ok(None);
        }
        let Some(index) = index::find(source, self.size, self.head_end)? else { return Ok(None) };
        let Ok(offsets) = index.offsets else { return Ok(None) };
        let is_whole = index.end == self.size;
        if offsets.len() < 2 || !is_whole || !is_ascending(&offsets) || offsets.last() >= Some(&index.offset)
        {
            return Ok(None);
        }
        let blocks = IndexedBlocks { offsets, end: index.offset };
        if blocks.offsets.first() != Some(&scan.blanks_end(self.head_end)?) {
            return Ok(None);
        }
        if !proves(&mut scan, &blocks, 0)? {
            return Ok(None);
        }
        let last = blocks.offsets.len() - 1;
        let is_needed = is_proven || !is_far(blocks.offsets[last], self.size);
        Ok((!is_needed || proves(&mut scan, &blocks, last)?).then_some(blocks))
    }
}

/// True if reading the header at an offset costs a request to a server, after the search for the index.
pub(crate) fn is_far(offset: u64, size: u64) -> bool {
    (START..size.saturating_sub(END)).contains(&offset)
}

fn proves(scan: &mut BlockScan<'_>, blocks: &IndexedBlocks, n: usize) -> Result<bool> {
    let Some(offset) = blocks.offsets.get(n) else { return Ok(false) };
    Ok(scan.sound_header(*offset)?.is_some_and(|header| blocks.proves(n, &header)))
}
