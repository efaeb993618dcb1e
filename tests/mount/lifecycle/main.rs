//! The program and its mounts: start and end of a mount, options, and messages.
//!
//! Needs root, `/dev/fuse`, and the packages fuse3, mount and util-linux. If one is missing, tests fail.

#![allow(clippy::unwrap_used)] // a test fails by panicking

#[path = "../../common/mod.rs"]
mod common;

mod completion;
mod desktop;
mod detached;
mod documents;
mod failures;
mod folder;
mod fstab;
mod history;
mod hostile;
mod look;
mod options;
mod outputs;
mod progress;
mod shown;
mod start_and_end;
mod state_dir;
mod systemd;
mod texts;
mod user;
