//! The writable layer in the folder of one file.
//!
//! An [`Overlay`] has the names of its folder, `tree.yaml` among them, and the [`OverlayFile`]s behind these names.
//! One of the files may be *pristine*: it has no file of its own and shows the head of the source. `tree.yaml` is
//! pristine as long as no program writes to it. Renamed away, the file stays pristine until another text is about to
//! be saved, and then takes a copy of what it showed.
//!
//! The overlay's lock is held for whatever takes no longer than copying a tree. During a save only the lock of the
//! editor is held, which is taken first.
//!
//! - `file`: a file of the overlay, and how much all of them may take
//! - `write_handle`, `change`, `naming`, `xattr`: what programs do with them
//! - `draft`: how a text is tried as a save; `appended`: texts behind the line `...`
//! - `refusal`: what the user is told of a text that was not saved; `verbatim`: the saved text as it was written
//! - `pristine`, `idle`: when `tree.yaml` shows the source again; what is released when no program writes
//! - `lazy`: an overlay is made when a program opens `tree.yaml`, and dropped when it is not needed
//! - `state_dir`, `beside`: the user's state directory, and which files are kept there

pub(crate) mod appended;
pub(crate) mod beside;
pub mod change;
pub(crate) mod draft;
pub(crate) mod file;
pub(crate) mod idle;
pub(crate) mod lazy;
pub mod naming;
pub(crate) mod pristine;
pub(crate) mod refusal;
pub(crate) mod state_dir;
#[cfg(test)]
mod tests;
pub(crate) mod verbatim;
pub mod write_handle;
pub(crate) mod xattr;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::content::Content;
use crate::error::{Error, Result, errno};
use crate::folder::mounted_file::{CurrentFile, MountedFile};
use crate::folder::open_files::OpenFiles;
use crate::folder::serials::Serials;
use crate::format::editor::{EditContext, EditSupport, Editor, TextVersion};
use crate::format::view_names;
use crate::host::detect::Position;
use crate::host::stat::{Kind, Stat, Time};
use crate::overlay::file::{Backing, Body, FileStat, MOST_BYTES, OverlayFile, Quota, copy, now};
use crate::overlay::refusal::ERROR;
use crate::overlay::state_dir::{ScratchDir, StateDir, in_memory, stem_of};
use crate::source::SourceVersion;
use crate::sync::{Rank, RankedMutex, locked, locked_at_once};
use crate::view::status::{LastRefusal, Writing};
use crate::view::{ABOUT, BLOCKS, TREE};

/// What the overlays of a mount share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// None where no state directory can be had: scratch files are then held in memory.
    pub(crate) state_dir: Option<Arc<StateDir>>,
    pub(crate) quota: Arc<Quota>,
    /// What the editors of the mount share.
    pub(crate) edits: Arc<EditContext>,
    pub(crate) serials: Arc<Serials>,
    pub(crate) open_files: Arc<OpenFiles>,
}

