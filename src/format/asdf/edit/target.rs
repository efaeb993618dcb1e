//! A source that may be written.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use md5::{Digest, Md5};
use rustix::fs::FlockOperation;

use super::apply::{Done, Job, Refusals, Stopped};
use super::index::{Indexed, Tail};
use super::journal::exists;
use super::layout::{Layout, head_md5};
use super::opened::{Opened, open_locked};
use super::place::{Place, none_usable};
use super::plan::Change;
use super::recover::{Condition, Recovered, is_strangers, judge, recover};
use super::{Plan, SaveOptions, Saved, lock, tail};
use crate::error::{Error, Kind, Result};
use crate::source::storage::{Storage, System};
use crate::user_dirs::STATE;

mod leased;

/// Attempts at a file that other programs replace or change all the time.
const ATTEMPTS: usize = 8;

/// How often, and after which pauses, a file is looked at again that another program seems to be saving.
const SAVE_ATTEMPTS: usize = 100;
const SAVE_PAUSE: Duration = Duration::from_millis(10);

/// A source that is locked and recovered, and not read yet: that takes the longer the more blocks there
/// are.
#[derive(Debug)]
pub struct Locked<S: Storage = System> {
    storage: S,
    path: PathBuf,
    state: Option<PathBuf>,
    places: Vec<Place>,
    file: S::File,
    lock: Option<S::File>,
    recovered: Recovered,
    lock_trouble: Option<String>,
    note: Option<lock::Note>,
    refusals: Refusals,
}

impl<S: Storage> Locked<S> {
    /// Opens, locks and recovers a file; `path` is absolute and without links.
    ///
    /// # Errors
    /// As [`Target::open`] has them.
    pub fn open_in(storage: S, path: &Path, state: Option<PathBuf>) -> Result<Self> {
        let places = places(path, state.as_deref());
        let Opened { file, lock, lock_trouble } = open_locked(&storage, path, state.as_deref())?;
        let recovered = recover(&storage, &file, &places).map_err(|error| error.of(path))?;
        if let Some(error) = none_usable(&storage, &places) {
            return Err(error.of(path));
        }
        let path = path.to_owned();
        let (note, refusals) = Default::default();
        Ok(Self { storage, path, state, places, file, lock, recovered, lock_trouble, note, refusals })
    }

    /// What a crash had left, and what was done about it.
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// Why the file could not be locked, if its file system has no locks.
    pub fn lock_trouble(&self) -> Option<&str> {
        self.lock_trouble.as_deref()
    }

    /// Tells programs that ask for the file who has it: this process, mounted on `mount_point`.
    ///
    /// To be called after the last fork.
    pub fn held_for(&mut self, mount_point: &Path) {
        if let Some(state) = &self.state {
            self.note = lock::Note::write(state, &self.path, mount_point);
        }
    }

    /// Shares what file systems refused with other targets.
    pub fn share(&mut self, refusals: &Refusals) {
        self.refusals = refusals.clone();
    }

    /// Reads where things lie in the file.
    ///
    /// # Errors
    /// Why that can't be told; the file stays locked.
    pub fn read(self) -> std::result::Result<Target<S>, (Box<Self>, Error)> {
        let layout = match Layout::read(&self.storage, &self.file, &self.path) {
            Ok(layout) => layout,
            Err(error) => {
                let error = match self.recovered.set_aside.first() {
                    Some((name, why)) => error.within(format!(
                        "a save was interrupted, and its journal, now {}, could not be used: {why}",
                        name.display()
                    )),
                    None => error,
                };
                let error = error.of(&self.path);
                return Err((Box::new(self), error));
            }
        };
        Ok(Target {
            storage: self.storage,
            path: self.path,
            state: self.state,
            places: self.places,
            file: self.file,
            lock: self.lock,
            reads_only: false,
            layout,
            recovered: self.recovered,
            lock_trouble: self.lock_trouble,
            _note: self.note,
            refusals: self.refusals,
            unsure: false,
        })
    }
}

/// A source that may be written: locked, recovered, and its layout known.
#[derive(Debug)]
pub struct Target<S: Storage = System> {
    storage: S,
    path: PathBuf,
    state: Option<PathBuf>,
    places: Vec<Place>,
    file: S::File,
    /// What holds the lock, open for reading only; `None` where that is `file`.
    lock: Option<S::File>,
    /// Whether `file` is what holds the lock: no descriptor writes for a while.
    reads_only: bool,
    layout: Layout,
    recovered: Recovered,
    lock_trouble: Option<String>,
    /// Says who has the file for as long as it is kept.
    _note: Option<lock::Note>,
    /// What file systems can't do: it is not tried again.
    refusals: Refusals,
    /// Whether the name of the file that was put in place last may not survive a crash.
    unsure: bool,
}

