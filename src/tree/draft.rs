//! Drafts: handles that write, and when a text is tried as a save.
//!
//! | request | what happens |
//! |---|---|
//! | WRITE, SETATTR, OPEN with O_TRUNC, CREATE | never a save |
//! | FLUSH of a handle that wrote, by the process that opened it | the text is tried |
//! | FLUSH by any other process | nothing is saved: `{ a; b; } > tree.yaml` flushes with the end of each; but a text that ends with the line `...` is checked, and refused if that is in vain |
//! | FSYNC of a handle that wrote | the text is tried |
//! | RENAME of another file onto `tree.yaml` | its text is tried first; refused, nothing is renamed |
//! | RELEASE of the last handle that may write | what was never tried is tried; refused text gives way to the saved one |
//!
//! An empty text is never tried: the shell flushes the file that `>` made empty before anything is
//! written to it. The text that is saved already costs no save and keeps its time. What was refused is
//! refused again, untried, until the text changes. A text whose writer was killed by a signal is not
//! tried: half a tree may be a sound tree.
//!
//! Why another process's flush is heard at all: in `cat text > tree.yaml` some shells (dash since 0.5.11)
//! open the file themselves and look at no answer of close; only `cat` does. Nothing that it or another
//! could append makes a text sound that has ended and is not.

use std::ffi::OsStr;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use super::desk::{Desk, ERROR, REJECTED, Shown, State};
use super::mirror::Entry;
use super::names::TREE;
use super::saver::{Head, Refused, Saved, Saver};
use super::seams::{self, Joined};
use super::sheet::{Paper, Refusal, Sheet, now};
use super::{errno, locked};
use crate::error::{Error, Result};
use crate::view::status::{LastRefusal, instant};

/// The largest text that can be written; far beyond any tree.
const LONGEST: u64 = 1 << 40;

/// The process that a request came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Its thread group; 0 if that can't be known.
    pub group: u32,
    /// Whether a signal is ending it just now.
    pub killed: bool,
}

/// An open file that can be written, or another file beside it.
#[derive(Debug)]
pub struct Pen {
    /// Keeps the folder.
    pub(crate) _entry: Arc<Entry>,
    pub(crate) desk: Arc<Desk>,
    pub(crate) sheet: Arc<Sheet>,
    pub(crate) opener: u32,
    pub(crate) writes: bool,
    pub(crate) appends: bool,
    pub(crate) wrote: AtomicBool,
    /// How often others had changed the tree when this handle was opened, or last read it from its start:
    /// a text that it writes began from that one.
    pub(crate) lineage: AtomicU64,
}

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