/// What is written in one folder.
#[derive(Debug)]
pub(crate) struct Overlay {
    /// No two overlays of a mount have the same.
    serial: u64,
    pub(crate) shared: Arc<Shared>,
    position: Position,
    current: Arc<CurrentFile>,
    /// Opens the editor of the file.
    support: &'static dyn EditSupport,
    pub(crate) state: RankedMutex<State>,
    /// Held while a save is made; what it is made with, once it is needed.
    pub(crate) editor: RankedMutex<Option<Box<dyn Editor>>>,
    /// The overlay file that has the inode number of an unwritten `tree.yaml`.
    first: Weak<OverlayFile>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) names: BTreeMap<OsString, Arc<OverlayFile>>,
    /// The overlay file that shows the source.
    pub(crate) pristine: Weak<OverlayFile>,
    pub(crate) missing: Option<Instant>,
    /// The source's head, and the version of the source that has it.
    pub(crate) head: Option<(SourceVersion, TextVersion)>,
    /// Counts how often another program changed the head.
    pub(crate) base_version: u64,
    /// What `tree.yaml` says of its times while the source is as the last save left it.
    pub(crate) shown: Option<Shown>,
    scratch_dir: Option<ScratchDir>,
    /// The text that was refused last, whose files may still be there.
    pub(crate) rejected: Option<TextVersion>,
    /// Lines `...` in the midst of the text that was saved last, as it was written; see
    /// [`inner_ends`](crate::overlay::appended). An editor may have it so even when `tree.yaml` shows what is in the source.
    pub(crate) inner_ends: usize,
    /// The text that was saved last as it was written, where the source has something put back into it:
    /// that is what editors know of it. Nothing names it.
    pub(crate) saved_verbatim: Option<Arc<Body>>,
    pub(crate) last_save: Option<Time>,
    pub(crate) last_warnings: Vec<String>,
    pub(crate) last_refusal: Option<LastRefusal>,
    /// When the last refusal was, until a program looks for what is told of it.
    pub(crate) refused_at: Option<Instant>,
    /// Whether a save is being made.
    pub(crate) busy: bool,
    /// Whether the editor is kept although no draft is open.
    pub(crate) keeps_editor: bool,
    pub(crate) closed: bool,
    /// Whether anything was written, or could have been.
    pub(crate) touched: bool,
    /// When a name came or went last.
    changed: Option<Time>,
}

/// See [`State::shown`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    pub(crate) version: SourceVersion,
    pub(crate) mtime: Time,
    pub(crate) ctime: Time,
}

impl Overlay {
    /// The overlay of a file that can be written.
    pub(crate) fn of(
        position: &Position,
        current: &Arc<CurrentFile>,
        shared: &Arc<Shared>,
        support: &'static dyn EditSupport,
    ) -> Result<Self> {
        let serial = shared.serials.next()?;
        let body = RankedMutex::new(Rank::Body, Body::new(Backing::Source, 0));
        let overlay_file = Arc::new(OverlayFile { serial: None, overlay: serial, body });
        let state = State {
            names: BTreeMap::from([(TREE.into(), overlay_file.clone())]),
            pristine: Arc::downgrade(&overlay_file),
            missing: None,
            head: None,
            base_version: 0,
            shown: None,
            scratch_dir: None,
            rejected: None,
            inner_ends: 0,
            saved_verbatim: None,
            last_save: None,
            last_warnings: Vec::new(),
            last_refusal: None,
            refused_at: None,
            busy: false,
            keeps_editor: false,
            closed: false,
            touched: false,
            changed: None,
        };
        Ok(Self {
            serial,
            shared: shared.clone(),
            position: position.clone(),
            current: current.clone(),
            support,
            state: RankedMutex::new(Rank::Overlay, state),
            editor: RankedMutex::new(Rank::Editor, None),
            first: Arc::downgrade(&overlay_file),
        })
    }

    /// The overlay file that has the inode number of an unwritten `tree.yaml`, if it is still there.
    pub(crate) fn first(&self) -> Result<Arc<OverlayFile>> {
        self.first.upgrade().ok_or_else(|| errno(libc::ESTALE))
    }

    /// Whether an overlay file belongs to this overlay.
    pub(crate) fn has(&self, overlay_file: &OverlayFile) -> bool {
        overlay_file.overlay == self.serial
    }

    pub(crate) fn mounted(&self) -> Result<Arc<MountedFile>> {
        self.current.mounted(&self.position.location, &self.shared.serials, &self.shared.open_files)
    }

    /// What is said of the source; what was last seen of it, if it is gone: what was written in its folder
    /// stays.
    pub(crate) fn stat(&self) -> Result<Stat> {
        match self.mounted() {
            Ok(mounted) => Ok(mounted.look().stat),
            Err(error) => self.current.last_seen().ok_or(error),
        }
    }

