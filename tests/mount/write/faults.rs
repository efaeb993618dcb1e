//! Fault injection under the daemon: `faults.c`, preloaded, intercepts its system calls.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The preloaded library and its control file.
#[derive(Debug)]
pub(crate) struct Faults {
    control: std::fs::File,
    path: PathBuf,
    library: PathBuf,
    under: PathBuf,
}

/// The effect on a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The call fails.
    Once(i32),
    /// The call and all later ones fail.
    Lasting(i32),
    /// The call fails; calls that read are also counted.
    Reading(i32),
    /// The call and all later ones fail, also those that read.
    Unreadable(i32),
    /// The process is killed before the call.
    KilledBefore,
    /// The process is killed after the call.
    KilledAfter,
    /// The process stops before the call, until SIGCONT.
    Stopped,
}

/// More calls than any interrupted program makes.
const MAX_CALLS: i32 = 2000;

/// Returns call numbers at which to interrupt a program; fails after too many.
pub(crate) fn calls() -> impl Iterator<Item = i32> {
    (0..)
        .inspect(|at| assert!(*at < MAX_CALLS, "it was interrupted at {at} calls, and never came to its end"))
}

/// Returns the library, compiled once.
fn library() -> &'static [u8] {
    static LIBRARY: OnceLock<Vec<u8>> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mount/write/faults.c");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("faults.so");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O1", "-Wall", "-o"]).arg(&path).arg(source);
        let compiled = cc.status().is_ok_and(|status| status.success());
        assert!(compiled, "cc can't compile tests/mount/write/faults.c: run scripts/test, which installs it");
        std::fs::read(path).unwrap()
    })
}

impl Faults {
    /// Returns a layer that lets all calls through. Its files are in `folder`, which the program must be able
    /// to read. Only calls on paths below `under` may fail.
    pub(crate) fn new(folder: &Path, under: &Path) -> Self {
        let (path, layer) = (folder.join("faults"), folder.join("faults.so"));
        if !layer.exists() {
            std::fs::write(&layer, library()).unwrap();
        }
        let control = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let faults = Self { control: control.unwrap(), path, library: layer, under: under.to_owned() };
        faults.set([-1, 0, 0, 0, 0, 0, 0]);
        faults
    }

    /// Preloads the layer into a program that is about to be started.
    pub(crate) fn under(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("FAULTS", &self.path).env("FAULTS_UNDER", &self.under);
    }

    fn set(&self, numbers: [i32; 7]) {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.control.write_all_at(&bytes, 0).unwrap();
    }

    /// Lets this many calls through, then injects the fault.
    pub(crate) fn after(&self, calls: i32, fault: Fault) {
        self.set(match fault {
            Fault::Once(errno) => [calls, errno, 0, 0, 0, 0, 0],
            Fault::Lasting(errno) => [calls, errno, 1, 0, 0, 0, 0],
            Fault::Reading(errno) => [calls, errno, 0, 0, 0, 0, 1],
            Fault::Unreadable(errno) => [calls, errno, 1, 0, 0, 0, 1],
            Fault::KilledBefore => [calls, 0, 0, 1, 0, 0, 0],
            Fault::KilledAfter => [calls, 0, 0, 2, 0, 0, 0],
            Fault::Stopped => [calls, 0, 0, 3, 0, 0, 0],
        });
    }

    /// Lets all calls through; returns the number of calls since the last fault was set.
    pub(crate) fn none(&self) -> i32 {
        let mut bytes = [0; 4];
        self.control.read_exact_at(&mut bytes, 20).unwrap();
        self.set([-1, 0, 0, 0, 0, 0, 0]);
        i32::from_le_bytes(bytes)
    }

    /// Delays each fsync by this many milliseconds, or until the delay is changed.
    pub(crate) fn slow(&self, milliseconds: i32) {
        self.set([-1, 0, 0, 0, milliseconds, 0, 0]);
    }
}
