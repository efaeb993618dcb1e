//! The mounted file behind a folder, from the first look at it until another file takes its name.
//!
//! When the file is written in place, or by a save made here, the [`MountedFile`] stays and is parsed anew: the next
//! generation. When another program replaces the file, the folder goes on with a new mounted file, with new serial
//! numbers for all that it shows. Handles of older generations can be read to their end.
//!
//! A mounted file keeps nothing open by itself. The handles that read it and the [`OpenFiles`] hold its generations.
//!
//! The order of the locks stands in [`Rank`].

mod saving;
pub(crate) mod verification;

use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::content::Text;
use crate::error::{self, Error, Result};
use crate::folder::generation::bytes::{FileBytes, GenerationSource};
use crate::folder::generation::{Generation, Held, Parsed, Usage};
use crate::folder::open_files::OpenFiles;
use crate::folder::serials::Serials;
use crate::folder::verify::{Checks, Verifier};
use crate::format::Container;
use crate::host::location::Location;
use crate::host::stat::{Kind, Stat};
use crate::source::{Source, SourceVersion};
use crate::sync::{Rank, Ranked, RankedMutex, locked};
use crate::view;
use crate::view::root::Root;
use crate::view::status::Writing;

/// A source is looked at again no more often than this.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// A file that another program has changed is parsed when the change is this old, so that fewer files are met while they
/// are written, and the next change gets another time where the clock of the file system is coarse.
const AT_REST: Duration = Duration::from_millis(10);
/// Pauses for that, at most.
const PAUSES: usize = 3;
/// Attempts at parsing a file that another program is writing.
const ATTEMPTS: usize = 8;
/// Different troubles of a file that its status lists.
const TROUBLES: usize = 64;

/// The mounted file behind a folder, at present.
#[derive(Debug)]
pub(crate) struct CurrentFile(RankedMutex<Option<Arc<MountedFile>>>);

impl Default for CurrentFile {
    fn default() -> Self {
        Self(RankedMutex::new(Rank::CurrentFile, None))
    }
}

impl CurrentFile {
    /// What was last seen of the file, which may be gone.
    pub(crate) fn last_seen(&self) -> Option<Stat> {
        locked(&self.0).as_ref().map(|mounted| locked(&mounted.state).stat)
    }

    /// True if a generation of the file is open.
    pub(crate) fn is_parsed(&self) -> bool {
        locked(&self.0).as_ref().is_some_and(|mounted| locked(&mounted.state).opened.strong_count() > 0)
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
    state: RankedMutex<MountedState>,
    /// Held while the file is parsed, and when a save begins.
    parsing: RankedMutex<()>,
    troubles: Mutex<Vec<String>>,
}

#[derive(Debug)]
struct MountedState {
    looked: Instant,
    stat: Stat,
    attached: bool,
    /// Of the newest parse.
    generation: u64,
    base_version: u64,
    lineage: u64,
    /// The version after the last save made here.
    own: Option<SourceVersion>,
    /// The generation that a save is replacing: no thread looks at the source then.
    saving: Option<Arc<Generation>>,
    parsed: Option<SourceVersion>,
    /// The newest generation, and the open file that it reads.
    opened: Weak<Generation>,
    bytes: Weak<FileBytes>,
    /// Saves made here: one may leave size and time of the file as they were, if it is quick.
    saves: u64,
    /// Whether the last save could be neither finished nor undone.
    unsettled: bool,
    /// True if a save found another file on a server: the kernel may not know its size and time yet.
    is_unknown: bool,
}

/// What a look at the source found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) stat: Stat,
    /// True if the file still lies where it did; else only what is open of it can be read.
    pub(crate) attached: bool,
}

impl MountedFile {
    fn new(serial: u64, location: Location, stat: Stat, open_files: Arc<OpenFiles>) -> Self {
        let state = MountedState {
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
            bytes: Weak::new(),
            saves: 0,
            unsettled: false,
            is_unknown: false,
        };
        Self {
            serial,
            location,
            open_files,
            state: RankedMutex::new(Rank::MountedFile, state),
            parsing: RankedMutex::new(Rank::Parsing, ()),
            troubles: Mutex::default(),
        }
    }

    /// Looks at the source, unless that was done a moment ago.
    pub(crate) fn look(&self) -> Look {
        self.look_after(LOOK_AGAIN)
    }

