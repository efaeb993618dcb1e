//! `--version`, and with `--verbose` the facts that a bug report needs.

use seekable::codec;

use super::PROGRAM;
use crate::daemon;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the text of `--version`.
pub(super) fn text(verbose: bool) -> String {
    let mut text = format!("{PROGRAM} {VERSION}\n");
    if verbose {
        let rows = rows();
        let width = rows.iter().map(|(name, _)| name.len() + 1).max().unwrap_or(0);
        for (name, fact) in rows {
            let name = format!("{name}:");
            text += &seekable::error::one_line(&format!("{name:width$} {fact}"));
            text.push('\n');
        }
    }
    text
}

/// Returns the names of the facts and the facts, in the order of the text.
fn rows() -> Vec<(&'static str, String)> {
    let library = if cfg!(target_env = "musl") { "musl" } else { "glibc" };
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    let mut rows = Vec::new();
    rows.extend(option_env!("ASDF_MOUNT_COMMIT").map(|commit| ("commit", commit.to_owned())));
    rows.push(("build", format!("{build}, {}, {library}", std::env::consts::ARCH)));
    rows.push((
        "servers",
        if cfg!(feature = "remote") { "http, https, s3" } else { "not built in" }.to_owned(),
    ));
    rows.push(("codecs", codec::NAMES.to_owned()));
    rows.push(("CPU features", codec::cpu_features().to_owned()));
    rows.push(("system", system()));
    rows.push(("kernel", first_line("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned())));
    rows.extend(daemon::facts());
    rows
}

/// Returns the name of the distribution.
fn system() -> String {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or_else(|| "unknown".to_owned(), |name| name.trim_matches('"').to_owned())
}

fn first_line(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.lines().next()?.to_owned())
}
