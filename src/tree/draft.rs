//! Drafts: how a text is tried as a save, and what becomes of it.
//!
//! When it is tried is the [`Pen`](super::pen::Pen)'s to say, and a rename's.
//!
//! An empty text is never tried: the shell flushes the file that `>` made empty before anything is
//! written to it. The text that is saved already costs no save and keeps its time. What was refused is
//! refused again, untried, until the text changes. A text whose writer was killed by a signal is not
//! tried: half a tree may be a sound tree.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use super::attr::Time;
use super::desk::{Desk, Shown, State};
use super::refused::{changed_by_others, defect, of_joined, unfinished, unopened};
use super::saver::{Head, Refused, Saved, Saver};
use super::seams;
use super::sheet::{Body, Paper, Sheet, now};
use super::{errno, locked};
use crate::content::Content;
use crate::error::{Error, Result};

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

impl Desk {
    /// Refuses to write to what is no more.
    pub(crate) fn write_access(&self, state: &mut State) -> Result<()> {
        state.touched = true;
        if state.closed { Err(errno(libc::EROFS)) } else { Ok(()) }
    }

    /// Nobody has the sheet open for writing any more.
    pub(crate) fn left(&self, saver: &mut Option<Box<dyn Saver>>, sheet: &Arc<Sheet>) {
        let result = {
            let mut state = locked(&self.state);
            if state.closed {
                return;
            }
            let (clean, empty, refused, used) = {
                let mut body = locked(&sheet.body);
                if body.size == 0 && !body.is_clean() {
                    body.pending = Some(Instant::now());
                }
                (body.is_clean(), body.size == 0, body.refusal().is_some(), body.writers > 0)
            };
            match () {
                () if used => return,
                () if !self.is_tree(&state, sheet) => {
                    if refused {
                        self.restore(&mut state)
                    } else {
                        Ok(())
                    }
                }
                () if clean || empty => Ok(()),
                () if refused => self.show_saved(&mut state, sheet),
                () => {
                    drop(state);
                    match self.commit(saver, sheet) {
                        Ok(()) => Ok(()),
                        Err(_) => {
                            let mut state = locked(&self.state);
                            match self.is_tree(&state, sheet) {
                                true => self.show_saved(&mut state, sheet),
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
    pub(crate) fn commit(&self, saver: &mut Option<Box<dyn Saver>>, sheet: &Arc<Sheet>) -> Result<()> {
        let tried = self.attempt(saver, sheet, true)?;
        let mut state = locked(&self.state);
        if self.is_tree(&state, sheet) {
            self.settle(&mut state, sheet, tried)?;
        }
        Ok(())
    }

    /// Makes `tree.yaml` show the saved text, after its own was tried.
    pub(crate) fn settle(&self, state: &mut State, sheet: &Arc<Sheet>, tried: Tried) -> Result<()> {
        let clean = locked(&sheet.body).is_clean();
        match tried {
            Tried::Empty => {
                let mut body = locked(&sheet.body);
                if body.writers == 0 {
                    body.pending = Some(Instant::now());
                }
                Ok(())
            }
            // Written again meanwhile.
            _ if !clean => Ok(()),
            Tried::Sound => Ok(()),
            Tried::Same | Tried::Saved { mended: false } => self.make_master(state, sheet),
            // It goes on showing what was written, and not what was put back into it: no file may
            // change under an editor that has just saved it.
            Tried::Saved { mended: true } => Ok(()),
        }
    }

    /// Tries a sheet's text as the tree; unless it is to be saved (`save`) it is only checked.
    pub(crate) fn attempt(
        &self,
        saver: &mut Option<Box<dyn Saver>>,
        sheet: &Arc<Sheet>,
        save: bool,
    ) -> Result<Tried> {
        if let Err(error) = self.settle_source(saver) {
            let mut state = locked(&self.state);
            self.write_access(&mut state)?;
            let body = locked(&sheet.body);
            let (text, edits) = (body.text()?, body.edits);
            drop(body);
            return Err(self.refuse(&mut state, sheet, edits, &text, unopened(&error)));
        }
        let (text, joined, edits, head, times, before, saver) = {
            let mut state = locked(&self.state);
            self.write_access(&mut state)?;
            let ((saved, lineage, head), before) = match self.known(&mut state) {
                Ok(known) => known,
                // The source may be gone, or be no ASDF file any more.
                Err(error) => return Err(self.refuse_unknown(&mut state, sheet, error)),
            };
            let mut body = locked(&sheet.body);
            match &body.paper {
                Paper::Link(_) => return Err(errno(libc::EINVAL)),
                Paper::Source => return Ok(Tried::Same),
                Paper::File(_) if body.size == 0 => return Ok(Tried::Empty),
                Paper::File(_) => {}
            }
            if let Some(refusal) = body.refusal().filter(|refusal| refusal.for_good) {
                return Err(errno(refusal.errno));
            }
            // What was refused and is there all the same may not be durable: the saver knows.
            if body.refusal().is_none() && body.same_as(&*saved)? {
                body.saved = body.edits;
                body.lineage = lineage;
                (state.seams, state.as_written) = (0, None);
                drop(body);
                self.tell_same(&mut state, sheet);
                return Ok(Tried::Same);
            }
            // So may be what was written when it was saved, while the file has something put back into it.
            if body.refusal().is_none() && body.lineage == lineage && state.is_as_written(&body)? {
                body.saved = body.edits;
                (body.mtime, body.ctime) = before;
                drop(body);
                self.tell_same(&mut state, sheet);
                return Ok(Tried::Saved { mended: true });
            }
            let (text, edits, times) = (body.text()?, body.edits, (body.mtime, body.ctime));
            let conflict = body.lineage != lineage;
            let cut = body.cut == Some(edits);
            let joined = seams::join(&text, state.seams + usize::from(body.appended));
            drop(body);
            if cut {
                return Err(self.refuse(&mut state, sheet, edits, &text, unfinished()));
            }
            if conflict {
                return Err(self.refuse(&mut state, sheet, edits, &text, changed_by_others()));
            }
            self.free_master(&mut state, Some(sheet))?;
            match self.open_saver(saver) {
                Ok(saver) if !save => {
                    let whole = joined.as_ref().map_or(&text, |joined| &joined.text);
                    let checked = catch_unwind(AssertUnwindSafe(|| saver.check(whole, &head)));
                    return match checked.unwrap_or_else(|_| Err(defect())) {
                        Ok(()) => Ok(Tried::Sound),
                        Err(refused) => {
                            let refused = of_joined(refused, joined.as_ref());
                            Err(self.refuse(&mut state, sheet, edits, &text, refused))
                        }
                    };
                }
                Ok(saver) => {
                    state.busy = true;
                    (text, joined, edits, head, times, before, saver)
                }
                Err(error) => return Err(self.refuse(&mut state, sheet, edits, &text, unopened(&error))),
            }
        };
        let whole = joined.as_ref().map_or(&text, |joined| &joined.text);
        let (result, identity) = self.save(saver, whole, &head);
        let mut state = locked(&self.state);
        state.busy = false;
        let saved = match (result, identity) {
            (Ok(saved), Ok(identity)) => {
                state.shown = Some(Shown { identity, mtime: times.0, ctime: times.1 });
                saved
            }
            (Ok(saved), Err(error)) => {
                tracing::warn!("{}: after a save: {error}", self.label().display());
                saved
            }
            (Err(refused), identity) => {
                // What was tried and undone may have moved the source's time, and nothing else.
                if let Ok(identity) = identity
                    && refused.errno != libc::EBUSY
                {
                    let (mtime, ctime) = before;
                    state.shown = Some(Shown { identity, mtime, ctime });
                    // A save that fails at its very end has put the text into the file; of one that is
                    // to be settled yet nobody knows.
                    let found = self.saved_text().and_then(|text| Head::of(&*text)).ok();
                    let known = [head, Head::of_bytes(&text)];
                    match found {
                        _ if refused.unsettled => state.head = None,
                        Some(found) if known.contains(&found) => state.head = Some((identity, found)),
                        _ => {}
                    }
                }
                let refused = of_joined(refused, joined.as_ref());
                return Err(self.refuse(&mut state, sheet, edits, &text, refused));
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
        state.head = state.shown.map(|shown| (shown.identity, saved.head));
        state.seams = joined.map_or(0, |joined| joined.seams);
        self.remember_written(&mut state, mended.then_some(&text));
        self.tell_saved(&mut state, sheet, &saved.report);
        let lineage = state.lineage;
        let mut body = locked(&sheet.body);
        body.lineage = lineage;
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
        let (lineage, head) = self.head(state)?;
        Ok(((saved, lineage, head), self.times(state)?))
    }

    /// Refuses a text because the source can't be read, if there is a text.
    fn refuse_unknown(&self, state: &mut State, sheet: &Arc<Sheet>, error: Error) -> Error {
        let (text, edits) = match &*locked(&sheet.body) {
            body @ Body { paper: Paper::File(_), size: 1.., .. } => (body.text(), body.edits),
            _ => return error,
        };
        match text {
            Ok(text) => self.refuse(state, sheet, edits, &text, unopened(&error)),
            Err(_) => error,
        }
    }

    /// Lets the saver do its work; nothing of the desk is locked meanwhile but saving itself.
    fn save(
        &self,
        saver: &mut Box<dyn Saver>,
        text: &[u8],
        head: &Head,
    ) -> (std::result::Result<Saved, Refused>, Result<crate::source::Identity>) {
        let volume = match self.volume().and_then(|volume| volume.begin_save().map(|_| volume)) {
            Ok(volume) => volume,
            Err(error) => return (Err(unopened(&error)), Err(error)),
        };
        let mut off = None;
        let mut moving = || {
            off.get_or_insert_with(|| volume.hold_off());
        };
        let result = catch_unwind(AssertUnwindSafe(|| saver.try_save(text, head, &mut moving)));
        let own = !matches!(&result, Ok(Err(refused)) if refused.errno == libc::EBUSY);
        let unsettled = matches!(&result, Ok(Err(refused)) if refused.unsettled);
        let identity = volume.end_save(own, unsettled);
        drop(off);
        (result.unwrap_or_else(|_| Err(defect())), identity)
    }
}
