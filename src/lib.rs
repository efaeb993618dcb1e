//! Mounts an ASDF file as a directory.
//!
//! These are the modules. Imports go one way, from the top of the list to the bottom. `docs/design.md` has
//! the details.
//!
//! | module | contents |
//! |---|---|
//! | [`cli`] | the arguments |
//! | [`daemon`] | a mount from start to end |
//! | [`options`], [`exit`] | the options after `-o`; the exit statuses |
//! | [`fuse`] | translates the kernel's requests, nothing else |
//! | [`vfs`] | inode numbers, lookup, listings, open files; picks the module that answers |
//! | [`overlay`] | the writable layer in the directory of one file |
//! | [`mounted`] | one mounted file through its generations |
//! | [`local`] | mirrored directories: the system's calls, links, files of known formats |
//! | [`view`] | the directories that every format has: root, blocks, status |
//! | [`format`](mod@format) | the file formats, each of which opens a source as a [`format::Container`] |
//! | [`history`] | the texts that saves replaced |
//! | [`codec`], [`yaml`] | stored bytes to content; the events of a YAML text |
//! | [`decode`] | decoded bytes at any offset: units, read-ahead, idle decoders |
//! | [`cache`], [`content`] | decoded units under a byte budget; random-access bytes of known length, and directories of them |
//! | [`source`] | the file under the mount |
//! | [`look`] | `--ls`, `--cat`, `--extract`: a file as its mount would show it, without a mount |
//! | [`named`] | the sources that a user names: in which kind of place each is |
//! | [`remote`] | objects on servers as sources: http, https, S3 |
//! | `library` | the interface for Rust programs |
//! | [`check`] | `--check`: reads a whole file and reports its defects |
//! | `progress` | a progress line on the terminal |
//! | [`catalog`] | `--catalog`: describes each of many files in a line of JSON |
//! | `files` | the walk over many files |
//! | `sync`, `workers` | locks and their order; threads for long work |
//! | `text_diff` | unified diffs |
//! | [`time`] | times as text |
//! | [`log`] | the log, to stderr, syslog or a file |
//! | [`user_dirs`] | the user's directories for state, cache and temporary files |
//! | [`error`] | errors with file, block and offset |

pub mod cache;
pub mod catalog;
pub mod check;
pub mod cli;
pub mod codec;
pub mod content;
pub mod daemon;
pub mod decode;
pub mod error;
pub mod exit;
mod files;
pub mod format;
pub mod fuse;
pub mod history;
mod library;
pub mod local;
pub mod log;
pub mod look;
pub mod mounted;
pub mod named;
pub mod options;
pub mod overlay;
mod progress;
pub mod remote;
pub mod source;
mod sync;
mod text_diff;
pub mod time;
pub mod user_dirs;
pub mod vfs;
pub mod view;
mod workers;
pub mod yaml;

// Unit tests include tests/common/place.rs, which imports from `asdf_mount`, as integration tests do.
#[cfg(test)]
extern crate self as asdf_mount;

pub use error::{Error, Kind, Result};
pub use format::{ArrayFacts, ArraySource, Defect, Severity, Verified};
pub use library::{Array, Block, ByteOrder, Datatype, Element, Field, File, OpenOptions, SaveReport};
