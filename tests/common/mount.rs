//! A mount by the real program, cleaned up automatically.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::server::Server;
use super::site;

/// Time limit for any operation that a loaded machine may delay.
const PATIENCE: Duration = Duration::from_secs(120);

/// A mount in a fresh directory. Dropping it unmounts and waits for the daemon.
#[derive(Debug)]
pub struct Mounted {
    folder: tempfile::TempDir,
    mountpoint: PathBuf,
    /// The servers of the sources, if they are [over http](Sources::OverHttp).
    servers: Vec<Arc<Server>>,
}

/// Where the sources of a mount are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sources {
    /// At the paths in the arguments.
    Local,
    /// On HTTP servers, which serve the directories of these paths.
    OverHttp,
}

impl Sources {
    /// Mounts one source without options.
    pub fn file(self, source: impl AsRef<Path>) -> Mounted {
        self.mount([source.as_ref()])
    }

    /// Runs `asdf-mount ARGS… MOUNTPOINT` and fails the test if it fails.
    pub fn mount<S: AsRef<OsStr>>(self, args: impl IntoIterator<Item = S>) -> Mounted {
        mounted(self.run(args, |_| {}))
    }

    /// Runs `asdf-mount ARGS… MOUNTPOINT` with a cache directory shared with other mounts.
    pub fn with_cache<S: AsRef<OsStr>>(self, cache: &Path, args: impl IntoIterator<Item = S>) -> Mounted {
        mounted(self.run(args, |command| {
            command.env("XDG_CACHE_HOME", cache);
        }))
    }

    pub fn are_over_http(self) -> bool {
        self == Self::OverHttp
    }

    /// True if `condition` holds; over http, where changes show with a delay, if it holds within the time limit.
    pub fn soon(self, mut condition: impl FnMut() -> bool) -> bool {
        if self.are_over_http() { wait_until(condition) } else { condition() }
    }

