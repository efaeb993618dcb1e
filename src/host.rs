//! Mirrored directories, as the system shows them: locations, links, and which files a format recognises.
//!
//! This module alone calls openat and stat for what a mount shows. It knows no inode numbers and no format.
//!
//! - `location`: where a source lies, reached from directories that were opened before mounting; where symbolic
//!   links lead; files that a source names
//! - `at`: the system's calls on a name in an open directory
//! - `mounts`: mounts of this program, which are not entered
//! - `detect`: what lies at a name; which files a format recognises
//! - `stat`, `acl`: what the system says of a file, and what access control lists leave of it

pub(crate) mod acl;
pub(crate) mod at;
pub(crate) mod detect;
pub(crate) mod location;
pub(crate) mod mounts;
pub(crate) mod stat;
