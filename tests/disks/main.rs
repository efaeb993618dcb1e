//! Saves on real file systems: ext2, ext3, ext4, XFS, btrfs and tmpfs, with disks that are full and processes that are
//! killed.

#![allow(clippy::unwrap_used)] // the lint takes only test functions for tests

#[path = "../common/dice.rs"]
mod dice;
#[path = "../common/disk.rs"]
mod disk;
#[path = "../crash/files.rs"]
mod files;

mod halfway;
mod plans;
