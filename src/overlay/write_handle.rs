//! Write handles: open files that can be written, and the requests at which a text is *tried*: checked, and
//! then saved or refused.
//!
//! | request | effect |
//! |---|---|
//! | WRITE, SETATTR, OPEN with O_TRUNC, CREATE | never a save |
//! | FLUSH of a handle that wrote, by the process that opened it | the text is tried |
//! | FLUSH by any other process | no save: `{ a; b; } > tree.yaml` flushes when each program ends. But a text that ends with the line `...` is checked, and refused if it is invalid |
//! | FSYNC of a handle that wrote | the text is tried |
//! | FLUSH of a handle whose text was refused, and that has not written since | no save: the refusal is repeated |
//! | RENAME of another file onto `tree.yaml` | its text is tried first; if it is refused, the rename fails |
//! | RELEASE of the last handle that may write | a text that was never tried is tried; a refused one is replaced by the saved one |
//!
//! The flush by another process matters in `cat text > tree.yaml`: some shells (dash since 0.5.11) open the
//! file themselves and ignore the result of close; only `cat` checks it. An invalid text with the line `...`
//! at its end stays invalid whatever is appended.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use asdf_file::edit::Editor;
use seekable::content::Content;
use seekable::error::{Result, errno};
use seekable::sync::locked;

use crate::overlay::file::{Backing, Body, OverlayFile, Payer, Whole};
use crate::overlay::{Overlay, OverlayState};

/// Maximum size of a text in bytes; far beyond any tree.
const MAX_TEXT: u64 = 1 << 40;

/// The process that sent a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Its thread group; 0 if unknown.
    pub group: u32,
    /// Its user.
    pub uid: u32,
    /// True if a signal is ending the process now.
    pub killed: bool,
}

impl Caller {
    /// Returns the name of the program.
    fn program(self) -> Option<String> {
        let name = std::fs::read(format!("/proc/{}/comm", self.group)).ok()?;
        let name = String::from_utf8_lossy(&name).trim_end().to_owned();
        (!name.is_empty()).then_some(name)
    }
}

/// An open file of the overlay, for reading or writing.
#[derive(Debug)]
pub struct WriteHandle {
    pub(crate) overlay: Arc<Overlay>,
    pub(crate) overlay_file: Arc<OverlayFile>,
    pub(crate) opener: u32,
    pub(crate) writes: bool,
    pub(crate) appends: bool,
    pub(crate) wrote: AtomicBool,
    /// The overlay's `base_version` when this handle was opened, or last read the tree from its start. A text
    /// that it writes is derived from that version.
    pub(crate) base_version: AtomicU64,
    /// Value of the file's `edits` for the last text of this handle that was refused; 0 if none was.
    refused: AtomicU64,
    /// The text being read, since the first read; renewed by a read at offset 0.
    reading: Mutex<Option<ReadText>>,
}

/// A snapshot of a text, unaffected by later saves.
#[derive(Clone, Debug)]
enum ReadText {
    /// The saved text, or a generated one.
    Content(Arc<dyn Content>),
    /// A draft, or a file beside the tree.
    File(Arc<File>),
}

impl ReadText {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        match self {
            Self::Content(content) => content.read_at(offset, buf),
            Self::File(file) => Ok(file.read_at(buf, offset)?),
        }
    }
}

/// The open flags of a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenFor {
    /// True if opened for writing.
    pub writing: bool,
    /// True if each write goes to the end (O_APPEND).
    pub appending: bool,
    /// True if the file is truncated (O_TRUNC).
    pub truncating: bool,
    /// True if the file must not exist (O_EXCL).
    pub only_new: bool,
}

