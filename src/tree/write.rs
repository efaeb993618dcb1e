//! What programs change about a file that can be written, and how it is opened for that.
//!
//! Only `tree.yaml` and the files beside it can be; everything else answers EROFS.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::attr::{Attr, Time};
use super::desk::{Desk, Shown, State};
use super::mirror::Entry;
use super::node::{Ino, Node};
use super::open::Reader;
use super::pen::{Caller, Pen};
use super::sheet::{Paper, Sheet, now, time_of};
use super::volume::Volume;
use super::{Tree, errno, locked};
use crate::error::Result;
use crate::view::status::Writing;

/// So many folders in which something was written are kept while nobody has anything open there: beyond what
/// is in the file they know its times and last refusal.
const RESTING: usize = 4096;
/// So many folders are looked at for one that can be put away.
const LOOKED_AT: usize = 64;

/// A sheet, with its folder and desk.
type Written = (Arc<Entry>, Arc<Desk>, Arc<Sheet>);

/// What an open file is.
#[derive(Debug)]
pub enum Opened {
    /// One that is only read.
    Reader(Reader),
    /// One of those that can be written, whether or not this handle may.
    Pen(Pen),
}

/// For what a file is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenFor {
    /// To write.
    pub writing: bool,
    /// Each write goes to the end.
    pub appending: bool,
    /// What was in it is to go.
    pub truncating: bool,
    /// It must not have been there.
    pub only_new: bool,
}

/// A time that a file is to have.
#[derive(Clone, Copy, Debug)]
pub enum Moment {
    /// The present.
    Now,
    /// This one.
    At(std::time::SystemTime),
}

impl Moment {
    fn time(self) -> Time {
        match self {
            Self::Now => now(),
            Self::At(time) => time_of(time),
        }
    }
}

/// What is to be changed about a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Change {
    /// Permissions.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Bytes.
    pub size: Option<u64>,
    /// Last access.
    pub atime: Option<Moment>,
    /// Last change of the bytes.
    pub mtime: Option<Moment>,
}

impl Tree {
    /// Whether nothing can be written in the mount.
    pub fn is_read_only(&self) -> bool {
        self.room.is_none()
    }

    /// What the caller should know of the mount, a line each: first what can't be written although that
    /// was asked for.
    pub fn remarks(&self) -> Vec<String> {
        let what = self.unwritable.as_deref().map(|what| match self.is_read_only() {
            true => format!("{what}: the mount is read-only"),
            false => what.to_owned(),
        });
        what.into_iter().chain(self.notices.iter().cloned()).collect()
    }

    /// How long the kernel may believe what it was told of a node: of files that can be written not at
    /// all.
    pub fn ttl(&self, ino: Ino) -> std::time::Duration {
        match self.node(ino) {
            Ok((Node::Sheet(..) | Node::Tree(_), _)) => std::time::Duration::ZERO,
            _ => super::TTL,
        }
    }

    /// Whether names may come into a directory without the kernel's doing, at any time.
    pub fn changes_by_itself(&self, ino: Ino) -> bool {
        self.can_be_written(ino).unwrap_or(true)
    }

    /// Whether a file can be written, or a directory changed, as far as its permissions allow.
    pub fn can_be_written(&self, ino: Ino) -> Result<bool> {
        match self.node(ino)? {
            (Node::Sheet(..) | Node::Tree(_), _) => Ok(true),
            (Node::Entry(entry), _) => self.is_writable(&entry),
            _ => Ok(false),
        }
    }

    /// Keeps a folder in which something is to be written, and puts some away that were left long ago.
    pub(crate) fn keep_written(&self, entry: &Arc<Entry>) {
        let is_short = || self.room.as_ref().is_some_and(|room| room.budget.is_short());
        let mut written = locked(&self.written);
        written.put(entry.serial, entry.clone());
        let mut away = Vec::new();
        for _ in 0..written.len().min(LOOKED_AT) {
            if written.len() <= RESTING && !is_short() {
                break;
            }
            let Some((serial, oldest)) = written.pop_lru() else { break };
            match oldest.folder().is_ok_and(|folder| folder.put_away()) {
                true => away.push(oldest),
                false => drop(written.put(serial, oldest)),
            }
        }
        drop(written);
        away.into_iter().for_each(Entry::leave_parent);
    }

    /// Whether and how the file behind a folder is written.
    pub(crate) fn writing(&self, entry: &Entry, volume: &Volume) -> Writing {
        let desk = entry.folder().ok().and_then(|folder| folder.used_desk());
        let because = match (&desk, &self.room) {
            (_, None) => self.unwritable.as_deref().unwrap_or("the mount is read-only"),
            (Some(desk), Some(_)) => return desk.writing(),
            (None, Some(_)) if volume.may_be_written() => {
                return Writing { writable: true, ..Writing::default() };
            }
            (None, Some(_)) => "the file can't be written",
        };
        Writing { read_only_because: Some(because.into()), ..Writing::default() }
    }

    /// Ends all writing: saves that run are waited for, texts that were not saved are kept. Reading
    /// goes on.
    pub fn close(&self) {
        let written: Vec<_> = locked(&self.written).iter().map(|(_, entry)| entry.clone()).collect();
        for entry in written {
            if let Some(desk) = entry.folder().ok().and_then(|folder| folder.used_desk()) {
                desk.close();
            }
        }
        if let Some(haven) = self.room.as_ref().and_then(|room| room.haven.as_ref()) {
            haven.write_report();
        }
    }

