//! Where decoding can start again.

use super::fault::Fault;
use super::inflate::{Inflate, Position};
use crate::content::Content;

/// A place, and what a decoder needs of the output before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Where it is: between two symbols, so that nothing of a match is pending.
    pub place: Position,
    /// The output before it, its last 32 KiB or all; zero where nothing after it refers to it.
    pub window: Vec<u8>,
}

impl Checkpoint {
    /// The start of a stream whose first block begins at `bit`.
    pub fn start_of_stream(bit: u64) -> Self {
        Self { place: Position::block_at(bit, 0), window: Vec::new() }
    }
}

impl Inflate {
    /// Decodes the `len` bytes of output that come after `place`, or all up to the end of the stream.
    ///
    /// `out` holds the window before the place, and the output after it, when this returns; how much
    /// of the output that is, is told by its length. A fault is given only if there is less than `len`.
    pub fn decode_from(
        &mut self,
        stored: &dyn Content,
        place: Position,
        out: &mut Vec<u8>,
        len: usize,
    ) -> Result<(), Fault> {
        self.start(stored, place)?;
        let window = out.len();
        let end = window.saturating_add(len);
        out.resize(end, 0);
        let (filled, stop) = self.decode(stored, out, window);
        out.truncate(filled);
        if filled == end { Ok(()) } else { stop.map(drop) }
    }
}
