//! Reads compressed data at any offset: zlib, bzip2, LZ4, zstd, Blosc and Blosc2.
//!
//! [`codec::open`] gives a [`content::Content`] of the decoded bytes, which any number of threads read at any offset.
//! Nothing is decoded before it is read, or twice while it is in the [`cache::Cache`], whose budget bounds the memory of
//! all contents that share it. A stream without an index is decoded once up to the place that is read, on all cores, and
//! leaves checkpoints there: later reads start at the nearest one. [`cache::store::Store`] keeps these between programs.
//!
//! Wrong bytes are never returned as right ones: a read at damage is an error, after the good bytes before it.
//!
//! ```
//! use std::io::Write;
//! use std::sync::Arc;
//!
//! use flate2::{Compression, write::ZlibEncoder};
//! use seekable::cache::Cache;
//! use seekable::codec::{self, Codec};
//! use seekable::content::{Content, Slice};
//! use seekable::source::MemorySource;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let lines: String = (0..100_000).map(|n| format!("line {n}\n")).collect();
//! let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
//! encoder.write_all(lines.as_bytes())?;
//! let stored = encoder.finish()?;
//!
//! let cache = Arc::new(Cache::new(64 << 20));
//! let len = stored.len() as u64;
//! let stored = Arc::new(Slice::new(Arc::new(MemorySource(stored)), 0, len));
//! let decoded = codec::open(Codec::Zlib, stored, lines.len() as u64, &cache)?;
//! let mut last = [0; 11];
//! decoded.read_at(decoded.len() - 11, &mut last)?;
//! assert_eq!(&last, b"line 99999\n");
//! # Ok(())
//! # }
//! ```
//!
//! ## Modules
//!
//! | module | responsibility | must not |
//! |---|---|---|
//! | [`codec`] | one directory per codec, with its seek tables | know the label of a codec in a file |
//! | [`decode`] | traits of decoders; decoded content, read-ahead, idle decoders | know a codec |
//! | [`cache`] | decoded granules under one byte budget, the store of seek tables | interpret a seek table |
//! | [`content`] | bytes of known length: slices, texts, concatenations | know a file format |
//! | [`source`] | reads at an offset, versions; the local file and its mapping; the interface of places | touch mapped bytes in user space |
//! | [`workers`], [`sync`], [`per_process`], [`user_dirs`], [`error`] | threads, locks, statics of a process, directories of this user, errors | |
//!
//! Names of modules and types may change with each version of `asdf-mount`, for which the crate was written.

pub mod cache;
pub mod codec;
pub mod content;
pub mod decode;
pub mod error;
pub mod per_process;
pub mod source;
pub mod sync;
pub mod user_dirs;
pub mod workers;

// The unit tests include tests/common/counted.rs, which imports from `seekable`, as other crates do.
#[cfg(test)]
extern crate self as seekable;

pub use error::{Error, Kind, Result};
