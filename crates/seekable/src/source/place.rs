//! Places of sources that are not local files.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use super::{Revision, Source, SourceStat};
use crate::error::Result;

/// The schemes of places that are objects on servers.
pub const SCHEMES: [&str; 3] = ["http", "https", "s3"];
/// Maximum depth of directories on a server, which may seem to contain themselves.
pub const MAX_DEPTH: usize = 100;

/// A file or directory outside the local file systems, such as an object on a server. It is read-only.
///
/// A new kind of place implements this trait and [`Source`], and nothing else. The methods `stat`, `list` and
/// `open` may wait for a server: no thread that reads requests from the kernel calls them. Errors reach the
/// program with their errno: ENOENT if nothing exists there, EACCES if access is denied, EIO or another errno
/// if the server fails.
pub trait Place: Send + Sync + std::fmt::Debug {
    /// Returns the address as the user knows it, such as a URL. Each place has a different address. The last
    /// component is the name of the file.
    fn label(&self) -> &Path;

    /// Returns the name of the file or directory, if it has one.
    fn name(&self) -> Option<OsString> {
        self.label().file_name().map(OsStr::to_owned)
    }

    /// Returns the name of the server. A server that does not answer blocks a bounded number of threads.
    fn server(&self) -> &str;

    /// Returns the current state of the file or directory. It may be a moment old.
    fn stat(&self) -> Result<PlaceStat>;

    /// Returns the place of `name` in this directory, without a request.
    fn child(&self, name: &OsStr) -> Arc<dyn Place>;

    /// Returns the names in this directory and their types, from all pages of a server's answer.
    fn list(&self) -> Result<Vec<(OsString, PlaceKind)>>;

    /// Returns the state from the last listing of the directory, if the listing is recent. Sends no request.
    fn listed(&self) -> Option<ListedStat> {
        None
    }

    /// True if names of this directory are shown as they are listed, without a request for each.
    fn is_shown_as_listed(&self) -> bool {
        false
    }

    /// Returns the entries of this directory one by one. Each page of a server's answer is requested when it
    /// is needed.
    fn entries(&self) -> Box<dyn Iterator<Item = Result<PlaceEntry>>> {
        let entry =
            |(name, kind): (OsString, _)| Ok(PlaceEntry { place: self.child(&name), kind, revision: None });
        match self.list() {
            Ok(names) => Box::new(names.into_iter().map(entry).collect::<Vec<_>>().into_iter()),
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    }

    /// Fails if this directory can't be listed. Requests a page of the listing.
    fn check_listing(&self) -> Result<()> {
        self.entries().next().transpose().map(|_| ())
    }

    /// Returns the current revision of the file. Costs at most as much as opening the file.
    fn revision(&self) -> Result<Revision> {
        let SourceStat { size, mtime, .. } = self.open()?.stat()?;
        Ok(Revision { size, etag: None, mtime: Some(mtime) })
    }

    /// Opens the file in its current version. The source returns bytes of this version only: after a change,
    /// reads fail with [`Kind::Changed`](crate::Kind::Changed). The `stat` of the source is called once.
    fn open(&self) -> Result<Arc<dyn Source>>;

    /// Returns statistics of all requests of the mount, in YAML; `None` if there are none.
    fn statistics(&self) -> Option<Vec<u8>> {
        None
    }
}

/// An entry of a directory.
#[derive(Clone, Debug)]
pub struct PlaceEntry {
    /// The file or directory.
    pub place: Arc<dyn Place>,
    /// The type of the entry.
    pub kind: PlaceKind,
    /// The revision of a file, if the list of the directory has it.
    pub revision: Option<Revision>,
}

/// The type of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceKind {
    /// A file.
    File,
    /// A directory.
    Directory,
}

/// The state of a place by the listing of its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedStat {
    /// The state. Size and version of a file are exact only if `is_exact` is true.
    pub stat: PlaceStat,
    /// True if the listing has the same state as the place itself.
    pub is_exact: bool,
}

/// The state of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceStat {
    /// A file, with the state of its source.
    File(SourceStat),
    /// A directory.
    Directory,
}
