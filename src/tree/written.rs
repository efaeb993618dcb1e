//! What was saved, as it was written: where something was put back into a text, the source has more.
//!
//! `tree.yaml` goes on showing what was written, since the editor that saved it knows its size; and so it
//! does again when it was written over and that was refused, or left. A copy is kept for that, which
//! nothing names, until another text is saved or another program changes the source.

use std::ffi::OsStr;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Weak};

use super::attr::Time;
use super::desk::{Desk, State};
use super::locked;
use super::names::TREE;
use super::sheet::{Body, Paper, Sheet, Whole, copy};
use crate::error::Result;

impl Desk {
    /// Makes a sheet show the text that was saved last, as it was written: an editor that saved it knows
    /// its size.
    pub(crate) fn show_saved(&self, state: &mut State, sheet: &Arc<Sheet>) -> Result<()> {
        if state.as_written.is_none() {
            return self.make_master(state, sheet);
        }
        // Who changed the source's head has made another text of it.
        let lineage = self.head(state)?.0;
        let Some(written) = state.as_written.clone() else { return self.make_master(state, sheet) };
        let (times, limit) = (self.times(state)?, self.limit());
        let (text, size) = match &*locked(&written.body) {
            Body { paper: Paper::File(text), size, .. } => (text.clone(), *size),
            _ => return self.make_master(state, sheet),
        };
        let own = self.paper(state, self.is_tree(state, sheet).then_some(OsStr::new(TREE)))?;
        copy(&Whole(&text, size), &own)?;
        self.free_master(state, Some(sheet))?;
        let mut body = locked(&sheet.body);
        body.take_room(&self.room.budget, size, limit)?;
        body.paper = Paper::File(Arc::new(own));
        (body.size, body.lineage, body.saved) = (size, lineage, body.edits);
        (body.mtime, body.ctime) = times;
        (body.refused, body.cut, body.pending, body.mapped) = (None, None, None, false);
        drop(body);
        state.master = Weak::new();
        Ok(())
    }

    /// The size and times that [`show_saved`](Self::show_saved) gives back to a refused text at its last close.
    ///
    /// They are shown from the refusal on: an editor that asks for them after a refused fsync (emacs) compares
    /// them at its next save, and would find that the file has changed.
    pub(crate) fn after_refusal(&self, state: &State) -> Result<(u64, (Time, Time))> {
        let written = state.as_written.as_ref().map(|written| locked(&written.body).size);
        let size = written.map_or_else(|| self.saved_text().map(|text| text.len()), Ok)?;
        Ok((size, self.times(state)?))
    }

    /// Remembers the text that was saved last as it was written, if the source has another.
    pub(crate) fn remember_written(&self, state: &mut State, text: Option<&[u8]>) {
        let kept = text.map(|text| self.kept_sheet(state, text)).transpose();
        let kept = kept.inspect_err(|error| {
            tracing::warn!(
                "{}: what was put back will be seen after a refusal: {error}",
                self.label().display()
            );
        });
        state.as_written = kept.ok().flatten();
    }

    fn kept_sheet(&self, state: &mut State, text: &[u8]) -> Result<Arc<Sheet>> {
        let sheet = self.sheet(Paper::Source, state.lineage)?;
        let mut body = locked(&sheet.body);
        body.take_room(&self.room.budget, text.len() as u64, self.limit())?;
        let file = self.paper(state, None)?;
        file.write_all_at(text, 0)?;
        (body.paper, body.size) = (Paper::File(Arc::new(file)), text.len() as u64);
        drop(body);
        Ok(sheet)
    }
}

impl State {
    /// Whether a text is what was written when it was saved.
    pub(crate) fn is_as_written(&self, body: &Body) -> Result<bool> {
        match self.as_written.as_ref().map(|written| locked(&written.body)).as_deref() {
            Some(Body { paper: Paper::File(text), size, .. }) => body.same_as(&Whole(text, *size)),
            _ => Ok(false),
        }
    }
}
