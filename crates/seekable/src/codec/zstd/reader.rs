//! A reader that decodes frames from a checkpoint on.
//!
//! Past the table's last checkpoint the reader adds more of them, and adds its output to the table's CRCs.
//! Before that checkpoint, and with a stored table, it compares its output with the CRCs.

use std::sync::Arc;

use super::blocks::{Block, BlockDecoder};
use super::checksums::PIECE;
use super::header::{BLOCK, Header};
use super::memory::{Follow, Memory};
use super::stored_table::{BlockPosition, StoredZstdTable};
use super::table::{EntryPoint, ZstdTable};
use crate::codec::seek::SegmentReader;
use crate::codec::seek::stored_table::crc_after;
use crate::error::{Error, Result};

/// The sequences of a block are followed if the block begins this close before a due checkpoint.
const CLOSE: u64 = BLOCK;

/// A checkpoint that can't be made is given up this far after it was due.
const LATE: u64 = 4 << 20;

/// Blocks of output that are held besides a window, so that not every block moves the window.
const BLOCKS: usize = 4;

pub(super) struct FrameReader {
    zstd: Arc<ZstdTable>,
    /// The stored table. If there is one, the table in memory is not used.
    stored_table: Option<Arc<StoredZstdTable>>,
    /// The stored table that the output contradicted, while this reader finds out which of the two is wrong.
    witness: Option<Arc<StoredZstdTable>>,
    /// True if part of the piece belongs to a frame without a checksum.
    unchecked: bool,
    /// The span of the stored table in which the reader begins.
    span: usize,
    blocks: Option<BlockDecoder>,
    at: u64,
    /// Number of frames that ended without damage.
    frames: u64,
    /// Checksum of the last frame that ended without damage, and the stored offset after that frame.
    checksum: u32,
    end: u64,
    maker: CheckpointMaker,
    checking: Option<Checking>,
    /// Set if output of the current block may still come; true if that block is its frame's last.
    unfinished_block: Option<bool>,
    ended: bool,
}

/// The state for making checkpoints in the current frame.
#[derive(Default)]
struct CheckpointMaker {
    /// Start of the frame, in the stored and in the decoded bytes.
    frame: u64,
    decoded_start: u64,
    header: Header,
    memory: Memory,
    due: u64,
    /// The preceding output, as far as it may become a window.
    window: Vec<u8>,
}

/// The CRCs of a span with which the output is compared.
struct Checking {
    crcs: Arc<[u32]>,
    /// Number of the next piece.
    piece: usize,
    /// Decoded offset at which the span ends.
    end: u64,
}

impl FrameReader {
    /// Returns a reader from the start of the stream that ignores the stored table.
    pub(super) fn from_start(zstd: Arc<ZstdTable>) -> Self {
        let blocks = zstd.blocks();
        Self::new(zstd, Some(blocks), 0, CheckpointMaker::default())
    }

    /// Returns a reader from the start that decodes without the stored table, but compares frames without a
    /// checksum with it.
    pub(super) fn against(zstd: Arc<ZstdTable>, table: Option<Arc<StoredZstdTable>>) -> Self {
        let mut reader = Self::from_start(zstd);
        reader.witness = table;
        reader
    }

    /// Returns a reader from a checkpoint within a frame on.
    pub(super) fn from_within(zstd: Arc<ZstdTable>, within: EntryPoint, blocks: BlockDecoder) -> Self {
        let EntryPoint { position, header, decoded_start, memory } = within;
        let due = zstd.due(position.offset, header);
        let maker =
            CheckpointMaker { frame: position.frame, decoded_start, header, memory, due, window: Vec::new() };
        Self::new(zstd, Some(blocks), position.offset, maker)
    }

    /// Returns a reader from the start of a span of the stored table on.
    pub(super) fn from_stored_table(zstd: Arc<ZstdTable>, table: Arc<StoredZstdTable>, span: usize) -> Self {
        let mut reader = Self::new(zstd, None, table.spans.start(span), CheckpointMaker::default());
        (reader.stored_table, reader.span) = (Some(table), span);
        reader
    }

