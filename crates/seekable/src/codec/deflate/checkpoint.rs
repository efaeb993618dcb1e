//! Positions where decoding can start again.

use super::fault::Fault;
use super::inflate::{Inflate, Position};
use crate::content::Content;

/// A position, with the output before it that a decoder needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The position: between two symbols, so that no match is pending.
    pub position: Position,
    /// The last 32 KiB of output before the position, or all of it. Bytes that no later match refers to are
    /// zero.
    pub window: Vec<u8>,
}

impl Inflate {
    /// Decodes the `len` bytes of output after `position`, or all up to the end of the stream.
    ///
    /// `out` holds the window before that position. The output is appended to it; the new length of `out` tells
    /// how much was decoded. A fault is returned only if fewer than `len` bytes were decoded.
    pub fn decode_from(
        &mut self,
        stored: &dyn Content,
        position: Position,
        out: &mut Vec<u8>,
        len: usize,
    ) -> Result<(), Fault> {
        self.start(stored, position)?;
        let window = out.len();
        let end = window.saturating_add(len);
        out.resize(end, 0);
        let (filled, stop) = self.decode(stored, out, window);
        out.truncate(filled);
        if filled == end { Ok(()) } else { stop.map(drop) }
    }
}
