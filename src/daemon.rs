//! The life of a mount, from start to end.
//!
//! ```text
//! caller's process                     daemon (the same process with --foreground)
//! ----------------                     ------
//! checks arguments and sources
//! prepares the mountpoint
//! forks ------------------------------> forks the process that mounts and unmounts (`mounter.rs`)
//! waits                                 gives up its privileges
//!                                       waits for signals on a thread
//!                                       opens the sources
//!                                       has it mounted, answers the kernel's INIT request
//! probes the mount <------------------- starts its threads
//! returns 0 --------------------------> is ready
//!                                       serves until unmounted or signalled
//!                                       finishes saves, keeps unsaved texts
//!                                       removes the mountpoint if it created it
//! ```
//!
//! In the foreground, a child process probes the mount if systemd waits for it (`Type=notify`).
//!
//! A failure before *ready* undoes all steps, and its message goes to the caller's stderr.

mod background;
mod confine;
mod contents;
mod detach;
mod facts;
mod file_mount;
mod fusermount;
mod given;
mod held;
mod idle;
mod list;
mod memory;
mod mount;
mod mounter;
mod mountinfo;
mod mountpoint;
mod remount;
mod rights;
mod service_manager;
mod serving;
mod signals;
mod threads;
mod unmount;

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use asdf_access::library::options::cache_budget;
use asdf_access::named;
use asdf_access::options::{FUSE_SUPER_MAGIC, Options};
use fuser::{Config, Session, SessionACL};
use seekable::error::{Error, Kind, Result};
use seekable::source::wait_for_lease;

use self::held::HeldEntry;
use self::mounter::Mounter;
use self::mountpoint::Mountpoint;
use self::signals::Lifecycle;
use crate::fuse::KernelNotifier;
use crate::log;

pub(crate) use self::contents::reading;
pub(crate) use self::facts::facts;
pub(crate) use self::file_mount::FileMount;
pub(crate) use self::list::{ListedMount, list};
pub(crate) use self::remount::remount;
pub(crate) use self::unmount::unmount;

/// Returns the mounts with the type of this program's mounts: mountpoints and sources. Any user can choose these
/// texts.
///
/// # Errors
/// `/proc/self/mountinfo` can't be read.
pub(crate) fn mounted() -> Result<Vec<(PathBuf, OsString)>> {
    let mounts = mountinfo::all()?.into_iter().filter(mountinfo::Mount::has_our_type);
    Ok(mounts.map(|mount| (mount.mountpoint, mount.source)).collect())
}

/// The plan of a mount.
#[derive(Clone, Debug)]
pub(crate) struct MountPlan {
    /// The files or directories to show, at least one, as [`Named::of`](named::Named::of) parses them;
    /// [`mount()`] makes local paths absolute.
    pub sources: Vec<PathBuf>,
    /// The directory to mount on; absolute and free of links when passed to `open`.
    pub mountpoint: PathBuf,
    /// True if the mountpoint was derived from the source: an existing directory must be empty.
    pub beside: bool,
    /// The options of `-o`.
    pub options: Options,
    /// True to serve in this process instead of a daemon.
    pub foreground: bool,
    /// Destination and level of the log.
    pub log: log::Settings,
}

/// Mounts the sources. The file system is created in the process that serves it.
///
/// Returns when the mount is ready or, in the foreground, when it has ended. The process must have only one
/// thread.
///
/// # Errors
/// The mount could not become ready; it has been undone.
pub(crate) fn mount(mut plan: MountPlan) -> Result<()> {
    memory::give_back_large_buffers();
    raise_open_files();
    let given = given::descriptor(&plan.mountpoint)?;
    if !plan.foreground {
        background::close_inherited(given.as_ref().map(OwnedFd::as_fd));
    }
    for source in &mut plan.sources {
        // Only the daemon sends requests to a server, because a request may start threads.
        if named::is_local(source)? {
            *source = readable(source)?;
        }
    }
    let remote = &mut plan.options.remote;
    for path in [&mut remote.ca_bundle, &mut remote.token_file, &mut remote.cache_dir].into_iter().flatten() {
        *path = std::path::absolute(&path)?;
    }
    let target = match given {
        Some(_) if plan.options.timeout.is_some() => {
            return Err(Error::new(Kind::Usage, "-o timeout needs a mountpoint that asdf-mount can unmount"));
        }
        Some(descriptor) => Target::Given(descriptor),
        None => Target::Directory(Mountpoint::prepare(&plan.mountpoint, plan.beside)?),
    };
    // The process that probes the mount holds the place itself.
    let mut probed = None;
    if let Target::Directory(place) = &target {
        plan.mountpoint = place.path().to_owned();
        probed = Some(place.entry().try_clone()?);
    }
    let answers = || probed.as_ref().map_or(Ok(()), answers);
    if let Some(file) = &mut plan.log.file {
        *file = std::path::absolute(&file)?;
    }
    if plan.foreground {
        log::start(&plan.log, log::LogTarget::Stderr)?;
        let waiting = service_manager::is_there();
        let prober = waiting.then(|| background::Prober::start(answers)).transpose()?;
        return serve(&plan, target, || {
            prober.map_or(Ok(()), background::Prober::probe).map(|()| service_manager::ready(None))
        });
    }
    // After the fork both processes know of the directory. The child removes it, unless the child was killed.
    let mut shared = Some(target);
    let result = background::start(
        |report| {
            log::start(&plan.log, log::LogTarget::Syslog)?;
            let target = shared.take().expect("taken once, here");
            serve(&plan, target, || report.ready())
        },
        answers,
        service_manager::ready,
    );
    if let Some(Target::Directory(place)) = shared {
        match result {
            Ok(()) => place.leave(),
            Err(_) => clear_up(&place),
        }
    }
    result
}

