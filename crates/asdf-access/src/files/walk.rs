//! The walk over local files to read: named files, and all files in named directories, sorted by name, at any
//! depth. No file is opened.
//!
//! A named symbolic link is followed. A link within a directory is skipped: it leads out of the
//! directory, or to another file of the walk. The auxiliary files of a save are skipped as well: the
//! saved file is read.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use asdf_file::edit;
use seekable::error::{Error, Kind, Result};

use crate::named;

/// An iterator over the files in order, with an error for each path that can't be examined.
#[derive(Debug)]
pub(super) struct Walk<I> {
    named: I,
    levels: Vec<Level>,
}

/// A file, and true if it was named; or a path that can't be examined.
type Walked = std::result::Result<(PathBuf, bool), (PathBuf, Error)>;

/// A directory, and the names in it that are still to be walked; the next one is the last of the list.
#[derive(Debug)]
struct Level {
    dir: PathBuf,
    identity: (u64, u64),
    names: Vec<OsString>,
}

impl<I: Iterator<Item = PathBuf>> Walk<I> {
    /// Creates a walk over the named files, and the files in the named directories.
    pub(super) fn new(named: I) -> Self {
        Self { named, levels: Vec::new() }
    }

    fn named(&mut self, path: &Path) -> Option<Walked> {
        if !path.is_dir() {
            return Some(Ok((path.to_owned(), true)));
        }
        if let Err(error) = named::refuse_mount(path) {
            return Some(Err((path.to_owned(), error)));
        }
        self.enter(path.to_owned()).err().map(|error| Err((path.to_owned(), error)))
    }

    /// Examines an entry of a directory. Returns `None` if there is nothing to read, or if it is a
    /// directory, which is entered.
    fn found(&mut self, path: PathBuf) -> Option<Walked> {
        let looked = fs::symlink_metadata(&path).map_err(Error::from).and_then(|meta| {
            if meta.is_dir() {
                return if named::refuse_mount(&path).is_err() {
                    Ok(false)
                } else {
                    self.enter(path.clone()).map(|()| false)
                };
            }
            Ok(meta.is_file())
        });
        match looked {
            Ok(true) => Some(Ok((path, false))),
            Ok(false) => None,
            // The file was removed meanwhile.
            Err(error) if error.kind() == Kind::System(libc::ENOENT) => None,
            Err(error) => Some(Err((path, error))),
        }
    }

    fn enter(&mut self, dir: PathBuf) -> Result<()> {
        let meta = fs::metadata(&dir)?;
        let identity = (meta.dev(), meta.ino());
        // A file system may have a directory that contains itself.
        if self.levels.iter().any(|level| level.identity == identity) {
            return Ok(());
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(&dir)? {
            names.push(entry?.file_name());
        }
        names.sort_unstable_by(|one, other| other.cmp(one));
        self.levels.push(Level { dir, identity, names });
        Ok(())
    }
}

impl<I: Iterator<Item = PathBuf>> Iterator for Walk<I> {
    type Item = Walked;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let found = match self.levels.last_mut() {
                Some(level) => match level.names.pop() {
                    Some(name) if edit::is_sidecar(&name) => None,
                    Some(name) => {
                        let path = level.dir.join(name);
                        self.found(path)
                    }
                    None => {
                        self.levels.pop();
                        None
                    }
                },
                None => {
                    let path = self.named.next()?;
                    self.named(&path)
                }
            };
            if found.is_some() {
                return found;
            }
        }
    }
}
