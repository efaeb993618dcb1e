//! Paths to local files and directories: the local kind of location.
//!
//! A [`LocalPath`] is relative to an anchor. The anchor is a directory that was opened (`O_PATH`) before
//! mounting, or the target of a symbolic link. No absolute path is passed to the system. A mount over its own
//! source therefore sees the source below it and not itself, and a path that another user replaces by a link
//! leads nowhere.

pub mod beside;
pub mod link;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use asdf_file::edit::context::SaveTarget;
use beside::Beside;
use link::{LinkPolicy, Mountpoint};
use rustix::fs::{FileType, Mode, OFlags, StatVfs};
use rustix::io::Errno;
use seekable::error::{Error, Result};
use seekable::source::{FileSource, Source, Surroundings, storage};

use crate::local::acl::{self, stat_of_held};
use crate::local::at::{HOLD, descend, may_write, open, open_as, stat_in, stat_of, step};
use crate::local::stat::{FileKey, FileKind, Stat};

/// A directory that was opened before mounting.
#[derive(Debug)]
pub struct OpenedDirectory {
    fd: OwnedFd,
    pub(crate) key: FileKey,
    /// Path as given by the user, for messages.
    label: PathBuf,
    /// True if users other than the mounting user have access. Modes are then restricted by ACLs.
    pub(crate) shared: bool,
}

impl OpenedDirectory {
    /// Opens `dir`, which may be a link to a directory.
    pub fn open(dir: &Path) -> Result<Arc<Self>> {
        Self::of_source(dir, false)
    }

    /// Opens a source directory; `shared` is true if users other than the mounting user have access.
    pub fn of_source(dir: &Path, shared: bool) -> Result<Arc<Self>> {
        let fd = rustix::fs::open(dir, HOLD.difference(OFlags::NOFOLLOW), Mode::empty())
            .map_err(|errno| Error::from(errno).of(dir))?;
        let key = Stat::from(rustix::fs::fstat(&fd).map_err(|errno| Error::from(errno).of(dir))?).key;
        Ok(Arc::new(Self { fd, key, label: dir.to_owned(), shared }))
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(crate) fn stat(&self) -> Result<Stat> {
        self.stat_in(self.fd(), OsStr::new("."))
    }

    /// Returns the stat to show for `name` in `dir`, which was reached from this
    /// origin. Does not follow a link.
    pub(crate) fn stat_in(&self, dir: BorrowedFd<'_>, name: &OsStr) -> Result<Stat> {
        if self.shared { acl::stat_in(dir, name) } else { stat_in(dir, name) }
    }
}

/// A name in a directory.
#[derive(Debug)]
pub struct Name {
    /// The name.
    pub name: OsString,
    /// Type in the directory entry, if it has one.
    pub(crate) kind: Option<FileKind>,
    /// Inode number in the directory entry; 0 if the name does not come from a directory.
    pub(crate) inode: u64,
}

impl From<OsString> for Name {
    fn from(name: OsString) -> Self {
        Self { name, kind: None, inode: 0 }
    }
}

/// The path to a local file or directory.
#[derive(Clone, Debug)]
pub struct LocalPath {
    links: Arc<LinkPolicy>,
    /// Link to the anchor; `None` if the anchor is the origin of `links`.
    link: Option<Arc<LocalPath>>,
    /// Path below the anchor; empty for the anchor itself.
    path: PathBuf,
    /// Number of names between the file and the top of the mirror.
    depth: usize,
    /// File found here, if users other than the mounting user have access.
    found: Option<Arc<FoundFile>>,
}

/// A file that was found, and its parent directory.
///
/// The kernel grants access by the permissions of the file found and of each directory above it. Another user
/// may since have put another file at the path, to which these permissions do not apply.
#[derive(Debug)]
struct FoundFile {
    dir: FileKey,
    stat: Stat,
}

impl FoundFile {
    /// True if the file is still there, or a file with the same owner, group and mode has replaced it.
    fn is(&self, stat: &Stat) -> bool {
        let rights = |stat: &Stat| (stat.uid, stat.gid, stat.mode);
        let is_file = self.stat.kind == FileKind::File && stat.kind == FileKind::File;
        self.stat.key == stat.key || is_file && rights(&self.stat) == rights(stat)
    }
}

/// An open directory: the origin itself, or one opened for this use.
#[derive(Debug)]
pub enum DirFd<'a> {
    /// The origin.
    Held(BorrowedFd<'a>),
    /// Another directory, which is closed after its use.
    Opened(OwnedFd),
}

impl AsFd for DirFd<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Held(fd) => *fd,
            Self::Opened(fd) => fd.as_fd(),
        }
    }
}

