//! The mountpoint: its path is resolved, dead mounts are removed, and a missing directory is created and
//! later removed.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::XattrFlags;

use super::detach;
use super::mountinfo::{self, Health};
use crate::error::{Error, Kind, Result};

/// The extended attribute that marks a directory as created by this program. It is still there if the daemon
/// was killed before it could remove the directory.
const CREATED_ATTRIBUTE: &str = "user.asdf-mount.created";

/// A directory to mount on. If this program created it, dropping this removes it.
#[derive(Debug)]
pub(crate) struct Mountpoint {
    path: PathBuf,
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
        let path = resolve(wanted)?;
        if path.parent().is_none() {
            // `/` would still lead to the file system below the mount, and unmounting would detach that one.
            let message = "can't mount on the root directory; give a directory below it";
            return Err(Error::new(Kind::Usage, message).of(path));
        }
        free_of_dead_mounts(&path)?;
        let made = match fs::metadata(&path) {
            Ok(meta) if meta.is_dir() => {
                if only_empty && !is_empty(&path).map_err(|error| Error::from(error).of(&path))? {
                    let message = "is not empty; name a directory to mount on: asdf-mount SOURCE MOUNTPOINT";
                    return Err(Error::new(Kind::System(libc::ENOTEMPTY), message).of(path));
                }
                is_left_behind(&path)
            }
            Ok(_) if only_empty => {
                let message =
                    "is not a directory; name a directory to mount on: asdf-mount SOURCE MOUNTPOINT";
                return Err(Error::new(Kind::System(libc::ENOTDIR), message).of(path));
            }
            Ok(_) => {
                let message = "not a directory; give an existing or a new directory";
                return Err(Error::new(Kind::System(libc::ENOTDIR), message).of(path));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if fs::symlink_metadata(&path).is_ok() {
                    let message = "dangling symbolic link; create its target, or give another directory";
                    return Err(Error::new(Kind::System(libc::ENOENT), message).of(path));
                }
                fs::create_dir(&path).map_err(|error| {
                    let elsewhere = place_that_works(&path).display().to_string();
                    let error = Error::from(error).within("can't create the mountpoint").of(&path);
                    error.advise(format!("mount elsewhere: asdf-mount SOURCE {elsewhere}"))
                })?;
                // Some file systems have no extended attributes, so an error is ignored.
                let _ = rustix::fs::setxattr(&path, CREATED_ATTRIBUTE, b"", XattrFlags::CREATE);
                true
            }
            Err(error) => return Err(Error::from(error).of(path)),
        };
        Ok(Self { path, made: AtomicBool::new(made) })
    }

    /// Returns the absolute path, free of links.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the removal of the directory to the other process of this mount.
    pub(crate) fn leave(&self) {
        self.made.store(false, Ordering::SeqCst);
    }

    /// Removes the directory if this program created it and it is empty.
    pub(crate) fn remove(&self) {
        if self.made.swap(false, Ordering::SeqCst)
            && let Err(error) = fs::remove_dir(&self.path)
        {
            tracing::warn!("{}: can't remove the mountpoint: {error}", self.path.display());
        }
    }
}

fn is_empty(path: &Path) -> std::io::Result<bool> {
    Ok(fs::read_dir(path)?.next().is_none())
}

/// True if a directory was created by this program for a mount whose daemon was killed.
fn is_left_behind(path: &Path) -> bool {
    let created = rustix::fs::getxattr(path, CREATED_ATTRIBUTE, &mut [0_u8; 0]).is_ok();
    created && is_empty(path).unwrap_or(false)
}

/// Removes a directory that a killed daemon left behind.
pub(crate) fn remove_left_behind(path: &Path) {
    if is_left_behind(path) {
        let _ = fs::remove_dir(path);
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

/// Makes a path absolute and free of links, even if it is a dead mount or does not exist.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf> {
    let whole = match fs::canonicalize(path) {
        Ok(whole) => return Ok(whole),
        Err(error) => Error::from(error).of(path),
    };
    let unseen = [libc::ENOENT, libc::ENOTCONN, libc::ECONNABORTED, libc::EACCES];
    match (path.file_name(), path.parent()) {
        (Some(name), Some(parent)) if unseen.contains(&whole.errno()) => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            let parent = fs::canonicalize(parent).map_err(|error| match error.kind() {
                ErrorKind::NotFound => Error::new(
                    Kind::System(libc::ENOENT),
                    "no such directory; only the last component of a mountpoint is created; use mkdir -p",
                )
                .of(parent),
                _ => Error::from(error).of(parent),
            })?;
            Ok(parent.join(name))
        }
        _ => Err(whole),
    }
}

fn free_of_dead_mounts(path: &Path) -> Result<()> {
    while let Some(mount) = mountinfo::top_at(path)? {
        let busy = |message| Err(Error::new(Kind::System(libc::EBUSY), message).of(path));
        match (mount.health(), mount.is_ours()) {
            (Health::Alive | Health::Silent, false) => break,
            (Health::Alive, true) => {
                let source = mount.source.display();
                return busy(format!("already mounted ({source}); unmount it first: asdf-mount -u"));
            }
            (Health::Silent, true) => {
                let source = mount.source.display();
                let (owner, user) = match mount.owner {
                    Some((0, _)) => ("root".to_owned(), "root".to_owned()),
                    Some((user, _)) => (format!("user {user}"), format!("user {user} or root")),
                    None => ("another user".to_owned(), "root".to_owned()),
                };
                return busy(format!(
                    "{owner} has mounted {source} here; only {user} can unmount it: asdf-mount -u"
                ));
            }
            (Health::Dead, false) => {
                return Err(Error::new(
                    Kind::System(libc::ENOTCONN),
                    format!("a dead mount of type {} is here; remove it first: umount -l", mount.kind),
                )
                .of(path));
            }
            (Health::Dead, true) => {
                detach::detach(path).map_err(|error| error.within("can't remove a dead mount"))?;
            }
        }
    }
    Ok(())
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
