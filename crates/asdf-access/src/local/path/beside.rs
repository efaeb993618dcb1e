//! Files to which a source refers. They are searched for in the directory of the source.
//!
//! A file's content is untrusted: it must not make the daemon read files that the reader could not read. The
//! kernel is therefore asked to resolve paths, including links, only below the directory and on its file
//! system. If other users have access (`allow_other`), another file is opened only if everyone who can read
//! the source can read it, too.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use seekable::error::{Error, Kind, Result};
use seekable::source::{FileSource, Reach, Source, Surroundings};
use seekable::workers::while_waiting;

use crate::local::at::{HOLD, READ, open_as, stat_of, step_up};
use crate::local::path::LocalPath;
use crate::local::stat::{FileKind, Stat};
use crate::local::{acl, mounts};

/// Flags to open any file at a path as an `O_PATH` descriptor, which holds it without reading it.
const HOLD_ANY: OFlags = HOLD.difference(OFlags::DIRECTORY).difference(OFlags::NOFOLLOW);
/// Maximum number of links followed, as in the kernel.
const MAX_LINKS: usize = 40;
/// Flags to resolve a path only below a directory, on its file system.
const BELOW: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS).union(ResolveFlags::NO_XDEV);
/// Maximum attempts to resolve a path that other programs change meanwhile.
const TRIES: usize = 8;

/// Access to the other files that a source names by paths relative to itself.
#[derive(Clone, Debug)]
pub(super) struct Beside {
    source: LocalPath,
    /// The source's directory and file, held open if other users have access to the mount: such a user might
    /// replace the file at the source's path.
    held: Option<Arc<(OwnedFd, OwnedFd)>>,
    /// Path from the source's directory to the directory at which paths start.
    prefix: PathBuf,
}

impl Beside {
    pub(super) fn new(source: LocalPath) -> Self {
        Self { source, held: None, prefix: PathBuf::new() }
    }

    /// Creates access to the files beside a source, for a mount with `allow_other`. `dir` and `file` are the
    /// source's open directory and file.
    pub(super) fn shared(source: LocalPath, dir: BorrowedFd<'_>, file: BorrowedFd<'_>) -> Result<Self> {
        let held = Arc::new((dir.try_clone_to_owned()?, file.try_clone_to_owned()?));
        Ok(Self { held: Some(held), ..Self::new(source) })
    }

    fn refused(what: &str) -> Error {
        Error::new(Kind::Unrecognised, what)
    }