impl Target {
    /// Opens, locks and recovers the file at `path`; links are followed.
    ///
    /// # Errors
    ///
    /// [`Kind::ReadOnly`] if the file can't be written, [`Kind::Busy`] if another program has it, which
    /// the message names.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_in(System, &canonical(path)?, STATE.path().ok())
    }
}

/// See [`super::recover()`].
pub(super) fn recover_at(path: &Path) -> Result<Recovered> {
    recover_in(&canonical(path)?, STATE.path().ok().as_deref())
}

/// See [`super::recover_in`].
pub(super) fn recover_in(path: &Path, state: Option<&Path>) -> Result<Recovered> {
    let places = places(path, state);
    let opened = open_locked(&System, path, state)?;
    recover(&System, &opened.file, &places).map_err(|error| error.of(path))
}

/// See [`super::is_interrupted`].
pub(super) fn is_interrupted(path: &Path, state: Option<&Path>) -> bool {
    let left = |place: Place| [place.journal, place.image].iter().any(|left| is_left(&System, left, path));
    places(path, state).into_iter().any(left)
}

/// See [`super::condition`].
pub(super) fn condition(path: &Path, state: Option<&Path>) -> Result<Condition> {
    let places = places(path, state);
    let mut attempts = 0..SAVE_ATTEMPTS;
    loop {
        if !is_interrupted(path, state) {
            return Ok(Condition::Whole);
        }
        let file = System.open(path, false).map_err(|error| Error::from(error).of(path))?;
        // Who has it for writing may be saving just now, or will settle it.
        let shared = rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared);
        let is_written = shared == Err(rustix::io::Errno::WOULDBLOCK);
        match judge(&System, &file, &places) {
            Ok(Condition::Halfway(_)) | Err(_) if is_written && attempts.next().is_some() => {
                drop(file);
                std::thread::sleep(SAVE_PAUSE);
            }
            judged => return judged.map_err(|error| error.of(path)),
        }
    }
}

impl<S: Storage> Target<S> {
    /// Opens a file of another storage; `path` is absolute and without links.
    pub fn open_in(storage: S, path: &Path, state: Option<PathBuf>) -> Result<Self> {
        Locked::open_in(storage, path, state)?.read().map_err(|(_, error)| error)
    }

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

    /// Whether the file has the size and the time that it had when it was read or saved last.
    pub fn is_untouched(&self) -> bool {
        self.storage.meta_at(&self.path).is_ok_and(|meta| meta.identity == self.layout.identity)
    }

    /// Whether the tree on disk is still the one that was read or saved last; reads it.
    pub fn is_current(&mut self) -> Result<bool> {
        let known = (self.layout.head_end, self.layout.head_md5);
        let layout = self.read_again().map_err(|error| error.of(&self.path))?;
        Ok(layout.is_none_or(|layout| (layout.head_end, layout.head_md5) == known))
    }

