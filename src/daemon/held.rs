//! A name in a held directory: the only way to a mountpoint.
//!
//! Between the check of a mountpoint and its use, another user may exchange directories on the way to it. The
//! directory that contains the mountpoint is therefore opened once, and every call works in it. Whoever can
//! exchange a name in that directory can also remove it, and nobody can exchange the name of a mount.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use seekable::error::{Error, Kind, Result};

use super::mountinfo::{self, Mount};

/// Number of times that a mount in use is unmounted again, and the time between them.
const MAX_TRIES: u32 = 5;
const BETWEEN_TRIES: std::time::Duration = std::time::Duration::from_millis(100);

/// Maximum number of links on the way to a mountpoint, as in the kernel.
const MAX_LINKS: usize = 40;

/// How this program opens what it holds: without reading it, and without following a link.
const HOLD: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A name in a held directory.
#[derive(Debug)]
pub(crate) struct HeldEntry {
    parent: OwnedFd,
    name: OsString,
    /// The path when it was found, for messages.
    shown: PathBuf,
}

/// The result of a search for an entry.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) entry: HeldEntry,
    /// True if the path ends in a symbolic link, which was followed.
    pub(crate) is_linked: bool,
}

impl HeldEntry {
    /// Finds a directory by its path, name by name. The last name need not exist.
    ///
    /// Root follows no link of another user, who could exchange it at any moment.
    pub(crate) fn find(path: &Path) -> Result<Found> {
        let mut names = names(path);
        let mut dir = hold(if path.is_absolute() { "/" } else { "." }).map_err(|error| error.of(path))?;
        let mut links = 0;
        let mut is_linked = false;
        let fault = |errno: Errno| Error::from(errno).of(path);
        while let Some(name) = names.pop_front() {
            let is_last = names.is_empty();
            let next = match rustix::fs::openat(&dir, &name, HOLD, Mode::empty()) {
                Err(Errno::NOENT) if is_last && name != ".." => {
                    return Ok(Found { entry: Self::new(dir, name), is_linked });
                }
                Err(Errno::NOENT) => {
                    let message =
                        "no such directory; only the last component of a mountpoint is created; use mkdir -p";
                    let missing = current_path(&dir).unwrap_or_default().join(name);
                    return Err(Error::new(Kind::System(libc::ENOENT), message).of(missing));
                }
                next => next.map_err(fault)?,
            };
            // For anything but a link, the kernel knows no target of the empty name.
            if let Ok(target) = rustix::fs::readlinkat(&next, "", Vec::new()) {
                links += 1;
                if links > MAX_LINKS {
                    return Err(fault(Errno::LOOP));
                }
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                may_follow(&next, &target)
                    .map_err(|error| error.of(current_path(&dir).unwrap_or_default().join(&name)))?;
                is_linked |= is_last;
                if target.is_absolute() {
                    dir = hold("/")?;
                }
                for name in self::names(&target).into_iter().rev() {
                    names.push_front(name);
                }
            } else if is_last && name != ".." {
                return Ok(Found { entry: Self::new(dir, name), is_linked });
            } else {
                // With this flag, the kernel also mounts what an automounter offers.
                dir = rustix::fs::openat(&dir, &name, HOLD | OFlags::DIRECTORY, Mode::empty())
                    .map_err(fault)?;
            }
        }
        let entry = Self::of_dir(&dir).map_err(|error| error.of(path))?;
        Ok(Found { entry, is_linked })
    }

    /// Returns the entry of a held directory, which was reached without its name.
    fn of_dir(dir: &OwnedFd) -> Result<Self> {
        let path = current_path(dir)?;
        let Some(name) = path.file_name() else {
            // `/` would still lead to the file system below the mount, and unmounting would detach that one.
            let message = "can't mount on the root directory; give a directory below it";
            return Err(Error::new(Kind::Usage, message));
        };
        let parent = rustix::fs::openat(dir, "..", HOLD | OFlags::DIRECTORY, Mode::empty())?;
        let entry = Self::new(parent, name.to_owned());
        if mount_id(&entry.hold()?)? != mount_id(dir)? || !is_same(&entry.hold()?, dir) {
            return Err(Error::new(Kind::System(libc::EAGAIN), "was renamed at this moment; try again"));
        }
        Ok(entry)
    }