impl Pen {
    /// Reads at an offset.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let mut state = locked(&self.desk.state);
        if offset == 0 && self.writes {
            self.begin_from_now(&mut state);
        }
        let body = locked(&self.sheet.body);
        match &body.paper {
            Paper::Source => self.desk.saved_text()?.read_at(offset, buf),
            Paper::File(file) => {
                let rest = body.size.saturating_sub(offset).min(buf.len() as u64) as usize;
                file.read_exact_at(&mut buf[..rest], offset)?;
                Ok(rest)
            }
            Paper::Link(_) => Err(errno(libc::EINVAL)),
        }
    }

    /// What this handle writes from now on began from the tree as it is now, unless a text is begun.
    pub(crate) fn begin_from_now(&self, state: &mut State) {
        if matches!(locked(&self.sheet.body).paper, Paper::Source)
            && let Ok((lineage, _)) = self.desk.head(state)
        {
            self.lineage.store(lineage, Ordering::Relaxed);
        }
    }

    /// Tells a text that this handle is the first to change which tree it began from.
    pub(crate) fn begin_text(&self, state: &mut State, with_text: bool) -> Result<()> {
        let begins = matches!(locked(&self.sheet.body).paper, Paper::Source);
        self.desk.own_paper(state, &self.sheet, with_text)?;
        if begins {
            locked(&self.sheet.body).lineage = self.lineage.load(Ordering::Relaxed);
        }
        Ok(())
    }

    /// Writes at an offset, or at the end if it was opened so; `mapped` says that the bytes come from a
    /// mapping, of whatever handle.
    pub fn write(&self, offset: u64, data: &[u8], mapped: bool) -> Result<()> {
        let mut state = locked(&self.desk.state);
        self.desk.write_access(&state)?;
        self.begin_text(&mut state, true)?;
        let limit = self.desk.limit();
        let mut body = locked(&self.sheet.body);
        let offset = if self.appends && !mapped { body.size } else { offset };
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= LONGEST);
        let size = body.size.max(end.ok_or_else(|| errno(libc::EFBIG))?);
        body.take_room(size, limit)?;
        if let Paper::File(file) = &body.paper {
            file.write_all_at(data, offset)?;
        }
        body.size = size;
        body.mapped |= mapped;
        body.edited(self.appends && !mapped);
        self.wrote.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether closing it, or making it durable, may take as long as a save.
    pub fn is_slow(&self) -> bool {
        self.writes
    }

    /// Whether [`Pen::release`] may take as long as a save.
    pub fn is_slow_release(&self) -> bool {
        if !self.writes {
            return false;
        }
        let state = locked(&self.desk.state);
        let body = locked(&self.sheet.body);
        let untried = body.writers == 1 && !body.is_clean() && body.size > 0 && body.refusal().is_none();
        state.busy || (untried && self.desk.is_tree(&state, &self.sheet))
    }

    /// What close does: the text is tried if this handle wrote it and its own process closes it.
    pub fn flush(&self, caller: Caller) -> Result<()> {
        let mut saver = {
            let state = locked(&self.desk.state);
            if !self.has_text(&state) {
                return Ok(());
            }
            if caller.killed {
                let mut body = locked(&self.sheet.body);
                body.cut = Some(body.edits);
                return Ok(());
            }
            let foreign = self.opener != 0 && caller.group != 0 && caller.group != self.opener;
            if foreign && !locked(&self.sheet.body).has_ended()? {
                return Ok(());
            }
            drop(state);
            let mut saver = locked(&self.desk.saver);
            if foreign {
                return self.desk.attempt(&mut saver, &self.sheet, false).map(drop);
            }
            saver
        };
        self.desk.commit(&mut saver, &self.sheet)
    }

    /// What fsync does: the text is tried if this handle wrote it; a scratch file reaches the disk.
    pub fn sync(&self) -> Result<()> {
        {
            let state = locked(&self.desk.state);
            if !self.desk.is_tree(&state, &self.sheet) {
                let file = match &locked(&self.sheet.body).paper {
                    Paper::File(file) => file.clone(),
                    _ => return Ok(()),
                };
                drop(state);
                return Ok(file.sync_data()?);
            }
            if !self.has_text(&state) {
                return Ok(());
            }
        }
        let mut saver = locked(&self.desk.saver);
        self.desk.commit(&mut saver, &self.sheet)
    }

    /// Whether there is a text of `tree.yaml` to be tried that this handle wrote.
    pub fn is_concerned(&self) -> bool {
        self.has_text(&locked(&self.desk.state))
    }

    fn has_text(&self, state: &State) -> bool {
        let body = locked(&self.sheet.body);
        let wrote = self.wrote.load(Ordering::Relaxed) || (self.writes && body.mapped);
        wrote && !body.is_clean() && self.desk.is_tree(state, &self.sheet)
    }

    /// What the end of the handle does; to be called once.
    pub fn release(&self) {
        let desk = &self.desk;
        {
            let _state = locked(&desk.state);
            let mut body = locked(&self.sheet.body);
            body.handles = body.handles.saturating_sub(1);
            body.free_if_gone();
        }
        if !self.writes {
            return;
        }
        {
            let state = locked(&desk.state);
            let mut body = locked(&self.sheet.body);
            body.writers = body.writers.saturating_sub(1);
            if body.writers > 0 {
                return;
            }
            if !desk.is_tree(&state, &self.sheet) && body.refused.is_none() {
                drop(body);
                drop(state);
                // It may have been the tree when it was opened. Who is saving looks after that himself.
                return desk.rest_if_free();
            }
        }
        let mut saver = locked(&desk.saver);
        desk.left(&mut saver, &self.sheet);
        desk.rest(&mut saver);
    }
}

impl Desk {
    /// Refuses to write to what is no more.
    pub(crate) fn write_access(&self, state: &State) -> Result<()> {
        if state.closed { Err(errno(libc::EROFS)) } else { Ok(()) }
    }

