//! Notifies the readers of the source before a plan changes its bytes.

use std::ops::Range;
use std::time::Duration;

use seekable::error::Result;
use seekable::source::Moved;
use seekable::source::storage::Storage;

use super::super::half_saved::HalfSaved;
use super::super::journal::{Header, Journal, Method};
use super::super::mark::MARK;
use super::super::recovery::SaveSide;
use super::{SaveJob, Stopped};

/// The number of further attempts to undo a save where no room is left, and the pause before each.
const ROOM_ATTEMPTS: usize = 40;
const ROOM_PAUSE: Duration = Duration::from_millis(50);

impl<S: Storage> SaveJob<'_, S> {
    /// Tells the readers to keep the bytes that the plan overwrites.
    pub(super) fn announce(&self, journal: &Journal<S>, image: Option<&S::File>) {
        let header = &journal.header;
        let file = self.change.identity;
        let mut readers = self.readers.borrow_mut();
        let image = image.and_then(|image| self.storage.reopen(image));
        match (header.way, image) {
            (Method::Image, Some(image)) => {
                let kept = header.kept_from..header.kept_to;
                readers.keep(file, &[0..kept.start, kept.end..header.old_size.max(kept.end)]);
                readers.read_from_image(file, kept, header.shift, image);
            }
            (Method::Image, None) => readers.keep(file, std::slice::from_ref(&(0..header.old_size))),
            (Method::InPlace | Method::Insert, _) => readers.keep(file, &overwritten(journal)),
        }
    }

    /// Inserts the range, and takes the space for it, while no thread reads. An insertion that fails halfway, or for which
    /// there is no space, is undone before threads read again.
    pub(super) fn insert_announced(
        &self,
        header: &Header,
        half_saved: &HalfSaved<'_, S>,
        is_written_by_others: &dyn Fn(bool) -> bool,
    ) -> std::result::Result<(), Stopped> {
        let mut done = Ok(());
        let mut insert = || {
            done = self.insert_range(header.insert_at, header.shift).and_then(|()| {
                let inserted = header.insert_at..header.insert_at.saturating_add(header.shift);
                Ok(self.storage.reserve(self.file, inserted)?)
            });
            match &done {
                Ok(()) if is_written_by_others(true) => {
                    done = Err(Stopped::Overwritten);
                    Moved::Unknown
                }
                Ok(()) => Moved::Yes,
                Err(Stopped::Unsuited(_)) => Moved::No,
                Err(_) => half_saved.back().map_or(Moved::Unknown, |()| Moved::No),
            }
        };
        let shift = i64::try_from(header.shift).unwrap_or(i64::MAX);
        self.readers.borrow_mut().relocate(self.change.identity, header.insert_at, shift, &mut insert);
        done
    }

    /// Writes the mark of an unfinished save. Returns true if another program may have written meanwhile.
    pub(super) fn mark_announced(
        &self,
        is_written_by_others: &dyn Fn(bool) -> bool,
    ) -> std::io::Result<bool> {
        self.write_announced(is_written_by_others, || self.storage.write_at(self.file, 0, &MARK))
    }

    /// Makes the source the new file, durably only where a sync changes the times of the file. Returns true if another
    /// program may have written meanwhile.
    pub(super) fn overwrite_announced(
        &self,
        half_saved: &HalfSaved<'_, S>,
        is_written_by_others: &dyn Fn(bool) -> bool,
    ) -> std::io::Result<bool> {
        let is_remote = self.storage.is_remote(self.file);
        self.write_announced(is_written_by_others, || {
            if is_remote { half_saved.write(SaveSide::New) } else { half_saved.overwrite(SaveSide::New) }
        })
    }

    /// Runs `write`. Readers get no bytes that another program wrote meanwhile.
    fn write_announced(
        &self,
        is_written_by_others: &dyn Fn(bool) -> bool,
        write: impl Fn() -> std::io::Result<()>,
    ) -> std::io::Result<bool> {
        let mut done = Ok(());
        let mut is_mixed = false;
        let mut write = || {
            done = write();
            is_mixed = is_written_by_others(true);
            !is_mixed
        };
        self.readers.borrow_mut().write(self.change.identity, &mut write);
        // A mixture is not undone after an error.
        if is_mixed { Ok(true) } else { done.map(|()| false) }
    }

    /// Makes the source the old file again. `inserted` is true if its bytes have moved.
    pub(super) fn undo_announced(
        &self,
        half_saved: &HalfSaved<'_, S>,
        header: &Header,
        inserted: bool,
    ) -> Result<()> {
        let file = self.change.identity;
        if !inserted {
            let mut done = Ok(());
            let mut undo = || {
                done = self.go_back(half_saved);
                done.is_ok()
            };
            self.readers.borrow_mut().write(file, &mut undo);
            let written = if done.is_ok() { Moved::No } else { Moved::Unknown };
            self.readers.borrow_mut().image_written(file, header.shift, written);
            return done;
        }
        let mut done = Ok(());
        let mut undo = || {
            done = self.go_back(half_saved);
            if done.is_ok() { Moved::Yes } else { Moved::Unknown }
        };
        let shift = i64::try_from(header.shift).map_or(i64::MIN, |shift| -shift);
        let from = header.insert_at.saturating_add(header.shift);
        self.readers.borrow_mut().relocate(file, from, shift, &mut undo);
        done
    }

    /// Makes the source the old file again. A file system may need room even to give room back. Other saves may have
    /// taken the last of it; those that fail as well give theirs back.
    fn go_back(&self, half_saved: &HalfSaved<'_, S>) -> Result<()> {
        let mut done = half_saved.back();
        for _ in 0..ROOM_ATTEMPTS {
            if !done.as_ref().is_err_and(|error| matches!(error.errno(), libc::ENOSPC | libc::EDQUOT)) {
                break;
            }
            self.storage.wait(ROOM_PAUSE);
            done = half_saved.back();
        }
        done
    }
}

/// Returns the ranges of the old file that are overwritten. The journal of an insertion has offsets after the
/// insertion; they are converted.
fn overwritten<S: Storage>(journal: &Journal<S>) -> Vec<Range<u64>> {
    let header = &journal.header;
    let (at, shift) = match header.way {
        Method::Insert => (header.insert_at, header.shift),
        Method::InPlace | Method::Image => (u64::MAX, 0),
    };
    let moved = at.saturating_add(shift);
    let changed =
        journal.ranges.iter().map(|range| (range.offset, range.offset.saturating_add(range.old_len as u64)));
    let marked = std::iter::once((0, MARK.len() as u64));
    let ranges = marked.chain(changed).flat_map(|(start, end)| {
        let behind = |place: u64| place.max(moved).saturating_sub(shift);
        [start.min(at)..end.min(at), behind(start)..behind(end)]
    });
    ranges.filter(|range| range.start < range.end).collect()
}
