//! The mount of a single local file, for a command that changes the file while it is mounted.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use asdf_file::edit::check::was_written_as;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, statx};
use rustix::io::Errno;
use seekable::error::{Error, Kind, Result};

use super::held;
use super::mountinfo::{self, Mount};
use super::serving::{self, Daemon};

/// The file in the mount with the tree.
const TREE: &str = "tree.yaml";
/// The file in the mount with the reason of a refused save.
const REFUSAL: &str = "tree.yaml.error";
/// Maximum number of bytes that a text may have more than the saved one, as which it was saved: blank lines at its end.
const MAX_MORE: usize = 64 << 10;
/// Maximum number of bytes of a reason that are printed.
const MAX_REFUSAL: u64 = 64 << 10;

/// The mount of a single file, with its root held.
#[derive(Debug)]
pub(crate) struct FileMount {
    mount: Mount,
    root: OwnedFd,
}

impl FileMount {
    /// Finds the writable mount of a daemon that has this file open. Only the user's own mount counts and, for root, one
    /// of the file's owner.
    ///
    /// # Errors
    /// The mount table can't be read.
    pub(crate) fn of(file: impl AsFd) -> Result<Option<Self>> {
        let stat = rustix::fs::fstat(file)?;
        let user = rustix::process::geteuid().as_raw();
        let is_trusted = |owner: u32| owner == user || user == 0 && owner == stat.st_uid;
        let key = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev), stat.st_ino);
        let daemons: Vec<_> = serving::all().into_iter().filter(|daemon| has_open(daemon, key)).collect();
        for mount in mountinfo::all()?.into_iter().filter(Mount::has_our_type) {
            if !mount.is_read_only()
                && mount.owner.is_some_and(|(owner, _)| is_trusted(owner))
                && daemons.iter().any(|daemon| daemon.serves(&mount))
                && let Some(root) = held::hold_mount(&mount)
            {
                let found = Self { mount, root };
                if found.as_owner(|| found.open(TREE, OFlags::RDONLY)).is_ok() {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    /// Returns the mountpoint, for messages.
    pub(crate) fn mountpoint(&self) -> &Path {
        &self.mount.mountpoint
    }

    /// Replaces the tree, which has to be `old`.
    ///
    /// # Errors
    /// The tree in the mount is another one, such as a draft; or the save is refused or fails.
    pub(crate) fn replace_tree(&self, old: &[u8], new: &[u8]) -> Result<()> {
        self.with_tree(old, &|tree| {
            tree.set_len(0)?;
            tree.write_all_at(new, 0)?;
            tree.sync_all()
        })
    }

    /// Fails if the tree can't be replaced, or is not `old`.
    pub(crate) fn may_replace_tree(&self, old: &[u8]) -> Result<()> {
        self.with_tree(old, &|_| Ok(()))
    }

    /// Opens the tree for writing. It has to be `old`, or a text that was saved as `old` and is still shown as its program
    /// wrote it.
    fn with_tree(&self, old: &[u8], act: &(dyn Fn(&File) -> io::Result<()> + Sync)) -> Result<()> {
        let replace = || -> io::Result<bool> {
            // The mount refuses the text if another program changes the file after this handle has read the tree.
            let tree = self.open(TREE, OFlags::RDWR)?;
            let mut present = Vec::new();
            (&tree).take((old.len() + MAX_MORE) as u64).read_to_end(&mut present)?;
            if present != old && !was_written_as(old, &present) {
                return Ok(false);
            }
            act(&tree)?;
            Ok(true)
        };
        let path = self.mountpoint().join(TREE);
        match self.as_owner(replace) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let message = "differs from the tree of the file: a program is editing it; try again later";
                Err(Error::new(Kind::Conflict, message).of(path))
            }
            Err(error) => Err(Error::from(error).of(path)),
        }
    }

    /// Returns the reason of a refused save.
    pub(crate) fn refusal(&self) -> Option<String> {
        let read = || {
            let mut text = Vec::new();
            self.open(REFUSAL, OFlags::RDONLY)?.take(MAX_REFUSAL).read_to_end(&mut text)?;
            Ok::<_, io::Error>(String::from_utf8_lossy(&text).into_owned())
        };
        self.as_owner(read).ok()
    }

    fn as_owner<T: Send>(&self, act: impl FnOnce() -> T + Send + Copy) -> T {
        self.mount.as_owner(act).unwrap_or_else(act)
    }

    /// Opens a file in the root of the mount, if it is one of the mount.
    fn open(&self, name: &str, how: OFlags) -> io::Result<File> {
        let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.root, name, flags, Mode::empty())?;
        if held::mount_id(&file).ok() != Some(self.mount.id)
            || !File::from(file.try_clone()?).metadata()?.is_file()
        {
            return Err(Errno::INVAL.into());
        }
        Ok(file.into())
    }
}

/// True if a process has the file open.
fn has_open(daemon: &Daemon, key: (u32, u32, u64)) -> bool {
    let files = std::fs::read_dir(format!("/proc/{}/fd", daemon.pid)).into_iter().flatten().flatten();
    let mut found =
        files.filter_map(|file| statx(CWD, file.path(), AtFlags::STATX_DONT_SYNC, StatxFlags::INO).ok());
    found.any(|stat| (stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino) == key)
}
