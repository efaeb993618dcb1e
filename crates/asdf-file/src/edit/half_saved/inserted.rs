//! Determines how far the insertion of a range got before a crash.
//!
//! ext4 and XFS first extend the file and then move its extents, the last one first, each in its own
//! transaction (`ext4_ext_shift_extents`, `xfs_insert_file_space`). Removing a range works the other way
//! round: from the first extent on, and the file is shortened last. After a crash the extents before some
//! place are therefore at their old offsets, the extents after it are moved, and a hole lies between: the
//! range is inserted, but further back than it should be. Moving an extent does not change its place on the
//! disk. That place identifies each extent without reading its bytes.

use std::collections::BTreeMap;
use std::ops::Range;

use seekable::error::Result;
use seekable::source::storage::{Extent, Extents, Storage};

use super::super::journal::Journal;
use super::{PIECE, is_zero};

/// The progress of an insertion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Inserted {
    /// Nothing has moved, and the file has its old size.
    Not,
    /// The range is at this offset, after its intended place.
    Partly(u64),
    /// The range is in its intended place.
    Complete,
    /// No crash leaves such a file. The text says why.
    Neither(String),
}

/// Compares the source's extents with those in the journal; `None` if the comparison shows nothing, for
/// example because the source is a copy with other extents.
pub(super) fn by_extents<S: Storage>(
    storage: &S,
    file: &S::File,
    journal: &Journal<S>,
) -> Result<Option<Inserted>> {
    let Extents::Known(now) = storage.extents(file)? else { return Ok(None) };
    let header = &journal.header;
    let size = storage.meta(file)?.identity.size;
    let insertion = Insertion { at: header.insert_at, len: header.shift, new_size: header.new_size };
    let Some(moved) = insertion.moved(&journal.extents, &now) else { return Ok(None) };
    let old = header.old_size;
    let longer = header.old_size.saturating_add(header.shift);
    Ok(Some(match moved {
        MovedExtents { first: Some(_), still: None } => Inserted::Complete,
        MovedExtents { first: None, .. } if size == old => Inserted::Not,
        MovedExtents { still: Some(still), .. } if size == longer => {
            let hole = still..still.saturating_add(header.shift);
            let free = |extent: &Extent| {
                extent.logical >= hole.end || extent.logical.saturating_add(extent.len) <= hole.start
            };
            // An undo may have been interrupted. It has moved back, too, what the save had written after the last extent and
            // the undo has made zeros again.
            if now.iter().all(free) || is_zero_in(storage, file, hole)? {
                Inserted::Partly(still)
            } else if moved.first.is_none() && size == old {
                Inserted::Not
            } else {
                Inserted::Neither("there are bytes where a hole should be".to_owned())
            }
        }
        MovedExtents { first: None, .. } if size == old => Inserted::Not,
        _ => Inserted::Neither(format!("it has {size} bytes, not {old} or {longer}")),
    }))
}

/// True if a range of a file has only zeros.
fn is_zero_in<S: Storage>(storage: &S, file: &S::File, range: Range<u64>) -> Result<bool> {
    let mut piece = vec![0; PIECE];
    let mut at = range.start;
    while at < range.end {
        let len = PIECE.min(usize::try_from(range.end - at).unwrap_or(PIECE));
        let read = storage.read_at(file, at, &mut piece[..len])?;
        if !is_zero(&piece[..read]) {
            return Ok(false);
        }
        if read < len {
            break;
        }
        at += read as u64;
    }
    Ok(true)
}

/// The extents after the place of the insertion that have moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MovedExtents {
    /// The old offset of the first extent that has moved.
    first: Option<u64>,
    /// The end of the last extent that has not moved.
    still: Option<u64>,
}

/// A range that is inserted into a file.
struct Insertion {
    at: u64,
    len: u64,
    /// Size of the file after the save.
    new_size: u64,
}

impl Insertion {
    /// Finds the extents that have moved; `None` if they differ in a way that no insertion explains.
    fn moved(&self, before: &[Extent], now: &[Extent]) -> Option<MovedExtents> {
        let now: BTreeMap<u64, Extent> = now.iter().map(|extent| (extent.physical, *extent)).collect();
        let mut moved = MovedExtents::default();
        for extent in before {
            let mut done = 0;
            while done < extent.len {
                let was = extent.logical.checked_add(done)?;
                let place = extent.physical.checked_add(done)?;
                let mut len = extent.len - done;
                if was < self.at {
                    len = len.min(self.at - was);
                }
                let found = now.range(..=place).next_back().map(|(_, found)| found);
                let found = found.filter(|found| place - found.physical < found.len);
                if let Some(found) = found {
                    let skip = place - found.physical;
                    len = len.min(found.len - skip);
                    let is = found.logical.checked_add(skip)?;
                    let moves = was >= self.at;
                    if is == was {
                        if moves {
                            moved.still = moved.still.max(Some(was + len));
                        }
                    } else if moves && is == was.checked_add(self.len)? {
                        moved.first.get_or_insert(was);
                    } else {
                        return None;
                    }
                } else {
                    // Only extents past the end of the new file may be missing.
                    let next = now.range(place..).next().map(|(_, next)| next.physical - place);
                    len = len.min(next.unwrap_or(len)).max(1);
                    if was.checked_add(self.len)? < self.new_size {
                        return None;
                    }
                }
                done += len;
            }
        }
        let ordered = match moved {
            MovedExtents { first: Some(first), still: Some(still) } => still <= first,
            _ => true,
        };
        ordered.then_some(moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(logical: u64, physical: u64, len: u64) -> Extent {
        Extent { logical, physical, len }
    }

    #[test]
    fn tells_how_far_extents_have_moved() {
        let before = [extent(0, 1000, 8), extent(8, 500, 8), extent(32, 2000, 8)];
        let moved = |now: &[Extent]| Insertion { at: 4, len: 16, new_size: 60 }.moved(&before, now);
        assert_eq!(moved(&before), Some(MovedExtents { first: None, still: Some(40) }));
        let last_moved = [extent(0, 1000, 8), extent(8, 500, 8), extent(48, 2000, 8)];
        assert_eq!(moved(&last_moved), Some(MovedExtents { first: Some(32), still: Some(16) }));
        let all = [extent(0, 1000, 4), extent(20, 1004, 4), extent(24, 500, 8), extent(48, 2000, 8)];
        assert_eq!(moved(&all), Some(MovedExtents { first: Some(4), still: None }));
        // The file system moves the last extent first, so no crash leaves this.
        let first_moved = [extent(0, 1000, 8), extent(24, 500, 8), extent(32, 2000, 8)];
        assert_eq!(moved(&first_moved), None);
        let elsewhere = [extent(0, 1000, 8), extent(9, 500, 8), extent(48, 2000, 8)];
        assert_eq!(moved(&elsewhere), None);
        assert_eq!(moved(&before[..2]), None);
    }
}
