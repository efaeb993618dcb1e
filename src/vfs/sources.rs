//! The sources of a mount: where they lie, and the root that stands for them.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use lru::LruCache;

use crate::error::{self, Error, Result};
use crate::folder::open_files::OpenFiles;
use crate::folder::serials::Serials;
use crate::format::recovery::RecoveryPolicy;
use crate::host::at::may_write;
use crate::host::detect::{FormatDetector, Position, Seen};
use crate::host::location::link::{LinkPolicy, Mountpoint};
use crate::host::location::{Location, Origin};
use crate::host::stat::{Kind, Stat};
use crate::overlay::Shared;
use crate::overlay::file::{MOST_FILES, Quota};
use crate::overlay::state_dir::{StateDir, left, stem_of};
use crate::vfs::entry::{Class, Entry};
use crate::vfs::kernel_cache::KernelCache;
use crate::vfs::node::{KnownNodes, Node};
use crate::vfs::{Options, Vfs};

/// At most so many files are kept open that no handle reads.
const KEPT_OPEN: u64 = 64;

impl Vfs {
    /// Makes the tree of `sources`, before it is mounted: what a mount covers must be opened first.
    ///
    /// A single file is parsed here, so that a file that can't be shown is refused at once; several
    /// are only looked at. An error names the source.
    pub fn new(sources: &[PathBuf], options: &Options) -> Result<Self> {
        let mountpoint = options.mountpoint.as_deref().map(Mountpoint::find).transpose()?.flatten();
        let mountpoint = mountpoint.map(Arc::new);
        let recovery = match &options.edits {
            Some(edits) => RecoveryPolicy::Recover(edits.clone()),
            None => RecoveryPolicy::Report(options.mountpoint.clone()),
        };
        let detector = FormatDetector::new(options.recognise, recovery.clone());
        let kernel_cache = KernelCache::default();
        let kernel = kernel_cache.clone();
        let on_wrong = Box::new(move |serial, n| kernel.forget_block(serial, n));
        let open_files =
            OpenFiles::new(options.opener.clone(), kept_open(), recovery, options.verify, on_wrong);
        let open_files = Arc::new(open_files);
        let mut found = Vec::new();
        for source in sources {
            let position = position(source, &mountpoint, options)?;
            let seen = detector.look_at(position.clone())?;
            if seen.kind() == Kind::File {
                // Says why, in the words of the format.
                let refused = (options.opener)(Arc::new(position.location.open_file()?)).err();
                let unknown = || Error::new(error::Kind::Unrecognised, "is of no known format");
                let refused = refused.unwrap_or_else(unknown);
                return Err(refused.of(source));
            } else if seen.kind() != Kind::Directory {
                return Err(Error::new(error::Kind::Usage, "is neither a file nor a directory").of(source));
            }
            found.push((source, position, seen));
        }
        let sealed: Vec<String> = found
            .iter()
            .filter(|(_, position, seen)| is_sealed(position, seen.stat.kind))
            .map(|(path, ..)| path.display().to_string())
            .collect();
        let all_sealed = sealed.len() == found.len();
        let all_files = found.iter().all(|(_, _, seen)| seen.stat.kind == Kind::File);
        let stems = all_files.then(|| sources.iter().map(|source| stem_of(source)).collect::<Vec<_>>());
        let serials = Arc::new(Serials::new());
        let root = match found.len() {
            0 => return Err(Error::new(error::Kind::Usage, "nothing to mount: name a file or directory")),
            1 => {
                let (_, _, seen) = found.remove(0);
                Arc::new(Entry::of(seen, 0, None, OsStr::new("")))
            }
            _ => Arc::new(side_by_side(found)?),
        };
        if let Class::Folder(folder) = &root.class {
            folder.mounted(&root.position, &serials, &open_files)?.opened()?.container()?;
        }
        let mut trouble = None;
        let shared = options.edits.clone().map(|edits| {
            let state_dir = StateDir::open().inspect_err(|error| {
                trouble = Some(format!(
                    "{error}: files made beside tree.yaml and refused texts are not kept when the mount ends"
                ));
            });
            Arc::new(Shared {
                state_dir: state_dir.ok().map(Arc::new),
                quota: Arc::new(Quota::new(most_scratch_files())),
                edits,
                serials: serials.clone(),
                open_files: open_files.clone(),
            })
        });
        let mut tree = Self {
            root,
            ownership: options.ownership,
            known: KnownNodes::default(),
            serials,
            detector,
            open_files,
            kernel_cache,
            shared,
            give_back: options.give_back,
            unwritable: None,
            notices: Vec::new(),
            written: Mutex::new(LruCache::unbounded()),
        };
        match tree.root.class {
            Class::Folder(_) => tree.lock_single()?,
            _ if tree.shared.is_none() || sealed.is_empty() => {}
            _ => {
                tree.unwritable = Some(format!("{}: can't be written", sealed.join(", ")).into());
                if all_sealed {
                    tree.shared = None;
                }
            }
        }
        let writes = tree.shared.is_some();
        // In a mount that writes nothing no directory is missed.
        tree.notices.extend(trouble.filter(|_| writes));
        tree.notices.extend(left::told(stems.as_deref(), writes));
        // The kernel never looks the root up, and never forgets it.
        tree.known.remember(Node::Entry(tree.root.clone()));
        Ok(tree)
    }
}

