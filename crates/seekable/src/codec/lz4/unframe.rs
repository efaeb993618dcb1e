//! Decoding of LZ4 frames from the start of a part on.

use twox_hash::XxHash32;

use super::format::{BlockSize, FrameBlocks, FrameStart};
use super::running::Running;
use super::{block, whole};
use crate::codec::input::Input;
use crate::codec::parts::{PartDecoder, PartStart, Stopped};
use crate::error::{Error, Result};

/// Maximum distance of a match.
const WINDOW: usize = 64 << 10;

/// The end of the part that a decoder is to decode.
pub(super) enum PartEnd {
    /// The start of the next part.
    At(PartStart),
    /// A position of the decoder's choice after this many bytes.
    After(u64),
}

/// Output of which the bytes before `end` are decoded; bytes after it may be overwritten.
struct FrameOutput<'a> {
    bytes: &'a mut Vec<u8>,
    /// The start of the current frame, or of the window.
    floor: usize,
    end: usize,
}

impl FrameOutput<'_> {
    /// Returns the start of the bytes to which the matches of the next block may reach back.
    fn reach(&self, blocks: FrameBlocks) -> usize {
        if blocks.linked { self.floor.max(self.end.saturating_sub(WINDOW)) } else { self.end }
    }

    /// Returns the buffer from `start` on, with room for `len` bytes after the decoded ones.
    fn room(&mut self, start: usize, len: usize) -> Option<&mut [u8]> {
        let end = self.end + len;
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes.get_mut(start..end)
    }
}

/// A decoder of frames from the start of a part on.
pub(super) struct Unframing {
    input: Input,
    /// The properties of the blocks of the current frame; `None` between frames.
    blocks: Option<FrameBlocks>,
    /// The last output of a linked frame.
    window: Vec<u8>,
    part_end: PartEnd,
    /// Checksum and length of the frame so far, if the frame was decoded from its start on.
    pub(super) running: Option<Running>,
    /// The stored checksum of the last frame's content, if there is one.
    sum: Option<u32>,
    /// Number of bytes decoded of the part.
    made: u64,
    /// True if the stream has ended without damage.
    ended: bool,
    /// Buffer for a block that is not contiguous in the read buffer.
    block: Vec<u8>,
    /// The error after the good bytes of a broken block.
    broken: Option<Error>,
}

impl Unframing {
    /// Returns a decoder of a part.
    pub(super) fn new(input: Input, from: PartStart, window: Vec<u8>, part_end: PartEnd) -> Self {
        let blocks = FrameBlocks::from_state(from.state);
        Self {
            input,
            blocks,
            window,
            part_end,
            running: None,
            sum: None,
            made: 0,
            ended: false,
            block: Vec::new(),
            broken: None,
        }
    }

    /// Sets the checksum and the length of the part of the frame that was decoded before, if they are known.
    pub(super) fn with_running(self, running: Option<Running>) -> Self {
        Self { running, ..self }
    }

    /// Compares the checksum of the frame that has ended with `running`, which other decoders have computed.
    pub(super) fn check(&self, running: &Running) -> Result<()> {
        running.check(self.sum, &self.input)
    }

    /// Returns the current position as a part start.
    pub(super) fn part_start(&self) -> PartStart {
        PartStart { stored: self.input.position(), state: self.blocks.map_or(0, FrameBlocks::to_state) }
    }

    fn is_at_stop(&self) -> bool {
        match self.part_end {
            PartEnd::At(next) => self.input.position() >= next.stored,
            // An end mark belongs to the part before it.
            PartEnd::After(len) => self.made >= len,
        }
    }

    /// Begins the next frame, if there is one.
    fn begin(&mut self) -> Result<()> {
        let position = self.input.position();
        match FrameStart::read(&mut self.input)? {
            FrameStart::Frame(header) => {
                self.window.clear();
                self.blocks = Some(header.blocks);
                self.running = Some(Running::new(header));
            }
            FrameStart::Skipped => {}
            FrameStart::Nothing if position > 0 => self.ended = true,
            FrameStart::Nothing | FrameStart::Legacy => {
                return Err(self.input.damaged("is not an LZ4 frame"));
            }
        }
        Ok(())
    }

    /// Ends a frame, after its end mark.
    fn finish(&mut self, blocks: FrameBlocks) -> Result<()> {
        self.blocks = None;
        self.sum = None;
        if blocks.content_checked {
            if self.input.at_least(4)?.len() < 4 {
                return Err(self.input.cut_off());
            }
            self.sum = Some(u32::from_le_bytes(self.input.magic()?));
            self.input.take(4);
        }
        match self.running.take() {
            Some(running) => running.check(self.sum, &self.input),
            None => Ok(()),
        }
    }

