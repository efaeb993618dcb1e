//! Sums over the output of a stream, from its start on: CRCs for the index, and the checksum of a frame.

use std::hash::Hasher;

use twox_hash::XxHash64;

use crate::codec::seek::index::crc_after;
use crate::decode::UNIT;

/// Bytes that a sum of a table is over at least, unless a place comes before; it ends with a block.
pub(super) const PIECE: u64 = UNIT;

/// The sums of all output up to an offset.
#[derive(Debug, Default)]
pub(super) struct Sums {
    /// The decoded offset up to which there are sums.
    pub(super) at: u64,
    /// Of the pieces since the last place.
    pieces: Vec<u32>,
    /// Of the piece that has begun.
    crc: u32,
    len: u64,
    /// Where the frame begins that is being summed, and the checksum of it.
    frame: Option<(u64, XxHash64)>,
}

impl Sums {
    /// Begins with a frame, which lies there.
    pub(super) fn begin(&mut self, frame: u64, checked: bool) {
        self.frame = checked.then(|| (frame, XxHash64::with_seed(0)));
    }

    /// Goes on over what of `bytes`, which begin at `offset`, is new; `ends`: a block ends with them.
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

    /// Ends the span at a place: the sums of its pieces.
    pub(super) fn cut(&mut self) -> Vec<u32> {
        if self.len > 0 {
            self.end_piece();
        }
        std::mem::take(&mut self.pieces)
    }

    /// The checksum of the frame that lies there, if it is this one that was summed.
    pub(super) fn checksum(&self, frame: u64) -> Option<u32> {
        let (_, checksum) = self.frame.as_ref().filter(|(at, _)| *at == frame)?;
        Some(checksum.finish() as u32)
    }
}
