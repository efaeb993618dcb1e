//! Where the first block is, behind the tree and its padding.
//!
//! The first magic begins it, whatever follows, where only blanks stand before: a header that can't be
//! read there is damaged. Other bytes than blanks are allowed in padding, but not the magic; files that
//! break this rule exist (a naive edit leaves old bytes behind). Behind such bytes the first magic
//! counts unless what follows it can't be a header. In both cases an index decides that names another
//! block as the first, if the chain from there leads somewhere, and the one from the magic does not.

use super::{Chain, Next};
use crate::error::Result;
use crate::format::asdf::defect::Defect;
use crate::format::asdf::header::{Header, LONGEST_FIELDS, MAGIC};

/// Bytes read at once while looking for a magic.
const PIECE: usize = 256 << 10;
/// Bytes read at first: it is mostly close behind the tree.
const FIRST_PIECE: usize = 16 << 10;
/// Magics without a header that are stepped over before the search is given up.
const MOST_FALSE_MAGICS: usize = 4096;
/// Header sizes above this are allowed by the standard, but not believed in doubtful places.
const LARGEST_USUAL_HEADER: u16 = 4096;
/// What writers write.
pub(super) const USUAL_HEADERS: [u16; 4] = [48, 44, 40, 36];

/// The offset of the first block's magic, or `None` if there are no blocks.
pub(super) fn first_block(chain: &mut Chain<'_>, head_end: u64) -> Result<Option<u64>> {
    let padding_end = chain.blanks_end(head_end)?;
    let magic = next_magic(chain, padding_end)?;
    if magic == Some(padding_end) {
        return behind_magic(chain, padding_end, padding_end).map(Some);
    }
    // All of its magic may have become blanks, and the first byte of header_size mostly is one.
    for at in padding_end.saturating_sub(5).max(head_end)..=padding_end {
        if likely_end(chain, at)?.is_some() {
            return Ok(Some(at));
        }
    }
    among_other_bytes(chain, magic)
}

/// The first block in padding that holds more than blanks; `first` is the first magic.
fn among_other_bytes(chain: &mut Chain<'_>, first: Option<u64>) -> Result<Option<u64>> {
    let mut magic = first;
    for _ in 0..MOST_FALSE_MAGICS {
        let Some(at) = magic else { break };
        if looks_like_a_block(chain, at)? {
            return behind_magic(chain, first.unwrap_or(at), at).map(Some);
        }
        magic = next_magic(chain, at + 1)?;
    }
    Ok(first)
}

/// The first block: the one at `at`, unless an index contradicts; `first` is the first magic.
fn behind_magic(chain: &mut Chain<'_>, first: u64, at: u64) -> Result<u64> {
    let at = contradicted_by_index(chain, at)?.unwrap_or(at);
    if first != at {
        chain.note(first, None, Defect::MagicInPadding);
    }
    Ok(at)
}

/// Where the next magic is; not looked for behind a block index.
pub(super) fn next_magic(chain: &Chain<'_>, from: u64) -> Result<Option<u64>> {
    let mut bytes = vec![0; FIRST_PIECE];
    let mut at = from;
    loop {
        let read = crate::source::read_up_to(chain.source, at, &mut bytes)?;
        if let Some(found) = chain.generation.find_magic(&bytes[..read]) {
            return Ok(Some(at + found as u64));
        }
        if read < bytes.len() {
            return Ok(None);
        }
        // A magic may lie across the border.
        at += (read - 3) as u64;
        bytes.resize(PIECE, 0);
    }
}

/// Whether a header stands here, whole or with its data cut off.
fn looks_like_a_block(chain: &mut Chain<'_>, at: u64) -> Result<bool> {
    if let Ok(header) = chain.header(at)
        && (is_usual(&header) || (!header.streamed() && chain.is_chained(at)?))
    {
        return Ok(true);
    }
    Ok(likely_end(chain, at)?.is_some())
}

/// Where the block at `at` ends if only its magic or its `header_size` is damaged: with right ones a
/// block or the end follows.
pub(super) fn likely_end(chain: &mut Chain<'_>, at: u64) -> Result<Option<u64>> {
    let mut bytes = chain.window.at(at, LONGEST_FIELDS)?.to_vec();
    let Some(&[_, _, _, _, high, low]) = bytes.first_chunk() else { return Ok(None) };
    bytes[..4].copy_from_slice(&MAGIC);
    let written = u16::from_be_bytes([high, low]);
    for size in [&[written][..], &USUAL_HEADERS].concat() {
        bytes[4..6].copy_from_slice(&size.to_be_bytes());
        let Ok(header) = Header::parse(chain.generation, at, &bytes) else { continue };
        if let Some(end) = header.end().filter(|end| is_usual(&header) && *end <= chain.size)
            && header.allocated_size > 0
            && !header.streamed()
            && !matches!(chain.next(end)?, Next::Neither(_))
        {
            return Ok(Some(end));
        }
    }
    Ok(None)
}

/// Whether the fields are such as writers write.
fn is_usual(header: &Header) -> bool {
    let label = header.label_text();
    let sizes_fit =
        (header.used_size <= header.allocated_size || header.streamed()) && header.end().is_some();
    header.header_size <= LARGEST_USUAL_HEADER
        && label.iter().all(u8::is_ascii_graphic)
        // Ten bytes as they should be are no chance: the sizes are damaged.
        && (sizes_fit || (USUAL_HEADERS.contains(&header.header_size) && [0, 4].contains(&label.len())))
}

/// A later offset that a whole index names as the first block, if the chain from `at` leads nowhere
/// while the one from there does.
fn contradicted_by_index(chain: &mut Chain<'_>, at: u64) -> Result<Option<u64>> {
    let Some(named) = chain.listed(0).filter(|named| *named > at && *named < chain.size) else {
        return Ok(None);
    };
    let leads_nowhere = match chain.header(at) {
        // Any odd number in a damaged header makes a stream of it.
        Ok(header) if header.streamed() => header.allocated_size > 0 || !is_usual(&header),
        _ => !chain.is_chained(at)?,
    };
    Ok((leads_nowhere && chain.is_chained(named)?).then_some(named))
}
