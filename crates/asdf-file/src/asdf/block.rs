//! Finds the blocks of a file by following the chain of headers from the first block on.
//!
//! Each block ends where the next begins. The chain ends at the end of the file, at the block index, or at
//! other bytes. Only the chain determines the blocks. The index helps in two ways: its offsets are read
//! ahead, and after a damaged header the walk continues where the index and a chain from there agree. A block
//! with a damaged header thus keeps its number (`lost.rs`).

use std::sync::Mutex;

use lru::LruCache;
use seekable::error::{Result, if_readable};
use seekable::source::{Source, Window, read_up_to};
use seekable::sync::locked;

use super::defect::AsdfDefect;
use super::head;
use super::header::{Generation, Header, MAX_FIELDS, PREFIX};
use super::index::{self, Index};
use crate::container::{self, Severity};

mod first;
mod further;
mod indexed;
mod lost;
mod shifted;

use first::first_block;
pub(crate) use indexed::{IndexedBlocks, is_far};

/// Maximum gap of zeros or spaces, in bytes, that is searched for the next block. The first edition of the standard
/// 1.0.0 allowed such gaps.
const MAX_GAP: u64 = 64 << 20;
/// Maximum number of blocks of a file. Bounds the table of offsets (8 bytes each) against hostile files.
const MAX_BLOCKS: usize = 1 << 24;
/// The bytes searched for the end of an index that other bytes follow.
const SHORT_INDEX: u64 = 64 << 10;
/// The number of blocks followed before the index is looked for. From a server, each takes a request, and so
/// does the index.
const FEW: usize = 8;
const FEW_FROM_SERVER: usize = 1;
/// The number of headers read ahead.
const AHEAD: usize = 64;

/// The blocks of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// The offset of each block's magic, or of its place if the magic is damaged.
    pub offsets: Vec<u64>,
    /// The defects of the chain and the index.
    pub defects: Vec<container::Defect>,
    /// The offsets of blocks with a damaged `header_size`, which does not lead to the data.
    pub distrusted: Vec<u64>,
}

/// Finds all blocks of a file whose head ends at `head_end`.
pub(crate) fn find(source: &dyn Source, size: u64, generation: Generation, head_end: u64) -> Result<Blocks> {
    BlockSearch { size, generation, head_end, begun: None }.run(source, None)
}

/// The headers parsed last, by their offsets: from a server, reading one again may take a request.
pub(crate) type KeptHeaders = Mutex<LruCache<u64, Header>>;

/// A search for the blocks of a file. If a read fails, the search can be continued where it failed.
#[derive(Debug)]
pub(crate) struct BlockSearch {
    /// The size of the file.
    pub size: u64,
    /// The specification that the file follows.
    pub generation: Generation,
    /// The end of the head.
    pub head_end: u64,
    /// The state before the block at which a read failed.
    pub begun: Option<BegunWalk>,
}

/// The state of a walk before a block.
#[derive(Debug)]
pub(crate) struct BegunWalk {
    /// The offset of the block.
    at: u64,
    index: Option<Index>,
    index_is_spent: bool,
    searches: usize,
    blocks: Blocks,
}

impl BlockSearch {
    /// Begins the search, or continues it after an error. Must not be called again after a success.
    pub(crate) fn run(&mut self, source: &dyn Source, kept: Option<&KeptHeaders>) -> Result<Blocks> {
        let mut scan = self.scan(source, kept);
        let first = match self.begun.take() {
            Some(BegunWalk { at, index, index_is_spent, searches, blocks }) => {
                (scan.index, scan.index_is_spent, scan.searches) = (index, index_is_spent, searches);
                scan.blocks = blocks;
                Some(at)
            }
            None => scan.begin(self.head_end)?,
        };
        let mut end = End { offset: self.head_end, streamed: false };
        if let Some(mut at) = first {
            end = match scan.walk(&mut at) {
                Ok(end) => end,
                Err(error) => {
                    let BlockScan { index, index_is_spent, searches, blocks, .. } = scan;
                    self.begun = Some(BegunWalk { at, index, index_is_spent, searches, blocks });
                    return Err(error);
                }
            };
        }
        finish(scan, self.head_end, end)
    }
}

