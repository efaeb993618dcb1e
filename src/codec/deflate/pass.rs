//! A stream from a place on, piece by piece, with checkpoints on the way.

use super::WINDOW;
use super::checkpoint::Checkpoint;
use super::fault::Fault;
use super::inflate::{Inflate, Position, SYMBOL_ROOM, Stop};
use super::probe::{PROBE, Probe};
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
    probe: Probe,
    made: Option<Checkpoint>,
}

impl Pass {
    /// A pass that goes on from `place` of `stored`; `window` is the output before it, its last 32 KiB
    /// or all.
    pub fn new(stored: &dyn Content, place: Position, window: &[u8]) -> Result<Self, Fault> {
        let mut inflate = Inflate::new();
        inflate.start(stored, place)?;
        let window = &window[window.len().saturating_sub(WINDOW)..];
        let mut buffer = vec![0; WINDOW + STEP + SYMBOL_ROOM];
        buffer[..window.len()].copy_from_slice(window);
        Ok(Self { inflate, buffer, filled: window.len(), marks: None })
    }

    /// The same with a checkpoint here and every `spacing` bytes of output from here on (32 KiB at
    /// least), each at the next place between two symbols.
    #[must_use]
    pub fn with_checkpoints(self, spacing: u64) -> Self {
        let here = self.place().offset;
        self.with_checkpoints_from(here, spacing)
    }

    /// The same with the first one at the decoded offset `first`, or here if that lies behind.
    #[must_use]
    pub fn with_checkpoints_from(mut self, first: u64, spacing: u64) -> Self {
        self.marks = Some(Marks {
            spacing: spacing.max(PROBE as u64),
            due: first.max(self.inflate.place().offset),
            probe: Probe::new(),
            made: None,
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
        let due = self.marks.as_ref().map(|marks| marks.due.saturating_sub(self.place().offset));
        let stop = match due.filter(|_| !self.inflate.has_ended()) {
            Some(0) => self.mark(stored),
            due => self.decode(stored, due),
        };
        (&self.buffer[window..self.filled], stop)
    }

    /// Makes the checkpoint that is due here, which decodes what comes after it.
    fn mark(&mut self, stored: &dyn Content) -> Result<Stop, Fault> {
        let Some(marks) = &mut self.marks else { return Ok(Stop::Full) };
        let end = self.filled + PROBE;
        let (mark, filled, stop) =
            marks.probe.mark(&mut self.inflate, stored, &mut self.buffer[..end], self.filled, |_| true);
        marks.due = marks.due.saturating_add(marks.spacing);
        marks.made = mark.map(|mark| {
            let window = self.buffer[self.filled.saturating_sub(WINDOW)..self.filled].to_vec();
            Checkpoint { place: mark.place, window: mark.used.sparse(window) }
        });
        self.filled = filled;
        let stop = stop.map(|stop| if stop == Stop::Block { Stop::Full } else { stop });
        self.settle(stored, stop)
    }

    /// Decodes a step, or up to where a checkpoint is due.
    fn decode(&mut self, stored: &dyn Content, due: Option<u64>) -> Result<Stop, Fault> {
        let room = due.and_then(|due| usize::try_from(due).ok()).map_or(STEP, |due| due.min(STEP));
        let stop = self.fill(stored, room);
        self.settle(stored, stop)
    }

    /// Goes on to the next place between two symbols.
    fn settle(&mut self, stored: &dyn Content, stop: Result<Stop, Fault>) -> Result<Stop, Fault> {
        match self.inflate.pending() {
            0 => stop,
            pending => self.fill(stored, pending),
        }
    }

    fn fill(&mut self, stored: &dyn Content, room: usize) -> Result<Stop, Fault> {
        let out = &mut self.buffer[..self.filled + room];
        let stop;
        (self.filled, stop) = self.inflate.decode(stored, out, self.filled);
        stop
    }

    /// The checkpoint that the last step made, if it made one. It is lost with the next step.
    pub fn take_checkpoint(&mut self) -> Option<Checkpoint> {
        self.marks.as_mut()?.made.take()
    }

    /// The output before where it stands, its last 32 KiB or all.
    pub fn window(&self) -> &[u8] {
        &self.buffer[self.filled.saturating_sub(WINDOW)..self.filled]
    }

    /// Where the pass stands.
    pub fn place(&self) -> Position {
        self.inflate.place()
    }
}
