//! Reading through real mounts: blocks of every codec, the tables beside them, damage and limits.
//!
//! Needs root, `/dev/fuse` and the package acl. What is missing makes a test fail, not pass.

#![allow(clippy::unwrap_used)] // a panic is how a test fails

#[path = "../../common/mod.rs"]
mod common;

mod access;
mod acl;
mod adapter;
mod arrays_folder;
mod blocks_yaml;
mod bloscpack_folder;
mod broken;
mod damaged_blocks;
mod external_arrays;
mod gsd_folder;
mod large;
mod limits;
mod listed;
mod mapped_by_python;
mod meanwhile;
mod memory;
mod pages;
mod seek_tables;
mod verify;
mod window;
