//! A save that is interrupted leaves the old file or the new one.
//!
//! `simulated` replays every state that a crash may leave in a file system that remembers what was not
//! made durable, for every plan, and stops every recovery as well. `tests/mount/write/plans.rs` does the same on
//! real file systems.

#![allow(clippy::unwrap_used)] // the lint takes only test functions for tests

#[path = "../common/dice.rs"]
mod dice;
#[path = "../common/sim/mod.rs"]
mod sim;

mod cases;
mod files;
mod journals;
mod simulated;
