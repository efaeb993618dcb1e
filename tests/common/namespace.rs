//! Shell scripts in a mount namespace of their own.

use std::path::Path;
use std::process::{Command, Stdio};

/// Takes the copies of other tests' mounts away. They would keep the daemons alive: `asdf-mount -u` of such a test would
/// wait, and print why. A copy that ends meanwhile, with its mount point, is no longer there to be taken away.
const ALONE: &str = r#"
    grep ' - fuse.asdf-mount ' /proc/self/mountinfo | while read -r _ _ _ _ at _; do umount -l "$(printf %b "$at")" 2>/dev/null || true; done
"#;

/// Returns a command that runs a script in `folder`, in a mount namespace without mounts of this program, for at most
/// `seconds`. Mounts that the script leaves end with it.
pub fn script_in_namespace(folder: &Path, seconds: u32, script: &str) -> Command {
    let mut command = Command::new("timeout");
    command
        .arg(seconds.to_string())
        .args(["unshare", "-m", "sh", "-euc", &format!("{ALONE}{script}")])
        .current_dir(folder)
        .stdin(Stdio::null());
    command
}
