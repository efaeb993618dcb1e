//! The user's state directory: scratch files during a mount, and texts that must not be lost.
//!
//! ```text
//! $XDG_STATE_HOME/asdf-mount/                     0700; ~/.local/state by default
//!   scratch-survey-galaxy.asdf-4711-1/            0700, locked by the running daemon
//!     .tree.yaml.swp  tree.yaml                   the names in the mount
//!   survey-galaxy.asdf-1763650000-4711-1.files/   files made beside tree.yaml, after the end of the mount
//!   survey-galaxy.asdf-1763650000-4711-1.rejected.yaml   0600: a refused text
//!   history/                                      replaced texts, see `asdf_file::history`
//!   report-1763650000-4711.txt                    files that a mount kept at its end, until reported
//! ```
//!
//! Names start with those of the source's directory and file. The amount kept is limited, see [`bound`].
//!
//! Scratch files are on disk and not in memory, since some hold unsaved work (vim's swap, emacs'
//! `#tree.yaml#`): after the daemon is killed they are still there under their names, and the next mount
//! reports their location. The runtime directory is unsuitable: it is small, in memory, and removed with the
//! session. Reads and writes use descriptors only; the names are needed only after such a crash, so a change
//! in this directory can't harm a save.
//!
//! The directory is opened before mounting, as the mount may cover it.

pub(crate) mod leftovers;
pub(crate) mod report;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, FlockOperation, MemfdFlags, Mode, OFlags, RenameFlags, StatVfsMountFlags};
use rustix::io::Errno;

use seekable::error::{Error, Result};
use seekable::sync::locked;
use seekable::user_dirs::STATE;
use seekable::user_dirs::bound::{self, DIRECTORY, FILES, REPORT, SCRATCH};
use seekable::user_dirs::held_dir::{HeldDir, is_removed};
pub(crate) use seekable::user_dirs::stem_of;

/// Maximum refused texts that a mount keeps per file.
const REFUSED: usize = 16;
/// Maximum attempts to find a free name.
const ATTEMPTS: u64 = 10_000;

/// The state directory, held open.
#[derive(Debug)]
pub(crate) struct StateDir {
    dir: HeldDir,
    path: PathBuf,
    /// True if the log has the message that nothing can be written.
    logged: AtomicBool,
    /// The names of the refused texts of this mount, by the label of their source, oldest first.
    refused: Mutex<BTreeMap<PathBuf, Vec<OsString>>>,
    next: AtomicU64,
    /// Bytes kept, as far as this mount knows.
    held: AtomicU64,
    /// The name and the lines of the report.
    report: OsString,
    news: Mutex<Vec<String>>,
}

impl StateDir {
    /// Opens this user's state directory, creating it if it is missing.
    pub(crate) fn open(mountpoint: Option<&Path>) -> Result<Self> {
        Self::of(HeldDir::open(STATE, &STATE.path()?, mountpoint)?)
    }

    /// Opens `path` as the state directory, creating it if it is missing.
    #[cfg(test)]
    pub(crate) fn open_at(path: &Path) -> Result<Self> {
        Self::of(HeldDir::open(STATE, path, None)?)
    }

    fn of(dir: HeldDir) -> Result<Self> {
        let opened = dir.get().0;
        let path = dir.path().to_owned();
        rustix::fs::accessat(&*opened, ".", rustix::fs::Access::WRITE_OK, AtFlags::EACCESS)
            .map_err(|error| Error::from(error).of(&path))?;
        let held = AtomicU64::new(bound::trim(opened.as_fd(), bound::MAX_BYTES, None));
        let report = format!("{REPORT}{}-{}.txt", seconds(), std::process::id()).into();
        let logged = AtomicBool::new(false);
        let refused = Mutex::default();
        Ok(Self { dir, path, logged, refused, next: AtomicU64::new(1), held, report, news: Mutex::default() })
    }

    /// Returns the directory, recreated if it was removed.
    fn dir(&self) -> Arc<OwnedFd> {
        let (dir, is_new) = self.dir.get();
        if is_new {
            self.held.store(0, Ordering::Relaxed);
        }
        dir
    }