    /// Whether the bytes are still where the layout says, and what the tree's text is: the whole head.
    pub fn head(&self) -> Result<Vec<u8>> {
        let len = usize::try_from(self.layout.head_end).unwrap_or(usize::MAX);
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
    /// [`Kind::Busy`] if another program changed the tree meanwhile, [`Kind::Refused`] if the text would
    /// not be read as the head or can't get into the file safely, [`Kind::System`] if the system
    /// refuses. The file is then the old one. [`Kind::Unfinished`] if not even that could be had: the
    /// journal is kept, and a recovery settles it.
    pub fn save(&mut self, text: &[u8], options: &SaveOptions) -> Result<Saved> {
        self.save_among_readers(text, Md5::digest(text).into(), options, &mut || {})
    }

    /// The same while others read the file: `moving` is called before bytes behind the head change
    /// their place in the same file, and returns when nobody reads there until this has returned.
    /// `md5` is the text's.
    pub fn save_among_readers(
        &mut self,
        text: &[u8],
        md5: [u8; 16],
        options: &SaveOptions,
        moving: &mut dyn FnMut(),
    ) -> Result<Saved> {
        self.save_bytes(text, md5, options, moving).map_err(|error| error.of(&self.path))
    }

    fn save_bytes(
        &mut self,
        text: &[u8],
        md5: [u8; 16],
        options: &SaveOptions,
        moving: &mut dyn FnMut(),
    ) -> Result<Saved> {
        self.write_again()?;
        self.recover_again()?;
        let known = (self.layout.head_end, self.layout.head_md5);
        for _ in 0..ATTEMPTS {
            let saved = self.attempt(known, text, md5, options, moving);
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
        known: (u64, [u8; 16]),
        text: &[u8],
        md5: [u8; 16],
        options: &SaveOptions,
        moving: &mut dyn FnMut(),
    ) -> Result<Option<Saved>> {
        self.see_again(known)?;
        if known == (text.len() as u64, md5) {
            self.make_sure()?;
            return Ok(Some(Saved { plan: None, grew_by: 0, indexed: Indexed::Kept, fsyncs: 0 }));
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
        self.try_plans(&change, md5, options, moving)
    }

    /// Reads the layout if the file was changed; an error if the tree was.
    fn see_again(&mut self, known: (u64, [u8; 16])) -> Result<()> {
        if let Some(layout) = self.read_again()? {
            if (layout.head_end, layout.head_md5) != known {
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
        let mut left = self.places.iter().flat_map(|place| [&place.journal, &place.image]);
        if left.any(|left| is_left(&self.storage, left, &self.path)) {
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
        md5: [u8; 16],
        options: &SaveOptions,
        moving: &mut dyn FnMut(),
    ) -> Result<Option<Saved>> {
        let links = self.storage.meta(&self.file)?.links;
        let (storage, places) = (self.storage.clone(), self.places.clone());
        let (mut reasons, mut too_large) = (Vec::new(), false);
        let (path, file, refusals) = (&self.path, &self.file, &self.refusals);
        let (source, (syncs, left)) = (change.identity.into(), Default::default());
        let job = Job {
            storage: &storage,
            path,
            file,
            places: &places,
            change,
            source,
            refusals,
            leased: self.reads_only,
            syncs,
            left,
        };
        for plan in change.plans(links, options) {
            if matches!(plan, Plan::Insert | Plan::Rewrite) {
                moving();
            }
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
                    self.saved(change, md5)?;
                    if let Some(trouble) = trouble {
                        return Err(trouble);
                    }
                    let (grew_by, indexed) = (change.shift, change.indexed);
                    return Ok(Some(Saved { plan: Some(plan), grew_by, indexed, fsyncs }));
                }
                Err(Stopped::Unsuited(why)) => {
                    too_large |= why.errno() == libc::EFBIG;
                    reasons.push(format!("{}: {why}", plan.word()));
                }
                Err(Stopped::Overtaken) => return Ok(None),
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
    fn saved(&mut self, change: &Change<'_>, md5: [u8; 16]) -> Result<()> {
        let layout = &mut self.layout;
        layout.identity = self.storage.meta(&self.file)?.identity;
        layout.head_end = change.text.len() as u64;
        layout.head_md5 = md5;
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
        let named = self.storage.meta_at(&self.path).map_err(|error| {
            let gone = Error::new(Kind::Busy, "the file was removed or moved by another program");
            if error.kind() == io::ErrorKind::NotFound { gone } else { error.into() }
        })?;
        if !named.identity.same_file(&self.storage.meta(&self.file)?.identity) {
            // Another file has the name: that one is to be written, and to be locked.
            self.open_anew()?;
        }
        if self.storage.meta(&self.file)?.identity == self.layout.identity
            && head_md5(&self.storage, &self.file, self.layout.head_end)? == self.layout.head_md5
        {
            return Ok(None);
        }
        Layout::read(&self.storage, &self.file, &self.path).map(Some)
    }
}

/// Whether something lies at `left` that a save of `source` may have left there.
fn is_left<S: Storage>(storage: &S, left: &Path, source: &Path) -> bool {
    match (storage.meta_at(left), storage.meta_at(source)) {
        (Ok(left), Ok(source)) => !is_strangers(&left, &source),
        // What can't be looked at now may be there.
        _ => exists(storage, left).unwrap_or(true),
    }
}

fn conflict() -> Error {
    Error::new(Kind::Busy, "the tree was changed by another program since it was read")
}

fn places(path: &Path, state: Option<&Path>) -> Vec<Place> {
    let state = state.map(|state| Place::in_state(path, state));
    std::iter::once(Place::beside(path)).chain(state).collect()
}

fn canonical(path: &Path) -> Result<PathBuf> {
    path.canonicalize().map_err(|error| Error::from(error).of(path))
}