    fn new(zstd: Arc<ZstdTable>, blocks: Option<BlockDecoder>, at: u64, maker: CheckpointMaker) -> Self {
        Self {
            zstd,
            stored_table: None,
            witness: None,
            unchecked: false,
            span: 0,
            blocks,
            at,
            // Within a frame, a first frame has been seen.
            frames: u64::from(at > 0),
            checksum: 0,
            end: 0,
            maker,
            checking: None,
            unfinished_block: None,
            ended: false,
        }
    }

    /// Decodes a piece: blocks up to the end of the range of a CRC, or to the end of the stream.
    fn piece(&mut self, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        self.unchecked = false;
        self.choose_crcs()?;
        let end = self.checking.as_ref().map_or(u64::MAX, |checking| checking.end);
        while (out.len() as u64) < PIECE && self.at < end && !self.ended {
            self.step(out)?;
        }
        match &mut self.checking {
            _ if out.is_empty() => {}
            Some(checking) => {
                let is_right = checking.crcs.get(checking.piece).map(|crc| *crc == crc_after(0, out));
                match &self.witness {
                    None if is_right != Some(true) || self.at > end => return Err(wrong()),
                    Some(_) if self.unchecked && (is_right == Some(false) || self.at > end) => {
                        return Err(changed());
                    }
                    _ => checking.piece += 1,
                }
            }
            None if self.stored_table.is_some() => return Err(wrong()),
            None => {}
        }
        if self.stored_table.is_some() && self.ended { self.compare_end() } else { Ok(()) }
    }

    /// Chooses the CRCs with which the next piece is compared.
    fn choose_crcs(&mut self) -> Result<()> {
        if self.checking.as_ref().is_some_and(|checking| self.at < checking.end) {
            return Ok(());
        }
        if let Some(table) = &self.witness {
            let span = table.spans.at(self.at);
            // Damaged CRCs prove nothing.
            let crcs = table.crcs(span).filter(|_| table.spans.start(span) == self.at).unwrap_or_default();
            let end = table.spans.start(span + 1);
            self.checking = (self.at < end).then(|| Checking { crcs: crcs.into(), piece: 0, end });
            return Ok(());
        }
        let Some(table) = &self.stored_table else {
            self.checking = self.zstd.span_from(self.at).map(|(crcs, end)| Checking { crcs, piece: 0, end });
            return Ok(());
        };
        if self.at >= self.zstd.scale.data_size() {
            self.checking = None;
            return Ok(());
        }
        let span = table.spans.at(self.at);
        let crcs = table.crcs(span).filter(|_| table.spans.start(span) == self.at).ok_or_else(wrong)?;
        if self.blocks.is_none() {
            self.blocks = Some(self.zstd.blocks_of(table, self.span, crcs.len())?);
        }
        self.checking = Some(Checking { crcs: crcs.into(), piece: 0, end: table.spans.start(span + 1) });
        Ok(())
    }

    /// Compares the end of the stream with the stored table.
    fn compare_end(&mut self) -> Result<()> {
        let Some(table) = &self.stored_table else { return Ok(()) };
        let is_same = self.at == self.zstd.scale.data_size()
            && self.end.checked_mul(8) == Some(table.spans.whole.end)
            && self.checksum == table.spans.whole.checksum;
        if is_same { Ok(()) } else { Err(wrong()) }
    }

    /// Decodes the next block, or begins the next frame.
    fn step(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let Some(blocks) = &mut self.blocks else { return Err(wrong()) };
        let Some(header) = blocks.frame() else { return self.begin() };
        let block = blocks.block()?;
        if self.stored_table.is_none() {
            self.maker.note_block(&self.zstd, blocks, block, self.at)?;
        }
        let before = out.len();
        blocks.decode(block, out)?;
        self.advance(out.get(before..).unwrap_or_default(), header, Some(block.last))
    }

