//! Directories beside `tree.yaml`, as programs make them: `.git`, `.ipynb_checkpoints`, `.vscode`.
//!
//! An overlay has one list of names for all of them. The name of a file in a directory is its path from the directory of the
//! mounted file, such as `.git/config`. A directory is an overlay file, too. Renaming it renames all that is below it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

use seekable::error::{Result, errno};
use seekable::sync::locked;

use crate::overlay::file::{OverlayFile, now};
use crate::overlay::{OverlayState, is_reserved};

/// Maximum length of a name, and of a path, in bytes.
pub(crate) const MAX_NAME: usize = 255;
const MAX_PATH: usize = 1024;

/// A name in the directory of the mounted file, or in a directory beside `tree.yaml`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewName<'a> {
    /// The directory beside `tree.yaml`.
    pub(crate) dir: Option<&'a Arc<OverlayFile>>,
    /// The name in it.
    pub(crate) name: &'a OsStr,
}

impl NewName<'_> {
    /// Fails with EROFS for `blocks`, `.asdf-mount` and the names of views in the directory of the mounted file.
    pub(crate) fn refuse_reserved(&self) -> Result<()> {
        if self.dir.is_none() && is_reserved(self.name) { Err(errno(libc::EROFS)) } else { Ok(()) }
    }

    /// Fails if a file can't have this name.
    fn may_be_given(&self) -> Result<()> {
        self.refuse_reserved()?;
        if self.name.len() > MAX_NAME { Err(errno(libc::ENAMETOOLONG)) } else { Ok(()) }
    }
}

impl OverlayState {
    /// Returns the path of a name. Fails if its directory was removed.
    pub(crate) fn path(&self, place: NewName<'_>) -> Result<OsString> {
        let Some(dir) = place.dir else { return Ok(place.name.to_owned()) };
        let found = self.names.iter().find(|(_, named)| Arc::ptr_eq(named, dir));
        let (path, _) = found.ok_or_else(|| errno(libc::ENOENT))?;
        Ok([path, place.name].join(OsStr::new("/")))
    }

    /// Returns the path of a name that a file is about to get.
    pub(crate) fn new_path(&self, place: NewName<'_>) -> Result<OsString> {
        place.may_be_given()?;
        let path = self.path(place)?;
        if path.len() > MAX_PATH { Err(errno(libc::ENAMETOOLONG)) } else { Ok(path) }
    }

    /// Returns the path of a name that is free.
    pub(crate) fn free_path(&self, place: NewName<'_>) -> Result<OsString> {
        let path = self.new_path(place)?;
        if self.names.contains_key(&path) { Err(errno(libc::EEXIST)) } else { Ok(path) }
    }

    /// Returns the names in a directory; without one, in that of the mounted file.
    pub(crate) fn names_in(&self, dir: Option<&Arc<OverlayFile>>) -> Result<Vec<OsString>> {
        let start = self.path(NewName { dir, name: OsStr::new("") })?;
        let rest = |path: &OsString| path.as_bytes().strip_prefix(start.as_bytes()).map(<[u8]>::to_vec);
        let names = self.names.keys().filter_map(rest).filter(|name| !name.contains(&b'/'));
        Ok(names.map(OsString::from_vec).collect())
    }

    /// True if there is anything in a directory.
    pub(crate) fn has_entries(&self, path: &OsStr) -> bool {
        self.names.keys().any(|other| is_below(other, path))
    }

    /// Notes that the names in the directory of a path have changed.
    pub(crate) fn note_change(&mut self, path: &OsStr) {
        match path.as_bytes().iter().rposition(|byte| *byte == b'/') {
            None => self.changed = Some(now()),
            Some(end) => {
                if let Some(dir) = self.names.get(OsStr::from_bytes(&path.as_bytes()[..end])) {
                    let mut body = locked(&dir.body);
                    body.mtime = now();
                    body.ctime = body.mtime;
                }
            }
        }
    }

    /// Removes all that is below a path. Returns it with its paths from there on, each with the slash at its start.
    pub(crate) fn take_below(&mut self, path: &OsStr) -> BTreeMap<OsString, Arc<OverlayFile>> {
        let below: Vec<OsString> = self.names.keys().filter(|other| is_below(other, path)).cloned().collect();
        let rest = |other: OsString| {
            let file = self.names.remove(&other)?;
            Some((OsStr::from_bytes(&other.as_bytes()[path.len()..]).to_owned(), file))
        };
        below.into_iter().filter_map(rest).collect()
    }

    /// Puts back what was taken, below another path.
    pub(crate) fn put_below(&mut self, path: &OsStr, taken: BTreeMap<OsString, Arc<OverlayFile>>) {
        for (rest, file) in taken {
            let mut path = path.to_owned();
            path.push(rest);
            self.names.insert(path, file);
        }
    }
}

/// True if a path leads through another one.
pub(crate) fn is_below(path: &OsStr, above: &OsStr) -> bool {
    path.as_bytes().strip_prefix(above.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// Returns the first name of a path, with a slash if more names follow.
pub(crate) fn top(path: &OsStr) -> &OsStr {
    let end = path.as_bytes().iter().position(|byte| *byte == b'/');
    OsStr::from_bytes(&path.as_bytes()[..end.map_or(path.len(), |end| end + 1)])
}
