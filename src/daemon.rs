//! One mount from start to end.
//!
//! ```text
//! caller's process                     daemon (the same process with --foreground)
//! ----------------                     ------
//! checks arguments and sources
//! gets the mount point ready
//! forks ------------------------------> watches for signals
//! waits                                 opens what is to be shown
//!                                       mounts, answers the kernel's greeting
//! asks the mount <--------------------- starts its threads
//! returns 0 --------------------------> is ready
//!                                       serves until unmounted or told to end
//!                                       finishes saves, keeps texts that were not saved
//!                                       removes the mount point if it was made for the mount
//! ```
//!
//! Any failure before *ready* undoes what was done, and its one line reaches the caller's stderr.

mod background;
mod contents;
mod detach;
mod fusermount;
mod memory;
mod mount;
mod mountinfo;
mod mountpoint;
mod signals;
mod unmount;

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fuser::{Config, Filesystem, Notifier, Session, SessionACL};

use self::mountpoint::Mountpoint;
use self::signals::Life;
use crate::error::{Error, Kind, Result};
use crate::log;
use crate::options::Options;

pub use self::contents::open_tree;
pub use self::unmount::unmount;
pub use crate::options::PID_ATTRIBUTE;

/// Lists what this program has mounted: mount points and sources.
///
/// # Errors
/// When `/proc` does not tell.
pub fn mounted() -> Result<Vec<(PathBuf, OsString)>> {
    let mounts = mountinfo::all()?.into_iter().filter(mountinfo::Mount::is_ours);
    Ok(mounts.map(|mount| (mount.mountpoint, mount.source)).collect())
}

/// The type that the kernel gives every FUSE mount.
const FUSE_SUPER_MAGIC: u64 = 0x6573_5546;

/// What is to be mounted where.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Files and folders to be shown, at least one; absolute from [`mount()`] on.
    pub sources: Vec<PathBuf>,
    /// The folder to mount on; absolute and without links when the filesystem is made.
    pub mountpoint: PathBuf,
    /// What `-o` asked for.
    pub options: Options,
    /// Stay in this process rather than in a daemon.
    pub foreground: bool,
    /// Where and how much to log.
    pub log: log::Settings,
}

/// A filesystem to be served, and what is to be done with the kernel's ear.
pub struct Served<F> {
    /// Answers the kernel's requests.
    pub filesystem: F,
    /// Gets the means to tell the kernel of changes, before the first request is answered.
    pub notify: Box<dyn FnOnce(Notifier) + Send>,
    /// Whether nothing can be written, so that the kernel may know.
    pub read_only: bool,
    /// What the caller should know of it, a line each.
    pub remarks: Vec<String>,
    /// Brings writing to an end, before the process ends: waits for saves, keeps what is not saved. May
    /// be called more than once; returns when that is done, whoever began it.
    pub close: Arc<dyn Fn() + Send + Sync>,
}

impl<F> std::fmt::Debug for Served<F> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Served").finish_non_exhaustive()
    }
}

/// Mounts as planned; `open` makes the filesystem, in the process that serves it.
///
/// Returns when the mount answers or, in the foreground, when it has ended. Must be called while the
/// process has one thread. `open` may start threads.
///
/// # Errors
/// Whatever kept the mount from being ready; nothing is left of it then.
pub fn mount<F: Filesystem>(mut plan: Plan, open: impl FnOnce(&Plan) -> Result<Served<F>>) -> Result<()> {
    memory::give_back_large_buffers();
    raise_open_files();
    if !plan.foreground {
        background::close_inherited();
    }
    for source in &mut plan.sources {
        *source = readable(source)?;
    }
    let place = Mountpoint::prepare(&plan.mountpoint)?;
    plan.mountpoint = place.path().to_owned();
    if let Some(file) = &mut plan.log.file {
        *file = std::path::absolute(&file)?;
    }
    if plan.foreground {
        log::start(&plan.log, log::Voice::Stderr)?;
        return serve(&plan, place, open, || Ok(()));
    }
    // After the fork both processes know of the folder. The child removes it, unless it was killed.
    let mut shared = Some(place);
    let result = background::start(
        |report| {
            log::start(&plan.log, log::Voice::Syslog)?;
            let place = shared.take().expect("taken once, here");
            serve(&plan, place, open, || report.ready())
        },
        || answers(&plan.mountpoint),
    );
    if let Some(place) = shared {
        match result {
            Ok(()) => place.leave(),
            Err(_) => clear_up(&place),
        }
    }
    result
}

