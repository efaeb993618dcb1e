//! A mounted file, from the first stat of its path until another file is at that path.
//!
//! If the file is changed in place, or by a save of this mount, the [`MountedFile`] stays and the
//! file is parsed again: the next generation. If another program replaces the file, a new mounted
//! file takes over, with new serial numbers for everything that it shows. Handles of older
//! generations can be read to their end.
//!
//! A mounted file keeps nothing open by itself. Its generations are held by the handles that read them and by
//! [`OpenFiles`].
//!
//! [`Rank`] defines the order of the locks.

pub(crate) mod saving;
pub(crate) mod verification;

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use asdf_access::local::location::Location;
use asdf_access::local::stat::{FileKind, Stat};
use asdf_file::container::Container;
use seekable::content::Text;
use seekable::error::{self, Error, Result};
use seekable::source::{Source, SourceVersion};
use seekable::sync::{MutexGuard, Rank, RankedMutex, locked};

use crate::mounted::generation::bytes::{FileBytes, GenerationSource};
use crate::mounted::generation::{Generation, HeldGeneration, Parsed, Usage};
use crate::mounted::open_files::OpenFiles;
use crate::mounted::serials::Serials;
use crate::mounted::verify::{Checks, Verifier};
use crate::view::root::RootDir;
use crate::view::status::{Status, Writing};

/// Minimum time between two checks of a source for changes.
const REVALIDATE_AFTER: Duration = Duration::from_millis(200);
/// Minimum age of a change by another program before the file is parsed. Fewer files are then parsed while
/// they are being written, and the next change gets a different timestamp even if the file system's clock is
/// coarse.
const AT_REST: Duration = Duration::from_millis(10);
/// Maximum number of pauses to wait until a change has the age [`AT_REST`].
const PAUSES: usize = 3;
/// Maximum number of attempts to parse a file that another program is writing or replacing.
const ATTEMPTS: usize = 8;
/// Maximum number of different read errors that a file's status lists.
const MAX_ERRORS: usize = 64;

/// The mounted file that is at a location now.
#[derive(Debug)]
pub(crate) struct CurrentFile(RankedMutex<Option<Arc<MountedFile>>>);

impl Default for CurrentFile {
    fn default() -> Self {
        Self(RankedMutex::new(Rank::CurrentFile, None))
    }
}

impl CurrentFile {
    /// Returns the last known stat of the file, which may be gone.
    pub(crate) fn last_seen(&self) -> Option<Stat> {
        locked(&self.0).as_ref().map(|mounted| locked(&mounted.state).stat)
    }

    /// True if a generation of the file is open.
    pub(crate) fn is_parsed(&self) -> bool {
        locked(&self.0).as_ref().is_some_and(|mounted| locked(&mounted.state).opened.strong_count() > 0)
    }

    /// Returns the mounted file that is at `location` now.
    pub(crate) fn mounted(
        &self,
        location: &Location,
        serials: &Serials,
        open_files: &Arc<OpenFiles>,
    ) -> Result<Arc<MountedFile>> {
        let mut current = locked(&self.0);
        // The file may have its name back.
        if let Some(mounted) =
            current.as_ref().filter(|mounted| mounted.revalidate().attached || mounted.is_back())
        {
            return Ok(mounted.clone());
        }
        let stat = location.stat()?;
        if stat.kind != FileKind::File {
            return Err(rustix::io::Errno::STALE.into());
        }
        let mounted = Arc::new(MountedFile::new(serials.next()?, location.clone(), stat, open_files.clone()));
        *current = Some(mounted.clone());
        Ok(mounted)
    }

    /// Returns the mounted file that is at `location` now, and its newest generation, also while other programs
    /// keep replacing the file.
    pub(crate) fn newest(
        &self,
        location: &Location,
        serials: &Serials,
        open_files: &Arc<OpenFiles>,
    ) -> Result<(Arc<MountedFile>, HeldGeneration)> {
        let mut attempts = 0..ATTEMPTS;
        loop {
            let mounted = self.mounted(location, serials, open_files)?;
            match mounted.newest() {
                // Another file has just taken the name.
                Err(_) if !mounted.is_attached() && attempts.next().is_some() => {}
                newest => return newest.map(|held| (mounted, held)),
            }
        }
    }
}

/// A file that the mount shows as a directory, until another file is at its path.
#[derive(Debug)]
pub(crate) struct MountedFile {
    pub(crate) serial: u64,
    pub(crate) location: Location,
    open_files: Arc<OpenFiles>,
    state: RankedMutex<MountedState>,
    /// Lock that is held while the file is parsed, and during a save.
    parsing: RankedMutex<()>,
    errors: Mutex<Vec<String>>,
}

