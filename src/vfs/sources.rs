//! The sources of a mount: their locations, and the root above them.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, SystemTime};

use asdf_access::local::detect::{Detected, EntryForm, EntryPosition, FormatDetector};
use asdf_access::local::location::Location;
use asdf_access::local::mounts::Stalling;
use asdf_access::local::path::link::Mountpoint;
use asdf_access::local::stat::{FileKind, Stat};
use asdf_access::named::Named;
use asdf_file::container::{Container, Severity};
use asdf_file::edit::recovery::RecoveryPolicy;
use asdf_tree::product::FileSummary;
use asdf_views::info::{self, InfoForm};
use lru::LruCache;
use seekable::error::{self, Error, Result, in_shell};

use crate::mounted::generation::HeldGeneration;
use crate::mounted::open_files::OpenFiles;
use crate::mounted::serials::Serials;
use crate::overlay::SharedByOverlays;
use crate::overlay::file::{MAX_FILES, Quota};
use crate::overlay::state_dir::{StateDir, leftovers, stem_of};
use crate::vfs::entry::{Class, Entry};
use crate::vfs::kernel_cache::KernelCache;
use crate::vfs::node::{Inode, KnownNodes};
use crate::vfs::{Options, Vfs};

/// Maximum time that the start of a mount waits for the search for damage. The blocks of a large file may
/// take longer to find.
const LOOKED_FOR_DAMAGE: Duration = Duration::from_millis(50);
/// Maximum number of files kept open without a handle that reads them.
const KEPT_OPEN: u64 = 64;

/// Maximum number of attempts to open sources that other programs replace meanwhile.
const ATTEMPTS: usize = 100;
/// Pause between two attempts.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(10);

/// A source with its position, and its type and attributes as detected.
struct FoundSource<'a> {
    named: &'a Named,
    position: EntryPosition,
    seen: Detected,
}

impl Vfs {
    /// Creates the nodes of `sources` before the mount, because the mount may cover them.
    ///
    /// A single file is parsed here, so that a file that can't be shown is refused at once. Several sources
    /// are only examined by their first bytes. Errors name the source.
    pub fn new(sources: &[Named], options: &Options) -> Result<Self> {
        let mut attempts = 1;
        loop {
            match Self::new_now(sources, options) {
                // Another program replaced a file between two steps.
                Err(error) if error.errno() == libc::ESTALE && attempts < ATTEMPTS => {
                    attempts += 1;
                    std::thread::sleep(BETWEEN_ATTEMPTS);
                }
                Err(error) if error.errno() == libc::ESTALE => {
                    return Err(
                        error.advise("another program replaces the file again and again; try again later")
                    );
                }
                created => return created,
            }
        }
    }

    fn new_now(sources: &[Named], options: &Options) -> Result<Self> {
        let recovery = if options.edits.is_some() { RecoveryPolicy::Recover } else { RecoveryPolicy::Report };
        let detector = FormatDetector::new(options.recognise, recovery);
        let kernel_cache = KernelCache::default();
        let kernel = kernel_cache.clone();
        let on_wrong = Box::new(move |serial, n| kernel.forget_block(serial, n));
        let open_files = OpenFiles::new(options.opener.clone(), kept_open(), recovery)
            .verifying(options.verify, on_wrong)
            .showing(options.views.clone())
            .with_history(options.history.clone());
        let open_files = Arc::new(open_files);
        let found = find(sources, &detector, options)?;
        let sealed: Vec<String> = found
            .iter()
            .filter(|found| found.is_sealed())
            .map(|found| found.named.label().display().to_string())
            .collect();
        let all_sealed = sealed.len() == found.len();
        let all_files = found.iter().all(|found| found.seen.stat.kind == FileKind::File);
        let stems =
            all_files.then(|| sources.iter().map(|source| stem_of(source.label())).collect::<Vec<_>>());
        let serials = Arc::new(Serials::new());
        let root = Arc::new(root_of(found)?);
        if let Class::MountedFile(overlay) = &root.class {
            overlay.current.mounted(&root.position.location, &serials, &open_files)?.opened()?.container()?;
        }
        let (shared, error) = shared(options, &serials, &open_files);
        let mut vfs = Self {
            root,
            ownership: options.ownership,
            known: KnownNodes::default(),
            serials,
            detector,
            open_files,
            kernel_cache,
            read_sizes: Arc::default(),
            shared,
            is_sealed: AtomicBool::new(false),
            remounts: Mutex::default(),
            is_gone: AtomicBool::new(false),
            began: SystemTime::now(),
            give_back: options.give_back,
            unwritable: None,
            unchangeable: None,
            notices: Vec::new(),
            written: Mutex::new(LruCache::unbounded()),
        };
        vfs.restrict(&sealed, all_sealed)?;
        let writes = vfs.shared.is_some();
        // A read-only mount does not need the state directory.
        vfs.notices.extend(error.filter(|_| writes));
        vfs.notices.extend(leftovers::reports(stems.as_deref(), writes));
        // The kernel never looks the root up, and never forgets it.
        vfs.known.remember(Inode::Entry(vfs.root.clone()));
        Ok(vfs)
    }