    /// Looks at the source.
    pub(crate) fn look_now(&self) -> Look {
        self.look_after(Duration::ZERO)
    }

    /// Looks at the source, unless the last look is younger than `age`.
    fn look_after(&self, age: Duration) -> Look {
        let mut state = locked(&self.state);
        if state.saving.is_none() && state.looked.elapsed() >= age {
            state.looked = Instant::now();
            match self.location.stat() {
                Ok(stat) if same_life(&state.stat, &stat) => {
                    state.stat = stat;
                    state.attached = true;
                }
                _ => self.detach(&mut state),
            }
        }
        Look { stat: state.stat, attached: state.attached }
    }

    /// Updates the stat; true if it is still this file.
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

    /// The generation of the file as it is now; `None` if it has to be parsed, or a save has to end first. Of a file that
    /// lies there no more, the one that is still open.
    pub(crate) fn parsed(&self) -> Result<Option<Held>> {
        let state = locked(&self.state);
        if let Some(saving) = &state.saving {
            let held = saving.hold();
            drop(state);
            return Ok(Some(held).filter(|held| held.source.is_complete()));
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
            let held = live.map(|live| live.hold());
            return held.map(Some).ok_or_else(|| rustix::io::Errno::STALE.into());
        }
        let is_now = |opened: &Arc<Generation>| {
            opened.version == state.stat.source.version && opened.saves == state.saves
        };
        let now = live.filter(is_now);
        drop(state);
        now.iter().for_each(|opened| self.open_files.keep(self.serial, opened));
        Ok(now.map(|now| now.hold()))
    }

    /// The generation of the file as it is now; of one that lies there no more, the one that is still open.
    pub(crate) fn opened(&self) -> Result<Held> {
        match self.parsed()? {
            Some(opened) => Ok(opened),
            None => self.parse(&locked(&self.parsing)),
        }
    }

    /// The generation of the file as it is at this moment, whenever it was last looked at.
    pub(crate) fn newest(&self) -> Result<Held> {
        self.look();
        let opened = self.opened()?;
        if !opened.is_outlived() {
            return Ok(opened);
        }
        self.look_now();
        self.opened()
    }

    /// Parses the file, unless another thread did so just before. Looks at the file go on meanwhile, but no save
    /// begins.
    fn parse(&self, _parsing: &Ranked<MutexGuard<'_, ()>>) -> Result<Held> {
        if let Some(opened) = self.parsed()? {
            return Ok(opened);
        }
        let older = locked(&self.state).opened.upgrade();
        let Read { bytes, source, usage, container } = self.read_now()?;
        let now =
            container.as_ref().map_or_else(|_| source.stat(), |container| Ok(container.source_stat()))?;
        let version = now.version;
        let (own, is_unknown) = {
            let mut state = locked(&self.state);
            (state.own, std::mem::take(&mut state.is_unknown))
        };
        let is_older_there =
            || own == Some(version) || older.as_ref().is_some_and(|older| !older.is_outlived());
        let goes_on = !is_unknown && is_older_there();
        if let (true, Some(older), Ok(container)) = (goes_on, &older, &container)
            && let Ok(older) = &older.container
        {
            container.go_on_from(&**older);
        }
        let mut state = locked(&self.state);
        if is_unknown || state.parsed.is_some_and(|parsed| parsed != version) {
            state.generation += 1;
            state.base_version += u64::from(is_unknown || state.own != Some(version));
            state.lineage += u64::from(!goes_on);
        }
        state.parsed = Some(version);
        state.stat.source = now;
        let MountedState { generation: number, saves, base_version, lineage, .. } = *state;
        let checks = Checks::default();
        let parsed =
            Parsed { version, number, saves, base_version, lineage, container, checks, source, usage };
        let opened = Arc::new(Generation::new(parsed));
        state.opened = Arc::downgrade(&opened);
        state.bytes = Arc::downgrade(&bytes);
        let attached = state.attached;
        drop(state);
        if attached {
            self.open_files.keep(self.serial, &opened);
        }
        if let Err(error) = &opened.container {
            self.trouble(error);
        }
        Ok(opened.hold())
    }

