//! Desks: what is written in the folder of one file, beside what its source says.
//!
//! A desk has the names of its folder, `tree.yaml` among them, and the [`Sheet`]s behind these names.
//! One of the sheets may be the *master*: it has no file of its own and shows the head of the source.
//! That is what `tree.yaml` is as long as nobody writes; renamed away, the sheet stays the master until
//! another text is about to be saved, and then takes a copy of what it showed.
//!
//! The desk's lock is held for whatever takes no longer than copying a tree; while a save is made only
//! the lock of saves is held, which comes first.

mod master;
mod rest;

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use super::attr::{Attr, Kind, Ownership, Stat, Time};
use super::haven::{Drawer, Haven, Kept, in_memory, stem_of};
use super::mirror::Place;
use super::names::{ABOUT, BLOCKS, TREE};
use super::node::{Ino, Part, Serials};
use super::refused::ERROR;
use super::saver::{Head, Saver, Savers, Site};
use super::sheet::{Body, Budget, MOST_BYTES, Paper, Sheet, now};
use super::shelf::Shelf;
use super::volume::{Present, Volume};
use super::{errno, locked};
use crate::content::Content;
use crate::error::{Error, Result};
use crate::source::Identity;
use crate::view::status::{LastRefusal, Writing};

/// Names that the folder itself has, or will have.
const RESERVED: [&str; 4] = [BLOCKS, ABOUT, "arrays", "exploded"];

/// What the desks of a mount share.
#[derive(Debug)]
pub(crate) struct Room {
    /// None where no state directory can be had: scratch files are then held in memory.
    pub(crate) haven: Option<Arc<Haven>>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) savers: Arc<dyn Savers>,
    pub(crate) serials: Arc<Serials>,
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) ownership: Ownership,
}

/// What is written in one folder.
#[derive(Debug)]
pub(crate) struct Desk {
    /// No two desks of a mount have the same.
    serial: u32,
    pub(crate) room: Arc<Room>,
    place: Place,
    present: Arc<Present>,
    pub(crate) state: Mutex<State>,
    /// Held while a save is made; what it is made with, once it is needed.
    pub(crate) saver: Mutex<Option<Box<dyn Saver>>>,
    /// The sheet that has the number of a `tree.yaml` to which nobody writes.
    first: Weak<Sheet>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) names: BTreeMap<OsString, Arc<Sheet>>,
    /// The sheet that shows the source.
    pub(crate) master: Weak<Sheet>,
    pub(crate) missing: Option<Instant>,
    /// The source's head, as of this identity.
    pub(crate) head: Option<(Identity, Head)>,
    /// Counts how often another program changed the head.
    pub(crate) lineage: u64,
    /// What `tree.yaml` says of its times while the source is as the last save left it.
    pub(crate) shown: Option<Shown>,
    drawer: Option<Drawer>,
    /// Refused texts in the state directory.
    pub(crate) kept: VecDeque<Kept>,
    /// MD5 of the text that was refused last, whose files may still be there.
    pub(crate) rejected: Option<Head>,
    /// Lines `...` in the midst of the text that was saved last, as it was written; see
    /// [`seams`](super::seams). An editor may have it so even when `tree.yaml` shows what is in the source.
    pub(crate) seams: usize,
    /// The text that was saved last as it was written, where the source has something put back into it:
    /// that is what editors know of it. Nothing names it.
    pub(crate) as_written: Option<Arc<Sheet>>,
    pub(crate) last_save: Option<Time>,
    pub(crate) last_warnings: Vec<String>,
    pub(crate) last_refusal: Option<LastRefusal>,
    /// When the last refusal was, as long as nobody has looked for what is told of it.
    pub(crate) refused_at: Option<Instant>,
    /// Whether a save is being made.
    pub(crate) busy: bool,
    /// Whether the saver is kept although no draft is open.
    pub(crate) keeps_saver: bool,
    pub(crate) closed: bool,
    /// Whether anything was written, or could have been.
    pub(crate) touched: bool,
    /// When a name came or went last.
    changed: Option<Time>,
}

/// See [`State::shown`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    pub(crate) identity: Identity,
    pub(crate) mtime: Time,
    pub(crate) ctime: Time,
}

