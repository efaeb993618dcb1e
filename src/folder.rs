//! One mounted file through its generations: parsing, detection of changes, checksums.
//!
//! This module knows no writes and no inode numbers.
//!
//! - `mounted_file`: one file from the first look until another file takes its name
//! - `open_files`: a bounded number of parsed files that are kept open
//! - `serials`: serial numbers of the files in a mount
//! - `generation`: a snapshot of a file, which never changes
//! - `verify`: when the checksum of a block is checked

pub(crate) mod generation;
pub(crate) mod mounted_file;
pub(crate) mod open_files;
pub(crate) mod serials;
pub mod verify;
