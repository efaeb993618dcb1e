//! A save that is interrupted leaves the old file or the new one.
//!
//! `simulated` replays every state that a crash may leave in a file system that remembers what was not
//! made durable, for every plan, and stops every recovery as well. `disks` does it for real, on ext4,
//! XFS, btrfs and tmpfs, with disks that are full and processes that are killed. `random` holds saves
//! against a model.

#![allow(clippy::unwrap_used)] // the lint takes only test functions for tests

#[path = "../common/dice.rs"]
mod dice;
#[path = "../common/disk.rs"]
mod disk;

mod disks;
mod files;
mod halfway;
mod journals;
mod layouts;
mod random;
mod sim;
mod simulated;
