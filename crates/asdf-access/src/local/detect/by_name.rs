//! How files on servers are shown before they are looked at: by the endings of their names.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Mutex;

use asdf_views::format;
use seekable::sync::locked;

use crate::local::location::Location;

/// Maximum number of remembered exceptions.
const EXCEPTIONS: usize = 4096;

/// The files whose names mislead. The value is true if a format recognises the first bytes.
#[derive(Debug, Default)]
pub(super) struct ByName(Mutex<HashMap<PathBuf, bool>>);

impl ByName {
    /// True if a file is shown as a directory.
    pub(super) fn is_mounted_file(&self, location: &Location) -> bool {
        let label = location.label();
        locked(&self.0).get(&label).copied().unwrap_or_else(|| promises(location))
    }

    /// True if a file must be looked at: neither its name nor an earlier look tells its format.
    pub(super) fn is_unsure(&self, location: &Location) -> bool {
        is_unsure(location) && !locked(&self.0).contains_key(&location.label())
    }

    /// Remembers whether a format recognises the first bytes of a file.
    pub(super) fn note(&self, location: &Location, is_known: bool) {
        let label = location.label();
        let mut exceptions = locked(&self.0);
        if promises(location) == is_known && !is_unsure(location) {
            exceptions.remove(&label);
            return;
        }
        if exceptions.len() >= EXCEPTIONS {
            exceptions.clear();
        }
        exceptions.insert(label, is_known);
    }
}

/// True if the name of a file has the ending of a format.
fn promises(location: &Location) -> bool {
    location.name().is_some_and(|name| format::endings::by_ending(&name).is_some())
}

/// True if the name of a file has an ending that does not tell its format.
fn is_unsure(location: &Location) -> bool {
    location.name().is_some_and(|name| format::endings::is_unsure(&name))
}
