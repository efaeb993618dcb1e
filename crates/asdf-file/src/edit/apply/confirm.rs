//! The end of a save that changed the source itself: confirmed and finished, or undone.
//!
//! A program that has the source open for writing may have computed where it writes before the blocks moved, and write
//! there after the save. Therefore a save that moves blocks ends under a read lease, which the kernel grants only if no
//! program has the file open for writing, a writable mapping included. A program that opens the file then waits until
//! the save has ended. If a program has opened the file meanwhile, the save is undone.

use std::path::Path;
use std::sync::atomic::Ordering;

use seekable::error::{Error, Kind};
use seekable::source::storage::{Extent, Extents, Storage, Watch};
use seekable::source::{Identity, Moved};

use super::super::half_saved::{HalfSaved, NewBytes};
use super::super::image::Image;
use super::super::journal::{Header, Journal, Method};
use super::super::plan::GRAIN;
use super::super::sidecar::Sidecars;
use super::{SaveJob, Stopped, has_new_bytes};

/// A source that has all bytes of the new file, and the journal that can still undo the save.
#[derive(Debug)]
pub(crate) struct Unconfirmed<S: Storage> {
    pub(super) sidecars: Sidecars<S>,
    pub(super) journal: Journal<S>,
    /// The image from which the source is written, if there is one.
    pub(super) image: Option<(Image<S>, S::File)>,
    pub(super) watch: Option<Watch>,
    /// The places of the source's bytes on the disk before a save in place.
    pub(super) before: Option<Vec<Extent>>,
    /// True if bytes have moved by an insertion.
    pub(super) inserted: bool,
    /// True if another program has written to the source meanwhile, and only where the save did not.
    pub(super) is_beside: bool,
}

impl<S: Storage> Unconfirmed<S> {
    pub(super) fn image_file(&self) -> Option<&S::File> {
        self.image.as_ref().map(|(_, file)| file)
    }
}

