//! Compressed blocks on real mounts, as if they were not compressed.
//!
//! Needs `/dev/fuse`, as root or with fusermount3. What is missing makes a test fail, not pass.

#![allow(clippy::unwrap_used)] // a panic is how a test fails

#[path = "../common/mod.rs"]
mod common;

mod access;
mod broken;
mod large;
mod memory;
mod pages;
mod python;
mod verify;
mod window;