#[derive(Debug)]
struct MountedState {
    /// Time of the last check of the source; `None` if a change may have been missed.
    checked_at: Option<Instant>,
    stat: Stat,
    attached: bool,
    /// Numbers of the newest parsed generation, as in [`Parsed`].
    generation: u64,
    outside_changes: u64,
    lineage: u64,
    /// Version of the file after the last save of this mount.
    self_saved: Option<SourceVersion>,
    /// Generation that a save is replacing. While this is set, the source is not checked for changes.
    saving: Option<Arc<Generation>>,
    parsed: Option<SourceVersion>,
    /// Newest generation, and the open file that it reads.
    opened: Weak<Generation>,
    bytes: Weak<FileBytes>,
    /// Number of saves by this mount. A quick save may leave the file's size and time unchanged.
    saves: u64,
    /// True if a save on a network file system failed with EBUSY: another client may have replaced the file.
    /// The kernel may still have the size and time of the old file.
    is_unknown: bool,
}

/// The result of checking the source for changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Revalidated {
    pub(crate) stat: Stat,
    /// True if the file still has its name. Otherwise only open generations can be read.
    pub(crate) attached: bool,
}

impl MountedFile {
    fn new(serial: u64, location: Location, stat: Stat, open_files: Arc<OpenFiles>) -> Self {
        let state = MountedState {
            checked_at: Some(Instant::now()),
            stat,
            attached: true,
            generation: 0,
            outside_changes: 0,
            lineage: 0,
            self_saved: None,
            saving: None,
            parsed: None,
            opened: Weak::new(),
            bytes: Weak::new(),
            saves: 0,
            is_unknown: false,
        };
        Self {
            serial,
            location,
            open_files,
            state: RankedMutex::new(Rank::MountedFile, state),
            parsing: RankedMutex::new(Rank::Parsing, ()),
            errors: Mutex::default(),
        }
    }

    /// Checks the source for changes, unless the last check is younger than [`REVALIDATE_AFTER`].
    pub(crate) fn revalidate(&self) -> Revalidated {
        self.revalidate_after(REVALIDATE_AFTER)
    }

    /// True if the file still had its name when the source was last checked.
    pub(crate) fn is_attached(&self) -> bool {
        locked(&self.state).attached
    }

    /// Checks the source for changes.
    pub(crate) fn revalidate_now(&self) -> Revalidated {
        self.revalidate_after(Duration::ZERO)
    }

    /// Checks the source for changes, unless the last check is younger than `age`.
    fn revalidate_after(&self, age: Duration) -> Revalidated {
        let mut state = locked(&self.state);
        if state.saving.is_none() && state.checked_at.is_none_or(|at| at.elapsed() >= age) {
            state.checked_at = Some(Instant::now());
            let found = if self.location.changes_in_place() {
                self.location.stat()
            } else {
                // The lock is released, so that other threads do not wait for the server.
                drop(state);
                let found = self.location.stat();
                state = locked(&self.state);
                found
            };
            match found {
                Ok(stat) if same_life(&state.stat, &stat) => {
                    state.stat = stat;
                    state.attached = true;
                }
                Err(error) if !self.location.is_gone(&error) => {}
                _ => self.detach(&mut state),
            }
        }
        Revalidated { stat: state.stat, attached: state.attached }
    }

    /// True if the local file has its name back. Nobody can save it meanwhile.
    fn is_back(&self) -> bool {
        self.location.changes_in_place() && self.revalidate_now().attached
    }

    /// Returns the current generation; `None` if the file must be parsed first, or a save must end first. If
    /// the file no longer has its name, returns the generation that is still open.
    pub(crate) fn parsed(&self) -> Result<Option<HeldGeneration>> {
        let state = locked(&self.state);
        if let Some(saving) = &state.saving {
            let held = saving.hold();
            drop(state);
            return Ok(Some(held).filter(|held| held.source.is_complete()));
        }
        let live = state.opened.upgrade();
        if !state.attached {
            let held = live.map(|live| live.hold());
            return held.map(Some).ok_or_else(|| rustix::io::Errno::STALE.into());
        }
        // A half-saved file may have been recovered, or the user has removed its journal.
        let is_now = |opened: &Arc<Generation>| {
            opened.version == state.stat.source.version
                && opened.saves == state.saves
                && !opened.is_half_saved()
        };
        let now = live.filter(is_now);
        drop(state);
        if let Some(opened) = &now {
            self.open_files.keep(self.serial, opened);
        }
        Ok(now.map(|now| now.hold()))
    }

    /// Returns the current generation. If the file no longer has its name, returns
    /// the one that is still open.
    pub(crate) fn opened(&self) -> Result<HeldGeneration> {
        match self.parsed()? {
            Some(opened) => Ok(opened),
            None => self.parse(&locked(&self.parsing)),
        }
    }

