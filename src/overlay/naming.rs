//! Creating, removing and renaming names in the directory of a file.
//!
//! Only the directory itself can be changed, and the directories that programs make in it; everything else fails with EROFS.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::Instant;

use seekable::error::{Result, errno};
use seekable::sync::locked;

use crate::overlay::draft::CommitOutcome;
use crate::overlay::file::{Backing, Body, MAX_BYTES, OverlayFile, Payer, Whole, now};
use crate::overlay::paths::{NewName, is_below};
use crate::overlay::write_handle::{Caller, OpenFor, WriteHandle};
use crate::overlay::{Overlay, OverlayState};
use crate::view::TREE;

/// Owner and mode of a new file.
#[derive(Clone, Copy, Debug)]
pub struct Maker {
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permissions.
    pub mode: u32,
}

/// The mode of a rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renaming {
    /// Replaces an existing file at the new name.
    Over,
    /// Fails if the new name exists.
    NoReplace,
    /// Exchanges both names.
    Exchange,
}

impl Overlay {
    /// Creates and opens a file.
    pub(crate) fn create(
        self: &Arc<Self>,
        new: NewName<'_>,
        maker: Maker,
        open: OpenFor,
        caller: Caller,
    ) -> Result<WriteHandle> {
        let name = locked(&self.state).new_path(new)?;
        let there = locked(&self.state).names.get(&name).cloned();
        let (overlay_file, open) = match there {
            Some(_) if open.only_new => return Err(errno(libc::EEXIST)),
            Some(overlay_file) => (overlay_file, open),
            None => {
                if name == TREE {
                    self.begin()?;
                }
                let mut state = locked(&self.state);
                self.write_access(&mut state)?;
                let name = state.new_path(new)?;
                let base_version = self.head(&mut state)?.0;
                let overlay_file = self.overlay_file(base_version)?;
                let mut body = locked(&overlay_file.body);
                body.set_payer(Payer { uid: maker.uid, is_beside: name != TREE });
                body.take_room(&self.shared.quota, 0, self.limit())?;
                let file = self.backing(&mut state, Some(&name))?;
                body.backing = Backing::File(Arc::new(file));
                own(&mut body, maker);
                // Marks the text as different from the saved tree.
                body.edits = 1;
                drop(body);
                self.put(&mut state, &name, &overlay_file);
                (overlay_file, OpenFor { truncating: false, ..open })
            }
        };
        self.open(overlay_file, open, caller)
    }

    /// Creates a symbolic link.
    pub(crate) fn symlink(&self, new: NewName<'_>, text: OsString, maker: Maker) -> Result<Arc<OverlayFile>> {
        self.add(new, Backing::Link(text), Maker { mode: 0o777, ..maker })
    }

    /// Creates a directory.
    pub(crate) fn make_dir(&self, new: NewName<'_>, maker: Maker) -> Result<Arc<OverlayFile>> {
        self.add(new, Backing::Directory, maker)
    }

    /// Creates a link or a directory.
    fn add(&self, new: NewName<'_>, backing: Backing, maker: Maker) -> Result<Arc<OverlayFile>> {
        let mut state = locked(&self.state);
        self.write_access(&mut state)?;
        let path = state.free_path(new)?;
        if path == TREE {
            // `tree.yaml` must be a text.
            return Err(errno(libc::EINVAL));
        }
        let mut body = Body::new(backing, state.base_version);
        body.set_payer(Payer { uid: maker.uid, is_beside: true });
        body.take_room(&self.shared.quota, 0, MAX_BYTES)?;
        own(&mut body, maker);
        let overlay_file = self.overlay_file_with(body)?;
        if overlay_file.is_dir {
            self.follow_make_dir(&mut state, &path);
        }
        self.put(&mut state, &path, &overlay_file);
        Ok(overlay_file)
    }

    /// Removes an empty directory.
    pub(crate) fn remove_dir(&self, old: NewName<'_>) -> Result<()> {
        old.refuse_reserved()?;
        let mut state = locked(&self.state);
        self.write_access(&mut state)?;
        let path = state.path(old)?;
        if !state.names.get(&path).ok_or_else(|| errno(libc::ENOENT))?.is_dir {
            return Err(errno(libc::ENOTDIR));
        }
        if state.has_entries(&path) {
            return Err(errno(libc::ENOTEMPTY));
        }
        self.take(&mut state, &path);
        Ok(())
    }

