//! How far a range was inserted when a crash came.
//!
//! ext4 and XFS first make the file longer, and then move its extents, the last one first, in transactions of
//! their own (`ext4_ext_shift_extents`, `xfs_insert_file_space`). Removing a range works the other way round,
//! from the first extent on, and shortens the file at the end. So a crash leaves a file whose extents before
//! some place are where they were and whose extents behind it are moved, with a hole between: the range is
//! inserted, only further back than it should be. Moving does not change where the extents lie on the disk. By
//! that each extent is recognised, without reading its bytes.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::format::asdf::edit::apply::cannot;
use crate::format::asdf::edit::journal::Journal;
use crate::source::storage::{Extent, Extents, Storage};

/// How far a range was inserted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Inserted {
    /// Nothing has moved, and the size is the old one.
    Not,
    /// It is here, behind the place where it was to be.
    Partly(u64),
    /// It is where it was to be.
    Whole,
    /// The file is not one that a crash leaves.
    Foreign(String),
}

/// Compares where the source's bytes are on the disk with where they were before; `None` if that tells
/// nothing, as in a copy.
pub(super) fn by_extents<S: Storage>(
    storage: &S,
    file: &S::File,
    journal: &Journal<S>,
) -> Result<Option<Inserted>> {
    let now = match storage.extents(file) {
        Ok(Extents::Known(now)) => now,
        Ok(Extents::Unknown) => return Ok(None),
        Err(error) if cannot(&error) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let header = &journal.header;
    let size = storage.meta(file)?.identity.size;
    let moved = moved(&journal.extents, &now, header.insert_at, header.shift, header.new_size);
    let Some(moved) = moved else { return Ok(None) };
    let (old, longer) = (header.old_size, header.old_size.saturating_add(header.shift));
    Ok(Some(match moved {
        Moved { first: Some(_), still: None } => Inserted::Whole,
        Moved { first: None, .. } if size == old => Inserted::Not,
        Moved { still: Some(still), .. } if size == longer => {
            let hole = still..still.saturating_add(header.shift);
            let free = |extent: &Extent| {
                extent.logical >= hole.end || extent.logical.saturating_add(extent.len) <= hole.start
            };
            match now.iter().all(free) {
                true => Inserted::Partly(still),
                false if moved.first.is_none() && size == old => Inserted::Not,
                false => Inserted::Foreign("there are bytes where a hole should be".to_owned()),
            }
        }
        Moved { first: None, .. } if size == old => Inserted::Not,
        _ => Inserted::Foreign(format!("it has {size} bytes, not {old} or {longer}")),
    }))
}

/// Which of the extents that were to move have moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Moved {
    /// Where the first one that has moved was before.
    first: Option<u64>,
    /// Where the last one ends that has not.
    still: Option<u64>,
}

/// `None` if the extents are not those of before, or are moved otherwise.
fn moved(before: &[Extent], now: &[Extent], from: u64, by: u64, new_size: u64) -> Option<Moved> {
    let now: BTreeMap<u64, Extent> = now.iter().map(|extent| (extent.physical, *extent)).collect();
    let mut moved = Moved::default();
    for extent in before {
        let mut done = 0;
        while done < extent.len {
            let (was, place) = (extent.logical.checked_add(done)?, extent.physical.checked_add(done)?);
            let mut len = extent.len - done;
            if was < from {
                len = len.min(from - was);
            }
            let found = now.range(..=place).next_back().map(|(_, found)| found);
            let found = found.filter(|found| place - found.physical < found.len);
            if let Some(found) = found {
                let skip = place - found.physical;
                len = len.min(found.len - skip);
                let is = found.logical.checked_add(skip)?;
                let moves = was >= from;
                if is == was {
                    if moves {
                        moved.still = moved.still.max(Some(was + len));
                    }
                } else if moves && is == was.checked_add(by)? {
                    moved.first.get_or_insert(was);
                } else {
                    return None;
                }
            } else {
                // Only what lies behind the end of the new file may be gone.
                let next = now.range(place..).next().map(|(_, next)| next.physical - place);
                len = len.min(next.unwrap_or(len)).max(1);
                if was.checked_add(by)? < new_size {
                    return None;
                }
            }
            done += len;
        }
    }
    let ordered = match moved {
        Moved { first: Some(first), still: Some(still) } => still <= first,
        _ => true,
    };
    ordered.then_some(moved)
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
        let judge = |now: &[Extent]| moved(&before, now, 4, 16, 60);
        assert_eq!(judge(&before), Some(Moved { first: None, still: Some(40) }));
        let last_moved = [extent(0, 1000, 8), extent(8, 500, 8), extent(48, 2000, 8)];
        assert_eq!(judge(&last_moved), Some(Moved { first: Some(32), still: Some(16) }));
        let all = [extent(0, 1000, 4), extent(20, 1004, 4), extent(24, 500, 8), extent(48, 2000, 8)];
        assert_eq!(judge(&all), Some(Moved { first: Some(4), still: None }));
        // The order of moving is the file system's: the last one first.
        let first_moved = [extent(0, 1000, 8), extent(24, 500, 8), extent(32, 2000, 8)];
        assert_eq!(judge(&first_moved), None);
        let elsewhere = [extent(0, 1000, 8), extent(9, 500, 8), extent(48, 2000, 8)];
        assert_eq!(judge(&elsewhere), None);
        assert_eq!(judge(&before[..2]), None);
    }
}
