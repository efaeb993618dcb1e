//! Resources that an overlay releases when no program writes: the lock, file descriptors, and finally the
//! overlay itself.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use asdf_file::edit::Editor;
use seekable::sync::{locked, locked_at_once};

use crate::overlay::file::{Backing, OverlayFile};
use crate::overlay::refusal::REJECTED;
use crate::overlay::{Overlay, OverlayState};
use crate::view::TREE;

impl Overlay {
    /// Releases the lock on the file if no program writes.
    pub(crate) fn rest(&self, editor: &mut Option<Editor>) {
        self.rest_in(&locked(&self.state), editor);
    }

    /// Releases the lock on the file if no program writes and no save is running.
    pub(crate) fn rest_if_free(&self) {
        if let Some(mut editor) = locked_at_once(&self.editor) {
            self.rest(&mut editor);
        }
    }

    pub(super) fn rest_in(&self, state: &OverlayState, editor: &mut Option<Editor>) {
        let idle = |overlay_file: &Arc<OverlayFile>| {
            let body = locked(&overlay_file.body);
            body.writers == 0 && body.is_clean()
        };
        if !state.keeps_editor && state.names.get(OsStr::new(TREE)).is_none_or(idle) {
            *editor = None;
        }
    }

    /// Removes the directory of scratch files if no name has a scratch file or is a directory, because an open directory
    /// takes up a descriptor.
    pub(crate) fn clear_scratch_dir_if_unused(&self, state: &mut OverlayState) {
        let is_there = |overlay_file: &Arc<OverlayFile>| {
            matches!(locked(&overlay_file.body).backing, Backing::File(_) | Backing::Directory)
        };
        if state.scratch_dir.is_some()
            && !state.names.values().any(is_there)
            && let (Some(scratch_dir), Some(state_dir)) = (state.scratch_dir.take(), &self.shared.state_dir)
        {
            state_dir.clear(scratch_dir);
        }
    }

    /// True once a program changed a file or opened it for writing, or the editor is kept.
    pub(crate) fn is_touched(&self) -> bool {
        locked(&self.state).touched
    }

    /// True if there is nothing but the saved text.
    pub(crate) fn is_unwritten(&self) -> bool {
        let state = locked(&self.state);
        let is_saved =
            |(name, file): (&OsString, &Arc<OverlayFile>)| name == TREE && locked(&file.body).is_clean();
        state.names.iter().all(is_saved)
    }

    /// Returns the reason why writing has not come to an end: an open writer, an unsaved text, or a refused one.
    pub(crate) fn unfinished(&self) -> Option<String> {
        let state = locked(&self.state);
        let of = format!("of {}", self.label().display());
        for (name, file) in &state.names {
            let body = locked(&file.body);
            if body.writers > 0 {
                return Some(format!("a program has {} {of} open for writing; close it", name.display()));
            }
            if name == TREE && !body.is_clean() && body.refusal().is_none() {
                return Some(format!("{TREE} {of} has unsaved changes; save them"));
            }
        }
        let refused = state.names.contains_key(OsStr::new(REJECTED));
        refused.then(|| format!("a text {of} was refused; save a correct one, or remove {REJECTED}"))
    }

    /// Drops the state of the last save, and the files that report a save or a refusal: all of them if `old`,
    /// otherwise only those that take up quota. Drops nothing if a program has a file open or has created
    /// one. Returns true if only a pristine `tree.yaml` is left, which can be recreated from the source.
    pub(crate) fn put_away(&self, old: bool) -> bool {
        let Some(mut editor) = locked_at_once(&self.editor) else { return false };
        let Some(mut state) = locked_at_once(&self.state) else { return false };
        self.rest_in(&state, &mut editor);
        if editor.is_some() || state.busy || state.closed || state.keeps_editor {
            return false;
        }
        let Some(tree) = state.names.get(OsStr::new(TREE)).cloned() else { return false };
        {
            let body = locked(&tree.body);
            if body.handles > 0 || !body.is_clean() || !body.xattrs.is_empty() {
                return false;
            }
        }
        let kept = state.last_refusal.as_ref().is_some_and(|last| last.kept_in.is_some());
        let can_go = |name: &OsStr, file: &Arc<OverlayFile>| {
            let body = locked(&file.body);
            body.generated && body.handles == 0 && (name != REJECTED || kept)
        };
        if !state.names.iter().all(|(name, file)| name == TREE || can_go(name, file)) {
            return false;
        }
        state.saved_verbatim = None;
        let takes_room = |file: &Arc<OverlayFile>| matches!(locked(&file.body).backing, Backing::File(_));
        let goes = state.names.iter().filter(|(name, file)| *name != TREE && (old || takes_room(file)));
        for name in goes.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.take(&mut state, &name);
        }
        self.make_pristine(&mut state, &tree).is_ok() && state.names.len() == 1
    }
}
