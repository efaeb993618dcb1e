//! Code shared by the integration tests.
//!
//! * [`asdf`]: a builder of ASDF files, intact or damaged, with the data that a reader must find. The builder
//!   does not use the library, because the library's results are compared with it.
//! * [`blosc2_builder`]: a builder of Blosc2 chunks and frames.
//! * [`bloscpack_builder`]: a builder of Bloscpack files.
//! * [`case`]: one file with two blocks, mounted for writing.
//! * [`daemon`]: a directory with a file, and the program run on it.
//! * [`damaged`]: damaged ASDF files, of each kind and at random.
//! * [`dice`]: reproducible random numbers.
//! * [`disk`]: a separate file system.
//! * [`gsd_builder`]: a builder of GSD files.
//! * [`encode`]: stored forms of a block's data, one for each codec and dialect.
//! * [`mount`]: a mount that cleans up after itself.
//! * [`namespace`]: shell scripts in a mount namespace of their own.
//! * [`place`]: files in memory, a second kind of place.
//! * [`sim`]: a file system in memory, with all states that a crash may leave.
//! * [`server`]: an HTTP server that misbehaves on demand.
//! * [`site`]: files on that server, as a web server or S3 has them.
//! * [`python`]: the Python environment with the reference implementation.

#![allow(missing_docs, missing_debug_implementations, unreachable_pub)]
#![allow(clippy::unwrap_used, clippy::new_without_default)] // a test fails by panicking

pub mod asdf;
pub mod blosc2_builder;
pub mod bloscpack_builder;
#[allow(unsafe_code)] // close(2), for its result
pub mod case;
pub mod daemon;
pub mod damaged;
pub mod dice;
pub mod disk;
pub mod encode;
pub mod gsd_builder;
pub mod mount;
pub mod namespace;
pub mod place;
pub mod python;
pub mod schemas;
#[path = "../../crates/asdf-remote/src/tests/server.rs"]
pub mod server;
pub mod sim;
pub mod site;

use std::path::Path;

/// Returns the names in a directory, in alphabetical order.
pub fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Returns the MD5 of some bytes, in hexadecimal.
pub fn md5(bytes: &[u8]) -> String {
    use md5::Digest;
    md5::Md5::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
