//! Read-ahead: decodes granules before a sequential reader asks for them.
//!
//! Sequential readers are detected from their offsets. After a few consecutive granules, further granules are
//! decoded on the cache's threads: as many as [`depth`] allows, and no more than fit in half of the cache's
//! budget. Chunks are decoded in parallel, the granules of a stream by one thread in order. A read elsewhere
//! cancels the work that has not started.

use std::sync::Arc;

use super::{Decoded, Encoded, Granule, NEAR};
use crate::cache::Reservation;
use crate::decode::depth::{IN_A_ROW, depth};
use crate::decode::{Chunk, GRANULE, WHOLE};

/// Maximum granules of a stream that are decoded ahead.
const MAX_GRANULES: u64 = 16;

/// Maximum number of sequential readers of one content that are distinguished.
const READERS: usize = 8;

/// The sequential readers of a content, the most recent last.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    readers: Vec<Sequence>,
    last_number: u64,
    /// Number of granules read so far.
    read_count: u64,
}

/// A sequential reader, and the extent of its read-ahead.
#[derive(Debug, Default)]
struct Sequence {
    /// The last granule that was read.
    start: u64,
    end: u64,
    /// Number of consecutive granules read.
    row: u32,
    /// End of the last granule that was read out of order; the kernel's requests are slightly reordered.
    out_of_order_end: u64,
    /// End of the granules that are decoded, being decoded or scheduled.
    ahead: u64,
    /// Value of `read_count` at the reader's last read.
    last_read: u64,
    /// True while a thread decodes ahead for this reader.
    busy: bool,
    /// Number that distinguishes the reader from earlier ones.
    number: u64,
}

impl Sequences {
    /// Records the read of a granule; returns its reader if more may be decoded ahead now.
    fn read(&mut self, start: u64, end: u64) -> Option<&mut Sequence> {
        let exactly = self.readers.iter().rposition(|reader| reader.is_at(start));
        let at = exactly.or_else(|| self.readers.iter().rposition(|reader| reader.is_near(start)));
        let reader = match at {
            Some(at) => self.readers.remove(at),
            None => {
                if self.readers.len() >= READERS {
                    self.readers.remove(0);
                }
                self.last_number += 1;
                Sequence { end: start, ahead: end, number: self.last_number, ..Sequence::default() }
            }
        };
        self.readers.push(reader);
        let reader = self.readers.last_mut()?;
        if reader.row > 0 && reader.start == start {
            return None;
        }
        self.read_count += 1;
        reader.last_read = self.read_count;
        reader.read(start, end).then_some(reader)
    }

    /// Returns a reader, unless it has been inactive for so many reads of others that it counts as gone.
    fn find(&mut self, number: u64) -> Option<&mut Sequence> {
        let read_count = self.read_count;
        let reader = self.readers.iter_mut().find(|reader| reader.number == number)?;
        if read_count - reader.last_read <= READERS as u64 {
            return Some(reader);
        }
        reader.busy = false;
        None
    }

    /// Returns the start of the chunk that contains a decoded offset, if a reader is in it or just before it.
    pub(super) fn start_near(&self, at: u64) -> Option<u64> {
        let touches = |reader: &&Sequence| reader.start <= at && at <= reader.end;
        let reader = self.readers.iter().rev().find(touches)?;
        Some(if at < reader.end { reader.start } else { reader.end })
    }
}

impl Sequence {
    /// True if a granule is the last one of this reader, or the next.
    fn is_at(&self, start: u64) -> bool {
        [self.start, self.end, self.out_of_order_end].contains(&start)
    }

    /// True if a granule is near the reader's position.
    fn is_near(&self, start: u64) -> bool {
        start.saturating_add(NEAR) >= self.start && start <= self.end.saturating_add(NEAR)
    }

    /// Records the read of a granule; true if it is the next one in sequence.
    fn read(&mut self, start: u64, end: u64) -> bool {
        if start != self.end && start != self.out_of_order_end {
            self.out_of_order_end = end;
            return false;
        }
        (self.start, self.end, self.row, self.out_of_order_end) = (start, end, self.row.saturating_add(1), 0);
        self.ahead = self.ahead.max(end);
        u64::from(self.row) >= IN_A_ROW
    }

    /// Returns the number of granules to decode ahead, up to `most`.
    fn depth(&self, most: u64) -> u64 {
        depth(u64::from(self.row), most)
    }
}

impl Decoded {
    /// Starts read-ahead if this granule continues a sequence.
    pub(super) fn read_ahead(&self, granule: Granule) {
        let (true, Some(shared)) =
            (self.cache.threads() > 1, self.weak_self.get().and_then(std::sync::Weak::upgrade))
        else {
            return;
        };
        if granule.span.is_whole() {
            shared.pieces_ahead(granule);
        } else {
            shared.granules_ahead(granule);
        }
    }

