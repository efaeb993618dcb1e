//! The library as a Rust program uses it: only what its documentation shows.

#![allow(clippy::unwrap_used)] // a test fails by panicking

mod catalog;
mod reading;
mod saving;
mod walk;

use std::path::{Path, PathBuf};

/// Returns the path of a file of the repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
