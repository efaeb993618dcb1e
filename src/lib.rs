//! Mounts an ASDF file as a directory.
//!
//! The modules; imports go one way, from the top of this list down. `docs/design.md` says more.
//!
//! | module | what it is |
//! |---|---|
//! | [`cli`] | the arguments |
//! | [`daemon`] | one mount from start to end |
//! | [`options`], [`exit`] | what `-o` asks of a mount; what the exit status says |
//! | [`fuse`] | translates the kernel's requests, nothing else |
//! | [`vfs`] | inode numbers, lookup, listings, open files; picks the module that answers |
//! | [`overlay`] | the writable layer in the folder of one file |
//! | [`folder`] | one mounted file through its generations |
//! | [`host`] | mirrored directories: the system's calls, links, which files a format recognises |
//! | [`view`] | the folders that every format has: root, blocks, status |
//! | [`format`](mod@format) | what knows one kind of file; [`format::Container`] is what each opens to |
//! | [`codec`], [`yaml`] | stored bytes to content; the events of a YAML text |
//! | [`decode`] | decoded bytes at any offset: units, read-ahead, idle decoders |
//! | [`cache`], [`content`] | decoded units under a byte budget; random-access bytes of known length, folders of them |
//! | [`source`] | the file under the mount |
//! | [`check`] | `--check`: reads all of a file and says what is wrong |
//! | `sync`, `workers` | locks and their order; threads for long work |
//! | [`log`] | where the daemon tells what it does: stderr, syslog or a file |
//! | [`user_dirs`] | where this user's state, cache and temporary files are, used only where no other user can write |
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
mod workers;
pub mod yaml;

pub use error::{Error, Kind, Result};