impl BlockSearch {
    fn scan<'s>(&self, source: &'s dyn Source, kept: Option<&'s KeptHeaders>) -> BlockScan<'s> {
        BlockScan {
            source,
            kept,
            size: self.size,
            generation: self.generation,
            window: Window::new(source),
            index: None,
            index_is_spent: false,
            searches: 0,
            guessed: 0,
            blocks: Blocks::default(),
        }
    }
}

/// Adds the blocks that only the index lists, and compares the index with the blocks.
fn finish(mut scan: BlockScan<'_>, head_end: u64, end: End) -> Result<Blocks> {
    scan.lost_in_front(head_end, end)?;
    if !scan.blocks.offsets.is_empty() {
        scan.check_index(end)?;
    } else if let Some(index) = &scan.index {
        let offset = index.offset;
        scan.note(offset, None, AsdfDefect::IndexWithoutBlocks);
    }
    Ok(scan.blocks)
}

/// The bytes that follow a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterBlock {
    Block(u64),
    Index(u64),
    EndOfFile,
    Neither(u64),
}

/// The result of adding a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WalkStep {
    /// The offset of the next block.
    Next(u64),
    End(End),
}

/// The end of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    /// The end of the last block.
    offset: u64,
    /// True if the last block is streamed: its data reach to the end of the file.
    streamed: bool,
}

#[derive(Debug)]
struct BlockScan<'a> {
    source: &'a dyn Source,
    kept: Option<&'a KeptHeaders>,
    size: u64,
    generation: Generation,
    window: Window<'a>,
    index: Option<Index>,
    /// True if the index lists no blocks after the current position.
    index_is_spent: bool,
    /// The number of searches for a shifted block so far.
    searches: usize,
    /// The offset up to which headers were announced where blocks of equal length would have them.
    guessed: u64,
    blocks: Blocks,
}