    fn pieces_ahead(self: &Arc<Self>, granule: Granule) {
        let Encoded::Pieces(pieces) = &self.encoded else { return };
        let most = self.cache.budget() / 2;
        let (mut at, until, number, end) = {
            let sequences = &mut self.state().sequences;
            let Some(reader) = sequences.read(granule.span.start, granule.span.end) else { return };
            let len = granule.span.end - granule.span.start;
            let ahead = (len * reader.depth(self.cache.threads() as u64)).min(most);
            let until = reader.end.saturating_add(ahead).min(self.data_size);
            (reader.ahead, until, reader.number, reader.end)
        };
        while at < until && at >= end {
            let Ok(Some(piece)) = pieces.find(at) else { return };
            if piece.offset != at || piece.len == 0 || piece.len > WHOLE {
                return;
            }
            let Some(reservation) = self.cache.reserve(piece.len) else { return };
            at = at.saturating_add(piece.len);
            match self.state().sequences.find(number) {
                Some(reader) if reader.ahead < at => reader.ahead = at,
                _ => return,
            }
            let weak = Arc::downgrade(self);
            self.cache.run(move || {
                if let Some(decoded) = weak.upgrade() {
                    decoded.piece_ahead(piece, number, reservation);
                }
            });
        }
    }

    /// Decodes a chunk into the cache, unless its reader has gone elsewhere.
    fn piece_ahead(&self, piece: Chunk, number: u64, reservation: Reservation) {
        let is_wanted = self.state().sequences.find(number).is_some();
        if is_wanted
            && self.cache.get(self.id, piece.offset).is_none()
            && let Ok(granule) = self.locate(piece.offset)
        {
            // The reader will get the error itself.
            let _ = self.obtain(granule);
        }
        drop(reservation);
    }

    fn granules_ahead(self: &Arc<Self>, granule: Granule) {
        // A checksum mismatch at the end puts all bytes in doubt. A reader must not be affected before it
        // reaches the end, so the last granule is not decoded ahead.
        let last = granule.span.end.saturating_sub(1);
        let last = last - last.saturating_sub(granule.span.start) % GRANULE;
        let most = MAX_GRANULES.min(self.cache.budget() / 2 / GRANULE);
        let number = {
            let sequences = &mut self.state().sequences;
            let Some(reader) = sequences.read(granule.start, self.end_of(granule)) else { return };
            let until = reader.end.saturating_add(GRANULE * reader.depth(most)).min(last);
            reader.ahead = reader.ahead.max(until);
            if reader.busy || most == 0 || until <= reader.end {
                return;
            }
            reader.busy = true;
            reader.number
        };
        let Some(room) = self.cache.reserve(self.weight(granule)) else {
            if let Some(reader) = self.state().sequences.find(number) {
                reader.busy = false;
            }
            return;
        };
        let weak = Arc::downgrade(self);
        self.cache.run(move || {
            if let Some(decoded) = weak.upgrade() {
                decoded.follow(number);
            }
            drop(room);
        });
    }

    /// Decodes the granules of a stream ahead of a reader into the cache, up to the scheduled extent.
    fn follow(&self, number: u64) {
        let mut next = 0;
        loop {
            let at = {
                let mut state = self.state();
                let Some(reader) = state.sequences.find(number) else { return };
                let at = reader.end.max(next);
                if at >= reader.ahead {
                    reader.busy = false;
                    return;
                }
                at
            };
            next = at.saturating_add(GRANULE);
            if self.cache.get(self.id, at).is_some() {
                continue;
            }
            if self.locate(at).and_then(|granule| self.obtain(granule)).is_err() {
                // The reader will get the error itself, or read on elsewhere.
                if let Some(reader) = self.state().sequences.find(number) {
                    reader.busy = false;
                }
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sequences: &mut Sequences, start: u64) -> Option<(u32, u64)> {
        sequences.read(start, start + 10).map(|reader| (reader.row, reader.number))
    }

    #[test]
    fn reading_on_makes_a_sequence_and_a_seek_ends_it() {
        let mut sequences = Sequences::default();
        assert_eq!([0, 10, 20, 30].map(|at| read(&mut sequences, at).is_some()), [false, true, true, true]);
        let reader = sequences.find(1).unwrap();
        assert_eq!((reader.depth(16), reader.depth(2), reader.number), (4, 2, 1));
        // Out of order, and again.
        assert_eq!([20, 30, 40].map(|at| read(&mut sequences, at).is_some()), [false, false, true]);
        let far = 100 + 2 * NEAR;
        assert_eq!(read(&mut sequences, far), None);
        assert_eq!(read(&mut sequences, far + 10), Some((2, 2)));
    }

    #[test]
    fn several_readers_are_distinguished_by_their_offsets() {
        let mut sequences = Sequences::default();
        let starts = [0, 4 * NEAR, 8 * NEAR];
        for step in 0..4 {
            for (n, start) in (1..).zip(starts) {
                let known = read(&mut sequences, start + 10 * step);
                assert_eq!(known, (step > 0).then_some((step as u32 + 1, n)));
            }
        }
        assert_eq!(sequences.start_near(4 * NEAR + 35), Some(4 * NEAR + 30));
        assert_eq!(sequences.start_near(4 * NEAR + 40), Some(4 * NEAR + 40));
        assert_eq!(sequences.start_near(5 * NEAR), None);
    }

    #[test]
    fn a_reader_that_skips_a_little_stays_the_same_reader() {
        let mut sequences = Sequences::default();
        assert_eq!(
            [0, 10, 50, 60, 70].map(|at| read(&mut sequences, at).is_some()),
            [false, true, false, true, true]
        );
        assert_eq!(sequences.last_number, 1);
    }

    #[test]
    fn no_more_readers_are_remembered_than_some() {
        let mut sequences = Sequences::default();
        for n in 0..100 {
            assert_eq!(read(&mut sequences, n * 4 * NEAR), None);
        }
        assert_eq!(sequences.readers.len(), READERS);
    }
}
