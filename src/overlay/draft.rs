//! Drafts: how a text is tried as a save, and what becomes of it.
//!
//! When it is tried is the [`WriteHandle`](crate::overlay::write_handle::WriteHandle)'s to say, and a rename's.
//!
//! An empty text is never tried: the shell flushes the file that `>` made empty before anything is
//! written to it. The text that is saved already costs no save and keeps its time. What was refused is
//! refused again, untried, until the text changes. A text whose writer was killed by a signal is not
//! tried: half a tree may be a sound tree.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use crate::content::Content;
use crate::error::errno;
use crate::error::{Error, Result};
use crate::host::stat::Time;
use crate::overlay::file::{Backing, Body, OverlayFile, now};
use crate::overlay::refusal::{changed_by_others, defect, of_joined, unfinished, unopened};
use crate::overlay::saver::{Head, Refused, Saved, Saver};
use crate::overlay::{Overlay, Shown, State, appended};
use crate::source::SourceVersion;
use crate::sync::locked;

/// What became of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    /// It is empty, and was not tried.
    Empty,
    /// It is what is saved already.
    Same,
    /// It is saved; `mended` if the source has something put back into it.
    Saved { mended: bool },
    /// It would be saved.
    Sound,
}

impl Overlay {
    /// Refuses to write to what is no more.
    pub(crate) fn write_access(&self, state: &mut State) -> Result<()> {
        state.touched = true;
        if state.closed { Err(errno(libc::EROFS)) } else { Ok(()) }
    }

    /// Nobody has the overlay file open for writing any more.
    pub(crate) fn left(&self, saver: &mut Option<Box<dyn Saver>>, overlay_file: &Arc<OverlayFile>) {
        let result = {
            let mut state = locked(&self.state);
            if state.closed {
                return;
            }
            let (clean, empty, refused, used) = {
                let mut body = locked(&overlay_file.body);
                if body.size == 0 && !body.is_clean() {
                    body.pending = Some(Instant::now());
                }
                (body.is_clean(), body.size == 0, body.refusal().is_some(), body.writers > 0)
            };
            match () {
                () if used => return,
                () if !self.is_tree(&state, overlay_file) => {
                    if refused {
                        self.restore(&mut state)
                    } else {
                        Ok(())
                    }
                }
                () if clean || empty => Ok(()),
                () if refused => self.show_saved(&mut state, overlay_file),
                () => {
                    drop(state);
                    match self.commit(saver, overlay_file) {
                        Ok(()) => Ok(()),
                        Err(_) => {
                            let mut state = locked(&self.state);
                            match self.is_tree(&state, overlay_file) {
                                true => self.show_saved(&mut state, overlay_file),
                                false => self.restore(&mut state),
                            }
                        }
                    }
                }
            }
        };
        if let Err(error) = result {
            tracing::warn!("{}: the saved text can't be shown again: {error}", self.label().display());
        }
    }

    /// Tries the text of `tree.yaml`.
    pub(crate) fn commit(
        &self,
        saver: &mut Option<Box<dyn Saver>>,
        overlay_file: &Arc<OverlayFile>,
    ) -> Result<()> {
        let tried = self.attempt(saver, overlay_file, true)?;
        let mut state = locked(&self.state);
        if self.is_tree(&state, overlay_file) {
            self.settle(&mut state, overlay_file, tried)?;
        }
        Ok(())
    }

    /// Makes `tree.yaml` show the saved text, after its own was tried.
    pub(crate) fn settle(
        &self,
        state: &mut State,
        overlay_file: &Arc<OverlayFile>,
        tried: Tried,
    ) -> Result<()> {
        let clean = locked(&overlay_file.body).is_clean();
        match tried {
            Tried::Empty => {
                let mut body = locked(&overlay_file.body);
                if body.writers == 0 {
                    body.pending = Some(Instant::now());
                }
                Ok(())
            }
            // Written again meanwhile.
            _ if !clean => Ok(()),
            Tried::Sound => Ok(()),
            Tried::Same | Tried::Saved { mended: false } => self.make_pristine(state, overlay_file),
            // It goes on showing what was written, and not what was put back into it: no file may
            // change under an editor that has just saved it.
            Tried::Saved { mended: true } => Ok(()),
        }
    }

