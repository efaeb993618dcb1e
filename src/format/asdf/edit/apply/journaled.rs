//! Changes the source itself after the journal is durable.

use super::ranges::{View, differing};
use super::{PIECE, SaveJob, Stopped, unsuited, unsuited_or_failed};
use crate::error::{Error, Kind};
use crate::format::asdf::edit::SavePlan;
use crate::format::asdf::edit::journal::{DIGEST, Header, Journal, Method, Range, Writer};
use crate::format::asdf::edit::layout::version;
use crate::format::asdf::edit::mark;
use crate::format::asdf::edit::recover::check_believed;
use crate::format::asdf::edit::settle::Settling;
use crate::format::asdf::edit::sidecar::{SidecarPaths, elsewhere, nowhere};
use crate::source::storage::{Extent, Extents, Storage};
use crate::source::{Identity, Moved};

/// The least free space for overwriting on a copy-on-write file system: with less it may run out of room for
/// its own tables.
const LEAST_ROOM: u64 = 16 << 20;

/// The ranges of a written journal, and the digest of the bytes that the save leaves unchanged.
type Written = (Vec<Range>, [u8; DIGEST]);

impl<S: Storage> SaveJob<'_, S> {
    /// Overwrites the bytes that differ. Nothing moves.
    pub(super) fn in_place(&self) -> Result<(), Stopped> {
        if self.change.shift > 0 {
            return Err(unsuited("the text does not fit before the first block"));
        }
        let bytes = self.change.head_to + self.change.tail.len() as u64;
        if self.is_short_of_room(bytes.saturating_mul(4)) {
            return self.rewrite();
        }
        let (place, journal) = self.write_journal(Method::InPlace, None, &[])?;
        self.carry_out(place, journal)
    }

    /// True if overwriting this many bytes of the source, or undoing that, may fail for lack of space.
    fn is_short_of_room(&self, bytes: u64) -> bool {
        let room = self.storage.room_to_write_over(self.file);
        room.is_some_and(|room| room < bytes.saturating_add(LEAST_ROOM))
    }

    /// Inserts a range before the first block's page, then overwrites the bytes that differ.
    pub(super) fn insert(&self) -> Result<(), Stopped> {
        if self.change.shift == 0 {
            return Err(unsuited("the text fits before the first block"));
        }
        if !self.storage.inserts_by_extent(self.file) {
            return Err(unsuited("this file system is not known to insert ranges safely"));
        }
        let Extents::Known(extents) = self.storage.extents(self.file)? else {
            return Err(unsuited("the file system does not say where the file's bytes are"));
        };
        // The extent at `at` shows whether the insertion is complete.
        let at = self.change.insert_at();
        if !extents.iter().any(|extent| (extent.logical..extent.logical + extent.len).contains(&at)) {
            return Err(unsuited("the first block has no extent on the disk"));
        }
        let (place, journal) = self.write_journal(Method::Insert, None, &extents)?;
        self.carry_out(place, journal)
    }

    /// Writes an image of the new file, then writes the source anew from it.
    pub(super) fn rewrite(&self) -> Result<(), Stopped> {
        let mut tried = Vec::new();
        for place in self.places {
            match self.make_image(place) {
                Ok(image) => {
                    let done = self.rewrite_from(place, &image);
                    let unfinished =
                        matches!(&done, Err(Stopped::Failed(error)) if error.kind() == Kind::Unfinished);
                    if !unfinished && !self.journal_stays.get() {
                        // Removes the image, as no recovery will need it.
                        let _ = self.storage.unlink(&place.image);
                    }
                    return done;
                }
                Err(error) if elsewhere(&error) => tried.push((&*place.image, error)),
                Err(error) => return Err(error.into()),
            }
        }
        Err(match tried.is_empty() {
            true => unsuited("no directory can hold a copy of the file"),
            false => Stopped::Failed(nowhere("a copy of the file can't be made", &tried)),
        })
    }

    fn make_image(&self, place: &SidecarPaths) -> std::io::Result<S::File> {
        self.prepare(place)?;
        let file = self.create_image(place)?;
        // If the image does not share its bytes with the source, they have to be overwritten in the source.
        let is_short = self.is_short_of_room(self.change.new_size().saturating_mul(2));
        let device = self.change.identity.device;
        let ways = [SavePlan::Clone, SavePlan::Copy].into_iter();
        let mut ways = ways.filter(|way| match way {
            SavePlan::Copy => !is_short,
            way => !self.limits.has(device, way.word()),
        });
        let filled = ways.find_map(|way| match self.fill(&file, way == SavePlan::Clone) {
            Err(Stopped::Unsuited(_)) => None,
            answer => Some(answer),
        });
        let answer = match filled {
            Some(Ok(())) => self.sync(&file),
            Some(Err(Stopped::Failed(error))) => Err(std::io::Error::from_raw_os_error(error.errno())),
            _ if is_short => Err(std::io::Error::from_raw_os_error(libc::ENOSPC)),
            _ => Err(std::io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
        };
        match answer {
            Ok(()) => Ok(file),
            Err(error) => {
                let _ = self.storage.unlink(&place.image);
                Err(error)
            }
        }
    }

    fn rewrite_from(&self, place: &SidecarPaths, image: &S::File) -> Result<(), Stopped> {
        let (place, journal) = self.write_journal(Method::Image, Some((place, image)), &[])?;
        self.carry_out_with(place, journal, Some(image))
    }

    /// Writes the journal, and makes it and its name durable.
    fn write_journal(
        &self,
        way: Method,
        image: Option<(&SidecarPaths, &S::File)>,
        extents: &[Extent],
    ) -> Result<(&SidecarPaths, Journal<S>), Stopped> {
        let change = self.change;
        let inserts = way == Method::Insert;
        // A refused insertion may have changed the file's time since the change was planned.
        let source = self.source.get();
        let mut header = Header {
            way,
            grows: change.streamed,
            old_size: source.size,
            mtime: source.mtime,
            start: mark::start(self.storage, self.file)?,
            new_size: change.new_size(),
            kept_from: change.kept.start,
            kept_to: change.kept.end,
            shift: change.shift,
            insert_at: if inserts { change.insert_at() } else { 0 },
            image_size: 0,
            image_digest: [0; DIGEST],
        };
        if let Some((_, image)) = image {
            header.image_size = self.storage.meta(image)?.identity.size;
            header.image_digest = header.digest_image(self.storage, image)?;
        }
        let mut tried = Vec::new();
        // The journal lies in the same directory as its image.
        for place in self.places.iter().filter(|place| image.is_none_or(|(beside, _)| *place == beside)) {
            match self.write_journal_in(place, &header, extents) {
                Ok((file, (ranges, rest))) => {
                    let (extents, rest) = (extents.to_vec(), Some(rest));
                    return Ok((place, Journal { file, header, extents, ranges, rest }));
                }
                Err(error) if elsewhere(&error) => tried.push((&*place.journal, error)),
                Err(error) => return Err(error.into()),
            }
        }
        Err(Stopped::Failed(nowhere("the journal can't be written", &tried)))
    }

    fn write_journal_in(
        &self,
        place: &SidecarPaths,
        header: &Header,
        extents: &[Extent],
    ) -> std::io::Result<(S::File, Written)> {
        self.prepare(place)?;
        let file = self.storage.create(&place.journal)?;
        let written = self
            .write_records(Writer::new(self.storage, &file, header), header, extents)
            // The journal and its name may become durable in any order, because the source is changed only
            // after both are.
            .and_then(|ranges| self.sync_with_dir(&file, &place.dir).map(|()| ranges))
            .and_then(|ranges| check_believed(self.storage, &place.journal, self.file).map(|()| ranges));
        match written {
            Ok(ranges) => Ok((file, ranges)),
            Err(error) => {
                // The source is unchanged, so an unfinished journal is harmless. But if the next place
                // succeeds, this journal's name must not reappear after a crash.
                if self.storage.unlink(&place.journal).is_ok() {
                    let _ = self.storage.sync_dir(&place.dir);
                }
                Err(error)
            }
        }
    }

    fn write_records(
        &self,
        mut writer: Writer<'_, S>,
        header: &Header,
        extents: &[Extent],
    ) -> std::io::Result<Written> {
        let change = self.change;
        let inserted = if header.way == Method::Insert { change.shift } else { 0 };
        let (size, insert_at) = (change.identity.size, header.insert_at);
        let view = View { storage: self.storage, file: self.file, size, insert_at, inserted };
        match header.way {
            Method::InPlace | Method::Insert => {
                writer.extents(extents)?;
                differing(change, &view, |offset, old, new| writer.range(offset, old, new))?;
            }
            Method::Image => {
                let mut piece = vec![0; PIECE];
                for region in [0..change.kept.start, change.kept.end..size] {
                    let mut at = region.start;
                    while at < region.end {
                        let len = piece.len().min(usize::try_from(region.end - at).unwrap_or(usize::MAX));
                        let read = view.read_at(at, &mut piece[..len])?;
                        writer.range(at, &piece[..read], &[])?;
                        at += len as u64;
                    }
                }
            }
        }
        writer.end(|ranges| header.digest_rest(self.storage, self.file, ranges))
    }

    /// Inserts the range, or remembers that the file system can't.
    pub(super) fn insert_range(&self, at: u64, len: u64) -> Result<(), Stopped> {
        let Err(error) = self.storage.insert(self.file, at, len) else { return Ok(()) };
        self.note_limit(SavePlan::Insert, &error);
        // Some file systems change the file's time also when they refuse. That is no change by another
        // program.
        let (now, head) = (self.storage.meta(self.file)?.identity, self.change.old_head);
        let same = Identity { mtime: now.mtime, ctime: now.ctime, ..self.source.get() } == now;
        if same && version(self.storage, self.file, head.len)? == head {
            self.source.set(now);
        }
        Err(unsuited_or_failed(error))
    }

    /// Makes sure that files in a place can be created and removed again.
    pub(super) fn prepare(&self, place: &SidecarPaths) -> std::io::Result<()> {
        if place.is_state {
            let is_new = self.storage.meta_at(&place.dir).is_err();
            self.storage.create_dir(&place.dir)?;
            if let Some(above) = place.dir.parent().filter(|_| is_new) {
                self.sync_dir(above)?;
            }
        }
        self.storage.may_change(&place.dir)
    }

    fn carry_out(&self, place: &SidecarPaths, journal: Journal<S>) -> Result<(), Stopped> {
        self.carry_out_with(place, journal, None)
    }

    /// Carries out the change in the journal, and undoes it if that fails.
    fn carry_out_with(
        &self,
        place: &SidecarPaths,
        journal: Journal<S>,
        image: Option<&S::File>,
    ) -> Result<(), Stopped> {
        let done = self.check_unchanged();
        let nothing_done = done.is_err();
        let settling = Settling::new(self.storage, self.file, &journal, image);
        let mut inserted = false;
        let done = done.and_then(|()| {
            self.announce(&journal, image);
            if journal.header.way == Method::Insert {
                self.insert_announced(&journal.header, &settling)?;
                inserted = true;
                // Makes the insertion durable first. After a crash, an incomplete insertion then means that
                // nothing else was written.
                self.sync(self.file)?;
            }
            self.overwrite_announced(&settling)?;
            self.readers.borrow_mut().image_written(self.change.identity, journal.header.shift, Moved::Yes);
            Ok(())
        });
        let stopped = match done {
            // A change by another program is not ours to undo.
            Ok(()) | Err(Stopped::SourceChanged) => done,
            Err(_) if nothing_done => done,
            Err(stopped) => match self.undo_announced(&settling, &journal.header, inserted) {
                Ok(()) => Err(stopped),
                Err(undoing) => return Err(unfinished(place, &stopped, &undoing)),
            },
        };
        self.syncs.set(self.syncs.get() + settling.syncs());
        // If the journal's name stays or reappears after a crash, recovery finds that the save is complete.
        let removed = self.storage.unlink(&place.journal).and_then(|()| match image {
            // The image must not be removed before the removal of the journal is durable.
            Some(_) => self.sync_dir(&place.dir),
            None => Ok(()),
        });
        self.journal_stays.set(removed.is_err());
        self.storage.close(journal.file);
        stopped
    }
}

fn unfinished(place: &SidecarPaths, stopped: &Stopped, undoing: &Error) -> Stopped {
    let why = match stopped {
        Stopped::Failed(error) | Stopped::Unsuited(error) => error.to_string(),
        Stopped::SourceChanged => "it was changed by another program".to_owned(),
    };
    Stopped::Failed(Error::new(
        Kind::Unfinished,
        format!(
            "{why}; and it could not be undone ({undoing}): the journal {} is kept, and the next mount or \
             asdf-mount --recover will finish or undo the save",
            place.journal.display()
        ),
    ))
}