impl<S: Storage> SaveJob<'_, S> {
    /// Returns the source as the save left it: what another program writes from now on shows in its time. If another
    /// program has written to the source since the save wrote it, the bytes decide if the save has succeeded.
    pub(crate) fn confirm(&self, written: &Unconfirmed<S>) -> Result<Identity, Stopped> {
        // Taken before the comparison, which would notice a write that is in it.
        let saved = self.storage.meta(self.file)?.identity;
        let Unconfirmed { journal, watch, .. } = written;
        let half_saved = HalfSaved::new(self.storage, self.file, journal, written.image_file());
        let is_written_by_others = watch.as_ref().is_some_and(|watch| watch.is_written_by_others(false));
        // The file has the time of the other program's write, not that of the save, so that the write is noticed.
        let saved_beside = Identity { mtime: (0, 0), ..saved };
        if !is_written_by_others && self.is_as_written(&half_saved, journal.header.way)? {
            return Ok(if written.is_beside { saved_beside } else { saved });
        }
        if self.is_written_beside(&journal.header, watch.as_ref(), written.before.as_deref())? {
            return Ok(saved_beside);
        }
        match half_saved.new_bytes().map_err(Stopped::Failed)? {
            // The other program has written elsewhere, as if the save had ended before.
            NewBytes::All if journal.header.shift == 0 => Ok(saved_beside),
            // If blocks have moved, it may have computed before where to write.
            NewBytes::All | NewBytes::Some => Err(Stopped::Overwritten),
            NewBytes::None => Err(Stopped::SourceChanged),
        }
    }

    /// True if another program has written to the source during a save in place, and only where the save did not: it has
    /// not written the file anew.
    ///
    /// A program that writes the whole file truncates it first, as a rule when it opens it. So it is known not to have
    /// done that if no program has opened the file since the watch began, or if a block is where it was on the disk.
    pub(super) fn is_written_beside(
        &self,
        header: &Header,
        watch: Option<&Watch>,
        before: Option<&[Extent]>,
    ) -> Result<bool, Stopped> {
        let Some(watch) = watch else { return Ok(false) };
        if header.way != Method::InPlace || header.grows {
            return Ok(false);
        }
        // The padding and the index count, too: only the blocks may be the other program's.
        if !has_new_bytes(self.storage, self.file, self.change)? {
            return Ok(false);
        }
        // Reads the events that there are by now.
        watch.is_written_by_others(true);
        let is_beside =
            !watch.is_opened_by_others() || self.keeps_places(header, before.unwrap_or_default())?;
        if is_beside {
            tracing::warn!(
                "{}: the tree is saved; another program wrote to the blocks during the save",
                self.held.label(self.storage).display()
            );
        }
        Ok(is_beside)
    }

    /// True if some bytes of a block are on the disk where they were `before`. The save itself may move the pages that
    /// it writes.
    fn keeps_places(&self, header: &Header, before: &[Extent]) -> Result<bool, Stopped> {
        let Extents::Known(now) = self.storage.extents(self.file)? else { return Ok(false) };
        let from = header.kept_from.next_multiple_of(GRAIN);
        let place_of =
            |extent: &Extent, at: u64| extent.physical.checked_add(at.checked_sub(extent.logical)?);
        let is_there = |extent: &Extent| {
            let at = extent.logical.max(from);
            let old = before.iter().find(|old| old.logical <= at && at < old.logical.saturating_add(old.len));
            at < extent.logical.saturating_add(extent.len)
                && old.is_some_and(|old| place_of(old, at) == place_of(extent, at))
        };
        Ok(now.iter().any(is_there))
    }

    /// Ends a save that succeeded.
    pub(crate) fn finish(&self, written: Unconfirmed<S>) {
        self.readers.borrow_mut().image_written(
            self.change.identity,
            written.journal.header.shift,
            Moved::Yes,
        );
        self.remove_journal(written);
    }

    /// Ends a save that was stopped: undoes it, unless another program has written to the source since. Returns the
    /// reason for the caller.
    pub(crate) fn abandon(&self, written: Unconfirmed<S>, stopped: Stopped) -> Stopped {
        match stopped {
            Stopped::SourceChanged => self.remove_journal(written),
            Stopped::Overwritten => {
                self.lose(&written);
                // Without this note, the journal is still kept until the next save or mount.
                let _ = written.journal.note_overwritten(self.storage, self.file);
                return overwritten(&self.journal_label(&written.sidecars));
            }
            Stopped::Failed(_) | Stopped::Unsuited(_) => {
                let Unconfirmed { journal, watch, inserted, .. } = &written;
                let is_written_by_others = || {
                    watch.as_ref().is_some_and(|watch| watch.is_exact() && watch.is_written_by_others(true))
                };
                if is_written_by_others() {
                    return self.abandon(written, Stopped::Overwritten);
                }
                let half_saved = HalfSaved::new(self.storage, self.file, journal, written.image_file());
                let undone = self.undo_announced(&half_saved, &journal.header, *inserted);
                self.syncs.set(self.syncs.get() + half_saved.syncs());
                if let Err(undoing) = undone {
                    return unfinished(&self.journal_label(&written.sidecars), &stopped, &undoing);
                }
                // Blocks may have moved back beside a program that had read where they were.
                if is_written_by_others() {
                    return self.abandon(written, Stopped::Overwritten);
                }
                // If the time can't be noted, the next way finds one that it does not know, and changes nothing.
                let _ = self.note_own_time();
                self.remove_journal(written);
            }
        }
        stopped
    }

    /// Leaves a save that can't be undone to the next recovery. Returns the reason for the caller.
    pub(crate) fn leave(&self, written: &Unconfirmed<S>, stopped: &Stopped, undoing: &Error) -> Stopped {
        self.lose(written);
        unfinished(&self.journal_label(&written.sidecars), stopped, undoing)
    }

    /// Tells the readers that the source may have any bytes.
    fn lose(&self, written: &Unconfirmed<S>) {
        let (file, shift) = (self.change.identity, written.journal.header.shift);
        let mut readers = self.readers.borrow_mut();
        readers.image_written(file, shift, Moved::Unknown);
        // The version that was noted after the save's own writes may be that of the other program's.
        readers.relocate(file, 0, 0, &mut || Moved::Unknown);
    }

    /// Removes the journal of a save that is complete or undone, and its image.
    pub(super) fn remove_journal(&self, written: Unconfirmed<S>) {
        let Unconfirmed { sidecars, journal, image, .. } = written;
        // If the journal's name stays or reappears after a crash, recovery finds that the save is complete.
        let removed = self.unlink_journal(&sidecars, &journal.file);
        if let Some((image, _)) = &image {
            // The image must not be removed before the removal of the journal is durable.
            match removed.and_then(|()| self.sync_dir(&sidecars.dir)) {
                Ok(()) => self.remove_image(image),
                Err(_) => self.is_left.store(true, Ordering::Relaxed),
            }
        }
        self.storage.close(journal.file);
    }
}

fn unfinished(journal: &Path, stopped: &Stopped, undoing: &Error) -> Stopped {
    let why = match stopped {
        Stopped::Failed(error) | Stopped::Unsuited(error) => error.to_string(),
        Stopped::SourceChanged | Stopped::Overwritten => "it was changed by another program".to_owned(),
    };
    Stopped::Failed(Error::new(
        Kind::Unfinished,
        format!(
            "{why}; and it could not be undone ({undoing}): the journal {} is kept, and the next mount or \
             asdf-mount --recover FILE will finish or undo the save",
            journal.display()
        ),
    ))
}

fn overwritten(journal: &Path) -> Stopped {
    Stopped::Failed(Error::new(
        Kind::Unfinished,
        format!(
            "not saved: another program wrote to the file during the save, and the file may be a mixture of \
             both. The journal {}, which has the old and the new bytes of the tree, is kept. If the file is \
             right as it is, remove the journal; else restore the file from a backup",
            journal.display()
        ),
    ))
}
