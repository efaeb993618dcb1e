//! A source that can be saved to.
//!
//! Its layout is read when it is first needed: reading takes longer the more blocks there are, so a mount reads it
//! with the first save.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use seekable::error::{Error, Kind, Result};
use seekable::source::storage::{Rights, Storage, System};
use seekable::source::{Identity, NoReaders, Readers};

use super::apply::{Done, SaveJob, Stopped};
use super::context::DeviceLimits;
use super::index::{Indexed, Tail};
use super::layout::{Layout, version};
use super::opened::{Opened, Patience, check_rights, open_locked};
use super::plan::PlannedChange;
use super::recover::{By, Claim, is_left, recover};
use super::recovery::Recovered;
use super::refusal::{CONFLICT, GONE};
use super::sidecar::HeldSource;
use super::{Applied, SaveOptions, lock, tail};
use crate::container::text_version::TextVersion;

mod leased;
mod named;

/// The number of attempts to save a file that other programs keep replacing or changing.
const ATTEMPTS: usize = 8;

/// A source that can be saved to: locked and recovered.
#[derive(Debug)]
pub struct Target<S: Storage = System> {
    pub(super) storage: S,
    pub(super) held: HeldSource<S>,
    pub(super) file: S::File,
    /// The descriptor that holds the lock, open for reading only; `None` if that is `file`.
    pub(super) lock: Option<S::File>,
    /// True while `file` is the descriptor that holds the lock, and none is open for writing.
    pub(super) reads_only: bool,
    /// The layout as of the last reading or saving; `None` if it was not needed yet.
    pub(super) layout: Option<Layout>,
    /// The result of the last recovery. A recovery follows a crash, or a save that could not be undone.
    pub(super) recovered: Recovered,
    /// The reason why the file is not locked, if its file system has no locks.
    pub(super) lock_error: Option<String>,
    /// The note that names this process as the holder of the file.
    note: Option<lock::Note>,
    /// The plans that file systems refused. They are not tried again.
    pub(super) limits: DeviceLimits,
    /// Owner, group and mode that a file must have to replace this one.
    pub(super) rights: Option<Rights>,
    /// True if the last rename over the source may not be durable.
    pub(super) rename_unsynced: bool,
    /// True if a save could not remove one of its files.
    is_left: AtomicBool,
}

/// A text that becomes the head of a file, with its version.
#[derive(Clone, Copy, Debug)]
pub struct NewHead<'t> {
    /// The text.
    pub text: &'t [u8],
    /// Its version, which takes long to compute from a long text.
    pub version: TextVersion,
}

impl<S: Storage> Target<S> {
    /// Opens, locks and recovers the file at a path, which leads through no link that another user may change.
    /// The directory is held. Reads the layout.
    ///
    /// # Errors
    /// [`ReadOnly`](seekable::Kind::ReadOnly) if the file can't be written. [`Busy`](seekable::Kind::Busy) if
    /// another program holds the lock. The message names that program.
    pub fn open_in(storage: S, path: &Path, state: Option<PathBuf>) -> Result<Self> {
        let held = HeldSource::at(&storage, path, state).map_err(|error| Error::from(error).of(path))?;
        let mut target = Self::open(storage, held)?;
        target.layout()?;
        Ok(target)
    }

    /// Opens, locks and recovers a file in a directory that is held open.
    pub(super) fn open(storage: S, held: HeldSource<S>) -> Result<Self> {
        let Opened { file, lock, lock_error } = open_locked(&storage, &held, Patience::ForSave)?;
        let label = || held.label(&storage);
        let claim = Claim { by: By::Editor, is_locked: lock_error.is_none() };
        let recovered = recover(&storage, &file, &held, claim).map_err(|error| error.of(label()))?;
        held.check_places(&storage).map_err(|error| error.of(label()))?;
        Ok(Self {
            storage,
            held,
            file,
            lock,
            reads_only: false,
            layout: None,
            recovered,
            lock_error,
            note: None,
            limits: DeviceLimits::default(),
            rights: None,
            rename_unsynced: false,
            is_left: AtomicBool::new(false),
        })
    }

    /// Writes a note that this process, mounted on `mount_point`, holds the file.
    ///
    /// Must be called after the last fork.
    pub fn held_for(&mut self, mount_point: &Path) {
        if let Some(state) = &self.held.state {
            self.note = lock::Note::write(state, self.held.note(), mount_point);
        }
    }

    /// Shares `limits`, the record of the plans that file systems refused, with other targets.
    pub fn share(&mut self, limits: &DeviceLimits) {
        self.limits = limits.clone();
    }

    /// Refuses this file, and each file that replaces it, unless it has these rights.
    ///
    /// # Errors
    /// ESTALE if this file has others.
    pub fn demand(&mut self, rights: Rights) -> Result<()> {
        self.rights = Some(rights);
        check_rights(&self.storage, &self.file, self.rights)
    }

