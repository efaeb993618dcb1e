//! zstd frames decoded block by block by libzstd, from a frame's start or from between two of its blocks.
//!
//! libzstd reads a frame of our own making. Its header gives the window and nothing else, and its blocks are
//! those of the stream from the position on. A [dictionary](super::memory) gives libzstd the state that it
//! would have there. The checksum and the length of the frame are left to the reader that decodes all of it.

use zstd::zstd_safe::{InBuffer, OutBuffer};

use super::header::{BLOCK, Header, MAGIC, SKIPPABLE};
use super::library::Context;
use crate::codec::input::Input;
use crate::error::{Error, Result};

/// Bytes read at a time: two blocks with their headers, so that a whole block is buffered.
const READ: usize = 2 * (132 << 10);

/// Size of a block header in bytes.
const HEADER: usize = 3;

/// Code for a block that contradicts its header; libzstd has no code for it.
const CONTRADICTION: usize = 0;

/// A decoder of frames, block by block.
pub(super) struct BlockDecoder {
    pub(super) input: Input,
    /// The decoder's libzstd context.
    pub(super) context: Box<Context>,
    /// The current frame.
    frame: Option<Header>,
}

/// The header of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) last: bool,
    compressed: bool,
    /// Number of bytes, with the header.
    len: usize,
}

impl BlockDecoder {
    /// Returns a decoder in front of a frame.
    pub(super) fn new(input: Input, context: Box<Context>) -> Self {
        Self { input: input.in_reads_of(READ), context, frame: None }
    }

    /// Returns a decoder between two blocks of a frame; `dictionary` holds the state there.
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

    /// Returns the header of the current frame.
    pub(super) fn frame(&self) -> Option<Header> {
        self.frame
    }

    /// True if a skip went past the end.
    pub(super) fn is_cut_off(&self) -> bool {
        self.input.is_at_end() && !self.input.is_exactly_at_end()
    }

    /// Returns the memory of the decoder in bytes.
    pub(super) fn weight(&self) -> u64 {
        self.context.weight().saturating_add(READ as u64)
    }

    /// Skips skippable frames; true if a frame follows.
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

    /// Begins the next frame.
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

    /// Reads the header of the next block; the whole block is buffered then.
    pub(super) fn block(&mut self) -> Result<Block> {
        let Some(&[low, middle, high]) = self.input.at_least(HEADER)?.first_chunk::<HEADER>() else {
            return Err(self.input.cut_off());
        };
        let word = u32::from_le_bytes([low, middle, high, 0]);
        let size = (word >> 3) as usize;
        let kind = word >> 1 & 3;
        if size as u64 > BLOCK || kind > 2 {
            return Err(self.input.damaged("a block of the zstd frame has an unknown type"));
        }
        let len = HEADER + if kind == 1 { 1 } else { size };
        if self.input.at_least(len)?.len() < len {
            return Err(self.input.cut_off());
        }
        Ok(Block { last: word & 1 == 1, compressed: kind == 2, len })
    }

    /// Returns the bytes of the buffered block, if it is compressed.
    pub(super) fn content(&mut self, block: Block) -> Result<Option<&[u8]>> {
        let available = self.input.at_least(block.len)?;
        Ok(available.get(HEADER..block.len).filter(|_| block.compressed))
    }

    /// True if a compressed block follows the buffered one.
    pub(super) fn is_compressed_next(&mut self, block: Block) -> Result<bool> {
        let available = self.input.at_least(block.len + HEADER)?;
        Ok(available.get(block.len).is_some_and(|low| !block.last && low >> 1 & 3 == 2))
    }

    /// Decodes the buffered block and appends its output to `out`.
    pub(super) fn decode(&mut self, block: Block, out: &mut Vec<u8>) -> Result<()> {
        let available = self.input.at_least(block.len)?;
        let Some(bytes) = available.get(..block.len) else { return Err(self.input.cut_off()) };
        let before = out.len();
        if let Err(code) = self.context.feed(bytes, out) {
            out.truncate(before);
            return Err(self.broken(code));
        }
        self.input.take(block.len);
        Ok(())
    }

    /// Decodes the buffered block into `out`. If `out` is filled, [`more`](Self::more) gives the rest.
    pub(super) fn decode_into(&mut self, block: Block, out: &mut [u8]) -> Result<usize> {
        let available = self.input.at_least(block.len)?;
        let Some(bytes) = available.get(..block.len) else { return Err(self.input.cut_off()) };
        let written = self.context.feed_into(bytes, out).map_err(|code| self.broken(code))?;
        self.input.take(block.len);
        Ok(written)
    }

    /// Gives the rest of the last block, as far as `out` has room.
    pub(super) fn more(&mut self, out: &mut [u8]) -> Result<usize> {
        self.context.feed_into(&[], out).map_err(|code| self.broken(code))
    }

    /// Ends a frame after its last block and returns its checksum, if it has one.
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
        self.input.damaged(broken(code))
    }
}

/// Returns the message for an error code of libzstd, or for [`CONTRADICTION`].
fn broken(code: usize) -> String {
    match code {
        CONTRADICTION => "the zstd stream is broken: a block contradicts its header".to_owned(),
        _ => format!("the zstd stream is broken: {}", zstd::zstd_safe::get_error_name(code).to_lowercase()),
    }
}

impl Context {
    /// Prepares for a frame that continues from `dictionary`, or from no state if `dictionary` is empty.
    fn enter(&mut self, dictionary: &[u8]) -> Result<()> {
        let context = self.ready()?;
        if !dictionary.is_empty() {
            let loaded = context.load_dictionary(dictionary);
            loaded.map_err(|_| Error::damaged("decoding can't start at this block of the zstd frame"))?;
        }
        Ok(())
    }

    /// Feeds all of `bytes`, a block or nothing, and returns the number of bytes written to `out`. libzstd
    /// holds the rest.
    fn feed_into(&mut self, bytes: &[u8], out: &mut [u8]) -> std::result::Result<usize, usize> {
        let Some(context) = self.get() else { return Ok(0) };
        let mut input = InBuffer::around(bytes);
        let mut written = 0;
        loop {
            let taken = input.pos();
            let mut output = OutBuffer::around_pos(out, written);
            context.decompress_stream(&mut output, &mut input)?;
            let before = std::mem::replace(&mut written, output.pos());
            if input.pos() == bytes.len() {
                return Ok(written);
            }
            if input.pos() == taken && written == before {
                // libzstd wants no more of the block, or has no room for it: the block contradicts its
                // header.
                return Err(CONTRADICTION);
            }
        }
    }

    /// Feeds all of `bytes` and appends all output to `out`. An error is libzstd's code.
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> std::result::Result<(), usize> {
        let Some(context) = self.get() else { return Ok(()) };
        let mut input = InBuffer::around(bytes);
        loop {
            out.reserve(BLOCK as usize);
            let taken = input.pos();
            let written = out.len();
            let mut output = OutBuffer::around_pos(out, written);
            context.decompress_stream(&mut output, &mut input)?;
            let full = output.pos() == output.capacity();
            if input.pos() == bytes.len() && !full {
                return Ok(());
            }
            if input.pos() == taken && output.pos() == written {
                // libzstd wants no more of the block than it has taken: the block contradicts its header.
                return Err(CONTRADICTION);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_stream_is_told_with_its_cause() {
        for (code, message) in [
            (CONTRADICTION, "the zstd stream is broken: a block contradicts its header"),
            (20_usize.wrapping_neg(), "the zstd stream is broken: data corruption detected"),
        ] {
            assert_eq!(broken(code), message);
        }
    }
}
