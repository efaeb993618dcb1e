//! Editors and other tools that save `tree.yaml` in a real mount.
//!
//! Needs root, `/dev/fuse` and the editors of Debian that `terminal.rs` lists. The mounts lie below the build
//! folder, wherever that is: vim and emacs, which save in another way below a folder for temporary files, are
//! told not to.

#![allow(clippy::unwrap_used)] // a panic is how a test fails

#[path = "../common/mod.rs"]
mod common;

mod terminal;
mod tools;
mod tools_in_python;
