//! The ranges that a change overwrites, found by comparing the old bytes with the new.

use std::io;
use std::ops::Range;

use seekable::source::storage::Storage;

use super::super::plan::{GRAIN, PlannedChange};
use super::PIECE;

/// The source as it will be once a range is inserted. It can be read before that.
#[derive(Debug)]
pub(crate) struct View<'a, S: Storage> {
    /// The file system.
    pub(crate) storage: &'a S,
    /// The source.
    pub(crate) file: &'a S::File,
    /// The size of the source before the insertion.
    pub(crate) size: u64,
    /// The offset of the range.
    pub(crate) insert_at: u64,
    /// The length of the range, 0 if none is inserted.
    pub(crate) inserted: u64,
}

impl<S: Storage> View<'_, S> {
    /// Reads at `offset`. Returns the number of bytes.
    pub(crate) fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let size = self.size + self.inserted;
        let len = buf.len().min(usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX));
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let (end, real) = if at < self.insert_at {
                (self.insert_at, Some(at))
            } else if at < self.insert_at + self.inserted {
                (self.insert_at + self.inserted, None)
            } else {
                (size, Some(at - self.inserted))
            };
            let part = (len - done).min(usize::try_from(end - at).unwrap_or(usize::MAX));
            let part = &mut buf[done..done + part];
            match real {
                None => part.fill(0),
                Some(real) => {
                    let read = self.storage.read_at(self.file, real, part)?;
                    if read < part.len() {
                        // Another program truncated the source, so the plan is no longer valid.
                        return Err(io::Error::from_raw_os_error(libc::ESTALE));
                    }
                }
            }
            done += part.len();
        }
        Ok(len)
    }
}

/// Calls `found` with the offset, the old bytes and the new bytes of each range that differs, in ascending
/// order.
pub(super) fn differing<S: Storage>(
    change: &PlannedChange<'_>,
    view: &View<'_, S>,
    mut found: impl FnMut(u64, &[u8], &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let old_size = view.size + view.inserted;
    let end = old_size.max(change.new_size());
    let regions: [Range<u64>; 2] = if change.keeps_anything() {
        [0..change.head_to, change.tail_from()..end]
    } else {
        [0..end, end..end]
    };
    let longest = regions.iter().map(|region| region.end.saturating_sub(region.start)).max().unwrap_or(0);
    let piece = PIECE.min(usize::try_from(longest).unwrap_or(PIECE));
    let mut old = vec![0; piece];
    let mut new = vec![0; piece];
    for region in regions {
        let mut at = region.start;
        while at < region.end {
            // Pieces end at multiples of their length.
            let len = (PIECE as u64 - at % PIECE as u64).min(region.end - at) as usize;
            let old_len = view.read_at(at, &mut old[..len])?;
            let new_len = change.new_bytes(at, &mut new[..len]);
            for part in differing_parts(at, &old[..old_len], &new[..new_len]) {
                let old = &old[part.start.min(old_len)..part.end.min(old_len)];
                let new = &new[part.start.min(new_len)..part.end.min(new_len)];
                found(at + part.start as u64, old, new)?;
            }
            at += len as u64;
        }
    }
    Ok(())
}

/// Returns the runs of pages in which `old` and `new` differ. Both begin at offset `at`.
fn differing_parts(at: u64, old: &[u8], new: &[u8]) -> Vec<Range<usize>> {
    let len = old.len().max(new.len());
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut from = 0;
    while from < len {
        let page_end = GRAIN - (at + from as u64) % GRAIN;
        let to = len.min(from + page_end as usize);
        let cut = |bytes: &'_ [u8]| from.min(bytes.len())..to.min(bytes.len());
        if old[cut(old)] != new[cut(new)] {
            match parts.last_mut().filter(|part| part.end == from) {
                Some(part) => part.end = to,
                None => parts.push(from..to),
            }
        }
        from = to;
    }
    parts
}
