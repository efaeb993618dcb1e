//! The mounted file behind a folder, from the first look at it until another file takes its name.
//!
//! When the file is written in place, the [`MountedFile`] stays and is parsed anew: the next generation. When
//! the file is replaced, the folder goes on with a new mounted file, with new serial numbers for all that it
//! shows. What programs have open of the old one can be read to its end.
//!
//! A mounted file keeps nothing open by itself. The handles that read it and the [`OpenFiles`] hold what was
//! parsed.

mod verification;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::{Duration, Instant};

use crate::content::Text;
use crate::error::{self, Error, Result};
use crate::folder::open_files::OpenFiles;
use crate::folder::serials::Serials;
use crate::folder::snapshot::{Parsed, Revision, Snapshot};
use crate::folder::verify::{Checks, Verifier};
use crate::host::location::Location;
use crate::host::stat::{Kind, Stat};
use crate::source::{RelocationLock, SourceVersion};
use crate::sync::locked;
use crate::view;
use crate::view::root::Root;
use crate::view::status::Writing;

/// A source is looked at again no more often than this.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// Different troubles of a file that its status lists.
const TROUBLES: usize = 64;

/// The mounted file behind a folder, at present.
#[derive(Debug, Default)]
pub(crate) struct CurrentFile(Mutex<Option<Arc<MountedFile>>>);

impl CurrentFile {
    /// What was last seen of the file, which may be gone.
    pub(crate) fn last_seen(&self) -> Option<Stat> {
        locked(&self.0).as_ref().map(|mounted| locked(&mounted.state).stat)
    }

    /// The mounted file that lies at `location` now.
    pub(crate) fn mounted(
        &self,
        location: &Location,
        serials: &Serials,
        open_files: &Arc<OpenFiles>,
    ) -> Result<Arc<MountedFile>> {
        let mut current = locked(&self.0);
        if let Some(mounted) = current.as_ref().filter(|mounted| mounted.look().attached) {
            return Ok(mounted.clone());
        }
        let stat = location.stat()?;
        if stat.kind != Kind::File {
            return Err(rustix::io::Errno::STALE.into());
        }
        if let Some(mounted) = current.as_ref().filter(|mounted| mounted.is(&stat)) {
            return Ok(mounted.clone());
        }
        let mounted = Arc::new(MountedFile::new(serials.next()?, location.clone(), stat, open_files.clone()));
        *current = Some(mounted.clone());
        Ok(mounted)
    }
}

/// The file behind a folder, until another one takes its name.
#[derive(Debug)]
pub(crate) struct MountedFile {
    pub(crate) serial: u64,
    location: Location,
    open_files: Arc<OpenFiles>,
    state: Mutex<State>,
    /// Held while the file is parsed, and when a save begins.
    parsing: Mutex<()>,
    troubles: Mutex<Vec<String>>,
    pub(crate) checks: Checks,
    /// Held by readers of the source, and for writing while a save relocates its bytes.
    relocation_lock: RelocationLock,
}

#[derive(Debug)]
struct State {
    looked: Instant,
    stat: Stat,
    attached: bool,
    /// Of the newest parse.
    generation: u64,
    base_version: u64,
    lineage: u64,
    /// The version after the last save made here.
    own: Option<SourceVersion>,
    /// What is parsed, while a save is made: no thread looks at the source then.
    saving: Option<Arc<Snapshot>>,
    parsed: Option<SourceVersion>,
    opened: Weak<Snapshot>,
    /// Saves made here: one may leave size and time of the file as they were, if it is quick.
    saves: u64,
    /// Whether the last save could be neither finished nor undone.
    unsettled: bool,
}

/// What a look at the source found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) stat: Stat,
    /// Whether the file still lies where it did; else only what is open of it can be read.
    pub(crate) attached: bool,
    pub(crate) saves: u64,
}

impl MountedFile {
    fn new(serial: u64, location: Location, stat: Stat, open_files: Arc<OpenFiles>) -> Self {
        let state = State {
            looked: Instant::now(),
            stat,
            attached: true,
            generation: 0,
            base_version: 0,
            lineage: 0,
            own: None,
            saving: None,
            parsed: None,
            opened: Weak::new(),
            saves: 0,
            unsettled: false,
        };
        Self {
            serial,
            location,
            open_files,
            state: Mutex::new(state),
            parsing: Mutex::default(),
            troubles: Mutex::default(),
            checks: Checks::default(),
            relocation_lock: RelocationLock::default(),
        }
    }

