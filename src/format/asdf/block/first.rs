//! Where the first block is, behind the tree and its padding.
//!
//! Padding may hold any bytes but the magic; files that break this rule exist (a naive edit leaves
//! old bytes behind). So the first magic counts, unless what follows it can't be a header.

use super::{Chain, Next};
use crate::error::Result;
use crate::format::Severity;
use crate::format::asdf::header::{Header, LONGEST_FIELDS};

/// Bytes read at once while looking for a magic.
const PIECE: usize = 256 << 10;
/// Bytes read at first: it is mostly close behind the tree.
const FIRST_PIECE: usize = 16 << 10;
/// Magics without a header that are stepped over before the search is given up.
const MOST_FALSE_MAGICS: usize = 4096;
/// Header sizes above this are allowed by the standard, but not believed in doubtful places.
const LARGEST_USUAL_HEADER: u16 = 4096;
/// What writers write.
const USUAL_HEADERS: [u16; 4] = [48, 44, 40, 36];

/// The offset of the first block's magic, or `None` if there are no blocks.
pub(super) fn first_block(chain: &mut Chain<'_>, head_end: u64) -> Result<Option<u64>> {
    let mut from = head_end;
    let mut first = None;
    for _ in 0..MOST_FALSE_MAGICS {
        let Some(at) = next_magic(chain, from)? else { break };
        first.get_or_insert(at);
        if looks_like_a_block(chain, at)? {
            let at = contradicted_by_index(chain, at)?.unwrap_or(at);
            if first != Some(at) {
                let what =
                    "the padding holds a block's magic: other programs may take it for the first block";
                chain.note(Severity::Note, first.unwrap_or(at), None, what);
            }
            return Ok(Some(at));
        }
        from = at + 1;
    }
    Ok(first)
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
    let Ok(header) = chain.header(at) else { return fits_with_usual_size(chain, at) };
    Ok(is_usual(&header) || (!header.streamed() && chain.is_chained(at)?) || fits_with_usual_size(chain, at)?)
}

/// Whether it is only the `header_size` that is damaged: with a usual one a block or the end follows.
fn fits_with_usual_size(chain: &mut Chain<'_>, at: u64) -> Result<bool> {
    for size in USUAL_HEADERS {
        let mut bytes = chain.window.at(at, LONGEST_FIELDS)?.to_vec();
        let Some(field) = bytes.get_mut(4..6) else { return Ok(false) };
        field.copy_from_slice(&size.to_be_bytes());
        let Ok(header) = Header::parse(chain.generation, at, &bytes) else { continue };
        if let Some(end) = header.end().filter(|end| is_usual(&header) && *end <= chain.size)
            && header.allocated_size > 0
            && !matches!(chain.next(end)?, Next::Neither(_))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the fields are such as writers write.
fn is_usual(header: &Header) -> bool {
    let label = header.label_text();
    let sizes_fit =
        (header.used_size <= header.allocated_size || header.streamed()) && header.end().is_some();
    header.header_size <= LARGEST_USUAL_HEADER
        && header.flags <= 3
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
    Ok((!chain.is_chained(at)? && chain.is_chained(named)?).then_some(named))
}
