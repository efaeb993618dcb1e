//! A piece of a stream that is decoded before the output in front of it is known.
//!
//! First stage, on any thread: from a bit where a block may begin, decode into symbols of 16 bits, with
//! a marker for each byte of the unknown 32 KiB before it. Once the last 32 KiB hold no marker, go on
//! in bytes. Then, in the stream's order and quickly: [`Resolver::window_at`](super::resolver::Resolver::window_at) gives the window after a
//! piece from the one before it. Second stage, on any thread again: [`Resolver::write`](super::resolver::Resolver::write) replaces the markers.
//!
//! On the way places are marked where decoding can start again; [`Piece::checkpoints`] makes checkpoints
//! of them once the piece's bytes are known.
//!
//! Whether there was a block at that bit is known when decoding up to there ends at just that bit. A
//! piece holds a bounded amount of output; where it had to stop within a block, it says the place.

use super::WINDOW;
use super::checkpoint::Checkpoint;
use super::fault::Fault;
use super::inflate::{Inflate, Position, Stop};
use super::probe::{PROBE, Probe, Probed, Used};
use super::unit::MARKER;
use crate::content::Content;

/// By how many items the buffers grow, and after how many it is looked whether markers are gone.
const GROWTH: usize = 128 << 10;

/// Why a piece ends where it does.
#[derive(Clone, Debug)]
pub enum Ending {
    /// A block begins there that a [`Finder`](super::Finder) finds.
    Block,
    /// The cap is reached; perhaps within a block.
    Full,
    /// The stream ends.
    End,
    /// Nothing can be decoded any further; or there was no block at the start.
    Fault(Fault),
}

/// What of a stream a piece is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceRequest {
    /// Where it begins. Its offset may be anything as long as it isn't known: places and faults count
    /// from it.
    pub start: Position,
    /// It ends at the first block at or after this bit that a [`Finder`](super::Finder) finds.
    pub until: u64,
    /// It ends before, between two symbols, when it holds so many bytes of output, or 257 more.
    pub cap: usize,
    /// After how many bytes of output, counted from its start, a place is marked; 0 for never.
    pub spacing: usize,
}

/// A piece of output, some of it perhaps as markers. Its buffers are used again by the next one.
#[derive(Debug)]
pub struct Piece {
    stretch: PieceRequest,
    end: Position,
    ending: Ending,
    probe: Probe,
    marks: Vec<Probed>,
    /// The markers of a window, then output that may have markers.
    symbols: Vec<u16>,
    symbols_end: usize,
    /// Whether output goes to `bytes` now.
    in_bytes: bool,
    /// A window, then output that comes after that in `symbols`.
    bytes: Vec<u8>,
    bytes_start: usize,
    bytes_end: usize,
}

impl Default for Piece {
    fn default() -> Self {
        Self::new()
    }
}

impl Piece {
    /// An empty piece.
    pub fn new() -> Self {
        let nowhere = Position::block_at(0, 0);
        Self {
            stretch: PieceRequest { start: nowhere, until: 0, cap: 0, spacing: 0 },
            end: nowhere,
            ending: Ending::Full,
            probe: Probe::new(),
            marks: Vec::new(),
            symbols: (MARKER..=u16::MAX).collect(),
            symbols_end: WINDOW,
            in_bytes: false,
            bytes: Vec::new(),
            bytes_start: 0,
            bytes_end: 0,
        }
    }

    /// Decodes the piece: the first stage.
    ///
    /// With the `window` before it (32 KiB, or all there is) the output is all bytes.
    pub fn decode(
        &mut self,
        inflate: &mut Inflate,
        stored: &dyn Content,
        stretch: PieceRequest,
        window: Option<&[u8]>,
    ) {
        self.stretch = stretch;
        self.marks.clear();
        self.symbols_end = WINDOW;
        (self.in_bytes, self.bytes_start, self.bytes_end) = (false, 0, 0);
        if let Some(window) = window {
            self.begin_bytes(window.iter().copied());
        }
        self.ending = match inflate.start(stored, stretch.start) {
            Ok(()) => self.fill(inflate, stored),
            Err(fault) => Ending::Fault(fault),
        };
        self.end = inflate.place();
    }

    fn fill(&mut self, inflate: &mut Inflate, stored: &dyn Content) -> Ending {
        let PieceRequest { until, cap, spacing, .. } = self.stretch;
        let mut due = if spacing == 0 { usize::MAX } else { spacing };
        loop {
            let (len, pending) = (self.len(), inflate.pending());
            let stop = if pending > 0 {
                self.fill_some(inflate, stored, pending)
            } else if len >= cap {
                return Ending::Full;
            } else if len >= due {
                due = len.saturating_add(spacing);
                self.mark(inflate, stored)
            } else {
                self.fill_some(inflate, stored, (cap - len).min(due - len).min(GROWTH))
            };
            match stop {
                Err(fault) => return Ending::Fault(fault),
                Ok(Stop::End) => return Ending::End,
                Ok(Stop::Block) if meets(inflate, stored, until) => return Ending::Block,
                Ok(_) => {}
            }
            if !self.in_bytes && self.is_clear() {
                let clear = self.symbols_end - WINDOW..self.symbols_end;
                let symbols = std::mem::take(&mut self.symbols);
                self.begin_bytes(symbols[clear].iter().map(|&symbol| symbol as u8));
                self.symbols = symbols;
            }
        }
    }

