//! LZ4 frames, one after the other: cut between their blocks.
//!
//! A block of an independent frame needs nothing of what is before it; a linked one needs the last 64 KiB.
//! How much a block decodes to does not show, but each decodes to no more than its frame allows, and
//! all but the last of a frame to just that if the writer had enough to write. The last one of each is
//! measured ([`decoded_len`]). When what that makes is exactly what there is, then every block decodes
//! to what was supposed.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::format::{BlockSize, Blocks, Next, decoded_len};
use super::running::Running;
use super::unframe::Unframing;
use crate::codec::input::Input;
use crate::codec::parts::{Hop, PartStart, Parts};
use crate::content::Content;
use crate::error::Result;

/// Bytes read to get at a header, and at those of small blocks behind it.
const HOP: usize = 4 << 10;

/// Stored bytes that a part of frames has at most, should they all be empty.
const MOST_STORED: u64 = 1 << 20;

/// Decoded bytes that a part has, as a rule.
const PART: u64 = 1 << 20;

/// Parts that a block is cut into, as a rule at most.
const PARTS: u64 = 1 << 16;
/// The same where each needs a window, of which there is room for so many in a temporary file.
const LINKED_PARTS: u64 = 1 << 12;

/// Bytes of a decoder: a block, compressed and not, and room to read.
const WEIGHT: u64 = 9 << 20;

/// LZ4 frames, and what they are cut into.
pub(super) struct Frames {
    stored: Arc<dyn Content>,
    data_size: u64,
    /// The checksum of a frame that has been decoded in order up to a part start.
    running: Mutex<Option<(PartStart, Running)>>,
}

impl Frames {
    /// The frames in `stored`, of `data_size` bytes together as the header says.
    pub(super) fn new(stored: Arc<dyn Content>, data_size: u64) -> Self {
        Self { stored, data_size, running: Mutex::default() }
    }

    fn part_len(&self, parts: u64) -> u64 {
        (self.data_size / parts).next_power_of_two().max(PART)
    }

    /// What is known of the frame that is cut here, if it was decoded in order up to here.
    fn running_at(&self, cut: PartStart) -> Option<Running> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().filter(|(at, _)| *at == cut && cut.state != 0).map(|(_, running)| running.clone())
    }

    fn goes_on(&self, cut: PartStart, running: Running) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some((cut, running));
    }

    /// The number of bytes that the block behind `size` decodes to.
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

/// A hop from one cut to the next.
struct Hopping<'a> {
    frames: &'a Frames,
    input: Input,
    far: bool,
    from: PartStart,
    least: u64,
    most: u64,
    len: Option<u64>,
    /// The last block, while it is not known whether it is the last of its frame.
    last: Option<(BlockSize, u64)>,
}

impl Hopping<'_> {
    fn to(&self, next: PartStart) -> Hop {
        Hop::To { next, most: self.most, len: self.len.filter(|_| self.far) }
    }

    /// Hops over blocks up to behind the end mark, or up to the first part start that may be.
    fn blocks(&mut self, blocks: Blocks) -> Result<Option<PartStart>> {
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
            // Those before it are not the last of their frame: all of them may be full.
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

    fn hop(mut self) -> Result<Hop> {
        if let Some(blocks) = Blocks::from_state(self.from.state) {
            if blocks.linked {
                return Ok(Hop::Unknown);
            }
            // A frame that is cut ends with a part, so that its checksum is that of the last one.
            let cut = self.blocks(blocks)?;
            return Ok(self.to(cut.unwrap_or(PartStart { stored: self.input.position(), state: 0 })));
        }
        loop {
            let here = PartStart { stored: self.input.position(), state: 0 };
            let is_first = here.stored == self.from.stored;
            if !is_first && (self.most >= self.least || here.stored - self.from.stored > MOST_STORED) {
                return Ok(self.to(here));
            }
            let before = (self.most, self.len);
            let cut = match Next::read(&mut self.input)? {
                Next::Nothing if is_first && here.stored > 0 => return Ok(Hop::End),
                Next::Skipped => continue,
                Next::Frame(header) if !header.blocks.linked => self.blocks(header.blocks)?,
                _ if is_first => return Ok(Hop::Unknown),
                _ => return Ok(self.to(here)),
            };
            match cut {
                None => {}
                Some(cut) if is_first => return Ok(self.to(cut)),
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

    fn hop(&self, from: PartStart, far: bool) -> Result<Hop> {
        let input = Input::range(&self.stored, from.stored, u64::MAX).in_reads_of(HOP);
        let least = self.part_len(PARTS);
        Hopping { frames: self, input, far, from, least, most: 0, len: Some(0), last: None }.hop()
    }

    fn start(&self, from: PartStart, window: Vec<u8>, until: Option<PartStart>) -> Result<Unframing> {
        let end = until.map_or(u64::MAX, |until| until.stored);
        let input = Input::range(&self.stored, from.stored, end);
        let running = self.running_at(from);
        Ok(Unframing::new(input, from, window, until, running, self.part_len(LINKED_PARTS)))
    }

    fn leave(&self, decoder: Unframing) {
        let cut = decoder.cut();
        if let Some(running) = decoder.into_running() {
            self.goes_on(cut, running);
        }
    }

    fn follow(&self, from: PartStart, bytes: &[u8], decoder: &Unframing) -> Result<()> {
        if from.state == 0 {
            // It has followed each frame from its start on.
            return Ok(());
        }
        let Some(mut running) = self.running_at(from) else { return Ok(()) };
        running.take(bytes);
        match decoder.cut() {
            PartStart { state: 0, .. } => decoder.check(&running),
            cut => {
                self.goes_on(cut, running);
                Ok(())
            }
        }
    }

    fn weight(&self) -> u64 {
        WEIGHT
    }
}