    /// Decodes into `out` as far as one call of libzstd goes.
    fn step_into(&mut self, out: &mut [u8]) -> Result<usize> {
        let Some(blocks) = &mut self.blocks else { return Err(wrong()) };
        let Some(header) = blocks.frame() else { return self.begin().map(|()| 0) };
        let (last, written) = match self.unfinished_block.take() {
            Some(last) => (last, blocks.more(out)?),
            None => {
                let block = blocks.block()?;
                self.maker.note_block(&self.zstd, blocks, block, self.at)?;
                (block.last, blocks.decode_into(block, out)?)
            }
        };
        let is_full = written == out.len();
        self.unfinished_block = is_full.then_some(last);
        let ends = (!is_full).then_some(last);
        self.advance(out.get(..written).unwrap_or_default(), header, ends)?;
        Ok(written)
    }

    /// Accounts for decoded bytes. `ends` is set if a block ended with these bytes, and true if that block
    /// was its frame's last.
    fn advance(&mut self, decoded: &[u8], header: Header, ends: Option<bool>) -> Result<()> {
        if self.stored_table.is_none() {
            self.zstd.add_output(self.at, decoded, ends.is_some());
            self.maker.add_output(&self.zstd, decoded, self.at);
        }
        self.unchecked |= !header.checked;
        self.at = self.at.saturating_add(decoded.len() as u64);
        if ends == Some(true) { self.end(header) } else { Ok(()) }
    }

    /// Begins the next frame, if there is one.
    fn begin(&mut self) -> Result<()> {
        let Some(blocks) = &mut self.blocks else { return Err(wrong()) };
        self.end = blocks.input.position();
        if !blocks.skip()? {
            if self.frames == 0 || blocks.is_cut_off() {
                return Err(blocks.input.damaged("does not begin with a zstd frame"));
            }
            self.ended = true;
            if self.stored_table.is_none() {
                self.zstd.ended(self.end, self.at, self.checksum);
            }
            return Ok(());
        }
        let frame = blocks.input.position();
        let header = blocks.begin()?;
        if self.stored_table.is_none() {
            self.zstd.begin(frame, header, self.at);
            let due = self.zstd.due(self.at, header);
            let decoded_start = self.at;
            let window = Vec::new();
            self.maker =
                CheckpointMaker { frame, decoded_start, header, memory: Memory::default(), due, window };
        }
        Ok(())
    }

    /// Ends a frame after its last block.
    fn end(&mut self, header: Header) -> Result<()> {
        let Some(blocks) = &mut self.blocks else { return Err(wrong()) };
        let checksum = blocks.end()?;
        if self.stored_table.is_none() {
            let len = self.at.saturating_sub(self.maker.decoded_start);
            if header.content_size.is_some_and(|size| size != len) {
                return Err(blocks
                    .input
                    .damaged("a zstd frame decodes to another size than its header says"));
            }
            if checksum.is_some_and(|checksum| !self.zstd.is_right(self.maker.frame, self.at, checksum)) {
                return Err(blocks.input.damaged("the checksum of a zstd frame is wrong"));
            }
        }
        self.checksum = checksum.unwrap_or(0);
        self.frames += 1;
        Ok(())
    }
}

impl CheckpointMaker {
    /// Makes a checkpoint before a block, if its window and its state are known.
    fn make_checkpoint(&mut self, zstd: &Arc<ZstdTable>, position: BlockPosition, content: Option<&[u8]>) {
        let (at, header) = (position.offset, self.header);
        let reach = header.window.min(at.saturating_sub(self.decoded_start));
        let start = (self.window.len() as u64).checked_sub(reach);
        let start = start.and_then(|start| usize::try_from(start).ok());
        let output = start.and_then(|start| self.window.get(start..));
        if let (Some(start), Some(output)) = (start, output)
            && let Some(head) = self.memory.head(output, content)
        {
            let window = std::mem::take(&mut self.window);
            let memory = self.memory.clone();
            let within = EntryPoint { position, header, decoded_start: self.decoded_start, memory };
            zstd.add(within, head, window, start);
            self.due = zstd.due(at, header);
        } else if at - self.due > LATE {
            self.window = Vec::new();
            self.due = zstd.due(at, header);
        }
    }

