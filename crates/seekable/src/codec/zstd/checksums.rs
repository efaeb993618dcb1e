//! Checksums over the output of a stream, from its start on: CRCs for the seek table, and the checksum of a
//! frame.

use std::hash::Hasher;

use twox_hash::XxHash64;

use crate::codec::seek::stored_table::crc_after;
use crate::decode::GRANULE;

/// Minimum number of bytes for each CRC of a table, unless a checkpoint comes before. Each ends with a block.
pub(super) const PIECE: u64 = GRANULE;

/// The checksums of all output up to an offset.
#[derive(Debug, Default)]
pub(super) struct Checksums {
    /// The decoded offset up to which the output is summed.
    pub(super) at: u64,
    /// CRCs of the pieces since the last checkpoint.
    pieces: Vec<u32>,
    /// CRC and length of the current piece.
    crc: u32,
    len: u64,
    /// The start of the current frame, and its running checksum.
    frame: Option<(u64, XxHash64)>,
}

impl Checksums {
    /// Begins a frame at stored offset `frame`; `checked` if it has a checksum.
    pub(super) fn begin(&mut self, frame: u64, checked: bool) {
        self.frame = checked.then(|| (frame, XxHash64::with_seed(0)));
    }

    /// Adds the bytes that are not summed yet; `bytes` begin at `offset`. `ends` says that a block ends with
    /// them.
    pub(super) fn add(&mut self, offset: u64, bytes: &[u8], ends: bool) {
        let skip = self.at.checked_sub(offset).and_then(|skip| usize::try_from(skip).ok());
        let Some(bytes) = skip.and_then(|skip| bytes.get(skip..)) else { return };
        let len = bytes.len() as u64;
        self.crc = crc_after(self.crc, bytes);
        (self.at, self.len) = (self.at.saturating_add(len), self.len + len);
        if ends && self.len >= PIECE {
            self.end_piece();
        }
        if let Some((_, checksum)) = &mut self.frame {
            checksum.write(bytes);
        }
    }

    fn end_piece(&mut self) {
        self.pieces.push(self.crc);
        (self.crc, self.len) = (0, 0);
    }

    /// Ends the span at a checkpoint and returns the CRCs of its pieces.
    pub(super) fn end_span(&mut self) -> Vec<u32> {
        if self.len > 0 {
            self.end_piece();
        }
        std::mem::take(&mut self.pieces)
    }

    /// Returns the checksum of the frame at `frame`; `None` if another frame was summed.
    pub(super) fn checksum(&self, frame: u64) -> Option<u32> {
        let (_, checksum) = self.frame.as_ref().filter(|(at, _)| *at == frame)?;
        Some(checksum.finish() as u32)
    }
}
