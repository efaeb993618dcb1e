//! Reads of a few bytes of a long chunk on a server: only its beginning is requested and decoded, up to these bytes.

use std::sync::Arc;

use super::{Decoded, Encoded, Granule};
use crate::decode::{Chunk, Chunks};

/// Minimum length of a chunk that is decoded in part.
const MIN_CHUNK: u64 = 1 << 20;
/// The beginning is decoded in multiples of this: as much as a random read of a server fetches. A program that reads the
/// header of an array needs no more than the mount has requested of the file.
const STEP: u64 = 64 << 10;

impl Decoded {
    /// Returns the chunk of a granule, if a part of it can be decoded at less cost, and it is not cached as a whole.
    pub(super) fn may_read_beginning(&self, granule: Granule) -> Option<(&dyn Chunks, Chunk)> {
        let Encoded::Pieces(pieces) = &self.encoded else { return None };
        let piece = granule.span.piece.filter(|piece| granule.span.is_whole() && piece.len >= MIN_CHUNK)?;
        let is_partial = pieces.is_cheaper_in_part() && self.cache.get(self.id, granule.start).is_none();
        is_partial.then_some((&**pieces, piece))
    }

    /// Reads bytes of a long chunk. `None` if the chunk is to be decoded as a whole: because the reader goes on, wants
    /// most of it, or the beginning can't be decoded.
    pub(super) fn read_beginning(&self, granule: Granule, at: u64, buf: &mut [u8]) -> Option<usize> {
        let (pieces, piece) = self.may_read_beginning(granule)?;
        let skip = at - granule.start;
        let end = (skip + buf.len() as u64).min(granule.span.end - granule.start);
        let goes_on = {
            let mut state = self.state();
            std::mem::replace(&mut state.read_to, granule.start + end) == at && at > 0
        };
        let before = self.cache.get(self.beginnings, granule.start);
        let bytes = match &before {
            Some(before) if before.len() as u64 >= end => before.clone(),
            _ if goes_on || end > piece.len / 4 * 3 => return None,
            _ => {
                // The reader of some rows needs a little more each time, and asks once if that is little beside the rest.
                let more = if before.is_some() || end > piece.len / 8 { piece.len / 8 } else { 0 };
                let len = (end + more).next_multiple_of(STEP).min(piece.len);
                let _room = self.cache.demand(len);
                let mut bytes = Vec::new();
                if !pieces.decode_start(piece, len, &mut bytes).ok()? {
                    return None;
                }
                let bytes = Arc::new(bytes);
                self.cache.put(self.beginnings, granule.start, &bytes);
                bytes
            }
        };
        let part = bytes.get(usize::try_from(skip).ok()?..usize::try_from(end).ok()?)?;
        buf.get_mut(..part.len())?.copy_from_slice(part);
        Some(part.len())
    }
}
