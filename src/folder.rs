//! One mounted file through its versions: what was parsed of it, when it changed, whether its blocks are sound.
//!
//! This module knows no writes and no inode numbers.
//!
//! - `mounted_file`: one file from the first look until another file takes its name
//! - `open_files`: the parsed files that are kept open, a bounded number
//! - `serials`: what tells the files of a mount from each other
//! - `generation`: a file as it was at one time, which never changes
//! - `verify`: when the checksum of a block is checked

pub(crate) mod generation;
pub(crate) mod mounted_file;
pub(crate) mod open_files;
pub(crate) mod serials;
pub mod verify;