    /// Returns the generation of the file at this moment, regardless of when the source was last checked. If another
    /// program changed the file just before a save of this mount, waits for the end of the save.
    ///
    /// # Errors
    /// The file can't be read. ESTALE if another program changed it, and then replaced it.
    pub(crate) fn newest(&self) -> Result<HeldGeneration> {
        self.revalidate();
        let opened = self.opened()?;
        if !opened.is_stale() {
            return Ok(opened);
        }
        // The file is not parsed while a save goes on.
        drop(locked(&self.parsing));
        let is_attached = self.revalidate_now().attached;
        let opened = self.opened()?;
        if !is_attached && opened.is_stale() {
            return Err(rustix::io::Errno::STALE.into());
        }
        Ok(opened)
    }

    /// Parses the file, unless another thread has just done so. Meanwhile the source can be checked for
    /// changes, but no save can begin.
    fn parse(&self, _parsing: &MutexGuard<'_, ()>) -> Result<HeldGeneration> {
        if let Some(opened) = self.parsed()? {
            return Ok(opened);
        }
        let older = locked(&self.state).opened.upgrade();
        let Read { bytes, source, usage, container } = self.read_now()?;
        let now =
            container.as_ref().map_or_else(|_| source.stat(), |container| Ok(container.source_stat()))?;
        let version = now.version;
        let (self_saved, is_unknown) = {
            let mut state = locked(&self.state);
            (state.self_saved, std::mem::take(&mut state.is_unknown))
        };
        // If the file is not local, another version of it counts as another file.
        let may_carry_over =
            |older: &Generation| self.location.changes_in_place() || older.version == version;
        let is_older_there = || {
            self_saved == Some(version)
                || older.as_ref().is_some_and(|older| may_carry_over(older) && !older.is_stale())
        };
        let carries_over = !is_unknown && is_older_there();
        if let (true, Some(older), Ok(container)) = (carries_over, &older, &container)
            && let Ok(older) = &older.container
        {
            container.carry_over_from(&**older);
        }
        let mut state = locked(&self.state);
        if is_unknown || state.parsed.is_some_and(|parsed| parsed != version) {
            state.generation += 1;
            state.outside_changes += u64::from(is_unknown || state.self_saved != Some(version));
            state.lineage += u64::from(!carries_over);
        }
        state.parsed = Some(version);
        if self.location.changes_in_place() && state.stat.source.version != version {
            // A check during the parsing may have seen a newer version, which is no longer known then.
            state.checked_at = None;
        }
        state.stat.source = now;
        let MountedState { generation: number, saves, outside_changes, lineage, .. } = *state;
        let checks = Checks::default();
        let parsed = Parsed {
            file: self.serial,
            version,
            number,
            saves,
            outside_changes,
            lineage,
            container,
            checks,
            source,
            usage,
            page: Arc::default(),
        };
        let opened = Arc::new(Generation::new(parsed));
        state.opened = Arc::downgrade(&opened);
        state.bytes = Arc::downgrade(&bytes);
        let attached = state.attached;
        drop(state);
        if attached {
            self.open_files.keep(self.serial, &opened);
        }
        if let Err(error) = &opened.container {
            self.report(error);
        }
        Ok(opened.hold())
    }

    /// Opens and parses the file in its current state.
    fn read_now(&self) -> Result<Read> {
        // A half-saved file shows only its status.
        let half_saved = match self.location.recover(&self.open_files.recovery) {
            Err(error) if error.kind() == error::Kind::Unfinished => Some(error),
            outcome => outcome.map(|()| None)?,
        };
        let mut attempts = 0..ATTEMPTS;
        loop {
            self.await_rest();
            let bytes = self.open_bytes()?;
            let usage = Arc::<Usage>::default();
            let source = bytes.generation(usage.clone())?;
            let open = || (self.open_files.opener)(source.clone());
            let container = half_saved.clone().map_or_else(open, Err);
            if let Ok(container) = &container {
                if source.is_live() {
                    container.expect_growth();
                }
                source.note_parsed(container);
            }
            attempts.next();
            // Another program may have written to the file meanwhile.
            let has_failed = container.as_ref().is_err_and(|error| error.kind() == error::Kind::Changed);
            let is_changed = has_failed || !source.is_whole();
            match container {
                // A shortage of memory or descriptors is no property of the file.
                Err(error) if matches!(error.kind(), error::Kind::System(_)) => return Err(error),
                _ if is_changed && !attempts.is_empty() => {}
                Err(error) if error.kind() == error::Kind::Changed => return Err(error),
                container => return Ok(Read { bytes, source, usage, container }),
            }
        }
    }