impl Overlay {
    /// Opens a file.
    pub(crate) fn open(
        self: &Arc<Self>,
        overlay_file: Arc<OverlayFile>,
        open: OpenFor,
        caller: Caller,
    ) -> Result<WriteHandle> {
        if self.is_tree(&locked(&self.state), &overlay_file) {
            // Looks for a change of the source, because the new text is derived from the tree as it is now.
            if let Ok(mounted) = self.mounted() {
                mounted.revalidate_now();
            }
            if open.writing {
                self.begin()?;
            }
        }
        let program = if open.writing { caller.program() } else { None };
        let mut state = locked(&self.state);
        match locked(&overlay_file.body).backing {
            Backing::Link(_) => return Err(errno(libc::ELOOP)),
            Backing::Directory => return Err(errno(libc::EISDIR)),
            _ => {}
        }
        if open.writing {
            self.write_access(&mut state)?;
        }
        if open.writing {
            let is_beside = !self.is_tree(&state, &overlay_file);
            locked(&overlay_file.body).set_payer(Payer { uid: caller.uid, is_beside });
        }
        let truncates = open.truncating && open.writing;
        if truncates {
            self.resize(&mut state, &overlay_file, 0)?;
        }
        {
            let mut body = locked(&overlay_file.body);
            body.handles += 1;
            if open.writing {
                body.writers += 1;
                body.program = program;
            }
        }
        let writer = WriteHandle {
            overlay: self.clone(),
            overlay_file,
            opener: caller.group,
            writes: open.writing,
            appends: open.appending,
            wrote: AtomicBool::new(truncates),
            base_version: AtomicU64::new(state.base_version),
            refused: AtomicU64::new(0),
            reading: Mutex::default(),
        };
        if open.writing {
            writer.begin_from_now(&mut state);
        }
        drop(state);
        Ok(writer)
    }
}

impl WriteHandle {
    /// Reads at an offset; `mapped` is true if the bytes are for a memory mapping, of any handle.
    ///
    /// A program that has begun to read a text reads it to its end, even if another text is saved meanwhile.
    /// It gets the new text when it reads from the start again, or writes.
    pub fn read(&self, offset: u64, buf: &mut [u8], mapped: bool) -> Result<usize> {
        let mut state = locked(&self.overlay.state);
        if offset == 0 && self.writes {
            self.begin_from_now(&mut state);
        }
        let body = locked(&self.overlay_file.body);
        let mut reading = locked(&self.reading);
        let goes_on = offset > 0 && !mapped && !body.mapped && !self.wrote.load(Ordering::Relaxed);
        let begun = reading.clone().filter(|_| goes_on);
        let text = begun.map_or_else(|| self.text_of(&body), Ok)?;
        if !mapped {
            *reading = Some(text.clone());
        }
        drop((reading, body, state));
        text.read_at(offset, buf)
    }

    /// Returns the current text of the file.
    fn text_of(&self, body: &Body) -> Result<ReadText> {
        match &body.backing {
            Backing::Source => self.overlay.saved_text().map(ReadText::Content),
            Backing::File(file) => Ok(ReadText::File(file.clone())),
            Backing::Text(text) => Ok(ReadText::Content(Arc::new(text.clone()))),
            Backing::Link(_) | Backing::Directory => Err(errno(libc::EINVAL)),
        }
    }

    /// Sets the current tree as the base of later writes by this handle, unless a text is already begun.
    pub(crate) fn begin_from_now(&self, state: &mut OverlayState) {
        if matches!(locked(&self.overlay_file.body).backing, Backing::Source)
            && let Ok((base_version, _)) = self.overlay.head(state)
        {
            self.base_version.store(base_version, Ordering::Relaxed);
        }
    }

    /// Begins a text with the first change by this handle, and sets its base.
    pub(crate) fn begin_text(&self, state: &mut OverlayState, with_text: bool) -> Result<()> {
        let begins = matches!(locked(&self.overlay_file.body).backing, Backing::Source);
        self.overlay.copy_up(state, &self.overlay_file, with_text)?;
        if begins {
            locked(&self.overlay_file.body).base_version = self.base_version.load(Ordering::Relaxed);
        }
        Ok(())
    }

    /// Writes at an offset, or at the end with O_APPEND; `mapped` is true if the bytes come from a memory
    /// mapping, of any handle.
    pub fn write(&self, offset: u64, data: &[u8], mapped: bool) -> Result<()> {
        let mut state = locked(&self.overlay.state);
        self.overlay.write_access(&mut state)?;
        self.begin_text(&mut state, true)?;
        let limit = self.overlay.limit();
        let mut body = locked(&self.overlay_file.body);
        let offset = if self.appends && !mapped { body.size } else { offset };
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= MAX_TEXT);
        let size = body.size.max(end.ok_or_else(|| errno(libc::EFBIG))?);
        body.take_room(&self.overlay.shared.quota, size, limit)?;
        if let Backing::File(file) = &body.backing
            && let Err(error) = file.write_all_at(data, offset)
        {
            let file = self.overlay.in_memory_instead(&Whole(file, body.size), &error.into())?;
            file.write_all_at(data, offset)?;
            body.backing = Backing::File(Arc::new(file));
        }
        body.size = size;
        body.mapped |= mapped;
        body.edited(self.appends && !mapped);
        self.wrote.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// True if flush or fsync may take as long as a save.
    pub fn is_slow(&self) -> bool {
        self.writes
    }