    /// Gives a file an additional name. Returns the file behind the new name, which may be a copy. `from` is
    /// the overlay of the file; `uid` is the user that makes the link.
    ///
    /// A link to `tree.yaml` becomes a copy of its current text: programs that link it want a backup.
    pub(crate) fn link(
        &self,
        from: &Self,
        overlay_file: Arc<OverlayFile>,
        new: NewName<'_>,
        uid: u32,
    ) -> Result<Arc<OverlayFile>> {
        if from.serial != self.serial {
            return Err(errno(libc::EXDEV));
        }
        let overlay_file = {
            let mut state = locked(&self.state);
            self.write_access(&mut state)?;
            let name = state.free_path(new)?;
            if name == TREE {
                // A link is not a save; a tree is replaced by rename.
                return Err(errno(libc::EINVAL));
            }
            if overlay_file.is_dir {
                return Err(errno(libc::EPERM));
            }
            let overlay_file = if self.is_tree(&state, &overlay_file) {
                let payer = Payer { uid, is_beside: true };
                snapshot(self, &mut state, &overlay_file, &name, payer)?
            } else {
                self.put_on_disk(&mut state, &overlay_file)?;
                let mut body = locked(&overlay_file.body);
                body.nlink += 1;
                body.ctime = now();
                drop(body);
                let old = state.names.iter().find(|(_, named)| Arc::ptr_eq(named, &overlay_file));
                if let Some((old, _)) = old {
                    self.follow_link(&state, old, &name);
                }
                overlay_file
            };
            self.put(&mut state, &name, &overlay_file);
            overlay_file
        };
        Ok(overlay_file)
    }

    /// Removes a name. Removing `tree.yaml` never deletes the tree: the name comes back with the saved text,
    /// or another file takes it.
    pub(crate) fn unlink(&self, old: NewName<'_>) -> Result<()> {
        old.refuse_reserved()?;
        let mut state = locked(&self.state);
        self.write_access(&mut state)?;
        let path = state.path(old)?;
        if state.names.get(&path).is_some_and(|file| file.is_dir) {
            return Err(errno(libc::EISDIR));
        }
        self.take(&mut state, &path).map(drop).ok_or_else(|| errno(libc::ENOENT))
    }

    /// Renames a file. A text that becomes `tree.yaml` is checked and saved first; if it is refused, the
    /// rename fails.
    pub(crate) fn rename(
        &self,
        old_place: NewName<'_>,
        to: &Self,
        new_place: NewName<'_>,
        how: Renaming,
    ) -> Result<()> {
        old_place.refuse_reserved()?;
        if to.serial != self.serial {
            return Err(errno(libc::EXDEV));
        }
        let (becomes, name, new_name) = {
            let mut state = locked(&self.state);
            self.write_access(&mut state)?;
            let name = state.path(old_place)?;
            let new_name = state.new_path(new_place)?;
            // Current name of the file that becomes the tree.
            let becomes = if new_name == TREE {
                Some(name.clone())
            } else {
                (how == Renaming::Exchange && name == TREE).then(|| new_name.clone())
            };
            let old = state.names.get(&name).ok_or_else(|| errno(libc::ENOENT))?;
            let there = state.names.get(&new_name);
            match (how, there) {
                (Renaming::NoReplace, Some(_)) => return Err(errno(libc::EEXIST)),
                (Renaming::Exchange, None) => return Err(errno(libc::ENOENT)),
                // Two names of the same file: nothing to do.
                (Renaming::Over, Some(there)) if Arc::ptr_eq(old, there) => return Ok(()),
                _ => {}
            }
            if is_below(&new_name, &name) || how == Renaming::Exchange && is_below(&name, &new_name) {
                return Err(errno(libc::EINVAL));
            }
            match (how, old.is_dir, there.map(|there| there.is_dir)) {
                (Renaming::Over, true, Some(false)) => return Err(errno(libc::ENOTDIR)),
                (Renaming::Over, false, Some(true)) => return Err(errno(libc::EISDIR)),
                (Renaming::Over, _, Some(true)) if state.has_entries(&new_name) => {
                    return Err(errno(libc::ENOTEMPTY));
                }
                _ => {}
            }
            // `tree.yaml` must be a text.
            if becomes.as_ref().and_then(|becomes| state.names.get(becomes)).is_some_and(|file| file.is_dir) {
                return Err(errno(libc::EINVAL));
            }
            let renamed = [Some(old), there.filter(|_| how == Renaming::Exchange)];
            let renamed: Vec<_> = renamed.into_iter().flatten().cloned().collect();
            renamed.iter().try_for_each(|file| self.put_on_disk(&mut state, file))?;
            (becomes, name, new_name)
        };
        let apply = if how == Renaming::Exchange { exchange_names } else { move_name };
        let Some(becomes) = becomes else {
            apply(self, &mut locked(&self.state), &name, &new_name);
            return Ok(());
        };
        let mut editor = locked(&self.editor);
        let found = locked(&self.state).names.get(&becomes).cloned();
        let overlay_file = found.ok_or_else(|| errno(libc::ENOENT))?;
        let outcome = match self.attempt(&mut editor, &overlay_file, true) {
            Ok(outcome) => outcome,
            Err(error) => {
                self.rest(&mut editor);
                return Err(error);
            }
        };
        let mut state = locked(&self.state);
        // Their directories may have been renamed meanwhile.
        let name = state.path(old_place).unwrap_or(name);
        let new_name = state.path(new_place).unwrap_or(new_name);
        apply(self, &mut state, &name, &new_name);
        if outcome == CommitOutcome::Empty {
            locked(&overlay_file.body).edits += 1;
        }
        self.show_outcome(&mut state, &overlay_file, outcome)?;
        part_from_other_names(self, &mut state, &overlay_file)?;
        drop(state);
        self.show_joined(&overlay_file, 0);
        self.rest(&mut editor);
        Ok(())
    }
}

