//! One mounted file through its generations: parsing, detection of changes, checksums.
//!
//! Writes and inode numbers are not handled in this module.
//!
//! - `file`: one file, from the first stat of its path until another file is at that path
//! - `open_files`: a bounded number of parsed files that are kept open
//! - `serials`: serial numbers of the files in a mount
//! - `generation`: a snapshot of a file, which never changes
//! - `verify`: when the checksum of a block is checked

pub(crate) mod file;
pub(crate) mod generation;
pub(crate) mod open_files;
pub(crate) mod serials;
pub(crate) mod verify;
