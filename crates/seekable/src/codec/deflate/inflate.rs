//! The decoder, which starts at any position of a stream and decodes as far as there is room.

use super::alphabet::MAX_LENGTH;
use super::bits::Bits;
use super::fault::{Cause, Fault, Reason, Wrong};
use super::header::{self, HEADER_BYTES, KIND_BITS, Lengths};
use super::huffman::Codes;
use super::input::Input;
use super::output::{Match, OutputBuffer};
use super::symbol::OutputSymbol;
use super::{careful, fast};
use crate::content::Content;

/// Minimum number of input bytes that the loops are given, unless the input ends before.
const SYMBOLS_BYTES: usize = 256;

/// The kind of block that a position lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// No block: the next bits are a block's header, or the stream has ended.
    Between,
    /// Bytes that are not compressed.
    Stored,
    /// The fixed codes of the standard.
    Fixed,
    /// Codes defined in the block's header.
    Dynamic,
}

/// A position in a stream at which a decoder can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The first bit of the block's header; between blocks, of the next block's header.
    pub header: u64,
    /// The first bit of the next symbol, the next stored byte, or the next header.
    pub bit: u64,
    /// Number of output bytes before the position.
    pub offset: u64,
    /// The kind of block.
    pub block: Block,
    /// True if the block is the stream's last.
    pub last: bool,
}

impl Position {
    /// Returns the position before a block whose header begins at `bit`.
    pub fn block_at(bit: u64, offset: u64) -> Self {
        Self { header: bit, bit, offset, block: Block::Between, last: false }
    }
}

/// The reason why a decoder stopped without a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The room is full, and the stream goes on: with at least another byte, or with a fault.
    Full,
    /// A block ended that is not the last, and the caller asked for one block.
    Block,
    /// The stream ended.
    End,
}

/// The kind of block that the decoder is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockState {
    Between,
    /// A stored block, with the number of bytes still to come.
    Stored(u16),
    Fixed,
    Dynamic,
    Ended,
}

/// A decoder of raw deflate, from any position and never beyond what was asked for.
///
/// It holds no output: the caller's buffer has the last 32 KiB of output in front of the room. It keeps some
/// of the input, so each call must be given the same content until the next [`start`]. After the input was
/// cut off, decoding goes on where it stopped once there is more input.
///
/// [`start`]: Self::start
#[derive(Debug)]
pub struct Inflate {
    input: Input,
    codes: Box<Codes>,
    /// True if `codes` are the fixed ones.
    fixed: bool,
    state: BlockState,
    last: bool,
    header: u64,
    bit: u64,
    /// Number of output bytes of all finished calls; the pending part of a match is not counted.
    offset: u64,
    /// The part of the last match that had no room.
    rest: Match,
}

impl Default for Inflate {
    fn default() -> Self {
        Self::new()
    }
}

impl Inflate {
    /// Returns a decoder in front of a block that begins at bit 0.
    pub fn new() -> Self {
        Self {
            input: Input::default(),
            codes: Codes::new(),
            fixed: false,
            state: BlockState::Between,
            last: false,
            header: 0,
            bit: 0,
            offset: 0,
            rest: Match::default(),
        }
    }

    /// Moves to `position` of `stored`. Only the bits and the offset of `position` are trusted: inside a block, the
    /// header is read again.
    pub fn start(&mut self, stored: &dyn Content, position: Position) -> Result<(), Fault> {
        self.input.clear();
        (self.state, self.last, self.rest) = (BlockState::Between, false, Match::default());
        (self.header, self.bit, self.offset) = (position.header, position.header, position.offset);
        if position.bit == position.header {
            return Ok(());
        }
        self.open_block(stored).map_err(|wrong| self.fault(wrong, position.offset))?;
        self.skip_to(position.bit).map_err(|reason| self.fault(reason.into(), position.offset))
    }

    /// Moves to a bit inside the block that was just opened.
    fn skip_to(&mut self, bit: u64) -> Result<(), Reason> {
        let ahead = bit.checked_sub(self.bit).ok_or(Reason::Position)?;
        if let BlockState::Stored(length) = self.state {
            let passed = u16::try_from(ahead / 8).ok().filter(|_| ahead % 8 == 0).ok_or(Reason::Position)?;
            self.state = BlockState::Stored(length.checked_sub(passed).ok_or(Reason::Position)?);
        }
        self.bit = bit;
        Ok(())
    }

