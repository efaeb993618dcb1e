//! Pens: open files that can be written, and which request has a text tried as a save.
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
//! Why another process's flush is heard at all: in `cat text > tree.yaml` some shells (dash since 0.5.11)
//! open the file themselves and look at no answer of close; only `cat` does. Nothing that it or another
//! could append makes a text sound that has ended and is not.

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::desk::{Desk, State};
use super::mirror::{Class, Entry};
use super::sheet::{Paper, Sheet};
use super::{errno, locked};
use crate::error::Result;

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
    pub(crate) entry: Arc<Entry>,
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
        self.desk.write_access(&mut state)?;
        self.begin_text(&mut state, true)?;
        let limit = self.desk.limit();
        let mut body = locked(&self.sheet.body);
        let offset = if self.appends && !mapped { body.size } else { offset };
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= LONGEST);
        let size = body.size.max(end.ok_or_else(|| errno(libc::EFBIG))?);
        body.take_room(&self.desk.room.budget, size, limit)?;
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

impl Drop for Pen {
    fn drop(&mut self) {
        if let Class::Folder(folder) = &self.entry.class {
            folder.let_go(&self.desk);
        }
    }
}
