//! A piece of a stream that is decoded before the output in front of it is known.
//!
//! The first stage runs on any thread. It decodes from a bit where a block may begin into symbols of 16 bits,
//! with a marker for each byte of the unknown 32 KiB before that bit. Once the last 32 KiB of output hold no
//! marker, this stage goes on in bytes. Then, in the stream's order and quickly,
//! [`Resolver::window_at`](super::resolver::Resolver::window_at) gives the window after a piece from the
//! window before it. The second stage, on any thread again, replaces the markers:
//! [`Resolver::write`](super::resolver::Resolver::write).
//!
//! On the way, positions are marked where decoding can start again. [`Piece::checkpoints`] makes checkpoints
//! of them once the piece's bytes are known.
//!
//! A block really begins at the first bit of a piece if decoding of the data before the piece ends exactly
//! there. A piece holds a bounded amount of output; a piece that had to stop within a block gives the
//! position.

use super::WINDOW;
use super::checkpoint::Checkpoint;
use super::fault::Fault;
use super::inflate::{Inflate, Position, Stop};
use super::output::OutputBuffer;
use super::probe::{PROBE, Probe, Probed, Used};
use super::symbol::MARKER;
use crate::content::Content;

/// Number of output symbols or bytes by which a buffer grows. At most this many are decoded before the last
/// 32 KiB are checked for markers, which stand for unknown bytes.
const GROWTH: usize = 128 << 10;

/// The reason why a piece ends where it does.
#[derive(Clone, Debug)]
pub enum Ending {
    /// A block that a [`BlockFinder`](super::BlockFinder) finds begins at the end of the piece.
    Block,
    /// The cap is reached, possibly within a block.
    Full,
    /// The stream ends.
    End,
    /// Decoding failed at the end of the piece, or no block begins at its start.
    Fault(Fault),
}

/// The part of a stream that a piece is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceRequest {
    /// Start of the piece. If the offset of the start is unknown, it may be arbitrary: the offsets of
    /// positions and faults count from there.
    pub start: Position,
    /// The bit from which on the piece ends at the first block that a [`BlockFinder`](super::BlockFinder) finds.
    pub until: u64,
    /// Maximum number of output bytes; up to 257 more are decoded to end between two symbols.
    pub cap: usize,
    /// Output bytes between marked positions, counted from the start of the piece; 0 marks none.
    pub spacing: usize,
}

