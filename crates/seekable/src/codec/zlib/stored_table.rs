//! The seek table of a zlib stream as it is stored between mounts
//! ([`seek::stored_table`](crate::codec::seek::stored_table)).
//!
//! Each entry is a checkpoint: the bit of its block's header, its own bit, its decoded offset, and the
//! position (40 bits) and length (24 bits) of its record in the file. The first entry is the stream's start.
//! The output from a checkpoint to the next is a span. A record holds what its span needs:
//!
//! ```text
//! crc       u32       CRC-32 of the rest
//! crcs      n × u32   CRC-32 of all output from the stream's start to: the checkpoint; each multiple of
//!                     the table's interval within the span; the span's end
//! window              the output before the checkpoint, compressed
//! ```
//!
//! The output between two of these offsets is right if the first CRC, continued over it, gives the second.

use std::io;

use super::Scale;
use super::checkpoint::PackedCheckpoint;
use crate::codec::deflate::{Block, PackedWindow, Position, WINDOW, zlib};
use crate::codec::seek::SegmentReader;
use crate::codec::seek::spans::{self, Numbers, Spans};
use crate::codec::seek::stored_table::{Summary, TableSlot, crc_after, records};
use crate::error::Result;

/// Maximum size of a packed window: an incompressible one, with some room.
const PACKED: u64 = WINDOW as u64 + WINDOW as u64 / 8 + 64;

/// Maximum size of a record in bytes.
const RECORD: u64 = 1 << 20;

/// Maximum number of checkpoints in a table: many more than the spacing gives.
const MAX_CHECKPOINTS: u64 = 1 << 17;

/// A stored seek table whose numbers are consistent.
#[derive(Debug)]
pub(super) struct StoredZlibTable {
    pub(super) spans: Spans,
}

/// The data stored for the output from one checkpoint to the next: its CRCs, and the window before it.
#[derive(Debug)]
pub(super) struct Record {
    /// CRCs of the output up to the span's start, to each multiple of the interval within the span, and to its
    /// end.
    crcs: Vec<u32>,
    window: PackedWindow,
}

impl StoredZlibTable {
    /// Returns the table in a slot, if it is consistent.
    pub(super) fn find(slot: &TableSlot) -> Option<Self> {
        let bits = slot.used_size().checked_mul(8);
        let is_consistent = |spans: &Spans| bits.is_some_and(|bits| is_consistent(spans, bits));
        Some(Self { spans: Spans::find(slot, MAX_CHECKPOINTS, is_consistent)? })
    }

    /// Returns the position at which decoding of a span starts.
    pub(super) fn position(&self, span: usize) -> Option<Position> {
        let [header, bit, offset] = self.spans.position(span)?;
        let block = if header == bit { Block::Between } else { Block::Dynamic };
        Some(Position { header, bit, offset, block, last: false })
    }

    /// Returns the number and the decoded offset of the next CRC after `at`, which is in `span`.
    pub(super) fn next_crc(&self, span: usize, at: u64) -> (usize, u64) {
        let start = self.spans.start(span);
        let end = self.spans.start(span + 1);
        let interval = self.spans.whole.interval;
        let number = at / interval - start / interval + 1;
        let next = (at / interval).saturating_add(1).saturating_mul(interval).min(end);
        (usize::try_from(number).unwrap_or(usize::MAX), next)
    }

    /// Returns the record of a span, if it is there and undamaged.
    pub(super) fn record(&self, span: usize) -> Option<Record> {
        let (_, len) = self.spans.record(span)?;
        let mut bytes = vec![0; usize::try_from(len).ok()?];
        self.spans.read(span, 0, &mut bytes)?;
        let (crc, rest) = bytes.split_first_chunk::<4>()?;
        if crc_after(0, rest) != u32::from_le_bytes(*crc) {
            return None;
        }
        let count = usize::try_from(crc_count(&self.spans, span)?).ok()?;
        let (crcs, packed) = rest.split_at_checked(count.checked_mul(4)?)?;
        let crcs = crcs
            .chunks_exact(4)
            .map(|four| four.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)));
        let window = usize::try_from(self.spans.start(span).min(WINDOW as u64)).ok()?;
        Some(Record { crcs: crcs.collect(), window: PackedWindow::from_parts(window, packed.to_vec()) })
    }
}

fn is_consistent(spans: &Spans, bits: u64) -> bool {
    let fit = (0..spans.entries.len()).all(|n| {
        let (Some((_, len)), Some([header, bit, _])) = (spans.record(n), spans.position(n)) else {
            return false;
        };
        let crcs = crc_count(spans, n).and_then(|crcs| crcs.checked_mul(4)?.checked_add(4));
        header <= bit
            && crcs.is_some_and(|crcs| (crcs..=crcs.saturating_add(PACKED)).contains(&len))
            && len <= RECORD
    });
    let first = [zlib::FIRST_BIT, zlib::FIRST_BIT, 0];
    fit && spans.are_in_order(first, spans.whole.end)
        && spans.whole.end <= bits
        && spans.whole.interval == Scale::of(spans.start(spans.entries.len())).interval()
}

/// Returns the number of CRCs in a record.
fn crc_count(spans: &Spans, span: usize) -> Option<u64> {
    let start = spans.start(span);
    let end = spans.start(span + 1);
    let interval = spans.whole.interval;
    Some((end.checked_sub(1)?.checked_div(interval)?).checked_sub(start.checked_div(interval)?)? + 2)
}

impl Record {
    /// Returns the output before the span.
    pub(super) fn window(&self) -> Option<Vec<u8>> {
        let mut window = Vec::new();
        // The first span has no output before it, so no window was packed.
        let unpacked = self.window.is_empty() || self.window.unpack(&mut window).is_ok();
        unpacked.then_some(window)
    }

