//! Locations: local paths and other places, links, and detection of the files that a format recognises.
//!
//! Only this module calls openat and stat for files that a mount shows, and only this module knows the kinds
//! of locations. It knows no inode numbers and no format.
//!
//! - `location`: the path to a source: a local path, or a place elsewhere
//! - `path`: local paths, from directories that were opened before mounting; targets of symbolic links; files
//!   to which a source refers
//! - `pinned`: one version of a file elsewhere
//! - `at`: system calls on a name in an open directory
//! - `mounts`: mounts of this program, which are never entered; stalling file systems
//! - `detect`: the type of the file at a name; which files a format recognises
//! - `stat`, `acl`: attributes of a file, and the effect of access control lists on its mode

pub mod acl;
pub mod at;
pub mod detect;
pub mod location;
pub mod mounts;
pub mod path;
mod pinned;
pub mod stat;
