//! LZ4 frames, one after the other, cut into parts between their blocks.
//!
//! A block of an independent frame needs no earlier output; a linked block needs the last 64 KiB. The decoded
//! size of a block is not stored. The frame's header gives the maximum, and all blocks but the last of a
//! frame have the maximum size if the writer had enough data. The last block of each frame is measured
//! ([`decoded_len`]). If the resulting sum equals the actual data size, each assumed block size is right.

use std::fmt;
use std::sync::{Arc, Mutex};

use super::format::{BlockSize, FrameBlocks, FrameStart, decoded_len};
use super::running::Running;
use super::unframe::{PartEnd, Unframing};
use crate::codec::input::Input;
use crate::codec::parts::{NextPart, PartStart, Parts};
use crate::content::Content;
use crate::error::Result;
use crate::sync::locked;

/// Bytes read at a time to get headers: the headers of small blocks are read together.
const HEADER_READ: usize = 4 << 10;

/// Maximum number of stored bytes in a part of several frames, which may all be empty.
const MAX_STORED: u64 = 1 << 20;

/// Usual number of decoded bytes in a part.
const PART: u64 = 1 << 20;

/// Usual maximum number of parts of a stream.
const PARTS: u64 = 1 << 16;
/// Usual maximum number of parts of a linked stream: each needs a window in a temporary file.
const LINKED_PARTS: u64 = 1 << 12;

/// Memory of a decoder: a block, compressed and not, and a read buffer.
const WEIGHT: u64 = 9 << 20;

/// A stream of LZ4 frames that is cut into parts.
pub(super) struct Frames {
    stored: Arc<dyn Content>,
    data_size: u64,
    /// Checksum and length of a frame that was decoded in order up to a part start.
    running: Mutex<Option<(PartStart, Running)>>,
}

impl Frames {
    /// Returns the frames in `stored`, which together decode to `data_size` bytes.
    pub(super) fn new(stored: Arc<dyn Content>, data_size: u64) -> Self {
        Self { stored, data_size, running: Mutex::default() }
    }

    fn part_len(&self, parts: u64) -> u64 {
        (self.data_size / parts).next_power_of_two().max(PART)
    }

    /// Returns checksum and length of the frame up to `start`, if the frame was decoded in order up to `start`.
    fn running_at(&self, start: PartStart) -> Option<Running> {
        let running = locked(&self.running);
        running
            .as_ref()
            .filter(|(at, _)| *at == start && start.state != 0)
            .map(|(_, running)| running.clone())
    }

    fn goes_on(&self, start: PartStart, running: Running) {
        *locked(&self.running) = Some((start, running));
    }

    /// Returns the decoded size of the block with the size field `size`; `None` if its lengths are invalid.
    fn measure(&self, size: BlockSize, at: u64) -> Result<Option<u64>> {
        if size.raw {
            return Ok(Some(size.stored as u64));
        }
        let mut block = Vec::new();
        let end = at.saturating_add(size.stored as u64);
        Input::range(&self.stored, at, end).gather(size.stored, &mut block)?;
        Ok(decoded_len(&block))
    }
}

impl fmt::Debug for Frames {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Frames").field(&self.stored.len()).finish()
    }
}

/// The state of the scan of headers from one part start to the next.
struct HeaderScan<'a> {
    frames: &'a Frames,
    input: Input,
    far: bool,
    from: PartStart,
    least: u64,
    most: u64,
    len: Option<u64>,
    /// The latest block, until it is known whether it is the last of its frame.
    last: Option<(BlockSize, u64)>,
}