    /// Returns the path at which the file is now, for messages.
    pub fn label(&self) -> PathBuf {
        self.held.label(&self.storage)
    }

    /// Opens the file that has the name now.
    pub(super) fn open_named(&self, write: bool) -> io::Result<S::File> {
        self.held.open(&self.storage, write)
    }

    /// Returns the file's layout as of the last reading or saving. The first call reads it.
    ///
    /// # Errors
    /// The reason why the layout can't be read. The file stays locked.
    pub fn layout(&mut self) -> Result<&mut Layout> {
        let layout = match self.layout.take() {
            Some(layout) => layout,
            None => Layout::read(&self.storage, &self.file, &self.label()).map_err(|error| {
                let error = match self.recovered.set_aside.first() {
                    Some((name, why)) => error.within(format!(
                        "a save was interrupted, and its journal, now {}, could not be used: {why}",
                        name.display()
                    )),
                    None => error,
                };
                error.of(self.label())
            })?,
        };
        Ok(self.layout.insert(layout))
    }

    /// Makes the next save read the layout anew.
    fn distrust_layout(&mut self) {
        if let Some(layout) = &mut self.layout {
            layout.identity.mtime = (0, 0);
        }
    }

    /// Returns the result of the last recovery. A recovery follows a crash, or a save that could not be
    /// undone.
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// Returns the reason why the file is not locked, if its file system has no locks.
    pub fn lock_error(&self) -> Option<&str> {
        self.lock_error.as_deref()
    }

    /// True if size and time show that the file has not changed since it was read or saved last. On a server
    /// they show nothing, so the answer is false.
    pub fn is_untouched(&self) -> bool {
        !self.storage.is_remote(&self.file)
            && self
                .held
                .meta(&self.storage)
                .is_ok_and(|meta| self.layout.as_ref().is_some_and(|layout| meta.identity == layout.identity))
    }

    /// True if the tree on disk is still the one that was read or saved last. Reads the tree.
    pub fn is_current(&mut self) -> Result<bool> {
        let known = self.layout()?.head;
        let layout = self.read_again().map_err(|error| error.of(self.label()))?;
        Ok(layout.is_none_or(|layout| layout.head == known))
    }

    /// Reads the whole head, which is the tree's text.
    pub fn head(&mut self) -> Result<Vec<u8>> {
        let len = usize::try_from(self.layout()?.head.len).unwrap_or(usize::MAX);
        let mut text = vec![0; len];
        let read = self.storage.read_at(&self.file, 0, &mut text)?;
        text.truncate(read);
        Ok(text)
    }

    /// Accepts the file as it is now: the next save replaces this tree.
    pub fn reload(&mut self) -> Result<()> {
        if let Some(layout) = self.read_again().map_err(|error| error.of(self.label()))? {
            self.layout = Some(layout);
        }
        Ok(())
    }

    /// Makes `text` the file's head, durably. The rest of the file stays as it is.
    ///
    /// # Errors
    ///
    /// [`Kind::Conflict`] if another program changed the tree meanwhile. [`Kind::Refused`] if the text would
    /// not be read as the head or can't get into the file safely. [`Kind::System`] if the system fails a
    /// call. The file is then the old one. [`Kind::Unfinished`] if the old file could not be restored: the
    /// journal is kept for a recovery.
    pub fn save(&mut self, text: &[u8], options: &SaveOptions) -> Result<Applied> {
        self.save_among_readers(
            NewHead { text, version: TextVersion::of_bytes(text) },
            options,
            &mut NoReaders,
        )
    }

    /// Saves while other threads read the file. If a save changes bytes of the existing file, `readers` are
    /// notified of these bytes before the change.
    pub fn save_among_readers(
        &mut self,
        new: NewHead<'_>,
        options: &SaveOptions,
        readers: &mut dyn Readers,
    ) -> Result<Applied> {
        self.save_head(new, options, readers).map_err(|error| error.of(self.label()))
    }

    fn save_head(
        &mut self,
        new: NewHead<'_>,
        options: &SaveOptions,
        readers: &mut dyn Readers,
    ) -> Result<Applied> {
        self.write_again()?;
        self.recover_again()?;
        let known = self.layout()?.head;
        for _ in 0..ATTEMPTS {
            let saved = self.attempt(known, new, options, readers);
            let writes = self.write_again();
            if let Some(saved) = saved? {
                // If the file could not be opened for writing again, the next save reports it.
                return Ok(saved);
            }
            writes?;
        }
        Err(Error::new(Kind::Busy, "another program keeps changing the file: save again when it is done"))
    }

