//! The folder that stands for a file, and the lives of that file.
//!
//! A [`Volume`] is one life of the file: from when it was first looked into until another file takes
//! its name. Written in place it lives on, in a new generation: it is parsed anew. Replaced, the
//! folder goes on with a new volume, whose parts have numbers of their own, and what is open of the
//! old one can be read to its end.
//!
//! What was parsed ([`Opened`]) is held by the handles that read it and by a bounded list of those
//! used last; a volume alone keeps nothing open.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::{Duration, Instant};

use lru::LruCache;

use super::attr::{Kind, Stat};
use super::desk::{Desk, Room};
use super::mirror::Place;
use super::node::{Ino, Serials};
use super::pages::Pages;
use super::saver::Settler;
use super::spot::Spot;
use super::verify::{Verifier, Verify};
use super::{Opener, locked};
use crate::content::{Content, Text};
use crate::error::{self, Error, Result};
use crate::format::{Block, Container, Verified};
use crate::source::{Gate, Identity};
use crate::view;

/// A source is looked at again no more often than this.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// Attempts at checking a block that saves move.
const ATTEMPTS: usize = 100;
/// Of so many parts is known when they were opened.
const OPENED: usize = 1 << 14;
/// So many different troubles of a file are told in its status.
const TROUBLES: usize = 64;

/// Opens files, and keeps those used last open.
pub(crate) struct Shelf {
    opener: Opener,
    /// Looks after what a crash left halfway, before it is read.
    settler: Settler,
    kept: Mutex<LruCache<u32, Arc<Opened>>>,
    verifier: Verifier,
    pub(crate) pages: Pages,
}

impl std::fmt::Debug for Shelf {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Shelf").field("kept", &locked(&self.kept).len()).finish_non_exhaustive()
    }
}

impl Shelf {
    pub(crate) fn new(opener: Opener, bound: NonZeroUsize, settler: Settler, verify: Verify) -> Self {
        Self {
            opener,
            settler,
            kept: Mutex::new(LruCache::new(bound)),
            verifier: Verifier::new(verify),
            pages: Pages::default(),
        }
    }

    fn keep(&self, serial: u32, opened: &Arc<Opened>) {
        let dropped = locked(&self.kept).push(serial, opened.clone());
        drop(dropped); // closes a file, which is done after the lock was let go
    }

    fn let_go(&self, serial: u32) {
        let dropped = locked(&self.kept).pop(&serial);
        drop(dropped);
    }

    #[cfg(test)]
    pub(crate) fn clear(&self) {
        locked(&self.kept).clear();
    }
}

/// A generation, and how many saves were made here before.
pub(crate) type Edition = (u64, u64);

/// A file that was parsed, or the reason why it can't be.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) identity: Identity,
    pub(crate) generation: u64,
    /// After how many saves made here.
    pub(crate) saves: u64,
    /// The same for all generations that came of saves made here.
    pub(crate) lineage: u64,
    pub(crate) container: Result<Arc<dyn Container>>,
}

impl Opened {
    pub(crate) fn edition(&self) -> Edition {
        (self.generation, self.saves)
    }

    pub(crate) fn container(&self) -> Result<&Arc<dyn Container>> {
        self.container.as_ref().map_err(Clone::clone)
    }

    /// Whether the file was written since it was opened, though nobody may have noticed yet.
    pub(crate) fn is_outlived(&self) -> bool {
        self.container()
            .is_ok_and(|container| container.source().identity().is_ok_and(|now| now != container.identity()))
    }

    /// Block `n`; an error of the system stays what it is, any other means that there is none.
    pub(crate) fn block(&self, n: u32) -> Result<Block> {
        let index = usize::try_from(n).map_err(|_| no_block(n))?;
        self.container()?.block(index).map_err(|error| match error.kind() {
            error::Kind::System(_) => error,
            _ => no_block(n),
        })
    }
}

fn no_block(n: u32) -> Error {
    Error::new(error::Kind::NotFound, format!("there is no block {n}"))
}

/// The folder of an entry: its present life, and what is written in it.
#[derive(Debug, Default)]
pub(crate) struct Folder {
    present: Arc<Present>,
    desk: Mutex<Option<Arc<Desk>>>,
}