    /// Decodes `room` items at most, or to the end of a block.
    fn fill_some(&mut self, inflate: &mut Inflate, stored: &dyn Content, room: usize) -> Result<Stop, Fault> {
        let stop;
        if self.in_bytes {
            let out = grown(&mut self.bytes, self.bytes_end + room);
            (self.bytes_end, stop) = inflate.run(stored, out, self.bytes_end, true);
        } else {
            let out = grown(&mut self.symbols, self.symbols_end + room);
            (self.symbols_end, stop) = inflate.run(stored, out, self.symbols_end, true);
        }
        stop
    }

    /// Marks this place, which decodes what comes after it.
    fn mark(&mut self, inflate: &mut Inflate, stored: &dyn Content) -> Result<Stop, Fault> {
        let until = self.stretch.until;
        let go_on = |inflate: &mut Inflate| !meets(inflate, stored, until);
        let (mark, stop);
        if self.in_bytes {
            let out = grown(&mut self.bytes, self.bytes_end + PROBE);
            (mark, self.bytes_end, stop) = self.probe.mark(inflate, stored, out, self.bytes_end, go_on);
        } else {
            let out = grown(&mut self.symbols, self.symbols_end + PROBE);
            (mark, self.symbols_end, stop) = self.probe.mark(inflate, stored, out, self.symbols_end, go_on);
        }
        self.marks.extend(mark);
        stop
    }

    /// Whether the last 32 KiB hold no marker.
    fn is_clear(&self) -> bool {
        let last =
            self.symbols_end.checked_sub(WINDOW).and_then(|from| self.symbols.get(from..self.symbols_end));
        self.symbols_end >= 2 * WINDOW && last.is_some_and(|last| last.iter().all(|&symbol| symbol < MARKER))
    }

    /// Goes on in bytes, with these before.
    fn begin_bytes(&mut self, window: impl ExactSizeIterator<Item = u8>) {
        let len = window.len();
        for (to, byte) in grown(&mut self.bytes, len.max(1)).iter_mut().zip(window) {
            *to = byte;
        }
        (self.in_bytes, self.bytes_start, self.bytes_end) = (true, len, len);
    }

    /// Where it begins.
    pub fn start(&self) -> Position {
        self.stretch.start
    }

    /// Where it ends: where the next one has to begin, if anything comes after it.
    pub fn end(&self) -> Position {
        self.end
    }

    /// Why it ends there.
    pub fn ending(&self) -> &Ending {
        &self.ending
    }

    /// Bytes of output.
    pub fn len(&self) -> usize {
        self.symbols().len() + self.bytes().len()
    }

    /// Whether there is no output.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that its buffers take up.
    pub fn weight(&self) -> usize {
        2 * self.symbols.capacity() + self.bytes.capacity()
    }

    /// The output of the first part, with markers.
    pub(super) fn symbols(&self) -> &[u16] {
        &self.symbols[WINDOW..self.symbols_end]
    }

    /// The output after that.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.bytes_start..self.bytes_end]
    }

    /// Exchanges `out` for the output, if all of it was decoded behind a window that was known: the first bytes
    /// of `out` are of that window then, as many as it says. The piece has no output from there on.
    pub fn exchange(&mut self, out: &mut Vec<u8>) -> Option<usize> {
        if !self.symbols().is_empty() {
            return None;
        }
        let start = self.bytes_start;
        self.bytes.truncate(self.bytes_end);
        std::mem::swap(out, &mut self.bytes);
        (self.bytes_start, self.bytes_end) = (0, 0);
        Some(start)
    }

    /// The checkpoints within the piece, one at its start if that isn't the stream's and the piece was
    /// decoded without the window before it. Its output begins at `offset`; `window_at` gives the window so many
    /// bytes after that.
    pub fn checkpoints(&self, offset: u64, window_at: impl Fn(usize) -> Option<Vec<u8>>) -> Vec<Checkpoint> {
        let symbols = self.symbols();
        let first = symbols
            .first_chunk::<PROBE>()
            .map(|symbols| Probed { place: self.stretch.start, used: Used::by(symbols) });
        let marks = first.iter().filter(|_| self.stretch.spacing > 0).chain(&self.marks);
        let made = marks.filter_map(|mark| {
            let passed = mark.place.offset.checked_sub(self.stretch.start.offset)?;
            let window = window_at(usize::try_from(passed).ok()?)?;
            let place = Position { offset: offset.checked_add(passed)?, ..mark.place };
            Some(Checkpoint { place, window: mark.used.sparse(window) })
        });
        made.collect()
    }
}

/// Whether the decoder stands where a piece up to bit `until` ends and the next one begins.
fn meets(inflate: &mut Inflate, stored: &dyn Content, until: u64) -> bool {
    inflate.place().bit >= until && inflate.at_plausible_block(stored)
}

/// The first `len` items of a buffer that is made longer if need be.
fn grown<S: Copy + Default>(buffer: &mut Vec<S>, len: usize) -> &mut [S] {
    if buffer.len() < len {
        buffer.resize(len.next_multiple_of(GROWTH), S::default());
    }
    &mut buffer[..len]
}

#[cfg(test)]
impl Piece {
    /// Whether some of the output isn't known without the window.
    pub(super) fn has_markers(&self) -> bool {
        self.symbols().iter().any(|&symbol| symbol >= MARKER)
    }
}
