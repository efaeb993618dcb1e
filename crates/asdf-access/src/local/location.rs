//! Locations: the only way from a name in the mount to a [`Source`].
//!
//! There are two kinds: local paths, and [`Place`]s elsewhere. The modules above know neither descriptors nor
//! addresses: they use [`Location`], and compare [`FileKey`]s.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use asdf_file::edit::context::SaveTarget;
use asdf_file::edit::recovery::RecoveryPolicy;
use rustix::fs::{StatVfs, StatVfsMountFlags};
use rustix::io::Errno;
use seekable::error::{Error, Kind, Result};
use seekable::source::{ListedStat, Place, PlaceKind, PlaceStat, Source};
use seekable::workers::while_waiting;

use crate::local::at::stat_of;
use crate::local::mounts::{self, Stalling};
use crate::local::path::link::{LinkPolicy, Mountpoint};
use crate::local::path::{DirFd, LocalPath, OpenedDirectory};
use crate::local::pinned::PinnedSource;
use crate::local::stat::{FileKey, FileKind, Stat};

pub use crate::local::path::Name;

/// Maximum length of a name in a directory elsewhere, in bytes.
const NAME_MAX: usize = 255;

/// The way to a file or directory: a local path, or a place elsewhere.
#[derive(Clone, Debug)]
pub enum Location {
    /// A path.
    Local(LocalPath),
    /// A file or directory on a server.
    Elsewhere(Arc<dyn Place>),
}

/// A directory that is open, to look names up in it.
#[derive(Debug)]
pub enum OpenDir<'a> {
    /// A directory of a file system.
    Local(&'a LocalPath, DirFd<'a>),
    /// A directory on a server.
    Elsewhere(&'a Arc<dyn Place>),
}

/// Asks a place, which may take long. Errors get the label of the place.
fn ask<T>(place: &Arc<dyn Place>, question: impl FnOnce(&dyn Place) -> Result<T>) -> Result<T> {
    while_waiting(|| question(&**place)).map_err(|error| error.of(place.label()))
}