    /// Looks at the source, unless that was done a moment ago.
    pub(crate) fn look(&self) -> Look {
        let mut state = locked(&self.state);
        if state.saving.is_none() && state.looked.elapsed() >= LOOK_AGAIN {
            state.looked = Instant::now();
            match self.location.stat() {
                Ok(stat) if same_life(&state.stat, &stat) => {
                    state.stat = stat;
                    state.attached = true;
                }
                _ => self.detach(&mut state),
            }
        }
        Look { stat: state.stat, attached: state.attached, saves: state.saves }
    }

    /// Takes a stat of the name; whether it is this file.
    fn is(&self, stat: &Stat) -> bool {
        let mut state = locked(&self.state);
        if state.saving.is_some() {
            return true;
        }
        if same_life(&state.stat, stat) {
            state.stat = *stat;
            state.attached = true;
            state.looked = Instant::now();
            return true;
        }
        self.detach(&mut state);
        false
    }

    /// What is parsed of the file as it is now; `None` if it has to be parsed. Of a file that lies there no more, what
    /// is still open.
    pub(crate) fn parsed(&self) -> Result<Option<Arc<Snapshot>>> {
        let state = locked(&self.state);
        if let Some(opened) = &state.saving {
            return Ok(Some(opened.clone()));
        }
        if state.unsettled {
            return Err(Error::new(
                error::Kind::Unfinished,
                "a save could be neither finished nor undone: save again, or unmount and use asdf-mount --recover",
            )
            .of(self.location.label()));
        }
        let live = state.opened.upgrade();
        if !state.attached {
            return live.map(Some).ok_or_else(|| rustix::io::Errno::STALE.into());
        }
        let is_now = |opened: &Arc<Snapshot>| {
            opened.version == state.stat.source.version && opened.saves == state.saves
        };
        let now = live.filter(is_now);
        drop(state);
        now.iter().for_each(|opened| self.open_files.keep(self.serial, opened));
        Ok(now)
    }

    /// The file parsed as it is now; of one that lies there no more, what is still open.
    pub(crate) fn opened(&self) -> Result<Arc<Snapshot>> {
        match self.parsed()? {
            Some(opened) => Ok(opened),
            None => self.parse(&locked(&self.parsing)),
        }
    }

    /// Parses the file, unless another thread did so just before. Looks at the file go on meanwhile, but no save
    /// begins.
    fn parse(&self, _parsing: &MutexGuard<'_, ()>) -> Result<Arc<Snapshot>> {
        if let Some(opened) = self.parsed()? {
            return Ok(opened);
        }
        let older = locked(&self.state).opened.upgrade();
        if let Err(error) = self.location.settle(&self.open_files.recovery) {
            if error.kind() == error::Kind::Unfinished {
                self.trouble(&error);
            }
            return Err(error);
        }
        let source = self.location.open(Some(&self.relocation_lock))?;
        let now = source.stat()?;
        let mut state = locked(&self.state);
        if !now.version.same_file(&state.stat.source.version) {
            self.detach(&mut state);
            return Err(rustix::io::Errno::STALE.into());
        }
        drop(state);
        let container = match (self.open_files.opener)(source) {
            // Lack of memory or descriptors is no property of the file.
            Err(error) if matches!(error.kind(), error::Kind::System(_)) => return Err(error),
            container => container,
        };
        let now = container.as_ref().map_or(now, |container| container.source_stat());
        let version = now.version;
        let mut state = locked(&self.state);
        if state.parsed.is_some_and(|parsed| parsed != version) {
            state.generation += 1;
            state.base_version += u64::from(state.own != Some(version));
            let older = older.as_ref().and_then(|older| older.container.as_deref().ok());
            let is_other = container.as_ref().is_ok_and(|container| !container.goes_on_from(older));
            state.lineage += u64::from(is_other);
        }
        state.parsed = Some(version);
        state.stat.source = now;
        let State { generation, saves, base_version, lineage, .. } = *state;
        let parsed = Parsed { version, generation, saves, base_version, lineage, container };
        let opened = Arc::new(Snapshot::new(parsed));
        state.opened = Arc::downgrade(&opened);
        let attached = state.attached;
        drop(state);
        if attached {
            self.open_files.keep(self.serial, &opened);
        }
        if let Err(error) = &opened.container {
            self.trouble(error);
        }
        Ok(opened)
    }

    /// Begins a save: what is parsed now is what is read until it ends.
    pub(crate) fn begin_save(&self) -> Result<Arc<Snapshot>> {
        let parsing = locked(&self.parsing);
        let opened = self.parse(&parsing)?;
        locked(&self.state).saving = Some(opened.clone());
        Ok(opened)
    }