    /// Opens the file at a path with [`HOLD_ANY`], below the directory, or anywhere if `reach` allows it.
    fn hold(&self, path: &Path, reach: &Reach) -> Result<OwnedFd> {
        if let Some(held) = &self.held {
            return hold_for_all(held.0.as_fd(), held.1.as_fd(), path);
        }
        let (dir, _) = self.source.holder()?;
        let dir = dir.as_fd();
        match open_at(dir, &below(dir, path), BELOW) {
            Ok(held) => Ok(held),
            Err(Errno::XDEV) => match reach {
                Reach::Below => Err(Self::refused("it is outside the directory of the file")
                    .advise("-o external=anywhere allows that")),
                Reach::Anywhere => hold_anywhere(dir, path),
            },
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Returns the path relative to a directory, if it starts with the directory's own path;
/// otherwise the path itself.
fn below(dir: BorrowedFd<'_>, path: &Path) -> PathBuf {
    let real = real_path(dir);
    real.as_deref().and_then(|real| path.strip_prefix(real).ok()).unwrap_or(path).to_owned()
}

/// Opens the file at a path below `dir` with [`HOLD_ANY`], if everyone who can read `source` can read it. The
/// permissions of each directory are checked while it is held open.
fn hold_for_all(dir: BorrowedFd<'_>, source: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd> {
    let outside = || Beside::refused("it is outside the directory of the file, or behind a link");
    let not_for_all = || Beside::refused("not all users who may read the file may read it (allow_other)");
    let mut walked: Vec<OwnedFd> = Vec::new();
    for name in &below(dir, path) {
        let at = match walked.last() {
            // In a directory below `dir`, a name is looked up only if all users may search the directory.
            Some(at) if !may_all_enter(at.as_fd())? => return Err(not_for_all()),
            Some(at) => at.as_fd(),
            None => dir,
        };
        if name == ".." {
            walked.pop().ok_or_else(outside)?;
            continue;
        }
        match open_at(at, Path::new(name), BELOW | ResolveFlags::NO_SYMLINKS) {
            Ok(held) => walked.push(held),
            Err(Errno::XDEV | Errno::LOOP) => return Err(outside()),
            Err(errno) => return Err(errno.into()),
        }
    }
    let held = walked.pop().ok_or(Errno::NOENT)?;
    if reads_as_much(&acl::stat_of_held(source)?, &acl::stat_of_held(held.as_fd())?) {
        Ok(held)
    } else {
        Err(not_for_all())
    }
}

/// True if all users may search a held directory.
fn may_all_enter(dir: BorrowedFd<'_>) -> Result<bool> {
    Ok(acl::stat_of_held(dir)?.mode & 0o111 == 0o111)
}

/// Opens the file at a path relative to a directory with [`HOLD_ANY`], wherever the path leads. Links are
/// followed here, name by name, because the kernel would follow them into a mount of this program.
fn hold_anywhere(dir: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd> {
    let mut at = dir.try_clone_to_owned()?;
    let mut ahead = Vec::new();
    let mut links = 0;
    let mut text = path.as_os_str().to_owned();
    loop {
        if text.as_bytes().starts_with(b"/") {
            at = rustix::fs::open("/", HOLD, Mode::empty())?;
        }
        let names = text.as_bytes().split(|byte| *byte == b'/').rev();
        let names = names.filter(|name| !name.is_empty() && *name != b".");
        ahead.extend(names.map(|name| OsStr::from_bytes(name).to_owned()));
        loop {
            let Some(name) = ahead.pop() else { return Ok(at) };
            if name == ".." {
                let device = mounts::key_unasked(&at)?.device();
                let (above, key) = step_up(at.as_fd())?;
                if key.device() != device && mounts::is_in_ours(key) {
                    return Err(mounts::refused());
                }
                at = above;
                continue;
            }
            let held = open_as(at.as_fd(), &name, HOLD_ANY | OFlags::NOFOLLOW)?;
            if stat_of(&held)?.kind == FileKind::Link {
                links += 1;
                if links > MAX_LINKS {
                    return Err(Errno::LOOP.into());
                }
                text = OsString::from_vec(rustix::fs::readlinkat(&held, "", Vec::new())?.into_bytes());
                break;
            }
            at = held;
        }
    }
}

/// True if everyone who can read `one` can read `other`.
pub fn reads_as_much(one: &Stat, other: &Stat) -> bool {
    let one_may = one.mode & 0o444;
    let other_may = other.mode & 0o444;
    let same_owners = (one.uid, one.gid) == (other.uid, other.gid);
    other_may == 0o444 || (same_owners && one_may & !other_may == 0)
}

fn open_at(dir: BorrowedFd<'_>, path: &Path, resolve: ResolveFlags) -> std::result::Result<OwnedFd, Errno> {
    for _ in 0..TRIES {
        match rustix::fs::openat2(dir, path, HOLD_ANY, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            // The kernel lacks openat2, or a sandbox forbids it. No other call confines a path to the
            // directory.
            Err(Errno::NOSYS) => return Err(Errno::PERM),
            done => return done,
        }
    }
    Err(Errno::AGAIN)
}

/// Returns the path of a held directory, as the kernel knows it.
fn real_path(dir: BorrowedFd<'_>) -> Option<PathBuf> {
    let path = std::fs::read_link(Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string())).ok()?;
    path.is_absolute().then_some(path)
}

impl Beside {
    fn open_now(&self, path: &Path, reach: &Reach) -> Result<Arc<dyn Source>> {
        let path = self.prefix.join(path);
        let held = self.hold(&path, reach)?;
        if stat_of(&held)?.kind != FileKind::File {
            return Err(Self::refused("is not a regular file"));
        }
        // Opens the held file, whatever is at the path by now.
        let again = Path::new("/proc/self/fd").join(held.as_raw_fd().to_string());
        let file = rustix::fs::open(&again, READ.difference(OFlags::NOFOLLOW), Mode::empty())?;
        let prefix = path.parent().unwrap_or(Path::new("")).to_owned();
        let surroundings = Arc::new(Self { prefix, ..self.clone() });
        let label = self.source.label().parent().map_or_else(|| path.clone(), |dir| dir.join(&path));
        let file = FileSource::from_file(File::from(file), &label)?.counting_writes();
        Ok(Arc::new(file.with_surroundings(surroundings)))
    }
}

impl Surroundings for Beside {
    fn open(&self, path: &Path, reach: &Reach) -> Result<Arc<dyn Source>> {
        // The file may be on a server that does not answer.
        while_waiting(|| self.open_now(path, reach))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::local::path::OpenedDirectory;
    use crate::local::path::link::LinkPolicy;

    fn beside(dir: &Path, shared: bool) -> Arc<dyn Surroundings> {
        let origin = OpenedDirectory::of_source(dir, shared).unwrap();
        let links = LinkPolicy::new(&origin, dir, None, !shared).unwrap();
        LocalPath::new(&links, "source").open().unwrap().surroundings().unwrap().clone()
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
        let anywhere = Reach::Anywhere;
        let outside = dir.path().join("outside");
        for path in ["../outside", "leads out", "absolute", outside.to_str().unwrap(), "sub/../../outside"] {
            let why = open(path, &Reach::Below).unwrap_err();
            assert!(why.message().contains("-o external=anywhere"), "{path}: {why}");
            assert!(open(path, &anywhere).is_ok(), "{path}");
        }
        for path in ["none", "sub", "fifo", "/proc/self/fd/0", ""] {
            assert!(open(path, &Reach::Below).is_err(), "{path}");
        }
        symlink("..", folder.join("up")).unwrap();
        symlink("round", dir.path().join("round")).unwrap();
        assert!(open("up/folder/./up/outside", &anywhere).is_ok() && open("../round", &anywhere).is_err());
        // The other file's references start in its own directory.
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
        let may = |path: &str| beside.open(Path::new(path), &Reach::Anywhere).is_ok();
        assert!(may("other") && may("sub/deep"));
        assert!(!may("link") && !may("/etc/passwd") && !may("../x"));
        mode("other", 0o600);
        mode("sub", 0o700);
        assert!(!may("other") && !may("sub/deep"));
        mode("source", 0o600);
        assert!(may("other") && !may("sub/deep"));
    }

    #[test]
    fn another_user_who_exchanges_folders_or_files_gets_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let put = |name: &str, mode| {
            fs::write(path(name), name).unwrap();
            fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        for (name, mode) in [("own", 0o755), ("own/sub", 0o755), ("private", 0o700), ("private/sub", 0o755)] {
            fs::create_dir(path(name)).unwrap();
            fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        for name in ["own/source", "private/source", "own/sub/x", "private/sub/x", "private/x"] {
            put(name, 0o644);
        }
        put("own/secret", 0o600);
        put("own/decoy", 0o600);
        let exchange = |one: &str, other: &str| {
            let flags = rustix::fs::RenameFlags::EXCHANGE;
            rustix::fs::renameat_with(rustix::fs::CWD, path(one), rustix::fs::CWD, path(other), flags)
                .unwrap();
        };
        let below = beside(&path("own"), true);
        let origin = OpenedDirectory::of_source(dir.path(), true).unwrap();
        let own = origin.stat_in(origin.fd(), OsStr::new("own")).unwrap();
        let links = LinkPolicy::new(&origin, dir.path(), None, false).unwrap();
        let top = LocalPath::new(&links, "own").found(origin.fd(), &own).unwrap();
        let in_own = top.join(OsStr::new("source"));
        let (own, _) = in_own.holder().unwrap();
        let stat = acl::stat_in(own.as_fd(), OsStr::new("source")).unwrap();
        let source = in_own.clone().found(own.as_fd(), &stat).unwrap();
        let beside = source.open().unwrap().surroundings().unwrap().clone();
        exchange("own", "private");
        let read = |path: &str| {
            let mut bytes = [0; 64];
            let other = beside.open(Path::new(path), &Reach::Anywhere)?;
            let read = other.read_at(0, &mut bytes)?;
            Ok::<_, Error>(String::from_utf8_lossy(&bytes[..read]).into_owned())
        };
        assert_eq!(read("sub/x").unwrap(), "own/sub/x");
        assert!(read("x").is_err(), "a file of the private folder");
        for refused in [source.stat().err(), source.open().err(), source.list().err(), top.list().err()] {
            assert_eq!(refused.unwrap().errno(), libc::ESTALE);
        }
        assert!(top.open_dir().is_err() && source.save_target().is_err());
        exchange("own", "private");
        // The source's permissions are those of the file that was opened.
        exchange("own/source", "own/decoy");
        assert!(read("secret").is_err());
        assert_eq!(source.stat().unwrap_err().errno(), libc::ESTALE, "the decoy has other rights");
        assert!(below.open(Path::new("secret"), &Reach::Below).is_err());
    }
}