impl Location {
    /// Returns the location of a local file or directory that the user named. A file is reached through its
    /// directory, so that a replacement is noticed. `shared` is true if users other than the mounting user have
    /// access.
    pub fn of_path(path: &Path, mountpoint: Option<Arc<Mountpoint>>, shared: bool) -> Result<Self> {
        let meta = path.metadata().map_err(|error| Error::from(error).of(path))?;
        let links = |origin: &Arc<OpenedDirectory>, dir: &Path| {
            LinkPolicy::new(origin, dir, mountpoint.clone(), !shared)
        };
        if meta.is_dir() {
            let origin = OpenedDirectory::of_source(path, shared)?;
            return Ok(Self::Local(LocalPath::new(&links(&origin, path)?, "")));
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = path.file_name().ok_or_else(|| Error::new(Kind::Usage, "has no name").of(path))?;
        let origin = OpenedDirectory::of_source(parent, shared)?;
        let local = LocalPath::new(&links(&origin, parent)?, name);
        let is_link = local.stat()?.kind == FileKind::Link;
        Ok(Self::Local(if is_link { local.followed() } else { local }))
    }

    /// Returns the path or address, for messages.
    pub fn label(&self) -> PathBuf {
        match self {
            Self::Local(path) => path.label(),
            Self::Elsewhere(place) => place.label().to_owned(),
        }
    }

    /// Returns the name of a file elsewhere.
    pub(crate) fn name(&self) -> Option<OsString> {
        match self {
            Self::Local(_) => None,
            Self::Elsewhere(place) => place.name(),
        }
    }

    /// Returns statistics of the requests to servers, in YAML; `None` for a local path.
    pub fn statistics(&self) -> Option<Vec<u8>> {
        match self {
            Self::Local(_) => None,
            Self::Elsewhere(place) => place.statistics(),
        }
    }

    /// Returns the current stat. Does not follow a link.
    pub fn stat(&self) -> Result<Stat> {
        match self {
            Self::Local(path) => path.stat(),
            Self::Elsewhere(place) => Ok(Stat::elsewhere(place.label(), ask(place, |place| place.stat())?)),
        }
    }

    /// Returns the stat from the last listing of the directory if the listing is recent, and true if the stat
    /// is exact. Sends no request.
    pub fn listed(&self) -> Option<(Stat, bool)> {
        let Self::Elsewhere(place) = self else { return None };
        let ListedStat { stat, is_exact } = place.listed()?;
        Some((Stat::elsewhere(place.label(), stat), is_exact))
    }

    /// Returns a stat for the root of the mount while its file is gone.
    pub fn stat_without_file(&self) -> Result<Stat> {
        match self {
            Self::Local(path) => path.origin().stat(),
            Self::Elsewhere(place) => Ok(Stat::elsewhere(place.label(), PlaceStat::Directory)),
        }
    }

    /// True for an opened directory that was removed since. It is shown empty.
    pub fn is_removed_directory(&self) -> bool {
        match self {
            Self::Local(path) if path.inside().is_some_and(|path| path.as_os_str().is_empty()) => {
                rustix::fs::fstat(path.origin().fd()).is_ok_and(|stat| stat.st_nlink == 0)
            }
            Self::Local(_) | Self::Elsewhere(_) => false,
        }
    }

    /// True if an error of a request means that the file is gone. After any other error, the file may be found
    /// again: a server may answer the next request.
    pub fn is_gone(&self, error: &Error) -> bool {
        match self {
            Self::Local(_) => {
                matches!(error.errno(), libc::ENOENT | libc::ENOTDIR | libc::ELOOP | libc::ESTALE)
            }
            Self::Elsewhere(_) => error.errno() == libc::ENOENT,
        }
    }

    /// Opens the regular file at this location.
    pub fn open(&self) -> Result<Arc<dyn Source>> {
        match self {
            Self::Local(path) => path.open(),
            Self::Elsewhere(place) => ask(place, |place| PinnedSource::open(place)),
        }
    }

    /// Opens the regular file at this location if it is still the file with this stat; fails with ESTALE
    /// otherwise.
    pub fn open_found(&self, found: &Stat) -> Result<Arc<dyn Source>> {
        let source = self.open()?;
        let now = source.stat()?.version;
        let is_found = match self {
            Self::Local(_) => now.same_file(&found.source.version),
            Self::Elsewhere(_) => now == found.source.version,
        };
        if is_found { Ok(source) } else { Err(Errno::STALE.into()) }
    }

    /// True if a program can change the file in place, so that an open source has the new bytes. A file
    /// elsewhere is replaced as a whole.
    pub fn changes_in_place(&self) -> bool {
        matches!(self, Self::Local(_))
    }

    /// True if the file with this stat is the one that was found here, or may take its place.
    pub fn accepts(&self, stat: &Stat) -> bool {
        match self {
            Self::Local(path) => path.accepts(stat),
            Self::Elsewhere(_) => true,
        }
    }

    /// True if a link was followed to the file.
    pub fn is_followed(&self) -> bool {
        matches!(self, Self::Local(path) if path.is_followed())
    }

    /// True if users other than the mounting user have access by the file's own permissions.
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Local(path) if path.origin().shared)
    }

    /// True if the permissions allow this process to write the file.
    pub fn may_write(&self) -> Result<bool> {
        match self {
            Self::Local(path) => path.may_write(),
            Self::Elsewhere(_) => Ok(false),
        }
    }

    /// Returns the file as the target for an editor's save.
    pub fn save_target(&self) -> Result<SaveTarget> {
        match self {
            Self::Local(path) => path.save_target(),
            Self::Elsewhere(place) => Err(Error::from(Errno::ROFS).of(place.label())),
        }
    }

    /// Recovers the file after an interrupted save, or reports it. A file elsewhere is never saved.
    pub fn recover(&self, recovery: &RecoveryPolicy) -> Result<()> {
        match self {
            Self::Local(path) => recovery.apply(&path.save_target()?),
            Self::Elsewhere(_) => Ok(()),
        }
    }

    /// True if the file may be replaced without this kernel's knowledge.
    pub fn is_remote(&self) -> bool {
        match self {
            Self::Local(path) => path.is_remote(),
            Self::Elsewhere(_) => true,
        }
    }

    /// Returns the file system of the source. A place elsewhere has a read-only one, of unknown size.
    pub fn file_system(&self) -> Result<StatVfs> {
        match self {
            Self::Local(path) => path.file_system(),
            Self::Elsewhere(_) => Ok(StatVfs {
                f_bsize: 4096,
                f_frsize: 4096,
                f_blocks: 0,
                f_bfree: 0,
                f_bavail: 0,
                f_files: 0,
                f_ffree: 0,
                f_favail: 0,
                f_fsid: 0,
                f_flag: StatVfsMountFlags::RDONLY,
                f_namemax: NAME_MAX as u64,
            }),
        }
    }

    /// Returns the names in the directory at this location, without `.` and `..`.
    pub fn list(&self) -> Result<Vec<Name>> {
        let place = match self {
            Self::Local(path) => return path.list(),
            Self::Elsewhere(place) => place,
        };
        let names = ask(place, |place| place.list())?.into_iter().map(|(name, kind)| {
            let kind = match kind {
                PlaceKind::File => FileKind::File,
                PlaceKind::Directory => FileKind::Directory,
            };
            Name { name, kind: Some(kind), inode: 0 }
        });
        Ok(names.filter(|name| is_name(&name.name)).collect())
    }

    /// Opens the directory at this location, to look names up in it.
    pub fn open_dir(&self) -> Result<OpenDir<'_>> {
        Ok(match self {
            Self::Local(path) => OpenDir::Local(path, path.open_dir()?),
            Self::Elsewhere(place) => OpenDir::Elsewhere(place),
        })
    }

    /// Opens the directory with this key; ESTALE if another one has taken its place.
    pub fn open_known_dir(&self, key: FileKey) -> Result<OpenDir<'_>> {
        let dir = self.open_dir()?;
        match &dir {
            OpenDir::Local(_, dir) if stat_of(dir.as_fd())?.key != key => Err(Errno::STALE.into()),
            _ => Ok(dir),
        }
    }
}

