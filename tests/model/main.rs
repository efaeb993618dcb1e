//! Saves compared with a model of the file, in a simulated file system.

#![allow(clippy::unwrap_used)] // the lint recognises only test functions as tests

#[path = "../crash/cases.rs"]
mod cases;
#[path = "../common/dice.rs"]
mod dice;
#[path = "../crash/files.rs"]
mod files;
#[allow(dead_code)] // crash uses all of it
#[path = "../common/sim/mod.rs"]
mod sim;

mod every_layout;
mod random_saves;
