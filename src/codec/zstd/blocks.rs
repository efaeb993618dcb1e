//! zstd frames, decoded block by block by libzstd, from a frame's start or from between two of its blocks.
//!
//! libzstd is shown a frame of our own making: its header says the window and nothing else, and its blocks
//! are those of the stream, from the place on. What it would remember at such a place it is told by a
//! [dictionary](super::memory). The checksum and the length of the frame are left to the reader
//! that decodes all of it.

use zstd::zstd_safe::{InBuffer, OutBuffer};

use super::header::{BLOCK, Header, MAGIC, SKIPPABLE};
use super::library::Context;
use crate::codec::input::Input;
use crate::error::{Error, Result};

/// Bytes read at a time: two blocks with their headers, so that one is at hand in one piece.
const READ: usize = 2 * (132 << 10);

/// Bytes of a block's header.
const HEADER: usize = 3;

/// Decodes frames block by block.
pub(super) struct Blocks {
    input: Input,
    context: Box<Context>,
    /// The frame in which it stands.
    frame: Option<Header>,
}

/// The header of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) last: bool,
    compressed: bool,
    /// Bytes with the header.
    len: usize,
}

impl Blocks {
    /// Before a frame.
    pub(super) fn new(input: Input, context: Box<Context>) -> Self {
        Self { input: input.in_reads_of(READ), context, frame: None }
    }

    /// Between two blocks of a frame, as `dictionary` says.
    pub(super) fn within(
        input: Input,
        context: Box<Context>,
        frame: Header,
        dictionary: &[u8],
    ) -> Result<Self> {
        let mut blocks = Self::new(input, context);
        blocks.enter(frame, dictionary)?;
        Ok(blocks)
    }

    /// The frame in which it stands.
    pub(super) fn frame(&self) -> Option<Header> {
        self.frame
    }

    /// Where in the stored bytes it stands.
    pub(super) fn position(&self) -> u64 {
        self.input.position()
    }

    /// Whether more was to be skipped than there is.
    pub(super) fn is_cut_off(&self) -> bool {
        self.input.is_at_end() && !self.input.is_exactly_at_end()
    }

    /// What it decodes with.
    pub(super) fn into_context(self) -> Box<Context> {
        self.context
    }

    /// Bytes of memory that it takes up.
    pub(super) fn weight(&self) -> u64 {
        self.context.weight().saturating_add(READ as u64)
    }

    /// Passes what is to be skipped; whether a frame follows.
    pub(super) fn skip(&mut self) -> Result<bool> {
        loop {
            match u32::from_le_bytes(self.input.magic()?) {
                MAGIC => return Ok(true),
                magic if SKIPPABLE.contains(&magic) => {
                    self.input.take(4);
                    let len = u32::from_le_bytes(self.input.magic()?);
                    self.input.skip(u64::from(len) + 4);
                }
                _ => return Ok(false),
            }
        }
    }

    /// Begins with the frame before which it stands.
    pub(super) fn begin(&mut self) -> Result<Header> {
        let header = Header::read(&mut self.input)?;
        self.enter(header, &[])?;
        Ok(header)
    }

    fn enter(&mut self, header: Header, dictionary: &[u8]) -> Result<()> {
        if header.needs_more {
            return Err(self.input.damaged("a zstd frame needs a dictionary"));
        }
        self.context.enter(dictionary)?;
        self.frame = Some(header);
        let mut shown = MAGIC.to_le_bytes().to_vec();
        shown.extend([0, header.described_window()]);
        self.context.feed(&shown, &mut Vec::new()).map_err(|code| self.broken(code))
    }

    /// The next block of the frame, which is at hand then.
    pub(super) fn block(&mut self) -> Result<Block> {
        let Some(&[low, middle, high]) = self.input.at_least(HEADER)?.first_chunk::<HEADER>() else {
            return Err(self.input.cut_off());
        };
        let word = u32::from_le_bytes([low, middle, high, 0]);
        let (size, kind) = ((word >> 3) as usize, word >> 1 & 3);
        if size as u64 > BLOCK || kind > 2 {
            return Err(self.input.damaged("a block of the zstd frame is of no known kind"));
        }
        let len = HEADER + if kind == 1 { 1 } else { size };
        if self.input.at_least(len)?.len() < len {
            return Err(self.input.cut_off());
        }
        Ok(Block { last: word & 1 == 1, compressed: kind == 2, len })
    }

