//! What a format offers for files that can be changed: editors of their trees.
//!
//! [`Container::editor`](super::Container::editor) gives the [`EditSupport`] of a file's format, which opens an
//! [`Editor`] for one file. The editor holds the file's lock as long as it lives. It decides whether a text is
//! accepted, how the text gets into the file, and what a crash leaves. The caller decides when a text is tried.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use md5::{Digest, Md5};
use rustix::fs::{Mode, OFlags};

use super::recovery::found::{Condition, Recovered};
use super::refusal::{Problem, Refusal};
use crate::content::{Content, read_exact_at};
use crate::error::{Error, Kind, Result};
use crate::source::Readers;
use crate::user_dirs::STATE;

/// Bytes hashed at once.
const PIECE: usize = 256 << 10;

/// Which text a file's tree is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextVersion {
    /// Bytes of the text.
    pub len: u64,
    /// Digest of these bytes.
    pub digest: [u8; 16],
}

impl TextVersion {
    /// The version of a text in memory.
    pub fn of_bytes(text: &[u8]) -> Self {
        Self { len: text.len() as u64, digest: Md5::digest(text).into() }
    }

    /// Reads all of `text`.
    pub fn of(text: &dyn Content) -> Result<Self> {
        Self::read(text.len(), |at, piece| read_exact_at(text, at, piece).map(|()| piece.len()))
    }

    /// Hashes the first `len` bytes of what `read_at` reads, fewer if it ends earlier.
    pub(super) fn read<E>(
        len: u64,
        mut read_at: impl FnMut(u64, &mut [u8]) -> std::result::Result<usize, E>,
    ) -> std::result::Result<Self, E> {
        let (mut md5, mut at) = (Md5::new(), 0);
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
#[derive(Debug)]
pub struct SaveTarget {
    dir: OwnedFd,
    name: OsString,
    label: PathBuf,
}

impl SaveTarget {
    /// The file `name`, not a link, in an open directory; messages call it `label`.
    pub fn new(dir: OwnedFd, name: OsString, label: PathBuf) -> Self {
        Self { dir, name, label }
    }

    /// The file at a path; links are followed.
    pub fn of_path(path: &Path) -> Result<Self> {
        let find = || -> Result<Self> {
            let full = path.canonicalize()?;
            let (dir, name) = full
                .parent()
                .zip(full.file_name())
                .ok_or_else(|| Error::new(Kind::Unrecognised, "is a directory, not a file"))?;
            let dir =
                rustix::fs::open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
            Ok(Self::new(dir, name.to_owned(), path.to_owned()))
        };
        find().map_err(|error| error.of(path))
    }

    /// The directory that holds the file; opened before a mount could cover it.
    pub fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// The file's name in that directory.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// The path as the user knows it, for messages.
    pub fn label(&self) -> &Path {
        &self.label
    }

    /// A path that reaches the file while this value lives, and the state directory if it can be used.
    ///
    /// Where the mount covers the file, the path leads through the open directory. Nothing in the state
    /// directory can be named by such a path, so it is left out then.
    pub fn paths(&self, mountpoint: Option<&Path>) -> Result<(PathBuf, Option<PathBuf>)> {
        let held = Path::new("/proc/self/fd").join(self.dir.as_raw_fd().to_string());
        let dir = rustix::fs::readlink(&held, Vec::new())?;
        let dir = PathBuf::from(OsString::from_vec(dir.into_bytes()));
        let covered = |path: &Path| mountpoint.is_some_and(|mountpoint| path.starts_with(mountpoint));
        Ok(match covered(&dir) {
            true => (held.join(&self.name), None),
            // A state directory below the mount would have the mount wait for itself.
            false => (dir.join(&self.name), STATE.path().ok().filter(|state| !covered(state))),
        })
    }
}

/// How strictly a text is checked before it is saved.
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

/// What the user chose about saves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EditOptions {
    /// How strictly texts are checked.
    pub validation: Validation,
    /// Bytes of room left behind a text that has grown; the format chooses if `None`.
    pub padding: Option<u64>,
}

/// What the editors of one mount share.
#[derive(Clone, Debug, Default)]
pub struct EditContext {
    /// What the user chose.
    pub options: EditOptions,
    /// Where the files are mounted, if they are.
    pub mountpoint: Option<PathBuf>,
    /// What file systems have refused.
    pub limits: DeviceLimits,
}

/// The methods of saving that a device does not support, so that no save tries them again. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct DeviceLimits(Arc<Mutex<HashSet<(u64, &'static str)>>>);

impl DeviceLimits {
    /// Whether the device is known not to support a method.
    pub fn has(&self, device: u64, method: &'static str) -> bool {
        self.0.lock().is_ok_and(|refused| refused.contains(&(device, method)))
    }

