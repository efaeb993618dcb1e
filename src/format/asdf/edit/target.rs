//! A source that may be written.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};

use super::apply::{Done, Job, Stopped};
use super::index::{Indexed, Tail};
use super::layout::{Layout, version};
use super::lock;
use super::opened::open_locked;
use super::plan::Change;
use super::recover::{is_left_in, recover};
use super::sidecar::SidecarPaths;
use super::{Applied, SaveOptions, tail};
use crate::error::{Error, Kind, Result};
use crate::format::editor::{DeviceLimits, TextVersion};
use crate::format::recovery::Recovered;
use crate::format::refusal::CONFLICT;
use crate::source::storage::{Storage, System};
use crate::source::{NoReaders, Readers};

mod leased;
mod named;

/// Attempts at a file that other programs replace or change all the time.
const ATTEMPTS: usize = 8;

/// A source that may be written: locked, recovered, and its layout known.
#[derive(Debug)]
pub struct Target<S: Storage = System> {
    pub(super) storage: S,
    pub(super) path: PathBuf,
    pub(super) state: Option<PathBuf>,
    pub(super) places: Vec<SidecarPaths>,
    pub(super) file: S::File,
    /// What holds the lock, open for reading only; `None` where that is `file`.
    pub(super) lock: Option<S::File>,
    /// Whether `file` is what holds the lock: no descriptor writes for a while.
    pub(super) reads_only: bool,
    pub(super) layout: Layout,
    pub(super) recovered: Recovered,
    pub(super) lock_trouble: Option<String>,
    /// Names the process that has the file, for as long as it is kept.
    pub(super) _note: Option<lock::Note>,
    /// What file systems can't do: it is not tried again.
    pub(super) limits: DeviceLimits,
    /// Whether the name of the file that was put in place last may not survive a crash.
    pub(super) unsure: bool,
}

impl<S: Storage> Target<S> {
    /// The file's name, absolute and without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where things lie in the file, as of the last reading or saving.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What a crash, or a save that could not be undone, had left, and what was done about it last.
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// Why the file could not be locked, if its file system has no locks.
    pub fn lock_trouble(&self) -> Option<&str> {
        self.lock_trouble.as_deref()
    }

    /// True if size and time prove that the file is as it was when it was read or saved last. On a server they
    /// prove nothing.
    pub fn is_untouched(&self) -> bool {
        !self.storage.is_remote(&self.file)
            && self.storage.meta_at(&self.path).is_ok_and(|meta| meta.identity == self.layout.identity)
    }

    /// Whether the tree on disk is still the one that was read or saved last; reads it.
    pub fn is_current(&mut self) -> Result<bool> {
        let known = self.layout.head;
        let layout = self.read_again().map_err(|error| error.of(&self.path))?;
        Ok(layout.is_none_or(|layout| layout.head == known))
    }

    /// Whether the bytes are still where the layout says, and what the tree's text is: the whole head.
    pub fn head(&self) -> Result<Vec<u8>> {
        let len = usize::try_from(self.layout.head.len).unwrap_or(usize::MAX);
        let mut text = vec![0; len];
        let read = self.storage.read_at(&self.file, 0, &mut text)?;
        text.truncate(read);
        Ok(text)
    }

    /// Takes the file as it is now, whatever changed: the next save is measured against that.
    pub fn reload(&mut self) -> Result<&Layout> {
        if let Some(layout) = self.read_again().map_err(|error| error.of(&self.path))? {
            self.layout = layout;
        }
        Ok(&self.layout)
    }

    /// Makes `text` the file's head, durably; the rest of the file stays as it is.
    ///
    /// # Errors
    ///
    /// [`Kind::Conflict`] if another program changed the tree meanwhile, [`Kind::Refused`] if the text would
    /// not be read as the head or can't get into the file safely, [`Kind::System`] if the system
    /// refuses. The file is then the old one. [`Kind::Unfinished`] if not even that could be had: the
    /// journal is kept, and a recovery settles it.
    pub fn save(&mut self, text: &[u8], options: &SaveOptions) -> Result<Applied> {
        self.save_among_readers(text, TextVersion::of_bytes(text), options, &mut NoReaders)
    }

    /// Saves while other threads read the file: `readers` are told of all bytes that change in the same file, before they
    /// do. `version` is the text's.
    pub fn save_among_readers(
        &mut self,
        text: &[u8],
        version: TextVersion,
        options: &SaveOptions,
        readers: &mut dyn Readers,
    ) -> Result<Applied> {
        self.save_bytes(text, version, options, readers).map_err(|error| error.of(&self.path))
    }

    fn save_bytes(
        &mut self,
        text: &[u8],
        version: TextVersion,
        options: &SaveOptions,
        readers: &mut dyn Readers,
    ) -> Result<Applied> {
        self.write_again()?;
        self.recover_again()?;
        let known = self.layout.head;
        for _ in 0..ATTEMPTS {
            let saved = self.attempt(known, text, version, options, readers);
            let writes = self.write_again();
            if let Some(saved) = saved? {
                // Should it not be open for writing, the next save tells.
                return Ok(saved);
            }
            writes?;
        }
        Err(Error::new(Kind::Busy, "another program keeps changing the file: save again when it is done"))
    }