    fn new(parent: OwnedFd, name: OsString) -> Self {
        let shown = current_path(&parent).unwrap_or_default().join(&name);
        Self { parent, name, shown }
    }

    /// Returns the absolute path, free of links, as it was when the entry was found. It is only for messages
    /// and comparisons: another directory may be there by now.
    pub(crate) fn shown(&self) -> &Path {
        &self.shown
    }

    /// Returns another handle to the entry.
    pub(crate) fn try_clone(&self) -> Result<Self> {
        let parent = self.parent.try_clone()?;
        Ok(Self { parent, name: self.name.clone(), shown: self.shown.clone() })
    }

    /// Opens what the name leads to: the root of the uppermost mount there, or the directory. No request
    /// reaches a mount.
    pub(crate) fn hold(&self) -> std::result::Result<OwnedFd, Errno> {
        rustix::fs::openat(&self.parent, &self.name, HOLD, Mode::empty())
    }

    /// Returns the uppermost mount here, if the name leads to one.
    pub(crate) fn mount(&self) -> Result<Option<Mount>> {
        match self.hold() {
            Ok(held) => self.mount_of(&held),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(Error::from(errno).of(&self.shown)),
        }
    }

    /// Returns the mount that begins with the held directory, which the name leads to.
    pub(crate) fn mount_of(&self, held: &OwnedFd) -> Result<Option<Mount>> {
        let id = mount_id(held)?;
        if id == mount_id(&self.parent)? {
            return Ok(None);
        }
        let mount = mountinfo::all()?.into_iter().find(|mount| mount.id == id);
        let gone = || Error::new(Kind::System(libc::EAGAIN), "was unmounted at this moment; try again");
        mount.map(Some).ok_or_else(|| gone().of(&self.shown))
    }

    /// Creates the directory.
    pub(crate) fn make_dir(&self) -> rustix::io::Result<()> {
        rustix::fs::mkdirat(&self.parent, &self.name, Mode::from_raw_mode(0o777))
    }

    /// Removes the directory if it is empty, and still the one that is held.
    pub(crate) fn remove_dir(&self, held: &OwnedFd) -> rustix::io::Result<()> {
        if !is_same(&self.hold()?, held) {
            return Err(Errno::BUSY);
        }
        rustix::fs::unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR)
    }

    /// Opens the file for reading, without following a link or waiting for a writer.
    pub(crate) fn open_file(&self) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.parent, &self.name, flags, Mode::empty())
    }

    /// Removes the file.
    pub(crate) fn remove_file(&self) -> rustix::io::Result<()> {
        rustix::fs::unlinkat(&self.parent, &self.name, AtFlags::empty())
    }

    /// Unmounts the uppermost mount here, whose root is `held`, unless it is in use.
    pub(crate) fn unmount(&self, held: OwnedFd) -> rustix::io::Result<()> {
        let wanted = mount_id(&held);
        // A held mount is in use.
        drop(held);
        let path = path_of(&self.parent).join(&self.name);
        let mut tries = 0;
        loop {
            if mount_id(&self.hold()?) != wanted {
                return Err(Errno::INVAL);
            }
            match rustix::mount::unmount(&path, UnmountFlags::NOFOLLOW) {
                // A program that looks at all mounts holds each for a moment.
                Err(Errno::BUSY) if tries < MAX_TRIES => tries += 1,
                result => return result,
            }
            std::thread::sleep(BETWEEN_TRIES);
        }
    }
}

