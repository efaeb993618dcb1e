//! The Python environment with the reference implementation, made by `scripts/test`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the directory of the project.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// Returns Python with current asdf and every codec.
pub fn python() -> PathBuf {
    find("ASDF_MOUNT_TEST_PYTHON", ".venv")
}

/// Returns Python with asdf 5.2, the last version that computed checksums of the decoded bytes.
pub fn old_python() -> PathBuf {
    find("ASDF_MOUNT_TEST_PYTHON_OLD", ".venv-old")
}

fn find(variable: &str, folder: &str) -> PathBuf {
    let path =
        std::env::var_os(variable).map_or_else(|| root().join(folder).join("bin/python"), PathBuf::from);
    assert!(
        path.exists(),
        "no Python at {}: run scripts/test, which makes it, or set {variable} to a Python with \
         what tests/python/ requires",
        path.display()
    );
    path
}

/// Runs a script of `tests/python/` and returns its output; fails the test if the script fails.
pub fn run<S: AsRef<OsStr>>(python: &Path, script: &str, args: impl IntoIterator<Item = S>) -> String {
    let output = Command::new(python)
        .arg(root().join("tests/python").join(script))
        .args(args)
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", python.display()));
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{script} failed with {}\n{stdout}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    stdout
}