    fn run<S: AsRef<OsStr>>(
        self,
        args: impl IntoIterator<Item = S>,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Mounted, Output> {
        let args = args.into_iter().map(|arg| arg.as_ref().to_owned());
        if self == Self::Local {
            return Mounted::run(Command::new(program()), args, prepare);
        }
        let (args, servers) = served(args);
        assert!(!servers.is_empty(), "no source is served");
        let mut mounted = Mounted::run(Command::new(program()), args, prepare)?;
        mounted.servers = servers;
        Ok(mounted)
    }
}

/// Replaces paths by URLs, and serves them. With `external=http`, a tree may name files in its directory, as a local
/// tree may. With a longer timeout, reads succeed on a loaded machine.
fn served(args: impl Iterator<Item = OsString>) -> (Vec<OsString>, Vec<Arc<Server>>) {
    let options = format!("external=http,read-timeout={}", PATIENCE.as_secs());
    let mut all = vec!["-o".into(), options.into()];
    let mut servers = Vec::new();
    for arg in args {
        let path = Path::new(&arg);
        match path.file_name().filter(|_| path.exists()) {
            Some(name) => {
                let server = server_of(path.parent().unwrap());
                all.push(server.url(&format!("/{}", name.to_str().unwrap())).into());
                servers.push(server);
            }
            None => all.push(arg),
        }
    }
    (all, servers)
}

fn mounted(result: Result<Mounted, Output>) -> Mounted {
    result.unwrap_or_else(|output| {
        panic!(
            "asdf-mount failed with {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

/// Returns the server of a directory. All mounts of a file have one URL, so that they share seek tables.
fn server_of(folder: &Path) -> Arc<Server> {
    static SERVERS: Mutex<BTreeMap<PathBuf, Arc<Server>>> = Mutex::new(BTreeMap::new());
    let mut servers = SERVERS.lock().unwrap();
    servers.entry(folder.to_owned()).or_insert_with(|| Arc::new(site::of_folder(folder))).clone()
}

impl Mounted {
    /// Mounts one source without options.
    pub fn file(source: impl AsRef<Path>) -> Self {
        Self::new([source.as_ref()])
    }

    /// Runs `asdf-mount ARGS… MOUNTPOINT` and fails the test if it fails.
    pub fn new<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Self {
        mounted(Self::try_new(args))
    }

    /// Runs `asdf-mount ARGS… MOUNTPOINT` with a cache directory shared with other mounts.
    pub fn with_cache<S: AsRef<OsStr>>(cache: &Path, args: impl IntoIterator<Item = S>) -> Self {
        Sources::Local.with_cache(cache, args)
    }

    /// Runs `asdf-mount ARGS… MOUNTPOINT`; returns its output if it failed.
    pub fn try_new<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Result<Self, Output> {
        Self::prepared(args, |_| {})
    }

    /// Runs `asdf-mount ARGS… MOUNTPOINT` after a change to the command.
    ///
    /// Output goes to files, because a daemon that kept pipes open would block the test.
    pub fn prepared<S: AsRef<OsStr>>(
        args: impl IntoIterator<Item = S>,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Self, Output> {
        Self::run(Command::new(program()), args, prepare)
    }

    /// Mounts with these limits for open files, `SOFT:HARD`.
    pub fn limited<S: AsRef<OsStr>>(limits: &str, args: impl IntoIterator<Item = S>) -> Self {
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={limits}")).arg(program());
        Self::run(command, args, |_| {}).unwrap_or_else(|output| panic!("asdf-mount failed: {output:?}"))
    }

    /// Mounts in a directory that other users can enter; the build directory may be accessible to root only.
    pub fn for_all_users<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mounted = Self::run_in(folder, Command::new(program()), args, |_| {});
        mounted.unwrap_or_else(|output| panic!("asdf-mount failed: {output:?}"))
    }

    fn run<S: AsRef<OsStr>>(
        command: Command,
        args: impl IntoIterator<Item = S>,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Self, Output> {
        Self::run_in(fresh_folder(), command, args, prepare)
    }

    fn run_in<S: AsRef<OsStr>>(
        folder: tempfile::TempDir,
        mut command: Command,
        args: impl IntoIterator<Item = S>,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Self, Output> {
        let mountpoint = folder.path().join("mnt");
        fs::create_dir(&mountpoint).unwrap();
        let (stdout, stderr) = (folder.path().join("stdout"), folder.path().join("stderr"));
        command
            .args(args)
            .arg(&mountpoint)
            .env("XDG_STATE_HOME", folder.path().join("state"))
            .env("XDG_CACHE_HOME", folder.path().join("cache"))
            .stdin(std::process::Stdio::null())
            .stdout(fs::File::create(&stdout).unwrap())
            .stderr(fs::File::create(&stderr).unwrap());
        prepare(&mut command);
        let status = command.status().unwrap();
        if !status.success() {
            let (stdout, stderr) = (fs::read(stdout).unwrap(), fs::read(stderr).unwrap());
            return Err(Output { status, stdout, stderr });
        }
        assert!(is_mounted(&mountpoint), "asdf-mount returned 0, but nothing is mounted");
        Ok(Self { folder, mountpoint, servers: Vec::new() })
    }

    pub fn root(&self) -> &Path {
        &self.mountpoint
    }

    /// Returns a directory beside the mountpoint, removed with the mount.
    pub fn scratch(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the stderr of the mount command.
    pub fn stderr(&self) -> String {
        fs::read_to_string(self.folder.path().join("stderr")).unwrap()
    }

    /// Returns the state directory of this mount.
    pub fn state(&self) -> PathBuf {
        self.scratch().join("state/asdf-mount")
    }

    /// Returns a path in the mount.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.mountpoint.join(name)
    }

    /// Returns the path of block `n`.
    pub fn block_path(&self, n: usize) -> PathBuf {
        self.path(format!("blocks/{n}.bin"))
    }

    /// Reads the bytes of block `n`.
    pub fn block(&self, n: usize) -> Vec<u8> {
        let path = self.block_path(n);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Reads the bytes of `tree.yaml`.
    pub fn tree(&self) -> Vec<u8> {
        fs::read(self.path("tree.yaml")).unwrap()
    }

    /// Returns the number of blocks, and asserts that they are named 0.bin, 1.bin, ….
    pub fn block_count(&self) -> usize {
        let mut names: Vec<OsString> =
            fs::read_dir(self.path("blocks")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        let mut wanted: Vec<OsString> = (0..names.len()).map(|n| format!("{n}.bin").into()).collect();
        names.sort();
        wanted.sort();
        assert_eq!(names, wanted, "blocks/ lists other names than 0.bin, 1.bin, …");
        names.len()
    }

    /// Returns an extended attribute of a file in the mount, as text.
    pub fn attribute(&self, name: impl AsRef<Path>, attribute: &str) -> rustix::io::Result<String> {
        let mut value = [0; 1024];
        let length = rustix::fs::getxattr(self.path(name), attribute, &mut value)?;
        Ok(String::from_utf8_lossy(&value[..length]).into_owned())
    }

    /// Returns the daemon's process id, if the daemon is running.
    pub fn daemon(&self) -> Option<u32> {
        daemon_of(&self.mountpoint)
    }

    /// Returns the number of bytes that the daemon has read so far; over http, those that the servers have
    /// sent.
    pub fn bytes_read(&self) -> u64 {
        if !self.servers.is_empty() {
            return self.servers.iter().map(|server| server.sent()).sum();
        }
        let io = fs::read_to_string(format!("/proc/{}/io", self.daemon().unwrap())).unwrap();
        io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
    }

    /// Unmounts now and fails the test if the daemon does not end.
    pub fn unmount(self) {
        drop(self);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let failure = take_down(&self.mountpoint);
        if let (Some(failure), false) = (failure, std::thread::panicking()) {
            panic!("{failure}");
        }
    }
}

/// Returns the path of the program under test.
///
/// Cargo compiles it for each test program of the package, into the directory above that of the test program.
pub fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| build().join("asdf-mount").into_os_string().into_string().unwrap())
}

/// Returns the directory of the build.
fn build() -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned()
}

/// Makes a fresh directory on the disk of the build; /tmp may be another kind of file system.
pub fn fresh_folder() -> tempfile::TempDir {
    let temporary = build().with_file_name("tmp");
    fs::create_dir_all(&temporary).unwrap();
    tempfile::Builder::new().prefix("mount-").tempdir_in(temporary).unwrap()
}

/// True if there is a mount at `mountpoint`, even if its daemon has ended.
pub fn is_mounted(mountpoint: &Path) -> bool {
    let mounts = fs::read("/proc/self/mountinfo").unwrap();
    let mounts = String::from_utf8_lossy(&mounts);
    let wanted = mountpoint.to_str().expect("test folders have plain names");
    mounts.lines().any(|line| line.split(' ').nth(4) == Some(wanted))
}

/// Returns the process of our program that serves a mount, which has `mountpoint` among its arguments. Another process of the
/// mount, with another name, mounts and unmounts.
pub fn daemon_of(mountpoint: &Path) -> Option<u32> {
    let program = fs::canonicalize(program()).unwrap();
    let processes = fs::read_dir("/proc").unwrap();
    processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).find(|pid: &u32| {
        let is_ours = fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program);
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let wanted = mountpoint.as_os_str().as_encoded_bytes();
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        is_ours
            && name != "asdf-mounter\n"
            && command.split(|&byte| byte == 0).any(|argument| argument == wanted)
    })
}

/// A thread that makes a request.
pub struct Asking<T> {
    pub thread: JoinHandle<T>,
    number: Pid,
}

impl<T: Send + 'static> Asking<T> {
    pub fn begin(ask: impl FnOnce() -> T + Send + 'static) -> Self {
        let (begun, begins) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            begun.send(rustix::thread::gettid()).unwrap();
            ask()
        });
        Self { thread, number: begins.recv().unwrap() }
    }

    /// True if the thread sleeps in the kernel: it waits for the answer.
    pub fn waits(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/self/task/{}/stat", self.number.as_raw_nonzero()));
        let state = stat.unwrap_or_default().rsplit(')').next().and_then(|rest| rest.trim().chars().next());
        matches!(state, Some('S' | 'D')) && !self.thread.is_finished()
    }
}

/// Waits until `condition` holds; false after the time limit.
pub fn wait_until(mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    let mut pause = Duration::from_micros(200);
    while start.elapsed() < PATIENCE {
        if condition() {
            return true;
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(Duration::from_millis(10));
    }
    condition()
}

/// Waits until a process has ended and closed its files; false after the time limit.
fn ends(process: &OwnedFd) -> bool {
    let limit = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
    let ended = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&limit));
    ended.is_ok_and(|count| count > 0)
}

/// Unmounts lazily and waits for the daemon; returns an error message on failure.
fn take_down(mountpoint: &Path) -> Option<String> {
    // A process id may soon be that of another process.
    let daemon = daemon_of(mountpoint)
        .and_then(|pid| pidfd_open(Pid::from_raw(pid.cast_signed())?, PidfdFlags::empty()).ok());
    let lazily = |program: &str, args: &[&str]| {
        let status =
            Command::new(program).args(args).arg(mountpoint).stderr(std::process::Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let unmounted = !is_mounted(mountpoint)
        || lazily("fusermount3", &["-u", "-z"])
        || lazily("umount", &["-l"])
        || !is_mounted(mountpoint);
    if !unmounted {
        return Some(format!("{} can't be unmounted", mountpoint.display()));
    }
    if daemon.is_none_or(|daemon| ends(&daemon)) && wait_until(|| daemon_of(mountpoint).is_none()) {
        return None;
    }
    let pid = daemon_of(mountpoint)?;
    let _ = kill_process(Pid::from_raw(pid.cast_signed())?, Signal::KILL);
    Some(format!("the daemon of {} did not end after the unmount", mountpoint.display()))
}
