//! A stream from a place on, piece by piece, with checkpoints on the way.

use std::collections::VecDeque;

use super::WINDOW;
use super::checkpoint::Checkpoint;
use super::fault::Fault;
use super::inflate::{Inflate, Place, SYMBOL_ROOM, Stop};
use super::unit::MARKER;
use super::window::{Packer, Used};
use crate::content::Content;

/// How many bytes a step gives at most: few enough that they stay in the processor's cache until the
/// caller has used them, and enough that moving the window before each step costs little.
const STEP: usize = 128 << 10;

/// Decodes a stream in steps, and makes a [`Checkpoint`] every so many bytes.
#[derive(Debug)]
pub struct Pass {
    inflate: Inflate,
    /// The window, then what the last step gave.
    buffer: Vec<u8>,
    filled: usize,
    marks: Option<Marks>,
}

/// What making checkpoints needs.
#[derive(Debug)]
struct Marks {
    spacing: u64,
    /// From this offset on the next one is due.
    due: u64,
    /// Markers for the window, then room to decode what comes after a checkpoint.
    symbols: Vec<u16>,
    packer: Packer,
    made: VecDeque<Checkpoint>,
}

impl Marks {
    /// Decodes up to 32 KiB after the checkpoint here, first as symbols, to see what they refer to.
    fn mark(
        &mut self,
        inflate: &mut Inflate,
        stored: &dyn Content,
        buffer: &mut [u8],
        filled: usize,
    ) -> (usize, Result<Stop, Fault>) {
        let place = inflate.place();
        self.due = place.offset.saturating_add(self.spacing);
        let window = filled.min(WINDOW);
        let symbols = &mut self.symbols[WINDOW - window..];
        let (end, stop) = inflate.run(stored, symbols, window, false);
        let (window, symbols) = (&buffer[filled - window..filled], &symbols[window..end]);
        let packed = self.packer.pack(window, &Used::by(symbols));
        // Markers begin at the first byte of a whole window.
        let first = WINDOW - window.len();
        let resolved: Vec<u8> = symbols
            .iter()
            .map(|&symbol| match symbol.checked_sub(MARKER) {
                None => symbol as u8,
                Some(index) => {
                    window.get(usize::from(index).wrapping_sub(first)).copied().unwrap_or_default()
                }
            })
            .collect();
        buffer[filled..filled + resolved.len()].copy_from_slice(&resolved);
        self.made.push_back(Checkpoint { place, window: packed });
        (filled + resolved.len(), stop)
    }
}

impl Pass {
    /// A pass that goes on from `place` of `stored`; `window` is the output before it, its last 32 KiB
    /// or all.
    pub fn new(stored: &dyn Content, place: Place, window: &[u8]) -> Result<Self, Fault> {
        let mut inflate = Inflate::new();
        inflate.start(stored, place)?;
        let window = &window[window.len().saturating_sub(WINDOW)..];
        let mut buffer = vec![0; WINDOW + STEP + SYMBOL_ROOM];
        buffer[..window.len()].copy_from_slice(window);
        Ok(Self { inflate, buffer, filled: window.len(), marks: None })
    }

    /// The same with a checkpoint here and every `spacing` bytes of output from here on, at the first
    /// symbol there that decoding can start with.
    #[must_use]
    pub fn with_checkpoints(mut self, spacing: u64) -> Self {
        let markers = (MARKER..=u16::MAX).chain(std::iter::repeat_n(0, WINDOW));
        self.marks = Some(Marks {
            spacing: spacing.max(WINDOW as u64),
            due: self.inflate.place().offset,
            symbols: markers.collect(),
            packer: Packer::new(),
            made: VecDeque::new(),
        });
        self
    }

    /// The next bytes, and why there aren't more. Bytes that come with a fault, or with the end, are
    /// as good as any; after the end there are none.
    pub fn step(&mut self, stored: &dyn Content) -> (&[u8], Result<Stop, Fault>) {
        let window = self.filled.min(WINDOW);
        if self.filled > WINDOW {
            self.buffer.copy_within(self.filled - WINDOW..self.filled, 0);
        }
        self.filled = window;
        let stop = match self.due() {
            Some(0) => self.mark(stored),
            due => self.decode(stored, due),
        };
        (&self.buffer[window..self.filled], stop)
    }

    /// How many bytes come before the next checkpoint is due.
    fn due(&self) -> Option<u64> {
        let marks = self.marks.as_ref()?;
        (!self.inflate.has_ended()).then(|| marks.due.saturating_sub(self.inflate.place().offset))
    }

    fn mark(&mut self, stored: &dyn Content) -> Result<Stop, Fault> {
        let Some(marks) = &mut self.marks else { return Ok(Stop::Full) };
        let stop;
        (self.filled, stop) = marks.mark(&mut self.inflate, stored, &mut self.buffer, self.filled);
        stop
    }

    /// Decodes a step, or up to where a checkpoint is due: there it stops between two symbols.
    fn decode(&mut self, stored: &dyn Content, due: Option<u64>) -> Result<Stop, Fault> {
        let room = due.map_or(STEP, |due| usize::try_from(due).map_or(STEP, |due| due.min(STEP)));
        let end = self.filled + room;
        let stop;
        (self.filled, stop) = self.inflate.decode(stored, &mut self.buffer[..end], self.filled);
        if stop.is_err() || self.inflate.pending() == 0 {
            return stop;
        }
        let end = self.filled + self.inflate.pending();
        let stop;
        (self.filled, stop) = self.inflate.decode(stored, &mut self.buffer[..end], self.filled);
        stop
    }

    /// The next checkpoint that was made, in the order of the stream.
    pub fn take_checkpoint(&mut self) -> Option<Checkpoint> {
        self.marks.as_mut()?.made.pop_front()
    }

    /// Where the pass stands.
    pub fn place(&self) -> Place {
        self.inflate.place()
    }
}
