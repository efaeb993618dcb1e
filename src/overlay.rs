//! The writable layer in the directory of one file.
//!
//! An [`Overlay`] holds the names of its directory, `tree.yaml` among them, and the [`OverlayFile`]s behind
//! these names. One of the files may be *pristine*: it has no scratch file and shows the head of the source.
//! `tree.yaml` is pristine until a program writes to it. If it is renamed, the file stays pristine until
//! another text is about to be saved. It then gets a copy of the text that it showed.
//!
//! The overlay's lock is held for operations that take no longer than copying a tree. During a save only the
//! lock on the file's [`Editor`] is held. A thread that needs both locks takes the editor's first.
//!
//! - `file`: the files of an overlay, and the quota of all of them
//! - `write_handle`, `change`, `naming`, `xattr`: the operations of programs on them
//! - `paths`: directories beside `tree.yaml`
//! - `draft`: trying a text as a save; `appended`: texts after the line `...`
//! - `refusal`: reporting and keeping refused texts; `verbatim`: the saved text as its program wrote it
//! - `pristine`, `idle`: when `tree.yaml` shows the source again; releasing resources when no program writes
//! - `lazy`: an overlay is created when a program opens `tree.yaml`, and dropped when it is not needed
//! - `state_dir`, `beside`: the user's state directory, and the files that are kept there

pub(crate) mod appended;
pub(crate) mod beside;
pub(crate) mod change;
pub(crate) mod draft;
pub(crate) mod file;
pub(crate) mod idle;
pub(crate) mod lazy;
pub(crate) mod naming;
pub(crate) mod paths;
pub(crate) mod pristine;
pub(crate) mod refusal;
pub(crate) mod state_dir;
#[cfg(test)]
mod tests;
pub(crate) mod verbatim;
pub(crate) mod write_handle;
pub(crate) mod xattr;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::sync::{Arc, Weak};
use std::time::Instant;

use asdf_access::local::detect::EntryPosition;
use asdf_access::local::stat::{FileKind, Stat, Time};
use asdf_file::container::text_version::TextVersion;
use asdf_file::edit::Editor;
use asdf_file::edit::context::EditContext;
use asdf_views::format::view_names;
use seekable::content::{Content, read_exact_at};
use seekable::error::{Error, Kind, Result, errno};
use seekable::source::SourceVersion;
use seekable::sync::{Rank, RankedMutex, locked, locked_at_once};

use crate::mounted::file::{CurrentFile, MountedFile};
use crate::mounted::generation::HeldGeneration;
use crate::mounted::open_files::OpenFiles;
use crate::mounted::serials::Serials;
use crate::overlay::file::{Backing, Body, FileStat, MAX_BYTES, OverlayFile, Quota, copy, now};
use crate::overlay::paths::NewName;
use crate::overlay::refusal::ERROR;
use crate::overlay::state_dir::{ScratchDir, StateDir, in_memory, stem_of};
use crate::view::status::{LastRefusal, Writing};
use crate::view::{ABOUT, BLOCKS, TREE};

/// Settings and state shared by the overlays of a mount.
#[derive(Debug)]
pub(crate) struct SharedByOverlays {
    /// `None` if no state directory is usable: scratch files are then held in memory.
    pub(crate) state_dir: Option<Arc<StateDir>>,
    pub(crate) quota: Arc<Quota>,
    /// State shared by the editors of the mount.
    pub(crate) edits: Arc<EditContext>,
    pub(crate) serials: Arc<Serials>,
    pub(crate) open_files: Arc<OpenFiles>,
}

/// The writable layer of one directory.
#[derive(Debug)]
pub(crate) struct Overlay {
    /// Serial number, unique within the mount.
    serial: u64,
    pub(crate) shared: Arc<SharedByOverlays>,
    position: EntryPosition,
    current: Arc<CurrentFile>,
    pub(crate) state: RankedMutex<OverlayState>,
    /// The file's editor, once it is needed. Its lock is held during a save.
    pub(crate) editor: RankedMutex<Option<Editor>>,
    /// The file that has the inode number of an unwritten `tree.yaml`.
    first: Weak<OverlayFile>,
    #[cfg(test)]
    interruption: std::sync::Mutex<Option<tests::Interruption>>,
}