    /// Returns the bytes that can be written here now.
    pub(crate) fn room(&self) -> u64 {
        let dir = self.dir();
        let stat = rustix::fs::fstatvfs(&*dir).ok().filter(|_| !is_removed(&*dir));
        stat.filter(|stat| !stat.f_flag.contains(StatVfsMountFlags::RDONLY))
            .map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Logs, once, that a scratch file is held in memory because of an error.
    pub(crate) fn tell_in_memory(&self, error: &Error) {
        if !self.logged.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "{}: {error}: files beside tree.yaml and drafts are held in memory, and are lost if the daemon is \
                 killed; make room there",
                self.path.display()
            );
        }
    }

    /// Keeps a refused text of the source that messages call `label`. Of the refused texts of this source,
    /// the last [`REFUSED`] stay.
    pub(crate) fn keep_refused(&self, label: &Path, stem: &OsStr, text: &[u8]) -> Result<PathBuf> {
        let path = self.keep(stem, ".rejected.yaml", text)?;
        let mut refused = locked(&self.refused);
        let names = refused.entry(label.to_owned()).or_default();
        names.extend(path.file_name().map(OsStr::to_owned));
        let dir = self.dir();
        for old in names.drain(..names.len().saturating_sub(REFUSED)) {
            let _ = rustix::fs::unlinkat(&dir, old, AtFlags::empty());
        }
        Ok(path)
    }

    /// Counts newly kept bytes, and trims the directory if they exceed the limit.
    fn grown(&self, by: u64, newest: &OsStr) {
        if self.held.fetch_add(by, Ordering::Relaxed).saturating_add(by) > bound::MAX_BYTES {
            let held = bound::trim(self.dir().as_fd(), bound::MAX_BYTES, Some(newest));
            self.held.store(held, Ordering::Relaxed);
        }
    }

    /// Keeps `text` durably under a new name made from `stem` and `what`; returns its path.
    pub(crate) fn keep(&self, stem: &OsStr, what: &str, text: &[u8]) -> Result<PathBuf> {
        let dir = self.dir();
        for _ in 0..ATTEMPTS {
            let name = self.new_name(stem, &format!("-{}", seconds()), what);
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            match rustix::fs::openat(&dir, &name, flags, Mode::RUSR | Mode::WUSR) {
                Err(Errno::EXIST) => {}
                Err(error) => return Err(Error::from(error).of(self.path.join(name))),
                Ok(file) => {
                    let mut file = File::from(file);
                    let written = file.write_all(text).and_then(|()| file.sync_data());
                    let _ = rustix::fs::fsync(&dir);
                    let path = self.path.join(&name);
                    return match written {
                        Ok(()) => {
                            self.grown(text.len() as u64, &name);
                            Ok(path)
                        }
                        Err(error) => {
                            let _ = rustix::fs::unlinkat(&dir, &name, AtFlags::empty());
                            Err(Error::from(error).of(path))
                        }
                    };
                }
            }
        }
        Err(Error::from(Errno::EXIST).of(&self.path))
    }

    /// Creates a directory for the scratch files of one overlay.
    pub(crate) fn scratch_dir(&self, stem: &OsStr) -> Result<ScratchDir> {
        let state_dir = self.dir();
        for _ in 0..ATTEMPTS {
            let mut name = OsString::from(SCRATCH);
            name.push(self.new_name(stem, "", ""));
            match rustix::fs::mkdirat(&state_dir, &name, Mode::RWXU) {
                Err(Errno::EXIST) => continue,
                made => made.map_err(|error| Error::from(error).of(self.path.join(&name)))?,
            }
            let dir = rustix::fs::openat(&state_dir, &name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())
                .map_err(|error| Error::from(error).of(self.path.join(&name)))?;
            // Another mount that checks for a live daemon may hold the lock for a moment, and may have
            // removed the directory as empty. On a file system without locks this fails, and no mount takes
            // the directory for an abandoned one.
            let _ = rustix::fs::flock(&dir, FlockOperation::LockExclusive);
            if rustix::fs::fstat(&dir).is_ok_and(|stat| stat.st_nlink == 0) {
                continue;
            }
            let path = self.path.join(&name);
            return Ok(ScratchDir { dir, path });
        }
        Err(Error::from(Errno::EXIST).of(&self.path))
    }

    /// Turns a scratch directory into a directory that stays after the mount; returns its path.
    pub(crate) fn keep_scratch_dir(&self, scratch_dir: &ScratchDir, stem: &OsStr) -> Result<PathBuf> {
        let dir = self.dir();
        let old = scratch_dir.path.file_name().ok_or_else(|| Error::from(Errno::NOENT))?;
        for _ in 0..ATTEMPTS {
            let name = self.new_name(stem, &format!("-{}", seconds()), FILES);
            match rustix::fs::renameat_with(&dir, old, &dir, &name, RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => continue,
                renamed => renamed.map_err(|error| Error::from(error).of(&scratch_dir.path))?,
            }
            let _ = rustix::fs::fsync(&scratch_dir.dir).and_then(|()| rustix::fs::fsync(&dir));
            self.grown(scratch_dir.size(), &name);
            return Ok(self.path.join(name));
        }
        Err(Error::from(Errno::EXIST).of(&self.path))
    }

    /// Removes a directory of scratch files with its contents.
    pub(crate) fn clear(&self, scratch_dir: ScratchDir) {
        scratch_dir.retain(|_| false);
        if let Some(name) = scratch_dir.path.file_name() {
            let _ = rustix::fs::unlinkat(self.dir(), name, AtFlags::REMOVEDIR);
        }
    }

    fn new_name(&self, stem: &OsStr, middle: &str, end: &str) -> OsString {
        let mut name = stem.to_owned();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        name.push(format!("{middle}-{}-{number}{end}", std::process::id()));
        name
    }
}

