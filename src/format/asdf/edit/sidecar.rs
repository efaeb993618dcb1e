//! The files of a save: the journal, and the image, a new file that takes the source's place or is copied
//! into it.
//!
//! Both lie beside the source. If no file can be created there, they lie in the user's state directory under
//! a name derived from the source's path.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use md5::{Digest, Md5};

use crate::error::{Error, Kind};
use crate::source::storage::Storage;

const JOURNAL: &str = ".asdf-mount-journal";
const IMAGE: &str = ".asdf-mount-new";

/// The longest file name that common file systems allow.
const LONGEST_NAME: usize = 255;
/// The most journals that are set aside, which means renamed because they can't be used.
const MOST_ASIDE: usize = 1000;

/// The paths of journal and image of one source in one directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SidecarPaths {
    /// The directory.
    pub(crate) dir: PathBuf,
    /// The journal.
    pub(crate) journal: PathBuf,
    /// The image: a new file that takes the source's place, or from which the source is rewritten.
    pub(crate) image: PathBuf,
    /// True for the state directory, which may not exist yet.
    pub(crate) is_state: bool,
}

impl SidecarPaths {
    /// Returns the paths beside `source`, which is absolute and without links.
    pub(crate) fn beside(source: &Path) -> Self {
        let name = source.file_name().unwrap_or(OsStr::new("source"));
        let dir = source.parent().unwrap_or(Path::new("/")).to_owned();
        let mut stem = OsString::from(".");
        match name.len() + ".".len() + SUFFIX_SPACE <= LONGEST_NAME {
            true => stem.push(name),
            false => stem.push(hash(name)),
        }
        Self::of(dir, &stem, false)
    }

    /// Returns the paths in the state directory `state`.
    pub(crate) fn in_state(source: &Path, state: &Path) -> Self {
        Self::of(state.to_owned(), &hash(source.as_os_str()), true)
    }

    /// Returns the paths at which a journal may lie: the journal's own path, and the first path to which a
    /// journal is set aside.
    pub(crate) fn journals(&self) -> impl Iterator<Item = PathBuf> {
        std::iter::once(self.journal.clone()).chain(aside(&self.journal).take(1))
    }

    fn of(dir: PathBuf, stem: &OsStr, is_state: bool) -> Self {
        let named = |suffix: &str| {
            let mut name = stem.to_owned();
            name.push(suffix);
            dir.join(name)
        };
        Self { journal: named(JOURNAL), image: named(IMAGE), dir, is_state }
    }
}

/// Returns an error if no directory can hold a journal of this source, with the reason for each.
pub(crate) fn none_usable<S: Storage>(storage: &S, places: &[SidecarPaths]) -> Option<Error> {
    let mut reasons = Vec::new();
    for place in places {
        // The state directory and its parents may have to be created.
        let dirs = place.dir.ancestors().take(if place.is_state { usize::MAX } else { 1 });
        let looked = dirs.map(|dir| (dir, storage.may_change(dir)));
        let found = looked
            .into_iter()
            .find(|(_, answer)| !answer.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound));
        match found {
            Some((_, Ok(()))) => return None,
            Some((dir, Err(error))) => {
                let hint = match error.raw_os_error() {
                    Some(libc::EPERM) => "; see lsattr -d",
                    _ => "",
                };
                reasons.push(format!("{}: {}{hint}", dir.display(), Error::from(error).message()));
            }
            None => reasons.push(format!("{}: it is not there", place.dir.display())),
        }
    }
    let what = format!(
        "can't be saved, because no file can be created and removed beside it ({})",
        reasons.join("; ")
    );
    Some(Error::new(Kind::ReadOnly, what))
}

/// Room for the longest suffix: `.asdf-mount-journal.aside-1000`.
const SUFFIX_SPACE: usize = 40;

/// True if `name` is the name of a journal or an image, in use or set aside.
pub(crate) fn is_sidecar(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let stem = name.rsplit_once(".aside").map_or(&*name, |(stem, _)| stem);
    name.starts_with('.') && (stem.ends_with(JOURNAL) || stem.ends_with(IMAGE))
}

/// Returns names for setting aside the file at `path`, best first.
pub(crate) fn aside(path: &Path) -> impl Iterator<Item = PathBuf> {
    let path = path.as_os_str().to_owned();
    (1..=MOST_ASIDE).map(move |n| {
        let mut name = path.clone();
        name.push(if n == 1 { ".aside".to_owned() } else { format!(".aside-{n}") });
        PathBuf::from(name)
    })
}

/// Returns `path` if a file has that path, and the paths to which files from `path` were set aside, up to the
/// first unused path.
pub(crate) fn with_asides<E>(
    path: &Path,
    mut is_there: impl FnMut(&Path) -> Result<bool, E>,
) -> Result<Vec<PathBuf>, E> {
    let mut found = Vec::new();
    if is_there(path)? {
        found.push(path.to_owned());
    }
    for name in aside(path) {
        if !is_there(&name)? {
            break;
        }
        found.push(name);
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
pub(crate) fn nowhere(what: &str, tried: &[(&Path, io::Error)]) -> Error {
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

    #[test]
    fn names_are_short_enough_and_differ() {
        let place = SidecarPaths::beside(Path::new("/a/b.asdf"));
        assert_eq!(place.journal, Path::new("/a/.b.asdf.asdf-mount-journal"));
        assert_eq!(place.image, Path::new("/a/.b.asdf.asdf-mount-new"));
        for path in [&place.journal, &place.image, &aside(&place.journal).nth(1).unwrap()] {
            assert!(is_sidecar(path.file_name().unwrap()), "{path:?}");
        }
        for name in ["b.asdf", ".b.asdf", "b.asdf-mount-new", ".b.asdf-mount-newer"] {
            assert!(!is_sidecar(OsStr::new(name)), "{name}");
        }
        let long = |last: &str| SidecarPaths::beside(Path::new(&format!("/a/{}{last}", "x".repeat(250))));
        assert_ne!(long("y").journal, long("z").journal);
        let last = aside(&long("y").journal).last().unwrap();
        assert!(last.file_name().unwrap().len() <= LONGEST_NAME);
        let state = Path::new("/s");
        assert_ne!(
            SidecarPaths::in_state(Path::new("/a/b"), state).journal,
            SidecarPaths::in_state(Path::new("/a/c"), state).journal
        );
    }
}