#[derive(Debug)]
pub(crate) struct OverlayState {
    /// The files by their paths, see [`paths`].
    pub(crate) names: BTreeMap<OsString, Arc<OverlayFile>>,
    /// The file that shows the source.
    pub(crate) pristine: Weak<OverlayFile>,
    pub(crate) missing: Option<Instant>,
    /// The version of the source, and the version of the text of its head.
    pub(crate) head: Option<(SourceVersion, TextVersion)>,
    /// Number of times that another program changed the head.
    pub(crate) base_version: u64,
    /// The last short texts of the source, by `base_version`, for a merge after a conflict.
    pub(crate) base_texts: Vec<(u64, Arc<[u8]>)>,
    /// The times of `tree.yaml` while the source is as the last save left it.
    pub(crate) shown: Option<SavedTimes>,
    scratch_dir: Option<ScratchDir>,
    /// The last refused text, whose report files may still exist.
    pub(crate) rejected: Option<TextVersion>,
    /// Number of inner lines `...` in the last saved text as it was written; see
    /// [`inner_ends`](crate::overlay::appended). A text editor may show them even if `tree.yaml` shows
    /// the text of the source.
    pub(crate) inner_ends: usize,
    /// The last saved text as it was written, if the source differs from it because the save restored
    /// something. Text editors know this text. It has no name in the directory.
    pub(crate) saved_verbatim: Option<Arc<Body>>,
    pub(crate) last_save: Option<Time>,
    pub(crate) last_warnings: Vec<String>,
    pub(crate) last_refusal: Option<LastRefusal>,
    /// Time of the last refusal, until a program looks for its report.
    pub(crate) refused_at: Option<Instant>,
    /// True during a save.
    pub(crate) busy: bool,
    /// True if the editor, with its lock on the file, is kept even while no program writes.
    pub(crate) keeps_editor: bool,
    pub(crate) closed: bool,
    /// True once a program changed a file or opened it for writing, or the editor is kept.
    pub(crate) touched: bool,
    /// Time of the last change of the set of names.
    changed: Option<Time>,
}

/// Maximum length of a text that is kept for a merge, in bytes, and the number of such texts.
pub(crate) const MAX_BASE: u64 = 1 << 20;
const BASES: usize = 2;

impl OverlayState {
    /// Keeps the present text of the source, if there is one, for a merge after a conflict.
    pub(crate) fn keep_base(&mut self, text: Option<Arc<[u8]>>) {
        let version = self.base_version;
        self.base_texts.retain(|(known, _)| *known != version);
        if let Some(text) = text {
            self.base_texts.push((version, text));
        }
        let surplus = self.base_texts.len().saturating_sub(BASES);
        self.base_texts.drain(..surplus);
    }

    /// Returns the text of the source in a version.
    pub(crate) fn base_text(&self, base_version: u64) -> Option<Arc<[u8]>> {
        self.base_texts.iter().find(|(known, _)| *known == base_version).map(|(_, text)| text.clone())
    }
}

/// Returns a text if it is short enough for a merge.
pub(crate) fn short_text(text: &dyn Content) -> Result<Option<Arc<[u8]>>> {
    if text.len() > MAX_BASE {
        return Ok(None);
    }
    let mut bytes = vec![0; text.len() as usize];
    read_exact_at(text, 0, &mut bytes)?;
    Ok(Some(bytes.into()))
}

/// Times of the saved text; see [`OverlayState::shown`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct SavedTimes {
    pub(crate) version: SourceVersion,
    pub(crate) mtime: Time,
    pub(crate) ctime: Time,
}