    /// Opens and parses the file, in the state in which it is now.
    fn read_now(&self) -> Result<Read> {
        // A half-saved file shows its status and nothing else.
        let half_saved = match self.location.settle(&self.open_files.recovery) {
            Err(error) if error.kind() == error::Kind::Unfinished => Some(error),
            settled => settled.map(|()| None)?,
        };
        let mut attempts = 0..ATTEMPTS;
        loop {
            self.await_rest();
            let bytes = self.open_bytes()?;
            let usage = Arc::<Usage>::default();
            let source = bytes.generation(usage.clone())?;
            let open = || (self.open_files.opener)(source.clone());
            let container = half_saved.clone().map_or_else(open, Err);
            if source.is_live() {
                container.iter().for_each(|container| container.expect_growth());
            }
            container.iter().for_each(|container| source.note_parsed(container));
            attempts.next();
            // Another program has written to it meanwhile.
            let is_changed = !source.is_whole();
            match container {
                // Lack of memory or descriptors is no property of the file.
                Err(error) if matches!(error.kind(), error::Kind::System(_)) => return Err(error),
                _ if is_changed && !attempts.is_empty() => {}
                Err(error) if error.kind() == error::Kind::Changed => return Err(error),
                container => return Ok(Read { bytes, source, usage, container }),
            }
        }
    }

    /// Waits a moment if another program has changed the file just now.
    fn await_rest(&self) {
        for _ in 0..PAUSES {
            let Ok(stat) = self.location.stat() else { return };
            let (seconds, nanoseconds) = stat.source.mtime;
            let changed = u64::try_from(seconds).ok().map(|seconds| Duration::new(seconds, nanoseconds));
            let age = SystemTime::now().duration_since(UNIX_EPOCH).ok().zip(changed);
            let left = age.and_then(|(now, changed)| AT_REST.checked_sub(now.checked_sub(changed)?));
            match left.filter(|_| locked(&self.state).own != Some(stat.source.version)) {
                Some(left) => std::thread::sleep(left),
                None => return,
            }
        }
    }

    /// The open file that has the name: the one that an older generation reads, or one that is opened now.
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
        Ok(known.filter(|known| known.is(&version)).unwrap_or_else(|| FileBytes::new(source)))
    }

    /// Whether this process may write the file, as far as permissions go.
    pub(crate) fn may_be_written(&self) -> bool {
        self.location.may_write().unwrap_or(false)
    }

    /// True if the file may be replaced without this kernel's knowledge: what was read of it may be of an older one.
    pub(crate) fn is_remote(&self) -> bool {
        self.location.is_remote()
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

    /// The folder of a generation of the file; `writing` says how it is written.
    pub(crate) fn root(
        self: &Arc<Self>,
        held: &Held,
        writing: impl Fn() -> Writing + Send + Sync + 'static,
    ) -> Root {
        let container = held.container.as_ref().ok().cloned();
        let (mounted, shown) = (self.clone(), held.clone());
        let status = Arc::new(move || mounted.status(&shown, &writing()));
        let checked = held.clone();
        let known = Arc::new(move |n| checked.checks.known(n));
        Root::new(container, status, known, self.open_files.shown.clone())
    }

    fn status(&self, opened: &Parsed, writing: &Writing) -> Text {
        let troubles = locked(&self.troubles).clone();
        let container = opened.container.as_ref().map(|container| &**container);
        Text::new(view::status::text(&self.location.label(), container, opened.number, &troubles, writing))
    }

    pub(crate) fn verifier(&self) -> &Verifier {
        &self.open_files.verifier
    }

    /// Says that block `n` was found wrong.
    pub(crate) fn report_wrong(&self, n: usize) {
        (self.open_files.on_wrong)(self.serial, n);
    }

    /// The file lies at its name no more: only its handles keep it.
    fn detach(&self, state: &mut MountedState) {
        state.attached = false;
        state.saving = None;
        self.open_files.let_go(self.serial);
    }
}

/// An open file, and what was parsed of it.
#[derive(Debug)]
struct Read {
    bytes: Arc<FileBytes>,
    source: Arc<GenerationSource>,
    usage: Arc<Usage>,
    container: Result<Arc<dyn Container>>,
}

fn same_life(old: &Stat, new: &Stat) -> bool {
    new.kind == Kind::File && old.source.version.same_file(&new.source.version)
}
