//! A reader that decodes bzip2 blocks in order, from any block on.
//!
//! Other threads decode ahead: the blocks in the table, and past the end of the table the data at every
//! position with the magic of a block. Output from a position where no block begins is dropped once the
//! reader has passed it.

use std::collections::VecDeque;
use std::sync::Arc;

use super::entry::BlockStart;
use super::stored_table::StoredBzip2Table;
use super::table::Bzip2Table;
use crate::cache::{Reservation, Task};
use crate::codec::bunzip::{Block, Candidates, Decoder, Fault, Magic};
use crate::codec::seek::SegmentReader;
use crate::decode::{Depth, GRANULE};
use crate::error::Result;

/// Usual memory of a decoder in bytes.
pub(super) const DECODER: u64 = 7 << 20;

/// Maximum output of a block that is held whole, in bytes. A longer output is returned in pieces.
pub(super) const WHOLE: u64 = 2 << 20;

/// Bytes searched for magics at a time.
const SEARCH: u64 = 512 << 10;

pub(super) struct Bzip2Reader {
    bzip2: Arc<Bzip2Table>,
    /// The stored table. If there is one, the table in memory is not used.
    stored_table: Option<Arc<StoredBzip2Table>>,
    /// Number of the next block.
    next: usize,
    offset: u64,
    /// The end of the last decoded block, or the start of the current one while it is being decoded.
    bit: u64,
    /// The decoder of a long block, whose output is returned in pieces.
    long: Option<Box<Decoder>>,
    ahead: VecDeque<QueuedBlock>,
    candidates: VecDeque<u64>,
    /// Offset in the stored bytes up to which magics were searched for.
    searched: u64,
    depth: Depth,
}

/// A block that is being decoded ahead.
struct QueuedBlock {
    start: BlockStart,
    task: Task<(DecodedBlock, Reservation)>,
}

type DecodedBlock = std::result::Result<(Block, Output), Fault>;

/// The output of a block.
enum Output {
    /// All bytes of the output.
    Whole(Vec<u8>),
    /// The decoder of a block with more than [`WHOLE`] bytes of output, which are taken from it in pieces.
    Long(Box<Decoder>),
}

impl Bzip2Reader {
    /// Returns a reader that begins at a block of the table, or at the first block after the table.
    pub(super) fn new(
        bzip2: Arc<Bzip2Table>,
        stored_table: Option<Arc<StoredBzip2Table>>,
        next: usize,
        offset: u64,
    ) -> Self {
        Self {
            bzip2,
            stored_table,
            next,
            offset,
            bit: 0,
            long: None,
            ahead: VecDeque::new(),
            candidates: VecDeque::new(),
            searched: 0,
            depth: Depth::default(),
        }
    }

    /// Returns the output of the block at a position, decoded ahead or now.
    fn decoded(&mut self, start: BlockStart) -> DecodedBlock {
        while self.ahead.front().is_some_and(|entry| entry.start.bit < start.bit) {
            self.ahead.pop_front();
        }
        if self.ahead.front().is_some_and(|entry| entry.start == start)
            && let Some(entry) = self.ahead.pop_front()
            && let Some((decoded, _reservation)) = entry.task.take()
        {
            return decoded;
        }
        decode(&self.bzip2, start)
    }

    /// Starts decoding further blocks, as many as the depth allows and the cache has room for.
    fn fill(&mut self, here: BlockStart) -> Result<()> {
        let depth = self.depth.get(self.offset, self.bzip2.cache.threads());
        while self.ahead.len() < depth {
            let last = self.ahead.back().map_or(here.bit, |entry| entry.start.bit);
            let Some(start) = self.following(BlockStart { bit: last, ..here })? else { return Ok(()) };
            let Some(reservation) = self.bzip2.cache.reserve(DECODER + WHOLE) else { return Ok(()) };
            let theirs = self.bzip2.clone();
            let task = self.bzip2.cache.task(move || (decode(&theirs, start), reservation));
            self.ahead.push_back(QueuedBlock { start, task });
        }
        Ok(())
    }