    /// The desk of a directory in which something is to change.
    pub(crate) fn desk_in(&self, parent: Ino) -> Result<(Arc<Entry>, Arc<Desk>)> {
        let (Node::Entry(entry), _) = self.node(parent)? else { return Err(errno(libc::EROFS)) };
        let desk = self.desk(&entry)?.ok_or_else(|| errno(libc::EROFS))?;
        self.keep_written(&entry);
        Ok((entry, desk))
    }

    /// The sheet that has a number, and whose it is; `None` where that can't be written.
    fn sheet_at(&self, ino: Ino) -> Result<Option<Written>> {
        Ok(match self.node(ino)? {
            (Node::Sheet(entry, sheet), _) => {
                let desk = entry.folder()?.desk_of(&sheet)?;
                Some((entry, desk, sheet))
            }
            (Node::Tree(entry), _) => {
                let desk = self.desk(&entry)?.ok_or_else(|| errno(libc::EROFS))?;
                let sheet = desk.first()?;
                Some((entry, desk, sheet))
            }
            _ => None,
        })
    }

    /// The sheet that is to change.
    pub(crate) fn sheet_of(&self, ino: Ino) -> Result<Written> {
        let (entry, desk, sheet) = self.sheet_at(ino)?.ok_or_else(|| errno(libc::EROFS))?;
        self.keep_written(&entry);
        Ok((entry, desk, sheet))
    }

    /// Opens a file.
    pub fn open_for(&self, ino: Ino, open: OpenFor, caller: Caller) -> Result<Opened> {
        let Some((entry, desk, sheet)) = self.sheet_at(ino)? else {
            if open.writing || open.truncating {
                return Err(errno(libc::EROFS));
            }
            return Ok(Opened::Reader(self.open(ino)?));
        };
        if open.writing || open.truncating {
            self.keep_written(&entry);
        }
        self.pen(entry, desk, sheet, open, caller).map(Opened::Pen)
    }

    pub(crate) fn pen(
        &self,
        entry: Arc<Entry>,
        desk: Arc<Desk>,
        sheet: Arc<Sheet>,
        open: OpenFor,
        caller: Caller,
    ) -> Result<Pen> {
        if open.writing && desk.is_tree(&locked(&desk.state), &sheet) {
            desk.begin()?;
        }
        let mut state = locked(&desk.state);
        if matches!(locked(&sheet.body).paper, Paper::Link(_)) {
            return Err(errno(libc::ELOOP));
        }
        if open.writing {
            desk.write_access(&mut state)?;
        }
        let truncates = open.truncating && open.writing;
        if truncates {
            resize(&desk, &mut state, &sheet, 0)?;
        }
        {
            let mut body = locked(&sheet.body);
            body.handles += 1;
            body.writers += u32::from(open.writing);
        }
        let pen = Pen {
            entry,
            desk: desk.clone(),
            sheet,
            opener: caller.group,
            writes: open.writing,
            appends: open.appending,
            wrote: AtomicBool::new(truncates),
            lineage: AtomicU64::new(state.lineage),
        };
        if open.writing {
            pen.begin_from_now(&mut state);
        }
        drop(state);
        Ok(pen)
    }

    /// Changes what is said of a file, or how long it is; `pen` is the handle by which it is done.
    pub fn change(&self, ino: Ino, change: Change, pen: Option<&Pen>) -> Result<Attr> {
        let (_, desk, sheet) = self.sheet_of(ino)?;
        if change.size.is_some() && pen.is_none() && desk.is_tree(&locked(&desk.state), &sheet) {
            desk.begin()?;
        }
        let mut state = locked(&desk.state);
        desk.write_access(&mut state)?;
        if let Some(size) = change.size {
            if let Some(pen) = pen {
                pen.begin_text(&mut state, size > 0)?;
            }
            resize(&desk, &mut state, &sheet, size)?;
            if let Some(pen) = pen {
                pen.wrote.store(true, Ordering::Relaxed);
            }
        }
        let times = change.mtime.map(|mtime| (mtime.time(), now()));
        let volume = desk.volume()?;
        let shown = desk.times(&state)?;
        let mut body = locked(&sheet.body);
        body.mode = change.mode.map(|mode| mode & 0o7777).or(body.mode);
        body.uid = change.uid.or(body.uid);
        body.gid = change.gid.or(body.gid);
        body.atime = change.atime.map(Moment::time).or(body.atime);
        let others = change.mode.is_some() || change.uid.is_some() || change.gid.is_some();
        if times.is_some() || others || change.atime.is_some() {
            let (mtime, ctime) = times
                .unwrap_or((if matches!(body.paper, Paper::Source) { shown.0 } else { body.mtime }, now()));
            match body.paper {
                Paper::Source => {
                    let identity = volume.look().stat.identity;
                    state.shown = Some(Shown { identity, mtime, ctime });
                }
                _ => (body.mtime, body.ctime) = (mtime, ctime),
            }
        }
        drop(body);
        drop(state);
        desk.attr(&sheet)
    }
}

/// Cuts or lengthens a sheet's text.
fn resize(desk: &Desk, state: &mut State, sheet: &Arc<Sheet>, size: u64) -> Result<()> {
    desk.own_paper(state, sheet, size > 0)?;
    let limit = desk.limit();
    let mut body = locked(&sheet.body);
    if size > i64::MAX as u64 {
        return Err(errno(libc::EFBIG));
    }
    body.take_room(&desk.room.budget, size, limit)?;
    if let Paper::File(file) = &body.paper {
        file.set_len(size)?;
    }
    body.size = size;
    body.edited(false);
    if size == 0 && body.writers == 0 {
        body.pending = Some(std::time::Instant::now());
    }
    Ok(())
}
