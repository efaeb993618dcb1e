//! Finds shifted blocks, which are not where the index says because a block before them has lost or gained
//! bytes.
//!
//! If the chain breaks, the next block is searched near its place in the index, measured from the last block
//! that was found. A magic counts only if its block has the length that the index gives, or ends at another
//! block or the index, and if no other offset in the index is as near to the magic. Therefore neither a magic
//! in the data of a block nor a block with another number is mistaken for the next block.

use seekable::error::Result;
use seekable::source::read_up_to;

use super::super::defect::AsdfDefect;
use super::super::head;
use super::super::header::MAX_FIELDS;
use super::{AfterBlock, BlockScan, is_ascending};

/// Bytes searched before and after a place from the index.
const FARTHEST: u64 = 64 << 10;
/// Maximum number of blocks with damaged headers that a search skips.
const MAX_LOST: usize = 8;
/// Maximum number of searches in a file, as a bound against hostile files.
const MAX_SEARCHES: usize = 1024;
/// Maximum number of magics tried in a search.
const MAX_MAGICS: usize = 64;

/// A block to search for.
struct SoughtBlock {
    /// The offset at which the block is expected.
    expected: u64,
    /// The number of bytes before `expected` in which no block with a lower number can begin.
    before: u64,
    /// The length of the block according to the index; `None` for the last block.
    len: Option<u64>,
    /// The offset of the index.
    index: u64,
}

impl BlockScan<'_> {
    /// Finds the next block after block `n` if the blocks there are shifted, and notes the defects.
    ///
    /// `end` is the offset at which block `n` should end.
    pub(super) fn by_shifted_index(&mut self, n: usize, end: Option<u64>) -> Result<Option<u64>> {
        let Some((listed, index)) = self.listed_from(n) else { return Ok(None) };
        let here = self.blocks.offsets[n];
        if let Some(end) = end
            && head::recognises(self.window.at(end, MAX_FIELDS)?)
        {
            // Another ASDF file follows within this file, so the index belongs to that one.
            return Ok(None);
        }
        if let ([_], Some(end)) = (&listed[..], end)
            && (here..end).contains(&index)
            && end - index <= FARTHEST
        {
            self.note(here, Some(n), AsdfDefect::Shifted { at: index, expected: end });
        }
        for k in 1..listed.len().min(1 + MAX_LOST) {
            let Some(expected) = here.checked_add(listed[k] - listed[0]) else { break };
            let wanted = SoughtBlock {
                before: (listed[k] - listed[k - 1]) / 2,
                len: listed.get(k + 1).map(|next| next - listed[k]),
                expected,
                index,
            };
            match self.nearest(&wanted)? {
                // The block is at its place in the index, so nothing is shifted.
                Some(at) if at == listed[k] => return Ok(None),
                // Each lost block needs an offset of its own.
                Some(at) if at > here.saturating_add(k as u64) => {
                    if end.is_none() {
                        self.doubt_truncation(n);
                    }
                    self.note_shift(n, at, &listed[..k], expected);
                    return Ok(Some(at));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// Returns the offsets in the index from block `n` on, and the offset of the index, if the chain agrees
    /// with the index so far.
    fn listed_from(&mut self, n: usize) -> Option<(Vec<u64>, u64)> {
        let index = self.index.as_ref()?;
        let offsets = index.offsets.as_ref().ok()?;
        let is_near = offsets.get(n)?.abs_diff(self.blocks.offsets[n]) <= FARTHEST;
        let from = offsets.get(n..n.saturating_add(MAX_LOST + 2).min(offsets.len()))?;
        if !is_near || !is_ascending(from) || self.searches >= MAX_SEARCHES {
            return None;
        }
        Some((from.to_vec(), index.offset))
    }

    /// Returns the nearest block to an expected offset.
    fn nearest(&mut self, wanted: &SoughtBlock) -> Result<Option<u64>> {
        self.searches += 1;
        let SoughtBlock { before, len, expected, index } = *wanted;
        let behind = len.map_or(FARTHEST, |len| len / 2);
        let from = expected.saturating_sub(before.min(FARTHEST));
        // The range includes the four bytes of a magic that begins at its end.
        let until = expected.saturating_add(behind.min(FARTHEST)).saturating_add(4).min(index);
        let Some(count) = until.checked_sub(from).filter(|_| self.searches <= MAX_SEARCHES) else {
            return Ok(None);
        };
        let mut bytes = vec![0; count as usize];
        let read = read_up_to(self.source, from, &mut bytes)?;
        let mut magics = Vec::new();
        let mut at = 0;
        while let Some(found) = bytes[..read].get(at..).and_then(|rest| self.generation.find_magic(rest)) {
            magics.push(from + (at + found) as u64);
            at += found + 1;
        }
        magics.sort_by_key(|magic| magic.abs_diff(expected));
        for magic in magics.into_iter().take(MAX_MAGICS) {
            if self.proves_itself(magic, len, index)? {
                return Ok(Some(magic));
            }
        }
        Ok(None)
    }

    /// True if a block at `at` has the length that the index gives, or leads to another block or the index.
    fn proves_itself(&mut self, at: u64, len: Option<u64>, index: u64) -> Result<bool> {
        let bytes = self.window.at(at, MAX_FIELDS)?;
        if !self.generation.is_magic(bytes) {
            return Ok(false);
        }
        let Some(header) = self.sound_header(at)? else { return Ok(false) };
        let Some(end) = header.end().filter(|_| !header.streamed()) else { return Ok(false) };
        match len {
            Some(len) if end - at == len => return Ok(true),
            // The last block may have lost bytes itself.
            None if end.abs_diff(index) <= FARTHEST && end > index => return Ok(true),
            _ => {}
        }
        // An index within the data of a block is not the index of the file.
        let next = if end <= self.size { self.next(end)? } else { return Ok(false) };
        Ok(match next {
            AfterBlock::Block(_) => true,
            AfterBlock::Index(found) => found == index,
            AfterBlock::EndOfFile | AfterBlock::Neither(_) => false,
        })
    }

    /// Notes that the sizes of block `n` are wrong. They looked like those of a truncated file, but the file
    /// continues.
    fn doubt_truncation(&mut self, n: usize) {
        let of_block = self.blocks.defects.iter_mut().rev().take_while(|defect| defect.block == Some(n));
        for defect in of_block {
            defect.severity = crate::container::Severity::Damage;
        }
    }

    /// Notes that the blocks after block `n` continue at `at` instead of at `expected`. `listed` are the
    /// offsets in the index from block `n` to the one before `at`. All but the first of these blocks are
    /// lost.
    fn note_shift(&mut self, n: usize, at: u64, listed: &[u64], expected: u64) {
        let here = self.blocks.offsets[n];
        let mut last = n;
        for (k, offset) in listed.iter().enumerate().skip(1) {
            // Each lost block has an offset of its own before the next block.
            let before = self.blocks.offsets[last];
            let latest = at - (listed.len() - k) as u64;
            let place = here.saturating_add(offset - listed[0]).min(latest).max(before + 1);
            last = self.blocks.offsets.len();
            self.note(place, Some(last), AsdfDefect::LostBlock(Vec::new()));
            self.blocks.offsets.push(place);
        }
        if at != expected {
            let offset = self.blocks.offsets[last];
            self.note(offset, Some(last), AsdfDefect::Shifted { at, expected });
        }
    }
}
