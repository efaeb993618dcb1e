//! The mountpoint: dead mounts are removed from it, and a missing directory is created and later removed.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fd::OwnedFd;
use rustix::fs::{FileType, XattrFlags};
use rustix::io::Errno;
use seekable::error::{Error, Kind, Result, in_shell};

use super::held::{self, Found, HeldEntry};
use super::mountinfo::{Health, Mount};
use super::{detach, serving};

/// The extended attribute that marks a directory as created by this program. It is still there if the daemon
/// was killed before it could remove the directory.
const CREATED_ATTRIBUTE: &str = "user.asdf-mount.created";

/// A held directory to mount on. If this program created it, dropping this removes it.
#[derive(Debug)]
pub(crate) struct Mountpoint {
    entry: HeldEntry,
    /// The directory itself, below any mount of this process.
    dir: OwnedFd,
    made: AtomicBool,
}

impl Mountpoint {
    /// Prepares `wanted` for mounting.
    ///
    /// Removes a dead mount of this program. Creates a missing directory, but no parents. With `only_empty`,
    /// an existing directory has to be empty. An existing directory that a killed daemon left behind counts
    /// as created by this call.
    ///
    /// # Errors
    /// `wanted` is not a directory, is `/`, or has a live mount of this program or a dead mount of
    /// another program.
    pub(crate) fn prepare(wanted: &Path, only_empty: bool) -> Result<Self> {
        let Found { entry, is_linked } = HeldEntry::find(wanted)?;
        let path = entry.shown();
        let fault = |errno: Errno| Error::from(errno).of(path);
        free_of_dead_mounts(&entry)?;
        let (dir, made) = match entry.hold() {
            Ok(dir) => {
                let is_dir = FileType::from_raw_mode(held::stat(&dir).map_err(fault)?.st_mode).is_dir();
                let advice = "name a directory to mount on: asdf-mount SOURCE MOUNTPOINT";
                if !is_dir {
                    let message = if only_empty {
                        format!("is not a directory; {advice}")
                    } else {
                        "not a directory; give an existing or a new directory".to_owned()
                    };
                    return Err(Error::new(Kind::System(libc::ENOTDIR), message).of(path));
                }
                if only_empty && !held::is_empty(&dir).map_err(fault)? {
                    let message = format!("is not empty; {advice}");
                    return Err(Error::new(Kind::System(libc::ENOTEMPTY), message).of(path));
                }
                let made = is_left_behind(&dir);
                (dir, made)
            }
            Err(Errno::NOENT) if is_linked => {
                let message = "dangling symbolic link; create its target, or give another directory";
                return Err(Error::new(Kind::System(libc::ENOENT), message).of(wanted));
            }
            Err(Errno::NOENT) => (make(&entry)?, true),
            Err(errno) => return Err(fault(errno)),
        };
        Ok(Self { entry, dir, made: AtomicBool::new(made) })
    }

    /// Returns the name in the held directory that contains the mountpoint.
    pub(crate) fn entry(&self) -> &HeldEntry {
        &self.entry
    }

    /// Returns the held directory, below any mount of this process.
    pub(crate) fn dir(&self) -> &OwnedFd {
        &self.dir
    }

    /// Returns the path for messages: absolute, free of links.
    pub(crate) fn path(&self) -> &Path {
        self.entry.shown()
    }

    /// Leaves the removal of the directory to the other process of this mount.
    pub(crate) fn leave(&self) {
        self.made.store(false, Ordering::SeqCst);
    }

    /// Removes the directory if this program created it and it is empty.
    pub(crate) fn remove(&self) {
        if self.made.swap(false, Ordering::SeqCst)
            && let Err(errno) = self.entry.remove_dir(&self.dir)
        {
            let error = Error::from(errno);
            tracing::warn!("{}: can't remove the mountpoint: {error}", self.path().display());
        }
    }
}