impl Vfs {
    /// Takes the lock of a single source; one that can't be written makes the tree read-only.
    fn lock_single(&mut self) -> Result<()> {
        let root = self.root.clone();
        let label = root.position.location.label();
        let why = match self.overlay(&root)? {
            Some(overlay) => match overlay.keep_editor() {
                Ok(()) => {
                    self.keep_written(&root);
                    return Ok(());
                }
                Err(error) => match error.errno() {
                    libc::EROFS | libc::EACCES | libc::EPERM => error.to_string(),
                    libc::EBUSY => return Err(error.advise("add -r to mount it read-only")),
                    _ => return Err(error),
                },
            },
            None => format!("{}: can't be written", label.display()),
        };
        if self.shared.take().is_some() {
            self.unwritable = Some(why.into());
        }
        Ok(())
    }
}

/// Whether nothing of a source can be written: a file as far as permissions go; of a folder the file
/// system, since who may write what in it is seen for each file.
fn is_sealed(position: &Position, kind: Kind) -> bool {
    use rustix::fs::StatVfsMountFlags;
    if kind == Kind::Directory {
        let stat = rustix::fs::fstatvfs(position.location.origin().fd());
        return stat.is_ok_and(|stat| stat.f_flag.contains(StatVfsMountFlags::RDONLY));
    }
    position.location.holder().is_ok_and(|(dir, name)| !may_write(dir.as_fd(), &name))
}

/// Where a source lies: a file by the directory that holds it, so that one put in its place is seen.
fn position(source: &Path, mountpoint: &Option<Arc<Mountpoint>>, options: &Options) -> Result<Position> {
    let meta = source.metadata().map_err(|error| Error::from(error).of(source))?;
    let links = |origin: &Arc<Origin>, path: &Path| {
        LinkPolicy::new(origin, path, mountpoint.clone(), !options.allow_other)
    };
    if meta.is_dir() {
        let origin = Origin::of_source(source, options.allow_other)?;
        let links = links(&origin, source)?;
        return Ok(Position { location: Location::new(&origin, ""), links, depth: 0, followed: false });
    }
    let parent = source.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = source.file_name().ok_or_else(|| Error::new(error::Kind::Usage, "has no name").of(source))?;
    let origin = Origin::of_source(parent, options.allow_other)?;
    let links = links(&origin, parent)?;
    let location = Location::new(&origin, name);
    let followed = location.stat()?.kind == Kind::Link;
    let location = if followed { location.followed(&links) } else { location };
    Ok(Position { location, links, depth: 0, followed })
}

/// The root above several sources.
fn side_by_side(found: Vec<(&PathBuf, Position, Seen)>) -> Result<Entry> {
    let mut sources: Vec<(OsString, Position)> = Vec::new();
    let first = found.first().map(|(_, position, seen)| (position.clone(), seen.stat));
    let (position, stat) = first.ok_or_else(|| Error::new(error::Kind::Usage, "nothing to mount"))?;
    for (path, position, _) in found {
        let full = path.canonicalize().map_err(|error| Error::from(error).of(path))?;
        let name = path.file_name().or(full.file_name());
        let name = name.ok_or_else(|| {
            Error::new(error::Kind::Usage, "has no name to stand beside others: mount it alone").of(path)
        })?;
        if sources.iter().any(|(known, _)| known == name) {
            let message = format!("another source is called {name:?} too: mount them one by one");
            return Err(Error::new(error::Kind::Usage, message).of(path));
        }
        sources.push((name.to_owned(), position));
    }
    // A directory that belongs to the daemon, that every user may list, with the times of the first source.
    let stat = Stat {
        kind: Kind::Directory,
        mode: 0o555,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        ..stat
    };
    let class = Class::Sources { sources, stat: Box::new(stat), children: Box::default() };
    Ok(Entry { serial: 0, parent: None, name: OsString::new(), position, class })
}

/// How many files may be kept open that no handle reads.
fn kept_open() -> NonZeroUsize {
    let bound = KEPT_OPEN.min(open_files() / 8);
    usize::try_from(bound).ok().and_then(NonZeroUsize::new).unwrap_or(NonZeroUsize::MIN)
}

/// How many scratch files there may be: each is open, and so may be a directory for it.
fn most_scratch_files() -> u64 {
    MOST_FILES.min(open_files() / 4)
}

/// How many files this process may have open.
fn open_files() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}
