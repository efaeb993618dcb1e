//! Changes the source itself after the journal is durable.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use seekable::per_process::PerProcess;
use seekable::source::Identity;
use seekable::source::storage::{Extent, Extents, Storage, Watch};
use seekable::sync::{MutexGuard, locked};

use super::super::half_saved::{HalfSaved, SourceState};
use super::super::image::Image;
use super::super::journal::{DIGEST, Header, Journal, Method, Range, Writer, first_bytes, may_begin};
use super::super::layout::version;
use super::super::recover::check_believed;
use super::super::saver::Saver;
use super::super::sidecar::{JournalPlace, Sidecars, elsewhere, nowhere};
use super::super::{SavePlan, mark};
use super::confirm::Unconfirmed;
use super::ranges::{View, differing};
use super::{Done, PIECE, SaveJob, Stopped, unsuited, unsuited_or_failed};

/// The least free space for overwriting on a copy-on-write file system: with less it may run out of room for
/// its own tables.
const MIN_ROOM: u64 = 16 << 20;
/// Held while a file is overwritten where room is short. Saves at once would take it from each other after they have
/// looked.
static WHERE_ROOM_IS_SHORT: PerProcess<Mutex<Alone>> = PerProcess::new(Mutex::default);
/// Locked by a save that overwrites a file alone.
#[derive(Debug, Default)]
struct Alone;
/// The number of attempts to create a journal while another program has its own there, and the pause between them.
const JOURNAL_ATTEMPTS: usize = 100;
const JOURNAL_PAUSE: Duration = Duration::from_millis(10);

/// The ranges of a written journal, and the digest of the bytes that the save leaves unchanged.
type Written = (Vec<Range>, [u8; DIGEST]);