    /// The text that was saved last.
    pub(crate) fn saved_text(&self) -> Result<Arc<dyn Content>> {
        Ok(self.mounted()?.newest()?.container()?.tree())
    }

    /// The source's name, for files in the state directory.
    pub(crate) fn stem(&self) -> OsString {
        stem_of(&self.position.location.label())
    }

    pub(crate) fn label(&self) -> std::path::PathBuf {
        self.position.location.label()
    }

    /// Opens and locks the file for saves, if that was not done yet.
    pub(crate) fn open_editor<'a>(
        &self,
        editor: &'a mut Option<Box<dyn Editor>>,
    ) -> Result<&'a mut Box<dyn Editor>> {
        if editor.is_none() {
            let opened = self.support.open(self.position.location.save_target()?, &self.shared.edits)?;
            for notice in opened.notices() {
                tracing::warn!("{}: {notice}", self.label().display());
            }
            *editor = Some(opened);
        }
        editor.as_mut().ok_or_else(|| errno(libc::EIO))
    }

    /// Sees to it that a draft can become a save, as far as that can be known before.
    pub(crate) fn begin(&self) -> Result<()> {
        // A thread that saves has all that is needed. Of a file that is left halfway nothing can be
        // read until it is settled: that is waited for.
        let editor = match self.mounted()?.is_unsettled() {
            true => Some(locked(&self.editor)),
            false => locked_at_once(&self.editor),
        };
        let Some(mut editor) = editor else { return Ok(()) };
        self.open_editor(&mut editor).map(drop).and_then(|()| self.settle_source(&mut editor)).map_err(
            |error| {
                tracing::warn!("{error}");
                match error.errno() {
                    libc::EACCES | libc::EPERM => errno(libc::EROFS),
                    _ => error,
                }
            },
        )
    }

    /// Makes the source one file again, if a save left it halfway.
    pub(crate) fn settle_source(&self, editor: &mut Option<Box<dyn Editor>>) -> Result<()> {
        let mounted = self.mounted()?;
        if mounted.is_unsettled() {
            self.open_editor(editor)?.settle()?;
            mounted.settled();
        }
        Ok(())
    }

    /// Keeps the file locked until the mount ends.
    pub(crate) fn keep_editor(&self) -> Result<()> {
        self.open_editor(&mut locked(&self.editor))?;
        let mut state = locked(&self.state);
        (state.keeps_editor, state.touched) = (true, true);
        Ok(())
    }

    /// The bytes that all overlay files may take while this folder is written to.
    pub(crate) fn limit(&self) -> u64 {
        let tree = self.saved_text().map_or(0, |text| text.len());
        MOST_BYTES.saturating_add(tree.saturating_mul(4))
    }

    /// A file of an overlay file's own; `name` is where it is found after a crash. It is in memory if the state
    /// directory can't be used.
    pub(crate) fn backing(&self, state: &mut State, name: Option<&OsStr>) -> Result<File> {
        let Some(state_dir) = &self.shared.state_dir else { return in_memory() };
        if state.scratch_dir.as_ref().is_some_and(ScratchDir::is_gone) {
            state.scratch_dir = None;
        }
        if state.scratch_dir.is_none() {
            match state_dir.scratch_dir(&self.stem()) {
                Ok(made) => state.scratch_dir = Some(made),
                Err(error) => state_dir.tell_in_memory(&error),
            }
        }
        let made = state.scratch_dir.as_ref().map_or_else(in_memory, |scratch_dir| scratch_dir.file(name));
        made.or_else(|error| {
            state_dir.tell_in_memory(&error);
            in_memory()
        })
    }

    /// A file like that of [`backing`](Self::backing), with this text.
    pub(crate) fn filled(&self, state: &mut State, name: Option<&OsStr>, text: &dyn Content) -> Result<File> {
        let file = self.backing(state, name)?;
        copy(text, &file).map(|()| file).or_else(|error| self.in_memory_instead(text, &error))
    }

    /// A file in memory with this text, as the state directory could not take it.
    pub(crate) fn in_memory_instead(&self, text: &dyn Content, error: &Error) -> Result<File> {
        let file = in_memory()?;
        copy(text, &file)?;
        if let Some(state_dir) = &self.shared.state_dir {
            state_dir.tell_in_memory(error);
        }
        Ok(file)
    }

    /// What the source's head is, and how often others changed it.
    pub(crate) fn head(&self, state: &mut State) -> Result<(u64, TextVersion)> {
        if let (true, Some((_, head))) = (state.busy, state.head) {
            return Ok((state.base_version, head));
        }
        let opened = self.mounted()?.newest()?;
        if let Some((known, head)) = state.head
            && known == opened.version
        {
            return Ok((state.base_version, head));
        }
        let head = TextVersion::of(&*opened.container()?.tree())?;
        if state.head.is_some_and(|(_, old)| old != head) {
            state.base_version += 1;
            (state.inner_ends, state.saved_verbatim) = (0, None);
        }
        state.head = Some((opened.version, head));
        Ok((state.base_version, head))
    }

    /// A new overlay file that nothing names yet.
    pub(crate) fn overlay_file(&self, backing: Backing, base_version: u64) -> Result<Arc<OverlayFile>> {
        let mut body = Body::new(backing, base_version);
        if !matches!(body.backing, Backing::Source) {
            body.take_room(&self.shared.quota, 0, MOST_BYTES)?;
        }
        self.overlay_file_with(body)
    }

    /// A new overlay file with a body that was made for it.
    pub(crate) fn overlay_file_with(&self, body: Body) -> Result<Arc<OverlayFile>> {
        let serial = Some(self.shared.serials.next()?);
        Ok(Arc::new(OverlayFile { serial, overlay: self.serial, body: RankedMutex::new(Rank::Body, body) }))
    }

    /// Whether this overlay file is `tree.yaml` now.
    pub(crate) fn is_tree(&self, state: &State, overlay_file: &Arc<OverlayFile>) -> bool {
        state.names.get(OsStr::new(TREE)).is_some_and(|tree| Arc::ptr_eq(tree, overlay_file))
    }

    /// The overlay file at a name.
    pub(crate) fn lookup(&self, name: &OsStr) -> Result<Arc<OverlayFile>> {
        let mut state = locked(&self.state);
        self.tidy(&mut state);
        if name == ERROR {
            state.refused_at = None;
        }
        state.names.get(name).cloned().ok_or_else(|| errno(libc::ENOENT))
    }

    /// All names, without those that the folder itself has.
    pub(crate) fn names(&self) -> Vec<OsString> {
        let mut state = locked(&self.state);
        self.tidy(&mut state);
        state.names.keys().cloned().collect()
    }

    /// When a name came or went last.
    pub(crate) fn changed(&self) -> Option<Time> {
        locked(&self.state).changed
    }

    /// What is said of an overlay file.
    pub(crate) fn stat_of(&self, overlay_file: &Arc<OverlayFile>) -> Result<FileStat> {
        let mut state = locked(&self.state);
        self.tidy(&mut state);
        let source = self.stat()?;
        let body = locked(&overlay_file.body);
        let (kind, size, times) = match &body.backing {
            // It can be written although it can't be read just now: that settles it.
            Backing::Source if self.mounted()?.is_unsettled() => (Kind::File, 0, self.times(&state)?),
            Backing::Source => (Kind::File, self.saved_text()?.len(), self.times(&state)?),
            Backing::File(_) => {
                let again = body.refusal().filter(|_| self.is_tree(&state, overlay_file));
                let (size, times) = again
                    .and_then(|_| self.after_refusal(&state).ok())
                    .unwrap_or((body.size, (body.mtime, body.ctime)));
                (Kind::File, size, times)
            }
            Backing::Text(_) => (Kind::File, body.size, (body.mtime, body.ctime)),
            Backing::Link(text) => (Kind::Link, text.len() as u64, (body.mtime, body.ctime)),
        };
        // Where other users may look the source alone says what they may do with the tree.
        let own = !(self.position.location.origin().shared && self.is_tree(&state, overlay_file));
        Ok(FileStat {
            kind,
            size,
            mode: body.mode.filter(|_| own),
            uid: body.uid.filter(|_| own),
            gid: body.gid.filter(|_| own),
            nlink: body.nlink,
            atime: body.atime.unwrap_or(times.0),
            mtime: times.0,
            ctime: times.1,
            source,
        })
    }

    /// Puts an overlay file at a name that is free.
    pub(crate) fn put(&self, state: &mut State, name: &OsStr, overlay_file: &Arc<OverlayFile>) {
        state.names.insert(name.to_owned(), overlay_file.clone());
        state.changed = Some(now());
        if name == TREE {
            state.missing = None;
        }
    }

    /// Takes a name away; open handles keep the file.
    pub(crate) fn take(&self, state: &mut State, name: &OsStr) -> Option<Arc<OverlayFile>> {
        let overlay_file = state.names.remove(name)?;
        let mut body = locked(&overlay_file.body);
        body.nlink = body.nlink.saturating_sub(1);
        body.ctime = now();
        body.give_back_if_gone();
        drop(body);
        state.changed = Some(now());
        if name == TREE {
            state.missing = Some(Instant::now());
        }
        if let Some(scratch_dir) = &state.scratch_dir {
            scratch_dir.remove(name);
        }
        self.clear_scratch_dir_if_unused(state);
        Some(overlay_file)
    }

    /// Moves files of the state directory along with names.
    pub(crate) fn follow_rename(&self, state: &State, old: &OsStr, new: &OsStr, exchange: bool) {
        if let Some(scratch_dir) = &state.scratch_dir {
            scratch_dir.rename(old, new, exchange);
        }
    }

    pub(crate) fn follow_link(&self, state: &State, old: &OsStr, new: &OsStr) {
        if let Some(scratch_dir) = &state.scratch_dir {
            scratch_dir.link(old, new);
        }
    }

    /// Ends all writing: a save that runs is waited for; a text that was not saved is kept, and files
    /// beside it.
    pub(crate) fn close(&self) {
        let mut editor = locked(&self.editor);
        let mut state = locked(&self.state);
        if std::mem::replace(&mut state.closed, true) {
            return;
        }
        if let Some(tree) = state.names.get(OsStr::new(TREE)).cloned() {
            let (unsaved, empty) = {
                let body = locked(&tree.body);
                let own = matches!(body.backing, Backing::File(_));
                (own && !body.is_clean() && body.refusal().is_none(), body.size == 0)
            };
            if unsaved && empty {
                tracing::warn!("{}: tree.yaml was left empty: the saved text stays", self.label().display());
            } else if unsaved {
                self.keep_unfinished(&mut state, &tree);
            }
        }
        let scratch_dir = state.scratch_dir.take();
        self.keep_beside(&mut state, scratch_dir);
        *editor = None;
    }

    /// What `status.yaml` says of it.
    pub(crate) fn writing(&self) -> Writing {
        let state = locked(&self.state);
        let dirty = |overlay_file: &Arc<OverlayFile>| !locked(&overlay_file.body).is_clean();
        Writing {
            writable: true,
            read_only_because: None,
            draft: state.names.get(OsStr::new(TREE)).is_some_and(dirty),
            last_save: state.last_save.map(crate::view::status::instant),
            last_warnings: state.last_warnings.clone(),
            last_refusal: state.last_refusal.clone(),
        }
    }
}

/// Whether a name is one that the folder itself has, so that no file can.
pub(crate) fn is_reserved(name: &OsStr) -> bool {
    [BLOCKS, ABOUT].into_iter().chain(view_names()).any(|reserved| name == reserved)
}
