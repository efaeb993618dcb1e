//! A directory with a file to mount, the program run on it, and checks for leftovers.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tempfile::TempDir;

use super::mount::program;
use super::namespace::script_in_namespace;
use super::python::root;

/// Content of `a.asdf` in every bench: an ASDF file without tree and blocks.
pub const TEXT: &str = "#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n";

/// Time limit for any operation of a test.
const DEADLINE: Duration = Duration::from_secs(60);

/// Functions for every script: find the daemon of a mount point, and wait until all of its threads have
/// ended. (After the end of the first thread, the process is a zombie, but other threads may still hold the
/// mount.)
const FUNCTIONS: &str = r#"
    # "! command" would pass whatever comes of it: the shell's -e looks away from it.
    not() { if "$@"; then return 1; fi; }
    # The machine may have other mounts of this program.
    ours() { grep " $T/.* fuse.asdf-mount " /proc/self/mountinfo; }
    daemon_of() { getfattr --absolute-names --only-values -n user.asdf-mount.pid "$1"; }
    # Another process may reap a daemon at any time.
    has_ended() { case $(sed -n 's/^State:.//p' /proc/$1/status 2>/dev/null) in '' | Z*) ;; *) return 1 ;; esac; }
    ended() {
        for i in $(seq 600); do
            kill -0 $1 2>/dev/null || return 0
            grep -q 'Z (zombie)' /proc/$1/status && test "$(ls /proc/$1/task)" = $1 && return 0
            sleep 0.1
        done
        return 1
    }
"#;

/// The file that the README's examples mount.
pub const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/sample.asdf");

/// A temporary directory in which one test mounts; remaining mounts are removed at the end.
#[derive(Debug)]
pub struct Bench {
    folder: TempDir,
}

