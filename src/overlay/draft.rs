//! Drafts: when a text is *tried*, it is checked, and then saved or refused.
//!
//! The [`WriteHandle`](crate::overlay::write_handle::WriteHandle) and renames decide when a text is tried.
//!
//! An empty text is never tried: a shell flushes the file that `>` truncated before the program writes to it.
//! A text equal to the saved one needs no save, and keeps its time. A refused text is refused again without
//! another check, until it changes. A text is not tried if its writer was killed by a signal, since half a
//! tree may be a valid tree.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use asdf_access::local::stat::Time;
use asdf_file::container::text_version::TextVersion;
use asdf_file::edit::Editor;
use asdf_file::edit::context::Saved;
use asdf_file::edit::refusal::{GONE, REPLACED, Refusal, report_of_warnings};
use seekable::error::{Error, Kind, Result, errno};
use seekable::source::SourceVersion;
use seekable::sync::locked;

use crate::mounted::file::saving::{SaveEnd, Saving};
use crate::overlay::appended::{self, Joined};
use crate::overlay::file::{Backing, Body, OverlayFile, now};
use crate::overlay::{MAX_BASE, Overlay, OverlayState, SavedTimes};

/// Maximum number of attempts to save into a file that other programs keep replacing.
const ATTEMPTS: usize = 8;

/// Maximum number of bytes of the first line that tell a text with a prologue from one without.
const START: usize = 16;

/// The result of trying a text, unless the text was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitOutcome {
    /// The text is empty, and was not tried.
    Empty,
    /// The text is saved; `verbatim` is false if the source differs from it, because the save restored
    /// something or joined appended text.
    Saved { verbatim: bool },
    /// The text was only checked, and would be saved.
    Valid,
}

/// A text as it was when it was about to be checked and saved.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) text: Vec<u8>,
    /// The joined text, if text was appended after the line `...`.
    pub(crate) joined: Option<Joined>,
    /// True if the saved text was only appended to.
    appended: bool,
    /// The edit counter of the file.
    pub(crate) edits: u64,
}

impl Draft {
    fn of(body: &Body) -> Result<Self> {
        Ok(Self { text: body.text()?, joined: None, appended: body.appended, edits: body.edits })
    }

    /// Returns the text for the file's editor.
    fn whole(&self) -> &[u8] {
        self.joined.as_ref().map_or(&self.text, |joined| &joined.text)
    }
}

/// A draft that the file's editor must check.
#[derive(Debug)]
struct Attempt {
    draft: Draft,
    /// The version from which the draft was derived.
    base: TextVersion,
    /// mtime and ctime of the draft.
    times: (Time, Time),
    /// mtime and ctime of the saved text.
    saved_times: (Time, Time),
    /// The program that wrote the draft, if known.
    program: Option<String>,
}

/// The state of a text before the file's editor gets it.
enum Prepared {
    Done(CommitOutcome),
    Attempt(Attempt),
}

impl Overlay {
    /// Fails with EROFS once the overlay is closed.
    pub(crate) fn write_access(&self, state: &mut OverlayState) -> Result<()> {
        state.touched = true;
        if state.closed { Err(errno(libc::EROFS)) } else { Ok(()) }
    }

