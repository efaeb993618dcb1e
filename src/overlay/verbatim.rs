//! The last saved text as its program wrote it. It is kept if the save restored something that the program had
//! dropped: the source then differs from what the program wrote.
//!
//! `tree.yaml` keeps showing the text as it was written, since the editor that saved it knows its size. It
//! shows that text again after another one was refused or left unsaved. For this purpose an unnamed copy is
//! kept, until another text is saved or another program changes the source.

use std::ffi::OsStr;
use std::sync::{Arc, Weak};

use asdf_access::local::stat::Time;
use seekable::content::Text;
use seekable::error::Result;
use seekable::sync::locked;

use crate::overlay::file::{Backing, Body, OverlayFile, Payer, Whole};
use crate::overlay::{Overlay, OverlayState};
use crate::view::TREE;

impl Overlay {
    /// Makes a file show the last saved text as it was written, since the editor that saved it knows its
    /// size.
    pub(crate) fn show_saved(&self, state: &mut OverlayState, overlay_file: &Arc<OverlayFile>) -> Result<()> {
        if state.saved_verbatim.is_none() {
            return self.make_pristine(state, overlay_file);
        }
        // If another program changed the source's head, the copy is outdated.
        let base_version = self.head(state)?.0;
        let Some(written) = state.saved_verbatim.clone() else {
            return self.make_pristine(state, overlay_file);
        };
        let times = self.times(state)?;
        let limit = self.limit();
        if written.gives_way && locked(&overlay_file.body).handles == 0 {
            state.saved_verbatim = None;
            return self.make_pristine(state, overlay_file);
        }
        let (text, size) = match &*written {
            Body { backing: Backing::File(text), size, .. } => (text.clone(), *size),
            _ => return self.make_pristine(state, overlay_file),
        };
        let name = self.is_tree(state, overlay_file).then_some(OsStr::new(TREE));
        let own = self.filled(state, name, &Whole(&text, size))?;
        self.copy_up_pristine(state, Some(overlay_file))?;
        let mut body = locked(&overlay_file.body);
        body.take_room(&self.shared.quota, size, limit)?;
        body.backing = Backing::File(Arc::new(own));
        (body.size, body.base_version, body.saved) = (size, base_version, body.edits);
        (body.mtime, body.ctime) = times;
        (body.refused, body.cut, body.pending, body.mapped) = (None, None, None, false);
        body.gives_way = written.gives_way;
        drop(body);
        state.pristine = Weak::new();
        Ok(())
    }

    /// Shows the saved text if the one that was written gives way to it, and no more than `handles` handles are open.
    ///
    /// A line `...` within the text as it was written would end it for other programs.
    pub(crate) fn show_joined(&self, overlay_file: &Arc<OverlayFile>, handles: u32) {
        let mut state = locked(&self.state);
        if state.busy || state.closed || !self.is_tree(&state, overlay_file) {
            return;
        }
        {
            let body = locked(&overlay_file.body);
            if !body.gives_way || !body.is_clean() || body.handles > handles {
                return;
            }
        }
        state.saved_verbatim = None;
        if let Err(error) = self.make_pristine(&mut state, overlay_file) {
            tracing::warn!("{}: the saved text can't be shown: {error}", self.label().display());
        }
    }

    /// Returns the size and times that `tree.yaml` will have once a refused text is closed; see
    /// [`show_saved`](Self::show_saved).
    ///
    /// They are shown as soon as the text is refused. An editor that calls stat after a refused fsync (emacs)
    /// compares them at its next save, and would otherwise find that the file has changed.
    pub(crate) fn after_refusal(&self, state: &OverlayState) -> Result<(u64, (Time, Time))> {
        let written = state.saved_verbatim.as_ref().map(|written| written.size);
        let size = written.map_or_else(|| self.saved_text().map(|text| text.len()), Ok)?;
        Ok((size, self.times(state)?))
    }

    /// Remembers the last saved text as it was written, if the source differs from it.
    pub(crate) fn remember_verbatim(
        &self,
        state: &mut OverlayState,
        text: Option<&[u8]>,
        gives_way: bool,
        payer: Payer,
    ) {
        let kept = text.map(|text| self.verbatim_body(state, text, payer)).transpose();
        let kept = kept.inspect_err(|error| {
            tracing::warn!(
                "{}: after a refusal, tree.yaml will also show the restored parts: {error}",
                self.label().display()
            );
        });
        state.saved_verbatim = kept.ok().flatten().map(|mut body| {
            body.gives_way = gives_way;
            Arc::new(body)
        });
    }

    fn verbatim_body(&self, state: &mut OverlayState, text: &[u8], payer: Payer) -> Result<Body> {
        let mut body = Body::new(Backing::Source, state.base_version);
        body.set_payer(payer);
        body.take_room(&self.shared.quota, text.len() as u64, self.limit())?;
        let file = self.filled(state, None, &Text::new(text))?;
        (body.backing, body.size) = (Backing::File(Arc::new(file)), text.len() as u64);
        Ok(body)
    }
}

impl OverlayState {
    /// True if a text equals the last saved text in the form in which it was written.
    pub(crate) fn is_saved_verbatim(&self, body: &Body) -> Result<bool> {
        match self.saved_verbatim.as_deref() {
            Some(Body { backing: Backing::File(text), size, .. }) => body.same_as(&Whole(text, *size)),
            _ => Ok(false),
        }
    }
}
