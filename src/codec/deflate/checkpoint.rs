//! Where decoding can start again.

use super::fault::Fault;
use super::inflate::{Inflate, Place};
use super::window::PackedWindow;
use crate::content::Content;
use crate::error::Result;

/// A place, and what a decoder needs of the output before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Where it is.
    pub place: Place,
    /// The output before it, as far as the output after it refers to it.
    pub window: PackedWindow,
}

impl Checkpoint {
    /// The start of a stream whose first block begins at `bit`.
    pub fn start_of_stream(bit: u64) -> Self {
        Self { place: Place::block_at(bit, 0), window: PackedWindow::empty() }
    }

    /// Decodes the `len` bytes that come after it, or all up to the stream's end, into `out`, and says
    /// where the bytes begin in `out`: after the window.
    ///
    /// On a fault `out` ends with the last byte before it.
    pub fn decode(
        &self,
        inflate: &mut Inflate,
        stored: &dyn Content,
        len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(usize, std::result::Result<(), Fault>)> {
        self.window.unpack(out)?;
        let start = out.len();
        if let Err(fault) = inflate.start(stored, self.place) {
            return Ok((start, Err(fault)));
        }
        out.resize(start + len, 0);
        let (filled, stop) = inflate.decode(stored, out, start);
        out.truncate(filled);
        let stop = stop.map(drop);
        Ok((start, if filled == start + len { Ok(()) } else { stop }))
    }
}
