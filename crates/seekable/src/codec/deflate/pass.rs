//! A stream decoded from a position on, step by step, with checkpoints on the way.

use super::WINDOW;
use super::checkpoint::Checkpoint;
use super::fault::Fault;
use super::inflate::{Inflate, Position, SYMBOL_ROOM, Stop};
use super::output::OutputBuffer;
use super::probe::{PROBE, Probe};
use crate::content::Content;

/// Maximum number of bytes in a step: few enough that they stay in the processor's cache until the caller has
/// used them, and enough that moving the window before each step costs little.
const STEP: usize = 128 << 10;

/// A decoder that takes a stream in steps and makes a [`Checkpoint`] every so many bytes.
#[derive(Debug)]
pub struct Pass {
    inflate: Inflate,
    /// The window, then the output of the last step.
    buffer: Vec<u8>,
    filled: usize,
    marks: Option<Marks>,
}

/// The state for making checkpoints.
#[derive(Debug)]
struct Marks {
    spacing: u64,
    /// Offset from which on the next checkpoint is due.
    due: u64,
    probe: Probe,
    made: Option<Checkpoint>,
}

impl Pass {
    /// Returns a pass from `position` of `stored` on; `window` is the output before `position`: its last 32
    /// KiB or all of it.
    pub fn new(stored: &dyn Content, position: Position, window: &[u8]) -> Result<Self, Fault> {
        let mut inflate = Inflate::new();
        inflate.start(stored, position)?;
        let window = &window[window.len().saturating_sub(WINDOW)..];
        let mut buffer = vec![0; WINDOW + STEP + SYMBOL_ROOM];
        buffer[..window.len()].copy_from_slice(window);
        Ok(Self { inflate, buffer, filled: window.len(), marks: None })
    }

    /// Adds checkpoints: one at the current position, and one every `spacing` bytes of output from there on
    /// (at least 32 KiB), each at the next position between two symbols.
    #[must_use]
    pub fn with_checkpoints(self, spacing: u64) -> Self {
        let here = self.position().offset;
        self.with_checkpoints_from(here, spacing)
    }

    /// Adds checkpoints, the first at the decoded offset `first`, or at the current position if `first` is
    /// already passed.
    #[must_use]
    pub fn with_checkpoints_from(mut self, first: u64, spacing: u64) -> Self {
        self.marks = Some(Marks {
            spacing: spacing.max(PROBE as u64),
            due: first.max(self.inflate.position().offset),
            probe: Probe::new(),
            made: None,
        });
        self
    }

    /// Returns the next bytes and the reason why the step ended. The bytes are valid even if the reason is a
    /// fault or the end of the stream; later steps return no bytes.
    pub fn step(&mut self, stored: &dyn Content) -> (&[u8], Result<Stop, Fault>) {
        let window = self.filled.min(WINDOW);
        if self.filled > WINDOW {
            self.buffer.copy_within(self.filled - WINDOW..self.filled, 0);
        }
        self.filled = window;
        let due = self.marks.as_ref().map(|marks| marks.due.saturating_sub(self.position().offset));
        let stop = match due.filter(|_| !self.inflate.has_ended()) {
            Some(0) => self.mark(stored),
            due => self.decode(stored, due),
        };
        (&self.buffer[window..self.filled], stop)
    }

    /// Makes the checkpoint that is due at the current position. This decodes the output after the position.
    fn mark(&mut self, stored: &dyn Content) -> Result<Stop, Fault> {
        let Some(marks) = &mut self.marks else { return Ok(Stop::Full) };
        let mut out = OutputBuffer { items: &mut self.buffer[..self.filled + PROBE], filled: self.filled };
        let (mark, stop) = marks.probe.mark(&mut self.inflate, stored, &mut out, |_| true);
        let filled = out.filled;
        marks.due = marks.due.saturating_add(marks.spacing);
        marks.made = mark.map(|mark| {
            let window = self.buffer[self.filled.saturating_sub(WINDOW)..self.filled].to_vec();
            Checkpoint { position: mark.position, window: mark.used.sparse(window) }
        });
        self.filled = filled;
        let stop = stop.map(|stop| if stop == Stop::Block { Stop::Full } else { stop });
        self.decode_pending(stored, stop)
    }

    /// Decodes a step, or up to the next checkpoint that is due.
    fn decode(&mut self, stored: &dyn Content, due: Option<u64>) -> Result<Stop, Fault> {
        let room = due.and_then(|due| usize::try_from(due).ok()).map_or(STEP, |due| due.min(STEP));
        let stop = self.fill(stored, room);
        self.decode_pending(stored, stop)
    }

    /// Decodes up to the next position between two symbols.
    fn decode_pending(&mut self, stored: &dyn Content, stop: Result<Stop, Fault>) -> Result<Stop, Fault> {
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

    /// Takes the checkpoint that the last step made, if any. The next step discards it.
    pub fn take_checkpoint(&mut self) -> Option<Checkpoint> {
        self.marks.as_mut()?.made.take()
    }

    /// Returns the output before the current position, its last 32 KiB or all of it.
    pub fn window(&self) -> &[u8] {
        &self.buffer[self.filled.saturating_sub(WINDOW)..self.filled]
    }

    /// Returns the current position.
    pub fn position(&self) -> Position {
        self.inflate.position()
    }
}