    /// Returns the next position after `last` where a block begins or may begin.
    fn following(&mut self, last: BlockStart) -> Result<Option<BlockStart>> {
        if let Some(table) = &self.stored_table {
            return Ok(table.after(last.bit));
        }
        if let Some(start) = self.bzip2.after(last.bit) {
            return Ok(Some(start));
        }
        let stored = &*self.bzip2.stored;
        self.searched = self.searched.max(last.bit / 8);
        loop {
            while let Some(&bit) = self.candidates.front() {
                if bit > last.bit {
                    // Assumes the level of the current stream. If the block is in a later stream with another
                    // level, the reader decodes it again.
                    return Ok(Some(BlockStart { bit, ..last }));
                }
                self.candidates.pop_front();
            }
            if self.searched >= stored.len() {
                return Ok(None);
            }
            let end = self.searched.saturating_add(SEARCH).min(stored.len());
            for candidate in Candidates::new(stored, self.searched..end) {
                let candidate = candidate?;
                if candidate.magic == Magic::Block {
                    self.candidates.push_back(candidate.bit);
                }
            }
            self.searched = end;
        }
    }
}

/// Decodes the block at a position.
fn decode(bzip2: &Bzip2Table, start: BlockStart) -> DecodedBlock {
    let mut decoder = bzip2.cache.scratch::<Decoder>();
    let block = match decoder.decode_at(&*bzip2.stored, start.bit, start.level) {
        Ok(block) => block,
        Err(fault) => {
            bzip2.cache.keep_scratch(decoder, DECODER);
            return Err(fault);
        }
    };
    if block.len > WHOLE {
        return Ok((block, Output::Long(decoder)));
    }
    let mut bytes = bzip2.cache.buffer(block.len as usize);
    bytes.resize(block.len as usize, 0);
    let read = decoder.read(&mut bytes);
    bytes.truncate(read);
    bzip2.cache.keep_scratch(decoder, DECODER);
    Ok((block, Output::Whole(bytes)))
}

impl SegmentReader for Bzip2Reader {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<Option<usize>> {
        loop {
            if let Some(mut long) = self.long.take() {
                out.resize(GRANULE as usize, 0);
                let read = long.read(out);
                out.truncate(read);
                if read > 0 {
                    self.long = Some(long);
                    return Ok(Some(0));
                }
                self.bzip2.cache.keep_scratch(long, DECODER);
            }
            let start = match &self.stored_table {
                Some(table) => table.block(self.next),
                None => self.bzip2.block(self.next)?,
            };
            let Some(start) = start else {
                if self.stored_table.is_none() {
                    self.bzip2.ended();
                }
                return Ok(None);
            };
            self.bit = start.bit;
            self.fill(start)?;
            let (block, output) = self.decoded(start)?;
            match &self.stored_table {
                Some(table) => table.judge(self.next, &block)?,
                None => self.bzip2.accept(start, &block),
            }
            self.next += 1;
            self.bit = block.end;
            self.offset = self.offset.saturating_add(block.len);
            self.depth.note_read(usize::try_from(block.len).unwrap_or(usize::MAX), self.offset);
            match output {
                Output::Long(decoder) => self.long = Some(decoder),
                Output::Whole(bytes) => {
                    let before = std::mem::replace(out, bytes);
                    self.bzip2.cache.used(Arc::new(before));
                    if !out.is_empty() {
                        return Ok(Some(0));
                    }
                }
            }
        }
    }

    fn wanted(&mut self, until: u64) {
        self.depth.wanted(until);
    }

    fn weight(&self) -> u64 {
        if self.long.is_some() { DECODER } else { 0 }
    }

    fn bit(&self) -> Option<u64> {
        Some(self.bit)
    }

    fn uses_stored_table(&self) -> bool {
        self.stored_table.is_some()
    }
}