impl Overlay {
    /// Creates the overlay of a writable file.
    pub(crate) fn of(
        position: &EntryPosition,
        current: &Arc<CurrentFile>,
        shared: &Arc<SharedByOverlays>,
    ) -> Result<Self> {
        let serial = shared.serials.next()?;
        let body = RankedMutex::new(Rank::Body, Body::new(Backing::Source, 0));
        let overlay_file = Arc::new(OverlayFile { serial: None, overlay: serial, is_dir: false, body });
        let state = OverlayState {
            names: BTreeMap::from([(TREE.into(), overlay_file.clone())]),
            pristine: Arc::downgrade(&overlay_file),
            missing: None,
            head: None,
            base_version: 0,
            base_texts: Vec::new(),
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
            state: RankedMutex::new(Rank::Overlay, state),
            editor: RankedMutex::new(Rank::Editor, None),
            first: Arc::downgrade(&overlay_file),
            #[cfg(test)]
            interruption: std::sync::Mutex::default(),
        })
    }

    /// Returns the file that has the inode number of an unwritten `tree.yaml`, if it still exists.
    pub(crate) fn first(&self) -> Result<Arc<OverlayFile>> {
        self.first.upgrade().ok_or_else(|| errno(libc::ESTALE))
    }

    /// True if a file belongs to this overlay.
    pub(crate) fn has(&self, overlay_file: &OverlayFile) -> bool {
        overlay_file.overlay == self.serial
    }

    pub(crate) fn mounted(&self) -> Result<Arc<MountedFile>> {
        self.current.mounted(&self.position.location, &self.shared.serials, &self.shared.open_files)
    }

    /// Returns the mounted file and its newest generation.
    pub(crate) fn newest(&self) -> Result<(Arc<MountedFile>, HeldGeneration)> {
        self.current.newest(&self.position.location, &self.shared.serials, &self.shared.open_files)
    }

    /// Returns the stat of the source. If the source is gone, returns its last known stat, as the written
    /// files remain.
    pub(crate) fn stat(&self) -> Result<Stat> {
        match self.mounted() {
            Ok(mounted) => Ok(mounted.revalidate().stat),
            Err(error) => self.current.last_seen().ok_or(error),
        }
    }

    /// Returns the text of the last save.
    pub(crate) fn saved_text(&self) -> Result<Arc<dyn Content>> {
        Ok(self.newest()?.1.container()?.tree())
    }

    /// Returns the prefix of this source's files in the state directory.
    pub(crate) fn stem(&self) -> OsString {
        stem_of(&self.position.location.label())
    }

    pub(crate) fn label(&self) -> std::path::PathBuf {
        self.position.location.label()
    }

    /// Opens, locks and recovers the file for saves, unless that is done already.
    pub(crate) fn open_editor<'a>(&self, editor: &'a mut Option<Editor>) -> Result<&'a mut Editor> {
        if editor.is_none() {
            let opened = Editor::open(self.position.location.save_target()?, &self.shared.edits)?;
            for notice in opened.notices() {
                tracing::warn!("{}: {notice}", self.label().display());
            }
            *editor = Some(opened);
        }
        editor.as_mut().ok_or_else(|| errno(libc::EIO))
    }

    /// Checks before a draft is begun that it can be saved, as far as that is known.
    pub(crate) fn begin(&self) -> Result<()> {
        // A running save has opened the editor, so there is nothing to check.
        let Some(mut editor) = locked_at_once(&self.editor) else { return Ok(()) };
        self.open_editor(&mut editor).map(drop).map_err(|error| {
            tracing::warn!("{error}");
            match error.errno() {
                libc::EACCES | libc::EPERM => errno(libc::EROFS),
                _ => error,
            }
        })
    }

    /// Keeps the file locked until the mount ends.
    pub(crate) fn keep_editor(&self) -> Result<()> {
        self.open_editor(&mut locked(&self.editor))?;
        let mut state = locked(&self.state);
        (state.keeps_editor, state.touched) = (true, true);
        Ok(())
    }

    /// Returns the maximum bytes of all overlay files while this directory is written to.
    pub(crate) fn limit(&self) -> u64 {
        let tree = self.saved_text().map_or(0, |text| text.len());
        MAX_BYTES.saturating_add(tree.saturating_mul(4))
    }

    /// Creates an empty scratch file; `name` is its name after a crash. The file is in memory if the state
    /// directory is not usable.
    pub(crate) fn backing(&self, state: &mut OverlayState, name: Option<&OsStr>) -> Result<File> {
        let Some(state_dir) = &self.shared.state_dir else { return in_memory() };
        self.make_scratch_dir(state, state_dir);
        let made = state.scratch_dir.as_ref().map_or_else(in_memory, |scratch_dir| scratch_dir.file(name));
        made.or_else(|error| {
            state_dir.tell_in_memory(&error);
            in_memory()
        })
    }

    /// Makes the directory for scratch files, if there is none.
    fn make_scratch_dir(&self, state: &mut OverlayState, state_dir: &Arc<StateDir>) {
        if state.scratch_dir.as_ref().is_none_or(ScratchDir::is_gone) {
            let made = state_dir.scratch_dir(&self.stem());
            state.scratch_dir = made.inspect_err(|error| state_dir.tell_in_memory(error)).ok();
        }
    }

    /// Makes a directory in the state directory, like the one in the mount.
    pub(crate) fn follow_make_dir(&self, state: &mut OverlayState, path: &OsStr) {
        if let Some(state_dir) = &self.shared.state_dir {
            self.make_scratch_dir(state, state_dir);
        }
        if let Some(scratch_dir) = &state.scratch_dir {
            scratch_dir.make_dir(path);
        }
    }

    /// Creates a scratch file like [`backing`](Self::backing), with this text.
    pub(crate) fn filled(
        &self,
        state: &mut OverlayState,
        name: Option<&OsStr>,
        text: &dyn Content,
    ) -> Result<File> {
        let file = self.backing(state, name)?;
        copy(text, &file).map(|()| file).or_else(|error| self.in_memory_instead(text, &error))
    }

    /// Creates a file in memory with this text, after an error of the state directory.
    pub(crate) fn in_memory_instead(&self, text: &dyn Content, error: &Error) -> Result<File> {
        let file = in_memory()?;
        copy(text, &file)?;
        if let Some(state_dir) = &self.shared.state_dir {
            state_dir.tell_in_memory(error);
        }
        Ok(file)
    }

    /// Returns the version of the source's head, and how often other programs have changed it.
    pub(crate) fn head(&self, state: &mut OverlayState) -> Result<(u64, TextVersion)> {
        if state.busy
            && let Some((_, head)) = state.head
        {
            return Ok((state.base_version, head));
        }
        let (_, opened) = self.newest()?;
        if let Some((known, head)) = state.head
            && known == opened.version
        {
            return Ok((state.base_version, head));
        }
        let tree = opened.container()?.tree();
        let head = TextVersion::of(&*tree)?;
        if state.head.is_some_and(|(_, old)| old != head) {
            state.base_version += 1;
            (state.inner_ends, state.saved_verbatim) = (0, None);
        }
        state.head = Some((opened.version, head));
        state.keep_base(short_text(&*tree)?);
        Ok((state.base_version, head))
    }

    /// Creates an overlay file without a name, which shows the source.
    pub(crate) fn overlay_file(&self, base_version: u64) -> Result<Arc<OverlayFile>> {
        self.overlay_file_with(Body::new(Backing::Source, base_version))
    }

    /// Creates an overlay file with an existing body.
    pub(crate) fn overlay_file_with(&self, body: Body) -> Result<Arc<OverlayFile>> {
        let serial = Some(self.shared.serials.next()?);
        let is_dir = matches!(body.backing, Backing::Directory);
        let body = RankedMutex::new(Rank::Body, body);
        Ok(Arc::new(OverlayFile { serial, overlay: self.serial, is_dir, body }))
    }

    /// True if this file is `tree.yaml` now.
    pub(crate) fn is_tree(&self, state: &OverlayState, overlay_file: &Arc<OverlayFile>) -> bool {
        state.names.get(OsStr::new(TREE)).is_some_and(|tree| Arc::ptr_eq(tree, overlay_file))
    }

    /// Returns the file that is `tree.yaml` now.
    pub(crate) fn tree(&self) -> Option<Arc<OverlayFile>> {
        locked(&self.state).names.get(OsStr::new(TREE)).cloned()
    }

    /// True if no save can end soon: none is running, no program has begun a text or has one open for writing, and
    /// there is no other file that might be renamed onto `tree.yaml`.
    pub(crate) fn is_quiet(&self) -> bool {
        let state = locked(&self.state);
        let mut files = state.names.iter();
        let Some((name, tree)) = files.next().filter(|_| files.next().is_none()) else { return false };
        let body = locked(&tree.body);
        !state.busy && name == TREE && body.writers == 0 && matches!(body.backing, Backing::Source)
    }

    /// True if this file is `tree.yaml`, no save is running, and nothing was written since the last one.
    pub(crate) fn shows_saved_text(&self, overlay_file: &Arc<OverlayFile>) -> bool {
        let state = locked(&self.state);
        let is_saved = || matches!(locked(&overlay_file.body).backing, Backing::Source);
        !state.busy && self.is_tree(&state, overlay_file) && is_saved()
    }

    /// Returns the file with a name.
    pub(crate) fn lookup(&self, place: NewName<'_>) -> Result<Arc<OverlayFile>> {
        let mut state = locked(&self.state);
        self.tidy(&mut state);
        let path = state.path(place)?;
        if path == ERROR {
            state.refused_at = None;
        }
        state.names.get(&path).cloned().ok_or_else(|| errno(libc::ENOENT))
    }

    /// Returns the names of the overlay files in a directory.
    pub(crate) fn names(&self, dir: Option<&Arc<OverlayFile>>) -> Result<Vec<OsString>> {
        let mut state = locked(&self.state);
        self.tidy(&mut state);
        state.names_in(dir)
    }

    /// Returns the time of the last change of the set of names.
    pub(crate) fn changed(&self) -> Option<Time> {
        locked(&self.state).changed
    }

    /// Returns the stat of a file.
    pub(crate) fn stat_of(&self, overlay_file: &Arc<OverlayFile>) -> Result<FileStat> {
        let mut state = locked(&self.state);
        self.tidy(&mut state);
        let source = self.stat()?;
        let body = locked(&overlay_file.body);
        let (kind, size, times) = match &body.backing {
            Backing::Source => {
                let size = match self.saved_text() {
                    // A half-saved source can't be read at present, but it can be written, which recovers it.
                    Err(error) if error.kind() == Kind::Unfinished => 0,
                    saved => saved?.len(),
                };
                (FileKind::File, size, self.times(&state)?)
            }
            Backing::File(_) => {
                let again = body.refusal().filter(|_| self.is_tree(&state, overlay_file));
                let (size, times) = again
                    .and_then(|_| self.after_refusal(&state).ok())
                    .unwrap_or((body.size, (body.mtime, body.ctime)));
                (FileKind::File, size, times)
            }
            Backing::Text(_) => (FileKind::File, body.size, (body.mtime, body.ctime)),
            Backing::Link(text) => (FileKind::Link, text.len() as u64, (body.mtime, body.ctime)),
            Backing::Directory => (FileKind::Directory, 0, (body.mtime, body.ctime)),
        };
        // With `allow_other`, the permissions of the tree are those of the source.
        let own = !(self.position.location.is_shared() && self.is_tree(&state, overlay_file));
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

    /// Adds a file under a free name.
    pub(crate) fn put(&self, state: &mut OverlayState, name: &OsStr, overlay_file: &Arc<OverlayFile>) {
        state.names.insert(name.to_owned(), overlay_file.clone());
        state.note_change(name);
        if name == TREE {
            state.missing = None;
        }
    }

    /// Removes a name; open handles keep the file.
    pub(crate) fn take(&self, state: &mut OverlayState, name: &OsStr) -> Option<Arc<OverlayFile>> {
        let overlay_file = state.names.remove(name)?;
        let mut body = locked(&overlay_file.body);
        body.nlink = body.nlink.saturating_sub(1);
        body.ctime = now();
        body.give_back_if_gone();
        drop(body);
        state.note_change(name);
        if name == TREE {
            state.missing = Some(Instant::now());
        }
        if let Some(scratch_dir) = &state.scratch_dir {
            scratch_dir.remove(name);
        }
        self.clear_scratch_dir_if_unused(state);
        Some(overlay_file)
    }

    /// Renames files in the state directory like those in the mount.
    pub(crate) fn follow_rename(&self, state: &OverlayState, old: &OsStr, new: &OsStr, exchange: bool) {
        if let Some(scratch_dir) = &state.scratch_dir {
            scratch_dir.rename(old, new, exchange);
        }
    }

    pub(crate) fn follow_link(&self, state: &OverlayState, old: &OsStr, new: &OsStr) {
        if let Some(scratch_dir) = &state.scratch_dir {
            scratch_dir.link(old, new);
        }
    }

    /// Ends all writing: waits for a running save, and keeps an unsaved text and the files beside it.
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

    /// Returns the state of writing for `status.yaml`.
    pub(crate) fn writing(&self) -> Writing {
        let state = locked(&self.state);
        let dirty = |overlay_file: &Arc<OverlayFile>| !locked(&overlay_file.body).is_clean();
        Writing {
            writable: true,
            read_only_because: None,
            draft: state.names.get(OsStr::new(TREE)).is_some_and(dirty),
            last_save: state.last_save.map(asdf_file::time::instant),
            last_warnings: state.last_warnings.clone(),
            last_refusal: state.last_refusal.clone(),
        }
    }
}

/// True for `blocks`, `.asdf-mount` and the names of views, which no overlay file can have.
pub(crate) fn is_reserved(name: &OsStr) -> bool {
    [BLOCKS, ABOUT].into_iter().chain(view_names()).any(|reserved| name == reserved)
}