/// Returns the seconds since 1970.
fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// A directory for the scratch files of one overlay. Names in it follow those in the mount as far as
/// possible; nothing depends on them.
#[derive(Debug)]
pub(crate) struct ScratchDir {
    dir: OwnedFd,
    path: PathBuf,
}

impl ScratchDir {
    /// Creates an empty file, unnamed if `name` is `None`.
    pub(crate) fn file(&self, name: Option<&OsStr>) -> Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let used = name.unwrap_or(OsStr::new(" "));
        self.remove(used);
        self.make_parents(used);
        let file = rustix::fs::openat(&self.dir, used, flags, Mode::RUSR | Mode::WUSR);
        let file = file.map_err(|error| Error::from(error).of(self.path.join(used)))?;
        if name.is_none() {
            self.remove(used);
        }
        Ok(file.into())
    }

    /// True if the directory was removed.
    pub(crate) fn is_gone(&self) -> bool {
        is_removed(&self.dir)
    }

    /// True if this file has this name.
    pub(crate) fn has(&self, name: &OsStr, file: &File) -> bool {
        let named = rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW);
        let own = file.metadata();
        matches!((named, own), (Ok(named), Ok(own)) if (named.st_dev, named.st_ino) == (own.dev(), own.ino()))
    }

    /// Makes a directory, and those above it.
    pub(crate) fn make_dir(&self, path: &OsStr) {
        self.make_parents(path);
        let _ = rustix::fs::mkdirat(&self.dir, path, Mode::RWXU);
    }

    fn make_parents(&self, path: &OsStr) {
        for parent in Path::new(path).ancestors().skip(1).collect::<Vec<_>>().into_iter().rev() {
            if !parent.as_os_str().is_empty() {
                let _ = rustix::fs::mkdirat(&self.dir, parent, Mode::RWXU);
            }
        }
    }

    /// Removes all files and directories except those that `kept` accepts.
    pub(crate) fn retain(&self, kept: impl Fn(&OsStr) -> bool) {
        for name in bound::names(self.dir.as_fd()).into_iter().filter(|name| !kept(name)) {
            self.remove(&name);
        }
    }

    /// Returns the bytes of all files.
    fn size(&self) -> u64 {
        let size = |name: OsString| {
            let stat = rustix::fs::statat(&self.dir, &*name, AtFlags::SYMLINK_NOFOLLOW);
            stat.map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0))
        };
        bound::paths(self.dir.as_fd()).into_iter().map(size).sum()
    }

    pub(crate) fn remove(&self, name: &OsStr) {
        bound::remove(self.dir.as_fd(), name);
    }

    pub(crate) fn rename(&self, old: &OsStr, new: &OsStr, exchange: bool) {
        let dir = self.dir.as_fd();
        self.make_parents(new);
        if exchange && rustix::fs::renameat_with(dir, old, dir, new, RenameFlags::EXCHANGE).is_ok() {
            return;
        }
        if rustix::fs::renameat(dir, old, dir, new).is_err() && !exchange {
            // The new name in the mount is a link or shows the source, so a file left here under that name is
            // not its file.
            self.remove(new);
        }
    }

    pub(crate) fn link(&self, old: &OsStr, new: &OsStr) {
        self.make_parents(new);
        let _ = rustix::fs::linkat(&self.dir, old, &self.dir, new, AtFlags::empty());
    }
}

