//! Finds lost blocks: their headers are damaged, the chain does not reach them, and only the index lists
//! them.
//!
//! Without this, the block after a lost block would get the number of the lost block, and a reader would
//! silently get the wrong data. An index is trusted if it agrees with the whole chain and lists further
//! blocks before or after it, in bytes that belong to nothing else. Those blocks keep their numbers, and
//! reading them fails.

use seekable::error::Result;
use seekable::source::read_up_to;

use super::super::defect::AsdfDefect;
use super::super::head;
use super::super::header::MAX_FIELDS;
use super::super::index::Index;
use super::{BlockScan, End, MAX_GAP, is_ascending, is_blank};

/// Bytes read at once.
const PIECE: usize = 64 << 10;
/// Bytes of the first read.
const FIRST_PIECE: usize = 4 << 10;
/// Maximum number of magics examined after junk.
const MAX_MAGICS: usize = 16;

impl BlockScan<'_> {
    /// Adds the blocks that the index lists from `from` on, where the chain ended.
    ///
    /// Returns true if blocks were added.
    pub(super) fn lost_behind(&mut self, from: u64) -> Result<bool> {
        if head::recognises(self.window.at(from, MAX_FIELDS)?) {
            // Another ASDF file follows within this file, so the index belongs to that one.
            return Ok(false);
        }
        let Some((listed, index)) = self.listed_in_order() else { return Ok(false) };
        let found = &self.blocks.offsets;
        let first = found.first().and_then(|first| listed.binary_search(first).ok());
        let rest = first.and_then(|first| listed.get(first..)?.strip_prefix(&found[..]));
        let Some(rest) = rest.filter(|rest| rest.first().is_some_and(|next| *next >= from)) else {
            return Ok(false);
        };
        let rest = rest.to_vec();
        if !self.have_data_between(&rest, index)? {
            return Ok(false);
        }
        for offset in &rest {
            self.blocks.offsets.push(*offset);
        }
        let n = self.blocks.offsets.len() - rest.len();
        self.note_lost_defects(n, &rest)?;
        Ok(true)
    }

    /// Adds lost blocks at the front: those that lie before the first block found, and that only the index
    /// lists.
    pub(super) fn lost_in_front(&mut self, head_end: u64, end: End) -> Result<()> {
        if self.only_looks_like_an_index(end)? {
            return Ok(());
        }
        let Some((listed, index)) = self.listed_in_order() else { return Ok(()) };
        let found = &self.blocks.offsets;
        let Some(lost) = listed.strip_suffix(&found[..]).filter(|lost| !lost.is_empty()) else {
            return Ok(());
        };
        let lost = lost.to_vec();
        let until = found.first().copied().unwrap_or(index);
        if lost.first().is_some_and(|first| *first < head_end) || !self.have_data_between(&lost, until)? {
            return Ok(());
        }
        self.blocks.offsets.splice(0..0, lost.iter().copied());
        // Removes defects that were reported for bytes in the padding and belong to one of these blocks.
        self.blocks
            .defects
            .retain(|defect| defect.block.is_some() || lost.binary_search(&defect.offset).is_err());
        for block in self.blocks.defects.iter_mut().filter_map(|defect| defect.block.as_mut()) {
            *block += lost.len();
        }
        self.note_lost_defects(0, &lost)
    }

    /// Returns the offset of a block at most [`PIECE`] bytes after `end` that leads to another block, the
    /// index or the end of the file. Used for a message only.
    pub(super) fn block_behind_junk(&mut self, end: u64) -> Result<Option<u64>> {
        let mut bytes = vec![0; PIECE];
        let read = read_up_to(self.source, end, &mut bytes)?;
        let mut from = 0;
        for _ in 0..MAX_MAGICS {
            let found = bytes[..read].get(from..).and_then(|rest| self.generation.find_magic(rest));
            let Some(found) = found else { break };
            let at = end + (from + found) as u64;
            if self.is_chained(at)? {
                return Ok(Some(at));
            }
            from += found + 1;
        }
        Ok(None)
    }

    /// Returns the offsets in the index, and the offset of the index, if the offsets ascend and lie before
    /// the index.
    fn listed_in_order(&self) -> Option<(Vec<u64>, u64)> {
        let Index { offset, offsets: Ok(offsets), .. } = self.index.as_ref()? else { return None };
        let fit = is_ascending(offsets) && offsets.last().is_some_and(|last| last < offset);
        fit.then(|| (offsets.clone(), *offset))
    }

    /// True if more than padding lies between each offset and the next, and between the last and `until`.
    fn have_data_between(&self, offsets: &[u64], until: u64) -> Result<bool> {
        let ends = offsets.iter().skip(1).chain([&until]);
        for (start, end) in offsets.iter().zip(ends) {
            if self.is_padding(*start, *end)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// True if only blanks lie between `start` and `end`. Bytes beyond [`MAX_GAP`] are not searched.
    fn is_padding(&self, start: u64, end: u64) -> Result<bool> {
        let end = end.min(start.saturating_add(MAX_GAP)).min(self.size);
        Ok(self.blanks_end(start)? >= end)
    }

    /// Returns the offset of the first byte from `start` on that is not blank. Bytes beyond [`MAX_GAP`]
    /// are not searched.
    pub(super) fn blanks_end(&self, start: u64) -> Result<u64> {
        let end = start.saturating_add(MAX_GAP).min(self.size);
        // The padding is usually short.
        let mut bytes = vec![0; FIRST_PIECE];
        let mut at = start;
        while at < end {
            let read = read_up_to(self.source, at, &mut bytes)?;
            if let Some(found) = bytes[..read].iter().position(|byte| !is_blank(*byte)) {
                return Ok(at + found as u64);
            }
            if read < bytes.len() {
                break;
            }
            at += read as u64;
            bytes.resize(PIECE, 0);
        }
        Ok(end)
    }

    /// Notes the defects of each lost block. The first one is block `first`.
    fn note_lost_defects(&mut self, first: usize, lost: &[u64]) -> Result<()> {
        for (n, offset) in (first..).zip(lost) {
            let before = self.blocks.defects.len();
            if let Some(header) = self.sound_header(*offset)? {
                self.check_header(n, &header)?;
            }
            let reasons = self.blocks.defects.drain(before..).map(|defect| defect.what).collect::<Vec<_>>();
            self.note(*offset, Some(n), AsdfDefect::LostBlock(reasons));
        }
        Ok(())
    }
}