/// The present life of a file behind a folder.
#[derive(Debug, Default)]
pub(crate) struct Present(Mutex<Option<Arc<Volume>>>);

impl Folder {
    /// The volume that lies at `place` now.
    pub(crate) fn volume(&self, place: &Place, serials: &Serials, shelf: &Arc<Shelf>) -> Result<Arc<Volume>> {
        self.present.volume(place, serials, shelf)
    }

    /// What is written in the folder, if its file can be written; `room` is what all folders share.
    pub(crate) fn desk(&self, place: &Place, room: &Arc<Room>) -> Result<Option<Arc<Desk>>> {
        let mut desk = locked(&self.desk);
        if desk.is_none() {
            *desk = Desk::of(place, &self.present, room)?.map(Arc::new);
        }
        Ok(desk.clone())
    }

    /// What was written in the folder already.
    pub(crate) fn used_desk(&self) -> Option<Arc<Desk>> {
        locked(&self.desk).clone()
    }
}

impl Present {
    /// The volume that lies at `place` now.
    pub(crate) fn volume(&self, place: &Place, serials: &Serials, shelf: &Arc<Shelf>) -> Result<Arc<Volume>> {
        let mut present = locked(&self.0);
        if let Some(volume) = present.as_ref().filter(|volume| volume.look().attached) {
            return Ok(volume.clone());
        }
        let stat = place.spot.stat()?;
        if stat.kind != Kind::File {
            return Err(rustix::io::Errno::STALE.into());
        }
        if let Some(volume) = present.as_ref().filter(|volume| volume.is(&stat)) {
            return Ok(volume.clone());
        }
        let volume = Arc::new(Volume::new(serials.next()?, place.spot.clone(), stat, shelf.clone()));
        *present = Some(volume.clone());
        Ok(volume)
    }
}

/// One life of the file behind a folder.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) serial: u32,
    spot: Spot,
    shelf: Arc<Shelf>,
    state: Mutex<State>,
    troubles: Mutex<Vec<String>>,
    /// What checking the blocks found, as of the edition named.
    verified: Mutex<(Edition, HashMap<u32, Check>)>,
    /// The generation in which a part was opened last: what the kernel keeps of it is of that one.
    opened_in: Mutex<HashMap<Ino, u64>>,
    /// Held by who reads the source, and against them while a save moves bytes in it.
    gate: Gate,
}

/// A check of a block that someone makes or has made.
type Check = Arc<OnceLock<Result<Verified>>>;

#[derive(Debug)]
struct State {
    looked: Instant,
    stat: Stat,
    attached: bool,
    /// Of the newest parse.
    generation: u64,
    lineage: u64,
    /// Who the file was after the last save made here.
    own: Option<Identity>,
    /// What is parsed, while a save is made: nobody looks at the source then.
    saving: Option<Arc<Opened>>,
    parsed: Option<Identity>,
    opened: Weak<Opened>,
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

impl Volume {
    fn new(serial: u32, spot: Spot, stat: Stat, shelf: Arc<Shelf>) -> Self {
        let state = State {
            looked: Instant::now(),
            stat,
            attached: true,
            generation: 0,
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
            spot,
            shelf,
            state: Mutex::new(state),
            troubles: Mutex::default(),
            verified: Mutex::default(),
            opened_in: Mutex::default(),
            gate: Gate::default(),
        }
    }