    /// Saves the text into the file as it is now; `None` if another program changes the file meanwhile.
    fn attempt(
        &mut self,
        known: TextVersion,
        new: NewHead<'_>,
        options: &SaveOptions,
        readers: &mut dyn Readers,
    ) -> Result<Option<Applied>> {
        self.see_again(known)?;
        if known == new.version {
            self.make_sure()?;
            let from = self.layout()?.identity;
            let saved = from;
            return Ok(Some(Applied {
                plan: None,
                grew_by: 0,
                indexed: Indexed::Kept,
                fsyncs: 0,
                from,
                saved,
            }));
        }
        let mut change = PlannedChange::new(self.layout()?, new.text, options)?;
        if change.moves_a_stream() {
            self.hold_stream(&change)?;
            // The stream may have grown until the lease was taken.
            self.see_again(known)?;
            change = PlannedChange::new(self.layout()?, new.text, options)?;
            if !self.reads_only || !change.moves_a_stream() {
                return Ok(None);
            }
        }
        if change.carries_tail()
            && let Some(layout) = &self.layout
            && let Some(moved) = tail::moved(&self.storage, &self.file, layout, change.shift)?
        {
            change = change.with_index(moved.from, moved.bytes);
        }
        self.try_plans(&change, new.version, options, readers)
    }

    /// Reads the layout anew if the file was changed. Fails if the tree was changed.
    fn see_again(&mut self, known: TextVersion) -> Result<()> {
        if let Some(layout) = self.read_again()? {
            if layout.head != known {
                return Err(conflict());
            }
            self.layout = Some(layout);
        }
        Ok(())
    }

    /// Makes the last rename durable, if that failed before.
    fn make_sure(&mut self) -> Result<()> {
        if self.rename_unsynced {
            self.storage.sync_dir(&self.held.dir)?;
            self.rename_unsynced = false;
        }
        Ok(())
    }

    /// Finishes or undoes a save of this process that could be neither finished nor undone, and removes its files.
    fn recover_again(&mut self) -> Result<()> {
        if *self.is_left.get_mut() || is_left(&self.storage, &self.held) {
            let claim = Claim { by: By::Editor, is_locked: self.lock_error.is_none() };
            self.recovered = recover(&self.storage, &self.file, &self.held, claim)?;
            *self.is_left.get_mut() = false;
            // The file is now the old or the new one. Both are known to this process, so this is no conflict.
            self.layout = Some(Layout::read(&self.storage, &self.file, &self.label())?);
        }
        Ok(())
    }

    fn open_anew(&mut self) -> Result<()> {
        let opened = open_locked(&self.storage, &self.held, Patience::ForSave)?;
        check_rights(&self.storage, &opened.file, self.rights)?;
        (self.file, self.lock, self.lock_error) = (opened.file, opened.lock, opened.lock_error);
        self.reads_only = false;
        Ok(())
    }

    /// Carries out the first plan that works; `None` if another program changed the file meanwhile.
    fn try_plans(
        &mut self,
        change: &PlannedChange<'_>,
        version: TextVersion,
        options: &SaveOptions,
        readers: &mut dyn Readers,
    ) -> Result<Option<Applied>> {
        let links = self.storage.meta(&self.file)?.links;
        let (mut reasons, mut kind) = (Vec::new(), Kind::Refused);
        // A plan that the file system refused may have changed the file's time.
        let mut source = change.identity;
        let mut fsyncs = 0;
        let plans = change.plans(links, options);
        if change.shift > 0 && !change.moves_a_stream() {
            self.check_no_writer()?;
        }
        for plan in plans {
            self.lease_for(plan, change)?;
            let job = self.job(change, source, fsyncs, readers);
            let done = job.run(plan);
            (source, fsyncs) = (job.source.get(), job.syncs.get());
            let done = match done {
                Ok(Done::Unconfirmed(written)) => {
                    self.confirm(*written, change, &mut fsyncs, readers).map(Done::SameFile)
                }
                done => done,
            };
            match done {
                Ok(done) => {
                    let mut unsynced = None;
                    let mut saved = match done {
                        Done::NewFile(new, error) => {
                            // A stream's new file is leased, too, and open for reading only.
                            self.reads_only &= change.streamed;
                            self.file = new.file;
                            self.lock = new.lock;
                            self.rename_unsynced = error.is_some();
                            unsynced = error;
                            new.saved
                        }
                        Done::SameFile(saved) => saved,
                        // It has just been confirmed.
                        Done::Unconfirmed(_) => return Ok(None),
                    };
                    self.read_back(change)?;
                    if self.storage.is_remote(&self.file) {
                        // The server may set the file's time after the last write.
                        saved = self.storage.meta(&self.file)?.identity;
                    }
                    self.saved(change, version, saved)?;
                    if let Some(error) = unsynced {
                        return Err(error);
                    }
                    return Ok(Some(Applied {
                        plan: Some(plan),
                        grew_by: change.shift,
                        indexed: change.indexed,
                        fsyncs,
                        from: change.identity,
                        saved,
                    }));
                }
                Err(Stopped::Unsuited(why)) => {
                    if why.errno() == libc::EFBIG {
                        kind = Kind::TooLarge;
                    }
                    reasons.push(format!("{}: {why}", plan.word()));
                }
                Err(Stopped::SourceChanged | Stopped::Overwritten) => return Ok(None),
                Err(Stopped::Failed(error)) => {
                    // Even an undone save has changed the file's modification time.
                    self.distrust_layout();
                    return Err(error);
                }
            }
        }
        let reasons = reasons.join("; ");
        Err(Error::new(kind, format!("the text can't be saved safely ({reasons})")))
    }

