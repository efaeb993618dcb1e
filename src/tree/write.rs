//! What programs change in the folder of a file: `tree.yaml`, and the files beside it.
//!
//! Only the top of such a folder can be written; everything else answers EROFS.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use super::attr::{Attr, Time};
use super::desk::{Desk, State, is_reserved};
use super::draft::{Caller, Pen, Tried};
use super::mirror::{Class, Entry};
use super::names::TREE;
use super::node::{Ino, Node};
use super::open::Reader;
use super::sheet::{Paper, Sheet, Whole, now, time_of};
use super::volume::Volume;
use super::{Tree, errno, locked};
use crate::error::Result;
use crate::view::status::Writing;

/// The longest name.
const LONGEST_NAME: usize = 255;
/// Bytes of all extended attributes of one file.
const MOST_XATTRS: usize = 64 << 10;

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

/// Who makes a file, and how.
#[derive(Clone, Copy, Debug)]
pub struct Maker {
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permissions.
    pub mode: u32,
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

/// How a name is to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renaming {
    /// What has the new name gives way.
    Over,
    /// The new name must be free.
    NoReplace,
    /// Both change their names.
    Exchange,
}

impl Tree {
    /// Whether nothing can be written in the mount.
    pub fn is_read_only(&self) -> bool {
        self.room.is_none()
    }

    /// What can't be written although that was asked for, in one line; `None` where all can.
    pub fn remark(&self) -> Option<String> {
        let what = self.unwritable.as_deref()?;
        Some(if self.is_read_only() { format!("{what}: the mount is read-only") } else { what.to_owned() })
    }

    /// How long the kernel may believe what it was told of a node: of files that can be written not at
    /// all.
    pub fn ttl(&self, ino: Ino) -> std::time::Duration {
        match self.node(ino) {
            Ok((Node::Sheet(..), _)) => std::time::Duration::ZERO,
            _ => super::TTL,
        }
    }

    /// Whether names may come into a directory without the kernel's doing, at any time.
    pub fn changes_by_itself(&self, ino: Ino) -> bool {
        self.can_be_written(ino)
    }

    /// Whether a file can be written, or a directory changed, as far as its permissions allow.
    pub fn can_be_written(&self, ino: Ino) -> bool {
        match self.node(ino) {
            Ok((Node::Sheet(..), _)) => true,
            Ok((Node::Entry(entry), _)) => self.desk(&entry).is_ok_and(|desk| desk.is_some()),
            _ => false,
        }
    }

    /// Keeps a folder until the mount ends.
    pub(crate) fn keep_written(&self, entry: &Arc<Entry>) {
        locked(&self.written).entry(entry.serial).or_insert_with(|| entry.clone());
    }