/// A piece of output, part of which may be markers. The next piece reuses its buffers.
#[derive(Debug)]
pub struct Piece {
    request: PieceRequest,
    end: Position,
    ending: Ending,
    probe: Probe,
    marks: Vec<Probed>,
    /// The markers of a window, then output that may contain markers.
    symbols: Vec<u16>,
    symbols_end: usize,
    /// True if output goes to `bytes` now.
    in_bytes: bool,
    /// A window, then the output that follows the symbols.
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
    /// Returns an empty piece.
    pub fn new() -> Self {
        let nowhere = Position::block_at(0, 0);
        Self {
            request: PieceRequest { start: nowhere, until: 0, cap: 0, spacing: 0 },
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
    /// If `window` is given (the last 32 KiB before the piece, or all there is), the output has no markers.
    pub fn decode(
        &mut self,
        inflate: &mut Inflate,
        stored: &dyn Content,
        request: PieceRequest,
        window: Option<&[u8]>,
    ) {
        self.request = request;
        self.marks.clear();
        self.symbols_end = WINDOW;
        (self.in_bytes, self.bytes_start, self.bytes_end) = (false, 0, 0);
        if let Some(window) = window {
            self.begin_bytes(window.iter().copied());
        }
        self.ending = match inflate.start(stored, request.start) {
            Ok(()) => self.fill(inflate, stored),
            Err(fault) => Ending::Fault(fault),
        };
        self.end = inflate.position();
    }

    fn fill(&mut self, inflate: &mut Inflate, stored: &dyn Content) -> Ending {
        let PieceRequest { until, cap, spacing, .. } = self.request;
        let mut due = if spacing == 0 { usize::MAX } else { spacing };
        loop {
            let len = self.len();
            let pending = inflate.pending();
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

    /// Decodes at most `room` symbols or bytes, and no further than to the end of a block.
    fn fill_some(&mut self, inflate: &mut Inflate, stored: &dyn Content, room: usize) -> Result<Stop, Fault> {
        if self.in_bytes {
            let mut out = with_room(&mut self.bytes, self.bytes_end, room);
            let stop = inflate.run(stored, &mut out, true);
            self.bytes_end = out.filled;
            stop
        } else {
            let mut out = with_room(&mut self.symbols, self.symbols_end, room);
            let stop = inflate.run(stored, &mut out, true);
            self.symbols_end = out.filled;
            stop
        }
    }

    /// Marks the current position. This decodes the output after the position.
    fn mark(&mut self, inflate: &mut Inflate, stored: &dyn Content) -> Result<Stop, Fault> {
        let until = self.request.until;
        let continues = |inflate: &mut Inflate| !meets(inflate, stored, until);
        let (mark, stop);
        if self.in_bytes {
            let mut out = with_room(&mut self.bytes, self.bytes_end, PROBE);
            (mark, stop) = self.probe.mark(inflate, stored, &mut out, continues);
            self.bytes_end = out.filled;
        } else {
            let mut out = with_room(&mut self.symbols, self.symbols_end, PROBE);
            (mark, stop) = self.probe.mark(inflate, stored, &mut out, continues);
            self.symbols_end = out.filled;
        }
        self.marks.extend(mark);
        stop
    }

    /// True if the last 32 KiB hold no marker.
    fn is_clear(&self) -> bool {
        let last =
            self.symbols_end.checked_sub(WINDOW).and_then(|from| self.symbols.get(from..self.symbols_end));
        self.symbols_end >= 2 * WINDOW && last.is_some_and(|last| last.iter().all(|&symbol| symbol < MARKER))
    }

    /// Switches from symbols to bytes; `window` is the output before the switch.
    fn begin_bytes(&mut self, window: impl ExactSizeIterator<Item = u8>) {
        let len = window.len();
        for (to, byte) in grown(&mut self.bytes, len.max(1)).iter_mut().zip(window) {
            *to = byte;
        }
        (self.in_bytes, self.bytes_start, self.bytes_end) = (true, len, len);
    }

    /// Returns the position at which the piece begins.
    pub fn start(&self) -> Position {
        self.request.start
    }

    /// Returns the position at which the piece ends. The next piece, if any, has to begin there.
    pub fn end(&self) -> Position {
        self.end
    }

    /// Returns the reason why the piece ends.
    pub fn ending(&self) -> &Ending {
        &self.ending
    }

    /// Returns the number of output bytes.
    pub fn len(&self) -> usize {
        self.symbols().len() + self.bytes().len()
    }

    /// True if there is no output.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the size of the piece's buffers in bytes.
    pub fn weight(&self) -> usize {
        2 * self.symbols.capacity() + self.bytes.capacity()
    }

    /// Returns the first part of the output, which may contain markers.
    pub(super) fn symbols(&self) -> &[u16] {
        &self.symbols[WINDOW..self.symbols_end]
    }

    /// Returns the output after the symbols.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.bytes_start..self.bytes_end]
    }

    /// Swaps `out` for the buffer with the output, if all of it was decoded after a known window. `out` then
    /// begins with that window, whose length is returned. The piece then has no output.
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

    /// Returns the checkpoints within the piece, with one at its start if the piece was decoded without the
    /// window before it. `offset` is the position of its output in the stream; `window_at(n)` returns the
    /// window `n` bytes after `offset`.
    pub fn checkpoints(&self, offset: u64, window_at: impl Fn(usize) -> Option<Vec<u8>>) -> Vec<Checkpoint> {
        let symbols = self.symbols();
        let first = symbols
            .first_chunk::<PROBE>()
            .map(|symbols| Probed { position: self.request.start, used: Used::by(symbols) });
        let marks = first.iter().filter(|_| self.request.spacing > 0).chain(&self.marks);
        let made = marks.filter_map(|mark| {
            let passed = mark.position.offset.checked_sub(self.request.start.offset)?;
            let window = window_at(usize::try_from(passed).ok()?)?;
            let position = Position { offset: offset.checked_add(passed)?, ..mark.position };
            Some(Checkpoint { position, window: mark.used.sparse(window) })
        });
        made.collect()
    }
}

/// True if a piece up to bit `until` ends at the decoder's position, where the next piece begins.
fn meets(inflate: &mut Inflate, stored: &dyn Content, until: u64) -> bool {
    inflate.position().bit >= until && inflate.at_plausible_block(stored)
}

/// Returns `buffer` as an output buffer that is filled up to `filled` and has room for `room` more items.
fn with_room<S: Copy + Default>(buffer: &mut Vec<S>, filled: usize, room: usize) -> OutputBuffer<'_, S> {
    OutputBuffer { items: grown(buffer, filled + room), filled }
}

/// Returns the first `len` items of a buffer, which grows if need be.
fn grown<S: Copy + Default>(buffer: &mut Vec<S>, len: usize) -> &mut [S] {
    if buffer.len() < len {
        buffer.resize(len.next_multiple_of(GROWTH), S::default());
    }
    &mut buffer[..len]
}

#[cfg(test)]
impl Piece {
    /// True if some of the output is unknown without the window.
    pub(super) fn has_markers(&self) -> bool {
        self.symbols().iter().any(|&symbol| symbol >= MARKER)
    }
}