    /// Returns the position after the symbol that gave the last byte, even if that symbol is a match of which
    /// a part is still pending.
    ///
    /// Decoding can start again here only if nothing is [`pending`](Self::pending).
    pub fn position(&self) -> Position {
        let block = match self.state {
            BlockState::Between | BlockState::Ended => Block::Between,
            BlockState::Stored(_) => Block::Stored,
            BlockState::Fixed => Block::Fixed,
            BlockState::Dynamic => Block::Dynamic,
        };
        let header = if block == Block::Between { self.bit } else { self.header };
        Position { header, bit: self.bit, offset: self.offset, block, last: self.last }
    }

    /// Returns how many bytes of the last match are still to be given, at most 257. With room for just these
    /// bytes, the decoder stops between two symbols.
    pub fn pending(&self) -> usize {
        self.rest.length
    }

    /// True if the stream has ended.
    pub fn has_ended(&self) -> bool {
        self.state == BlockState::Ended
    }

    /// Decodes into `out[filled..]` until it is full or the stream ends. Returns how much of `out` is filled
    /// then, and why decoding stopped.
    ///
    /// `out[..filled]` is the earlier output: its last 32 KiB or all of it. Bytes of `out` after the filled
    /// part may be overwritten. Decoding stops before the first symbol that has no room. The end of a block
    /// or of the stream is therefore seen even without any room.
    pub fn decode(
        &mut self,
        stored: &dyn Content,
        out: &mut [u8],
        filled: usize,
    ) -> (usize, Result<Stop, Fault>) {
        let mut out = OutputBuffer { items: out, filled };
        let stop = self.run(stored, &mut out, false);
        (out.filled, stop)
    }

    /// Decodes as [`decode`](Self::decode) does, but stops also where a block ends.
    #[cfg(test)]
    pub fn decode_block(
        &mut self,
        stored: &dyn Content,
        out: &mut [u8],
        filled: usize,
    ) -> (usize, Result<Stop, Fault>) {
        let mut out = OutputBuffer { items: out, filled };
        let stop = self.run(stored, &mut out, true);
        (out.filled, stop)
    }

    /// Decodes into any kind of output; `one_block` is true if decoding also stops where a block ends.
    pub(super) fn run<S: OutputSymbol>(
        &mut self,
        stored: &dyn Content,
        out: &mut OutputBuffer<'_, S>,
        one_block: bool,
    ) -> Result<Stop, Fault> {
        let before = out.filled;
        let stop = self.advance(stored, out, one_block);
        self.offset = self.offset.saturating_add((out.filled - before) as u64);
        stop.map_err(|wrong| self.fault(wrong, self.offset))
    }

    fn advance<S: OutputSymbol>(
        &mut self,
        stored: &dyn Content,
        out: &mut OutputBuffer<'_, S>,
        one_block: bool,
    ) -> Result<Stop, Wrong> {
        if self.rest.length > 0 {
            self.rest = out.copy(self.rest)?;
            if self.rest.length > 0 {
                return Ok(Stop::Full);
            }
        }
        loop {
            let ended = match self.state {
                BlockState::Ended => return Ok(Stop::End),
                BlockState::Between => {
                    self.open_block(stored)?;
                    continue;
                }
                BlockState::Stored(length) => self.stored_bytes(stored, length, out)?,
                BlockState::Fixed | BlockState::Dynamic => self.symbols(stored, out)?,
            };
            if !ended {
                return Ok(Stop::Full);
            }
            self.state = if self.last { BlockState::Ended } else { BlockState::Between };
            if one_block && !self.last {
                return Ok(Stop::Block);
            }
        }
    }

