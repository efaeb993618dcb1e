//! The files of a save: the journal, and the [image](super::image), a new file that takes the source's place or is
//! copied into it.
//!
//! Both lie beside the source. If no file can be created there, they lie in the user's state directory under
//! a name derived from the source's path. Either directory is held open: a save works with names in it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use md5::{Digest, Md5};
use seekable::error::{Error, Kind};
use seekable::source::storage::{Meta, Storage, System};

use crate::edit::context::SaveTarget;

const JOURNAL: &str = ".asdf-mount-journal";

/// Maximum length of a file name on common file systems.
const MAX_NAME: usize = 255;
/// Maximum number of journals that are set aside, which means renamed because they can't be used.
const MAX_SET_ASIDE: usize = 1000;

/// The place of one source's journal and images: names in a directory that is held open.
#[derive(Clone, Debug)]
pub(crate) struct Sidecars<S: Storage> {
    /// The directory.
    pub(crate) dir: S::Dir,
    /// The journal.
    pub(crate) journal: OsString,
    /// The start of the names of images.
    pub(super) stem: OsString,
}

impl<S: Storage> Sidecars<S> {
    fn new(dir: S::Dir, stem: &OsStr) -> Self {
        Self { dir, journal: with(stem, JOURNAL), stem: stem.to_owned() }
    }

    /// Returns the path of a name in the directory, for messages.
    pub(crate) fn label(&self, storage: &S, name: &OsStr) -> PathBuf {
        Path::new(&storage.label(&self.dir)).join(name)
    }

    /// Returns the names that a journal may have: its own name, and the first name to which a journal is set
    /// aside.
    pub(crate) fn journals(&self) -> impl Iterator<Item = OsString> {
        std::iter::once(self.journal.clone()).chain(aside(&self.journal).take(1))
    }
}

/// A source, as a name in a directory that is held open, and the places for its journal and its image.
#[derive(Clone, Debug)]
pub(crate) struct HeldSource<S: Storage> {
    /// The directory.
    pub(crate) dir: S::Dir,
    /// The name of the source, not of a link.
    pub(crate) name: OsString,
    /// The state directory, which may not exist yet.
    pub(crate) state: Option<PathBuf>,
    /// The start of the names in the state directory.
    key: String,
}

/// A place for journal and image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JournalPlace {
    /// The directory of the source.
    Beside,
    /// The state directory.
    State,
}

impl<S: Storage> HeldSource<S> {
    /// Names a source in a directory.
    pub(crate) fn new(storage: &S, dir: S::Dir, name: &OsStr, state: Option<PathBuf>) -> io::Result<Self> {
        let key = storage.key(&dir, name)?;
        Ok(Self { dir, name: name.to_owned(), state, key })
    }

