//! What saving promises, held against real mounts, real file systems and the command line.
//!
//! | file | what is tried |
//! |---|---|
//! | `writers` | two writers of one file, and changes by other programs |
//! | `trouble` | full disks, failing ones, closed directories, limits |
//! | `moving` | reading while blocks move |
//! | `leaving` | unmounting with a draft open or a save running |
//! | `killed` | kill -9 in the midst of saves, for each plan |
//! | `random` | edits, refusals, kills and remounts against a model |
//! | `kinds` | files of every kind and layout |
//! | `kept` | what a save must leave as it was: holes, owners, ACLs, links |
//! | `commands` | `--edit`, `--set-tree`, `--recover` |
//!
//! Needs root, `/dev/fuse`, loop devices and a C compiler.

#![allow(unsafe_code)] // mmap(2)
#![allow(clippy::unwrap_used)] // a panic is how a test fails

#[path = "../common/mod.rs"]
mod common;

mod commands;
mod faults;
mod kept;
mod killed;
mod kinds;
mod leaving;
mod moving;
mod place;
mod python;
mod random;
mod shared;
mod trouble;
mod writers;