impl HeaderScan<'_> {
    fn to(&self, next: PartStart) -> NextPart {
        NextPart::To { next, most: self.most, len: self.len.filter(|_| self.far) }
    }

    /// Skips blocks, header by header, to the end mark and past it, or to the first possible part start.
    fn blocks(&mut self, blocks: FrameBlocks) -> Result<Option<PartStart>> {
        loop {
            let stored = self.input.position();
            let Some(size) = BlockSize::read(&mut self.input, blocks)? else {
                if let Some((size, at)) = self.last.take()
                    && self.far
                {
                    let len = self.frames.measure(size, at)?;
                    self.len = self.len.zip(len).map(|(all, len)| all.saturating_add(len));
                }
                self.input.skip(if blocks.content_checked { 4 } else { 0 });
                return Ok(None);
            };
            // Only the last block of a frame is measured. The previous block was not the last one, so its
            // decoded size is assumed to be the maximum.
            if self.last.take().is_some() {
                self.len = self.len.map(|all| all.saturating_add(blocks.longest() as u64));
            }
            if self.most >= self.least {
                return Ok(Some(PartStart { stored, state: blocks.to_state() }));
            }
            self.last = Some((size, self.input.position()));
            self.most = self.most.saturating_add(blocks.longest() as u64);
            self.input.skip(size.stored as u64 + blocks.after());
        }
    }

    fn next_part(mut self) -> Result<NextPart> {
        if let Some(blocks) = FrameBlocks::from_state(self.from.state) {
            if blocks.linked {
                return Ok(NextPart::Unknown);
            }
            // A part that begins within a frame ends with the frame at the latest: the frame's checksum
            // belongs to its last part.
            let next = self.blocks(blocks)?;
            return Ok(self.to(next.unwrap_or(PartStart { stored: self.input.position(), state: 0 })));
        }
        loop {
            let here = PartStart { stored: self.input.position(), state: 0 };
            let is_first = here.stored == self.from.stored;
            if !is_first && (self.most >= self.least || here.stored - self.from.stored > MAX_STORED) {
                return Ok(self.to(here));
            }
            let before = (self.most, self.len);
            let next = match FrameStart::read(&mut self.input)? {
                FrameStart::Nothing if is_first && here.stored > 0 => return Ok(NextPart::End),
                FrameStart::Skipped => continue,
                FrameStart::Frame(header) if !header.blocks.linked => self.blocks(header.blocks)?,
                _ if is_first => return Ok(NextPart::Unknown),
                _ => return Ok(self.to(here)),
            };
            match next {
                None => {}
                Some(start) if is_first => return Ok(self.to(start)),
                Some(_) => {
                    (self.most, self.len) = before;
                    return Ok(self.to(here));
                }
            }
        }
    }
}

impl Parts for Frames {
    type Decoder = Unframing;

    const CERTAIN: bool = false;

    fn next_part(&self, from: PartStart, far: bool) -> Result<NextPart> {
        let input = Input::range(&self.stored, from.stored, u64::MAX).in_reads_of(HEADER_READ);
        let least = self.part_len(PARTS);
        HeaderScan { frames: self, input, far, from, least, most: 0, len: Some(0), last: None }.next_part()
    }

    fn start(&self, from: PartStart, window: Vec<u8>, until: Option<PartStart>) -> Result<Unframing> {
        let end = until.map_or(u64::MAX, |until| until.stored);
        let input = Input::range(&self.stored, from.stored, end);
        let part_end = until.map_or(PartEnd::After(self.part_len(LINKED_PARTS)), PartEnd::At);
        Ok(Unframing::new(input, from, window, part_end).with_running(self.running_at(from)))
    }

    fn leave(&self, decoder: Unframing) {
        let start = decoder.part_start();
        if let Some(running) = decoder.running {
            self.goes_on(start, running);
        }
    }

    fn follow(&self, from: PartStart, bytes: &[u8], decoder: &Unframing) -> Result<()> {
        if from.state == 0 {
            // The decoder has followed each frame from its start.
            return Ok(());
        }
        let Some(mut running) = self.running_at(from) else { return Ok(()) };
        running.add(bytes);
        match decoder.part_start() {
            PartStart { state: 0, .. } => decoder.check(&running),
            start => {
                self.goes_on(start, running);
                Ok(())
            }
        }
    }

    fn weight(&self) -> u64 {
        WEIGHT
    }
}
