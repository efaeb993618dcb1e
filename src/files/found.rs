//! The files to read: local files, and files on servers; each is named itself, or is in a named directory.
//!
//! Local directories are read by [`Walk`]. A directory on a server is listed page by page as the walk goes on,
//! so its files come in the order of its listing, and only their names decide what is skipped. Their formats
//! are known once they are opened.

use std::iter::once;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Walk;
use crate::error::{Error, Kind, Result};
use crate::format;
use crate::named::{self, Named, Servers};
use crate::source::{FileSource, Place, PlaceEntry, PlaceKind, PlaceStat, Source};

/// Maximum depth of directories on a server, which may seem to contain themselves.
const DEEPEST: usize = 64;

/// A file to read.
#[derive(Debug)]
pub(crate) enum Found {
    Local(PathBuf),
    /// A file on a server. It may have an unknown format if it was listed rather than named.
    Elsewhere {
        place: Arc<dyn Place>,
        is_listed: bool,
    },
    /// A path or address that can't be examined.
    Failed(PathBuf, Error),
}

impl Found {
    /// Returns the path or address, for messages.
    pub(crate) fn label(&self) -> &Path {
        match self {
            Self::Local(path) | Self::Failed(path, _) => path,
            Self::Elsewhere { place, .. } => place.label(),
        }
    }

    /// Opens the file.
    pub(crate) fn open(&self) -> Result<Arc<dyn Source>> {
        match self {
            Self::Local(path) => Ok(Arc::new(FileSource::open(path)?)),
            Self::Elsewhere { place, .. } => place.open(),
            Self::Failed(_, error) => Err(error.clone()),
        }
    }

    /// True if an error of [`Found::open`] or of its format means that the file is none to read. The formats of
    /// local files in directories are checked by the walk.
    pub(crate) fn is_passed_over(&self, error: &Error) -> bool {
        matches!(self, Self::Elsewhere { is_listed: true, .. }) && error.kind() == Kind::Unrecognised
    }
}

type Entries = Box<dyn Iterator<Item = Result<PlaceEntry>>>;

/// An iterator over the files that are named, and those in named directories.
pub(crate) struct FilesToRead<'a> {
    named: std::slice::Iter<'a, PathBuf>,
    servers: &'a Servers,
    local: Option<Walk<std::iter::Once<PathBuf>>>,
    /// The directories on a server that are being listed, and their addresses.
    levels: Vec<(PathBuf, Entries)>,
    passed_over: u64,
}

impl<'a> FilesToRead<'a> {
    /// Creates a walk over the named files, and the files in the named directories.
    pub(crate) fn new(named: &'a [PathBuf], servers: &'a Servers) -> Self {
        Self { named: named.iter(), servers, local: None, levels: Vec::new(), passed_over: 0 }
    }

    /// Returns the number of local files skipped so far because their format is unknown.
    pub(crate) fn passed_over(&self) -> u64 {
        self.passed_over
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
        match place.stat() {
            Ok(PlaceStat::File(_)) => Some(Found::Elsewhere { place, is_listed: false }),
            Ok(PlaceStat::Directory) => {
                self.levels.push((place.label().to_owned(), place.entries()));
                None
            }
            Err(error) => Some(Found::Failed(place.label().to_owned(), error)),
        }
    }

    /// Returns the next file in the innermost directory; `None` if it is another directory, a file to skip, or
    /// the end.
    fn listed(&mut self) -> Option<Found> {
        let depth = self.levels.len();
        let (label, entries) = self.levels.last_mut()?;
        let PlaceEntry { place, kind, .. } = match entries.next() {
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
                let is_sidecar = place.name().is_some_and(|name| format::is_sidecar(&name));
                (!is_sidecar).then_some(Found::Elsewhere { place, is_listed: true })
            }
            PlaceKind::Directory if depth < DEEPEST => {
                self.levels.push((place.label().to_owned(), place.entries()));
                None
            }
            PlaceKind::Directory => {
                let error = Error::unsupported(format!("directories nest more than {DEEPEST} deep"));
                Some(Found::Failed(place.label().to_owned(), error))
            }
        }
    }
}

impl Iterator for FilesToRead<'_> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            if let Some(local) = &mut self.local {
                match local.next() {
                    Some(Ok(path)) => return Some(Found::Local(path)),
                    Some(Err((path, error))) => return Some(Found::Failed(path, error)),
                    None => {
                        self.passed_over += local.passed_over();
                        self.local = None;
                    }
                }
            }
            let found = match self.levels.is_empty() {
                true => {
                    let argument = self.named.next()?;
                    self.named(argument)
                }
                false => self.listed(),
            };
            if found.is_some() {
                return found;
            }
        }
    }
}
