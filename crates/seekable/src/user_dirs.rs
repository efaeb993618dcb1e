//! The user's directories: for state, for cache, and for large temporary files.
//!
//! A state or cache directory is used only if it belongs to this user and no other user may write there.
//! Otherwise another user could plant a link under a name that is about to be written, or a file that is
//! mistaken for ours. A missing directory is created with mode 0700, unless its parent belongs to another
//! user (`sudo` may leave `HOME` unchanged). Files are written under a temporary name and renamed. Only
//! regular files of this user are read, never links.

pub mod bound;
pub mod cached_files;
pub mod held_dir;
pub mod history_size;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::error::{Error, Kind, Result};

/// The program's subdirectory of the directories for state and cache.
const NAME: &str = "asdf-mount";
/// Maximum number of bytes that [`stem_of`] takes from the name of a source's directory.
const DIR_STEM: usize = 50;
/// Maximum number of bytes that [`stem_of`] takes from the name of a source's file.
const STEM: usize = 100;
/// Prefix of the names of files that are being written.
pub const UNFINISHED: &str = ".new-";
/// Age at which an unfinished file counts as abandoned.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);
/// Mode bits that allow others to write.
const BY_OTHERS: u32 = 0o022;

/// The directory of files that outlive a mount and must not be lost: refused texts, journals, lock notes.
pub const STATE: UserDir =
    UserDir { variable: "XDG_STATE_HOME", in_home: ".local/state", of_root: "/var/lib", what: "state" };
/// The directory of files that outlive a mount and may be lost: seek tables.
pub const CACHE: UserDir =
    UserDir { variable: "XDG_CACHE_HOME", in_home: ".cache", of_root: "/var/cache", what: "cache" };
/// The directory given by `-o remote-cache=DIR,SIZE`, which is opened by its path only.
pub const REMOTE: UserDir =
    UserDir { variable: "-o remote-cache", in_home: ".cache", of_root: "/var/cache", what: "cache" };

/// Returns the directory for large temporary files: `$TMPDIR`, or `/var/tmp`.
pub fn temporary() -> PathBuf {
    std::env::var_os("TMPDIR").map_or_else(|| "/var/tmp".into(), PathBuf::from)
}

/// Creates an unnamed file in a directory, open for reading and writing.
pub fn unnamed(dir: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).mode(0o600);
    if let Ok(file) = options.clone().custom_flags(libc::O_TMPFILE | libc::O_EXCL).open(dir) {
        return Ok(file);
    }
    // On a file system without unnamed files: a named file, unlinked at once.
    static FILES: AtomicU64 = AtomicU64::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let name = dir.join(format!(".asdf-mount-{}-{number}", std::process::id()));
    let file = options.create_new(true).open(&name)?;
    std::fs::remove_file(&name)?;
    Ok(file)
}

/// The lookup rules for one of the user's directories.
#[derive(Clone, Copy, Debug)]
pub struct UserDir {
    variable: &'static str,
    in_home: &'static str,
    of_root: &'static str,
    what: &'static str,
}

impl UserDir {
    /// Returns the path, regardless of its existence.
    ///
    /// # Errors
    /// The environment variable is not set, and the user has no home and is not root.
    pub fn path(&self) -> Result<PathBuf> {
        let root = || rustix::process::geteuid().is_root().then(|| PathBuf::from(self.of_root));
        let home = || Some(home()?.join(self.in_home));
        let base = set(self.variable).or_else(home).or_else(root);
        Ok(base.ok_or_else(|| self.nowhere())?.join(NAME))
    }

    /// Returns the path if it is usable: it belongs to this user and no other user can write to it, or it is
    /// missing and can be created. Creates nothing.
    ///
    /// # Errors
    /// [`Kind::Refused`], with the reason, if it is not usable.
    pub fn usable(&self) -> Result<PathBuf> {
        let path = self.path()?;
        let checked = match self.meets(&path) {
            Ok(true) => path.metadata().map_err(Error::from).and_then(|meta| {
                if meta.is_dir() {
                    self.refuse_if(meta.uid(), meta.mode())
                } else {
                    Err(Error::from(Errno::NOTDIR))
                }
            }),
            Ok(false) => self.may_make(&path),
            Err(error) => Err(error),
        };
        checked.map(|()| path.clone()).map_err(|error| error.of(path))
    }

    /// Opens the directory at `path`; creates it if it is missing.
    ///
    /// # Errors
    /// [`Kind::Refused`], with the reason, if it is not usable; or an error of the system.
    pub fn open(&self, path: &Path) -> Result<OwnedFd> {
        if !self.meets(path)? {
            self.may_make(path)?;
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        }
        self.open_existing(path)
    }

