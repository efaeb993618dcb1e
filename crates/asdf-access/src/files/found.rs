//! The files to read, local or on servers: files that the user names, and files in directories that the user
//! names.
//!
//! Local directories are read by [`Walk`]. A directory on a server is listed page by page during the walk, so
//! its files come in the order of the listing. The walk opens no file: what is skipped because of its format
//! decides [`Found::is_passed_over`], once the file was opened.

use std::ffi::OsStr;
use std::fmt;
use std::iter::{Once, once};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use asdf_file::edit;
use asdf_views::format;
use seekable::error::{Error, Kind, Result};
use seekable::source::{MAX_DEPTH, Place, PlaceEntry, PlaceKind, PlaceStat, Revision, Source};

use super::walk::Walk;
use crate::named::{self, Named, Servers};

/// A file to read.
#[derive(Debug)]
pub enum Found {
    /// A local file. If it is not named, the user named a directory above it.
    Local {
        /// The path.
        path: PathBuf,
        /// True if the user named the file.
        is_named: bool,
    },
    /// A file that is not local.
    Elsewhere(Elsewhere),
    /// A path or address that can't be examined.
    Failed(PathBuf, Error),
}

/// A file that is not local.
#[derive(Debug)]
pub struct Elsewhere {
    /// The file.
    pub place: Arc<dyn Place>,
    /// The file's size, ETag and modification time, if the listing of the directory has them.
    pub revision: Option<Revision>,
    /// True if the user named the file. False if the file was found in a directory; it is then skipped if its
    /// format is unknown.
    pub is_named: bool,
}

impl Found {
    /// Returns the path or address, for messages.
    pub fn label(&self) -> &Path {
        match self {
            Self::Local { path, .. } | Self::Failed(path, _) => path,
            Self::Elsewhere(file) => file.place.label(),
        }
    }

    /// True if the user named the file, and not a directory above it.
    pub fn is_named(&self) -> bool {
        match self {
            Self::Local { is_named, .. } => *is_named,
            Self::Elsewhere(file) => file.is_named,
            Self::Failed(..) => true,
        }
    }

    /// Opens the file.
    ///
    /// # Errors
    /// [`Kind::Unfinished`] if it is half-saved.
    pub fn open(&self) -> Result<Arc<dyn Source>> {
        match self {
            Self::Local { path, .. } => super::open_whole(path),
            Self::Elsewhere(file) => file.place.open(),
            Self::Failed(_, error) => Err(error.clone()),
        }
    }

    /// True if `error`, from opening or parsing the file, means that the file is skipped: it was found in a
    /// directory, and neither its bytes nor its name are those of a known format.
    pub fn is_passed_over(&self, error: &Error) -> bool {
        match self {
            Self::Local { path, is_named: false } => match error.kind() {
                // The file was removed meanwhile.
                Kind::System(libc::ENOENT) => true,
                Kind::Unrecognised => !path.file_name().is_some_and(has_known_ending),
                _ => false,
            },
            Self::Elsewhere(file) if !file.is_named => {
                error.kind() == Kind::Unrecognised
                    && !file.place.name().is_some_and(|name| has_known_ending(&name))
            }
            _ => false,
        }
    }
}

fn has_known_ending(name: &OsStr) -> bool {
    format::endings::by_ending(name).is_some()
}

type Entries = Box<dyn Iterator<Item = Result<PlaceEntry>>>;

/// An iterator over the files that the user names, and the files in directories that the user names.
pub struct FilesToRead<'a, I> {
    named: I,
    servers: &'a Servers,
    /// True if a named address without a slash at its end is taken for a file, without a request.
    slash_decides: bool,
    local: Option<Walk<Once<PathBuf>>>,
    /// The directories on a server that are being listed, and their addresses.
    levels: Vec<(PathBuf, Entries)>,
}

impl<I> fmt::Debug for FilesToRead<'_, I> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("FilesToRead").field("local", &self.local).finish_non_exhaustive()
    }
}

impl<'a, I: Iterator<Item = PathBuf>> FilesToRead<'a, I> {
    /// Creates a walk over the named files, and the files in the named directories. A request to the server
    /// finds out if an address is a file or a directory.
    pub fn new(named: I, servers: &'a Servers) -> Self {
        Self { named, servers, slash_decides: false, local: None, levels: Vec::new() }
    }

    /// Takes each named address without a slash at its end for a file, and sends no request for it.
    pub fn by_slash(self) -> Self {
        Self { slash_decides: true, ..self }
    }

    fn named(&mut self, argument: &Path) -> Option<Found> {
        let place = match Named::of(argument, self.servers) {
            Ok(Named::Local(path)) => {
                self.local = Some(Walk::new(once(path)));
                return None;
            }
            Ok(Named::Elsewhere(place)) => place,
            Err(error) => return Some(Found::Failed(named::shown(argument), error)),
        };
        let file = |place| Some(Found::Elsewhere(Elsewhere { place, revision: None, is_named: true }));
        if self.slash_decides && !ends_with_slash(&*place) {
            return file(place);
        }
        match place.stat() {
            Ok(PlaceStat::File(_)) => file(place),
            Ok(PlaceStat::Directory) => {
                self.levels.push((place.label().to_owned(), place.entries()));
                None
            }
            Err(error) => Some(Found::Failed(place.label().to_owned(), error)),
        }
    }

    /// Returns the next file in the innermost directory; `None` if the next entry is a directory or a file to
    /// skip, or if there are no more entries.
    fn listed(&mut self) -> Option<Found> {
        let depth = self.levels.len();
        let (label, entries) = self.levels.last_mut()?;
        let PlaceEntry { place, kind, revision } = match entries.next() {
            Some(Ok(entry)) => entry,
            Some(Err(error)) => {
                let label = std::mem::take(label);
                self.levels.pop();
                return Some(Found::Failed(label, error));
            }
            None => {
                self.levels.pop();
                return None;
            }
        };
        match kind {
            PlaceKind::File => {
                let is_sidecar = place.name().is_some_and(|name| edit::is_sidecar(&name));
                (!is_sidecar).then_some(Found::Elsewhere(Elsewhere { place, revision, is_named: false }))
            }
            // The server's root has a level, but no directory above it.
            PlaceKind::Directory if depth <= MAX_DEPTH => {
                self.levels.push((place.label().to_owned(), place.entries()));
                None
            }
            PlaceKind::Directory => {
                let error = Error::unsupported(format!("directories nest more than {MAX_DEPTH} deep"));
                Some(Found::Failed(place.label().to_owned(), error))
            }
        }
    }
}

impl<I: Iterator<Item = PathBuf>> Iterator for FilesToRead<'_, I> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            if let Some(local) = &mut self.local {
                match local.next() {
                    Some(Ok((path, is_named))) => return Some(Found::Local { path, is_named }),
                    Some(Err((path, error))) => return Some(Found::Failed(path, error)),
                    None => self.local = None,
                }
            }
            let found = if self.levels.is_empty() {
                let argument = self.named.next()?;
                self.named(&argument)
            } else {
                self.listed()
            };
            if found.is_some() {
                return found;
            }
        }
    }
}

/// True if the address of a place ends with a slash, before its query.
fn ends_with_slash(place: &dyn Place) -> bool {
    let label = place.label().to_string_lossy();
    label.strip_suffix("?…").unwrap_or(&label).ends_with('/')
}
