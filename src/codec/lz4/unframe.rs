//! Decoding of LZ4 frames from the start of a part on.

use twox_hash::XxHash32;

use super::format::{BlockSize, Blocks, Next};
use super::running::Running;
use super::{block, whole};
use crate::codec::input::Input;
use crate::codec::parts::{PartDecoder, PartStart, Stopped};
use crate::error::{Error, Result};

/// Maximum distance of a match.
const WINDOW: usize = 64 << 10;

/// A decoder of frames from the start of a part on.
pub(super) struct Unframing {
    input: Input,
    /// The blocks of the current frame.
    blocks: Option<Blocks>,
    /// The last output of a linked frame.
    window: Vec<u8>,
    until: Option<PartStart>,
    /// Checksum and length of the frame so far, if it was followed from its start on.
    running: Option<Running>,
    /// The stored checksum of the last frame's content, if there is one.
    sum: Option<u32>,
    /// Without `until`, decoding stops after this many bytes.
    part: u64,
    made: u64,
    /// True if the stream has ended in order.
    ended: bool,
    /// Buffer for a block that is not contiguous in the read buffer.
    block: Vec<u8>,
    /// The error after the good bytes of a broken block.
    broken: Option<Error>,
}

impl Unframing {
    /// Returns a decoder from a part start to another (`until`), or to one of its choice after `part` bytes.
    pub(super) fn new(
        input: Input,
        from: PartStart,
        window: Vec<u8>,
        until: Option<PartStart>,
        running: Option<Running>,
        part: u64,
    ) -> Self {
        let blocks = Blocks::from_state(from.state);
        let (sum, block) = (None, Vec::new());
        let (made, ended, broken) = (0, false, None);
        Self { input, blocks, window, until, running, sum, part, made, ended, block, broken }
    }

    /// Returns checksum and length of the current frame so far, if known.
    pub(super) fn into_running(self) -> Option<Running> {
        self.running
    }

    /// Compares the checksum of the frame that has ended with `running`, which other decoders have computed.
    pub(super) fn check(&self, running: &Running) -> Result<()> {
        running.check(self.sum, &self.input)
    }

    /// Returns the current position as a part start.
    pub(super) fn cut(&self) -> PartStart {
        PartStart { stored: self.input.position(), state: self.blocks.map_or(0, Blocks::to_state) }
    }

    fn is_at_stop(&self) -> bool {
        match self.until {
            Some(until) => self.input.position() >= until.stored,
            // An end mark belongs to the part before it.
            None => self.made >= self.part,
        }
    }

    /// Begins the next frame, if there is one.
    fn begin(&mut self) -> Result<()> {
        let position = self.input.position();
        match Next::read(&mut self.input)? {
            Next::Frame(header) => {
                self.window.clear();
                self.blocks = Some(header.blocks);
                self.running = Some(Running::new(header));
            }
            Next::Skipped => {}
            Next::Nothing if position > 0 => self.ended = true,
            Next::Nothing | Next::Legacy => return Err(self.input.damaged("is not an LZ4 frame")),
        }
        Ok(())
    }

    /// Ends a frame, after its end mark.
    fn finish(&mut self, blocks: Blocks) -> Result<()> {
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

    /// Decodes a block into `out` from `end` on; the bytes before, back to `floor`, are of the same frame.
    fn block(
        &mut self,
        blocks: Blocks,
        size: BlockSize,
        out: &mut Vec<u8>,
        floor: usize,
        end: usize,
    ) -> Result<usize> {
        let (len, longest) = (size.stored, blocks.longest());
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
        if out.len() < end + longest {
            out.resize(end + longest, 0);
        }
        // Start of the bytes to which matches may reach back.
        let known = if blocks.linked { floor.max(end.saturating_sub(WINDOW)) } else { end };
        let decoded = if size.raw {
            out.get_mut(end..end + len).map(|after| {
                after.copy_from_slice(data);
                len
            })
        } else {
            let room = out.get_mut(known..end + longest);
            room.and_then(|room| whole::decode(data, room, end - known))
        };
        if let Some(decoded) = decoded.filter(|_| right) {
            if at_hand {
                self.input.take(whole);
            }
            return Ok(decoded);
        }
        Err(self.input.damaged("a block of the LZ4 frame is broken"))
    }

    /// Decodes the good bytes of the broken block at `begin` into `out` from `end` on.
    fn prefix(
        &mut self,
        blocks: Blocks,
        size: BlockSize,
        begin: u64,
        (out, floor, end): (&mut Vec<u8>, usize, usize),
    ) -> usize {
        let stop = begin.saturating_add(size.stored as u64);
        let mut input = self.input.again(begin, stop);
        if blocks.after() > 0 && !input.ends_early(stop) {
            // Its own checksum is wrong, which does not tell where the damage is.
            return 0;
        }
        let good = if size.raw {
            let mut raw = Vec::new();
            // The bytes before an error are kept.
            let _ = std::io::Read::read_to_end(&mut input, &mut raw);
            raw
        } else {
            let floor = if blocks.linked { floor.max(end.saturating_sub(WINDOW)) } else { end };
            block::prefix(input, out.get(floor..end).unwrap_or_default(), blocks.longest() as u64)
        };
        if out.len() < end + good.len() {
            out.resize(end + good.len(), 0);
        }
        out[end..end + good.len()].copy_from_slice(&good);
        good.len()
    }

    /// Decodes blocks until `out` is `least` bytes longer than `start`; returns the end of the output.
    fn decode(&mut self, out: &mut Vec<u8>, start: usize, least: usize) -> (usize, Result<()>) {
        let (mut end, mut floor) = (start, 0);
        while end - start < least && !self.ended && self.broken.is_none() {
            let Some(blocks) = self.blocks else {
                if self.is_at_stop() {
                    break;
                }
                floor = end;
                match self.begin() {
                    Ok(()) => continue,
                    Err(error) => return (end, Err(error)),
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
                self.block(blocks, size, out, floor, end).map(Some).or_else(|error| {
                    let decoded = self.prefix(blocks, size, begin, (&mut *out, floor, end));
                    if decoded == 0 || !error.lasts() {
                        return Err(error);
                    }
                    self.broken = Some(error);
                    Ok(Some(decoded))
                })
            };
            match step() {
                Ok(Some(decoded)) => {
                    if let (Some(running), Some(bytes)) = (&mut self.running, out.get(end..end + decoded)) {
                        running.take(bytes);
                    }
                    self.made = self.made.saturating_add(decoded as u64);
                    end += decoded;
                }
                Ok(None) => break,
                Err(error) => return (end, Err(error)),
            }
        }
        (end, Ok(()))
    }

    fn is_at_end_mark(&mut self) -> Result<bool> {
        Ok(self.until.is_none() && self.input.magic()? == [0; 4])
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
        Stopped { next: self.cut(), ended: self.ended, window }
    }

    fn weight(&self) -> u64 {
        (self.block.capacity() + self.window.capacity()) as u64 + (128 << 10)
    }
}