    /// Notes that the device does not support a method.
    pub fn add(&self, device: u64, method: &'static str) {
        if let Ok(mut refused) = self.0.lock() {
            refused.insert((device, method));
        }
    }
}

/// What a save did.
#[derive(Clone, Debug)]
pub struct Saved {
    /// Which text the tree is now.
    pub version: TextVersion,
    /// Whether anything was written; nothing is if the tree was this text already.
    pub written: bool,
    /// What was put back into the text; the tree is exactly the given text if this is empty.
    pub restored: Vec<String>,
    /// What the text was nearly refused for.
    pub warnings: Vec<Problem>,
}

/// Changes the tree of one file, and holds its lock.
pub trait Editor: Send + std::fmt::Debug {
    /// What the user should know about the opening of this file, a line each.
    fn notices(&self) -> &[String];

    /// Which text the tree is now.
    fn version(&mut self) -> Result<TextVersion>;

    /// The text of the tree.
    fn text(&mut self) -> Result<Vec<u8>>;

    /// Checks a text without writing it; the arguments are those of [`commit`](Self::commit).
    fn check(&mut self, text: &[u8], base: &TextVersion) -> std::result::Result<(), Refusal>;

    /// Makes `text` the tree, durably, or leaves the file as it is.
    ///
    /// `base` is the version that the text was made from: the text is refused if the file has another one
    /// now. `readers` are told of all bytes that change in the same file, before they do.
    fn commit(
        &mut self,
        text: &[u8],
        base: &TextVersion,
        readers: &mut dyn Readers,
    ) -> std::result::Result<Saved, Refusal>;

    /// Finishes or undoes a save that failed and could be neither finished nor undone then.
    fn settle(&mut self) -> Result<()>;
}

/// Changes files of one format, and cleans up after interrupted saves.
///
/// The methods take a mountpoint because a mount must not open files through itself.
pub trait EditSupport: Sync + std::fmt::Debug {
    /// Opens and locks a file, and recovers it from an interrupted save.
    ///
    /// # Errors
    ///
    /// The errno is EROFS, EACCES or EPERM if the file can only be read, EBUSY if another program has it.
    fn open(&self, target: SaveTarget, context: &EditContext) -> Result<Box<dyn Editor>>;

    /// Whether a file, judged by its name, belongs to a save of the file beside it.
    fn is_sidecar(&self, name: &OsStr) -> bool;

    /// Whether there are traces of an interrupted save, or of one in progress.
    fn is_interrupted(&self, target: &SaveTarget, mountpoint: Option<&Path>) -> Result<bool>;

    /// Finishes or undoes an interrupted save.
    ///
    /// # Errors
    ///
    /// [`Busy`](Kind::Busy) if another program has the file, [`ReadOnly`](Kind::ReadOnly) if it can't be
    /// written.
    fn recover(&self, target: &SaveTarget, mountpoint: Option<&Path>) -> Result<Recovered>;

    /// Whether the file is one version, for callers that only read; changes nothing.
    fn condition(&self, target: &SaveTarget, mountpoint: Option<&Path>) -> Result<Condition>;
}
