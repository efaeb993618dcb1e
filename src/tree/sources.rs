//! The sources of a mount: where they lie, and the root that stands for them.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use lru::LruCache;

use super::attr::{Kind, Stat};
use super::desk::Room;
use super::haven::{Haven, left, stem_of};
use super::link::{Mountpoint, Surroundings};
use super::mirror::{Class, Entry, Place, Scout, Seen};
use super::node::{Known, Node, Serials};
use super::saver::Settler;
use super::sheet::{Budget, MOST_SHEETS};
use super::shelf::Shelf;
use super::spot::{Origin, Spot, may_write};
use super::{Options, Tree};
use crate::error::{self, Error, Result};

/// At most so many files are kept open that no handle reads.
const KEPT_OPEN: u64 = 64;

impl Tree {
    /// Makes the tree of `sources`, before it is mounted: what a mount covers must be opened first.
    ///
    /// A single file is parsed here, so that a file that can't be shown is refused at once; several
    /// are only looked at. An error names the source.
    pub fn new(sources: &[PathBuf], options: &Options) -> Result<Self> {
        let mountpoint = options.mountpoint.as_deref().map(Mountpoint::find).transpose()?.flatten();
        let mountpoint = mountpoint.map(Arc::new);
        let settler = match &options.savers {
            Some(savers) => Settler::Savers(savers.clone()),
            None => Settler::Reader(options.mountpoint.clone()),
        };
        let scout = Scout::new(options.recognise, settler.clone());
        let shelf = Arc::new(Shelf::new(options.opener.clone(), kept_open(), settler, options.verify));
        let mut found = Vec::new();
        for source in sources {
            let place = place(source, &mountpoint, options)?;
            let seen = scout.look_at(place.clone())?;
            if seen.kind() == Kind::File {
                // Says why, in the words of the format.
                let refused = (options.opener)(Arc::new(place.spot.open_file()?)).err();
                let unknown = || Error::new(error::Kind::Unrecognised, "is of no known format");
                let refused = refused.unwrap_or_else(unknown);
                return Err(refused.of(source));
            } else if seen.kind() != Kind::Directory {
                return Err(Error::new(error::Kind::Usage, "is neither a file nor a directory").of(source));
            }
            found.push((source, place, seen));
        }
        let sealed: Vec<String> = found
            .iter()
            .filter(|(_, place, seen)| is_sealed(place, seen.stat.kind))
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
                Arc::new(seen.entry(0, None, OsStr::new("")))
            }
            _ => Arc::new(side_by_side(found)?),
        };
        if let Class::Folder(folder) = &root.class {
            folder.volume(&root.place, &serials, &shelf)?.opened()?.container()?;
        }
        let mut trouble = None;
        let room = options.savers.clone().map(|savers| {
            let haven = Haven::open().inspect_err(|error| {
                trouble = Some(format!(
                    "{error}: files made beside tree.yaml and refused texts are not kept when the mount ends"
                ));
            });
            Arc::new(Room {
                haven: haven.ok().map(Arc::new),
                budget: Arc::new(Budget::new(most_sheets())),
                savers,
                serials: serials.clone(),
                shelf: shelf.clone(),
                ownership: options.ownership,
            })
        });
        let mut tree = Self {
            root,
            ownership: options.ownership,
            known: Known::default(),
            serials,
            scout,
            shelf,
            room,
            give_back: options.give_back,
            unwritable: None,
            notices: Vec::new(),
            written: Mutex::new(LruCache::unbounded()),
        };
        match tree.root.class {
            Class::Folder(_) => tree.lock_single()?,
            _ if tree.room.is_none() || sealed.is_empty() => {}
            _ => {
                tree.unwritable = Some(format!("{}: can't be written", sealed.join(", ")));
                if all_sealed {
                    tree.room = None;
                }
            }
        }
        let writes = tree.room.is_some();
        // In a mount that writes nothing no directory is missed.
        tree.notices.extend(trouble.filter(|_| writes));
        tree.notices.extend(left::told(stems.as_deref(), writes));
        // The kernel never looks the root up, and never forgets it.
        tree.known.remember(Node::Entry(tree.root.clone()));
        Ok(tree)
    }
}

