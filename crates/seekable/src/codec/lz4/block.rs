//! An incremental decoder for an LZ4 block (the raw format, without a frame).
//!
//! [`super::whole`] is faster, but needs the whole block and room for all of its output, and does not tell
//! how far it got. This decoder holds the 64 KiB that matches may reach back and a little more, whatever
//! sizes the block claims, and gives every byte before the damage.
//!
//! A block is a series of sequences. A sequence is a token (literal length in the high half, match length - 4
//! in the low half), more length bytes up to one that is not 255, the literals, the match's offset (u16,
//! little-endian), and more length bytes. The last sequence ends after its literals.

use super::super::input::Input;
use crate::decode::Decoder;
use crate::error::{Error, Result};

/// Maximum distance of a match.
const WINDOW: usize = 64 << 10;

/// Bytes decoded ahead of those given out.
const AHEAD: usize = 64 << 10;

/// A decoder of one block.
pub(super) struct Block {
    input: Input,
    /// Decoded size by the block's header.
    size: u64,
    /// Number of decoded bytes still to come.
    bytes_left: u64,
    /// The last decoded bytes, at least a window of them; those from `consumed` on are not given out yet.
    bytes: Vec<u8>,
    consumed: usize,
    next: BlockElement,
    /// The end of the block, once known.
    end: Option<Result<()>>,
}

/// The next element of the block.
#[derive(Clone, Copy)]
enum BlockElement {
    Token,
    Literals { literals_left: u64, code: u8 },
    Match { offset: usize, match_left: u64 },
}

impl Block {
    /// Returns the block in `input`, which decodes to `size` bytes.
    pub(super) fn new(input: Input, size: u64) -> Self {
        Self {
            input,
            size,
            bytes_left: size,
            bytes: Vec::new(),
            consumed: 0,
            next: BlockElement::Token,
            end: None,
        }
    }

    /// Decodes until the buffer is full or the block ends.
    fn fill(&mut self) {
        if self.bytes.len() > WINDOW {
            self.bytes.drain(..self.bytes.len() - WINDOW);
        }
        self.consumed = self.bytes.len();
        while self.end.is_none() && self.bytes.len() < WINDOW + AHEAD {
            match self.sequence() {
                Ok(()) => {}
                Err(error) => self.end = Some(Err(error)),
            }
        }
    }

    fn sequence(&mut self) -> Result<()> {
        self.next = match self.next {
            BlockElement::Token => {
                let Some(token) = self.byte()? else {
                    self.end = Some(self.check_end());
                    return Ok(());
                };
                BlockElement::Literals { literals_left: self.length(token >> 4)?, code: token & 15 }
            }
            BlockElement::Literals { literals_left: 0, code } => {
                let Some(low) = self.byte()? else {
                    self.end = Some(self.check_end());
                    return Ok(());
                };
                let high = self.byte()?.ok_or_else(|| self.input.cut_off())?;
                let offset = usize::from(u16::from_le_bytes([low, high]));
                if offset == 0 || offset > self.bytes.len() {
                    return Err(self
                        .input
                        .damaged("an LZ4 match reaches back before the start of its piece"));
                }
                BlockElement::Match { offset, match_left: self.length(code)?.saturating_add(4) }
            }
            BlockElement::Literals { literals_left, code } => {
                let room = self.room(literals_left)?;
                let ready = self.input.fill()?;
                let count = ready.len().min(room);
                if count == 0 {
                    return Err(self.input.cut_off());
                }
                self.bytes.extend_from_slice(&ready[..count]);
                self.input.take(count);
                self.bytes_left -= count as u64;
                BlockElement::Literals { literals_left: literals_left - count as u64, code }
            }
            BlockElement::Match { match_left: 0, .. } => BlockElement::Token,
            BlockElement::Match { offset, match_left } => {
                let mut count = self.room(match_left)?;
                let rest = match_left - count as u64;
                self.bytes_left -= count as u64;
                // Copied bytes can be copied again, so each iteration can copy twice as much.
                let from = self.bytes.len() - offset;
                while count > 0 {
                    let run = count.min(self.bytes.len() - from);
                    self.bytes.extend_from_within(from..from + run);
                    count -= run;
                }
                BlockElement::Match { offset, match_left: rest }
            }
        };
        Ok(())
    }

    /// Returns how many of `wanted` bytes may be decoded now, at least one.
    fn room(&self, wanted: u64) -> Result<usize> {
        if self.bytes_left == 0 {
            let size = self.size;
            return Err(self
                .input
                .damaged(format!("a piece decodes to more than the {size} bytes of its header")));
        }
        let room = (WINDOW + AHEAD - self.bytes.len().min(WINDOW + AHEAD - 1)) as u64;
        Ok(room.min(wanted).min(self.bytes_left) as usize)
    }

    fn check_end(&self) -> Result<()> {
        match self.bytes_left {
            0 => Ok(()),
            missing => {
                let got = self.size - missing;
                let size = self.size;
                Err(self.input.damaged(format!("a piece decodes to {got} bytes, but its header says {size}")))
            }
        }
    }

    /// Reads a length that begins with the 4 bits of a token.
    fn length(&mut self, code: u8) -> Result<u64> {
        let mut length = u64::from(code);
        if code == 15 {
            loop {
                let more = self.byte()?.ok_or_else(|| self.input.cut_off())?;
                length = length.saturating_add(u64::from(more));
                if more < 255 {
                    break;
                }
            }
        }
        Ok(length)
    }

    fn byte(&mut self) -> Result<Option<u8>> {
        let byte = self.input.fill()?.first().copied();
        self.input.take(1);
        Ok(byte)
    }
}

impl Decoder for Block {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            let ready = self.bytes.get(self.consumed..).unwrap_or_default();
            if !ready.is_empty() {
                let count = ready.len().min(out.len());
                out[..count].copy_from_slice(&ready[..count]);
                self.consumed += count;
                return Ok(count);
            }
            if let Some(end) = &self.end {
                return end.clone().map(|()| 0);
            }
            self.fill();
        }
    }
}

/// Appends the decoded block in `input` to `out`; after an error `out` ends with the bytes before the damage.
pub(in crate::codec) fn decode(input: Input, size: u64, out: &mut Vec<u8>) -> Result<()> {
    let mut block = Block::new(input, size);
    loop {
        match &block.end {
            Some(end) => return end.clone(),
            None => block.fill(),
        }
        out.extend_from_slice(block.bytes.get(block.consumed..).unwrap_or_default());
    }
}

/// Returns the output of the block in `input` before any error, at most `most` bytes; `window` is the output
/// before the block.
pub(super) fn prefix(input: Input, window: &[u8], most: u64) -> Vec<u8> {
    let mut block = Block::new(input, most);
    block.bytes.extend_from_slice(window);
    let mut out = Vec::new();
    while block.end.is_none() {
        block.fill();
        out.extend_from_slice(block.bytes.get(block.consumed..).unwrap_or_default());
    }
    out
}

/// True if a block of `stored` bytes can decode to `size` bytes.
pub(super) fn is_possible(stored: u64, size: u64) -> bool {
    // The second bound is the maximum of a compressor: LZ4_COMPRESSBOUND.
    size <= stored.saturating_mul(super::RATIO) && stored <= size + size / 255 + 16
}

/// Returns the error for a block that can't have the size in its header.
pub(super) fn impossible(stored: u64, size: u64) -> Error {
    Error::damaged(format!("a piece of {stored} bytes can't decode to the {size} bytes in its header"))
}