    /// Opens the directory at `path`.
    ///
    /// # Errors
    /// As for [`open`](Self::open); also if the directory is missing.
    pub fn open_existing(&self, path: &Path) -> Result<OwnedFd> {
        self.meets(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(path, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&dir)?;
        self.refuse_if(stat.st_uid, stat.st_mode)?;
        Ok(dir)
    }

    /// True if `path` exists. Refuses a link that another user made.
    fn meets(&self, path: &Path) -> Result<bool> {
        match path.symlink_metadata() {
            Ok(meta) if meta.is_symlink() && !is_roots_or_ours(meta.uid()) => {
                Err(self.refused(&format!("it is a link that another user (uid {}) made", meta.uid())))
            }
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn refuse_if(&self, uid: u32, mode: u32) -> Result<()> {
        if uid != rustix::process::geteuid().as_raw() {
            let why = format!("it belongs to another user (uid {uid}): make it yours (chown)");
            return Err(self.refused(&why));
        }
        if mode & BY_OTHERS != 0 {
            return Err(self.refused("other users can write to it: remove their permission (chmod go-w)"));
        }
        Ok(())
    }

    /// Refuses to create directories within another user's directory.
    fn may_make(&self, path: &Path) -> Result<()> {
        let above = path.ancestors().find_map(|above| above.metadata().ok().map(|meta| (above, meta)));
        match above {
            Some((above, meta)) if !is_roots_or_ours(meta.uid()) => {
                let why = format!("{} belongs to another user (uid {})", above.display(), meta.uid());
                Err(self.refused(&why))
            }
            _ => Ok(()),
        }
    }

    fn refused(&self, why: &str) -> Error {
        let what = format!(
            "is not used as {} directory: {why}. To use another directory, set {}",
            self.what, self.variable
        );
        Error::new(Kind::Refused, what)
    }

    fn nowhere(&self) -> Error {
        let what =
            format!("there is no {} directory: neither {} nor HOME is a directory", self.what, self.variable);
        Error::new(Kind::System(libc::ENOENT), what)
    }
}

/// Returns an absolute path from the environment.
fn set(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Returns the home of the effective user: `HOME`, or the home in the user database if `HOME` is unset or
/// belongs to another user. mount(8) and sudo may leave `HOME` as another user's.
///
/// A home that does not exist (`/nonexistent`) is ignored, not created.
pub fn home() -> Option<PathBuf> {
    let uid = rustix::process::geteuid().as_raw();
    let set = set("HOME").filter(|home| home.is_dir());
    let is_ours = |home: &PathBuf| home.metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == uid);
    if set.as_ref().is_some_and(is_ours) {
        return set;
    }
    let user = nix::unistd::User::from_uid(uid.into()).ok().flatten();
    let known = user.map(|user| user.dir).filter(|home| home.is_absolute() && home.is_dir());
    known.clone().filter(is_ours).or(set).or(known)
}

fn is_roots_or_ours(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// True if a file or directory belongs to this user and no other user may write it.
pub fn is_ours(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & BY_OTHERS == 0
}

/// Returns the prefix of names under which files about the source at `path` are kept. It consists of the
/// names of the source and of its directory.
pub fn stem_of(path: &Path) -> OsString {
    let cut = |name: &OsStr, most: usize| {
        let bytes = name.as_bytes();
        OsStr::from_bytes(bytes.get(..most).unwrap_or(bytes)).to_owned()
    };
    let file = cut(path.file_name().unwrap_or(OsStr::new("source")), STEM);
    match path.parent().and_then(Path::file_name) {
        Some(dir) => [cut(dir, DIR_STEM), file].join(OsStr::new("-")),
        None => file,
    }
}

/// Returns a name that no other process chooses, even one with the same process number in another container.
pub fn new_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{UNFINISHED}{}-{}-{number}", std::process::id(), now.as_nanos())
}

/// Creates an empty file of mode 0600; fails if the name is taken.
pub fn create(dir: impl AsFd, name: impl AsRef<Path>) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, name.as_ref(), flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// Writes a file with these bytes, replacing an existing file of that name.
pub fn write(dir: impl AsFd, name: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
    let dir = dir.as_fd();
    let unfinished = new_name();
    let mut file = create(dir, &unfinished)?;
    let written = file.write_all(bytes).and_then(|()| {
        rustix::fs::renameat(dir, &unfinished, dir, name.as_ref())?;
        Ok(())
    });
    if written.is_err() {
        let _ = rustix::fs::unlinkat(dir, &unfinished, AtFlags::empty());
    }
    written
}

/// Opens a regular file of this user for reading; `None` for links, files of other users, missing files.
pub fn open_file(dir: impl AsFd, name: impl AsRef<Path>) -> Option<(File, Stat)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, name.as_ref(), flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    let believed = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && is_ours(&stat);
    believed.then(|| (File::from(file), stat))
}

/// Reads up to `most` bytes of a regular file of this user, as text.
pub fn read(dir: impl AsFd, name: impl AsRef<OsStr>, most: u64) -> Option<String> {
    let (file, _) = open_file(dir, Path::new(name.as_ref()))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_directory_is_made_private_and_used_only_while_it_is_ours_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        STATE.open(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        for mode in [0o720, 0o702, 0o777, 0o1777] {
            set_mode(&path, mode);
            let error = STATE.open(&path).unwrap_err();
            assert_eq!(error.kind(), Kind::Refused);
            assert!(error.message().contains("chmod go-w") && error.message().contains("XDG_STATE_HOME"));
        }
        set_mode(&path, 0o755);
        STATE.open(&path).unwrap();
        symlink(&path, folder.path().join("link")).unwrap();
        STATE.open(&folder.path().join("link")).unwrap();
        symlink("nowhere", folder.path().join("dangling")).unwrap();
        assert!(STATE.open(&folder.path().join("dangling")).is_err());
    }

    #[test]
    fn a_file_is_written_in_place_of_a_link_and_not_through_it() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        std::fs::write(&target, "precious").unwrap();
        symlink(&target, folder.path().join("note")).unwrap();
        let dir = STATE.open(folder.path()).unwrap();
        assert_eq!(read(&dir, "note", 100), None);
        write(&dir, "note", b"text").unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"precious");
        assert_eq!(read(&dir, "note", 100).unwrap(), "text");
        assert_eq!(read(&dir, "note", 2).unwrap(), "te");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