    /// Tries an overlay file's text as the tree; unless it is to be saved (`save`) it is only checked.
    pub(crate) fn attempt(
        &self,
        saver: &mut Option<Box<dyn Saver>>,
        overlay_file: &Arc<OverlayFile>,
        save: bool,
    ) -> Result<Tried> {
        if let Err(error) = self.settle_source(saver) {
            let mut state = locked(&self.state);
            self.write_access(&mut state)?;
            let body = locked(&overlay_file.body);
            let (text, edits) = (body.text()?, body.edits);
            drop(body);
            return Err(self.refuse(&mut state, overlay_file, edits, &text, unopened(&error)));
        }
        let (text, joined, edits, head, times, before, saver) = {
            let mut state = locked(&self.state);
            self.write_access(&mut state)?;
            let ((saved, base_version, head), before) = match self.known(&mut state) {
                Ok(known) => known,
                // The source may be gone, or be no ASDF file any more.
                Err(error) => return Err(self.refuse_unknown(&mut state, overlay_file, error)),
            };
            let mut body = locked(&overlay_file.body);
            match &body.backing {
                Backing::Text(_) | Backing::Link(_) => return Err(errno(libc::EINVAL)),
                Backing::Source => return Ok(Tried::Same),
                Backing::File(_) if body.size == 0 => return Ok(Tried::Empty),
                Backing::File(_) => {}
            }
            if let Some(refusal) = body.refusal().filter(|refusal| refusal.for_good) {
                return Err(errno(refusal.errno));
            }
            // What was refused and is there all the same may not be durable: the saver knows.
            if body.refusal().is_none() && body.same_as(&*saved)? {
                body.saved = body.edits;
                body.base_version = base_version;
                (state.inner_ends, state.saved_verbatim) = (0, None);
                drop(body);
                self.tell_same(&mut state, overlay_file);
                return Ok(Tried::Same);
            }
            // So may be what was written when it was saved, while the file has something put back into it.
            if body.refusal().is_none()
                && body.base_version == base_version
                && state.is_saved_verbatim(&body)?
            {
                body.saved = body.edits;
                (body.mtime, body.ctime) = before;
                drop(body);
                self.tell_same(&mut state, overlay_file);
                return Ok(Tried::Saved { mended: true });
            }
            let (text, edits, times) = (body.text()?, body.edits, (body.mtime, body.ctime));
            let conflict = body.base_version != base_version;
            let cut = body.cut == Some(edits);
            let joined = appended::join(&text, state.inner_ends + usize::from(body.appended));
            drop(body);
            if cut {
                return Err(self.refuse(&mut state, overlay_file, edits, &text, unfinished()));
            }
            if conflict {
                return Err(self.refuse(&mut state, overlay_file, edits, &text, changed_by_others()));
            }
            self.copy_up_pristine(&mut state, Some(overlay_file))?;
            match self.open_saver(saver) {
                Ok(saver) if !save => {
                    let whole = joined.as_ref().map_or(&text, |joined| &joined.text);
                    let checked = catch_unwind(AssertUnwindSafe(|| saver.check(whole, &head)));
                    return match checked.unwrap_or_else(|_| Err(defect())) {
                        Ok(()) => Ok(Tried::Sound),
                        Err(refused) => {
                            let refused = of_joined(refused, joined.as_ref());
                            Err(self.refuse(&mut state, overlay_file, edits, &text, refused))
                        }
                    };
                }
                Ok(saver) => {
                    state.busy = true;
                    (text, joined, edits, head, times, before, saver)
                }
                Err(error) => {
                    return Err(self.refuse(&mut state, overlay_file, edits, &text, unopened(&error)));
                }
            }
        };
        let whole = joined.as_ref().map_or(&text, |joined| &joined.text);
        let (result, version) = self.save(saver, whole, &head);
        let mut state = locked(&self.state);
        state.busy = false;
        let saved = match (result, version) {
            (Ok(saved), Ok(version)) => {
                state.shown = Some(Shown { version, mtime: times.0, ctime: times.1 });
                saved
            }
            (Ok(saved), Err(error)) => {
                tracing::warn!("{}: after a save: {error}", self.label().display());
                saved
            }
            (Err(refused), version) => {
                // What was tried and undone may have moved the source's time, and nothing else.
                if let Ok(version) = version
                    && refused.errno != libc::EBUSY
                {
                    let (mtime, ctime) = before;
                    state.shown = Some(Shown { version, mtime, ctime });
                    // A save that fails at its very end has put the text into the file; of one that is
                    // to be settled yet nobody knows.
                    let found = self.saved_text().and_then(|text| Head::of(&*text)).ok();
                    let known = [head, Head::of_bytes(&text)];
                    match found {
                        _ if refused.unsettled => state.head = None,
                        Some(found) if known.contains(&found) => state.head = Some((version, found)),
                        _ => {}
                    }
                }
                let refused = of_joined(refused, joined.as_ref());
                return Err(self.refuse(&mut state, overlay_file, edits, &text, refused));
            }
        };
        let mended = saved.mended || joined.is_some();
        if saved.written {
            tracing::info!("{}: tree.yaml was saved", self.label().display());
            state.last_save = Some(now());
        }
        if joined.is_some() {
            tracing::info!(
                "{}: what was appended behind the line '...' was put before it",
                self.label().display()
            );
        }
        for note in &saved.notes {
            tracing::info!("{}: {note}", self.label().display());
        }
        for warning in &saved.warnings {
            tracing::warn!("{}: tree.yaml was saved with a warning: {warning}", self.label().display());
        }
        state.last_warnings = saved.warnings;
        state.head = state.shown.map(|shown| (shown.version, saved.head));
        state.inner_ends = joined.map_or(0, |joined| joined.inner_ends);
        self.remember_verbatim(&mut state, mended.then_some(&text));
        self.tell_saved(&mut state, overlay_file, &saved.report);
        let base_version = state.base_version;
        let mut body = locked(&overlay_file.body);
        body.base_version = base_version;
        body.refused = None;
        if body.edits == edits {
            body.saved = edits;
        }
        Ok(Tried::Saved { mended })
    }