    /// The bytes of the block that is at hand, if it is a compressed one.
    pub(super) fn content(&mut self, block: Block) -> Result<Option<&[u8]>> {
        let there = self.input.at_least(block.len)?;
        Ok(there.get(HEADER..block.len).filter(|_| block.compressed))
    }

    /// Whether a compressed block follows the one that is at hand.
    pub(super) fn is_compressed_next(&mut self, block: Block) -> Result<bool> {
        let there = self.input.at_least(block.len + HEADER)?;
        Ok(there.get(block.len).is_some_and(|low| !block.last && low >> 1 & 3 == 2))
    }

    /// Decodes the block that is at hand, behind what `out` holds.
    pub(super) fn decode(&mut self, block: Block, out: &mut Vec<u8>) -> Result<()> {
        let there = self.input.at_least(block.len)?;
        let Some(bytes) = there.get(..block.len) else { return Err(self.input.cut_off()) };
        let before = out.len();
        if let Err(code) = self.context.feed(bytes, out) {
            out.truncate(before);
            return Err(self.broken(code));
        }
        self.input.take(block.len);
        Ok(())
    }

    /// Decodes the block that is at hand into `out`. Where that is filled more of it may [follow](Self::more).
    pub(super) fn decode_into(&mut self, block: Block, out: &mut [u8]) -> Result<usize> {
        let there = self.input.at_least(block.len)?;
        let Some(bytes) = there.get(..block.len) else { return Err(self.input.cut_off()) };
        let given = self.context.feed_into(bytes, out).map_err(|code| self.broken(code))?;
        self.input.take(block.len);
        Ok(given)
    }

    /// The rest of the block that was decoded last, as far as `out` has room.
    pub(super) fn more(&mut self, out: &mut [u8]) -> Result<usize> {
        self.context.feed_into(&[], out).map_err(|code| self.broken(code))
    }

    /// Behind the last block of a frame: its checksum, if it has one.
    pub(super) fn end(&mut self) -> Result<Option<u32>> {
        let checked = self.frame.take().is_some_and(|frame| frame.checked);
        if !checked {
            return Ok(None);
        }
        let Some(four) = self.input.at_least(4)?.first_chunk::<4>().copied() else {
            return Err(self.input.cut_off());
        };
        self.input.take(4);
        Ok(Some(u32::from_le_bytes(four)))
    }

    fn broken(&self, code: usize) -> Error {
        let name = zstd::zstd_safe::get_error_name(code).to_lowercase();
        self.input.damaged(format!("the zstd stream is broken: {name}"))
    }

    /// An error of the stream at the place where it stands.
    pub(super) fn damaged(&self, message: &str) -> Error {
        self.input.damaged(message)
    }
}

impl Context {
    /// Makes it ready for a frame that goes on from a dictionary; from none if that is empty.
    fn enter(&mut self, dictionary: &[u8]) -> Result<()> {
        let context = self.ready()?;
        if !dictionary.is_empty() {
            let loaded = context.load_dictionary(dictionary);
            loaded.map_err(|_| Error::damaged("a place in a zstd frame can't be entered"))?;
        }
        Ok(())
    }

    /// Gives it all of `bytes`, a block or nothing, and says how much it made of them in `out`; it holds the rest.
    fn feed_into(&mut self, bytes: &[u8], out: &mut [u8]) -> std::result::Result<usize, usize> {
        let Some(context) = self.get() else { return Ok(0) };
        let (mut input, mut given) = (InBuffer::around(bytes), 0);
        loop {
            let taken = input.pos();
            let mut output = OutBuffer::around_pos(out, given);
            context.decompress_stream(&mut output, &mut input)?;
            let before = std::mem::replace(&mut given, output.pos());
            if input.pos() == bytes.len() {
                return Ok(given);
            }
            if input.pos() == taken && given == before {
                // It wants no more of the block, or has no room for it: this one is not what it says.
                return Err(0);
            }
        }
    }

    /// Gives it all of `bytes`, and appends to `out` all that it makes of them; or its code of an error.
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> std::result::Result<(), usize> {
        let Some(context) = self.get() else { return Ok(()) };
        let mut input = InBuffer::around(bytes);
        loop {
            out.reserve(BLOCK as usize);
            let (taken, given) = (input.pos(), out.len());
            let mut output = OutBuffer::around_pos(out, given);
            context.decompress_stream(&mut output, &mut input)?;
            let full = output.pos() == output.capacity();
            if input.pos() == bytes.len() && !full {
                return Ok(());
            }
            if input.pos() == taken && output.pos() == given {
                // It wants no more of a block than it has taken: this one is not what it says.
                return Err(0);
            }
        }
    }
}