    /// True if CRC number `next - 1`, continued over `bytes`, gives CRC number `next`.
    pub(super) fn vouches(&self, next: usize, bytes: &[u8]) -> bool {
        let before = next.checked_sub(1).and_then(|before| self.crcs.get(before));
        before.is_some_and(|&before| self.crcs.get(next) == Some(&crc_after(before, bytes)))
    }
}

/// The CRCs of a stream's output up to the multiples of a interval, and up to its end.
#[derive(Clone, Debug)]
pub(super) struct CumulativeCrcs {
    pub(super) interval: u64,
    /// CRCs up to 0, up to the first multiple, …
    pub(super) at: Vec<u32>,
    /// The CRC of all output so far.
    pub(super) now: u32,
}

impl CumulativeCrcs {
    pub(super) fn new(scale: Scale) -> Self {
        Self { interval: scale.interval(), at: vec![0], now: 0 }
    }

    /// Returns an empty list that continues these CRCs from the current offset.
    pub(super) fn tip(&self) -> Self {
        Self { interval: self.interval, at: Vec::new(), now: self.now }
    }

    /// Appends the CRCs of `tip`, which [`Self::tip`] returned and [`Self::extend`] has continued.
    pub(super) fn add(&mut self, tip: Self) {
        self.at.extend(tip.at);
        self.now = tip.now;
    }

    /// Continues with `bytes`, which begin at `offset`. Returns the CRCs up to each of `offsets`, which are in
    /// order and within the bytes.
    pub(super) fn extend(&mut self, mut offset: u64, mut bytes: &[u8], offsets: &[u64]) -> Vec<u32> {
        let mut offsets = offsets.iter().copied().peekable();
        let mut crcs = Vec::new();
        while !bytes.is_empty() || offsets.peek().is_some() {
            if offsets.next_if(|at| *at <= offset).is_some() {
                crcs.push(self.now);
                continue;
            }
            let multiple = (offset / self.interval).saturating_add(1).saturating_mul(self.interval);
            let until = offsets.peek().map_or(multiple, |at| multiple.min(*at));
            let len = usize::try_from(until - offset).map_or(bytes.len(), |len| len.min(bytes.len()));
            if len == 0 {
                // Offsets after the bytes have no CRC.
                break;
            }
            let (part, rest) = bytes.split_at(len);
            self.now = crc_after(self.now, part);
            offset += len as u64;
            bytes = rest;
            if offset == multiple {
                self.at.push(self.now);
            }
        }
        crcs
    }

    /// Returns the CRCs of a span: up to its start, to the multiples within it, and to its end.
    fn of_span(&self, start: (u64, u32), end: (u64, u32)) -> Option<Vec<u32>> {
        let multiples = usize::try_from(start.0 / self.interval + 1).ok()?
            ..usize::try_from((end.0 - 1) / self.interval + 1).ok()?;
        let mut crcs = vec![start.1];
        crcs.extend_from_slice(self.at.get(multiples)?);
        crcs.push(end.1);
        Some(crcs)
    }
}

/// A seek table that is to be stored.
#[derive(Debug)]
pub(super) struct NewStoredTable {
    /// The checkpoints that have a CRC.
    pub(super) marks: Vec<PackedCheckpoint>,
    pub(super) crcs: CumulativeCrcs,
    pub(super) whole: Summary,
}

impl NewStoredTable {
    /// Stores the table; `packed` returns the compressed window of a checkpoint.
    pub(super) fn keep(
        &self,
        slot: &TableSlot,
        packed: &dyn Fn(&PackedCheckpoint) -> Option<Vec<u8>>,
        pass: &dyn Fn() -> Result<Box<dyn SegmentReader>>,
    ) {
        let Some((entries, crcs_of_spans)) = self.entries(slot.data_size()) else { return };
        let mut records = |out: &mut dyn io::Write| {
            for (n, crcs) in crcs_of_spans.iter().enumerate() {
                let window = match n.checked_sub(1).and_then(|n| self.marks.get(n)) {
                    Some(mark) => packed(mark).ok_or_else(|| io::Error::other("a window can't be read"))?,
                    None => Vec::new(),
                };
                let rest: Vec<u8> = crcs.iter().flat_map(|crc| crc.to_le_bytes()).chain(window).collect();
                out.write_all(&crc_after(0, &rest).to_le_bytes())?;
                out.write_all(&rest)?;
            }
            Ok(())
        };
        slot.keep(self.whole, &entries, &mut records, pass);
    }

    /// Returns the entries of the table, and the CRCs of each span.
    fn entries(&self, data_size: u64) -> Option<(Vec<Numbers>, Vec<Vec<u32>>)> {
        let count = self.marks.len() + 1;
        let mut at = records::<4>(count);
        let mut entries = Vec::with_capacity(count);
        let mut all = Vec::with_capacity(count);
        let mut start = (0, 0);
        for n in 0..count {
            let mark = n.checked_sub(1).and_then(|n| self.marks.get(n));
            let end = match self.marks.get(n) {
                Some(next) => (next.offset, next.crc?),
                None => (data_size, self.crcs.now),
            };
            let crcs = self.crcs.of_span(start, end)?;
            let window = mark.map_or(0, |mark| mark.window.len());
            let len = 4 + 4 * crcs.len() as u64 + window;
            if len > RECORD || count as u64 > MAX_CHECKPOINTS {
                return None;
            }
            let (header, bit) = mark.map_or((zlib::FIRST_BIT, zlib::FIRST_BIT), PackedCheckpoint::bits);
            entries.push([header, bit, start.0, spans::record(at, len)?]);
            all.push(crcs);
            at += len;
            start = end;
        }
        Some((entries, all))
    }
}