    /// From now on, the first bytes of each file on a server decide how it is shown, instead of its name.
    pub(crate) fn read_all_files(&self) {
        self.detector.read_all();
    }

    fn container(&self) -> Result<Arc<dyn Container>> {
        Ok(self.mounted(&self.root)?.opened()?.container()?.clone())
    }

    /// Returns what `--info` says of the only file.
    ///
    /// # Errors
    /// A directory is shown, or the file can't be read.
    pub(crate) fn info(&self, form: InfoForm) -> Result<String> {
        let mut text = Vec::new();
        info::write(&*self.container()?, "", form, &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Returns the facts of a picture of the only file: of the one at a path of `preview/`, or of `preview.png`.
    ///
    /// # Errors
    /// A directory is shown, or the file can't be read.
    pub(crate) fn summary_of_picture(&self, path: Option<&[String]>) -> Result<FileSummary> {
        info::summary_of_picture(&*self.container()?, path)
    }

    /// True if the headers or the tree of the only file tell damage.
    ///
    /// # Errors
    /// A directory is shown, or the file can't be read.
    pub(crate) fn is_damaged(&self) -> Result<bool> {
        Ok(!info::damage(&*self.container()?)?.is_empty())
    }

    /// Returns a line about the damage of a mounted local file. Elsewhere, the search takes requests, for which
    /// programs would have to wait.
    pub(super) fn damage(&self) -> Option<String> {
        if matches!(self.root.position.location, Location::Elsewhere(_)) {
            return None;
        }
        let held = self.mounted(&self.root).ok()?.opened().ok()?;
        damage_of(&self.root.position.location.label(), held)
    }

    /// Locks a single file, or records which sources can't be written.
    pub(super) fn restrict(&mut self, sealed: &[String], all_sealed: bool) -> Result<()> {
        match self.root.class {
            Class::MountedFile(_) => self.lock_single()?,
            _ if self.shared.is_none() || sealed.is_empty() => {}
            _ => {
                self.unwritable = Some(format!("{}: can't be written", sealed.join(", ")).into());
                if all_sealed {
                    self.shared = None;
                }
            }
        }
        Ok(())
    }
}

/// Returns a line about the damage of a file, as far as its structure shows it within [`LOOKED_FOR_DAMAGE`].
fn damage_of(label: &Path, held: HeldGeneration) -> Option<String> {
    let (found, damage) = mpsc::channel();
    let search = move || {
        let Ok(container) = held.container() else { return };
        // The count of the blocks needs a search for all of them. `defects` then includes their damage.
        let error = container.block_count().err().map(|error| error.message());
        let defects = container.defects().into_iter().filter(|defect| defect.severity == Severity::Damage);
        let all: Vec<String> = defects.map(|defect| defect.what).chain(error).collect();
        let _ = found.send(all);
    };
    std::thread::Builder::new().name("damage".to_owned()).spawn(search).ok()?;
    let all = damage.recv_timeout(LOOKED_FOR_DAMAGE).ok()?;
    let first = all.first()?;
    let more = all.len() - 1;
    let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
    let command = format!("asdf-mount --check {}", in_shell(label));
    Some(format!("{}: damaged: {first}{more}; this lists all damage: {command}", label.display()))
}

/// Examines the sources; each has to be a directory or a file of a known format.
fn find<'a>(
    sources: &'a [Named],
    detector: &FormatDetector,
    options: &Options,
) -> Result<Vec<FoundSource<'a>>> {
    let mountpoint = options.mountpoint.as_deref().map(Mountpoint::find).transpose()?.flatten();
    let mountpoint = mountpoint.map(Arc::new);
    let find = |named: &'a Named| -> Result<FoundSource<'a>> {
        let (path, position) = match named {
            Named::Local(path) => (&**path, position(path, &mountpoint, options)?),
            Named::Elsewhere(place) => (place.label(), EntryPosition::elsewhere(place.clone())),
        };
        let seen = detector.detect_at(&position)?;
        // A program that looks into a mount learns only the errno.
        let is_mount = options.mountpoint.is_some();
        if let Named::Elsewhere(place) = named
            && let EntryForm::Directory = &seen.form
            && is_mount
        {
            place.check_listing().map_err(|error| error.of(path))?;
        }
        match seen.kind() {
            FileKind::Directory => Ok(FoundSource { named, position, seen }),
            FileKind::File => {
                // Returns the reason in the words of the format.
                let refused = (options.opener)(position.location.open()?).err();
                let unknown = || Error::new(error::Kind::Unrecognised, "has an unknown format");
                Err(refused.unwrap_or_else(unknown).of(path))
            }
            _ => Err(Error::new(error::Kind::Usage, "is neither a file nor a directory").of(path)),
        }
    };
    sources.iter().map(find).collect()
}