    /// Returns the job that carries out a change of the file in its present state `source`.
    fn job<'a>(
        &'a self,
        change: &'a PlannedChange<'a>,
        source: Identity,
        fsyncs: u32,
        readers: &'a mut dyn Readers,
    ) -> SaveJob<'a, S> {
        SaveJob {
            storage: &self.storage,
            held: &self.held,
            file: &self.file,
            change,
            source: source.into(),
            limits: &self.limits,
            leased: self.reads_only,
            is_left: &self.is_left,
            readers: RefCell::new(readers),
            syncs: fsyncs.into(),
        }
    }

    /// Updates the layout after a change, which left the file as `identity`, without reading it.
    fn saved(&mut self, change: &PlannedChange<'_>, version: TextVersion, identity: Identity) -> Result<()> {
        let layout = self.layout()?;
        layout.identity = identity;
        layout.head = version;
        if !change.keeps_anything() {
            layout.kept_from = change.new_size();
            layout.kept_to = change.new_size();
            return Ok(());
        }
        layout.kept_from += change.shift;
        layout.blocks_end = layout.blocks_end.map(|end| end + change.shift);
        for offset in &mut layout.offsets {
            *offset += change.shift;
        }
        match (&layout.tail, layout.blocks_end) {
            (Some(Tail::Current | Tail::Free), Some(end)) => {
                layout.kept_to = end;
                if change.indexed == Indexed::Written {
                    layout.tail = Some(Tail::Current);
                }
            }
            _ => layout.kept_to = change.new_size(),
        }
        Ok(())
    }

    /// Reads the layout of the file as it is now; `None` if the known layout is still right.
    fn read_again(&mut self) -> Result<Option<Layout>> {
        if self.storage.is_remote(&self.file) && !self.reads_only {
            self.open_by_name()?;
        }
        let named = self.held.meta(&self.storage).map_err(gone)?;
        if !named.identity.same_file(&self.storage.meta(&self.file)?.identity) {
            // Another file has the name. It has to be locked and written instead.
            self.open_anew()?;
        }
        if let Some(known) = &self.layout
            && self.storage.meta(&self.file)?.identity == known.identity
            && version(&self.storage, &self.file, known.head.len)? == known.head
        {
            return Ok(None);
        }
        Layout::read(&self.storage, &self.file, &self.label()).map(Some)
    }
}

fn conflict() -> Error {
    Error::new(Kind::Conflict, CONFLICT)
}

/// Converts an error of looking up the file's name.
fn gone(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::new(Kind::Busy, GONE),
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;
    use crate::edit::SaveOptions;

    #[test]
    fn a_file_with_other_rights_does_not_take_the_place_of_the_locked_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("x.asdf");
        let text = |value| format!("#ASDF 1.0.0\n%YAML 1.1\n---\na: {value}\n...\n").into_bytes();
        let put = |mode| {
            let new = dir.path().join("new");
            fs::write(&new, text(1)).unwrap();
            fs::set_permissions(&new, fs::Permissions::from_mode(mode)).unwrap();
            fs::rename(&new, &path).unwrap();
        };
        put(0o644);
        let mut target = Target::open_in(System, &path, None).unwrap();
        let meta = fs::metadata(&path).unwrap();
        assert!(target.demand((meta.uid(), meta.gid(), meta.mode() & !0o44)).is_err());
        target.demand((meta.uid(), meta.gid(), meta.mode())).unwrap();
        target.layout().unwrap();
        put(0o600);
        let error = target.save(&text(2), &SaveOptions::default()).unwrap_err();
        assert_eq!(error.errno(), libc::ESTALE, "{error}");
        assert_eq!(fs::read(&path).unwrap(), text(1));
        put(0o644);
        target.save(&text(2), &SaveOptions::default()).unwrap();
        assert!(fs::read(&path).unwrap().starts_with(&text(2)[..text(2).len() - 4]));
    }
}