impl LocalPath {
    /// Returns the path to a source: `path` below the origin of `links`, or the origin itself if `path` is
    /// empty.
    pub fn new(links: &Arc<LinkPolicy>, path: impl Into<PathBuf>) -> Self {
        Self { links: links.clone(), link: None, path: path.into(), depth: 0, found: None }
    }

    /// Returns the path to the target of the link at this path.
    pub(crate) fn followed(self) -> Self {
        let links = self.links.clone();
        let depth = self.depth;
        Self { links, link: Some(Arc::new(self)), path: PathBuf::new(), depth, found: None }
    }

    /// True if this is the path to the target of a link.
    pub(crate) fn is_followed(&self) -> bool {
        self.link.is_some() && self.path.as_os_str().is_empty()
    }

    /// Returns the path to `name` in the directory at this path.
    pub(crate) fn join(&self, name: &OsStr) -> Self {
        let links = self.links.clone();
        let link = self.link.clone();
        Self { links, link, path: self.path.join(name), depth: self.depth + 1, found: None }
    }

    /// Returns this path with the file found there, in the directory `dir`.
    pub(crate) fn found(self, dir: BorrowedFd<'_>, stat: &Stat) -> Result<Self> {
        if !self.origin().shared {
            return Ok(self);
        }
        let found = FoundFile { dir: stat_of(dir)?.key, stat: *stat };
        Ok(Self { found: Some(Arc::new(found)), ..self })
    }

    /// True if the file with this stat is the one that was found here, or may take its place.
    pub(crate) fn accepts(&self, stat: &Stat) -> bool {
        self.found.as_ref().is_none_or(|found| found.is(stat))
    }

    /// Fails with ESTALE for a file that may not take the place of the one found here.
    fn check(&self, stat: &Stat) -> Result<()> {
        if self.accepts(stat) { Ok(()) } else { Err(Error::from(Errno::STALE).of(self.label())) }
    }

    /// Returns the directory from which this path is reached.
    pub(crate) fn origin(&self) -> &Arc<OpenedDirectory> {
        &self.links.origin
    }

    /// Returns the mount point, as it was before mounting.
    pub(crate) fn mountpoint(&self) -> Option<&Mountpoint> {
        self.links.mountpoint.as_deref()
    }

    /// Returns the path below the origin, unless it leads through a link.
    pub(crate) fn inside(&self) -> Option<&Path> {
        self.link.is_none().then_some(&*self.path)
    }

    /// Returns the path for messages: the path given by the user, followed by the names in the mount.
    pub(crate) fn label(&self) -> PathBuf {
        let base = self.link.as_ref().map_or_else(|| self.origin().label.clone(), |link| link.label());
        if self.path.as_os_str().is_empty() { base } else { base.join(&self.path) }
    }

