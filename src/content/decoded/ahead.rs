//! Pieces decoded ahead of who reads them one after the other.
//!
//! After two pieces in a row the next ones are decoded on the cache's threads: 1, 2, 4 … of them, up to
//! one a thread and half of the cache's budget. A read elsewhere drops what has not begun.

use std::sync::Arc;

use super::run::NEAR;
use super::{Decoded, Encoded, Unit};
use crate::cache::Reservation;
use crate::codec::Chunk;

/// Pieces in a row that make a reader sequential.
const IN_A_ROW: u32 = 2;

/// Who reads on, and how far was decoded for him.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    /// The piece that was read last.
    start: u64,
    end: u64,
    /// Pieces before it that were read in a row.
    row: u32,
    /// Up to here pieces are in work, or were.
    ahead: u64,
    /// Counts the seeks.
    number: u64,
}

impl Sequence {
    /// Notes that a piece is read; whether pieces may be decoded ahead now.
    fn read(&mut self, start: u64, end: u64) -> bool {
        if start == self.end && end > start {
            (self.start, self.end, self.row) = (start, end, self.row.saturating_add(1));
            self.ahead = self.ahead.max(end);
            return self.row >= IN_A_ROW;
        }
        // The kernel's requests come slightly out of order.
        let near = start.saturating_add(NEAR) >= self.start && start <= self.end.saturating_add(NEAR);
        if !(near && self.row > 0) && start != self.start {
            *self = Self { start, end, row: 1, ahead: end, number: self.number + 1 };
        }
        false
    }

    fn depth(&self, threads: usize) -> u64 {
        let more = self.row.saturating_sub(IN_A_ROW).min(8);
        (1_usize << more).min(threads) as u64
    }
}

impl Decoded {
    /// Has pieces decoded ahead if the one with this unit is read in a row.
    pub(super) fn read_ahead(&self, unit: Unit) {
        let threads = self.cache.threads();
        let (Encoded::Pieces(pieces), true, Some(me)) = (&self.encoded, threads > 1, self.me.get()) else {
            return;
        };
        let most = self.cache.budget() / 2;
        let (mut at, until, number, end) = {
            let sequence = &mut self.state().sequence;
            if !sequence.read(unit.span.start, unit.span.end) {
                return;
            }
            let len = unit.span.end - unit.span.start;
            let until = sequence.end.saturating_add((len * sequence.depth(threads)).min(most));
            (sequence.ahead, until.min(self.data_size), sequence.number, sequence.end)
        };
        while at < until && at >= end {
            let Ok(Some(piece)) = pieces.find(at) else { return };
            if piece.offset != at || piece.len == 0 || piece.len > super::WHOLE {
                return;
            }
            let Some(reservation) = self.cache.reserve(piece.len) else { return };
            at = at.saturating_add(piece.len);
            {
                let sequence = &mut self.state().sequence;
                if sequence.number != number || sequence.ahead >= at {
                    return;
                }
                sequence.ahead = at;
            }
            let me = me.clone();
            self.cache.run(move || {
                if let Some(decoded) = me.upgrade() {
                    decoded.decode_ahead(piece, number, reservation);
                }
            });
        }
    }

    /// Decodes a piece into the cache, unless its reader has gone elsewhere.
    fn decode_ahead(self: Arc<Self>, piece: Chunk, number: u64, reservation: Reservation) {
        if self.state().sequence.number != number || self.cache.get(self.id, piece.offset).is_some() {
            return;
        }
        if let Ok(unit) = self.locate(piece.offset) {
            // An error comes again for who reads there.
            let _ = self.obtain(unit);
        }
        drop(reservation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_on_makes_a_sequence_and_a_seek_ends_it() {
        let mut sequence = Sequence::default();
        assert_eq!([0, 10, 20, 30].map(|at| sequence.read(at, at + 10)), [false, true, true, true]);
        assert_eq!((sequence.depth(16), sequence.depth(2), sequence.number), (4, 2, 0));
        // Out of order, and again.
        assert!(!sequence.read(20, 30) && !sequence.read(30, 40) && sequence.read(40, 50));
        let far = 100 + 2 * NEAR;
        assert!(!sequence.read(far, far + 10));
        assert_eq!((sequence.row, sequence.number), (1, 1));
        assert!(sequence.read(far + 10, far + 20));
    }
}