/// Returns the names of a path.
fn names(path: &Path) -> VecDeque<OsString> {
    let name = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(name).collect()
}

fn hold(path: &str) -> Result<OwnedFd> {
    Ok(rustix::fs::openat(CWD, path, HOLD | OFlags::DIRECTORY, Mode::empty())?)
}

/// Refuses a link that another user made, if this process is root.
fn may_follow(link: &OwnedFd, target: &Path) -> Result<()> {
    let owner = rustix::fs::fstat(link)?.st_uid;
    if owner == 0 || !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let message = format!(
        "a symbolic link of user {owner}, which root does not follow to a mountpoint; give the directory \
         itself: {}",
        target.display()
    );
    Err(Error::new(Kind::System(libc::ELOOP), message))
}

/// Unmounts the mount whose root is held; open files stay usable until they are closed.
pub(crate) fn detach(held: &OwnedFd) -> rustix::io::Result<()> {
    rustix::mount::unmount(path_of(held), UnmountFlags::DETACH)
}

/// Opens the root of a mount of the mount table, if the mount is still there and nothing covers it.
pub(crate) fn hold_mount(mount: &Mount) -> Option<OwnedFd> {
    let held = rustix::fs::openat(CWD, &mount.mountpoint, HOLD, Mode::empty()).ok()?;
    mount_id(&held).is_ok_and(|id| id == mount.id).then_some(held)
}

/// Returns a path to a held file that no other user can change. Only this process can use the path.
pub(crate) fn path_of(held: impl AsFd) -> PathBuf {
    format!("/proc/self/fd/{}", held.as_fd().as_raw_fd()).into()
}

/// Returns the present path of a held file, from the kernel.
pub(crate) fn current_path(held: impl AsFd) -> Result<PathBuf> {
    let path = rustix::fs::readlinkat(CWD, path_of(held), Vec::new());
    let path = path.map_err(|errno| Error::from(errno).within("can't read /proc"))?;
    Ok(OsString::from_vec(path.into_bytes()).into())
}

/// Returns the number of the mount that a held file was reached through.
pub(crate) fn mount_id(held: impl AsFd) -> Result<u64> {
    fdinfo(held, "mnt_id:")
}

/// Returns a number that the kernel knows about an open file.
pub(crate) fn fdinfo<T: FromStr>(file: impl AsFd, name: &str) -> Result<T> {
    let path = format!("/proc/self/fdinfo/{}", file.as_fd().as_raw_fd());
    let text = std::fs::read_to_string(&path).map_err(|error| Error::from(error).of(&path))?;
    let number = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    number.ok_or_else(|| Error::new(Kind::System(libc::EIO), format!("has no line {name}")).of(&path))
}

/// True if both are the same file. No request reaches a mount.
fn is_same(one: &OwnedFd, other: &OwnedFd) -> bool {
    use rustix::fs::{StatxFlags, statx};
    let key = |held: &OwnedFd| {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let stat = statx(held, "", flags, StatxFlags::INO).ok()?;
        Some((stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino))
    };
    key(one).is_some_and(|key_of_one| key(other) == Some(key_of_one))
}

/// Returns the attributes of a held file.
pub(crate) fn stat(held: &OwnedFd) -> rustix::io::Result<Stat> {
    rustix::fs::fstat(held)
}

/// True if a held directory has no entries.
pub(crate) fn is_empty(held: &OwnedFd) -> rustix::io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::Dir::new(rustix::fs::openat(held, ".", flags, Mode::empty())?)?;
    for entry in dir {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads an extended attribute of the root of a mount, or of a directory.
pub(crate) fn attribute(
    held: &OwnedFd,
    name: impl AsRef<OsStr>,
    longest: usize,
) -> rustix::io::Result<Vec<u8>> {
    let mut value = vec![0; longest];
    let length = rustix::fs::getxattr(path_of(held), name.as_ref(), &mut value)?;
    value.truncate(length);
    Ok(value)
}