impl OpenDir<'_> {
    /// Returns the stalling file system that a lookup of `name` has to ask.
    pub fn stalling_at(&self, name: &OsStr) -> Option<Stalling> {
        match self {
            Self::Local(_, dir) => {
                let stat = Stat::from(mounts::check(dir.as_fd(), name).ok()??);
                if stat.kind == FileKind::Link { Some(Stalling::LINKED) } else { Stalling::of(stat.key) }
            }
            Self::Elsewhere(place) => Some(Stalling::of_server(place.server())),
        }
    }
}

/// True if a name from a server can be a name in a directory.
fn is_name(name: &OsStr) -> bool {
    let bytes = name.as_encoded_bytes();
    let is_special = matches!(bytes, b"" | b"." | b"..");
    !is_special && bytes.len() <= NAME_MAX && !bytes.iter().any(|byte| matches!(byte, b'/' | 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_from_a_server_leads_nowhere_else() {
        let long = "n".repeat(NAME_MAX);
        assert!(["a", "...", ".a", "a b", "ä", &long].iter().all(|name| is_name(OsStr::new(name))));
        let over = "n".repeat(NAME_MAX + 1);
        let wrong = ["", ".", "..", "a/b", "/", "../a", "a\0", &over];
        assert!(!wrong.iter().any(|name| is_name(OsStr::new(name))));
    }
}
