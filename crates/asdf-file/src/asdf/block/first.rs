//! Finds the first block after the tree and its padding.
//!
//! If only blanks precede the first magic, the first block begins there, and an unreadable header there is
//! damaged. The standard allows bytes other than blanks in padding, but not the magic. Files that break this
//! rule exist, as a naive edit leaves old bytes behind. After such bytes the first magic counts unless the
//! bytes after it can't be a header. In both cases an index that names another first block decides, if the
//! chain from that block continues and the chain from the magic does not.

use seekable::error::Result;

use super::super::defect::AsdfDefect;
use super::super::header::{Header, MAGIC, MAX_FIELDS};
use super::{AfterBlock, BlockScan, MAX_GAP};

/// Bytes read at once while looking for a magic.
const PIECE: usize = 256 << 10;
/// Bytes of the first read: the magic is usually close to the tree.
const FIRST_PIECE: usize = 16 << 10;
/// Maximum number of magics without a header that are skipped before the search ends.
const MAX_FALSE_MAGICS: usize = 4096;
/// Maximum header size that is trusted in doubtful places. The standard allows larger ones.
const MAX_USUAL_HEADER: u16 = 4096;
/// The header sizes that writers use.
pub(super) const USUAL_HEADERS: [u16; 4] = [48, 44, 40, 36];

/// Returns the offset of the first block's magic; `None` if there are no blocks.
pub(super) fn first_block(scan: &mut BlockScan<'_>, head_end: u64) -> Result<Option<u64>> {
    let padding_end = scan.blanks_end(head_end)?;
    let magic = next_magic(scan, padding_end)?;
    if magic == Some(padding_end) {
        return behind_magic(scan, padding_end, padding_end).map(Some);
    }
    // The whole magic may have become blanks. The first byte of header_size usually is 0, which is a blank,
    // too.
    for at in padding_end.saturating_sub(5).max(head_end)..=padding_end {
        if likely_end(scan, at)?.is_some() {
            return Ok(Some(at));
        }
    }
    among_other_bytes(scan, magic)
}

/// Finds the first block in padding that is not all blank. `first` is the offset of the first magic.
fn among_other_bytes(scan: &mut BlockScan<'_>, first: Option<u64>) -> Result<Option<u64>> {
    let mut magic = first;
    for _ in 0..MAX_FALSE_MAGICS {
        let Some(at) = magic else { break };
        if looks_like_a_block(scan, at)? {
            return behind_magic(scan, first.unwrap_or(at), at).map(Some);
        }
        magic = next_magic(scan, at + 1)?;
    }
    Ok(first)
}

/// Returns the first block: the one at `at`, unless the index contradicts. `first` is the offset of the first
/// magic.
fn behind_magic(scan: &mut BlockScan<'_>, first: u64, at: u64) -> Result<u64> {
    let at = contradicted_by_index(scan, at)?.unwrap_or(at);
    if first != at {
        scan.note(first, None, AsdfDefect::MagicInPadding);
    }
    Ok(at)
}

/// Returns the offset of the next magic from `from` on. Does not search past a block index, and on a server no
/// further than the longest gap: the size of an object may be a lie.
pub(super) fn next_magic(scan: &BlockScan<'_>, from: u64) -> Result<Option<u64>> {
    let mut bytes = vec![0; FIRST_PIECE];
    let mut at = from;
    loop {
        let read = seekable::source::read_up_to(scan.source, at, &mut bytes)?;
        if let Some(found) = scan.generation.find_magic(&bytes[..read]) {
            return Ok(Some(at + found as u64));
        }
        if read < bytes.len() || scan.source.is_slow() && at - from > MAX_GAP {
            return Ok(None);
        }
        // A magic may span two pieces.
        at += (read - 3) as u64;
        bytes.resize(PIECE, 0);
    }
}

/// True if a plausible header begins at `at`, even if the data of the block are cut off.
fn looks_like_a_block(scan: &mut BlockScan<'_>, at: u64) -> Result<bool> {
    if let Some(header) = scan.sound_header(at)?
        && (is_usual(&header) || (!header.streamed() && scan.is_chained(at)?))
    {
        return Ok(true);
    }
    Ok(likely_end(scan, at)?.is_some())
}

/// Returns the end of the block at `at` if only its magic or its `header_size` is damaged: with these
/// repaired, a block, the index or the end of the file follows it.
pub(super) fn likely_end(scan: &mut BlockScan<'_>, at: u64) -> Result<Option<u64>> {
    let mut bytes = scan.window.at(at, MAX_FIELDS)?.to_vec();
    let Some(&[_, _, _, _, high, low]) = bytes.first_chunk() else { return Ok(None) };
    bytes[..4].copy_from_slice(&MAGIC);
    let written = u16::from_be_bytes([high, low]);
    for size in [&[written][..], &USUAL_HEADERS].concat() {
        bytes[4..6].copy_from_slice(&size.to_be_bytes());
        let Ok(header) = Header::parse(scan.generation, at, &bytes) else { continue };
        if let Some(end) = header.end().filter(|end| is_usual(&header) && *end <= scan.size)
            && header.allocated_size > 0
            && !header.streamed()
            && !matches!(scan.next(end)?, AfterBlock::Neither(_))
        {
            return Ok(Some(end));
        }
    }
    Ok(None)
}

/// True if the fields have values that writers use.
fn is_usual(header: &Header) -> bool {
    let label = header.label_text();
    let sizes_fit =
        (header.used_size <= header.allocated_size || header.streamed()) && header.end().is_some();
    header.header_size <= MAX_USUAL_HEADER
        && label.iter().all(u8::is_ascii_graphic)
        // Contradictory sizes are taken for damage if `header_size` and the label are those that writers use.
        && (sizes_fit || (USUAL_HEADERS.contains(&header.header_size) && [0, 4].contains(&label.len())))
}

/// Returns a later offset that the index names as the first block, if the chain from there continues and the
/// chain from `at` does not.
fn contradicted_by_index(scan: &mut BlockScan<'_>, at: u64) -> Result<Option<u64>> {
    let Some(named) = scan.listed(0).filter(|named| *named > at && *named < scan.size) else {
        return Ok(None);
    };
    let leads_nowhere = match scan.sound_header(at)? {
        // In a damaged header, any odd value of the flags sets the stream flag.
        Some(header) if header.streamed() => header.allocated_size > 0 || !is_usual(&header),
        _ => !scan.is_chained(at)?,
    };
    Ok((leads_nowhere && scan.is_chained(named)?).then_some(named))
}
