//! Updates the block index of a file whose blocks move, if bytes of unknown origin surround the index.
//!
//! These bytes stay. An index among them would list the old offsets of the blocks, and readers would trust
//! that index. The index is therefore rewritten in its place. If blocks are damaged, or the index lists more
//! blocks than are found, the index is the better list: its offsets are kept and shifted with the blocks.

use std::ops::Range;
use std::path::Path;

use memchr::memmem;
use seekable::error::{Error, Kind, Result};
use seekable::source::storage::Storage;
use seekable::source::{Source, read_up_to};

use super::index::{text, unfinished};
use super::layout::{Layout, Opened};
use crate::asdf::index::{self, MARKER};

/// Maximum number of bytes held in memory, from the first index to the end of the file.
const MAX_BYTES: u64 = 64 << 20;
/// Bytes read at once.
const PIECE: usize = 256 << 10;
/// The start of another ASDF file, without the version.
const ANOTHER: [&[u8]; 2] = [b"#ASDF ", b"%ASDF "];

/// The bytes after the blocks from the first index on, with an index for the moved blocks.
#[derive(Debug)]
pub(super) struct MovedTail {
    /// The present offset of the first index. The bytes before it stay.
    pub(super) from: u64,
    /// The new bytes from the first index on.
    pub(super) bytes: Vec<u8>,
}

/// Returns the bytes that follow the blocks once these are moved by `shift`; `None` if there is no index
/// among them.
///
/// # Errors
///
/// [`Kind::TooLarge`] if more bytes follow the first index than can be moved with it.
pub(super) fn moved<S: Storage>(
    storage: &S,
    file: &S::File,
    layout: &Layout,
    shift: u64,
) -> Result<Option<MovedTail>> {
    if layout.streamed || layout.offsets.is_empty() {
        return Ok(None);
    }
    let source = Opened { storage, file, path: Path::new("") };
    let size = layout.identity.size;
    let range = match layout.blocks_end {
        Some(end) => find(&source, end..size)?,
        None => behind_damage(&source, layout)?,
    };
    let Some(range) = range else { return Ok(None) };
    if size - range.start > MAX_BYTES {
        return Err(too_long(layout, size - range.start));
    }
    let mut bytes = vec![0; (size - range.start) as usize];
    let read = read_up_to(&source, range.start, &mut bytes)?;
    bytes.truncate(read);
    let ours = read.min((range.end - range.start) as usize);
    let theirs = bytes.split_off(ours);
    let mut bytes = renewed(&bytes, layout, shift);
    bytes.extend(theirs);
    Ok(Some(MovedTail { from: range.start, bytes }))
}

fn too_long(layout: &Layout, len: u64) -> Error {
    let end = layout.blocks_end.unwrap_or(layout.identity.size);
    Error::new(
        Kind::TooLarge,
        format!(
            "the blocks would have to move, together with the block index and all that follows, {len} \
             bytes, and at most {MAX_BYTES} can be moved. Shorten the text, or cut those bytes off: \
             truncate -s {end} keeps all blocks"
        ),
    )
}

/// Returns the range from the first index in `range` to the start of another ASDF file, or to the end of
/// `range`.
fn find(source: &dyn Source, range: Range<u64>) -> Result<Option<Range<u64>>> {
    let mut bytes = vec![0; PIECE];
    let mut at = range.start;
    let mut first = None;
    while at < range.end {
        let read = read_up_to(source, at, &mut bytes)?;
        let piece = &bytes[..read];
        let another = another_file(piece);
        let index = memmem::find(&piece[..another.unwrap_or(read)], MARKER);
        first = first.or(index.map(|index| at + index as u64));
        if let Some(another) = another {
            return Ok(first.map(|first| first..at + another as u64));
        }
        if read < PIECE {
            break;
        }
        // A marker may span two pieces.
        at += (read - MARKER.len()) as u64;
    }
    Ok(first.map(|first| first..range.end))
}

/// Returns the offset of the first line of another ASDF file. No printable character precedes it.
fn another_file(bytes: &[u8]) -> Option<usize> {
    let is_line = |at: usize, word: &[u8]| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        before.is_none_or(|before| !matches!(before, b' '..=b'~'))
            && bytes.get(at + word.len()).is_some_and(u8::is_ascii_digit)
    };
    let begins = |word: &[u8]| memmem::find_iter(bytes, word).find(|at| is_line(*at, word));
    ANOTHER.into_iter().filter_map(begins).min()
}

/// Finds an index of this file after a damaged last block whose end is unknown.
fn behind_damage(source: &dyn Source, layout: &Layout) -> Result<Option<Range<u64>>> {
    let last = layout.offsets.last().copied().unwrap_or_default();
    let found = index::find(source, layout.identity.size, last)?;
    // Bytes that are no index of this file may be data of the block.
    let ours = |found: &index::Index| {
        found.offsets.as_ref().is_ok_and(|listed| listed.first() == layout.offsets.first())
    };
    Ok(found.filter(ours).map(|found| found.offset..found.end))
}

/// Returns `bytes` with the last index updated and all others removed.
fn renewed(bytes: &[u8], layout: &Layout, shift: u64) -> Vec<u8> {
    let mut renewed = Vec::with_capacity(bytes.len());
    let mut last: Option<(usize, Vec<u64>)> = None;
    let mut rest = bytes;
    while let Some(at) = memmem::find(rest, MARKER) {
        let listed = &rest[at + MARKER.len()..];
        let until = memmem::find(listed, MARKER).unwrap_or(listed.len());
        let end = index::end_of(&listed[..until]);
        let len = end.unwrap_or_else(|| unfinished(&listed[..until]));
        renewed.extend(&rest[..at]);
        rest = &listed[len..];
        match index::parse(&listed[..len]) {
            Ok(offsets) => last = Some((renewed.len(), offsets)),
            Err(_) if end.is_some() && layout.sound => last = Some((renewed.len(), Vec::new())),
            // Readers do not recognise these bytes as an index, so they stay.
            Err(_) => renewed.extend([MARKER, &listed[..len]].concat()),
        }
    }
    renewed.extend(rest);
    if let Some((at, listed)) = last {
        let knows_more = listed.len() > layout.offsets.len() && listed.starts_with(&layout.offsets);
        let offsets = if layout.sound && !knows_more { &layout.offsets } else { &listed };
        let by = |offset: u64| if offset < layout.kept_from { 0 } else { shift };
        let moved: Vec<u64> = offsets.iter().map(|offset| offset.saturating_add(by(*offset))).collect();
        renewed.splice(at..at, text(&moved));
    }
    renewed
}