    /// Reads the header of the block that begins at the current position.
    fn open_block(&mut self, stored: &dyn Content) -> Result<(), Wrong> {
        let byte = self.bit >> 3;
        let bytes = self.input.from(stored, byte, HEADER_BYTES);
        let mut bits = Bits::new(bytes, (self.bit & 7) as usize);
        let kind = bits.take(KIND_BITS)?;
        let state = match kind >> 1 {
            0 => {
                bits.align();
                let length = bits.take(16)? as u16;
                let complement = bits.take(16)? as u16;
                if length != !complement {
                    return Err(Reason::StoredLength.into());
                }
                BlockState::Stored(length)
            }
            1 => {
                if !self.fixed {
                    let (literals, distances) = header::fixed();
                    self.codes.build(&literals, &distances)?;
                    self.fixed = true;
                }
                BlockState::Fixed
            }
            2 => {
                let lengths = Lengths::read(&mut bits)?;
                self.fixed = false;
                self.codes.build(lengths.literals(), lengths.distances())?;
                BlockState::Dynamic
            }
            _ => return Err(Reason::BlockType.into()),
        };
        self.header = self.bit;
        self.bit = byte * 8 + bits.at as u64;
        (self.state, self.last) = (state, kind & 1 == 1);
        Ok(())
    }

    /// Copies the bytes of a stored block; true if the block ended.
    fn stored_bytes<S: OutputSymbol>(
        &mut self,
        stored: &dyn Content,
        length: u16,
        out: &mut OutputBuffer<'_, S>,
    ) -> Result<bool, Wrong> {
        let mut bytes_left = usize::from(length);
        while bytes_left > 0 && out.filled < out.items.len() {
            let bytes = self.input.from(stored, self.bit >> 3, 1);
            let room = &mut out.items[out.filled..];
            let count = bytes_left.min(bytes.len()).min(room.len());
            if count == 0 {
                return Err(Wrong::Short);
            }
            for (to, &byte) in room[..count].iter_mut().zip(bytes) {
                *to = S::from_byte(byte);
            }
            out.filled += count;
            bytes_left -= count;
            self.bit += 8 * count as u64;
            self.state = BlockState::Stored(bytes_left as u16);
        }
        Ok(bytes_left == 0)
    }

    /// Decodes the symbols of a block; true if the block ended.
    fn symbols<S: OutputSymbol>(
        &mut self,
        stored: &dyn Content,
        out: &mut OutputBuffer<'_, S>,
    ) -> Result<bool, Wrong> {
        loop {
            let byte = self.bit >> 3;
            let bytes = self.input.from(stored, byte, SYMBOLS_BYTES);
            let ended = bytes.len() < SYMBOLS_BYTES;
            let mut bits = Bits::new(bytes, (self.bit & 7) as usize);
            let reason = match fast::decode(&self.codes, &mut bits, out) {
                fast::LoopExit::EndOfBlock => Ok(careful::LoopExit::EndOfBlock),
                fast::LoopExit::Unfinished => careful::decode(&self.codes, &mut bits, ended, out),
            };
            self.bit = byte * 8 + bits.at as u64;
            match reason? {
                careful::LoopExit::Input => {}
                careful::LoopExit::Full(rest) => {
                    self.rest = rest;
                    return Ok(false);
                }
                careful::LoopExit::EndOfBlock => return Ok(true),
            }
        }
    }

    /// True if a dynamic block that is not the last may begin at the current position, as for a
    /// [`BlockFinder`](super::BlockFinder).
    pub(super) fn at_plausible_block(&mut self, stored: &dyn Content) -> bool {
        let bytes = self.input.from(stored, self.bit >> 3, HEADER_BYTES);
        self.state == BlockState::Between && header::is_plausible(bytes, (self.bit & 7) as usize)
    }

    fn fault(&mut self, wrong: Wrong, offset: u64) -> Fault {
        let why = match (wrong, self.input.take_error()) {
            (Wrong::Bits(reason), _) => Cause::Broken(reason),
            (Wrong::Short, Some(error)) => Cause::Unreadable(error),
            (Wrong::Short, None) => Cause::Cut,
        };
        Fault { bit: self.bit, offset, why }
    }
}

/// Room, in items, in which the decoder can always finish the current symbol.
pub(super) const SYMBOL_ROOM: usize = MAX_LENGTH;
