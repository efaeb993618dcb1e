//! The arguments and results of an [`Editor`](super::Editor).

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use md5::{Digest, Md5};
use seekable::content::{Content, read_exact_at};
use seekable::error::{Error, Kind, Result};
use seekable::source::storage::{HeldDir, Rights, Storage, System};
use seekable::source::{FileSource, SourceVersion};
use seekable::user_dirs::STATE;

use super::refusal::Problem;
use crate::history::History;

/// Bytes hashed at once.
const PIECE: usize = 256 << 10;

/// The identity of a tree's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextVersion {
    /// Length of the text in bytes.
    pub len: u64,
    /// MD5 digest of the text.
    pub digest: [u8; 16],
}

impl TextVersion {
    /// Computes the version of a text in memory.
    pub fn of_bytes(text: &[u8]) -> Self {
        Self { len: text.len() as u64, digest: Md5::digest(text).into() }
    }

    /// Computes the version of a content, reading all of it.
    pub fn of(text: &dyn Content) -> Result<Self> {
        Self::read(text.len(), |at, piece| read_exact_at(text, at, piece).map(|()| piece.len()))
    }

    /// Hashes the first `len` bytes that `read_at` returns, or all bytes if there are fewer.
    pub(super) fn read<E>(
        len: u64,
        mut read_at: impl FnMut(u64, &mut [u8]) -> std::result::Result<usize, E>,
    ) -> std::result::Result<Self, E> {
        let mut md5 = Md5::new();
        let mut at = 0;
        let mut piece = vec![0; PIECE.min(usize::try_from(len).unwrap_or(PIECE))];
        while at < len {
            let wanted = usize::try_from(len - at).map_or(piece.len(), |rest| rest.min(piece.len()));
            match read_at(at, &mut piece[..wanted])? {
                0 => break,
                read => {
                    md5.update(&piece[..read]);
                    at += read as u64;
                }
            }
        }
        Ok(Self { len, digest: md5.finalize().into() })
    }
}

/// The file that an editor writes.
#[derive(Clone, Debug)]
pub struct SaveTarget {
    dir: HeldDir,
    name: OsString,
    label: PathBuf,
    rights: Option<Rights>,
    /// The directory at which the caller mounts the file. Nothing at or below it is opened, because the mount
    /// would wait for itself.
    mounted_at: Option<PathBuf>,
}

impl SaveTarget {
    /// Creates a target: the file `name`, not a link, in an open directory. Messages call the file `label`.
    pub fn new(dir: OwnedFd, name: OsString, label: PathBuf) -> Self {
        Self { dir: dir.into(), name, label, rights: None, mounted_at: None }
    }

    /// Returns a target that never becomes a file with another owner, group or mode, because another user may
    /// replace the file at the name.
    #[must_use]
    pub fn with_rights(self, rights: Rights) -> Self {
        Self { rights: Some(rights), ..self }
    }

    /// Returns a target of a file that the caller mounts at a directory.
    #[must_use]
    pub fn mounted_at(self, directory: Option<&Path>) -> Self {
        Self { mounted_at: directory.map(Path::to_owned), ..self }
    }

    /// Returns the directory at which the caller mounts the file.
    pub(super) fn mount(&self) -> Option<&Path> {
        self.mounted_at.as_deref()
    }

    /// Returns the owner, group and mode that the file must have.
    pub fn rights(&self) -> Option<Rights> {
        self.rights
    }

    /// Finds the file at a path, following links. From then on its directory is held: a save does not follow a
    /// path in which another user has exchanged a directory.
    pub fn of_path(path: &Path) -> Result<Self> {
        let (dir, name) = HeldDir::of_file(path).map_err(|error| match error.raw_os_error() {
            Some(libc::EISDIR) => Error::new(Kind::Unrecognised, "is a directory, not a file").of(path),
            _ => Error::from(error).of(path),
        })?;
        Ok(Self { dir, name, label: path.to_owned(), rights: None, mounted_at: None })
    }

    /// Opens the file for reading.
    pub fn open(&self) -> Result<Arc<FileSource>> {
        let file = System.open(&self.dir, &self.name, false);
        let file = file.map_err(|error| match error.raw_os_error() {
            Some(libc::EINVAL) => Error::new(Kind::Unrecognised, "is not a regular file").of(&self.label),
            _ => Error::from(error).of(&self.label),
        })?;
        Ok(Arc::new(FileSource::from_file(file, &self.label)?))
    }

    /// Returns the file's directory, opened before a mount could cover the directory.
    pub fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Returns the file's directory, to work in it.
    pub(super) fn held(&self) -> &HeldDir {
        &self.dir
    }

    /// Returns the name of the file in its directory.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Returns the path that the user gave, for messages.
    pub fn label(&self) -> &Path {
        &self.label
    }

    /// Returns the state directory; `None` if it, or the file, is below the caller's mount.
    pub(super) fn state(&self) -> Option<PathBuf> {
        let state = STATE.path().ok()?;
        let is_covered =
            self.mount().is_some_and(|mount| self.dir.is_below(mount) || state.starts_with(mount));
        (!is_covered).then_some(state)
    }
}

/// The strictness of the check of a text before a save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validation {
    /// Readers of the format must find the same data.
    #[default]
    Strict,
    /// The layout must stay sound; other problems are warnings.
    Warn,
    /// The layout must stay sound; nothing else is checked.
    Off,
}

/// The user's options for saves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EditOptions {
    /// The level of checking.
    pub validation: Validation,
    /// Padding in bytes after a text that has grown; `None` for the format's default.
    pub padding: Option<u64>,
}

/// Settings and state shared by the editors of a mount.
#[derive(Clone, Debug, Default)]
pub struct EditContext {
    /// The user's options.
    pub options: EditOptions,
    /// Methods of saving that file systems do not support.
    pub limits: DeviceLimits,
    /// The history, which keeps the texts that saves replace.
    pub history: Option<Arc<History>>,
}

/// Methods of saving that a device does not support, so that no save tries them again. Clones share the set.
#[derive(Clone, Debug, Default)]
pub struct DeviceLimits(Arc<Mutex<HashSet<(u64, &'static str)>>>);

impl DeviceLimits {
    /// True if the device is known not to support a method.
    pub fn has(&self, device: u64, method: &'static str) -> bool {
        self.0.lock().is_ok_and(|refused| refused.contains(&(device, method)))
    }

    /// Records that the device does not support a method.
    pub fn add(&self, device: u64, method: &'static str) {
        if let Ok(mut refused) = self.0.lock() {
            refused.insert((device, method));
        }
    }
}

/// The result of a save.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    /// The version of the tree now.
    pub version: TextVersion,
    /// The version of the file that the text was saved into.
    pub from: SourceVersion,
    /// The version of the file as the save left it.
    pub after: SourceVersion,
    /// True if the file was written; false if the tree had this text already.
    pub written: bool,
    /// Messages about lost parts that were restored in the text. If empty, the tree is exactly the given
    /// text.
    pub restored: Vec<String>,
    /// Problems that did not cause a refusal.
    pub warnings: Vec<Problem>,
}

/// The expected result of a save.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    /// The text that would be saved: the given text, with lost parts restored.
    pub text: Vec<u8>,
    /// The way in which the text would be written, in the documentation's words; `None` if the tree has
    /// this text already.
    pub way: Option<&'static str>,
    /// Messages about lost parts that would be restored in the text.
    pub restored: Vec<String>,
    /// Problems that would not cause a refusal.
    pub warnings: Vec<Problem>,
}
