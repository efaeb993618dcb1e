//! Names that programs make, take away and change in the folder of a file.
//!
//! Only the top of such a folder can be changed; everything else answers EROFS.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::Instant;

use super::attr::Attr;
use super::desk::{Desk, State, is_reserved};
use super::draft::Tried;
use super::names::TREE;
use super::node::{Ino, Node};
use super::pen::{Caller, Pen};
use super::sheet::{Body, Paper, Sheet, Whole};
use super::write::OpenFor;
use super::{Tree, errno, locked};
use crate::error::Result;

/// The longest name.
const LONGEST_NAME: usize = 255;

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
                desk.write_access(&mut state)?;
                let lineage = desk.head(&mut state)?.0;
                let sheet = desk.sheet(Paper::Source, lineage)?;
                let mut body = locked(&sheet.body);
                body.take_room(&desk.room.budget, 0, desk.limit())?;
                let file = desk.paper(&mut state, Some(name))?;
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
        self.known.remember(Node::of_sheet(entry, sheet));
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
            desk.write_access(&mut state)?;
            if state.names.contains_key(name) {
                return Err(errno(libc::EEXIST));
            }
            let sheet = desk.sheet(Paper::Link(text), state.lineage)?;
            own(&mut locked(&sheet.body), Maker { mode: 0o777, ..maker });
            desk.put(&mut state, name, &sheet);
            sheet
        };
        let attr = desk.attr(&sheet)?;
        self.known.remember(Node::of_sheet(entry, sheet));
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
            desk.write_access(&mut state)?;
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
        self.known.remember(Node::of_sheet(entry, sheet));
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
        desk.write_access(&mut state)?;
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
            let mut state = locked(&desk.state);
            desk.write_access(&mut state)?;
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
}

/// Whether a file can have this name.
fn may_be_named(name: &OsStr) -> Result<()> {
    match () {
        () if is_reserved(name) => Err(errno(libc::EROFS)),
        () if name.len() > LONGEST_NAME => Err(errno(libc::ENAMETOOLONG)),
        () => Ok(()),
    }
}

fn own(body: &mut Body, maker: Maker) {
    body.mode = Some(maker.mode & 0o7777);
    (body.uid, body.gid) = (Some(maker.uid), Some(maker.gid));
}

/// A copy of a sheet as it is now, which nothing names yet.
fn snapshot(desk: &Desk, state: &mut State, sheet: &Arc<Sheet>, name: &OsStr) -> Result<Arc<Sheet>> {
    let attr_of = |body: &Body| (body.mode, body.uid, body.gid, body.atime, body.xattrs.clone());
    let copied = desk.sheet(Paper::Source, state.lineage)?;
    let file = desk.paper(state, Some(name))?;
    let (limit, times, saved) = (desk.limit(), desk.times(state)?, desk.saved_text()?);
    let body = locked(&sheet.body);
    let mut copy = locked(&copied.body);
    let (len, times) = match &body.paper {
        Paper::Source => (saved.len(), times),
        _ => (body.size, (body.mtime, body.ctime)),
    };
    copy.take_room(&desk.room.budget, len, limit)?;
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
        state.missing = Some(Instant::now());
    }
    desk.put(state, new_name, &sheet);
}
