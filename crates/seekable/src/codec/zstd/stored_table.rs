//! The seek table of zstd frames as it is stored between mounts ([`seek::stored_table`](crate::codec::seek::stored_table)).
//!
//! Each entry is a checkpoint: where its frame begins and where its block begins (bytes of the stream), its
//! decoded offset, and the position (40 bits) and length (24 bits) of its record in the file. The first entry
//! is the start of the stream. The output from a checkpoint to the next is a span. A record holds what its
//! span needs:
//!
//! ```text
//! crc         u32      CRC-32 of the next two
//! count       u32
//! crcs        count × u32   CRC-32 of each piece of the span's output
//! crc         u32      CRC-32 of the rest
//! dictionary  the decoder state at the checkpoint, packed by zstd; empty at the stream's start
//! ```
//!
//! A piece ends with the block that brings it to 256 KiB, or with the span. The checksum in the header of the
//! table is that of the last frame, or 0; the end in that header is the end of the last frame.

use std::io;
use std::sync::Arc;

use super::checksums::PIECE;
use super::dictionary::{self, StoredDictionary};
use crate::codec::seek::SegmentReader;
use crate::codec::seek::spans::{self, Spans};
use crate::codec::seek::stored_table::{Summary, TableSlot, crc_after, records};
use crate::error::Result;

/// Maximum number of checkpoints in a table: many more than the scale gives.
const MAX_CHECKPOINTS: u64 = 1 << 16;

/// Size in bytes of a record without its CRCs and its dictionary.
const BESIDE: u64 = 12;

/// A stored seek table whose numbers are consistent.
#[derive(Debug)]
pub(super) struct StoredZstdTable {
    pub(super) spans: Spans,
}

/// A position where decoding can start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BlockPosition {
    /// Stored offsets of the frame and of the block; both are equal at a frame's start.
    pub(super) frame: u64,
    pub(super) block: u64,
    /// Offset of the block's output.
    pub(super) offset: u64,
}

impl StoredZstdTable {
    /// Returns the table in a slot, if it is consistent.
    pub(super) fn find(slot: &TableSlot) -> Option<Self> {
        let is_consistent = |spans: &Spans| is_consistent(spans, slot.used_size());
        Some(Self { spans: Spans::find(slot, MAX_CHECKPOINTS, is_consistent)? })
    }

    /// Returns the checkpoint at the start of a span.
    pub(super) fn position(&self, span: usize) -> Option<BlockPosition> {
        let [frame, block, offset] = self.spans.position(span)?;
        Some(BlockPosition { frame, block, offset })
    }

    /// Returns the CRCs of a span, if they are there and undamaged.
    pub(super) fn crcs(&self, span: usize) -> Option<Vec<u32>> {
        let (_, len) = self.spans.record(span)?;
        let mut head = [0; 8];
        self.spans.read(span, 0, &mut head)?;
        let count = short(&head, 4)?;
        let bytes_of_crcs = u64::from(count) * 4;
        if bytes_of_crcs > len - BESIDE {
            return None;
        }
        let mut crcs = vec![0; usize::try_from(bytes_of_crcs).ok()?];
        self.spans.read(span, 8, &mut crcs)?;
        if crc_after(crc_after(0, &head[4..]), &crcs) != short(&head, 0)? {
            return None;
        }
        crcs.chunks_exact(4).map(|four| short(four, 0)).collect()
    }

    /// Returns the dictionary of a span that has `crcs` CRCs, if it is undamaged and has at most `most`
    /// bytes.
    pub(super) fn dictionary(&self, span: usize, crcs: usize, most: usize) -> Option<Vec<u8>> {
        let (_, len) = self.spans.record(span)?;
        let before = 8 + 4 * crcs as u64;
        let mut bytes = vec![0; usize::try_from(len.checked_sub(before)?).ok()?];
        self.spans.read(span, before, &mut bytes)?;
        let (crc, packed) = bytes.split_first_chunk::<4>()?;
        if crc_after(0, packed) != u32::from_le_bytes(*crc) {
            return None;
        }
        dictionary::unpack(packed, most)
    }
}

fn is_consistent(spans: &Spans, used_size: u64) -> bool {
    let fit = (0..spans.entries.len()).all(|n| {
        let (Some((_, len)), Some([frame, block, _])) = (spans.record(n), spans.position(n)) else {
            return false;
        };
        frame <= block && len >= BESIDE
    });
    let end = spans.whole.end / 8;
    fit && spans.are_in_order([0, 0, 0], end)
        && end <= used_size
        && spans.whole.end.is_multiple_of(8)
        && spans.whole.interval == PIECE
}

fn short(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A span of a new table.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) position: BlockPosition,
    pub(super) crcs: Vec<u32>,
    /// The packed dictionary; `None` at the stream's start.
    pub(super) dictionary: Option<Arc<StoredDictionary>>,
}

/// Stores a table.
pub(super) fn keep(
    slot: &TableSlot,
    whole: Summary,
    spans: &[Span],
    pass: &dyn Fn() -> Result<Box<dyn SegmentReader>>,
) {
    let mut at = records::<4>(spans.len());
    let mut entries = Vec::with_capacity(spans.len());
    for span in spans {
        let packed = span.dictionary.as_ref().map_or(0, |dictionary| dictionary.len() as u64);
        let len = BESIDE + 4 * span.crcs.len() as u64 + packed;
        let Some(record) = spans::record(at, len).filter(|_| spans.len() as u64 <= MAX_CHECKPOINTS) else {
            return;
        };
        let BlockPosition { frame, block, offset } = span.position;
        entries.push([frame, block, offset, record]);
        at += len;
    }
    let mut records = |out: &mut dyn io::Write| {
        for span in spans {
            let count = u32::try_from(span.crcs.len()).map_err(io::Error::other)?;
            let crcs: Vec<u8> =
                std::iter::once(&count).chain(&span.crcs).flat_map(|n| n.to_le_bytes()).collect();
            out.write_all(&crc_after(0, &crcs).to_le_bytes())?;
            out.write_all(&crcs)?;
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
    };
    slot.keep(Summary { interval: PIECE, ..whole }, &entries, &mut records, pass);
}