/// Creates the directory, and marks it as created.
fn make(entry: &HeldEntry) -> Result<OwnedFd> {
    let path = entry.shown();
    entry.make_dir().map_err(|errno| {
        let elsewhere = in_shell(&place_that_works(path));
        let error = Error::from(errno).within("can't create the mountpoint").of(path);
        error.advise(format!("mount elsewhere: asdf-mount SOURCE {elsewhere}"))
    })?;
    let dir = entry.hold().map_err(|errno| Error::from(errno).of(path))?;
    let stat = held::stat(&dir).map_err(|errno| Error::from(errno).of(path))?;
    let is_own = FileType::from_raw_mode(stat.st_mode).is_dir()
        && stat.st_uid == rustix::process::geteuid().as_raw()
        && held::is_empty(&dir).unwrap_or(false);
    if !is_own {
        let message = "another program replaced the new directory; try again, or mount elsewhere";
        return Err(Error::new(Kind::System(libc::EAGAIN), message).of(path));
    }
    // Some file systems have no extended attributes, so an error is ignored.
    let _ = rustix::fs::setxattr(held::path_of(&dir), CREATED_ATTRIBUTE, b"", XattrFlags::CREATE);
    Ok(dir)
}

/// True if a directory was created by this program for a mount whose daemon was killed.
fn is_left_behind(dir: &OwnedFd) -> bool {
    held::attribute(dir, CREATED_ATTRIBUTE, 0).is_ok() && held::is_empty(dir).unwrap_or(false)
}

/// Removes a directory that a killed daemon left behind.
pub(crate) fn remove_left_behind(entry: &HeldEntry) {
    if let Ok(dir) = entry.hold()
        && is_left_behind(&dir)
    {
        let _ = entry.remove_dir(&dir);
    }
}

/// Returns a path of this name in a directory where this user can make directories.
fn place_that_works(path: &Path) -> PathBuf {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let own =
        own.filter(|dir| dir.is_absolute() && rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_ok());
    own.unwrap_or_else(std::env::temp_dir).join(path.file_name().unwrap_or_default())
}

impl Drop for Mountpoint {
    fn drop(&mut self) {
        self.remove();
    }
}

fn free_of_dead_mounts(entry: &HeldEntry) -> Result<()> {
    let path = entry.shown();
    loop {
        let root = match entry.hold() {
            Ok(root) => root,
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(Error::from(errno).of(path)),
        };
        let Some(mount) = entry.mount_of(&root)? else { return Ok(()) };
        let busy = |message| Err(Error::new(Kind::System(libc::EBUSY), message).of(path));
        match (health(&mount, &root), mount.has_our_type()) {
            (Health::Alive | Health::Silent, false) => return Ok(()),
            (Health::Alive, true) => {
                let source = mount.source.display();
                return busy(format!(
                    "already mounted ({source}); unmount it first: asdf-mount -u {}",
                    in_shell(path)
                ));
            }
            (Health::Silent, true) => {
                let source = mount.source.display();
                let (owner, user) = match mount.owner {
                    Some((0, _)) => ("root".to_owned(), "root".to_owned()),
                    Some((user, _)) => (format!("user {user}"), format!("user {user} or root")),
                    None => ("another user".to_owned(), "root".to_owned()),
                };
                return busy(format!(
                    "{owner} has mounted {source} here; only {user} can unmount it: asdf-mount -u {}",
                    in_shell(path)
                ));
            }
            (Health::Dead, false) => {
                return Err(Error::new(
                    Kind::System(libc::ENOTCONN),
                    format!(
                        "a dead mount of type {} is here; remove it first: umount -l {}",
                        mount.kind,
                        in_shell(path)
                    ),
                )
                .of(path));
            }
            (Health::Dead, true) => {
                let detached = detach::detach(&mount, &root);
                detached.map_err(|error| error.within("can't remove a dead mount").of(path))?;
            }
        }
    }
}

/// Returns the state of a mount. A mount with a daemon is not dead, whatever it answers.
pub(crate) fn health(mount: &Mount, root: &OwnedFd) -> Health {
    match mount.health(root) {
        Health::Dead if mount.has_our_type() && serving::daemon_of(mount).is_some() => Health::Alive,
        health => health,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_never_mounted_on() {
        for root in ["/", "//", "/proc/.."] {
            let error = Mountpoint::prepare(Path::new(root), false).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage, "{root}: {error}");
        }
    }
}