impl Desk {
    /// The desk of a file that can be written; `tree` is the number that its `tree.yaml` has already.
    pub(crate) fn of(place: &Place, present: &Arc<Present>, room: &Arc<Room>, tree: Ino) -> Result<Self> {
        let serial = room.serials.next()?;
        let body = Mutex::new(Body::new(Paper::Source, 0));
        let sheet = Arc::new(Sheet { ino: tree, desk: serial, body });
        let state = State {
            names: BTreeMap::from([(TREE.into(), sheet.clone())]),
            master: Arc::downgrade(&sheet),
            missing: None,
            head: None,
            lineage: 0,
            shown: None,
            drawer: None,
            kept: VecDeque::new(),
            rejected: None,
            seams: 0,
            as_written: None,
            last_save: None,
            last_warnings: Vec::new(),
            last_refusal: None,
            refused_at: None,
            busy: false,
            keeps_saver: false,
            closed: false,
            touched: false,
            changed: None,
        };
        Ok(Self {
            serial,
            room: room.clone(),
            place: place.clone(),
            present: present.clone(),
            state: Mutex::new(state),
            saver: Mutex::new(None),
            first: Arc::downgrade(&sheet),
        })
    }

    /// The sheet that has the number of a `tree.yaml` to which nobody writes, if it is still there.
    pub(crate) fn first(&self) -> Result<Arc<Sheet>> {
        self.first.upgrade().ok_or_else(|| errno(libc::ESTALE))
    }

    /// Whether a sheet belongs to this desk.
    pub(crate) fn has(&self, sheet: &Sheet) -> bool {
        sheet.desk == self.serial
    }

    pub(crate) fn volume(&self) -> Result<Arc<Volume>> {
        self.present.volume(&self.place.spot, &self.room.serials, &self.room.shelf)
    }

    /// What is said of the source; what was last seen of it, if it is gone: what was written in its folder
    /// stays.
    pub(crate) fn stat(&self) -> Result<Stat> {
        match self.volume() {
            Ok(volume) => Ok(volume.look().stat),
            Err(error) => self.present.last_seen().ok_or(error),
        }
    }

    /// The text that was saved last.
    pub(crate) fn saved_text(&self) -> Result<Arc<dyn Content>> {
        let volume = self.volume()?;
        volume.look();
        Ok(volume.opened()?.container()?.tree())
    }

    /// The source's name, for files in the state directory.
    pub(crate) fn stem(&self) -> OsString {
        stem_of(&self.place.spot.label())
    }

    pub(crate) fn label(&self) -> std::path::PathBuf {
        self.place.spot.label()
    }

