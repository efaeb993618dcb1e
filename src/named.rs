//! The sources that a user names on the command line.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::source::{FileSource, Place, Source};

/// A source that a user named.
#[derive(Clone, Debug)]
pub enum Named {
    /// A local file or directory.
    Local(PathBuf),
    /// A file or directory elsewhere.
    Elsewhere(Arc<dyn Place>),
}

impl Named {
    /// Decides from an argument's text in which kind of place the source is. Asks no server.
    ///
    /// # Errors
    /// The text names no place.
    pub fn of(argument: &Path) -> Result<Self> {
        Ok(Self::Local(argument.to_owned()))
    }

    /// Returns the path or address, for messages.
    pub fn label(&self) -> &Path {
        match self {
            Self::Local(path) => path,
            Self::Elsewhere(place) => place.label(),
        }
    }

    /// Returns the last name of the path or address, if it has one.
    ///
    /// # Errors
    /// A local path can't be resolved.
    pub fn name(&self) -> Result<Option<OsString>> {
        let full = match self {
            Self::Local(path) => path.canonicalize().map_err(|error| Error::from(error).of(path))?,
            Self::Elsewhere(_) => PathBuf::new(),
        };
        Ok(self.label().file_name().or(full.file_name()).map(OsStr::to_owned))
    }

    /// Opens the source, which must be a file, without a mount.
    ///
    /// # Errors
    /// The source can't be read, or is no file.
    pub fn open(&self) -> Result<Arc<dyn Source>> {
        match self {
            Self::Local(path) => Ok(Arc::new(FileSource::open(path)?)),
            Self::Elsewhere(place) => place.open(),
        }
    }
}

impl From<PathBuf> for Named {
    fn from(path: PathBuf) -> Self {
        Self::Local(path)
    }
}
