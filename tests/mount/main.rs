//! The program on real mounts: how it begins, serves and ends.
//!
//! Needs root, `/dev/fuse`, and the packages fuse3, mount and util-linux. What is missing makes a test
//! fail, not pass.

#![allow(clippy::unwrap_used)] // a panic is how a test fails

#[path = "../common/mod.rs"]
mod common;

mod acl;
mod completion;
mod daemon;
mod damage;
mod detached;
mod documents;
mod failures;
mod fstab;
mod kept;
mod lifecycle;
mod limits;
mod options;
mod outputs;
mod progress;
mod shown;
mod state;
mod table;
mod texts;
mod user;