/// Raises the soft limit of open files to the hard limit, as each open file of the mount may need a
/// descriptor. The usual soft limit is meant for programs that use `select`.
pub(crate) fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // If that fails the limit stays, and opening more files is an error.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Where a mount is made.
enum Target {
    Directory(Mountpoint),
    /// The caller has made the mount, and gave its descriptor.
    Given(OwnedFd),
}

/// Serves the mount in this process until it ends.
fn serve(plan: &MountPlan, target: Target, ready: impl FnOnce() -> Result<()>) -> Result<()> {
    let (mounter, given) = match target {
        Target::Directory(place) => (Some(mounter(plan, place)?), None),
        Target::Given(descriptor) => (None, Some(descriptor)),
    };
    rights::keep_for_serving(saves(plan)?);
    confine::confine(plan)?;
    let lifecycle = Lifecycle::watched(mounter, plan.foreground)?;
    let result = serve_watched(plan, &lifecycle, given, ready);
    // Called explicitly: dropping this reference may not remove the directory, as the signal thread may hold
    // another one.
    lifecycle.over();
    result
}

/// Starts the process that mounts on `place` and unmounts.
fn mounter(plan: &MountPlan, place: Mountpoint) -> Result<Mounter> {
    Mounter::start(place, plan.foreground, |place, read_only| {
        mount::mount(place, &shown_source(plan), &plan.options, read_only)
    })
}