    /// Looks at the source, unless that was done a moment ago.
    pub(crate) fn look(&self) -> Look {
        let mut state = locked(&self.state);
        if state.saving.is_none() && state.looked.elapsed() >= LOOK_AGAIN {
            state.looked = Instant::now();
            match self.spot.stat() {
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

    /// The file parsed as it is now; of one that lies there no more, what is still open.
    pub(crate) fn opened(&self) -> Result<Arc<Opened>> {
        let mut state = locked(&self.state);
        if let Some(opened) = &state.saving {
            return Ok(opened.clone());
        }
        if state.unsettled {
            return Err(Error::new(
                error::Kind::Unfinished,
                "a save could be neither finished nor undone: save again, or unmount and use asdf-mount --recover",
            )
            .of(self.spot.label()));
        }
        let live = state.opened.upgrade();
        if !state.attached {
            return live.ok_or_else(|| rustix::io::Errno::STALE.into());
        }
        let is_now =
            |opened: &Arc<Opened>| opened.identity == state.stat.identity && opened.saves == state.saves;
        if let Some(opened) = live.filter(is_now) {
            self.shelf.keep(self.serial, &opened);
            return Ok(opened);
        }
        if let Err(error) = self.spot.settle(&self.shelf.settler) {
            if error.kind() == error::Kind::Unfinished {
                self.trouble(&error);
            }
            return Err(error);
        }
        let source = Arc::new(self.spot.open_file()?.with_gate(self.gate.clone()));
        let identity = crate::source::Source::identity(&*source)?;
        if !identity.same_file(&state.stat.identity) {
            self.detach(&mut state);
            return Err(rustix::io::Errno::STALE.into());
        }
        let container = match (self.shelf.opener)(source) {
            // Lack of memory or descriptors is no property of the file.
            Err(error) if matches!(error.kind(), error::Kind::System(_)) => return Err(error),
            container => container,
        };
        let identity = container.as_ref().map_or(identity, |container| container.identity());
        if state.parsed.is_some_and(|parsed| parsed != identity) {
            state.generation += 1;
            state.lineage += u64::from(state.own != Some(identity));
        }
        state.parsed = Some(identity);
        state.stat.identity = identity;
        let (generation, saves, lineage) = (state.generation, state.saves, state.lineage);
        let opened = Arc::new(Opened { identity, generation, saves, lineage, container });
        state.opened = Arc::downgrade(&opened);
        drop(state);
        if let Err(error) = &opened.container {
            self.trouble(error);
        }
        self.shelf.keep(self.serial, &opened);
        Ok(opened)
    }

    /// Begins a save: what is parsed now is what is read until it ends.
    pub(crate) fn begin_save(&self) -> Result<Arc<Opened>> {
        let opened = self.opened()?;
        locked(&self.state).saving = Some(opened.clone());
        Ok(opened)
    }

    /// Ends a save: the file that has the name now is still this one, whatever its number, if the save
    /// left it there (`own`); says who it is. One that is half the old file and half the new one
    /// (`unsettled`) is not read until it is settled.
    pub(crate) fn end_save(&self, own: bool, unsettled: bool) -> Result<Identity> {
        let stat = self.spot.stat();
        let mut state = locked(&self.state);
        state.saves += 1;
        state.unsettled = unsettled;
        let ended = state.saving.take();
        state.looked = Instant::now();
        match stat {
            Ok(stat) if !own && same_life(&state.stat, &stat) => {
                state.stat = stat;
                Ok(stat.identity)
            }
            Ok(_) if !own => {
                self.detach(&mut state);
                Err(rustix::io::Errno::STALE.into())
            }
            Ok(stat) if stat.kind == Kind::File => {
                state.attached = true;
                state.own = Some(stat.identity);
                state.stat = stat;
                drop(state);
                drop(ended); // closes a file, which is done after the lock was let go
                Ok(stat.identity)
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
        // Nobody knows the file as it is now: it is looked at as after a save.
        let _ = self.end_save(true, false);
    }

    /// Keeps bytes of the source where they are for as long as the answer is held.
    pub(crate) fn hold_still(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, unless that had to be waited for.
    pub(crate) fn is_still(&self) -> Option<RwLockReadGuard<'_, ()>> {
        self.gate.try_read().ok()
    }

    /// Waits until nobody reads the source, and lets nobody read it while the answer is held.
    pub(crate) fn hold_off(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this process may write the file, as far as permissions go.
    pub(crate) fn may_be_written(&self) -> bool {
        self.spot.holder().is_ok_and(|(dir, name)| may_write(dir.as_fd(), &name))
    }

    /// The path for messages.
    pub(crate) fn label(&self) -> std::path::PathBuf {
        self.spot.label()
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

    /// The text of `status.yaml`.
    pub(crate) fn status(&self, opened: &Opened, writing: &view::status::Writing) -> Text {
        let troubles = locked(&self.troubles).clone();
        let container = opened.container.as_ref().map(|container| &**container);
        Text::new(view::status::text(&self.spot.label(), container, opened.generation, &troubles, writing))
    }

    /// The text of `blocks.yaml`.
    pub(crate) fn table(self: &Arc<Self>, opened: &Opened) -> Result<Arc<dyn Content>> {
        let (volume, edition) = (self.clone(), opened.edition());
        let known = move |n| volume.known(edition, u32::try_from(n).ok()?);
        Ok(Arc::new(view::blocks::Table::new(opened.container()?.clone(), known)?))
    }

    pub(crate) fn verifier(&self) -> &Verifier {
        &self.shelf.verifier
    }

    /// The newest generation.
    pub(crate) fn generation(&self) -> u64 {
        locked(&self.state).generation
    }

    /// Whether a part is opened for the first time in a generation.
    pub(crate) fn is_first_open(&self, generation: u64, part: Ino) -> bool {
        let mut opened_in = locked(&self.opened_in);
        if opened_in.len() >= OPENED {
            // Who is forgotten is only given his bytes once more.
            opened_in.clear();
        }
        opened_in.insert(part, generation) != Some(generation)
    }

    /// What the kernel keeps.
    pub(crate) fn pages(&self) -> &Pages {
        &self.shelf.pages
    }

    /// What checking block `n` found, if anyone did.
    pub(crate) fn known(&self, edition: Edition, n: u32) -> Option<Verified> {
        let verified = locked(&self.verified);
        let check = verified.1.get(&n).filter(|_| verified.0 == edition)?;
        check.get()?.as_ref().ok().copied()
    }

    /// Whether nobody has begun to check block `n`; notes that someone does now.
    pub(crate) fn is_first_to_check(&self, edition: Edition, n: u32) -> bool {
        let mut verified = locked(&self.verified);
        if verified.0 != edition {
            *verified = (edition, HashMap::new());
        }
        let is_first = !verified.1.contains_key(&n);
        verified.1.entry(n).or_default();
        is_first
    }

    /// Checks block `n`, once in a generation; reads all of it.
    pub(crate) fn verify(&self, n: u32) -> Result<Verified> {
        for _ in 0..ATTEMPTS {
            self.look();
            let opened = self.opened()?;
            let found = self.verify_of(&opened, n);
            // Waits for a save that moves the block just now; nobody is to wait for a check.
            drop(self.hold_still());
            let now = {
                let state = locked(&self.state);
                (state.generation, state.saves)
            };
            if now != opened.edition() {
                continue;
            }
            if let Err(error) = &found {
                self.trouble(error);
            }
            return found;
        }
        Err(Error::new(error::Kind::Changed, "the file is saved again and again: ask later"))
    }

    /// The same of what was opened, for who holds it still.
    pub(crate) fn verify_of(&self, opened: &Opened, n: u32) -> Result<Verified> {
        let index = usize::try_from(n).map_err(|_| no_block(n))?;
        let check = {
            let mut verified = locked(&self.verified);
            if verified.0 != opened.edition() {
                *verified = (opened.edition(), HashMap::new());
            }
            verified.1.entry(n).or_default().clone()
        };
        let container = opened.container()?;
        let found = check.get_or_init(|| container.verify(index)).clone();
        if found.is_err() {
            // It may go better next time: a network file system was away, say.
            let mut verified = locked(&self.verified);
            if verified.1.get(&n).is_some_and(|noted| Arc::ptr_eq(noted, &check)) {
                verified.1.remove(&n);
            }
        }
        found
    }

    /// The file lies at its name no more: only its handles keep it, and its size is asked of them.
    fn detach(&self, state: &mut State) {
        state.attached = false;
        state.saving = None;
        self.shelf.let_go(self.serial);
        if let Some(opened) = state.opened.upgrade()
            && let Ok(container) = &opened.container
            && let Ok(identity) = container.source().identity()
        {
            state.stat.identity = identity;
        }
    }
}

/// Whether this process may write `name` in `dir`; where that can't be told, it may be tried.
pub(crate) fn may_write(dir: BorrowedFd<'_>, name: &OsStr) -> bool {
    use rustix::io::Errno;
    let access = rustix::fs::accessat(dir, name, rustix::fs::Access::WRITE_OK, rustix::fs::AtFlags::EACCESS);
    !matches!(access, Err(Errno::ACCESS | Errno::PERM | Errno::ROFS))
}

fn same_life(old: &Stat, new: &Stat) -> bool {
    new.kind == Kind::File && old.identity.same_file(&new.identity)
}