    /// Makes a checkpoint before the current block if one is due, and notes the state that the block leaves.
    fn note_block(
        &mut self,
        zstd: &Arc<ZstdTable>,
        blocks: &mut BlockDecoder,
        block: Block,
        at: u64,
    ) -> Result<()> {
        let position = BlockPosition { frame: self.frame, block: blocks.input.position(), offset: at };
        let is_compressed_next = blocks.is_compressed_next(block)?;
        let content = blocks.content(block)?;
        if at >= self.due {
            self.make_checkpoint(zstd, position, content);
        }
        if let Some(content) = content {
            let is_due_soon = at.saturating_add(CLOSE) >= self.due;
            let follow = if is_due_soon {
                Follow::Now
            } else if !is_compressed_next && self.due < u64::MAX {
                // Blocks that are not compressed may be many, and do not change the offsets.
                Follow::Later
            } else {
                Follow::Not
            };
            self.memory.pass(content, follow);
        }
        Ok(())
    }

    /// Notes the output of a block at `at`, as far as a checkpoint may need it.
    fn add_output(&mut self, zstd: &ZstdTable, decoded: &[u8], at: u64) {
        let window = self.header.window;
        if at.saturating_add(decoded.len() as u64 + window) < self.due {
            return;
        }
        let Ok(window) = usize::try_from(window) else { return };
        let most = window.saturating_add(BLOCKS * BLOCK as usize);
        if self.window.capacity() == 0 {
            self.window = zstd.cache.buffer(most);
            self.window.clear();
        }
        if self.window.len() + decoded.len() > most {
            self.window.drain(..self.window.len().saturating_sub(window));
        }
        self.window.extend_from_slice(decoded);
    }
}

fn wrong() -> Error {
    Error::damaged("the seek table does not fit the stream")
}

/// Returns the error for a stream that changed, or a forged table: both are valid, and they differ.
fn changed() -> Error {
    Error::damaged(
        "the data have changed since their seek table was stored, or the table was forged; there is no checksum \
         that proves either",
    )
}

impl SegmentReader for FrameReader {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<Option<usize>> {
        while !self.ended {
            self.piece(out)?;
            if !out.is_empty() {
                return Ok(Some(0));
            }
        }
        Ok(None)
    }

    fn read(&mut self, out: &mut [u8]) -> Option<Result<usize>> {
        if self.stored_table.is_some() || out.is_empty() {
            return None;
        }
        if self.unfinished_block.is_none() {
            // Output that must match checksums is returned only after the comparison.
            if let Err(error) = self.choose_crcs() {
                return Some(Err(error));
            }
            if self.checking.is_some() {
                return None;
            }
        }
        while !self.ended {
            match self.step_into(out) {
                Ok(0) => {}
                written => return Some(written),
            }
        }
        Some(Ok(0))
    }

    fn wanted(&mut self, _: u64) {}

    fn weight(&self) -> u64 {
        let blocks = self.blocks.as_ref().map_or(0, BlockDecoder::weight);
        blocks.saturating_add(self.maker.window.capacity() as u64)
    }

    fn bit(&self) -> Option<u64> {
        self.blocks.as_ref().map(|blocks| blocks.input.position().saturating_mul(8))
    }

    fn uses_stored_table(&self) -> bool {
        self.stored_table.is_some()
    }
}

impl Drop for FrameReader {
    fn drop(&mut self) {
        if let Some(blocks) = self.blocks.take() {
            let context = blocks.context;
            let weight = context.weight();
            self.zstd.cache.keep_scratch(context, weight);
        }
    }
}