    /// Whether and how the file behind a folder is written.
    pub(crate) fn writing(&self, volume: &Volume) -> Writing {
        let label = volume.label();
        let of = |entry: &Arc<Entry>| match &entry.class {
            Class::Folder(folder) if entry.place.spot.label() == label => folder.used_desk(),
            _ => None,
        };
        let desk = locked(&self.written).values().find_map(of);
        let because = match (&desk, &self.room) {
            (Some(desk), _) => return desk.writing(),
            (None, None) => self.unwritable.as_deref().unwrap_or("the mount is read-only"),
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
        let written: Vec<_> = locked(&self.written).values().cloned().collect();
        for entry in written {
            if let Class::Folder(folder) = &entry.class
                && let Some(desk) = folder.used_desk()
            {
                desk.close();
            }
        }
    }

    /// The desk of a directory in which something is to change.
    fn desk_in(&self, parent: Ino) -> Result<(Arc<Entry>, Arc<Desk>)> {
        match self.node(parent)? {
            (Node::Entry(entry), _) => match self.desk(&entry)? {
                Some(desk) => {
                    self.keep_written(&entry);
                    Ok((entry, desk))
                }
                None => Err(errno(libc::EROFS)),
            },
            _ => Err(errno(libc::EROFS)),
        }
    }

    /// The sheet that is to change.
    fn sheet_of(&self, ino: Ino) -> Result<(Arc<Entry>, Arc<Desk>, Arc<Sheet>)> {
        let (Node::Sheet(entry, sheet), _) = self.node(ino)? else { return Err(errno(libc::EROFS)) };
        let desk = self.desk(&entry)?.ok_or_else(|| errno(libc::EROFS))?;
        Ok((entry, desk, sheet))
    }

    /// Opens a file.
    pub fn open_for(&self, ino: Ino, open: OpenFor, caller: Caller) -> Result<Opened> {
        let (entry, sheet): (Arc<Entry>, Arc<Sheet>) = match self.node(ino)? {
            (Node::Sheet(entry, sheet), _) => (entry, sheet),
            _ if open.writing || open.truncating => return Err(errno(libc::EROFS)),
            _ => return Ok(Opened::Reader(self.open(ino)?)),
        };
        let desk = self.desk(&entry)?.ok_or_else(|| errno(libc::EROFS))?;
        if open.writing || open.truncating {
            self.keep_written(&entry);
        }
        self.pen(entry, desk, sheet, open, caller).map(Opened::Pen)
    }

    fn pen(
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
            desk.write_access(&state)?;
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
            _entry: entry,
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

    /// Makes a file and opens it; its number is handed out with that.
    pub fn create(
        &self,
        parent: Ino,
        name: &OsStr,
        maker: Maker,
        open: OpenFor,
        caller: Caller,
    ) -> Result<(Attr, Pen)> {
        let (entry, desk) = self.desk_in(parent)?;
        may_be_named(name)?;
        let there = locked(&desk.state).names.get(name).cloned();
        let (sheet, open) = match there {
            Some(_) if open.only_new => return Err(errno(libc::EEXIST)),
            Some(sheet) => (sheet, open),
            None => {
                if name == TREE {
                    desk.begin()?;
                }
                let mut state = locked(&desk.state);
                desk.write_access(&state)?;
                let lineage = desk.head(&mut state)?.0;
                let sheet = desk.sheet(Paper::Source, lineage)?;
                let file = desk.paper(&mut state, Some(name))?;
                let mut body = locked(&sheet.body);
                body.paper = Paper::File(Arc::new(file));
                own(&mut body, maker);
                // What is in it is not the tree.
                body.edits = 1;
                drop(body);
                desk.put(&mut state, name, &sheet);
                (sheet, OpenFor { truncating: false, ..open })
            }
        };
        let pen = self.pen(entry.clone(), desk.clone(), sheet.clone(), open, caller)?;
        let attr = desk.attr(&sheet)?;
        self.known.remember(Node::Sheet(entry, sheet));
        Ok((attr, pen))
    }

    /// Makes a symbolic link; its number is handed out with that.
    pub fn symlink(&self, parent: Ino, name: &OsStr, text: OsString, maker: Maker) -> Result<Attr> {
        let (entry, desk) = self.desk_in(parent)?;
        may_be_named(name)?;
        if name == TREE {
            // The tree is a text, and not where one might be.
            return Err(errno(libc::EINVAL));
        }
        let sheet = {
            let mut state = locked(&desk.state);
            desk.write_access(&state)?;
            if state.names.contains_key(name) {
                return Err(errno(libc::EEXIST));
            }
            let sheet = desk.sheet(Paper::Link(text), state.lineage)?;
            own(&mut locked(&sheet.body), Maker { mode: 0o777, ..maker });
            desk.put(&mut state, name, &sheet);
            sheet
        };
        let attr = desk.attr(&sheet)?;
        self.known.remember(Node::Sheet(entry, sheet));
        Ok(attr)
    }

    /// Gives a file one more name; its number, or that of a copy, is handed out with that.
    ///
    /// Another name for `tree.yaml` is a copy of what it is now: programs that link it want a backup.
    pub fn link(&self, ino: Ino, parent: Ino, name: &OsStr) -> Result<Attr> {
        let (_, from, sheet) = self.sheet_of(ino)?;
        let (entry, desk) = self.desk_in(parent)?;
        may_be_named(name)?;
        if !Arc::ptr_eq(&from, &desk) {
            return Err(errno(libc::EXDEV));
        }
        let sheet = {
            let mut state = locked(&desk.state);
            desk.write_access(&state)?;
            if state.names.contains_key(name) {
                return Err(errno(libc::EEXIST));
            }
            if name == TREE {
                // A link is not a save; the tree comes by rename.
                return Err(errno(libc::EINVAL));
            }
            let sheet = match desk.is_tree(&state, &sheet) {
                true => snapshot(&desk, &mut state, &sheet, name)?,
                false => {
                    locked(&sheet.body).nlink += 1;
                    let old = state.names.iter().find(|(_, named)| Arc::ptr_eq(named, &sheet));
                    if let Some((old, _)) = old {
                        desk.follow_link(&state, old, name);
                    }
                    sheet
                }
            };
            desk.put(&mut state, name, &sheet);
            sheet
        };
        let attr = desk.attr(&sheet)?;
        self.known.remember(Node::Sheet(entry, sheet));
        Ok(attr)
    }

    /// Takes a name away. For `tree.yaml` that is never the end of the tree: it comes back, or another
    /// text takes its place.
    pub fn unlink(&self, parent: Ino, name: &OsStr) -> Result<()> {
        let (_, desk) = self.desk_in(parent)?;
        if is_reserved(name) {
            return Err(errno(libc::EROFS));
        }
        let mut state = locked(&desk.state);
        desk.write_access(&state)?;
        desk.take(&mut state, name).map(drop).ok_or_else(|| errno(libc::ENOENT))
    }

    /// Whether a renaming may take as long as a save.
    pub fn is_slow_rename(&self, name: &OsStr, new_name: &OsStr, how: Renaming) -> bool {
        new_name == TREE || (how == Renaming::Exchange && name == TREE)
    }

    /// Changes the name of a file. One that is to be `tree.yaml` is tried as a save first.
    pub fn rename(
        &self,
        parent: Ino,
        name: &OsStr,
        new_parent: Ino,
        new_name: &OsStr,
        how: Renaming,
    ) -> Result<()> {
        let (_, desk) = self.desk_in(parent)?;
        let (_, other) = self.desk_in(new_parent)?;
        if is_reserved(name) || is_reserved(new_name) {
            return Err(errno(libc::EROFS));
        }
        may_be_named(new_name)?;
        if !Arc::ptr_eq(&desk, &other) {
            return Err(errno(libc::EXDEV));
        }
        // The sheet that is to be the tree.
        let becomes = match () {
            () if new_name == TREE => Some(name),
            () if how == Renaming::Exchange && name == TREE => Some(new_name),
            () => None,
        };
        {
            let state = locked(&desk.state);
            desk.write_access(&state)?;
            let old = state.names.get(name).ok_or_else(|| errno(libc::ENOENT))?;
            let there = state.names.get(new_name);
            match (how, there) {
                (Renaming::NoReplace, Some(_)) => return Err(errno(libc::EEXIST)),
                (Renaming::Exchange, None) => return Err(errno(libc::ENOENT)),
                // Two names of one file: nothing is to be done.
                (Renaming::Over, Some(there)) if Arc::ptr_eq(old, there) => return Ok(()),
                _ => {}
            }
        }
        let Some(becomes) = becomes else {
            move_name(&desk, &mut locked(&desk.state), name, new_name, how);
            return Ok(());
        };
        let mut saver = locked(&desk.saver);
        let found = locked(&desk.state).names.get(becomes).cloned();
        let sheet = found.ok_or_else(|| errno(libc::ENOENT))?;
        let tried = match desk.attempt(&mut saver, &sheet, true) {
            Ok(tried) => tried,
            Err(error) => {
                desk.rest(&mut saver);
                return Err(error);
            }
        };
        let mut state = locked(&desk.state);
        move_name(&desk, &mut state, name, new_name, how);
        if tried == Tried::Empty {
            locked(&sheet.body).edits += 1;
        }
        desk.settle(&mut state, &sheet, tried)?;
        part_from_other_names(&desk, &mut state, &sheet)?;
        drop(state);
        desk.rest(&mut saver);
        Ok(())
    }

    /// Changes what is said of a file, or how long it is; `pen` is the handle by which it is done.
    pub fn change(&self, ino: Ino, change: Change, pen: Option<&Pen>) -> Result<Attr> {
        let (entry, desk, sheet) = self.sheet_of(ino)?;
        self.keep_written(&entry);
        if change.size.is_some() && pen.is_none() && desk.is_tree(&locked(&desk.state), &sheet) {
            desk.begin()?;
        }
        let mut state = locked(&desk.state);
        desk.write_access(&state)?;
        if let Some(size) = change.size {
            if let Some(pen) = pen {
                pen.begin_text(&mut state, size > 0)?;
            }
            resize(&desk, &mut state, &sheet, size)?;
            if let Some(pen) = pen {
                pen.wrote.store(true, std::sync::atomic::Ordering::Relaxed);
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
                    state.shown = Some(super::desk::Shown { identity, mtime, ctime });
                }
                _ => (body.mtime, body.ctime) = (mtime, ctime),
            }
        }
        drop(body);
        drop(state);
        desk.attr(&sheet)
    }

    /// Sets or, without a value, removes an extended attribute, as on any file; they are held for as
    /// long as the mount. `exists` is what must hold of it before.
    pub fn set_xattr(
        &self,
        ino: Ino,
        name: &OsStr,
        value: Option<&[u8]>,
        exists: Option<bool>,
    ) -> Result<()> {
        let (entry, desk, sheet) = self.sheet_of(ino)?;
        // POSIX ACLs above all: who asks for one to be set must not believe that it was.
        if !name.as_bytes().starts_with(b"user.") {
            return Err(errno(libc::EOPNOTSUPP));
        }
        self.keep_written(&entry);
        let _state = locked(&desk.state);
        let mut body = locked(&sheet.body);
        let there = body.xattrs.contains_key(name);
        match (exists, there, value) {
            (Some(true), false, _) | (_, false, None) => return Err(errno(libc::ENODATA)),
            (Some(false), true, _) => return Err(errno(libc::EEXIST)),
            _ => {}
        }
        body.xattrs.remove(name);
        if let Some(value) = value {
            let taken: usize = body.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
            if taken.saturating_add(name.len()).saturating_add(value.len()) > MOST_XATTRS {
                return Err(errno(libc::ENOSPC));
            }
            body.xattrs.insert(name.to_owned(), value.to_owned());
        }
        Ok(())
    }
}

/// Whether a file can have this name.
fn may_be_named(name: &OsStr) -> Result<()> {
    match () {
        () if is_reserved(name) => Err(errno(libc::EROFS)),
        () if name.len() > LONGEST_NAME => Err(errno(libc::ENAMETOOLONG)),
        () => Ok(()),
    }
}

fn own(body: &mut super::sheet::Body, maker: Maker) {
    body.mode = Some(maker.mode & 0o7777);
    (body.uid, body.gid) = (Some(maker.uid), Some(maker.gid));
}

/// Cuts or lengthens a sheet's text.
fn resize(desk: &Desk, state: &mut State, sheet: &Arc<Sheet>, size: u64) -> Result<()> {
    desk.own_paper(state, sheet, size > 0)?;
    let limit = desk.limit();
    let mut body = locked(&sheet.body);
    if size > i64::MAX as u64 {
        return Err(errno(libc::EFBIG));
    }
    body.take_room(size, limit)?;
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

/// A copy of a sheet as it is now, which nothing names yet.
fn snapshot(desk: &Desk, state: &mut State, sheet: &Arc<Sheet>, name: &OsStr) -> Result<Arc<Sheet>> {
    let attr_of =
        |body: &super::sheet::Body| (body.mode, body.uid, body.gid, body.atime, body.xattrs.clone());
    let copied = desk.sheet(Paper::Source, state.lineage)?;
    let file = desk.paper(state, Some(name))?;
    let (limit, times, saved) = (desk.limit(), desk.times(state)?, desk.saved_text()?);
    let body = locked(&sheet.body);
    let mut copy = locked(&copied.body);
    let (len, times) = match &body.paper {
        Paper::Source => (saved.len(), times),
        _ => (body.size, (body.mtime, body.ctime)),
    };
    copy.take_room(len, limit)?;
    match &body.paper {
        Paper::Source => super::sheet::copy(&*saved, &file)?,
        Paper::File(own) => super::sheet::copy(&Whole(own, len), &file)?,
        Paper::Link(_) => return Err(errno(libc::EINVAL)),
    }
    copy.paper = Paper::File(Arc::new(file));
    copy.size = len;
    (copy.mtime, copy.ctime) = times;
    (copy.mode, copy.uid, copy.gid, copy.atime, copy.xattrs) = attr_of(&body);
    drop(copy);
    drop(body);
    Ok(copied)
}

/// Other names of what has become the tree are copies from now on: no change of theirs is one of the
/// tree.
fn part_from_other_names(desk: &Desk, state: &mut State, sheet: &Arc<Sheet>) -> Result<()> {
    let others: Vec<OsString> = state
        .names
        .iter()
        .filter(|(name, named)| *name != TREE && Arc::ptr_eq(named, sheet))
        .map(|(name, _)| name.clone())
        .collect();
    for name in others {
        let copy = snapshot(desk, state, sheet, &name)?;
        state.names.insert(name, copy);
        let mut body = locked(&sheet.body);
        body.nlink = body.nlink.saturating_sub(1).max(1);
    }
    Ok(())
}

/// Moves names; what they stand for was seen to.
fn move_name(desk: &Desk, state: &mut State, name: &OsStr, new_name: &OsStr, how: Renaming) {
    if how == Renaming::Exchange {
        let (one, two) = (state.names.get(name).cloned(), state.names.get(new_name).cloned());
        if let (Some(one), Some(two)) = (one, two) {
            desk.put(state, name, &two);
            desk.put(state, new_name, &one);
            desk.follow_rename(state, name, new_name, true);
        }
        return;
    }
    let Some(sheet) = state.names.get(name).cloned() else { return };
    desk.follow_rename(state, name, new_name, false);
    if let Some(gone) = state.names.get(new_name).cloned() {
        let mut body = locked(&gone.body);
        body.nlink = body.nlink.saturating_sub(1);
        body.free_if_gone();
    }
    state.names.remove(name);
    if name == TREE {
        state.missing = Some(std::time::Instant::now());
    }
    desk.put(state, new_name, &sheet);
}
