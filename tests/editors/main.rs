//! Editors and other tools that save `tree.yaml` in a real mount.
//!
//! Needs root, `/dev/fuse` and the editors of Debian listed in `terminal.rs` and `rare.rs`. The mounts lie below the build
//! directory. If this is a directory for temporary files, vim and emacs would save in another way, so the
//! drivers turn this off.

#![allow(clippy::unwrap_used)] // a test fails by panicking

mod rare;
mod terminal;
mod tools;
mod tools_in_python;