    /// Decodes a block, appends it to the output, and returns its length.
    fn block(&mut self, blocks: FrameBlocks, size: BlockSize, out: &mut FrameOutput<'_>) -> Result<usize> {
        let len = size.stored;
        let longest = blocks.longest();
        let whole = len + blocks.after() as usize;
        let at_hand = self.input.at_least(whole)?.len() >= whole;
        if !at_hand {
            let mut block = std::mem::take(&mut self.block);
            let gathered = self.input.gather(whole, &mut block).map(drop);
            self.block = block;
            gathered?;
        }
        let bytes = if at_hand { self.input.at_least(whole)? } else { &self.block[..] };
        let Some((data, sum)) = bytes.get(..whole).and_then(|bytes| bytes.split_at_checked(len)) else {
            return Err(self.input.cut_off());
        };
        let right =
            sum.first_chunk().is_none_or(|&sum| XxHash32::oneshot(0, data) == u32::from_le_bytes(sum));
        let known = if size.raw { out.end } else { out.reach(blocks) };
        let before = out.end - known;
        let room = out.room(known, longest);
        let decoded = room.and_then(|room| {
            if size.raw {
                room.get_mut(..len)?.copy_from_slice(data);
                Some(len)
            } else {
                whole::decode(data, room, before)
            }
        });
        if right && let Some(decoded) = decoded {
            if at_hand {
                self.input.take(whole);
            }
            return Ok(decoded);
        }
        Err(self.input.damaged("a block of the LZ4 frame is broken"))
    }

    /// Decodes the good bytes of the broken block at `begin`, appends them to the output, and returns their
    /// number.
    fn prefix(
        &mut self,
        blocks: FrameBlocks,
        size: BlockSize,
        begin: u64,
        out: &mut FrameOutput<'_>,
    ) -> usize {
        let stop = begin.saturating_add(size.stored as u64);
        let mut input = self.input.again(begin, stop);
        if blocks.after() > 0 && !input.ends_early(stop) {
            // The block's checksum is wrong, which does not tell where the damage is.
            return 0;
        }
        let good = if size.raw {
            let mut raw = Vec::new();
            // The bytes before an error are kept.
            let _ = std::io::Read::read_to_end(&mut input, &mut raw);
            raw
        } else {
            let window = out.bytes.get(out.reach(blocks)..out.end).unwrap_or_default();
            block::prefix(input, window, blocks.longest() as u64)
        };
        if let Some(room) = out.room(out.end, good.len()) {
            room.copy_from_slice(&good);
        }
        good.len()
    }

    /// Decodes blocks until `out` is `least` bytes longer than `start`; returns the end of the output.
    fn decode(&mut self, out: &mut Vec<u8>, start: usize, least: usize) -> (usize, Result<()>) {
        let mut out = FrameOutput { bytes: out, floor: 0, end: start };
        while out.end - start < least && !self.ended && self.broken.is_none() {
            let Some(blocks) = self.blocks else {
                if self.is_at_stop() {
                    break;
                }
                out.floor = out.end;
                match self.begin() {
                    Ok(()) => continue,
                    Err(error) => return (out.end, Err(error)),
                }
            };
            let mut step = || {
                if self.is_at_stop() && !self.is_at_end_mark()? {
                    return Ok(None);
                }
                let Some(size) = BlockSize::read(&mut self.input, blocks)? else {
                    self.finish(blocks)?;
                    return Ok(Some(0));
                };
                let begin = self.input.position();
                self.block(blocks, size, &mut out).map(Some).or_else(|error| {
                    let decoded = self.prefix(blocks, size, begin, &mut out);
                    if decoded == 0 || !error.lasts() {
                        return Err(error);
                    }
                    self.broken = Some(error);
                    Ok(Some(decoded))
                })
            };
            match step() {
                Ok(Some(decoded)) => {
                    let end = out.end + decoded;
                    if let (Some(running), Some(bytes)) = (&mut self.running, out.bytes.get(out.end..end)) {
                        running.add(bytes);
                    }
                    self.made = self.made.saturating_add(decoded as u64);
                    out.end = end;
                }
                Ok(None) => break,
                Err(error) => return (out.end, Err(error)),
            }
        }
        (out.end, Ok(()))
    }

    fn is_at_end_mark(&mut self) -> Result<bool> {
        Ok(matches!(self.part_end, PartEnd::After(_)) && self.input.magic()? == [0; 4])
    }
}

impl PartDecoder for Unframing {
    fn more(&mut self, out: &mut Vec<u8>, least: usize) -> Result<usize> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let start = self.window.len();
        if out.len() < start {
            out.resize(start, 0);
        }
        out[..start].copy_from_slice(&self.window);
        let (end, decoded) = self.decode(out, start, least);
        out.truncate(end);
        // Blocks before the damage come from the library.
        decoded?;
        if self.blocks.is_some_and(|blocks| blocks.linked) {
            let from = end.saturating_sub(WINDOW);
            self.window.clear();
            self.window.extend_from_slice(out.get(from..end).unwrap_or_default());
        } else {
            self.window.clear();
        }
        Ok(start)
    }

    fn stopped(&mut self) -> Stopped {
        self.made = 0;
        let window = if self.ended { Vec::new() } else { self.window.clone() };
        Stopped { next: self.part_start(), ended: self.ended, window }
    }

    fn weight(&self) -> u64 {
        (self.block.capacity() + self.window.capacity()) as u64 + (128 << 10)
    }
}