/// True if a rename may take as long as a save.
pub(crate) fn is_slow_rename(name: &OsStr, new_name: &OsStr, how: Renaming) -> bool {
    new_name == TREE || (how == Renaming::Exchange && name == TREE)
}

fn own(body: &mut Body, maker: Maker) {
    body.mode = Some(maker.mode & 0o7777);
    (body.uid, body.gid) = (Some(maker.uid), Some(maker.gid));
}

/// Creates an unnamed copy of a file's current state.
fn snapshot(
    overlay: &Overlay,
    state: &mut OverlayState,
    overlay_file: &Arc<OverlayFile>,
    name: &OsStr,
    payer: Payer,
) -> Result<Arc<OverlayFile>> {
    let attr_of = |body: &Body| (body.mode, body.uid, body.gid, body.atime, body.xattrs.clone());
    let mut copy = Body::new(Backing::Source, state.base_version);
    copy.set_payer(payer);
    let limit = overlay.limit();
    let times = overlay.times(state)?;
    let saved = overlay.saved_text()?;
    let body = locked(&overlay_file.body);
    let (len, times) = match &body.backing {
        Backing::Source => (saved.len(), times),
        _ => (body.size, (body.mtime, body.ctime)),
    };
    copy.take_room(&overlay.shared.quota, len, limit)?;
    let file = match &body.backing {
        Backing::Source => overlay.filled(state, Some(name), &*saved)?,
        Backing::File(own) => overlay.filled(state, Some(name), &Whole(own, len))?,
        Backing::Text(_) | Backing::Link(_) | Backing::Directory => return Err(errno(libc::EINVAL)),
    };
    copy.backing = Backing::File(Arc::new(file));
    copy.size = len;
    (copy.mtime, copy.ctime) = times;
    (copy.mode, copy.uid, copy.gid, copy.atime, copy.xattrs) = attr_of(&body);
    drop(body);
    overlay.overlay_file_with(copy)
}

/// Gives copies to the other names of a file that has become the tree, so that changes through these names do
/// not change the tree.
fn part_from_other_names(
    overlay: &Overlay,
    state: &mut OverlayState,
    overlay_file: &Arc<OverlayFile>,
) -> Result<()> {
    let others: Vec<OsString> = state
        .names
        .iter()
        .filter(|(name, named)| *name != TREE && Arc::ptr_eq(named, overlay_file))
        .map(|(name, _)| name.clone())
        .collect();
    for name in others {
        let payer = Payer { is_beside: true, ..locked(&overlay_file.body).payer };
        let copy = snapshot(overlay, state, overlay_file, &name, payer)?;
        state.names.insert(name, copy);
        let mut body = locked(&overlay_file.body);
        body.nlink = body.nlink.saturating_sub(1).max(1);
    }
    Ok(())
}

/// Exchanges two names. No text of the two files may be in memory (`put_on_disk`).
fn exchange_names(overlay: &Overlay, state: &mut OverlayState, name: &OsStr, other: &OsStr) {
    let one = state.names.get(name).cloned();
    let two = state.names.get(other).cloned();
    if let (Some(one), Some(two)) = (one, two) {
        let below_one = state.take_below(name);
        let below_two = state.take_below(other);
        overlay.put(state, name, &two);
        overlay.put(state, other, &one);
        state.put_below(name, below_two);
        state.put_below(other, below_one);
        overlay.follow_rename(state, name, other, true);
    }
}

/// Moves a name. The file's text may not be in memory (`put_on_disk`).
fn move_name(overlay: &Overlay, state: &mut OverlayState, name: &OsStr, new_name: &OsStr) {
    let Some(overlay_file) = state.names.get(name).cloned() else { return };
    overlay.follow_rename(state, name, new_name, false);
    if let Some(gone) = state.names.get(new_name).cloned() {
        let mut body = locked(&gone.body);
        body.nlink = body.nlink.saturating_sub(1);
        body.ctime = now();
        body.give_back_if_gone();
    }
    state.names.remove(name);
    state.note_change(name);
    if name == TREE {
        state.missing = Some(Instant::now());
    }
    let below = state.take_below(name);
    state.put_below(new_name, below);
    overlay.put(state, new_name, &overlay_file);
}
