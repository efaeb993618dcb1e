//! Saves compared with a model of the file, in a simulated file system.

#![allow(clippy::unwrap_used)] // the lint recognises only test functions as tests

#[path = "../crash/cases.rs"]
mod cases;
#[allow(dead_code)] // crash uses all of it
mod every_layout;
#[path = "../crash/files.rs"]
mod files;
mod random_saves;