/// Returns the root: the only source, or the directory above several.
fn root_of(mut found: Vec<FoundSource<'_>>) -> Result<Entry> {
    match found.len() {
        0 => Err(Error::new(error::Kind::Usage, "nothing to mount: name a file or directory")),
        1 => Ok(Entry::of(found.remove(0).seen, 0, None, OsStr::new(""))),
        _ => side_by_side(found),
    }
}

/// Returns the state shared by the overlays of a writable mount, and the problem with the
/// state directory, if any.
fn shared(
    options: &Options,
    serials: &Arc<Serials>,
    open_files: &Arc<OpenFiles>,
) -> (Option<Arc<SharedByOverlays>>, Option<String>) {
    let Some(edits) = options.edits.clone() else { return (None, None) };
    let (state_dir, error) = match StateDir::open(options.mountpoint.as_deref()) {
        Ok(state_dir) => (Some(Arc::new(state_dir)), None),
        Err(error) => {
            let lost = "files made beside tree.yaml, refused texts and replaced texts are not kept when the \
                        mount ends";
            (None, Some(format!("{error}: {lost}")))
        }
    };
    let quota = Arc::new(Quota::new(most_scratch_files()));
    let serials = serials.clone();
    let open_files = open_files.clone();
    (Some(Arc::new(SharedByOverlays { state_dir, quota, edits, serials, open_files })), error)
}

impl Vfs {
    /// Locks a single source. If it can't be written, the mount becomes read-only.
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
            None => match (&root.class, &self.shared) {
                (Class::MountedFile(overlay), Some(shared)) => {
                    match overlay.unchangeable(&root.position, shared)? {
                        Some(why) => {
                            (self.shared, self.unchangeable) = (None, Some(why.into()));
                            return Ok(());
                        }
                        None => format!("{}: can't be written", label.display()),
                    }
                }
                _ => return Ok(()),
            },
        };
        if self.shared.take().is_some() {
            self.unwritable = Some(why.into());
        }
        Ok(())
    }
}

impl FoundSource<'_> {
    /// True if nothing in the source can be written. For a file its permissions decide; for a directory only
    /// the file system, because permissions are checked for each file.
    fn is_sealed(&self) -> bool {
        use rustix::fs::StatVfsMountFlags;
        let location = &self.position.location;
        if self.seen.stat.kind == FileKind::Directory {
            return location.file_system().is_ok_and(|stat| stat.f_flag.contains(StatVfsMountFlags::RDONLY));
        }
        location.may_write().is_ok_and(|may| !may)
    }
}

/// Returns the position of a local source.
fn position(source: &Path, mountpoint: &Option<Arc<Mountpoint>>, options: &Options) -> Result<EntryPosition> {
    let meta = source.metadata().map_err(|error| Error::from(error).of(source))?;
    let location = Location::of_path(source, mountpoint.clone(), options.allow_other)?;
    let stalling = Stalling::of_device(meta.dev()).or(location.is_followed().then_some(Stalling::LINKED));
    Ok(EntryPosition { location, stalling })
}

/// Returns the root above several sources.
fn side_by_side(found: Vec<FoundSource<'_>>) -> Result<Entry> {
    let mut sources: Vec<(OsString, EntryPosition)> = Vec::new();
    let first = found.first().map(|found| (found.position.clone(), found.seen.stat));
    let (first_position, stat) = first.ok_or_else(|| Error::new(error::Kind::Usage, "nothing to mount"))?;
    for FoundSource { named, position, .. } in found {
        let path = named.label();
        let name = named.name()?.ok_or_else(|| {
            Error::new(
                error::Kind::Usage,
                "has no name for a mount of several sources: mount it \
                                            alone",
            )
            .of(path)
        })?;
        if sources.iter().any(|(known, _)| *known == name) {
            let message = format!("another source has the same name, {name:?}: mount them separately");
            return Err(Error::new(error::Kind::Usage, message).of(path));
        }
        sources.push((name, position));
    }
    // The directory belongs to the daemon's user; all users may list it. Its times are
    // those of the first source.
    let stat = Stat {
        kind: FileKind::Directory,
        mode: 0o755,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        ..stat
    };
    let class = Class::Sources { sources, stat: Box::new(stat), children: Box::default() };
    Ok(Entry { serial: 0, parent: None, name: OsString::new(), position: first_position, class })
}

/// Returns the maximum number of files kept open without a reader.
fn kept_open() -> NonZeroUsize {
    let bound = KEPT_OPEN.min(open_files() / 8);
    usize::try_from(bound).ok().and_then(NonZeroUsize::new).unwrap_or(NonZeroUsize::MIN)
}

/// Returns the maximum number of scratch files. Each has an open descriptor, and may
/// need one for a directory.
fn most_scratch_files() -> u64 {
    MAX_FILES.min(open_files() / 4)
}

/// Returns the limit of open files of this process.
fn open_files() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}
