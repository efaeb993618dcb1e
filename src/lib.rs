//! Mounts an ASDF file as a directory.
//!
//! The house on one page; arrows go one way, from the top of this list down:
//!
//! | room | what it is |
//! |---|---|
//! | [`cli`] | the arguments |
//! | [`daemon`] | one mount from start to end |
//! | [`options`], [`exit`] | what `-o` asks of a mount; what the exit status says |
//! | [`fuse`] | translates the kernel's requests, nothing else |
//! | [`tree`] | the mount's nodes, neutral of fuser and of every format |
//! | [`view`] | what is derived from a container: status, block table |
//! | [`format`](mod@format) | what knows one kind of file; [`format::Container`] is what each opens to |
//! | [`codec`], [`yaml`] | stored bytes to content; what we ask of YAML |
//! | [`decode`] | decoded bytes at any offset: units, read-ahead, idle decoders |
//! | [`cache`], [`content`] | decoded chunks under a byte budget; random-access bytes of known length |
//! | [`source`] | the file under the mount |
//! | [`check`] | `--check`: reads all of a file and says what is wrong |
//! | [`log`] | where the daemon tells what it does: stderr, syslog or a file |
//! | [`user_dirs`] | where this user's state, cache and temporary files are, and who may write there |
//! | [`error`] | what went wrong, in which file, at which place |

pub mod cache;
pub mod check;
pub mod cli;
pub mod codec;
pub mod content;
pub mod daemon;
pub mod decode;
pub mod error;
pub mod exit;
pub mod folder;
pub mod format;
pub mod fuse;
pub mod host;
pub mod log;
pub mod options;
pub mod overlay;
pub mod source;
mod sync;
pub mod user_dirs;
pub mod vfs;
pub mod view;
pub mod yaml;

pub use error::{Error, Kind, Result};
