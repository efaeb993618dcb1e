//! The pristine file, which shows the source, and the return of `tree.yaml` to that state.
//!
//! A tree is never deleted. A `tree.yaml` that was deleted, or left empty by its last writer, comes back
//! after [`GONE`]. Each lookup, listing and stat checks this, so that no timer thread is needed.

use std::ffi::OsStr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use asdf_access::local::stat::Time;
use seekable::content::Content;
use seekable::error::Result;
use seekable::source::storage::close_later;
use seekable::sync::{locked, locked_at_once};

use crate::overlay::file::{Backing, OverlayFile, now};
use crate::overlay::{Overlay, OverlayState};
use crate::view::TREE;

/// Time after which a `tree.yaml` that was removed, renamed or left empty shows the saved text again. It is
/// longer than any program needs between these steps and writing the new text.
const GONE: Duration = Duration::from_secs(10);

impl Overlay {
    /// Gives the pristine file a scratch file, unless it is `except`.
    pub(crate) fn copy_up_pristine(
        &self,
        state: &mut OverlayState,
        except: Option<&Arc<OverlayFile>>,
    ) -> Result<()> {
        let Some(pristine) = state.pristine.upgrade() else { return Ok(()) };
        if except.is_some_and(|except| Arc::ptr_eq(except, &pristine)) {
            return Ok(());
        }
        self.copy_up(state, &pristine, true)?;
        state.pristine = Weak::new();
        Ok(())
    }

    /// Gives a file that shows the source, or is in memory, a scratch file: with its text, or empty.
    pub(crate) fn copy_up(
        &self,
        state: &mut OverlayState,
        overlay_file: &Arc<OverlayFile>,
        with_text: bool,
    ) -> Result<()> {
        self.put_on_disk(state, overlay_file)?;
        if !matches!(locked(&overlay_file.body).backing, Backing::Source) {
            return Ok(());
        }
        let times = self.times(state)?;
        let limit = self.limit();
        let name = state
            .names
            .iter()
            .find(|(_, named)| Arc::ptr_eq(named, overlay_file))
            .map(|(name, _)| name.clone());
        let text = if with_text { Some(self.saved_text()?) } else { None };
        let base_version = self.head(state)?.0;
        let mut body = locked(&overlay_file.body);
        let len = text.as_ref().map_or(0, |text| text.len());
        body.take_room(&self.shared.quota, len, limit)?;
        let file = match &text {
            Some(text) => self.filled(state, name.as_deref(), &**text)?,
            None => self.backing(state, name.as_deref())?,
        };
        body.backing = Backing::File(Arc::new(file));
        body.size = len;
        body.base_version = base_version;
        (body.mtime, body.ctime) = times;
        body.saved = body.edits;
        Ok(())
    }

    /// Moves the text of a file from memory to a scratch file.
    pub(crate) fn put_on_disk(
        &self,
        state: &mut OverlayState,
        overlay_file: &Arc<OverlayFile>,
    ) -> Result<()> {
        let mut body = locked(&overlay_file.body);
        let Backing::Text(text) = &body.backing else { return Ok(()) };
        let text = text.clone();
        let named = state.names.iter().find(|(_, named)| Arc::ptr_eq(named, overlay_file));
        let name = named.map(|(name, _)| name.clone());
        body.take_room(&self.shared.quota, text.len(), self.limit())?;
        let file = self.filled(state, name.as_deref(), &text)?;
        body.backing = Backing::File(Arc::new(file));
        Ok(())
    }

    /// Makes a file the pristine one, which shows the source.
    pub(crate) fn make_pristine(
        &self,
        state: &mut OverlayState,
        overlay_file: &Arc<OverlayFile>,
    ) -> Result<()> {
        self.copy_up_pristine(state, Some(overlay_file))?;
        let mut body = locked(&overlay_file.body);
        let backing = body.show_source();
        body.saved = body.edits;
        (body.refused, body.cut, body.pending, body.mapped) = (None, None, None, false);
        drop(body);
        state.pristine = Arc::downgrade(overlay_file);
        if self.is_tree(state, overlay_file)
            && let Some(scratch_dir) = &state.scratch_dir
        {
            scratch_dir.remove(OsStr::new(TREE));
        }
        self.clear_scratch_dir_if_unused(state);
        if let Backing::File(file) = backing {
            close_later(file);
        }
        Ok(())
    }

    /// Restores a missing `tree.yaml`.
    pub(crate) fn restore(&self, state: &mut OverlayState) -> Result<()> {
        if state.names.contains_key(OsStr::new(TREE)) {
            return Ok(());
        }
        let overlay_file = self.overlay_file(state.base_version)?;
        state.names.insert(TREE.into(), overlay_file.clone());
        state.missing = None;
        state.changed = Some(now());
        self.show_saved(state, &overlay_file)
    }

    /// Restores the saved text after [`GONE`], or after another program changed the source.
    pub(super) fn tidy(&self, state: &mut OverlayState) {
        if state.busy || state.closed {
            return;
        }
        let Some(tree) = state.names.get(OsStr::new(TREE)).cloned() else {
            if state.missing.is_none_or(|since| since.elapsed() > GONE) {
                tracing::info!(
                    "{}: tree.yaml was removed: the saved text is restored",
                    self.label().display()
                );
                let _ = self.restore(state).inspect_err(|error| tracing::warn!("{error}"));
            }
            return;
        };
        let (late, outdated, size) = {
            let body = locked(&tree.body);
            let late = body.pending.is_some_and(|since| since.elapsed() > GONE) && body.writers == 0;
            let own = matches!(body.backing, Backing::File(_)) && body.is_clean() && body.writers == 0;
            (late, own && !self.as_saved(state), body.size)
        };
        if late && size == 0 {
            tracing::warn!(
                "{}: tree.yaml was left empty: the saved text is restored",
                self.label().display()
            );
        } else if late {
            self.keep_unfinished(state, &tree);
        }
        if late || outdated {
            let shown = if outdated {
                state.saved_verbatim = None;
                self.make_pristine(state, &tree)
            } else {
                self.show_saved(state, &tree)
            };
            let _ = shown.inspect_err(|error| tracing::warn!("{error}"));
            if let Some(mut editor) = locked_at_once(&self.editor) {
                self.rest_in(state, &mut editor);
            }
        }
    }

    /// True if the source is as the last save left it.
    fn as_saved(&self, state: &OverlayState) -> bool {
        let Ok(mounted) = self.mounted() else { return true };
        state.shown.is_some_and(|shown| shown.version == mounted.revalidate().stat.source.version)
    }

    /// Returns mtime and ctime of the saved text.
    pub(crate) fn times(&self, state: &OverlayState) -> Result<(Time, Time)> {
        let stat = self.mounted()?.revalidate().stat;
        let shown = state.shown.filter(|shown| state.busy || shown.version == stat.source.version);
        Ok(shown.map_or((stat.source.mtime, stat.ctime), |shown| (shown.mtime, shown.ctime)))
    }
}
