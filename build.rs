//! Gives the program the commit that it is built from, for `--version --verbose`.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if let Some(commit) = packaged().or_else(checked_out) {
        println!("cargo::rustc-env=ASDF_MOUNT_COMMIT={commit}");
    }
}

/// Returns the commit that `cargo package` wrote into a published crate.
fn packaged() -> Option<String> {
    let info = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, rest) = info.split_once("\"sha1\": \"")?;
    let commit: String = rest.chars().take_while(char::is_ascii_hexdigit).collect();
    Some(commit.get(..12)?.to_owned())
}

/// Returns the commit of the git repository, if its root is this directory.
fn checked_out() -> Option<String> {
    let root = git(&["rev-parse", "--show-toplevel"])?;
    if Path::new(&root).canonicalize().ok()? != Path::new(".").canonicalize().ok()? {
        return None;
    }
    // Each commit, checkout and merge appends a line to this log. If the file were missing, cargo would run this
    // script in every build.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists());
    println!("cargo::rerun-if-changed={}", log.as_deref().unwrap_or("build.rs"));
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| output.status.success() && !text.is_empty())
}