    /// Names the source at a path, which leads through no link that another user may change.
    pub(crate) fn at(storage: &S, path: &Path, state: Option<PathBuf>) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
        Self::new(storage, storage.hold(path.parent().unwrap_or(Path::new(".")))?, name, state)
    }

    /// Returns the path at which the source is now, for messages.
    pub(crate) fn label(&self, storage: &S) -> PathBuf {
        Path::new(&storage.label(&self.dir)).join(&self.name)
    }

    /// Returns the name of the note of the lock in the state directory.
    pub(crate) fn note(&self) -> String {
        format!("{}.holder", self.key)
    }

    /// Opens the source.
    pub(crate) fn open(&self, storage: &S, write: bool) -> io::Result<S::File> {
        storage.open(&self.dir, &self.name, write)
    }

    /// Returns the metadata of the file that has the source's name.
    pub(crate) fn meta(&self, storage: &S) -> io::Result<Meta> {
        storage.meta_at(&self.dir, &self.name)
    }

    /// Returns the places for journal and image, best first.
    pub(crate) fn places(&self) -> impl Iterator<Item = JournalPlace> {
        std::iter::once(JournalPlace::Beside).chain(self.state.as_ref().map(|_| JournalPlace::State))
    }

    /// Returns journal and image beside the source.
    pub(crate) fn beside(&self) -> Sidecars<S> {
        let mut stem = OsString::from(".");
        if self.name.len() + ".".len() + SUFFIX_SPACE <= MAX_NAME {
            stem.push(&self.name);
        } else {
            stem.push(hash(&self.name));
        }
        Sidecars::new(self.dir.clone(), &stem)
    }

    /// Opens a place, and creates the state directory if it is missing. Fails if no file can be created and
    /// removed there.
    pub(crate) fn prepare(&self, storage: &S, place: JournalPlace) -> io::Result<Sidecars<S>> {
        let sidecars = match (place, &self.state) {
            (JournalPlace::State, Some(state)) => {
                Sidecars::new(storage.open_state(state, true)?, OsStr::new(&self.key))
            }
            _ => self.beside(),
        };
        storage.may_change(&sidecars.dir)?;
        Ok(sidecars)
    }

    /// Returns journal and image in each place that exists.
    pub(crate) fn existing(&self, storage: &S) -> Vec<Sidecars<S>> {
        let state = self.state.as_ref().and_then(|state| storage.open_state(state, false).ok());
        let state = state.map(|state| Sidecars::new(state, OsStr::new(&self.key)));
        std::iter::once(self.beside()).chain(state).collect()
    }

    /// Returns the paths of the journal in all places, for messages.
    pub(crate) fn journals(&self, storage: &S) -> Vec<PathBuf> {
        let beside = self.beside();
        let state = self.state.as_ref().map(|state| state.join(with(OsStr::new(&self.key), JOURNAL)));
        std::iter::once(beside.label(storage, &beside.journal)).chain(state).collect()
    }

    /// Returns an error if no directory can hold a journal of this source, with the reason for each.
    pub(crate) fn check_places(&self, storage: &S) -> Result<(), Error> {
        let beside = storage.may_change(&self.dir).map_err(|error| (storage.label(&self.dir).into(), error));
        let tried = std::iter::once(beside);
        let tried = tried.chain(self.state.as_ref().map(|state| storage.may_use_state(state)));
        let mut reasons = Vec::new();
        for answer in tried {
            let Err((dir, error)) = answer else { return Ok(()) };
            let hint = if error.raw_os_error() == Some(libc::EPERM) { "; see lsattr -d" } else { "" };
            reasons.push(format!("{}: {}{hint}", dir.display(), Error::from(error).message()));
        }
        let what = format!(
            "can't be saved, because no file can be created and removed beside it ({})",
            reasons.join("; ")
        );
        Err(Error::new(Kind::ReadOnly, what))
    }
}

impl HeldSource<System> {
    /// Returns the source that a target names, with its state directory if that may be used.
    pub(crate) fn of(target: &SaveTarget) -> Result<Self, Error> {
        let source = Self::new(&System, target.held().clone(), target.name(), target.state());
        source.map_err(|error| Error::from(error).of(target.label()))
    }
}

pub(super) fn with(stem: &OsStr, suffix: &str) -> OsString {
    let mut name = stem.to_owned();
    name.push(suffix);
    name
}

/// Room for the longest suffix: that of an image.
const SUFFIX_SPACE: usize = 72;

/// True if `name` is the name of a journal, in use or set aside.
pub(super) fn is_journal(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let stem = name.rsplit_once(".aside").map_or(&*name, |(stem, _)| stem);
    name.starts_with('.') && stem.ends_with(JOURNAL)
}

/// Returns names for setting aside a file, best first.
pub(crate) fn aside(name: &OsStr) -> impl Iterator<Item = OsString> {
    let name = name.to_owned();
    (1..=MAX_SET_ASIDE)
        .map(move |n| with(&name, &if n == 1 { ".aside".to_owned() } else { format!(".aside-{n}") }))
}