    /// Opens and locks the file for saves, if that was not done yet.
    pub(crate) fn open_saver<'a>(
        &self,
        saver: &'a mut Option<Box<dyn Saver>>,
    ) -> Result<&'a mut Box<dyn Saver>> {
        if saver.is_none() {
            let (dir, name) = self.place.spot.holder()?;
            let dir = dir.as_fd().try_clone_to_owned().map_err(Error::from)?;
            let site = Site::new(dir, name, self.place.spot.label());
            *saver = Some(self.room.savers.open(site)?);
        }
        saver.as_mut().ok_or_else(|| errno(libc::EIO))
    }

    /// Sees to it that a draft can become a save, as far as that can be known before.
    pub(crate) fn begin(&self) -> Result<()> {
        // Someone is saving, and has all that is needed. Of a file that is left halfway nothing can be
        // read until it is settled: that is waited for.
        let saver = match self.volume()?.is_unsettled() {
            true => Some(locked(&self.saver)),
            false => self.saver.try_lock().ok(),
        };
        let Some(mut saver) = saver else { return Ok(()) };
        self.open_saver(&mut saver).map(drop).and_then(|()| self.settle_source(&mut saver)).map_err(|error| {
            tracing::warn!("{error}");
            match error.errno() {
                libc::EACCES | libc::EPERM => errno(libc::EROFS),
                _ => error,
            }
        })
    }

    /// Makes the source one file again, if a save left it halfway.
    pub(crate) fn settle_source(&self, saver: &mut Option<Box<dyn Saver>>) -> Result<()> {
        let volume = self.volume()?;
        if volume.is_unsettled() {
            self.open_saver(saver)?.settle()?;
            volume.settled();
        }
        Ok(())
    }

    /// Keeps the file locked until the mount ends.
    pub(crate) fn keep_saver(&self) -> Result<()> {
        self.open_saver(&mut locked(&self.saver))?;
        let mut state = locked(&self.state);
        (state.keeps_saver, state.touched) = (true, true);
        Ok(())
    }

    /// The bytes that all sheets may take while this folder is written to.
    pub(crate) fn limit(&self) -> u64 {
        let tree = self.saved_text().map_or(0, |text| text.len());
        MOST_BYTES.saturating_add(tree.saturating_mul(4))
    }

    /// A file of a sheet's own; `name` is where it is found after a crash.
    pub(crate) fn paper(&self, state: &mut State, name: Option<&OsStr>) -> Result<std::fs::File> {
        let Some(haven) = &self.room.haven else { return in_memory() };
        if state.drawer.is_none() {
            state.drawer = Some(haven.drawer(&self.stem())?);
        }
        state.drawer.as_ref().map_or_else(in_memory, |drawer| drawer.file(name))
    }

    /// What the source's head is, and how often others changed it.
    pub(crate) fn head(&self, state: &mut State) -> Result<(u64, Head)> {
        if let (true, Some((_, head))) = (state.busy, state.head) {
            return Ok((state.lineage, head));
        }
        let volume = self.volume()?;
        volume.look();
        let opened = volume.opened()?;
        if let Some((known, head)) = state.head
            && known == opened.identity
        {
            return Ok((state.lineage, head));
        }
        let head = Head::of(&*opened.container()?.tree())?;
        if state.head.is_some_and(|(_, old)| old != head) {
            state.lineage += 1;
            (state.seams, state.as_written) = (0, None);
        }
        state.head = Some((opened.identity, head));
        Ok((state.lineage, head))
    }

    /// A new sheet that nothing names yet.
    pub(crate) fn sheet(&self, paper: Paper, lineage: u64) -> Result<Arc<Sheet>> {
        let mut body = Body::new(paper, lineage);
        if !matches!(body.paper, Paper::Source) {
            body.take_room(&self.room.budget, 0, MOST_BYTES)?;
        }
        let ino = Ino::new(self.room.serials.next()?, Part::Whole);
        Ok(Arc::new(Sheet { ino, desk: self.serial, body: Mutex::new(body) }))
    }

    /// Whether this sheet is `tree.yaml` now.
    pub(crate) fn is_tree(&self, state: &State, sheet: &Arc<Sheet>) -> bool {
        state.names.get(OsStr::new(TREE)).is_some_and(|tree| Arc::ptr_eq(tree, sheet))
    }

    /// The sheet at a name.
    pub(crate) fn lookup(&self, name: &OsStr) -> Result<Arc<Sheet>> {
        let mut state = locked(&self.state);
        self.tidy(&mut state);
        if name == ERROR {
            state.refused_at = None;
        }
        state.names.get(name).cloned().ok_or_else(|| errno(libc::ENOENT))
    }

    /// All names, without those that the folder itself has.
    pub(crate) fn names(&self) -> Vec<OsString> {
        let mut state = locked(&self.state);
        self.tidy(&mut state);
        state.names.keys().cloned().collect()
    }

    /// When a name came or went last.
    pub(crate) fn changed(&self) -> Option<Time> {
        locked(&self.state).changed
    }

    /// What is said of a sheet.
    pub(crate) fn attr(&self, sheet: &Arc<Sheet>) -> Result<Attr> {
        let mut state = locked(&self.state);
        self.tidy(&mut state);
        let stat = self.stat()?;
        let body = locked(&sheet.body);
        let (kind, size, times) = match &body.paper {
            // It can be written although it can't be read just now: that settles it.
            Paper::Source if self.volume()?.is_unsettled() => (Kind::File, 0, self.times(&state)?),
            Paper::Source => (Kind::File, self.saved_text()?.len(), self.times(&state)?),
            Paper::File(_) => {
                let again = body.refusal().filter(|_| self.is_tree(&state, sheet));
                let (size, times) = again
                    .and_then(|_| self.after_refusal(&state).ok())
                    .unwrap_or((body.size, (body.mtime, body.ctime)));
                (Kind::File, size, times)
            }
            Paper::Link(text) => (Kind::Link, text.len() as u64, (body.mtime, body.ctime)),
        };
        let attr = self.room.ownership.writable(sheet.ino, kind, size, &stat);
        // Where other users may look the source alone says what they may do with the tree.
        let own = !(self.place.spot.origin().shared && self.is_tree(&state, sheet));
        Ok(Attr {
            mode: body.mode.filter(|_| own).map_or(attr.mode, |mode| (mode & 0o7777) as u16),
            uid: body.uid.filter(|_| own).unwrap_or(attr.uid),
            gid: body.gid.filter(|_| own).unwrap_or(attr.gid),
            nlink: body.nlink,
            atime: body.atime.unwrap_or(times.0),
            mtime: times.0,
            ctime: times.1,
            ..attr
        })
    }

    /// Puts a sheet at a name that is free.
    pub(crate) fn put(&self, state: &mut State, name: &OsStr, sheet: &Arc<Sheet>) {
        state.names.insert(name.to_owned(), sheet.clone());
        state.changed = Some(now());
        if name == TREE {
            state.missing = None;
        }
    }

    /// Takes a name away; the sheet lives on in who has it open.
    pub(crate) fn take(&self, state: &mut State, name: &OsStr) -> Option<Arc<Sheet>> {
        let sheet = state.names.remove(name)?;
        let mut body = locked(&sheet.body);
        body.nlink = body.nlink.saturating_sub(1);
        body.ctime = now();
        body.free_if_gone();
        drop(body);
        state.changed = Some(now());
        if name == TREE {
            state.missing = Some(Instant::now());
        }
        if let Some(drawer) = &state.drawer {
            drawer.remove(name);
        }
        self.clear_drawer_if_unused(state);
        Some(sheet)
    }

    /// Moves files of the state directory along with names.
    pub(crate) fn follow_rename(&self, state: &State, old: &OsStr, new: &OsStr, exchange: bool) {
        if let Some(drawer) = &state.drawer {
            drawer.rename(old, new, exchange);
        }
    }

    pub(crate) fn follow_link(&self, state: &State, old: &OsStr, new: &OsStr) {
        if let Some(drawer) = &state.drawer {
            drawer.link(old, new);
        }
    }

    /// Ends all writing: a save that runs is waited for; a text that was not saved is kept, and files
    /// beside it.
    pub(crate) fn close(&self) {
        let mut saver = locked(&self.saver);
        let mut state = locked(&self.state);
        if std::mem::replace(&mut state.closed, true) {
            return;
        }
        if let Some(tree) = state.names.get(OsStr::new(TREE)).cloned() {
            let (unsaved, empty) = {
                let body = locked(&tree.body);
                let own = matches!(body.paper, Paper::File(_));
                (own && !body.is_clean() && body.refusal().is_none(), body.size == 0)
            };
            if unsaved && empty {
                tracing::warn!("{}: tree.yaml was left empty: the saved text stays", self.label().display());
            } else if unsaved {
                self.keep_unfinished(&mut state, &tree);
            }
        }
        let drawer = state.drawer.take();
        self.keep_beside(&mut state, drawer);
        *saver = None;
    }

    /// What `status.yaml` says of it.
    pub(crate) fn writing(&self) -> Writing {
        let state = locked(&self.state);
        let dirty = |sheet: &Arc<Sheet>| !locked(&sheet.body).is_clean();
        Writing {
            writable: true,
            read_only_because: None,
            draft: state.names.get(OsStr::new(TREE)).is_some_and(dirty),
            last_save: state.last_save.map(crate::view::status::instant),
            last_warnings: state.last_warnings.clone(),
            last_refusal: state.last_refusal.clone(),
        }
    }
}

/// Whether a name is one that the folder itself has, so that no file can.
pub(crate) fn is_reserved(name: &OsStr) -> bool {
    RESERVED.iter().any(|reserved| name == *reserved)
}
