//! One of the user's directories, held open.
//!
//! It is opened before mounting, as the mount may cover its path.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::UserDir;
use crate::error::Result;
use crate::sync::locked;

/// A directory that is opened again if it was removed.
#[derive(Debug)]
pub struct HeldDir {
    user_dir: UserDir,
    dir: Mutex<Arc<OwnedFd>>,
    path: PathBuf,
    /// True if the path leads into the mount, so that the daemon would wait for itself.
    covered: bool,
}

impl HeldDir {
    /// Opens the directory at `path`, creating it if it is missing.
    ///
    /// # Errors
    /// As for [`UserDir::open`].
    pub fn open(user_dir: UserDir, path: &Path, mountpoint: Option<&Path>) -> Result<Self> {
        let dir = user_dir.open(path).map_err(|error| error.of(path))?;
        Ok(Self::of(user_dir, dir, path, mountpoint))
    }

    /// Opens the directory at `path`.
    ///
    /// # Errors
    /// As for [`UserDir::open_existing`].
    pub fn open_existing(user_dir: UserDir, path: &Path, mountpoint: Option<&Path>) -> Result<Self> {
        let dir = user_dir.open_existing(path).map_err(|error| error.of(path))?;
        Ok(Self::of(user_dir, dir, path, mountpoint))
    }

    fn of(user_dir: UserDir, dir: OwnedFd, path: &Path, mountpoint: Option<&Path>) -> Self {
        let full = path.canonicalize().unwrap_or_default();
        let is_below = |mountpoint| [&*full, path].iter().any(|path| path.starts_with(mountpoint));
        let covered = mountpoint.is_some_and(is_below);
        Self { user_dir, dir: Mutex::new(Arc::new(dir)), path: path.to_owned(), covered }
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory, recreated if it was removed. The second value is true if it was recreated now.
    pub fn get(&self) -> (Arc<OwnedFd>, bool) {
        let mut dir = locked(&self.dir);
        let is_new = if is_removed(&**dir)
            && !self.covered
            && let Ok(made) = self.user_dir.open(&self.path)
        {
            *dir = Arc::new(made);
            true
        } else {
            false
        };
        (dir.clone(), is_new)
    }
}

/// True if an open directory was removed.
pub fn is_removed(dir: impl AsFd) -> bool {
    rustix::fs::fstat(dir).is_ok_and(|stat| stat.st_nlink == 0)
}
