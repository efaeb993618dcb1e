//! The program and its mounts: start and end of a mount, options, and messages.
//!
//! Needs root, `/dev/fuse`, and the packages fuse3, mount and util-linux. If one is missing, tests fail.

#![allow(clippy::unwrap_used)] // a test fails by panicking

mod beside;
mod bulk;
mod completion;
mod desktop;
mod detached;
mod documents;
mod dry_run;
mod failures;
mod first_hour;
mod folder;
mod fstab;
mod given;
mod history;
mod hostile;
mod idle;
mod info;
mod listed;
mod look;
mod options;
mod outputs;
mod privileges;
mod progress;
mod remount;
mod shown;
mod sky;
mod start_and_end;
mod state_dir;
mod strangers;
mod systemd;
mod texts;
mod user;
mod web_pages;
