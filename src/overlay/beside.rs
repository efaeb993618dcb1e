//! The treatment of files beside `tree.yaml` at the end of a mount.
//!
//! During the mount they are in the state directory. All files that are not empty stay there, except
//!
//! - a file with the bytes of the saved tree;
//! - an editor's lock: `.#NAME` (emacs, joe, mcedit: a link, or a file where links are not possible),
//!   `.~lock.NAME#` (LibreOffice);
//! - an editor's swap file: `.NAME.swp`, `.swo` … (vim; nano's lock has the same name), `.NAME.kate-swp`. A
//!   vim swap file is kept if it is marked as having unsaved changes.
//!
//! A directory stays as a whole if a file in it does.
//!
//! Emergency and automatic copies of editors thus stay, as they hold unsaved work (`#NAME#`, `NAME.save`,
//! `DEADJOE`). Backups stay as well, as they hold an older save (`NAME~`, `NAME.bak`, `NAME.orig`).

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seekable::error::Result;
use seekable::sync::locked;

use crate::overlay::file::{Backing, OverlayFile, Whole, copy};
use crate::overlay::paths::{is_below, top};
use crate::overlay::refusal::REJECTED;
use crate::overlay::state_dir::leftovers::is_vim_swap;
use crate::overlay::state_dir::report::listed;
use crate::overlay::state_dir::{ScratchDir, StateDir};
use crate::overlay::{Overlay, OverlayState};
use crate::view::TREE;

/// Offset and value of the flag for unsaved changes in vim's swap file (`b0_fname[B0_FNAME_SIZE_ORG - 1]` and
/// `B0_DIRTY` of memline.c).
const VIM_DIRTY_AT: u64 = 1007;
const VIM_DIRTY: u8 = 0x55;
/// The magic of vim's swap file.
const VIM_MAGIC: &[u8] = b"b0VIM";

impl Overlay {
    /// Keeps the files beside `tree.yaml` that are worth keeping, and removes all others.
    pub(super) fn keep_beside(&self, state: &mut OverlayState, scratch_dir: Option<ScratchDir>) {
        let label = self.label();
        let worth = self.files_beside(state);
        let names = || listed(worth.iter().map(|file| &*file.path));
        match (&self.shared.state_dir, scratch_dir) {
            (None, _) if worth.is_empty() => {}
            (None, _) => {
                tracing::error!(
                    "{}: {} beside tree.yaml can't be kept: there is no state directory",
                    label.display(),
                    names()
                );
            }
            (Some(_), None) if worth.is_empty() => {}
            (Some(state_dir), Some(scratch_dir)) if worth.is_empty() => state_dir.clear(scratch_dir),
            (Some(state_dir), scratch_dir) => match self.keep_files(state_dir, scratch_dir, &worth) {
                Ok(dir) => {
                    state_dir.tell(format!(
                        "{}: files made beside tree.yaml are kept: {} in {}",
                        label.display(),
                        names(),
                        dir.display()
                    ));
                    for file in worth.iter().filter(|file| is_vim_swap(name_of(&file.path))) {
                        let swap = dir.join(&file.path);
                        state_dir.tell(format!(
                            "{}: vim had changes that were not saved: recover them with 'vim -r {}'",
                            label.display(),
                            swap.display()
                        ));
                    }
                }
                Err(error) => {
                    tracing::error!(
                        "{}: {} beside tree.yaml can't be kept: {error}",
                        label.display(),
                        names()
                    );
                }
            },
        }
    }

    /// Describes the files that would be lost if the mount ended now, as the state directory can't take them.
    pub(crate) fn unkept(&self) -> Option<String> {
        let state = locked(&self.state);
        if state.closed {
            return None;
        }
        let is_on_disk = |name: &OsStr, file: &File| {
            state.scratch_dir.as_ref().is_some_and(|scratch_dir| scratch_dir.has(name, file))
        };
        let mut room = self.shared.state_dir.as_ref().map_or(0, |state_dir| state_dir.room());
        let mut lost = Vec::new();
        let mut files = self.files_beside(&state);
        if let Some(tree) = state.names.get(OsStr::new(TREE))
            && let Some((file, size)) = self.worth_keeping(&state, OsStr::new(TREE), tree)
        {
            let body = locked(&tree.body);
            if !body.is_clean() && body.refusal().is_none() {
                files.push(FileBeside { path: TREE.into(), file, size });
            }
        }
        for FileBeside { path, file, size } in files {
            match room.checked_sub(size) {
                _ if is_on_disk(&path, &file) => {}
                Some(rest) => room = rest,
                None => lost.push(path),
            }
        }
        let why = match &self.shared.state_dir {
            Some(_) => "there is no space in the state directory",
            None => "there is no state directory",
        };
        let lost = (!lost.is_empty()).then(|| listed(lost.iter().map(|path| &**path)))?;
        Some(format!("{}: {lost} could not be kept: {why}", self.label().display()))
    }

