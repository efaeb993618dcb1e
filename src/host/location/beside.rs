//! Files that a source names: they are looked for in the folder that it lies in.
//!
//! What a file says comes from strangers, and must not have the daemon read what the reader could not. So the system
//! is asked to stay below the folder, on its file system, links included; and where other users may look
//! (`allow_other`), whoever may read the source must be let in to the other file as well.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::error::{Error, Kind, Result};
use crate::host::acl;
use crate::host::at::{HOLD, READ, stat_of};
use crate::host::location::Location;
use crate::host::stat::{self, Stat};
use crate::source::{FileSource, Reach, Source, Surroundings};

/// To hold whatever lies at a path.
const HOLD_ANY: OFlags = HOLD.difference(OFlags::DIRECTORY).difference(OFlags::NOFOLLOW);
/// Links that are followed, as many as the system follows.
const MOST_LINKS: usize = 40;
/// How often a path is resolved again that changes meanwhile.
const TRIES: usize = 8;

/// What lies beside a source.
#[derive(Clone, Debug)]
pub(super) struct Beside {
    source: Location,
    /// From the folder of the source to the one where paths begin.
    prefix: PathBuf,
}

impl Beside {
    pub(super) fn new(source: Location) -> Self {
        Self { source, prefix: PathBuf::new() }
    }

    fn refused(what: &str) -> Error {
        Error::new(Kind::Unrecognised, what)
    }

    /// Holds the file at a path below the folder, or anywhere.
    fn hold(&self, dir: BorrowedFd<'_>, path: &Path, reach: &Reach) -> Result<OwnedFd> {
        let folder = real_path(dir);
        let below = folder.as_deref().and_then(|folder| path.strip_prefix(folder).ok()).unwrap_or(path);
        let is_shared = self.source.origin().shared;
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        if is_shared {
            resolve |= ResolveFlags::NO_SYMLINKS;
        }
        match open_at(dir, below, resolve) {
            Ok(held) => {
                if is_shared {
                    self.admit(dir, below, &held)?;
                }
                Ok(held)
            }
            Err(Errno::XDEV | Errno::LOOP) if is_shared => {
                Err(Self::refused("it lies outside of the folder of the file, or behind a link"))
            }
            Err(Errno::XDEV) => match reach {
                Reach::Below => Err(Self::refused("it lies outside of the folder of the file")
                    .advise("-o external=anywhere allows that")),
                Reach::Anywhere { mountpoint } => {
                    let folder = folder.ok_or_else(|| Self::refused("its folder has no path"))?;
                    let path = without_links(folder, path, mountpoint.as_deref())?;
                    Ok(open_at(rustix::fs::CWD, &path, ResolveFlags::NO_SYMLINKS)?)
                }
            },
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether all who may read the source may read a file below its folder.
    fn admit(&self, dir: BorrowedFd<'_>, path: &Path, held: &OwnedFd) -> Result<()> {
        let source = self.source.stat()?;
        let other = acl::stat_of_held(held.as_fd())?;
        let all_may =
            path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()).all(|above| {
                acl::stat_in(dir, above.as_os_str()).is_ok_and(|stat| stat.mode & 0o111 == 0o111)
            });
        match all_may && reads_as_much(&source, &other) {
            true => Ok(()),
            false => Err(Self::refused("not all users who may read the file may read it (allow_other)")),
        }
    }
}

/// Whether whoever may read one file may read the other.
fn reads_as_much(one: &Stat, other: &Stat) -> bool {
    let (one_may, other_may) = (one.mode & 0o444, other.mode & 0o444);
    let same_owners = (one.uid, one.gid) == (other.uid, other.gid);
    other_may == 0o444 || (same_owners && one_may & !other_may == 0)
}

fn open_at(dir: BorrowedFd<'_>, path: &Path, resolve: ResolveFlags) -> std::result::Result<OwnedFd, Errno> {
    for _ in 0..TRIES {
        match rustix::fs::openat2(dir, path, HOLD_ANY, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            // An older kernel, or a sandbox that forbids the call: nothing else keeps to the folder.
            Err(Errno::NOSYS) => return Err(Errno::PERM),
            done => return done,
        }
    }
    Err(Errno::AGAIN)
}

/// The path of a directory that is held, as the system has it.
fn real_path(dir: BorrowedFd<'_>) -> Option<PathBuf> {
    let path = std::fs::read_link(Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string())).ok()?;
    path.is_absolute().then_some(path)
}

/// A path, from a folder on that has none, without `.`, `..` and links. Nothing in the mount is looked at on the way: the
/// daemon would wait for its own answer.
fn without_links(folder: PathBuf, path: &Path, mountpoint: Option<&Path>) -> Result<PathBuf> {
    let (mut plain, mut left, mut links) = (folder, path.to_owned(), 0);
    loop {
        let mut components = left.components();
        let Some(component) = components.next() else { return Ok(plain) };
        let rest = components.as_path().to_owned();
        plain = match component {
            Component::ParentDir => plain.parent().map_or(plain.clone(), Path::to_owned),
            Component::CurDir => {
                left = rest;
                continue;
            }
            other => plain.join(other),
        };
        if mountpoint.is_some_and(|mountpoint| plain.starts_with(mountpoint)) {
            return Err(Beside::refused("it lies in this mount"));
        }
        left = match std::fs::read_link(&plain) {
            Ok(_) if links == MOST_LINKS => return Err(Errno::LOOP.into()),
            Ok(target) => {
                links += 1;
                plain.pop();
                target.join(rest)
            }
            Err(_) => rest,
        };
    }
}