impl Tree {
    /// Takes the lock of a single source; one that can't be written makes the tree read-only.
    fn lock_single(&mut self) -> Result<()> {
        let root = self.root.clone();
        let label = root.place.spot.label();
        let why = match self.desk(&root)? {
            Some(desk) => match desk.keep_saver() {
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
        if self.room.take().is_some() {
            self.unwritable = Some(why);
        }
        Ok(())
    }
}

/// Whether nothing of a source can be written: a file as far as permissions go; of a folder the file
/// system, since who may write what in it is seen for each file.
fn is_sealed(place: &Place, kind: Kind) -> bool {
    use rustix::fs::StatVfsMountFlags;
    if kind == Kind::Directory {
        let stat = rustix::fs::fstatvfs(place.spot.origin().fd());
        return stat.is_ok_and(|stat| stat.f_flag.contains(StatVfsMountFlags::RDONLY));
    }
    place.spot.holder().is_ok_and(|(dir, name)| !may_write(dir.as_fd(), &name))
}

/// Where a source lies: a file by the directory that holds it, so that one put in its place is seen.
fn place(source: &Path, mountpoint: &Option<Arc<Mountpoint>>, options: &Options) -> Result<Place> {
    let meta = source.metadata().map_err(|error| Error::from(error).of(source))?;
    let around = |origin: &Arc<Origin>, path: &Path| {
        Surroundings::new(origin, path, mountpoint.clone(), !options.allow_other)
    };
    if meta.is_dir() {
        let origin = Origin::of_source(source, options.allow_other)?;
        let around = around(&origin, source)?;
        return Ok(Place { spot: Spot::new(&origin, ""), around, depth: 0, followed: false });
    }
    let parent = source.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = source.file_name().ok_or_else(|| Error::new(error::Kind::Usage, "has no name").of(source))?;
    let origin = Origin::of_source(parent, options.allow_other)?;
    let around = around(&origin, parent)?;
    let spot = Spot::new(&origin, name);
    let followed = spot.stat()?.kind == Kind::Link;
    let spot = if followed { spot.followed(&around) } else { spot };
    Ok(Place { spot, around, depth: 0, followed })
}

/// The root above several sources.
fn side_by_side(found: Vec<(&PathBuf, Place, Seen)>) -> Result<Entry> {
    let mut sources: Vec<(OsString, Place)> = Vec::new();
    let first = found.first().map(|(_, place, seen)| (place.clone(), seen.stat));
    let (place, stat) = first.ok_or_else(|| Error::new(error::Kind::Usage, "nothing to mount"))?;
    for (path, place, _) in found {
        let full = path.canonicalize().map_err(|error| Error::from(error).of(path))?;
        let name = path.file_name().or(full.file_name());
        let name = name.ok_or_else(|| {
            Error::new(error::Kind::Usage, "has no name to stand beside others: mount it alone").of(path)
        })?;
        if sources.iter().any(|(known, _)| known == name) {
            let message = format!("another source is called {name:?} too: mount them one by one");
            return Err(Error::new(error::Kind::Usage, message).of(path));
        }
        sources.push((name.to_owned(), place));
    }
    // Of a directory of nobody's, that everybody may look into, with the times of the first source.
    let stat = Stat {
        kind: Kind::Directory,
        mode: 0o555,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        ..stat
    };
    let class = Class::Sources { sources, stat: Box::new(stat), children: Box::default() };
    Ok(Entry { serial: 0, parent: None, name: OsString::new(), place, class })
}

/// How many files may be kept open that nobody reads.
fn kept_open() -> NonZeroUsize {
    let bound = KEPT_OPEN.min(open_files() / 8);
    usize::try_from(bound).ok().and_then(NonZeroUsize::new).unwrap_or(NonZeroUsize::MIN)
}

/// How many scratch files there may be: each is open, and so may be a directory for it.
fn most_sheets() -> u64 {
    MOST_SHEETS.min(open_files() / 4)
}

/// How many files this process may have open.
fn open_files() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}
