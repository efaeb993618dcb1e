//! Saving through a real mount: what programs ask of `tree.yaml`, and what must come of it.
//!
//! Needs root, `/dev/fuse` and, for `editors`, the editors of Debian that `editors.rs` lists. The mounts
//! lie below the build folder, wherever that is: vim and emacs, which save in another way below a folder for
//! temporary files, are told not to.

#![allow(unsafe_code)] // close(2) for its answer, mmap(2)
#![allow(clippy::unwrap_used)] // a panic is how a test fails

#[path = "../common/mod.rs"]
mod common;

mod beside;
mod case;
mod commit;
mod editors;
mod ends;
mod levels;
mod many;
mod mirror;
mod noticed;
mod python;
mod refusals;
mod requests;
mod scratch;
mod tools;
mod warnings;
