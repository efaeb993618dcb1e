//! Finds the blocks after the place where a chain breaks off, for a repair.
//!
//! A reader ends the chain there, as it can't know which numbers the blocks behind that place have. A repair keeps their
//! data, and their numbers if nothing can lie before them.

use seekable::error::Result;
use seekable::source::Source;

use super::super::head;
use super::super::header::{MAX_FIELDS, PREFIX};
use super::{AfterBlock, BlockScan, BlockSearch, first};

/// Maximum number of magics without a sound block that are passed in one search.
const MAX_FALSE_MAGICS: usize = 4096;

/// A block behind a break of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FurtherBlock {
    /// The offset.
    pub at: u64,
    /// True if it is the next block: too few bytes lie before it to hold another one.
    pub is_next: bool,
    /// True if its magic is damaged, or the file ends within its header.
    pub is_damaged: bool,
}

impl BlockSearch {
    /// Finds a block after the one at `last`, with which the chain ended.
    pub(crate) fn further(&self, source: &dyn Source, last: u64) -> Result<Option<FurtherBlock>> {
        let mut scan = self.scan(source, None);
        let mut from = last.saturating_add(PREFIX);
        let mut ends = Vec::new();
        if let Some(header) = scan.sound_header(last)? {
            if header.streamed() && header.allocated_size == 0 {
                return Ok(None);
            }
            let data = header.data_offset();
            let data_size = if header.label_text().is_empty() { header.data_size } else { header.used_size };
            let sizes = [header.allocated_size, header.used_size, data_size];
            ends.extend(sizes.into_iter().filter_map(|size| data.checked_add(size)));
            ends.retain(|end| *end <= self.size);
            from = ends.first().copied().unwrap_or(data);
        }
        let is_next = |at: u64, ends: &[u64]| {
            ends.iter().any(|end| (*end..end.saturating_add(MAX_FIELDS as u64)).contains(&at))
        };
        for end in &ends {
            match scan.next(*end)? {
                AfterBlock::Block(at) if is_next(at, &ends) && scan.is_proven(at)? => {
                    return Ok(Some(FurtherBlock { at, is_next: true, is_damaged: false }));
                }
                AfterBlock::Index(_) => return Ok(None),
                _ => {}
            }
        }
        let bytes = scan.window.at(from, MAX_FIELDS)?;
        if head::recognises(bytes) {
            return Ok(None);
        }
        if !ends.is_empty() && bytes.get(1..4) == Some(b"BLK") {
            return Ok(Some(FurtherBlock { at: from, is_next: true, is_damaged: true }));
        }
        for _ in 0..MAX_FALSE_MAGICS {
            let Some(at) = first::next_magic(&scan, from)? else { break };
            if scan.is_proven(at)? {
                return Ok(Some(FurtherBlock { at, is_next: is_next(at, &ends), is_damaged: false }));
            }
            from = at + 1;
        }
        Ok(None)
    }
}

impl BlockScan<'_> {
    /// True if the header at `at` has no contradiction, and a block, the index or the end of the file follows the block.
    fn is_proven(&mut self, at: u64) -> Result<bool> {
        let Some(header) = self.sound_header(at)? else { return Ok(false) };
        let label = header.label_text();
        Ok(first::USUAL_HEADERS.contains(&header.header_size)
            && !header.streamed()
            && header.unknown_flags() == 0
            && header.used_size <= header.allocated_size
            && label.iter().all(u8::is_ascii_graphic)
            && (!label.is_empty() || header.data_size == header.used_size)
            && self.is_chained(at)?)
    }
}
