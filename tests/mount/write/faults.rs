//! A failing layer under the daemon: `faults.c`, loaded into it, takes its calls to the kernel.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What the daemon's calls come to.
#[derive(Debug)]
pub(crate) struct Faults {
    control: std::fs::File,
    path: PathBuf,
    library: PathBuf,
    under: PathBuf,
}

/// What happens at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It fails.
    Once(i32),
    /// It fails, and so do all that follow.
    Lasting(i32),
    /// It fails; what reads is counted too.
    Reading(i32),
    /// The process is killed before it is done.
    KilledBefore,
    /// The process is killed when it is done.
    KilledAfter,
}

/// More calls than any program makes that a test interrupts.
const MOST_CALLS: i32 = 2000;

/// The calls of a program, to be interrupted at each; fails where they don't end.
pub(crate) fn calls() -> impl Iterator<Item = i32> {
    (0..).inspect(|at| {
        assert!(*at < MOST_CALLS, "it was interrupted at {at} calls, and never came to its end")
    })
}

/// The layer, compiled once.
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
    /// A layer that lets all calls through; `folder` takes its files, and its program may look there. `under` is
    /// where calls may fail.
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

    /// Puts the layer under a program that is about to be started.
    pub(crate) fn under(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("FAULTS", &self.path).env("FAULTS_UNDER", &self.under);
    }

    fn set(&self, numbers: [i32; 7]) {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.control.write_all_at(&bytes, 0).unwrap();
    }

    /// Lets so many calls through, then has the fault come.
    pub(crate) fn after(&self, calls: i32, fault: Fault) {
        self.set(match fault {
            Fault::Once(errno) => [calls, errno, 0, 0, 0, 0, 0],
            Fault::Lasting(errno) => [calls, errno, 1, 0, 0, 0, 0],
            Fault::Reading(errno) => [calls, errno, 0, 0, 0, 0, 1],
            Fault::KilledBefore => [calls, 0, 0, 1, 0, 0, 0],
            Fault::KilledAfter => [calls, 0, 0, 2, 0, 0, 0],
        });
    }

    /// Lets all calls through; how many there were since the last fault was set.
    pub(crate) fn none(&self) -> i32 {
        let mut bytes = [0; 4];
        self.control.read_exact_at(&mut bytes, 20).unwrap();
        self.set([-1, 0, 0, 0, 0, 0, 0]);
        i32::from_le_bytes(bytes)
    }

    /// Has each fsync wait so many milliseconds.
    pub(crate) fn slow(&self, milliseconds: i32) {
        self.set([-1, 0, 0, 0, milliseconds, 0, 0]);
    }
}
