//! A directory that is held open, so that nobody can exchange it between a check and a use.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use md5::{Digest, Md5};
use rustix::fs::{Access, AtFlags, Mode, OFlags, RenameFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use crate::source::wait_for_lease;

/// Opens a file. A FIFO or a device that has taken the file's place neither blocks nor is affected.
const FILE: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// The number of names of a directory that are read to find those of a file.
const MAX_NAMES: usize = 16 << 10;
/// The number of links that are followed to a file, as in the kernel.
const MAX_LINKS: usize = 40;

/// A directory that was opened once. All calls are about names in it.
///
/// Its path can be had for messages only ([`Display`](std::fmt::Display)), because another user may have put
/// another directory there since. Clones share the descriptor.
#[derive(Clone, Debug)]
pub struct HeldDir(Arc<OwnedFd>);

impl From<OwnedFd> for HeldDir {
    fn from(dir: OwnedFd) -> Self {
        Self(Arc::new(dir))
    }
}

impl AsFd for HeldDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Writes the path at which the directory is now.
impl std::fmt::Display for HeldDir {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}", self.path().unwrap_or_default().display())
    }
}

impl HeldDir {
    /// The flags that open a directory to hold it, without reading it.
    pub(super) const FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

    /// Opens the directory at `path`, following links.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Ok(rustix::fs::open(path, Self::FLAGS, Mode::empty())?.into())
    }

    /// Opens the directory of the file at `path`, and returns the name of the file there. Links are followed,
    /// also those that lead to the file.
    pub fn of_file(path: &Path) -> io::Result<(Self, OsString)> {
        let (mut dir, mut name) = Self::parent(None, path)?;
        for _ in 0..MAX_LINKS {
            if !dir.open_entry(&name)?.metadata()?.is_symlink() {
                return Ok((dir, name));
            }
            let target = rustix::fs::readlinkat(&dir, &name, Vec::new())?;
            (dir, name) = Self::parent(Some(&dir), Path::new(OsStr::from_bytes(target.to_bytes())))?;
        }
        Err(Errno::LOOP.into())
    }

    /// Opens the parent of `path`, which is relative to `from`.
    fn parent(from: Option<&Self>, path: &Path) -> io::Result<(Self, OsString)> {
        let Some(Component::Normal(name)) = path.components().next_back() else {
            return Err(Errno::ISDIR.into());
        };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let dir = match from {
            Some(from) => rustix::fs::openat(from, parent, Self::FLAGS, Mode::empty())?,
            None => rustix::fs::open(parent, Self::FLAGS, Mode::empty())?,
        };
        Ok((dir.into(), name.to_owned()))
    }

    fn path(&self) -> io::Result<PathBuf> {
        let held = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        let path = rustix::fs::readlink(&held, Vec::new())?;
        Ok(PathBuf::from(OsStr::from_bytes(path.to_bytes())))
    }

    /// True if the directory is at `path` now, or below it.
    pub fn is_below(&self, path: &Path) -> bool {
        self.path().is_ok_and(|own| own.starts_with(path))
    }

    /// Returns a digest of the path at which `name` is now, as a name for files about it in another directory.
    pub fn key(&self, name: &OsStr) -> io::Result<String> {
        let path = self.path()?.join(name);
        let digest = Md5::digest(path.as_os_str().as_bytes());
        Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Opens `name` for its metadata only. Does not follow a link, and affects no device.
    pub(super) fn open_entry(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(self, name, flags, Mode::empty())?.into())
    }

    /// Opens the regular file `name`; EINVAL for anything else.
    pub(super) fn open_file(&self, name: &OsStr, write: bool) -> io::Result<File> {
        let access = if write { OFlags::RDWR } else { OFlags::RDONLY };
        let open = || rustix::fs::openat(self, name, access | FILE, Mode::empty());
        // A caller that writes waits longer, or not at all.
        let file = File::from(wait_for_lease(open, |errno| *errno == Errno::AGAIN && !write)?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(Errno::INVAL.into()) }
    }

    /// Creates a file of mode 0600; an error if the name is taken.
    pub(super) fn create(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | FILE;
        Ok(rustix::fs::openat(self, name, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Creates a file without a name.
    pub fn unnamed(&self) -> io::Result<File> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(self, ".", flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Renames a file, replacing an existing one.
    pub(super) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(self, from, self, to)?)
    }

    /// Swaps the names of two files.
    pub(super) fn exchange(&self, one: &OsStr, other: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat_with(self, one, self, other, RenameFlags::EXCHANGE)?)
    }

    /// Gives a file a second name.
    pub(super) fn link(&self, name: &OsStr, second: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::linkat(self, name, self, second, AtFlags::empty())?)
    }

    /// Returns the names that begin with `start` among the first [`MAX_NAMES`].
    pub(super) fn names(&self, start: &OsStr) -> io::Result<Vec<OsString>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut dir = rustix::fs::Dir::new(rustix::fs::openat(self, ".", flags, Mode::empty())?)?;
        let mut found = Vec::new();
        for _ in 0..MAX_NAMES {
            let Some(entry) = dir.next() else { break };
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name.starts_with(start.as_bytes()) {
                found.push(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(found)
    }

    /// Removes a name.
    pub(super) fn unlink(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(self, name, AtFlags::empty())?)
    }

    /// Makes the names durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(self, ".", flags, Mode::empty())?;
        match rustix::fs::fsync(dir) {
            // Some network file systems do not support fsync of a directory; their names are durable at once.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
            answer => Ok(answer?),
        }
    }

    /// Fails if the kernel would refuse to change the directory: for lack of permission, on a read-only mount,
    /// or if it is immutable. Also fails if it is append-only (`chattr +a`): names can then be created, not
    /// removed.
    pub(super) fn may_change(&self) -> io::Result<()> {
        rustix::fs::accessat(self, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?;
        match rustix::fs::statx(self, ".", AtFlags::empty(), StatxFlags::empty()) {
            Ok(stat) if stat.stx_attributes.contains(StatxAttributes::APPEND) => Err(Errno::PERM.into()),
            // A failed statx does not count as a refusal.
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_directory_stays_the_one_that_was_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("d")).unwrap();
        fs::create_dir(path("other")).unwrap();
        let held = HeldDir::open(&path("d")).unwrap();
        fs::rename(path("d"), path("moved")).unwrap();
        symlink("other", path("d")).unwrap();
        held.create(OsStr::new("a")).unwrap();
        held.rename(OsStr::new("a"), OsStr::new("b")).unwrap();
        held.sync().unwrap();
        held.may_change().unwrap();
        assert!(path("moved/b").exists());
        assert_eq!(fs::read_dir(path("other")).unwrap().count(), 0);
        assert!(
            held.to_string().ends_with("/moved") && held.is_below(&path("moved").canonicalize().unwrap())
        );
        fs::remove_dir_all(path("moved")).unwrap();
        assert_eq!(held.create(OsStr::new("a")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_file_is_found_through_links_and_opened_through_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("a/b")).unwrap();
        fs::write(path("a/file"), "text").unwrap();
        symlink("../file", path("a/b/relative")).unwrap();
        symlink(path("a/b/relative"), path("absolute")).unwrap();
        symlink("round", path("round")).unwrap();
        symlink("nowhere", path("dangling")).unwrap();
        let (dir, name) = HeldDir::of_file(&path("absolute")).unwrap();
        assert_eq!((name.to_str(), dir.path().unwrap()), (Some("file"), path("a").canonicalize().unwrap()));
        for (name, errno) in [("round", libc::ELOOP), ("dangling", libc::ENOENT), ("a/..", libc::EISDIR)] {
            let error = HeldDir::of_file(&path(name)).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(errno), "{name}");
        }
        let held = HeldDir::open(folder.path()).unwrap();
        assert_eq!(
            held.open_file(OsStr::new("absolute"), false).unwrap_err().raw_os_error(),
            Some(libc::ELOOP)
        );
        rustix::fs::mkfifoat(&held, "fifo", Mode::RUSR | Mode::WUSR).unwrap();
        for write in [false, true] {
            let error = held.open_file(OsStr::new("fifo"), write).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        }
    }
}