    /// Ends a save: the file that has the name now is still this one, whatever its number, if the save
    /// left it there (`own`). Returns its version. One that is half the old file and half the new one
    /// (`unsettled`) is not read until it is settled.
    pub(crate) fn end_save(&self, own: bool, unsettled: bool) -> Result<SourceVersion> {
        let stat = self.location.stat();
        let mut state = locked(&self.state);
        state.saves += 1;
        state.unsettled = unsettled;
        let ended = state.saving.take();
        state.looked = Instant::now();
        match stat {
            Ok(stat) if !own && same_life(&state.stat, &stat) => {
                state.stat = stat;
                Ok(stat.source.version)
            }
            Ok(_) if !own => {
                self.detach(&mut state);
                Err(rustix::io::Errno::STALE.into())
            }
            Ok(stat) if stat.kind == Kind::File => {
                state.attached = true;
                state.own = Some(stat.source.version);
                state.stat = stat;
                drop(state);
                drop(ended); // closes a file, which is done after the lock was let go
                Ok(stat.source.version)
            }
            found => {
                self.detach(&mut state);
                found.map_or_else(Err, |_| Err(rustix::io::Errno::STALE.into()))
            }
        }
    }

    /// Whether a save left the file halfway.
    pub(crate) fn is_unsettled(&self) -> bool {
        locked(&self.state).unsettled
    }

    /// Notes that the file is one again, by what this program did to it.
    pub(crate) fn settled(&self) {
        // The file may be any of its versions now: it is looked at as after a save.
        let _ = self.end_save(true, false);
    }

    /// Keeps bytes of the source where they are for as long as the answer is held.
    pub(crate) fn hold_still(&self) -> RwLockReadGuard<'_, ()> {
        self.relocation_lock.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, unless that had to be waited for.
    pub(crate) fn is_still(&self) -> Option<RwLockReadGuard<'_, ()>> {
        self.relocation_lock.try_read().ok()
    }

    /// Waits until no thread reads the source, and blocks readers while the answer is held.
    pub(crate) fn hold_off(&self) -> RwLockWriteGuard<'_, ()> {
        self.relocation_lock.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this process may write the file, as far as permissions go.
    pub(crate) fn may_be_written(&self) -> bool {
        self.location.may_write().unwrap_or(false)
    }

    /// Whether the file was parsed, and is of a format that can't be changed.
    pub(crate) fn is_unchangeable(&self) -> bool {
        let opened = self.parsed().ok().flatten();
        opened.is_some_and(|opened| opened.container().is_ok_and(|container| container.editor().is_none()))
    }

    /// Notes what went wrong while reading, for the log and the status; whether it is new.
    pub(crate) fn trouble(&self, error: &Error) -> bool {
        let told = error.to_string();
        let mut troubles = locked(&self.troubles);
        let is_new = troubles.len() < TROUBLES && !troubles.contains(&told);
        if is_new {
            tracing::warn!("{told}");
            troubles.push(told);
        }
        is_new
    }

    /// The folder of the file, as it was parsed; `writing` says how it is written.
    pub(crate) fn root(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        writing: impl Fn() -> Writing + Send + Sync + 'static,
    ) -> Root {
        let container = snapshot.container.as_ref().ok().cloned();
        let (mounted, opened) = (self.clone(), snapshot.clone());
        let status = Arc::new(move || mounted.status(&opened, &writing()));
        let (mounted, revision) = (self.clone(), snapshot.revision());
        let known = Arc::new(move |n| mounted.checks.known(revision, n));
        Root::new(container, status, known, self.open_files.shown.clone())
    }

    fn status(&self, opened: &Snapshot, writing: &Writing) -> Text {
        let troubles = locked(&self.troubles).clone();
        let container = opened.container.as_ref().map(|container| &**container);
        Text::new(view::status::text(
            &self.location.label(),
            container,
            opened.generation,
            &troubles,
            writing,
        ))
    }

    pub(crate) fn verifier(&self) -> &Verifier {
        &self.open_files.verifier
    }

    /// The newest revision.
    pub(crate) fn revision(&self) -> Revision {
        let state = locked(&self.state);
        (state.generation, state.saves)
    }

    /// The newest generation.
    pub(crate) fn generation(&self) -> u64 {
        locked(&self.state).generation
    }

    /// Says that block `n` was found wrong.
    pub(crate) fn report_wrong(&self, n: usize) {
        (self.open_files.on_wrong)(self.serial, n);
    }

    /// The file lies at its name no more: only its handles keep it, and its size is asked of them.
    fn detach(&self, state: &mut State) {
        state.attached = false;
        state.saving = None;
        self.open_files.let_go(self.serial);
        if let Some(opened) = state.opened.upgrade()
            && let Ok(container) = &opened.container
            && let Ok(now) = container.source().stat()
        {
            state.stat.source = now;
        }
    }
}

fn same_life(old: &Stat, new: &Stat) -> bool {
    new.kind == Kind::File && old.source.version.same_file(&new.source.version)
}