impl BlockScan<'_> {
    fn note(&mut self, offset: u64, block: Option<usize>, defect: AsdfDefect) {
        self.blocks.defects.push(defect.at(offset, block));
    }

    /// Looks for the index, and returns the offset of the first block.
    fn begin(&mut self, head_end: u64) -> Result<Option<u64>> {
        let few = if self.source.is_slow() { FEW_FROM_SERVER } else { FEW };
        if !self.is_short(head_end, few)? {
            self.index = index::find(self.source, self.size, head_end)?;
        }
        let listed = self.index.as_ref().and_then(|index| index.offsets.as_ref().ok());
        self.index_is_spent = !listed.is_some_and(|listed| is_ascending(listed));
        first_block(self, head_end)
    }

    fn header(&mut self, offset: u64) -> Result<Header> {
        if let Some(kept) = self.kept
            && let Some(header) = locked(kept).get(&offset)
        {
            return Ok(header.clone());
        }
        let bytes = self.window.at(offset, MAX_FIELDS)?;
        let header = Header::parse(self.generation, offset, bytes)?;
        if let Some(kept) = self.kept {
            locked(kept).push(offset, header.clone());
        }
        Ok(header)
    }

    /// Returns the header at `offset`; `None` if there is none, or it is damaged.
    fn sound_header(&mut self, offset: u64) -> Result<Option<Header>> {
        if_readable(self.header(offset))
    }

    /// True if at most `few` sound blocks reach to the end of the file; the last may be streamed. Such a file
    /// has no index, and the search for one would take longer than all other steps.
    fn is_short(&mut self, head_end: u64, few: usize) -> Result<bool> {
        let Some(mut offset) = first::next_magic(self, head_end)? else { return Ok(false) };
        for _ in 0..few {
            let Some(header) = self.sound_header(offset)? else { break };
            if header.streamed() {
                // Sizes other than 0 show that the stream flag may be damaged.
                let sizes = [header.allocated_size, header.used_size, header.data_size];
                return Ok(sizes == [0; 3] && header.unknown_flags() == 0);
            }
            match header.end() {
                Some(end) if end == self.size => return Ok(true),
                Some(end) if end < self.size => offset = end,
                _ => break,
            }
        }
        Ok(false)
    }

    /// Follows the chain from the block at `at` on. If a read fails, `at` and the state are those before the
    /// block at which it failed.
    fn walk(&mut self, at: &mut u64) -> Result<End> {
        loop {
            if self.blocks.offsets.len() == MAX_BLOCKS {
                self.note(*at, None, AsdfDefect::TooManyBlocks(MAX_BLOCKS));
                return Ok(End { offset: *at, streamed: false });
            }
            let Blocks { offsets, defects, distrusted } = &self.blocks;
            let lens = (offsets.len(), defects.len(), distrusted.len());
            let index_is_spent = self.index_is_spent;
            let searches = self.searches;
            match self.step(*at) {
                Ok(WalkStep::Next(next)) => *at = next,
                Ok(WalkStep::End(end)) => return Ok(end),
                Err(error) => {
                    self.blocks.offsets.truncate(lens.0);
                    self.blocks.defects.truncate(lens.1);
                    self.blocks.distrusted.truncate(lens.2);
                    (self.index_is_spent, self.searches) = (index_is_spent, searches);
                    return Err(error);
                }
            }
        }
    }

    /// Adds the block at `offset`.
    fn step(&mut self, offset: u64) -> Result<WalkStep> {
        self.ask_ahead(offset);
        let n = self.blocks.offsets.len();
        self.blocks.offsets.push(offset);
        let end = match self.header(offset) {
            Ok(header) if header.streamed() && header.data_offset() <= self.size => {
                self.check_streamed(n, &header)?;
                return Ok(WalkStep::End(End { offset: self.size, streamed: true }));
            }
            Ok(header) => self.check_header(n, &header)?,
            Err(error) if error.is_of_reading() => return Err(error),
            Err(error) => {
                self.note(offset, Some(n), AsdfDefect::Header(error));
                first::likely_end(self, offset)?
            }
        };
        let next = match end {
            Some(end) => self.next(end)?,
            None => AfterBlock::Neither(offset.saturating_add(PREFIX)),
        };
        let end_at = |at| WalkStep::End(End { offset: at, streamed: false });
        Ok(match next {
            AfterBlock::Block(start) => {
                if Some(start) != end {
                    let from = end.unwrap_or(start);
                    if self.lists_between(n, from, start) {
                        self.bridge(n, end, start);
                    } else {
                        self.note(from, Some(n), AsdfDefect::Padding(start - from));
                    }
                }
                WalkStep::Next(start)
            }
            AfterBlock::Index(at) => {
                self.behind_index(at)?;
                end_at(at)
            }
            AfterBlock::EndOfFile => end_at(self.size),
            AfterBlock::Neither(from) => match self.by_index(n, end, from)? {
                Some(AfterBlock::Block(start)) => WalkStep::Next(start),
                Some(_) => end_at(self.size),
                // Only the next block's magic is damaged.
                None if end.is_some() && first::likely_end(self, from)?.is_some() => WalkStep::Next(from),
                None => {
                    self.trailing_bytes(n, end)?;
                    end_at(end.unwrap_or(self.size))
                }
            },
        })
    }

    /// Notes a defect if block `n` has flags of unknown meaning.
    fn check_flags(&mut self, n: usize, header: &Header) {
        if header.unknown_flags() != 0 {
            self.note(header.offset, Some(n), AsdfDefect::UnknownFlags(header.flags));
        }
    }

    /// Notes a defect if the sizes of the streamed block `n` contradict its flag.
    fn check_streamed(&mut self, n: usize, header: &Header) -> Result<()> {
        self.check_flags(n, header);
        if let Some(end) = header.end().filter(|end| header.allocated_size > 0 && *end < self.size)
            && matches!(self.next(end)?, AfterBlock::Block(_) | AfterBlock::Index(_))
        {
            let allocated_size = header.allocated_size;
            self.note(header.offset, Some(n), AsdfDefect::StreamEnds { allocated_size });
        }
        Ok(())
    }

    /// Notes defects in the flags and sizes of block `n`. Returns its end, if that can be trusted.
    fn check_header(&mut self, n: usize, header: &Header) -> Result<Option<u64>> {
        let offset = header.offset;
        self.check_flags(n, header);
        // Before 1.0.0 each of the usual header sizes meant another layout.
        let doubtful =
            self.generation != Generation::One || !first::USUAL_HEADERS.contains(&header.header_size);
        if doubtful
            && !self.is_chained(offset)?
            && let Some(end) = first::likely_end(self, offset)?
        {
            self.note(offset, Some(n), AsdfDefect::HeaderSize(header.header_size));
            self.blocks.distrusted.push(offset);
            return Ok(Some(end));
        }
        if header.used_size > header.allocated_size {
            let used = header.used_size;
            let allocated = header.allocated_size;
            self.note(offset, Some(n), AsdfDefect::UsedSize { used, allocated });
        }
        if header.label_text().is_empty() && !header.encoded() && header.data_size != header.used_size {
            let data = header.data_size;
            let used = header.used_size;
            self.note(offset, Some(n), AsdfDefect::DataSize { data, used });
        }
        let end = header.end();
        if end.is_none_or(|end| end > self.size) {
            let there = self.size.saturating_sub(header.data_offset());
            if let Some(used_end) =
                header.data_offset().checked_add(header.used_size).filter(|used_end| *used_end <= self.size)
                && matches!(self.next(used_end)?, AfterBlock::Block(_) | AfterBlock::Index(_))
            {
                self.note(offset, Some(n), AsdfDefect::AllocatedSize(header.allocated_size));
                return Ok(Some(used_end));
            }
            let lost = there < header.used_size || header.data_offset() > self.size;
            let (size, lost) = if lost {
                (header.used_size, true)
            } else if end.is_none() {
                // All data are there, only unused space is missing. But the end exceeds an `i64`, so Python
                // asdf can't seek there.
                (header.allocated_size, true)
            } else {
                (header.allocated_size, false)
            };
            self.note(offset, Some(n), AsdfDefect::CutBlock { there, size, lost });
            return Ok(None);
        }
        Ok(end)
    }

    /// Finds out what begins at `end`, or after zeros or spaces there: a block, the index or other bytes.
    fn next(&mut self, end: u64) -> Result<AfterBlock> {
        let mut at = end;
        while at < self.size && at - end < MAX_GAP {
            let bytes = self.window.at(at, index::MARKER.len())?;
            if self.generation.is_magic(bytes) {
                return Ok(AfterBlock::Block(at));
            }
            if bytes.starts_with(index::MARKER) {
                return Ok(AfterBlock::Index(at));
            }
            let padding = bytes.iter().take_while(|byte| matches!(byte, 0 | b' ')).count();
            if padding == 0 {
                return Ok(AfterBlock::Neither(end));
            }
            at += padding as u64;
        }
        Ok(if at >= self.size { AfterBlock::EndOfFile } else { AfterBlock::Neither(end) })
    }

    /// Finds the position at which the chain continues according to the index, if the chain breaks at `from`.
    ///
    /// Called after each damaged header, of which there may be many. A call must not scan the whole index.
    fn by_index(&mut self, n: usize, end: Option<u64>, from: u64) -> Result<Option<AfterBlock>> {
        if let Some(next) = self.by_shifted_index(n, end)? {
            return Ok(Some(AfterBlock::Block(next)));
        }
        if self.index_is_spent {
            return Ok(None);
        }
        if let Some(next) = self.behind_damage(from)? {
            self.bridge(n, end, next);
            return Ok(Some(AfterBlock::Block(next)));
        }
        self.index_is_spent = true;
        Ok(self.lost_behind(from)?.then_some(AfterBlock::EndOfFile))
    }

    /// Returns the first offset in the index, not before `from`, at which a block begins that leads to
    /// another block, the index or the end of the file.
    fn behind_damage(&mut self, from: u64) -> Result<Option<u64>> {
        let Some(Index { offsets: Ok(offsets), .. }) = &self.index else { return Ok(None) };
        let mut n = offsets.partition_point(|offset| *offset < from);
        while let Some(offset) = self.listed(n).filter(|offset| *offset < self.size) {
            if self.is_chained(offset)? {
                return Ok(Some(offset));
            }
            n += 1;
        }
        Ok(None)
    }

    /// Returns entry `n` of the index.
    fn listed(&self, n: usize) -> Option<u64> {
        self.index.as_ref()?.offsets.as_ref().ok()?.get(n).copied()
    }

    /// True if a block at `offset` ends where a block, the index or the end of the file follows.
    fn is_chained(&mut self, offset: u64) -> Result<bool> {
        let Some(header) = self.sound_header(offset)? else { return Ok(false) };
        Ok(match header.end() {
            _ if header.streamed() => header.data_offset() <= self.size,
            Some(end) if end <= self.size => !matches!(self.next(end)?, AfterBlock::Neither(_)),
            _ => false,
        })
    }

    /// True if the index lists block `n`, then blocks in the zeros or spaces after it, then the block at `next`: those
    /// between were overwritten.
    fn lists_between(&self, n: usize, from: u64, next: u64) -> bool {
        let Some(Index { offsets: Ok(listed), .. }) = &self.index else { return false };
        !self.index_is_spent
            && listed.get(n) == self.blocks.offsets.get(n)
            && listed.get(n + 1).is_some_and(|lost| (from..next).contains(lost))
            && listed.binary_search(&next).is_ok()
    }

    /// Continues the chain at `next`, past bytes after block `n` that can't be read. Blocks that the index
    /// lists among these bytes keep their numbers.
    fn bridge(&mut self, n: usize, end: Option<u64>, next: u64) {
        let Some(Index { offsets: Ok(offsets), .. }) = &self.index else { return };
        let from = end.unwrap_or_else(|| self.blocks.offsets[n].saturating_add(1));
        let first = offsets.partition_point(|offset| *offset < from);
        let lost: Vec<u64> = offsets[first..].iter().copied().take_while(|offset| *offset < next).collect();
        if end.is_none() {
            // The sizes of block `n` looked like those of a truncated file, but the file continues, so the
            // sizes are wrong.
            let of_block = self.blocks.defects.iter_mut().rev().take_while(|defect| defect.block == Some(n));
            for defect in of_block {
                defect.severity = Severity::Damage;
            }
        } else if lost.is_empty() {
            self.note(from, Some(n), AsdfDefect::BridgedBytes);
        }
        for offset in lost {
            let number = self.blocks.offsets.len();
            self.note(offset, Some(number), AsdfDefect::LostBlock(Vec::new()));
            self.blocks.offsets.push(offset);
        }
    }

    /// Notes the bytes that follow the last block, `n`.
    fn trailing_bytes(&mut self, n: usize, end: Option<u64>) -> Result<()> {
        let Some(end) = end else { return Ok(()) };
        let rest = self.size - end;
        let bytes = self.window.at(end, MAX_FIELDS)?;
        let another = head::recognises(bytes);
        let broken_magic = bytes.get(1..4) == Some(b"BLK") || b"\xd3BLK".starts_with(bytes);
        let defect = if another {
            AsdfDefect::AnotherFile
        } else if broken_magic {
            AsdfDefect::LostTail(rest)
        } else if let Some(at) = self.block_behind_junk(end)? {
            AsdfDefect::JunkBeforeBlock { bytes: at - end, at }
        } else {
            AsdfDefect::TrailingBytes(rest)
        };
        self.note(end, (!another).then_some(n), defect);
        Ok(())
    }

    /// Checks whether another ASDF file follows the index at `offset`. If so, the last index in the file
    /// belongs to that file, and is not used.
    fn behind_index(&mut self, offset: u64) -> Result<()> {
        let end = match &self.index {
            Some(index) if index.offset == offset => index.end,
            _ => {
                let mut text = vec![0; (self.size - offset).min(SHORT_INDEX) as usize];
                let read = read_up_to(self.source, offset, &mut text)?;
                let Some(end) = index::end_of(&text[..read]) else { return Ok(()) };
                offset + end as u64
            }
        };
        if head::recognises(self.window.at(end, MAX_FIELDS)?) {
            self.note(end, None, AsdfDefect::AnotherFile);
            self.index = None;
        }
        Ok(())
    }

    /// Announces the headers that will be read soon, if the index lists them, or the blocks have been of equal length
    /// so far.
    fn ask_ahead(&mut self, offset: u64) {
        let n = self.blocks.offsets.len();
        let Some(Index { offsets: Ok(offsets), .. }) = &self.index else { return self.guess_ahead(offset) };
        if !n.is_multiple_of(AHEAD) || offsets.get(n) != Some(&offset) {
            return;
        }
        for ahead in offsets.iter().skip(n + 1).take(AHEAD).filter(|ahead| **ahead < self.size) {
            self.source.will_need(*ahead, MAX_FIELDS as u64);
        }
    }

    /// Announces headers after the one at `offset`, assuming that the next blocks are as long as the last ones. After n
    /// blocks of equal length it announces n headers.
    fn guess_ahead(&mut self, offset: u64) {
        if !self.source.is_slow() {
            return;
        }
        let ends = std::iter::once(offset).chain(self.blocks.offsets.iter().rev().copied());
        let starts = self.blocks.offsets.iter().rev();
        let mut lens = starts.zip(ends).map(|(start, end)| end - start);
        let Some(len) = lens.next() else { return };
        let equal = 1 + lens.take(AHEAD - 1).take_while(|other| *other == len).count() as u64;
        if equal < 2 {
            return;
        }
        for ahead in (1..=equal).filter_map(|k| offset.checked_add(k.checked_mul(len)?)) {
            if ahead > self.guessed && ahead < self.size {
                self.source.will_need(ahead, MAX_FIELDS as u64);
                self.guessed = ahead;
            }
        }
    }

    /// Compares the index with the blocks.
    fn check_index(&mut self, end: End) -> Result<()> {
        if self.only_looks_like_an_index(end)? {
            return Ok(());
        }
        let Some(index) = self.index.take() else { return Ok(()) };
        let defect = match &index.offsets {
            Err(why) => AsdfDefect::BadIndex(why.clone()),
            Ok(offsets) if *offsets == self.blocks.offsets => return Ok(()),
            Ok(offsets) => stale(offsets, &self.blocks.offsets),
        };
        self.note(index.offset, None, defect);
        Ok(())
    }

    /// True if the index that was found lies in a block's data.
    fn only_looks_like_an_index(&mut self, end: End) -> Result<bool> {
        let Some(offset) = self.index.as_ref().map(|index| index.offset) else { return Ok(false) };
        Ok(offset < end.offset && (end.streamed || self.covers(offset)?))
    }

    /// True if `offset` lies in the last block that begins before it.
    fn covers(&mut self, offset: u64) -> Result<bool> {
        let n = self.blocks.offsets.partition_point(|start| *start <= offset);
        let Some(start) = n.checked_sub(1).map(|n| self.blocks.offsets[n]) else { return Ok(false) };
        let end = self.sound_header(start)?.and_then(|header| header.end());
        Ok(end.is_some_and(|end| offset < end))
    }
}

/// True if a byte is padding between tree and blocks.
pub(crate) fn is_blank(byte: u8) -> bool {
    matches!(byte, 0 | b' ' | b'\r' | b'\n')
}

fn is_ascending(offsets: &[u64]) -> bool {
    offsets.is_sorted_by(|a, b| a < b)
}

fn stale(listed: &[u64], found: &[u64]) -> AsdfDefect {
    match listed.iter().zip(found).position(|(listed, found)| listed != found) {
        _ if !is_ascending(listed) => AsdfDefect::UnsortedIndex,
        Some(n) => AsdfDefect::StaleOffset { block: n, listed: listed[n], found: found[n] },
        None => AsdfDefect::StaleCount { listed: listed.len(), found: found.len() },
    }
}

#[cfg(test)]
mod tests;
