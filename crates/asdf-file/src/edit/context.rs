//! The arguments and results of an [`Editor`](super::Editor).

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use asdf_tree::schema::Schemas;
use seekable::error::{Error, Kind, Result};
use seekable::source::storage::{HeldDir, Rights, Storage, System};
use seekable::source::{FileSource, SourceVersion};
use seekable::sync::locked;
use seekable::user_dirs::STATE;

use super::refusal::Problem;
use crate::container::text_version::TextVersion;
use crate::history::History;

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
    pub(crate) fn mount(&self) -> Option<&Path> {
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
    pub(crate) fn held(&self) -> &HeldDir {
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
    pub(crate) fn state(&self) -> Option<PathBuf> {
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
    /// The schemas that a saved tree must fit; `None` for no schemas.
    pub schemas: Option<Arc<Schemas>>,
}

/// Methods of saving that a device does not support, so that no save tries them again. Clones share the set.
#[derive(Clone, Debug, Default)]
pub struct DeviceLimits(Arc<Mutex<HashSet<(u64, &'static str)>>>);

impl DeviceLimits {
    /// True if the device is known not to support a method.
    pub fn has(&self, device: u64, method: &'static str) -> bool {
        locked(&*self.0).contains(&(device, method))
    }

    /// Records that the device does not support a method.
    pub fn add(&self, device: u64, method: &'static str) {
        locked(&*self.0).insert((device, method));
    }
}

/// The result of a save.
#[derive(Clone, Debug)]
pub struct Saved {
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
pub struct Planned {
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