    /// Returns the files beside `tree.yaml` that are worth keeping, and all others in the same directories.
    fn files_beside(&self, state: &OverlayState) -> Vec<FileBeside> {
        let files = || state.names.iter().filter(|(path, _)| *path != TREE);
        let is_worth =
            |path: &OsStr, file: &Arc<OverlayFile>| self.worth_keeping(state, path, file).is_some();
        let tops: HashSet<&OsStr> = files()
            .filter(|(path, file)| top(path).len() < path.len() && is_worth(path, file))
            .map(|(path, _)| top(path))
            .collect();
        let kept = |(path, overlay_file): (&OsString, &Arc<OverlayFile>)| {
            let (file, size) = if tops.contains(top(path)) {
                let body = locked(&overlay_file.body);
                let Backing::File(file) = &body.backing else { return None };
                (file.clone(), body.size)
            } else {
                self.worth_keeping(state, path, overlay_file)?
            };
            Some(FileBeside { path: path.clone(), file, size })
        };
        files().filter_map(kept).collect()
    }

    /// Returns the scratch file of an overlay file that is worth keeping, and its size.
    fn worth_keeping(
        &self,
        state: &OverlayState,
        name: &OsStr,
        overlay_file: &Arc<OverlayFile>,
    ) -> Option<(Arc<File>, u64)> {
        let body = locked(&overlay_file.body);
        let Backing::File(file) = &body.backing else { return None };
        let is_kept_elsewhere = || {
            let last = state.last_refusal.as_ref();
            body.generated && (name != REJECTED || last.is_some_and(|last| last.kept_in.is_some()))
        };
        if body.size == 0 || is_kept_elsewhere() || is_editors_own(name_of(name), file) {
            return None;
        }
        let is_saved = self.saved_text().and_then(|saved| body.same_as(&*saved)).unwrap_or(false);
        let is_written = state.is_saved_verbatim(&body).unwrap_or(false);
        (!is_saved && !is_written).then(|| (file.clone(), body.size))
    }

    /// Turns the scratch directory into a directory that stays after the mount, with exactly these files.
    fn keep_files(
        &self,
        state_dir: &StateDir,
        scratch_dir: Option<ScratchDir>,
        worth: &[FileBeside],
    ) -> Result<PathBuf> {
        let scratch_dir = scratch_dir.filter(|scratch_dir| !scratch_dir.is_gone());
        let scratch_dir = scratch_dir.map_or_else(|| state_dir.scratch_dir(&self.stem()), Ok)?;
        for FileBeside { path, file, size } in worth {
            // A file that does not have its name in the scratch directory is copied there.
            if scratch_dir.has(path, file) {
                file.sync_data()?
            } else {
                let copied = scratch_dir.file(Some(path))?;
                copy(&Whole(file, *size), &copied)?;
                copied.sync_data()?;
            }
        }
        scratch_dir.retain(|name| worth.iter().any(|kept| kept.path == name || is_below(&kept.path, name)));
        state_dir.keep_scratch_dir(&scratch_dir, &self.stem())
    }
}

/// A file beside `tree.yaml` that is worth keeping.
struct FileBeside {
    path: OsString,
    file: Arc<File>,
    size: u64,
}

/// Returns the last name of a path.
fn name_of(path: &OsStr) -> &OsStr {
    Path::new(path).file_name().unwrap_or(path)
}

/// True for an editor's swap or lock file that is not worth keeping.
fn is_editors_own(name: &OsStr, file: &File) -> bool {
    let name = name.as_bytes();
    let is = |start: &[u8], end: &[u8]| {
        name.len() > start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
    };
    let is_lock = is(b".#", b"") || is(b".~lock.", b"#") || is(b".", b".kate-swp");
    is_lock || (is_vim_swap(OsStr::from_bytes(name)) && !has_changes(file))
}

/// True if vim's swap file is marked as having unsaved changes.
fn has_changes(swap: &File) -> bool {
    let mut start = [0; VIM_MAGIC.len()];
    let mut dirty = [0];
    swap.read_exact_at(&mut start, 0).is_ok()
        && start == VIM_MAGIC
        && swap.read_exact_at(&mut dirty, VIM_DIRTY_AT).is_ok()
        && dirty == [VIM_DIRTY]
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn swap_and_lock_files_are_told_by_their_names_and_vims_by_what_it_says() {
        let file = |bytes: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(bytes).unwrap();
            file
        };
        let plain = file(b"text");
        let mut swap = vec![0; 4096];
        swap[..5].copy_from_slice(VIM_MAGIC);
        let clean = file(&swap);
        swap[VIM_DIRTY_AT as usize] = VIM_DIRTY;
        let dirty = file(&swap);
        for name in [
            ".tree.yaml.swp",
            ".tree.yaml.swo",
            ".tree.yaml.svz",
            ".#tree.yaml",
            ".~lock.tree.yaml#",
            ".tree.yaml.kate-swp",
        ] {
            assert!(is_editors_own(OsStr::new(name), &plain), "{name}");
        }
        let vims = OsStr::new(".tree.yaml.swp");
        assert!(is_editors_own(vims, &clean) && !is_editors_own(vims, &dirty));
        for name in [
            "notes.txt",
            "tree.yaml~",
            "#tree.yaml#",
            "DEADJOE",
            "tree.yaml.save",
            "tree.yaml.orig",
            ".tree.yaml.un~",
            "tree.yaml.swp",
            ".swp",
            ".x.sxp",
            ".#",
        ] {
            assert!(!is_editors_own(OsStr::new(name), &dirty), "{name}");
        }
    }
}