impl Surroundings for Beside {
    fn open(&self, path: &Path, reach: &Reach) -> Result<Arc<dyn Source>> {
        let path = self.prefix.join(path);
        let (dir, _) = self.source.holder()?;
        let held = self.hold(dir.as_fd(), &path, reach)?;
        if stat_of(&held)?.kind != stat::Kind::File {
            return Err(Self::refused("is not a regular file"));
        }
        // What is held is opened, whatever lies at the path by now.
        let again = Path::new("/proc/self/fd").join(held.as_raw_fd().to_string());
        let file = rustix::fs::open(&again, READ.difference(OFlags::NOFOLLOW), Mode::empty())?;
        let prefix = path.parent().unwrap_or(Path::new("")).to_owned();
        let surroundings = Arc::new(Self { source: self.source.clone(), prefix });
        let label = self.source.label().parent().map_or_else(|| path.clone(), |folder| folder.join(&path));
        Ok(Arc::new(FileSource::from_file(File::from(file), &label)?.with_surroundings(surroundings)))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::host::location::Origin;

    fn beside(dir: &Path, shared: bool) -> Beside {
        Beside::new(Location::new(&Origin::of_source(dir, shared).unwrap(), "source"))
    }

    #[test]
    fn only_files_below_the_folder_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("folder");
        fs::create_dir_all(folder.join("sub")).unwrap();
        for name in ["source", "other", "sub/deep", "../outside"] {
            fs::write(folder.join(name), name).unwrap();
        }
        symlink("sub/deep", folder.join("inside")).unwrap();
        symlink("../outside", folder.join("leads out")).unwrap();
        symlink(dir.path().join("outside"), folder.join("absolute")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, folder.join("fifo"), rustix::fs::FileType::Fifo, Mode::RUSR, 0)
            .unwrap();
        let beside = beside(&folder, false);
        let open = |path: &str, reach: &Reach| beside.open(Path::new(path), reach);
        for path in ["other", "sub/deep", "sub/../other", "inside", folder.join("other").to_str().unwrap()] {
            assert!(open(path, &Reach::Below).is_ok(), "{path}");
        }
        let anywhere = Reach::Anywhere { mountpoint: None };
        let outside = dir.path().join("outside");
        for path in ["../outside", "leads out", "absolute", outside.to_str().unwrap(), "sub/../../outside"] {
            let why = open(path, &Reach::Below).unwrap_err();
            assert!(why.message().contains("-o external=anywhere"), "{path}: {why}");
            assert!(open(path, &anywhere).is_ok(), "{path}");
        }
        for path in ["none", "sub", "fifo", "/proc/self/fd/0", ""] {
            assert!(open(path, &Reach::Below).is_err(), "{path}");
        }
        fs::create_dir(dir.path().join("mount")).unwrap();
        fs::write(dir.path().join("mount/file"), "file").unwrap();
        symlink("../mount/file", folder.join("into")).unwrap();
        symlink("..", folder.join("up")).unwrap();
        symlink("round", dir.path().join("round")).unwrap();
        let covered = Reach::Anywhere { mountpoint: Some(dir.path().join("mount").canonicalize().unwrap()) };
        for path in ["../mount/file", "into", "up/mount/file", "up/folder/up/folder/into"] {
            assert!(open(path, &anywhere).is_ok(), "{path}");
            assert!(open(path, &covered).unwrap_err().message().contains("this mount"), "{path}");
        }
        assert!(open("up/outside", &covered).is_ok() && open("../round", &anywhere).is_err());
        // A mount over the folder itself.
        let covered = Reach::Anywhere { mountpoint: Some(folder.canonicalize().unwrap()) };
        assert!(open("./../outside", &covered).is_ok() && open("../folder/other", &covered).is_err());
        // What the other file names begins at its own folder.
        let deep = open("sub/deep", &Reach::Below).unwrap();
        assert!(deep.surroundings().unwrap().open(Path::new("../other"), &Reach::Below).is_ok());
    }

    #[test]
    fn with_other_users_only_what_all_may_read_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        let mode = |name: &str, mode| {
            fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        for name in ["source", "other", "sub/deep"] {
            fs::write(dir.path().join(name), name).unwrap();
            mode(name, 0o644);
        }
        mode("sub", 0o755);
        symlink("other", dir.path().join("link")).unwrap();
        let beside = beside(dir.path(), true);
        let may = |path: &str| beside.open(Path::new(path), &Reach::Anywhere { mountpoint: None }).is_ok();
        assert!(may("other") && may("sub/deep"));
        assert!(!may("link") && !may("/etc/passwd") && !may("../x"));
        mode("other", 0o600);
        mode("sub", 0o700);
        assert!(!may("other") && !may("sub/deep"));
        mode("source", 0o600);
        assert!(may("other") && !may("sub/deep"));
    }
}