    /// The saved text, how often others changed it, what it is, and its times.
    #[allow(clippy::type_complexity)]
    fn known(&self, state: &mut State) -> Result<((Arc<dyn Content>, u64, Head), (Time, Time))> {
        let saved = self.saved_text()?;
        let (base_version, head) = self.head(state)?;
        Ok(((saved, base_version, head), self.times(state)?))
    }

    /// Refuses a text because the source can't be read, if there is a text.
    fn refuse_unknown(&self, state: &mut State, overlay_file: &Arc<OverlayFile>, error: Error) -> Error {
        let (text, edits) = match &*locked(&overlay_file.body) {
            body @ Body { backing: Backing::File(_), size: 1.., .. } => (body.text(), body.edits),
            _ => return error,
        };
        match text {
            Ok(text) => self.refuse(state, overlay_file, edits, &text, unopened(&error)),
            Err(_) => error,
        }
    }

    /// Lets the saver do its work; nothing of the overlay is locked meanwhile but saving itself.
    fn save(
        &self,
        saver: &mut Box<dyn Saver>,
        text: &[u8],
        head: &Head,
    ) -> (std::result::Result<Saved, Refused>, Result<SourceVersion>) {
        let mounted = match self.mounted().and_then(|mounted| mounted.begin_save().map(|_| mounted)) {
            Ok(mounted) => mounted,
            Err(error) => return (Err(unopened(&error)), Err(error)),
        };
        let mut off = None;
        let mut moving = || {
            off.get_or_insert_with(|| mounted.hold_off());
        };
        let result = catch_unwind(AssertUnwindSafe(|| saver.try_save(text, head, &mut moving)));
        let own = !matches!(&result, Ok(Err(refused)) if refused.errno == libc::EBUSY);
        let unsettled = matches!(&result, Ok(Err(refused)) if refused.unsettled);
        let version = mounted.end_save(own, unsettled);
        drop(off);
        (result.unwrap_or_else(|_| Err(defect())), version)
    }
}