    /// Returns the parent directory and the name in it (`.` for an anchor itself).
    pub(super) fn holder(&self) -> Result<(DirFd<'_>, OsString)> {
        let (base, name) = match &self.link {
            None => (DirFd::Held(self.origin().fd()), OsString::from(".")),
            Some(link) => {
                let end = link::walk(link)?;
                (DirFd::Opened(end.dir), end.name)
            }
        };
        let Some(last) = self.path.file_name() else { return Ok((base, name)) };
        let mut dir = if name == "." { base } else { DirFd::Opened(step(base.as_fd(), &name)?) };
        if let Some(parent) = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            dir = DirFd::Opened(descend(dir.as_fd(), parent)?);
        }
        if let Some(found) = &self.found
            && stat_of(dir.as_fd())?.key != found.dir
        {
            return Err(Error::from(Errno::STALE).of(self.label()));
        }
        Ok((dir, last.to_owned()))
    }

    /// Returns the current stat. Does not follow a link.
    pub(crate) fn stat(&self) -> Result<Stat> {
        let (dir, name) = self.holder()?;
        let stat = self.origin().stat_in(dir.as_fd(), &name).map_err(|error| error.of(self.label()))?;
        self.check(&stat).map(|()| stat)
    }

    /// Opens the regular file at this path.
    pub(crate) fn open(&self) -> Result<Arc<dyn Source>> {
        let (dir, name) = self.holder()?;
        let label = self.label();
        let file = open(dir.as_fd(), &name).map_err(|error| error.of(&label))?;
        let beside = if self.origin().shared {
            self.check(&stat_of_held(file.as_fd())?)?;
            Beside::shared(self.clone(), dir.as_fd(), file.as_fd())?
        } else {
            Beside::new(self.clone())
        };
        let file = FileSource::from_file(File::from(file), &label)?.counting_writes();
        Ok(Arc::new(file.with_surroundings(Arc::new(beside))))
    }

    /// Returns access to the files that the file at this path names, for the user of this process alone.
    pub(crate) fn surroundings(&self) -> Arc<dyn Surroundings> {
        Arc::new(Beside::new(self.clone()))
    }

    /// True if the permissions allow this process to write the file.
    pub(crate) fn may_write(&self) -> Result<bool> {
        let (dir, name) = self.holder()?;
        may_write(dir.as_fd(), &name)
    }

    /// Returns the file as the target for an editor's save.
    pub(crate) fn save_target(&self) -> Result<SaveTarget> {
        let (dir, name) = self.holder()?;
        let held = dir.as_fd().try_clone_to_owned().map_err(Error::from)?;
        let mount = self.mountpoint().map(Mountpoint::path);
        let target = SaveTarget::new(held, name.clone(), self.label()).mounted_at(mount);
        if !self.origin().shared {
            return Ok(target);
        }
        let file = open_as(dir.as_fd(), &name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC)?;
        self.check(&stat_of_held(file.as_fd())?)?;
        let stat = rustix::fs::fstat(&file)?;
        Ok(target.with_rights((stat.st_uid, stat.st_gid, stat.st_mode)))
    }

    /// True if the file may be replaced without this kernel's knowledge.
    pub(crate) fn is_remote(&self) -> bool {
        self.holder().is_ok_and(|(dir, _)| storage::is_remote(dir.as_fd()))
    }

    /// Returns the file system of the origin.
    pub(crate) fn file_system(&self) -> Result<StatVfs> {
        Ok(rustix::fs::fstatvfs(self.origin().fd())?)
    }

    /// Opens the directory at this path, to hold it or to look names up in it.
    pub(crate) fn open_dir(&self) -> Result<DirFd<'_>> {
        let (dir, name) = self.holder()?;
        if name == "." {
            return Ok(dir);
        }
        let opened = step(dir.as_fd(), &name).map_err(|error| error.of(self.label()))?;
        self.check(&stat_of(&opened)?)?;
        Ok(DirFd::Opened(opened))
    }

    /// Returns the names in the directory at this path, without `.` and `..`.
    pub(crate) fn list(&self) -> Result<Vec<Name>> {
        let read = || -> Result<Vec<Name>> {
            let (dir, own_name) = self.holder()?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let fd = open_as(dir.as_fd(), &own_name, flags)?;
            self.check(&stat_of(&fd)?)?;
            let mut names = Vec::new();
            for found in rustix::fs::Dir::new(fd)? {
                let found = found?;
                let name = OsStr::from_bytes(found.file_name().to_bytes());
                if name != "." && name != ".." {
                    let kind = found.file_type();
                    let kind = (kind != FileType::Unknown).then(|| FileKind::of(kind));
                    names.push(Name { name: name.to_owned(), kind, inode: found.ino() });
                }
            }
            Ok(names)
        };
        read().map_err(|error| error.of(self.label()))
    }
}