/// Returns `name` if a file has that name, and the names to which such files were set aside, up to the first
/// unused name.
pub(crate) fn with_asides<E>(
    name: &OsStr,
    mut is_there: impl FnMut(&OsStr) -> Result<bool, E>,
) -> Result<Vec<OsString>, E> {
    let mut found = Vec::new();
    if is_there(name)? {
        found.push(name.to_owned());
    }
    for aside_name in aside(name) {
        if !is_there(&aside_name)? {
            break;
        }
        found.push(aside_name);
    }
    Ok(found)
}

/// True if a file that can't be created for this reason might be created in another directory.
pub(crate) fn elsewhere(error: &io::Error) -> bool {
    // An error without an errno is our own: the state directory may not be used.
    error.kind() == io::ErrorKind::PermissionDenied
        || matches!(
            error.raw_os_error(),
            Some(
                libc::EACCES | libc::EPERM
                // Another file has the name and can't be removed.
                | libc::EEXIST
                | libc::EISDIR
                | libc::EROFS
                | libc::ENOSPC
                | libc::EDQUOT
                | libc::ENAMETOOLONG
                | libc::EOPNOTSUPP
            )
        )
}

/// Returns an error that gives the reason for each path that was tried.
pub(crate) fn nowhere(what: &str, tried: &[(PathBuf, io::Error)]) -> Error {
    let kind = match tried.last().map(|(_, error)| error.raw_os_error()) {
        None => Kind::ReadOnly,
        // EACCES rather than a busy error: waiting for another program does not help.
        Some(None | Some(libc::EEXIST | libc::EISDIR)) => Kind::System(libc::EACCES),
        Some(Some(errno)) => Kind::System(errno),
    };
    let reasons = tried.iter().map(|(path, error)| match error.raw_os_error() {
        Some(errno) => {
            format!("{}: {}", path.display(), Error::from(io::Error::from_raw_os_error(errno)).message())
        }
        None => format!("{}: {error}", path.display()),
    });
    let reasons: Vec<_> = reasons.collect();
    let why = if reasons.is_empty() { "no directory can hold it".to_owned() } else { reasons.join("; ") };
    Error::new(kind, format!("{what}: {why}"))
}

fn hash(name: &OsStr) -> OsString {
    let digest = Md5::digest(name.as_bytes());
    digest.iter().fold(OsString::new(), |mut text, byte| {
        text.push(format!("{byte:02x}"));
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::image::{self, is_sidecar};
    use crate::edit::saver::Saver;

    #[test]
    fn names_are_short_enough_and_differ() {
        let dir = System.hold(Path::new("/")).unwrap();
        let source = |name: &str| HeldSource::new(&System, dir.clone(), OsStr::new(name), None).unwrap();
        let place = source("b.asdf").beside();
        assert_eq!(place.journal, ".b.asdf.asdf-mount-journal");
        let image = image::name(&place.stem, Saver::this(), 0);
        let replaced = image::name_of_replaced(&place.stem);
        for name in [&place.journal, &image, &replaced, &aside(&place.journal).nth(1).unwrap()] {
            assert!(is_sidecar(name), "{name:?}");
        }
        for name in ["b.asdf", ".b.asdf", "b.asdf-mount-new", ".b.asdf-mount-newer"] {
            assert!(!is_sidecar(OsStr::new(name)), "{name}");
        }
        let long = |last: &str| source(&format!("{}{last}", "x".repeat(250)));
        assert_ne!(long("y").beside().journal, long("z").beside().journal);
        for stem in [long("y"), source(&"x".repeat(MAX_NAME - SUFFIX_SPACE - 1))] {
            let place = stem.beside();
            let pid = u32::MAX.to_string().len() - std::process::id().to_string().len();
            for name in [aside(&place.journal).last().unwrap(), image::name_of_replaced(&place.stem)] {
                assert!(name.len() + pid <= MAX_NAME, "{name:?}");
            }
        }
        assert_ne!(source("b").key, source("c").key);
    }
}
