//! The table of zstd frames as it is kept between two mounts ([`seek::kept`](crate::codec::seek::kept)).
//!
//! A place is where decoding can start: where its frame begins, where its block begins (bytes of the stream),
//! its decoded offset, and where its record is in the file (40 bits) and how long (24 bits). The first place
//! is the stream's start. A record is what is needed from its place up to the next, which together are a
//! span:
//!
//! ```text
//! crc         u32      CRC-32 of the next two
//! count       u32
//! sums        count × u32   CRC-32 of each piece of the span's output
//! crc         u32      CRC-32 of the rest
//! dictionary  what libzstd has to know at the place, packed by zstd; nothing at the stream's start
//! ```
//!
//! A piece ends with the first block with which it has 256 KiB, or with the span. The header's checksum is
//! that of the last frame, or 0; its end is behind that.

use std::io;
use std::sync::Arc;

use super::aside::{self, Aside};
use super::sums::PIECE;
use crate::codec::seek::kept::{Slot, Table, Whole, crc_after, records};
use crate::content::{Content, read_exact_at};

/// Bits of a record's place and length that are its length.
const LEN_BITS: u32 = 24;

/// Places of a table at most: many more than the scale gives.
const PLACES: u64 = 1 << 16;

/// Bytes of a record beside its sums and its dictionary.
const BESIDE: u64 = 12;

/// A place: frame, block, offset, record.
type Numbers = [u64; 4];

/// A table that was found, and whose numbers fit each other.
#[derive(Debug)]
pub(super) struct Kept {
    file: Arc<dyn Content>,
    pub(super) whole: Whole,
    places: Vec<Numbers>,
    data_size: u64,
}

/// Where decoding can start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Where the frame begins, and the block: the same, if it is a frame's start.
    pub(super) frame: u64,
    pub(super) block: u64,
    /// Where what it decodes to begins.
    pub(super) offset: u64,
}

impl Kept {
    /// The table in a slot, if there is one that can be right.
    pub(super) fn find(slot: &Slot) -> Option<Self> {
        let Table { file, whole, places, records } = slot.find::<4>(PLACES)?;
        let kept = Self { file, whole, places, data_size: slot.data_size() };
        if kept.is_consistent(records, slot.used_size()) {
            return Some(kept);
        }
        slot.remove();
        None
    }

    fn is_consistent(&self, records: u64, used_size: u64) -> bool {
        let first = self.places.first().is_some_and(|place| place[..3] == [0, 0, 0]);
        let ordered = self.places.is_sorted_by(|one, next| one[1] < next[1] && one[2] < next[2]);
        let fit = self.places.iter().all(|&[frame, block, _, record]| {
            let (at, len) = record_at(record);
            frame <= block && len >= BESIDE && at >= records && at + len <= self.file.len()
        });
        let end = self.whole.end / 8;
        let last = self.places.last().is_some_and(|place| place[1] < end && place[2] < self.data_size);
        first
            && ordered
            && fit
            && last
            && end <= used_size
            && self.whole.end.is_multiple_of(8)
            && self.whole.unit == PIECE
    }

    /// The decoded offset where a span begins; that of the one after the last is the end.
    pub(super) fn start(&self, span: usize) -> u64 {
        self.places.get(span).map_or(self.data_size, |place| place[2])
    }

    /// The span that holds a decoded offset.
    pub(super) fn span_at(&self, offset: u64) -> usize {
        self.places.partition_point(|place| place[2] <= offset).saturating_sub(1)
    }

    /// Where decoding a span starts.
    pub(super) fn place(&self, span: usize) -> Option<Place> {
        let &[frame, block, offset, _] = self.places.get(span)?;
        Some(Place { frame, block, offset })
    }

    /// The sums of a span, if they are there and undamaged.
    pub(super) fn sums(&self, span: usize) -> Option<Vec<u32>> {
        let (at, len) = record_at(self.places.get(span)?[3]);
        let mut head = [0; 8];
        read_exact_at(&*self.file, at, &mut head).ok()?;
        let count = short(&head, 4)?;
        let bytes_of_sums = u64::from(count) * 4;
        if bytes_of_sums > len - BESIDE {
            return None;
        }
        let mut sums = vec![0; usize::try_from(bytes_of_sums).ok()?];
        read_exact_at(&*self.file, at + 8, &mut sums).ok()?;
        if crc_after(crc_after(0, &head[4..]), &sums) != short(&head, 0)? {
            return None;
        }
        sums.chunks_exact(4).map(|four| short(four, 0)).collect()
    }

    /// The dictionary of a span that has `sums` sums, of `most` bytes at most, if it is undamaged.
    pub(super) fn dictionary(&self, span: usize, sums: usize, most: usize) -> Option<Vec<u8>> {
        let (at, len) = record_at(self.places.get(span)?[3]);
        let before = 8 + 4 * sums as u64;
        let mut bytes = vec![0; usize::try_from(len.checked_sub(before)?).ok()?];
        read_exact_at(&*self.file, at + before, &mut bytes).ok()?;
        let (crc, packed) = bytes.split_first_chunk::<4>()?;
        if crc_after(0, packed) != u32::from_le_bytes(*crc) {
            return None;
        }
        aside::unpack(packed, most)
    }
}

fn record_at(record: u64) -> (u64, u64) {
    (record >> LEN_BITS, record & ((1 << LEN_BITS) - 1))
}

fn short(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// What a table has of a span.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) place: Place,
    pub(super) sums: Vec<u32>,
    /// Packed; none at the stream's start.
    pub(super) dictionary: Option<Arc<Aside>>,
}

/// Keeps a table.
pub(super) fn keep(slot: &Slot, whole: Whole, spans: &[Span]) {
    let mut at = records::<4>(spans.len());
    let mut places = Vec::with_capacity(spans.len());
    for span in spans {
        let packed = span.dictionary.as_ref().map_or(0, |dictionary| dictionary.len() as u64);
        let len = BESIDE + 4 * span.sums.len() as u64 + packed;
        if len >> LEN_BITS > 0 || at >> (64 - LEN_BITS) > 0 || spans.len() as u64 > PLACES {
            return;
        }
        let Place { frame, block, offset } = span.place;
        places.push([frame, block, offset, at << LEN_BITS | len]);
        at += len;
    }
    slot.keep(Whole { unit: PIECE, ..whole }, &places, &mut |out| {
        for span in spans {
            let count = u32::try_from(span.sums.len()).map_err(io::Error::other)?;
            let sums: Vec<u8> =
                std::iter::once(&count).chain(&span.sums).flat_map(|n| n.to_le_bytes()).collect();
            out.write_all(&crc_after(0, &sums).to_le_bytes())?;
            out.write_all(&sums)?;
            let packed = match &span.dictionary {
                Some(dictionary) => {
                    dictionary.stored().ok_or_else(|| io::Error::other("a window can't be read"))?
                }
                None => Vec::new(),
            };
            out.write_all(&crc_after(0, &packed).to_le_bytes())?;
            out.write_all(&packed)?;
        }
        Ok(())
    });
}