impl Bench {
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("asdf-mount-").tempdir().unwrap();
        let bench = Self { folder };
        fs::write(bench.source(), TEXT).unwrap();
        fs::create_dir(bench.mountpoint()).unwrap();
        bench
    }

    /// Returns a bench whose source is the sample of `examples/`.
    pub fn of_sample() -> Self {
        let bench = Self::new();
        fs::copy(SAMPLE, bench.source()).unwrap();
        bench
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn source(&self) -> PathBuf {
        self.path("a.asdf")
    }

    /// Returns an existing directory to mount on.
    pub fn mountpoint(&self) -> PathBuf {
        self.path("mnt")
    }

    /// Returns the program with these arguments, to run in the bench's directory.
    pub fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(program());
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("T", self.folder.path()).env("XDG_STATE_HOME", self.path("state"));
        command.env("XDG_CACHE_HOME", self.path("cache"));
        command
    }

    /// Runs the program until it returns and no process holds its stdout and stderr any more.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Mounts `a.asdf` on `mountpoint` and returns its daemon.
    pub fn mount(&self, mountpoint: &Path) -> Daemon {
        succeeded(&self.run([self.source().as_path(), mountpoint]));
        Daemon::of(mountpoint)
    }

    /// Mounts in the foreground and returns once the mount is ready.
    pub fn mount_in_foreground(&self, mountpoint: &Path) -> Child {
        let mut child =
            self.command(["-fv", "a.asdf"]).arg(mountpoint).stderr(Stdio::piped()).spawn().unwrap();
        eventually("the mount is there", || {
            assert_eq!(child.try_wait().unwrap(), None, "it ended");
            mountpoint.join("tree.yaml").exists()
        });
        child
    }

    /// Runs a script in a separate mount namespace, which removes its mounts at the end.
    ///
    /// The bench's directory is `$T`, and the program is in `$T/bin` and in `PATH`. Every user can access
    /// both.
    pub fn script(&self, script: &str) -> Output {
        use std::os::unix::fs::PermissionsExt;
        let bin = self.path("bin");
        fs::create_dir_all(&bin).unwrap();
        // Another process writes the copy: a program can't be run while a process has it open for writing, as one would
        // that another test forks meanwhile.
        let copied =
            Command::new("cp").args([Path::new(program()), &bin.join("asdf-mount")]).status().unwrap();
        assert!(copied.success());
        fs::set_permissions(self.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path =
            std::env::join_paths([&bin, Path::new("/usr/sbin"), Path::new("/usr/bin"), Path::new("/bin")]);
        let mut command = script_in_namespace(self.folder.path(), 300, &format!("{FUNCTIONS}{script}"));
        command.env("T", self.folder.path()).env("XDG_STATE_HOME", self.path("state"));
        command.env("XDG_CACHE_HOME", self.path("cache"));
        // Nothing depends on the terminal and the language of the machine.
        command.env("TERM", "xterm").env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR").env_remove("COLUMNS");
        command.env("PATH", path.unwrap()).output().unwrap()
    }

    /// Runs a command line in the bench's directory, with the program in `PATH`.
    pub fn shell(&self, line: &str) -> Output {
        let program = Path::new(program());
        // The Python environment of the tests has numpy, for the examples that use it.
        let python = root().join(".venv/bin");
        let folders = [program.parent().unwrap(), &python, Path::new("/usr/bin"), Path::new("/bin")];
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("T", self.folder.path()).env("XDG_STATE_HOME", self.path("state"));
        command.env("PATH", std::env::join_paths(folders).unwrap()).env("LC_ALL", "C").output().unwrap()
    }

    /// Returns the types of the mounts on `path`, lowest first.
    pub fn mounted_on(&self, path: &Path) -> Vec<String> {
        mounts().into_iter().filter(|mount| mount.path == path).map(|mount| mount.kind).collect()
    }

    /// Runs a [`script`](Self::script), which must succeed and leave nothing.
    #[track_caller]
    pub fn runs(&self, script: &str) {
        let output = self.script(script);
        assert!(output.status.success(), "{output:?}");
        self.nothing_is_left();
    }

    /// Asserts that no mount and no process remains.
    pub fn nothing_is_left(&self) {
        eventually("no process is left", || self.processes().is_empty());
        let left: Vec<_> =
            mounts().into_iter().filter(|mount| mount.path.starts_with(self.folder.path())).collect();
        assert!(left.is_empty(), "still mounted: {left:?}");
    }

    /// Returns the processes started for the bench, found by the bench's directory in their environment.
    /// Zombies have no environment.
    fn processes(&self) -> Vec<i32> {
        let folder = self.folder.path().to_str().unwrap();
        let numbers =
            fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        numbers
            .filter(|number| {
                let environment = fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
                String::from_utf8_lossy(&environment).contains(folder)
            })
            .collect()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        for mount in mounts().into_iter().rev().filter(|mount| mount.path.starts_with(self.folder.path())) {
            let _ = rustix::mount::unmount(&mount.path, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

/// The process that serves a mount.
#[derive(Debug)]
pub struct Daemon {
    pub number: i32,
    /// The process itself: once it has ended, its number may be that of another process.
    process: OwnedFd,
}

impl Daemon {
    /// Asks the mount for its daemon.
    pub fn of(mountpoint: &Path) -> Self {
        let mut digits = [0; 20];
        let length = rustix::fs::getxattr(mountpoint, "user.asdf-mount.pid", &mut digits).unwrap();
        let number = std::str::from_utf8(&digits[..length]).unwrap().parse().unwrap();
        let process = pidfd_open(Pid::from_raw(number).unwrap(), PidfdFlags::empty()).unwrap();
        Self { number, process }
    }

    pub fn send(&self, signal: Signal) {
        pidfd_send_signal(&self.process, signal).unwrap();
    }

    pub fn stat(&self) -> Option<Vec<String>> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.number)).ok()?;
        // The process name, in parentheses, may contain any character.
        Some(stat.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect())
    }

    /// True if any thread of the daemon runs.
    pub fn runs(&self) -> bool {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.process, PollFlags::IN)], Some(&at_once)).unwrap() == 0
    }

    pub fn ends(&self) {
        eventually("the daemon ends", || !self.runs());
    }

    pub fn kill(&self) {
        self.send(Signal::KILL);
        self.ends();
    }
}

#[derive(Debug)]
struct Mount {
    path: PathBuf,
    kind: String,
}

fn mounts() -> Vec<Mount> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    table
        .lines()
        .map(|line| {
            let (left, right) = line.split_once(" - ").unwrap();
            let path = left.split(' ').nth(4).unwrap().replace("\\040", " ");
            Mount { path: path.into(), kind: right.split(' ').next().unwrap().to_owned() }
        })
        .collect()
}

/// Returns the mount's line in /proc/self/mountinfo.
pub fn line_of(mountpoint: &Path) -> String {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let wanted = format!(" {} ", mountpoint.to_str().unwrap());
    table.lines().find(|line| line.contains(&wanted)).unwrap().to_owned()
}

/// Waits until `so` returns true.
#[track_caller]
pub fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < DEADLINE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Asserts success with an empty stderr.
#[track_caller]
pub fn succeeded(output: &Output) {
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

/// Asserts the exit status and returns the only line of stderr.
#[track_caller]
pub fn failed(output: &Output, status: i32) -> String {
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(
        said.starts_with("asdf-mount: ") && said.ends_with('\n') && said.lines().count() == 1,
        "{said:?}"
    );
    assert!(output.stdout.is_empty(), "{output:?}");
    said.trim_end().trim_start_matches("asdf-mount: ").to_owned()
}