/// Lets this process have as many files open as it may: each open file of the mount can be one, and usual
/// limits are for programs that wait for descriptors with `select`.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Where that is refused the limit stays, and what goes beyond it is an error.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Serves the mount in this process until it ends.
fn serve<F: Filesystem>(
    plan: &Plan,
    place: Mountpoint,
    open: impl FnOnce(&Plan) -> Result<Served<F>>,
    ready: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let life = Life::watched(place)?;
    let result = serve_watched(plan, &life, open, ready);
    // A signal's thread may hold the other reference, so dropping this one would not remove the folder.
    life.over();
    result
}

fn serve_watched<F: Filesystem>(
    plan: &Plan,
    life: &Life,
    open: impl FnOnce(&Plan) -> Result<Served<F>>,
    ready: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let served = open(plan)?;
    life.at_end(served.close.clone());
    let path = life.place().path();
    let config = session_config(contents::budget(&plan.options))?;
    let descriptor =
        life.mount(|| mount::mount(path, &shown_source(plan), &plan.options, served.read_only))?;
    let acl = if plan.options.allow_other { SessionACL::All } else { SessionACL::Owner };
    let session = Session::from_fd(served.filesystem, descriptor, acl, config).map_err(|error| {
        life.give_up();
        Error::from(error).within("the kernel does not take up the mount").of(path)
    })?;
    (served.notify)(session.notifier());
    let serving = std::thread::Builder::new().name("session".to_owned()).spawn(move || session.run());
    let serving = serving.map_err(|error| {
        life.give_up();
        Error::from(error).within("can't start a thread")
    })?;
    for remark in &served.remarks {
        remark_on(plan, remark);
    }
    if let Err(error) = ready() {
        life.give_up();
        let _ = serving.join();
        return Err(error);
    }
    tracing::info!("{}: mounted", path.display());
    let ended = serving.join();
    life.close();
    match ended {
        Ok(Ok(())) => {
            tracing::info!("{}: ended", path.display());
            Ok(())
        }
        broken => {
            // Some of its threads may serve yet.
            life.give_up();
            let error = match broken {
                Ok(Err(error)) => Error::from(error).within("the mount broke down"),
                _ => Error::new(Kind::System(libc::EIO), "the mount broke down"),
            };
            Err(logged(error.of(path)))
        }
    }
}

fn session_config(budget: u64) -> Result<Config> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let mut config = Config::default();
    config.n_threads = Some(memory::threads((2 * cpus).clamp(4, 16), budget)?);
    config.clone_fd = true;
    Ok(config)
}

/// Asks the mount as any program would; never in the process that serves it.
fn answers(path: &Path) -> Result<()> {
    let fault = |errno: rustix::io::Errno| Error::from(errno).within("the mount does not answer").of(path);
    let asked = rustix::fs::statfs(path).and_then(|space| rustix::fs::stat(path).map(|_| space));
    match asked.map_err(fault)?.f_type as u64 {
        FUSE_SUPER_MAGIC => Ok(()),
        _ => Err(Error::new(Kind::System(libc::EIO), "the mount was gone at once").of(path)),
    }
}

/// Tells the log and, unless that is the same or was not wanted, the caller's terminal.
fn remark_on(plan: &Plan, remark: &str) {
    tracing::warn!("{remark}");
    if (!plan.foreground || plan.log.file.is_some()) && !plan.log.quiet {
        // Nobody need have it open.
        let _ = writeln!(std::io::stderr(), "asdf-mount: {}", log::one_line(remark));
    }
}

fn logged(error: Error) -> Error {
    tracing::error!("{error}");
    error
}

/// What df and findmnt show as the source.
fn shown_source(plan: &Plan) -> OsString {
    match (&plan.options.fsname, plan.sources.as_slice()) {
        (Some(name), _) => name.clone(),
        (None, [source]) => source.clone().into(),
        (None, [first, others @ ..]) => {
            let mut name = first.clone().into_os_string();
            name.push(format!(" (+{})", others.len()));
            name
        }
        (None, []) => OsString::from("asdf-mount"),
    }
}

/// Makes a source absolute, after a look whether it can be read.
fn readable(source: &Path) -> Result<PathBuf> {
    let looked = || -> std::io::Result<bool> {
        // Without O_NONBLOCK a pipe without a writer would make us wait.
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(source)?;
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
        Ok(false) => Err(Error::new(Kind::Usage, "neither a file nor a folder").of(source)),
        Err(error) => Err(Error::from(error).of(source)),
    }
}

/// Removes what a daemon left that died before it was ready.
fn clear_up(place: &Mountpoint) {
    if let Ok(Some(mount)) = mountinfo::top_at(place.path())
        && mount.is_ours()
        && mount.is_dead()
        && let Err(error) = detach::detach(place.path())
    {
        tracing::warn!("{error}");
    }
    if place.path().exists() {
        place.remove();
    } else {
        place.leave();
    }
}