    /// True if [`WriteHandle::release`] may take as long as a save.
    pub fn is_slow_release(&self) -> bool {
        if !self.writes {
            return false;
        }
        let state = locked(&self.overlay.state);
        let body = locked(&self.overlay_file.body);
        let untried = body.writers == 1 && !body.is_clean() && body.size > 0 && body.refusal().is_none();
        state.busy || (untried && self.overlay.is_tree(&state, &self.overlay_file))
    }

    /// Handles close: checks the text that this handle wrote, and saves or refuses it, if the closing process
    /// is the one that opened the handle. The table of the module has the other cases.
    pub fn flush(&self, caller: Caller) -> Result<()> {
        let mut editor = {
            let state = locked(&self.overlay.state);
            if !self.has_text(&state) {
                return Ok(());
            }
            if caller.killed {
                let mut body = locked(&self.overlay_file.body);
                body.cut = Some(body.edits);
                return Ok(());
            }
            let by_another = self.opener != 0 && caller.group != 0 && caller.group != self.opener;
            if by_another && !locked(&self.overlay_file.body).has_ended()? {
                return Ok(());
            }
            drop(state);
            let mut editor = locked(&self.overlay.editor);
            if by_another {
                return self.overlay.attempt(&mut editor, &self.overlay_file, false).map(drop);
            }
            editor
        };
        self.repeat_refusal()?;
        self.commit(&mut editor)?;
        self.overlay.show_joined(&self.overlay_file, 1);
        Ok(())
    }

    /// Fails if the present text was refused when this handle tried it: a program that was told so must not find it saved.
    fn repeat_refusal(&self) -> Result<()> {
        let body = locked(&self.overlay_file.body);
        match body.refusal() {
            Some(refusal) if self.refused.load(Ordering::Relaxed) == body.edits => {
                Err(errno(refusal.errno()))
            }
            _ => Ok(()),
        }
    }

    /// Tries the text, and remembers if it was refused.
    fn commit(&self, editor: &mut Option<Editor>) -> Result<()> {
        let tried = self.overlay.commit(editor, &self.overlay_file);
        let body = locked(&self.overlay_file.body);
        if tried.is_err() && body.refusal().is_some() {
            self.refused.store(body.edits, Ordering::Relaxed);
        }
        tried
    }

    /// Handles fsync: checks the text that this handle wrote, and saves or refuses it. Makes a file other
    /// than `tree.yaml` durable.
    pub fn sync(&self) -> Result<()> {
        {
            let state = locked(&self.overlay.state);
            if !self.overlay.is_tree(&state, &self.overlay_file) {
                let file = match &locked(&self.overlay_file.body).backing {
                    Backing::File(file) => file.clone(),
                    _ => return Ok(()),
                };
                drop(state);
                return Ok(file.sync_data()?);
            }
            if !self.has_text(&state) {
                return Ok(());
            }
        }
        let mut editor = locked(&self.overlay.editor);
        self.commit(&mut editor)
    }

    /// True if this handle wrote a text of `tree.yaml` that is not saved yet.
    pub fn is_concerned(&self) -> bool {
        self.has_text(&locked(&self.overlay.state))
    }

    fn has_text(&self, state: &OverlayState) -> bool {
        let body = locked(&self.overlay_file.body);
        let wrote = self.wrote.load(Ordering::Relaxed) || (self.writes && body.mapped);
        wrote && !body.is_clean() && self.overlay.is_tree(state, &self.overlay_file)
    }

    /// Handles RELEASE of the handle; must be called once.
    pub fn release(&self) {
        let overlay = &self.overlay;
        {
            let _state = locked(&overlay.state);
            let mut body = locked(&self.overlay_file.body);
            body.handles = body.handles.saturating_sub(1);
            body.give_back_if_gone();
        }
        if !self.writes {
            return overlay.show_joined(&self.overlay_file, 0);
        }
        {
            let state = locked(&overlay.state);
            let mut body = locked(&self.overlay_file.body);
            body.writers = body.writers.saturating_sub(1);
            if body.writers > 0 {
                return;
            }
            if !overlay.is_tree(&state, &self.overlay_file) && body.refused.is_none() {
                drop(body);
                drop(state);
                // The file may have been the tree when it was opened, so the source may still be locked. If a
                // save is running, the lock is released after the save.
                return overlay.rest_if_free();
            }
        }
        let mut editor = locked(&overlay.editor);
        overlay.last_writer_closed(&mut editor, &self.overlay_file);
        overlay.show_joined(&self.overlay_file, 0);
        overlay.rest(&mut editor);
    }
}