    /// Waits a moment if another program has just changed the file.
    fn await_rest(&self) {
        let pauses = if self.location.changes_in_place() { PAUSES } else { 0 };
        for _ in 0..pauses {
            let Ok(stat) = self.location.stat() else { return };
            let (seconds, nanoseconds) = stat.source.version.last_change().unwrap_or(stat.source.mtime);
            let changed = u64::try_from(seconds).ok().map(|seconds| Duration::new(seconds, nanoseconds));
            let age = SystemTime::now().duration_since(UNIX_EPOCH).ok().zip(changed);
            let pause = age.and_then(|(now, changed)| AT_REST.checked_sub(now.checked_sub(changed)?));
            match pause.filter(|_| locked(&self.state).self_saved != Some(stat.source.version)) {
                Some(pause) => std::thread::sleep(pause),
                None => return,
            }
        }
    }

    /// Returns the open file at the location: the one that an older generation reads, or a newly opened one.
    fn open_bytes(&self) -> Result<Arc<FileBytes>> {
        let source = self.location.open()?;
        let version = source.stat()?.version;
        let mut state = locked(&self.state);
        if !version.same_file(&state.stat.source.version) {
            self.detach(&mut state);
            return Err(rustix::io::Errno::STALE.into());
        }
        let known = state.bytes.upgrade();
        drop(state);
        let carries_over = |known: &Arc<FileBytes>| self.location.changes_in_place() && known.is(&version);
        Ok(known.filter(carries_over).unwrap_or_else(|| FileBytes::new(source, self.location.clone())))
    }

    /// True if another program has changed the file since the snapshot, other than by appending. For a file
    /// that is not local, the location is asked for the current version, because the version of an open file
    /// never changes.
    pub(crate) fn has_stale(&self, held: &HeldGeneration) -> bool {
        let is_replaced =
            || !self.location.changes_in_place() && self.revalidate().stat.source.version != held.version;
        held.is_stale() || is_replaced()
    }

    /// True if the permissions allow this process to write the file.
    pub(crate) fn may_be_written(&self) -> bool {
        self.location.may_write().unwrap_or(false)
    }

    /// Returns the message for changes of a file that was parsed, and whose format is read-only.
    pub(crate) fn unchangeable(&self) -> Option<String> {
        let opened = self.parsed().ok().flatten()?;
        let container = opened.container().ok().filter(|container| !container.is_editable())?;
        Some(container.unchangeable())
    }

    /// Records a read error in the log and the status. Returns true if it is new.
    pub(crate) fn report(&self, error: &Error) -> bool {
        let logged = error.to_string();
        let mut errors = locked(&self.errors);
        let is_new = errors.len() < MAX_ERRORS && !errors.contains(&logged);
        if is_new {
            tracing::warn!("{logged}");
            errors.push(logged);
        }
        is_new
    }

    /// Returns the directory of a generation of the file; `writing` returns how the file can be written.
    pub(crate) fn root(
        self: &Arc<Self>,
        held: &HeldGeneration,
        writing: impl Fn() -> Writing + Send + Sync + 'static,
    ) -> RootDir {
        let container = held.container.as_ref().ok().cloned();
        let mounted = self.clone();
        let shown = held.clone();
        let status = Arc::new(move || mounted.status(&shown, &writing()));
        let checked = held.clone();
        let known = Arc::new(move |n| checked.checks.known(n));
        let mut root = RootDir::new(container, status, known)
            .showing(self.open_files.shown.clone())
            .with_page(held.page.clone());
        if self.location.statistics().is_some() {
            let location = self.location.clone();
            root =
                root.with_statistics(Arc::new(move || Text::new(location.statistics().unwrap_or_default())));
        }
        // A file elsewhere is never saved.
        let is_local = matches!(self.location, Location::Local(_));
        let Some(history) = self.open_files.history.clone().filter(|_| is_local) else { return root };
        let location = self.location.clone();
        root.with_history(history, Arc::new(move || location.save_target()))
    }

    fn status(&self, opened: &Parsed, writing: &Writing) -> Text {
        let errors = locked(&self.errors).clone();
        let container = opened.container.as_ref().map(|container| &**container);
        let status = Status::new(&self.location.label(), opened.number, &errors, writing);
        Text::new(status.with_container(container).text())
    }

    pub(crate) fn verifier(&self) -> &Verifier {
        &self.open_files.verifier
    }

    /// Reports that block `n` is damaged.
    pub(crate) fn report_wrong(&self, n: usize) {
        (self.open_files.on_wrong)(self.serial, n);
    }

    /// Records that the file no longer has its name. From now on only its handles keep it open.
    fn detach(&self, state: &mut MountedState) {
        state.attached = false;
        state.saving = None;
        self.open_files.let_go(self.serial);
    }
}

/// An open file with its parsed container.
#[derive(Debug)]
struct Read {
    bytes: Arc<FileBytes>,
    source: Arc<GenerationSource>,
    usage: Arc<Usage>,
    container: Result<Arc<dyn Container>>,
}

fn same_life(old: &Stat, new: &Stat) -> bool {
    new.kind == FileKind::File && old.source.version.same_file(&new.source.version)
}