/// Creates an empty file in memory, for use without a state directory.
pub(crate) fn in_memory() -> Result<File> {
    Ok(rustix::fs::memfd_create("asdf-mount scratch", MemfdFlags::CLOEXEC)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_new_private_and_whole() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let state_dir = StateDir::open_at(&dir.path().join("a/b")).unwrap();
        let stem = stem_of(&Path::new(&"y".repeat(255)).join("x".repeat(255)));
        assert_eq!(stem_of(Path::new("/survey/galaxy.asdf")), "survey-galaxy.asdf");
        assert_eq!(stem_of(Path::new("/galaxy.asdf")), "galaxy.asdf");
        let kept = [
            state_dir.keep(&stem, ".yaml", b"one").unwrap(),
            state_dir.keep(&stem, ".yaml", b"two").unwrap(),
        ];
        assert_eq!(std::fs::read(&kept[0]).unwrap(), b"one");
        assert_eq!(std::fs::read(&kept[1]).unwrap(), b"two");
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&kept[0]), mode(&state_dir.path)), (0o600, 0o700));
    }

    #[test]
    fn a_drawer_follows_names_and_goes_with_its_mount_but_not_with_a_crash() {
        let dir = tempfile::tempdir().unwrap();
        let state_dir = StateDir::open_at(dir.path()).unwrap();
        let scratch_dir = state_dir.scratch_dir(OsStr::new("a.asdf")).unwrap();
        let mut file = scratch_dir.file(Some(OsStr::new("x"))).unwrap();
        file.write_all(b"work").unwrap();
        scratch_dir.file(None).unwrap();
        scratch_dir.rename(OsStr::new("x"), OsStr::new("y"), false);
        let path = scratch_dir.path.clone();
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1);
        // Another mount of the same user opens the state directory, while the scratch directory is in use and
        // afterwards.
        drop(StateDir::open_at(dir.path()).unwrap());
        drop(scratch_dir);
        drop(StateDir::open_at(dir.path()).unwrap());
        assert_eq!(std::fs::read(path.join("y")).unwrap(), b"work");
        let other = state_dir.scratch_dir(OsStr::new("a.asdf")).unwrap();
        other.file(Some(OsStr::new("z"))).unwrap();
        state_dir.clear(other);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_removed_directory_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/state");
        let state_dir = StateDir::open_at(&path).unwrap();
        let scratch_dir = state_dir.scratch_dir(OsStr::new("a.asdf")).unwrap();
        std::fs::remove_dir_all(folder.path().join("a")).unwrap();
        assert!(scratch_dir.is_gone());
        let kept = state_dir.keep(OsStr::new("a.asdf"), ".yaml", b"text").unwrap();
        assert_eq!(std::fs::read(kept).unwrap(), b"text");
        assert!(!state_dir.scratch_dir(OsStr::new("a.asdf")).unwrap().is_gone() && state_dir.room() > 0);
        // A path in the mount would lead to the mount itself.
        let covered = StateDir::of(HeldDir::open(STATE, &path, Some(folder.path())).unwrap()).unwrap();
        std::fs::remove_dir_all(&path).unwrap();
        assert!(covered.keep(OsStr::new("a.asdf"), ".yaml", b"text").is_err());
        assert!(!path.exists() && covered.room() == 0);
    }

    #[test]
    fn of_the_refused_texts_of_a_file_the_last_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let state_dir = StateDir::open_at(dir.path()).unwrap();
        let keep = |file: &str, n: usize| {
            let path = Path::new(file);
            state_dir.keep_refused(path, &stem_of(path), format!("{file} {n}").as_bytes()).unwrap()
        };
        let other = keep("/b/a.asdf", 0);
        let kept: Vec<_> = (0..REFUSED + 3).map(|n| keep("/a/b/a.asdf", n)).collect();
        let there = |paths: &[PathBuf]| paths.iter().filter(|path| path.exists()).count();
        assert_eq!((there(&kept[..3]), there(&kept[3..])), (0, REFUSED));
        assert!(other.exists());
        state_dir.write_report();
        let report = std::fs::read_to_string(state_dir.report_path()).unwrap();
        assert!(report.contains("/b/a.asdf: refused texts are kept: "), "{report}");
        assert_eq!(report.matches(".rejected.yaml").count(), REFUSED + 1, "{report}");
    }
}