    /// Saves the text into the file as it is now; `None` if that is changed meanwhile.
    fn attempt(
        &mut self,
        known: TextVersion,
        text: &[u8],
        version: TextVersion,
        options: &SaveOptions,
        readers: &mut dyn Readers,
    ) -> Result<Option<Applied>> {
        self.see_again(known)?;
        if known == version {
            self.make_sure()?;
            return Ok(Some(Applied { plan: None, grew_by: 0, indexed: Indexed::Kept, fsyncs: 0 }));
        }
        let mut change = Change::new(&self.layout, text, options)?;
        if change.moves_a_stream() {
            self.hold_stream(&change)?;
            // It may have grown until just now.
            self.see_again(known)?;
            change = Change::new(&self.layout, text, options)?;
            if !self.reads_only || !change.moves_a_stream() {
                return Ok(None);
            }
        }
        if change.carries_tail()
            && let Some(moved) = tail::moved(&self.storage, &self.file, &self.layout, change.shift)?
        {
            change = change.with_index(moved.from, moved.bytes);
        }
        self.try_plans(&change, version, options, readers)
    }

    /// Reads the layout if the file was changed; an error if the tree was.
    fn see_again(&mut self, known: TextVersion) -> Result<()> {
        if let Some(layout) = self.read_again()? {
            if layout.head != known {
                return Err(conflict());
            }
            self.layout = layout;
        }
        Ok(())
    }

    /// Finishes or undoes a save that failed and could be neither.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being settled still; the file stays as it is.
    pub fn settle(&mut self) -> Result<()> {
        self.recover_again().map_err(|error| error.of(&self.path))
    }

    /// Makes the name of the file that was put in place durable, if that failed before.
    fn make_sure(&mut self) -> Result<()> {
        if let (true, Some(dir)) = (self.unsure, self.path.parent()) {
            self.storage.sync_dir(dir)?;
            self.unsure = false;
        }
        Ok(())
    }

    /// Settles a save of this process that could be neither finished nor undone, and removes what could
    /// not be removed before.
    fn recover_again(&mut self) -> Result<()> {
        if self.places.iter().any(|place| is_left_in(&self.storage, place, &self.path)) {
            self.recovered = recover(&self.storage, &self.file, &self.places)?;
            // Whichever of the two it became, it is what this process made of it.
            self.layout = Layout::read(&self.storage, &self.file, &self.path)?;
        }
        Ok(())
    }

    fn open_anew(&mut self) -> Result<()> {
        let opened = open_locked(&self.storage, &self.path, self.state.as_deref())?;
        (self.file, self.lock, self.lock_trouble) = (opened.file, opened.lock, opened.lock_trouble);
        self.reads_only = false;
        Ok(())
    }

    /// Carries out the first plan that can be; `None` if the file was changed meanwhile.
    fn try_plans(
        &mut self,
        change: &Change<'_>,
        version: TextVersion,
        options: &SaveOptions,
        readers: &mut dyn Readers,
    ) -> Result<Option<Applied>> {
        let links = self.storage.meta(&self.file)?.links;
        let (storage, places) = (self.storage.clone(), self.places.clone());
        let (mut reasons, mut too_large) = (Vec::new(), false);
        let (path, file, limits) = (&self.path, &self.file, &self.limits);
        let (source, (syncs, left)) = (change.identity.into(), Default::default());
        let job = Job {
            storage: &storage,
            path,
            file,
            places: &places,
            change,
            source,
            limits,
            leased: self.reads_only,
            readers: RefCell::new(readers),
            syncs,
            left,
        };
        for plan in change.plans(links, options) {
            let done = job.run(plan);
            let fsyncs = job.syncs.get();
            match done {
                Ok(done) => {
                    let trouble = match done {
                        Done::NewFile(new, trouble) => {
                            (self.file, self.lock, self.unsure) = (new.file, new.lock, trouble.is_some());
                            trouble
                        }
                        Done::SameFile => None,
                    };
                    self.read_back(change)?;
                    self.saved(change, version)?;
                    if let Some(trouble) = trouble {
                        return Err(trouble);
                    }
                    let (grew_by, indexed) = (change.shift, change.indexed);
                    return Ok(Some(Applied { plan: Some(plan), grew_by, indexed, fsyncs }));
                }
                Err(Stopped::Unsuited(why)) => {
                    too_large |= why.errno() == libc::EFBIG;
                    reasons.push(format!("{}: {why}", plan.word()));
                }
                Err(Stopped::SourceChanged) => return Ok(None),
                Err(Stopped::Failed(error)) => {
                    // What was undone has changed the time, if nothing else: the next save looks anew.
                    self.layout.identity.mtime = (0, 0);
                    return Err(error);
                }
            }
        }
        let reasons = reasons.join("; ");
        let kind = if too_large { Kind::TooLarge } else { Kind::Refused };
        Err(Error::new(kind, format!("the text can't get into the file safely ({reasons})")))
    }

    /// The layout after a change, which need not be read.
    fn saved(&mut self, change: &Change<'_>, version: TextVersion) -> Result<()> {
        let layout = &mut self.layout;
        layout.identity = self.storage.meta(&self.file)?.identity;
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

    /// The file as it is now, if it is not the one that is known.
    fn read_again(&mut self) -> Result<Option<Layout>> {
        if self.storage.is_remote(&self.file) && !self.reads_only {
            self.open_by_name()?;
        }
        let named = self.storage.meta_at(&self.path).map_err(gone)?;
        if !named.identity.same_file(&self.storage.meta(&self.file)?.identity) {
            // Another file has the name: that one is to be written, and to be locked.
            self.open_anew()?;
        }
        if self.storage.meta(&self.file)?.identity == self.layout.identity
            && version(&self.storage, &self.file, self.layout.head.len)? == self.layout.head
        {
            return Ok(None);
        }
        Layout::read(&self.storage, &self.file, &self.path).map(Some)
    }
}

fn conflict() -> Error {
    Error::new(Kind::Conflict, CONFLICT)
}

/// Why the file can't be found at its name.
fn gone(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::new(Kind::Busy, "the file was removed or moved by another program"),
        _ => error.into(),
    }
}
