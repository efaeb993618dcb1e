//! The files to describe: local files, and files on servers.

use std::iter::{Once, once};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Kind, Result};
use crate::files::Walk;
use crate::named::{self, Named, Servers};
use crate::source::{Place, PlaceEntry, PlaceKind, Revision};

/// Maximal depth of directories on a server. A server may list a directory within itself.
const DEEPEST: usize = 64;

/// A file to describe.
#[derive(Debug)]
pub(super) enum Found {
    Local(PathBuf),
    Elsewhere(Elsewhere),
    /// A path or address that can't be examined.
    Failed(PathBuf, Error),
}

/// A file that is not local.
#[derive(Debug)]
pub(super) struct Elsewhere {
    pub(super) place: Arc<dyn Place>,
    /// The revision, if the list of the directory has it.
    pub(super) revision: Option<Revision>,
    /// True for a file that was named itself, and not found in a directory.
    pub(super) is_named: bool,
}

type Entries = Box<dyn Iterator<Item = Result<PlaceEntry>>>;

/// Iterator over the files: named files, and files in named directories.
pub(super) struct Files<'a, I> {
    named: I,
    servers: &'a Servers,
    local: Option<Walk<Once<PathBuf>>>,
    /// The directories on a server that are being listed, and their addresses.
    levels: Vec<(PathBuf, Entries)>,
}

impl<'a, I: Iterator<Item = PathBuf>> Files<'a, I> {
    pub(super) fn new(named: I, servers: &'a Servers) -> Self {
        Self { named, servers, local: None, levels: Vec::new() }
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
        if !is_directory(&*place) {
            return Some(Found::Elsewhere(Elsewhere { place, revision: None, is_named: true }));
        }
        let (label, mut entries) = (place.label().to_owned(), place.entries());
        let Some(first) = entries.next() else {
            let error = Error::new(Kind::NotFound, "the directory is empty, or there is none of this name");
            return Some(Found::Failed(label, error));
        };
        self.levels.push((label, Box::new(once(first).chain(entries))));
        None
    }

    /// Returns the next file in the innermost directory; `None` if a directory is next, or nothing.
    fn listed(&mut self) -> Option<Found> {
        let depth = self.levels.len();
        let (label, entries) = self.levels.last_mut()?;
        match entries.next() {
            None => {
                self.levels.pop();
                None
            }
            Some(Err(error)) => {
                let label = std::mem::take(label);
                self.levels.pop();
                Some(Found::Failed(label, error))
            }
            Some(Ok(PlaceEntry { place, kind: PlaceKind::File, revision })) => {
                Some(Found::Elsewhere(Elsewhere { place, revision, is_named: false }))
            }
            Some(Ok(PlaceEntry { place, .. })) if depth < DEEPEST => {
                self.levels.push((place.label().to_owned(), place.entries()));
                None
            }
            Some(Ok(PlaceEntry { place, .. })) => {
                let error = Error::unsupported(format!("directories nest more than {DEEPEST} deep"));
                Some(Found::Failed(place.label().to_owned(), error))
            }
        }
    }
}

impl<I: Iterator<Item = PathBuf>> Iterator for Files<'_, I> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            if let Some(found) = self.local.as_mut().and_then(Iterator::next) {
                return Some(match found {
                    Ok(path) => Found::Local(path),
                    Err((path, error)) => Found::Failed(path, error),
                });
            }
            self.local = None;
            let found = match self.levels.is_empty() {
                true => {
                    let argument = self.named.next()?;
                    self.named(&argument)
                }
                false => self.listed(),
            };
            if found.is_some() {
                return found;
            }
        }
    }
}

/// True if the address of a place ends with a slash, before its query.
fn is_directory(place: &dyn Place) -> bool {
    let label = place.label().to_string_lossy();
    label.strip_suffix("?…").unwrap_or(&label).ends_with('/')
}