    /// Nobody has the sheet open for writing any more.
    fn left(&self, saver: &mut Option<Box<dyn Saver>>, sheet: &Arc<Sheet>) {
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
    fn commit(&self, saver: &mut Option<Box<dyn Saver>>, sheet: &Arc<Sheet>) -> Result<()> {
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
            self.write_access(&state)?;
            let body = locked(&sheet.body);
            let (text, edits) = (body.text()?, body.edits);
            drop(body);
            return Err(self.refuse(&mut state, sheet, edits, &text, unopened(&error)));
        }
        let (text, joined, edits, head, times, before, saver) = {
            let mut state = locked(&self.state);
            self.write_access(&state)?;
            let saved = self.saved_text()?;
            let ((lineage, head), before) = (self.head(&mut state)?, self.times(&state)?);
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
                return Ok(Tried::Same);
            }
            // So may be what was written when it was saved, while the file has something put back into it.
            if body.refusal().is_none() && body.lineage == lineage && state.is_as_written(&body)? {
                body.saved = body.edits;
                (body.mtime, body.ctime) = before;
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
            tracing::warn!("{}: what was saved would have been refused: {warning}", self.label().display());
        }
        state.last_warnings = saved.warnings;
        state.head = state.shown.map(|shown| (shown.identity, saved.head));
        state.seams = joined.map_or(0, |joined| joined.seams);
        self.remember_written(&mut state, mended.then_some(&text));
        state.rejected = None;
        for name in [ERROR, REJECTED] {
            // Unless it is what was saved: corrected where it lay, and put in place.
            if !state.names.get(OsStr::new(name)).is_some_and(|told| Arc::ptr_eq(told, sheet)) {
                self.take(&mut state, OsStr::new(name));
            }
        }
        let lineage = state.lineage;
        let mut body = locked(&sheet.body);
        body.lineage = lineage;
        body.refused = None;
        if body.edits == edits {
            body.saved = edits;
        }
        Ok(Tried::Saved { mended })
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

    /// Notes a refusal: for the program, in the two files, in the state directory, in the log.
    fn refuse(
        &self,
        state: &mut State,
        sheet: &Arc<Sheet>,
        edits: u64,
        text: &[u8],
        refused: Refused,
    ) -> Error {
        let answer = match refused.errno {
            // Editors would offer to try as another user.
            libc::EPERM | libc::EACCES => libc::EROFS,
            errno => errno,
        };
        locked(&sheet.body).refused = Some(Refusal { edits, errno: answer, for_good: refused.for_good });
        let head = Some(Head::of_bytes(text));
        let is_new = state.rejected.is_none() || state.rejected != head;
        state.rejected = head;
        let told = state.names.contains_key(OsStr::new(ERROR));
        if is_new || !told {
            let why = format!("tree.yaml was not saved: {}", refused.summary);
            let kept = match is_new {
                true => self.keep(state, ".rejected.yaml", text, &why),
                false => state.last_refusal.as_ref().and_then(|last| last.kept_in.clone()),
            };
            let mut explanation = refused.explanation;
            if let Some(path) = &kept {
                explanation += &format!("\nThe text is in {REJECTED}, and in {path}.\n");
            }
            for (name, text) in [(ERROR, explanation.as_bytes()), (REJECTED, text)] {
                if let Err(error) = self.put_text(state, name, text) {
                    tracing::warn!("{}: {name} can't be made: {error}", self.label().display());
                }
            }
            state.last_refusal =
                Some(LastRefusal { time: instant(now()), reason: refused.summary, kept_in: kept });
        }
        if let Err(error) = self.restore(state) {
            tracing::warn!("{}: {error}", self.label().display());
        }
        errno(answer)
    }
}

/// Says that the lines of a text that was joined are counted without its seams.
fn of_joined(refused: Refused, joined: Option<&Joined>) -> Refused {
    let Some(_) = joined else { return refused };
    let explanation = refused.explanation
        + "\nLines are counted without the line '...' behind which something was appended.\n";
    Refused { explanation, ..refused }
}

fn changed_by_others() -> Refused {
    let summary = "another program changed the tree since this text was begun".to_owned();
    let explanation = format!(
        "{summary}.\n\nNothing was saved. Open {TREE} again to see what it is now, and make your changes there."
    ) + "\n";
    Refused { errno: libc::EBUSY, summary, explanation, for_good: true, unsettled: false }
}

fn defect() -> Refused {
    let summary = "a defect in asdf-mount kept the text from being saved".to_owned();
    let explanation = format!("{summary}\n");
    Refused { errno: libc::EIO, summary, explanation, for_good: false, unsettled: false }
}

fn unfinished() -> Refused {
    let summary = "the program that wrote the text was killed before it was done".to_owned();
    let explanation = format!("{summary}.\n\nNothing was saved: a half of a tree may be a sound tree.\n");
    Refused { errno: libc::EINVAL, summary, explanation, for_good: true, unsettled: false }
}

fn unopened(error: &Error) -> Refused {
    let summary = error.to_string();
    let explanation = format!("{summary}.\n\nNothing was saved.\n");
    Refused { errno: error.errno(), summary, explanation, for_good: false, unsettled: false }
}