impl<S: Storage> SaveJob<'_, S> {
    /// Overwrites the bytes that differ. Nothing moves.
    pub(super) fn in_place(&self) -> Result<Done<S>, Stopped> {
        if self.change.shift > 0 {
            return Err(unsuited("the text does not fit before the first block"));
        }
        let bytes = self.change.head_to + self.change.tail.len() as u64;
        let _alone = self.alone_where_room_is_short();
        if self.is_short_of_room(bytes.saturating_mul(4)) {
            return Err(unsuited("the file system may have too little room to write over the file"));
        }
        let (sidecars, journal) = self.write_journal(Method::InPlace, &[])?;
        let written = self.carry_out(sidecars, journal, None)?;
        match self.confirm(&written) {
            Ok(saved) => {
                self.finish(written);
                Ok(Done::SameFile(saved))
            }
            Err(stopped) => Err(self.abandon(written, stopped)),
        }
    }

    /// Waits until no other save overwrites a file, unless there is room for several.
    fn alone_where_room_is_short(&self) -> Option<MutexGuard<'static, Alone>> {
        self.is_short_of_room(4 * MIN_ROOM).then(|| locked(WHERE_ROOM_IS_SHORT.get()))
    }

    /// True if overwriting this many bytes of the source, or undoing that, may fail for lack of space.
    fn is_short_of_room(&self, bytes: u64) -> bool {
        let room = self.storage.room_to_write_over(self.file);
        room.is_some_and(|room| room < bytes.saturating_add(MIN_ROOM))
    }

    /// Inserts a range before the first block's page, then overwrites the bytes that differ.
    pub(super) fn insert(&self) -> Result<Unconfirmed<S>, Stopped> {
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
        self.carry_out(sidecars, journal, None)
    }

    /// Writes an image of the new file, then writes the source anew from it.
    pub(super) fn rewrite(&self) -> Result<Unconfirmed<S>, Stopped> {
        let mut tried = Vec::new();
        let _alone = self.alone_where_room_is_short();
        for place in self.held.places() {
            match self.make_image(place) {
                Ok((image, file)) => return self.rewrite_from(image, file),
                Err(error) if elsewhere(&error) => tried.push((self.label(place), error)),
                Err(error) => return Err(error.into()),
            }
        }
        Err(if tried.is_empty() {
            unsuited("no directory can hold a copy of the file")
        } else {
            Stopped::Failed(nowhere("a copy of the file can't be made", &tried))
        })
    }

    /// Returns the path of the journal in a place, or the state directory, for messages.
    fn label(&self, place: JournalPlace) -> PathBuf {
        match (place, &self.held.state) {
            (JournalPlace::State, Some(state)) => state.clone(),
            _ => self.journal_label(&self.held.beside()),
        }
    }

    fn make_image(&self, place: JournalPlace) -> std::io::Result<(Image<S>, S::File)> {
        // Sharing the image's extents takes room for the file system's own tables, and undoing that takes more.
        if self.is_short_of_room(0) {
            return Err(std::io::Error::from_raw_os_error(libc::ENOSPC));
        }
        let sidecars = self.held.prepare(self.storage, place)?;
        let (image, file) = Image::create(self.storage, sidecars)?;
        match self.fill_image(&file).and_then(|()| self.sync(&file)) {
            Ok(()) => Ok((image, file)),
            Err(error) => {
                self.remove_image(&image);
                Err(error)
            }
        }
    }

    /// Fills an image from which the source will be rewritten: its bytes are shared with the source, or copied.
    fn fill_image(&self, file: &S::File) -> std::io::Result<()> {
        let failed = |errno| Err(std::io::Error::from_raw_os_error(errno));
        if !self.limits.has(self.change.identity.device, SavePlan::Clone.word()) {
            match self.fill(file, true) {
                Ok(()) => return Ok(()),
                Err(Stopped::Failed(error)) => return failed(error.errno()),
                Err(_) => {}
            }
        }
        // If the image does not share its bytes with the source, they have to be overwritten in the source.
        if self.is_short_of_room(self.change.new_size().saturating_mul(2)) {
            return failed(libc::ENOSPC);
        }
        match self.fill(file, false) {
            Ok(()) => Ok(()),
            Err(Stopped::Failed(error)) => failed(error.errno()),
            Err(_) => failed(libc::EOPNOTSUPP),
        }
    }

    fn rewrite_from(&self, image: Image<S>, file: S::File) -> Result<Unconfirmed<S>, Stopped> {
        // The journal lies in the same directory as its image.
        let sidecars = image.place.clone();
        let header = self.header(Method::Image, Some((&image, &file)));
        let journal = header.and_then(|header| self.write_journal_in(&sidecars, header, &[]));
        match journal {
            Ok(journal) => self.carry_out(sidecars, journal, Some((image, file))),
            Err(error) => {
                self.remove_image(&image);
                Err(if elsewhere(&error) {
                    let tried = [(self.journal_label(&sidecars), error)];
                    Stopped::Failed(nowhere("the journal can't be written", &tried))
                } else {
                    changed_or_failed(error)
                })
            }
        }
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
                answer => return answer.map_err(changed_or_failed),
            }
        }
        Err(Stopped::Failed(nowhere("the journal can't be written", &tried)))
    }

    /// Returns the header of a journal. `image` is the image from which the source will be written.
    fn header(&self, way: Method, image: Option<(&Image<S>, &S::File)>) -> std::io::Result<Header> {
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
            saver: Saver::this(),
            device: source.device,
            image_number: 0,
        };
        if let Some((image, file)) = image {
            header.image_number = image.number;
            header.image_size = self.storage.meta(file)?.identity.size;
            header.image_digest = header.digest_image(self.storage, file)?;
        }
        Ok(header)
    }

    fn write_journal_in(
        &self,
        sidecars: &Sidecars<S>,
        header: Header,
        extents: &[Extent],
    ) -> std::io::Result<Journal<S>> {
        let file = self.create_journal(sidecars)?;
        let written = self
            .write_records(Writer::new(self.storage, &file, &header), &header, extents)
            // The journal and its name may become durable in any order, because the source is changed only
            // after both are.
            .and_then(|written| self.sync_with_dir(&file, &sidecars.dir).map(|()| written))
            .and_then(|written| check_believed(self.storage, &file, self.file).map(|()| written))
            // A program that shares no locks with this one may have taken an unfinished journal for one of a crash.
            .and_then(|written| {
                let is_named = self.has_its_name(sidecars, &file)?;
                if is_named { Ok(written) } else { Err(std::io::Error::from_raw_os_error(libc::EBUSY)) }
            });
        match written {
            Ok((ranges, rest)) => Ok(Journal {
                file,
                header,
                extents: extents.to_vec(),
                ranges,
                rest: Some(rest),
                kept: None,
                overwritten: None,
            }),
            Err(error) => {
                // The source is unchanged, so an unfinished journal is harmless. But if the next place
                // succeeds, this journal's name must not reappear after a crash.
                if self.unlink_journal(sidecars, &file).is_ok() {
                    let _ = self.storage.sync_dir(&sidecars.dir);
                }
                Err(error)
            }
        }
    }

    /// Creates the journal. Waits a moment for a save of another program that has its journal there.
    fn create_journal(&self, sidecars: &Sidecars<S>) -> std::io::Result<S::File> {
        for _ in 0..JOURNAL_ATTEMPTS {
            match self.storage.create(&sidecars.dir, &sidecars.journal) {
                Err(error)
                    if error.kind() == std::io::ErrorKind::AlreadyExists
                        && may_begin(self.storage, &sidecars.dir, &sidecars.journal)? =>
                {
                    self.storage.wait(JOURNAL_PAUSE);
                }
                created => return created,
            }
        }
        Err(std::io::Error::from_raw_os_error(libc::EBUSY))
    }

    /// True if the journal still has its name.
    fn has_its_name(&self, sidecars: &Sidecars<S>, journal: &S::File) -> std::io::Result<bool> {
        let compare = || -> std::io::Result<bool> {
            if self.storage.is_remote(journal) {
                // The inode number of a file may change there. No other save has the same header.
                let named = self.storage.open(&sidecars.dir, &sidecars.journal, false)?;
                return Ok(first_bytes(self.storage, &named)? == first_bytes(self.storage, journal)?);
            }
            let named = self.storage.meta_at(&sidecars.dir, &sidecars.journal)?.identity;
            Ok(named.same_file(&self.storage.meta(journal)?.identity))
        };
        match compare() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            answer => answer,
        }
    }

    /// Removes the name of the journal, unless it is another program's by now, or gone.
    pub(super) fn unlink_journal(&self, sidecars: &Sidecars<S>, journal: &S::File) -> std::io::Result<()> {
        if self.has_its_name(sidecars, journal)? {
            self.storage.unlink(&sidecars.dir, &sidecars.journal)?;
        }
        Ok(())
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
                writer.kept(&header.digest_kept(self.storage, self.file, header.kept_from)?)?;
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
        Err(unsuited_or_failed(error))
    }

    /// Notes the source's time after an attempt that was undone, which has changed it, so that the next way does not take
    /// that for a change by another program. Some file systems change it also when they refuse an insertion.
    pub(super) fn note_own_time(&self) -> std::io::Result<()> {
        let now = self.storage.meta(self.file)?.identity;
        let head = self.change.old_head;
        let same = Identity { mtime: now.mtime, ctime: now.ctime, ..self.source.get() } == now;
        if same && version(self.storage, self.file, head.len)? == head {
            self.source.set(now);
        }
        Ok(())
    }

    /// Carries out the change in the journal, and undoes it if that fails. After a success, the journal stays until the
    /// save is [finished](Self::finish).
    fn carry_out(
        &self,
        sidecars: Sidecars<S>,
        journal: Journal<S>,
        image: Option<(Image<S>, S::File)>,
    ) -> Result<Unconfirmed<S>, Stopped> {
        // A write of a program that appends to a stream can't be told from one into the head, and does no harm.
        let is_watched = !self.storage.is_remote(self.file) && !journal.header.grows;
        let watch = if is_watched { self.storage.watch(self.file) } else { None };
        let before = match journal.header.way {
            Method::InPlace if watch.is_some() => self.known_extents(),
            _ => None,
        };
        let mut written =
            Unconfirmed { sidecars, journal, image, watch, before, inserted: false, is_beside: false };
        match self.check_unchanged() {
            Ok(()) => {}
            Err(stopped) => {
                self.remove_journal(written);
                return Err(stopped);
            }
        }
        self.announce(&written.journal, written.image_file());
        match self.write_source(&mut written) {
            Ok(()) => Ok(written),
            Err(stopped) => Err(self.abandon(written, stopped)),
        }
    }

    /// Returns where the bytes of the source are on the disk, if the file system says so.
    fn known_extents(&self) -> Option<Vec<Extent>> {
        match self.storage.extents(self.file) {
            Ok(Extents::Known(extents)) => Some(extents),
            _ => None,
        }
    }

    /// Writes the source by its journal.
    ///
    /// If another program writes only after this one has written all of the new file, [`confirm`](Self::confirm) decides
    /// what the file is.
    fn write_source(&self, written: &mut Unconfirmed<S>) -> Result<(), Stopped> {
        let Unconfirmed { journal, image, watch, before, inserted, is_beside, .. } = written;
        let image = image.as_ref().map(|(_, file)| file);
        let half_saved = HalfSaved::new(self.storage, self.file, journal, image);
        let is_written_by_others =
            |beside_own| watch.as_ref().is_some_and(|watch| watch.is_written_by_others(beside_own));
        if journal.header.way == Method::Insert {
            if is_written_by_others(false) {
                return Err(Stopped::SourceChanged);
            }
            self.insert_announced(&journal.header, &half_saved, &is_written_by_others)?;
            *inserted = true;
            if journal.header.insert_at == 0 {
                // The file begins with the inserted hole now. With the mark, a copy of it is recognised. After a
                // crash, the mark can't be there without the insertion, because it lies in its hole.
                if self.mark_announced(&is_written_by_others)? {
                    return Err(Stopped::Overwritten);
                }
            }
            // Makes the insertion durable first. After a crash, an incomplete insertion then means that
            // nothing but the mark was written.
            self.sync(self.file)?;
            if !half_saved.is_inserted().map_err(Stopped::Failed)? {
                return Err(Stopped::Overwritten);
            }
        }
        let is_changed = if *inserted || journal.header.grows || self.storage.is_remote(self.file) {
            !half_saved.has_old_size()?
        } else {
            self.storage.meta(self.file)?.identity != self.source.get()
        };
        if is_written_by_others(false) || is_changed {
            return Err(if *inserted { Stopped::Overwritten } else { Stopped::SourceChanged });
        }
        let mut is_mixed = self.overwrite_announced(&half_saved, &is_written_by_others)?;
        // The new file may be long. It is compared here only if the watch may have missed a writer.
        if journal.header.way != Method::Image || !watch.as_ref().is_some_and(Watch::is_exact) {
            is_mixed |= !self.is_as_written(&half_saved, journal.header.way)?;
        }
        if is_mixed {
            *is_beside = self.is_written_beside(&journal.header, watch.as_ref(), before.as_deref())?;
            if !*is_beside {
                return Err(Stopped::Overwritten);
            }
        }
        if !self.storage.is_remote(self.file) {
            half_saved.sync()?;
        }
        self.syncs.set(self.syncs.get() + half_saved.syncs());
        Ok(())
    }

    /// True if the source has the bytes that the save wrote, and those of the head that it left unchanged.
    /// Where other machines write, the caller reads the file back.
    pub(super) fn is_as_written(&self, half_saved: &HalfSaved<'_, S>, way: Method) -> Result<bool, Stopped> {
        if self.storage.is_remote(self.file) {
            return Ok(true);
        }
        let compare = || -> seekable::Result<bool> {
            let is_new = half_saved.source_state()? == SourceState::New && half_saved.has_rest()?;
            Ok(is_new && (way != Method::Insert || half_saved.is_inserted()?))
        };
        compare().map_err(Stopped::Failed)
    }

    pub(super) fn journal_label(&self, sidecars: &Sidecars<S>) -> PathBuf {
        sidecars.label(self.storage, &sidecars.journal)
    }
}

/// Converts an error of writing the journal: another program's journal means that the program is saving the file.
fn changed_or_failed(error: std::io::Error) -> Stopped {
    if error.kind() == std::io::ErrorKind::ResourceBusy { Stopped::SourceChanged } else { error.into() }
}
