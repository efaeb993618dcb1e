//! Changes the source itself after the journal is durable.

use std::path::{Path, PathBuf};

use super::ranges::{View, differing};
use super::{PIECE, SaveJob, Stopped, unsuited, unsuited_or_failed};
use crate::error::{Error, Kind};
use crate::format::asdf::edit::SavePlan;
use crate::format::asdf::edit::journal::{DIGEST, Header, Journal, Method, Range, Writer};
use crate::format::asdf::edit::layout::version;
use crate::format::asdf::edit::mark;
use crate::format::asdf::edit::recover::check_believed;
use crate::format::asdf::edit::settle::{Settling, SourceState};
use crate::format::asdf::edit::sidecar::{JournalPlace, Sidecars, elsewhere, nowhere};
use crate::source::storage::{Extent, Extents, Noticed, Storage, Watch};
use crate::source::{Identity, Moved};

/// The least free space for overwriting on a copy-on-write file system: with less it may run out of room for
/// its own tables.
const MIN_ROOM: u64 = 16 << 20;

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
        let (sidecars, journal) = self.write_journal(Method::InPlace, &[])?;
        self.carry_out(&sidecars, journal, None)
    }

    /// True if overwriting this many bytes of the source, or undoing that, may fail for lack of space.
    fn is_short_of_room(&self, bytes: u64) -> bool {
        let room = self.storage.room_to_write_over(self.file);
        room.is_some_and(|room| room < bytes.saturating_add(MIN_ROOM))
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
        let (sidecars, journal) = self.write_journal(Method::Insert, &extents)?;
        self.carry_out(&sidecars, journal, None)
    }

    /// Writes an image of the new file, then writes the source anew from it.
    pub(super) fn rewrite(&self) -> Result<(), Stopped> {
        let mut tried = Vec::new();
        for place in self.held.places() {
            match self.make_image(place) {
                Ok((sidecars, image)) => {
                    let done = self.rewrite_from(&sidecars, &image);
                    let unfinished =
                        matches!(&done, Err(Stopped::Failed(error)) if error.kind() == Kind::Unfinished);
                    if !unfinished && !self.journal_stays.get() {
                        // Removes the image, as no recovery will need it.
                        let _ = self.storage.unlink(&sidecars.dir, &sidecars.image);
                    }
                    return done;
                }
                Err(error) if elsewhere(&error) => tried.push((self.label(place), error)),
                Err(error) => return Err(error.into()),
            }
        }
        Err(match tried.is_empty() {
            true => unsuited("no directory can hold a copy of the file"),
            false => Stopped::Failed(nowhere("a copy of the file can't be made", &tried)),
        })
    }

    /// Returns the path of the journal in a place, or the state directory, for messages.
    fn label(&self, place: JournalPlace) -> PathBuf {
        match (place, &self.held.state) {
            (JournalPlace::State, Some(state)) => state.clone(),
            _ => self.journal_label(&self.held.beside()),
        }
    }

    fn make_image(&self, place: JournalPlace) -> std::io::Result<(Sidecars<S>, S::File)> {
        let sidecars = self.held.prepare(self.storage, place)?;
        let file = self.create_image(&sidecars)?;
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
            Ok(()) => Ok((sidecars, file)),
            Err(error) => {
                let _ = self.storage.unlink(&sidecars.dir, &sidecars.image);
                Err(error)
            }
        }
    }

    fn rewrite_from(&self, sidecars: &Sidecars<S>, image: &S::File) -> Result<(), Stopped> {
        let header = self.header(Method::Image, Some(image))?;
        // The journal lies in the same directory as its image.
        let journal = self.write_journal_in(sidecars, header, &[]).map_err(|error| {
            if elsewhere(&error) {
                let tried = [(sidecars.label(self.storage, &sidecars.journal), error)];
                Stopped::Failed(nowhere("the journal can't be written", &tried))
            } else {
                error.into()
            }
        })?;
        self.carry_out(sidecars, journal, Some(image))
    }

    /// Writes the journal in the first place that can hold it, and makes it and its name durable.
    fn write_journal(&self, way: Method, extents: &[Extent]) -> Result<(Sidecars<S>, Journal<S>), Stopped> {
        let header = self.header(way, None)?;
        let mut tried = Vec::new();
        for place in self.held.places() {
            let written = self.held.prepare(self.storage, place).and_then(|sidecars| {
                self.write_journal_in(&sidecars, header, extents).map(|journal| (sidecars, journal))
            });
            match written {
                Err(error) if elsewhere(&error) => tried.push((self.label(place), error)),
                answer => return Ok(answer?),
            }
        }
        Err(Stopped::Failed(nowhere("the journal can't be written", &tried)))
    }

    /// Returns the header of a journal. `image` is the image from which the source will be written.
    fn header(&self, way: Method, image: Option<&S::File>) -> std::io::Result<Header> {
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
        if let Some(image) = image {
            header.image_size = self.storage.meta(image)?.identity.size;
            header.image_digest = header.digest_image(self.storage, image)?;
        }
        Ok(header)
    }

    fn write_journal_in(
        &self,
        sidecars: &Sidecars<S>,
        header: Header,
        extents: &[Extent],
    ) -> std::io::Result<Journal<S>> {
        let file = self.storage.create(&sidecars.dir, &sidecars.journal)?;
        let written = self
            .write_records(Writer::new(self.storage, &file, &header), &header, extents)
            // The journal and its name may become durable in any order, because the source is changed only
            // after both are.
            .and_then(|written| self.sync_with_dir(&file, &sidecars.dir).map(|()| written))
            .and_then(|written| check_believed(self.storage, &file, self.file).map(|()| written));
        match written {
            Ok((ranges, rest)) => {
                Ok(Journal { file, header, extents: extents.to_vec(), ranges, rest: Some(rest) })
            }
            Err(error) => {
                // The source is unchanged, so an unfinished journal is harmless. But if the next place
                // succeeds, this journal's name must not reappear after a crash.
                if self.storage.unlink(&sidecars.dir, &sidecars.journal).is_ok() {
                    let _ = self.storage.sync_dir(&sidecars.dir);
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

    /// Carries out the change in the journal, and undoes it if that fails.
    fn carry_out(
        &self,
        sidecars: &Sidecars<S>,
        journal: Journal<S>,
        image: Option<&S::File>,
    ) -> Result<(), Stopped> {
        // A write of a program that appends to a stream can't be told from one into the head, and does no harm.
        let is_watched = !self.storage.is_remote(self.file) && !journal.header.grows;
        let watch = if is_watched { self.storage.watch(self.file) } else { None };
        let noticed = || watch.as_ref().map(Watch::noticed).unwrap_or_default();
        let settling = Settling::new(self.storage, self.file, &journal, image);
        let mut inserted = false;
        let mut done = self.check_unchanged();
        let nothing_done = done.is_err();
        if done.is_ok() {
            self.announce(&journal, image);
            done = self.write_source(&settling, &journal, &noticed, &mut inserted);
        }
        match done {
            Ok(()) | Err(Stopped::SourceChanged) => {}
            Err(_) if nothing_done => {}
            Err(Stopped::Overwritten) => {
                let (file, shift) = (self.change.identity, journal.header.shift);
                self.readers.borrow_mut().image_written(file, shift, Moved::Unknown);
                return Err(overwritten(&self.journal_label(sidecars)));
            }
            Err(stopped) => match self.undo_announced(&settling, &journal.header, inserted) {
                Ok(()) => done = Err(stopped),
                Err(undoing) => return Err(unfinished(&self.journal_label(sidecars), &stopped, &undoing)),
            },
        }
        self.syncs.set(self.syncs.get() + settling.syncs());
        // If the journal's name stays or reappears after a crash, recovery finds that the save is complete.
        let removed = self.storage.unlink(&sidecars.dir, &sidecars.journal).and_then(|()| match image {
            // The image must not be removed before the removal of the journal is durable.
            Some(_) => self.sync_dir(&sidecars.dir),
            None => Ok(()),
        });
        self.journal_stays.set(removed.is_err());
        self.storage.close(journal.file);
        done
    }

    /// Writes the source by its journal. `noticed` returns the changes since its last call; a write of this
    /// program is among them, its close is not.
    fn write_source(
        &self,
        settling: &Settling<'_, S>,
        journal: &Journal<S>,
        noticed: &dyn Fn() -> Noticed,
        inserted: &mut bool,
    ) -> Result<(), Stopped> {
        if noticed().written {
            return Err(Stopped::SourceChanged);
        }
        if journal.header.way == Method::Insert {
            self.insert_announced(&journal.header, settling)?;
            *inserted = true;
            if journal.header.insert_at == 0 {
                // The file begins with the inserted hole now. With the mark, a copy of it is recognised. After a
                // crash, the mark can't be there without the insertion, because it lies in its hole.
                self.mark_announced()?;
            }
            if noticed().closed {
                return Err(Stopped::Overwritten);
            }
            // Makes the insertion durable first. After a crash, an incomplete insertion then means that
            // nothing but the mark was written.
            self.sync(self.file)?;
            if noticed().written || !settling.is_inserted().map_err(Stopped::Failed)? {
                return Err(Stopped::Overwritten);
            }
        }
        if !settling.has_old_size()? {
            return Err(Stopped::Overwritten);
        }
        self.overwrite_announced(settling)?;
        let closed = noticed().closed;
        if !self.storage.is_remote(self.file) {
            settling.sync()?;
        }
        if closed || noticed().written || !self.is_as_written(settling, journal.header.way)? {
            return Err(Stopped::Overwritten);
        }
        self.readers.borrow_mut().image_written(self.change.identity, journal.header.shift, Moved::Yes);
        Ok(())
    }

    /// True if the source has the bytes that the save wrote, and those of the head that it left unchanged.
    /// Where other machines write, the caller reads the file back.
    fn is_as_written(&self, settling: &Settling<'_, S>, way: Method) -> Result<bool, Stopped> {
        if self.storage.is_remote(self.file) {
            return Ok(true);
        }
        let compare = || -> crate::Result<bool> {
            let is_new = settling.source_state()? == SourceState::New && settling.has_rest()?;
            Ok(is_new && (way != Method::Insert || settling.is_inserted()?))
        };
        compare().map_err(Stopped::Failed)
    }

    fn journal_label(&self, sidecars: &Sidecars<S>) -> PathBuf {
        sidecars.label(self.storage, &sidecars.journal)
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
             asdf-mount --recover will finish or undo the save",
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
