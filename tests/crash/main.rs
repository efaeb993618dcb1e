//! An interrupted save leaves the old file or the new one.
//!
//! `simulated` replays every state that a crash may leave, in a simulated file system that tracks durability,
//! for every plan, and also interrupts every recovery; `states` does so for far more states, and with failing and full
//! disks. `tests/mount/write/plans.rs` tests real file systems.

#![allow(clippy::unwrap_used)] // the lint recognises only test functions as tests

mod cases;
mod files;
mod journals;
mod simulated;
mod states;