/// True if the mount may save files.
fn saves(plan: &MountPlan) -> Result<bool> {
    for source in &plan.sources {
        if !plan.options.read_only && named::is_local(source)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn serve_watched(
    plan: &MountPlan,
    lifecycle: &Arc<Lifecycle>,
    given: Option<OwnedFd>,
    ready: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let (filesystem, served) = contents::open_tree(plan)?;
    let vfs = served.writing.vfs.clone();
    let read_only = vfs.is_read_only();
    let remarks = vfs.remarks();
    lifecycle.serves(served);
    let path = plan.mountpoint.as_path();
    let mut config = session_config(cache_budget(&plan.options))?;
    let threads = config.n_threads.unwrap_or(1);
    threads::check_room(threads)?;
    // The kernel checks who may use a mount that the caller made.
    let is_for_all = plan.options.allow_other || given.is_some();
    let acl = if is_for_all { SessionACL::All } else { SessionACL::Owner };
    let descriptor = match given {
        Some(descriptor) => {
            config.clone_fd = given::can_be_cloned();
            lifecycle.serve_given(given::device(&descriptor));
            descriptor
        }
        None => lifecycle.mount(read_only)?,
    };
    let fuse_device = descriptor.try_clone().ok();
    let session = Session::from_fd(filesystem, descriptor, acl, config).map_err(|error| {
        lifecycle.give_up();
        Error::from(error).within("the kernel does not start the mount").of(path)
    })?;
    // The kernel caches attributes and names only briefly. It is notified of bytes that it may keep, and of bytes
    // that turn out to be wrong.
    vfs.serve(KernelNotifier::new(session.notifier(), fuse_device));
    // By the name of this thread, other processes find the daemon of a mount.
    let name =
        lifecycle.device().map_or_else(|| "session".to_owned(), |device| serving::thread_name(&device));
    let serving = std::thread::Builder::new().name(name).spawn(move || session.run());
    let serving = serving.map_err(|error| {
        lifecycle.give_up();
        threads::too_few(error)
    })?;
    let has_started = threads::all_started(&serving, threads);
    let end = move || serving.join().unwrap_or_else(|_| Err(io::Error::from_raw_os_error(libc::EIO)));
    match has_started {
        Ok(true) => {}
        Ok(false) => return end_at_once(path, lifecycle, end()),
        Err(error) => {
            // Without open files the unmount may fail, and then the session would not end.
            lifecycle.give_up();
            return Err(error);
        }
    }
    for remark in &remarks {
        remark_on(plan, remark);
    }
    // A program that waits for the mount finds the line in the log.
    tracing::info!("{}: mounted", path.display());
    if let Err(error) = ready() {
        lifecycle.give_up();
        let _ = end();
        return Err(error);
    }
    if let Some(seconds) = plan.options.timeout {
        idle::watch(Duration::from_secs(seconds.into()), vfs, lifecycle)?;
    }
    let ended = end();
    service_manager::stopping();
    lifecycle.close();
    match ended {
        Ok(()) => {
            tracing::info!("{}: ended", path.display());
            Ok(())
        }
        Err(error) => {
            // Some threads of the session may still serve.
            lifecycle.give_up();
            Err(logged(Error::from(error).within("the mount failed").of(path)))
        }
    }
}

/// Ends a mount after its session ended before all its threads had started: it was unmounted, or a thread
/// could not be started.
fn end_at_once(path: &Path, lifecycle: &Lifecycle, ended: io::Result<()>) -> Result<()> {
    if let Err(error) = ended {
        lifecycle.give_up();
        return Err(threads::too_few(error));
    }
    tracing::info!("{}: mounted, and unmounted at once", path.display());
    lifecycle.close();
    Ok(())
}

fn session_config(budget: u64) -> Result<Config> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let mut config = Config::default();
    config.n_threads = Some(memory::threads((2 * cpus).clamp(4, 16), budget)?);
    config.clone_fd = true;
    Ok(config)
}

/// Probes the mount like any program; never called in the process that serves it.
fn answers(entry: &HeldEntry) -> Result<()> {
    let path = entry.shown();
    let fault = |errno: rustix::io::Errno| Error::from(errno).within("the mount does not answer").of(path);
    let ask = || {
        let root = entry.hold()?;
        let space = rustix::fs::fstatfs(&root)?;
        rustix::fs::fstat(&root)?;
        Ok(space)
    };
    match ask().map_err(fault)?.f_type as u64 {
        FUSE_SUPER_MAGIC => Ok(()),
        _ => Err(Error::new(Kind::System(libc::EIO), "the mount disappeared at once").of(path)),
    }
}

/// Writes a notice to the log. Also writes it to the caller's stderr, unless the log goes there or `-q` was
/// given.
fn remark_on(plan: &MountPlan, remark: &str) {
    tracing::warn!("{remark}");
    if (!plan.foreground || plan.log.file.is_some()) && !plan.log.quiet {
        let _ = writeln!(std::io::stderr(), "asdf-mount: {}", seekable::error::one_line(remark));
    }
}

fn logged(error: Error) -> Error {
    tracing::error!("{error}");
    error
}

/// Returns the source that df and findmnt show.
fn shown_source(plan: &MountPlan) -> OsString {
    match (&plan.options.fsname, plan.sources.as_slice()) {
        (Some(name), _) => name.clone(),
        (None, [source]) => named::shown(source).into(),
        (None, [first, others @ ..]) => {
            let mut name = named::shown(first).into_os_string();
            name.push(format!(" (+{})", others.len()));
            name
        }
        (None, []) => OsString::from("asdf-mount"),
    }
}

/// Checks that a source can be read, and makes its path absolute.
pub(crate) fn readable(source: &Path) -> Result<PathBuf> {
    let looked = || -> std::io::Result<bool> {
        // Without O_NONBLOCK, opening a pipe would wait for its writer.
        let open = || OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(source);
        let file = wait_for_lease(open, |error| error.kind() == std::io::ErrorKind::WouldBlock)?;
        let meta = file.metadata()?;
        if meta.is_dir() {
            fs::read_dir(source)?;
        } else if !meta.is_file() {
            return Ok(false);
        }
        Ok(true)
    };
    match looked() {
        Ok(true) => Ok(std::path::absolute(source)?),
        Ok(false) => Err(Error::new(Kind::Usage, "neither a regular file nor a directory").of(source)),
        Err(error) => Err(Error::from(error).of(source)),
    }
}

/// Cleans up after a daemon that died before it was ready.
fn clear_up(place: &Mountpoint) {
    let entry = place.entry();
    if let Ok(root) = entry.hold()
        && let Ok(Some(mount)) = entry.mount_of(&root)
        && mount.has_our_type()
        && mountpoint::health(&mount, &root) == mountinfo::Health::Dead
        && let Err(error) = detach::detach(&mount, &root)
    {
        tracing::warn!("{error}");
    }
    if entry.hold().is_ok() {
        place.remove();
    } else {
        place.leave();
    }
}