    /// Handles the close of the last handle that may write the file.
    pub(crate) fn last_writer_closed(&self, editor: &mut Option<Editor>, overlay_file: &Arc<OverlayFile>) {
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
            if used {
                return;
            }
            if !self.is_tree(&state, overlay_file) {
                if refused { self.restore(&mut state) } else { Ok(()) }
            } else if clean || empty {
                Ok(())
            } else if refused {
                self.show_saved(&mut state, overlay_file)
            } else {
                drop(state);
                self.commit(editor, overlay_file).or_else(|_| {
                    let mut state = locked(&self.state);
                    if self.is_tree(&state, overlay_file) {
                        self.show_saved(&mut state, overlay_file)
                    } else {
                        self.restore(&mut state)
                    }
                })
            }
        };
        if let Err(error) = result {
            tracing::warn!("{}: the saved text can't be shown again: {error}", self.label().display());
        }
    }

    /// Checks the text of `tree.yaml`, and saves or refuses it.
    pub(crate) fn commit(&self, editor: &mut Option<Editor>, overlay_file: &Arc<OverlayFile>) -> Result<()> {
        let outcome = self.attempt(editor, overlay_file, true)?;
        let mut state = locked(&self.state);
        if self.is_tree(&state, overlay_file) {
            self.show_outcome(&mut state, overlay_file, outcome)?;
        }
        Ok(())
    }

    /// Determines what `tree.yaml` shows after an attempt to save its text.
    pub(crate) fn show_outcome(
        &self,
        state: &mut OverlayState,
        overlay_file: &Arc<OverlayFile>,
        outcome: CommitOutcome,
    ) -> Result<()> {
        let clean = locked(&overlay_file.body).is_clean();
        match outcome {
            CommitOutcome::Empty => {
                let mut body = locked(&overlay_file.body);
                if body.writers == 0 {
                    body.pending = Some(Instant::now());
                }
                Ok(())
            }
            // The text was changed meanwhile.
            _ if !clean => Ok(()),
            CommitOutcome::Saved { verbatim: true } => self.make_pristine(state, overlay_file),
            // A text editor that has just saved the file must find it unchanged.
            CommitOutcome::Saved { verbatim: false } | CommitOutcome::Valid => Ok(()),
        }
    }

    /// Checks a file's text as the tree, and saves it if `save` is true.
    pub(crate) fn attempt(
        &self,
        editor: &mut Option<Editor>,
        overlay_file: &Arc<OverlayFile>,
        save: bool,
    ) -> Result<CommitOutcome> {
        let (attempt, opened) = {
            let mut state = locked(&self.state);
            self.write_access(&mut state)?;
            let attempt = match self.prepare(&mut state, overlay_file)? {
                Prepared::Done(outcome) => return Ok(outcome),
                Prepared::Attempt(attempt) => attempt,
            };
            self.copy_up_pristine(&mut state, Some(overlay_file))?;
            let opened = match self.open_editor(editor) {
                Ok(opened) => opened,
                Err(error) => {
                    return Err(self.refuse(&mut state, overlay_file, &attempt.draft, self.unopened(error)));
                }
            };
            if !save {
                let check = || opened.check(attempt.draft.whole(), &attempt.base);
                let checked = catch_unwind(AssertUnwindSafe(check)).unwrap_or(Err(Refusal::Panicked));
                return match checked {
                    Ok(()) => Ok(CommitOutcome::Valid),
                    Err(refusal) => Err(self.refuse(&mut state, overlay_file, &attempt.draft, refusal)),
                };
            }
            state.busy = true;
            (attempt, opened)
        };
        let (result, version) = self.save(opened, &attempt);
        let mut state = locked(&self.state);
        state.busy = false;
        match result {
            Ok(saved) => {
                self.show_draft_times(&mut state, &attempt, version);
                Ok(self.accept(&mut state, overlay_file, attempt, saved))
            }
            Err(refusal) => {
                if refusal.is_half_saved() {
                    // Without the lock, the next reader or 'asdf-mount --recover' can recover the file.
                    *editor = None;
                }
                self.note_undone(&mut state, &attempt, &refusal, version);
                Err(self.refuse(&mut state, overlay_file, &attempt.draft, refusal))
            }
        }
    }

    /// Decides if the file's editor must check the text. Refuses texts that need no check to be refused.
    fn prepare(&self, state: &mut OverlayState, overlay_file: &Arc<OverlayFile>) -> Result<Prepared> {
        let saved = self.saved_text().and_then(|saved| Ok((saved, self.head(state)?, self.times(state)?)));
        let (saved, (base_version, base), saved_times) = match saved {
            Ok(saved) => saved,
            // The source may be gone, or have another format now.
            Err(error) => return Err(self.refuse_unknown(state, overlay_file, error)),
        };
        // On a server the source may have been replaced, which only the file's editor finds out.
        let is_certain = !self.mounted()?.location.is_remote();
        let mut body = locked(&overlay_file.body);
        match &body.backing {
            Backing::Text(_) | Backing::Link(_) | Backing::Directory => return Err(errno(libc::EINVAL)),
            Backing::Source => return Ok(Prepared::Done(CommitOutcome::Saved { verbatim: true })),
            Backing::File(_) if body.size == 0 => return Ok(Prepared::Done(CommitOutcome::Empty)),
            Backing::File(_) => {}
        }
        match body.refusal() {
            Some(refusal) if refusal.is_final() => return Err(errno(refusal.errno())),
            // The refusal is not final: the text may be in the source without being durable. The format's
            // editor tries again.
            Some(_) => {}
            // If the saved text can't be read now, the attempt to save reports the error, and keeps the
            // refused text.
            None if is_certain && body.same_as(&*saved).unwrap_or(false) => {
                body.saved = body.edits;
                body.base_version = base_version;
                (state.inner_ends, state.saved_verbatim) = (0, None);
                drop(body);
                self.tell_same(state, overlay_file);
                return Ok(Prepared::Done(CommitOutcome::Saved { verbatim: true }));
            }
            // A text equal to the last one that was written and saved needs no save either.
            None if is_certain && body.base_version == base_version && state.is_saved_verbatim(&body)? => {
                body.saved = body.edits;
                body.gives_way = state.saved_verbatim.as_ref().is_some_and(|written| written.gives_way);
                (body.mtime, body.ctime) = saved_times;
                drop(body);
                self.tell_same(state, overlay_file);
                return Ok(Prepared::Done(CommitOutcome::Saved { verbatim: false }));
            }
            None => {}
        }
        let mut draft = Draft::of(&body)?;
        draft.joined = appended::join(&draft.text, state.inner_ends + usize::from(body.appended));
        let times = (body.mtime, body.ctime);
        let program = body.program.clone();
        let killed = body.cut == Some(body.edits);
        let conflict = body.base_version != base_version;
        drop(body);
        if killed {
            return Err(self.refuse(state, overlay_file, &draft, Refusal::WriterKilled));
        }
        if conflict {
            return Err(self.refuse(state, overlay_file, &draft, Refusal::Conflict));
        }
        Ok(Prepared::Attempt(Attempt { draft, base, times, saved_times, program }))
    }

    /// Returns the refusal for a source that can't be opened or read.
    fn unopened(&self, error: Error) -> Refusal {
        match error.errno() {
            libc::ENOENT => Refusal::Failed(Error::new(Kind::Busy, GONE).of(self.label())),
            libc::ESTALE => Refusal::Failed(Error::new(Kind::Busy, REPLACED).of(self.label())),
            _ => Refusal::Unopened(error),
        }
    }

    /// Refuses a text, if there is one, because the source can't be read.
    fn refuse_unknown(
        &self,
        state: &mut OverlayState,
        overlay_file: &Arc<OverlayFile>,
        error: Error,
    ) -> Error {
        let draft = match &*locked(&overlay_file.body) {
            body @ Body { backing: Backing::File(_), size: 1.., .. } => Draft::of(body),
            _ => return error,
        };
        match draft {
            Ok(draft) => self.refuse(state, overlay_file, &draft, self.unopened(error)),
            Err(_) => error,
        }
    }

    /// Saves a draft with the file's [`Editor`]. Of the overlay's locks only that of `editor` is held
    /// meanwhile.
    fn save(
        &self,
        editor: &mut Editor,
        attempt: &Attempt,
    ) -> (std::result::Result<Saved, Refusal>, Result<SourceVersion>) {
        let mut attempts = 0..ATTEMPTS;
        loop {
            let begun = self.mounted().map(|mounted| {
                let saved = mounted.begin_save().map(|saving| self.save_in(editor, attempt, saving));
                (saved, mounted.is_attached())
            });
            match begun {
                Ok((Ok(saved), _)) => return saved,
                // Another file has just taken the name.
                Ok((Err(_), false)) if attempts.next().is_some() => {}
                Ok((Err(error), _)) | Err(error) => {
                    return (Err(self.unopened(error.clone())), Err(error));
                }
            }
        }
    }

    /// Shows the draft's times as those of the saved text, as long as the source has this version.
    fn show_draft_times(&self, state: &mut OverlayState, attempt: &Attempt, version: Result<SourceVersion>) {
        let (mtime, ctime) = attempt.times;
        match version {
            Ok(version) => state.shown = Some(SavedTimes { version, mtime, ctime }),
            Err(error) if matches!(error.errno(), libc::ESTALE | libc::ENOENT) => {
                tracing::info!(
                    "{}: another program replaced the file after the save",
                    self.label().display()
                );
            }
            Err(error) => tracing::warn!("{}: after a save: {error}", self.label().display()),
        }
    }

    /// Records a save: in the overlay's state, in the log, in the file of warnings.
    fn accept(
        &self,
        state: &mut OverlayState,
        overlay_file: &Arc<OverlayFile>,
        attempt: Attempt,
        saved: Saved,
    ) -> CommitOutcome {
        let Draft { text, joined, appended, edits } = attempt.draft;
        let label = self.label();
        let label = label.display();
        let verbatim = saved.restored.is_empty() && joined.is_none();
        if saved.written {
            tracing::info!("{label}: tree.yaml was saved");
            state.last_save = Some(now());
        }
        if joined.is_some() {
            tracing::info!("{label}: text appended after the line '...' was moved before it");
        }
        for restored in &saved.restored {
            tracing::info!("{label}: {restored}");
        }
        for warning in &saved.warnings {
            tracing::warn!("{label}: tree.yaml was saved with a warning: {warning}");
        }
        state.last_warnings = saved.warnings.iter().map(ToString::to_string).collect();
        // Another file may have taken the name since: then the next look finds another version, and another tree.
        state.head = Some((saved.after, saved.version));
        let gives_way = joined.is_some() || !verbatim && self.has_lost_start(&text);
        let (payer, handles) = {
            let body = locked(&overlay_file.body);
            (body.payer, body.handles)
        };
        state.inner_ends = match joined {
            // Only the program that appended has the file open, so no text editor shows the new inner line.
            Some(_) if appended && handles <= 1 => state.inner_ends,
            Some(joined) => joined.inner_ends,
            None => 0,
        };
        let is_base = verbatim && text.len() as u64 <= MAX_BASE;
        state.keep_base(is_base.then(|| text.as_slice().into()));
        self.remember_verbatim(state, (!verbatim).then_some(&text), gives_way, payer);
        self.tell_saved(state, overlay_file, &report_of_warnings(&saved.warnings));
        let base_version = state.base_version;
        let mut body = locked(&overlay_file.body);
        body.base_version = base_version;
        body.refused = None;
        if body.edits == edits {
            body.saved = edits;
            body.gives_way = gives_way;
        }
        CommitOutcome::Saved { verbatim }
    }

    /// True if a text does not begin as the saved one: its prologue was restored.
    fn has_lost_start(&self, text: &[u8]) -> bool {
        let mut start = [0; START];
        let read = self.saved_text().and_then(|saved| saved.read_at(0, &mut start));
        let first_line = read.map(|read| start[..read].split(|byte| *byte == b'\n').next());
        first_line.is_ok_and(|line| line.is_some_and(|line| !text.starts_with(line)))
    }

    /// Records the state after a refused save. Undoing a save may have changed the source's time.
    fn note_undone(
        &self,
        state: &mut OverlayState,
        attempt: &Attempt,
        refusal: &Refusal,
        version: Result<SourceVersion>,
    ) {
        if matches!(refusal, Refusal::Conflict) {
            // On a server, size and time of the source may not show a change.
            state.head = None;
            state.base_version += 1;
        }
        let Ok(version) = version else { return };
        if refusal.errno() == libc::EBUSY {
            return;
        }
        let (mtime, ctime) = attempt.saved_times;
        state.shown = Some(SavedTimes { version, mtime, ctime });
        if refusal.is_half_saved() {
            // The file may have either text.
            state.head = None;
            return;
        }
        // A save that fails at its very end has written the text.
        let known = [attempt.base, TextVersion::of_bytes(&attempt.draft.text)];
        let found = self.saved_text().and_then(|text| TextVersion::of(&*text));
        if let Ok(found) = found
            && known.contains(&found)
        {
            state.head = Some((version, found));
        }
    }

    /// Saves a draft into a file whose save has begun.
    fn save_in(
        &self,
        editor: &mut Editor,
        attempt: &Attempt,
        mut saving: Saving<'_>,
    ) -> (std::result::Result<Saved, Refusal>, Result<SourceVersion>) {
        editor.set_program(attempt.program.clone());
        #[cfg(test)]
        self.interrupt(|interruption| &mut interruption.before);
        let commit = || editor.commit(attempt.draft.whole(), &attempt.base, &mut saving.readers);
        let result = catch_unwind(AssertUnwindSafe(commit)).unwrap_or(Err(Refusal::Panicked));
        #[cfg(test)]
        self.interrupt(|interruption| &mut interruption.after);
        let end = match &result {
            Ok(saved) => SaveEnd::Saved { from: Some(saved.from), after: saved.after },
            Err(refusal) if refusal.errno() == libc::EBUSY => SaveEnd::Conflict,
            Err(_) => SaveEnd::Refused,
        };
        // A save that fails at its very end has put the new file in place.
        let replaced = if result.is_err() { editor.replaced() } else { None };
        let end = replaced.map_or(end, |after| SaveEnd::Saved { from: None, after });
        (result, saving.end(end))
    }
}
