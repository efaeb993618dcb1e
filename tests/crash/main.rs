//! A save that is interrupted leaves the old file or the new one.
//!
//! `simulated` replays every state that a crash may leave in a file system that remembers what was not
//! made durable, for every plan, and stops every recovery as well. `random_saves` holds saves against a model.
//! `tests/mount/write/plans.rs` does the same on real file systems.

#![allow(clippy::unwrap_used)] // the lint takes only test functions for tests

#[path = "../common/dice.rs"]
mod dice;

mod every_layout;
mod files;
mod journals;
mod random_saves;
mod sim;
mod simulated;
