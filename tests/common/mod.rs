//! What the integration tests share.
//!
//! * [`asdf`]: a builder of ASDF files, whole or damaged, with what a reader has to find in them. It
//!   uses nothing of the library, so that it can be held against it as a model.
//! * [`bloscpack`]: a builder of Bloscpack files.
//! * [`case`]: one file with two blocks, mounted for writing.
//! * [`daemon`]: a folder with a file, and the program run on it.
//! * [`dice`]: random numbers that are the same ones in every run.
//! * [`disk`]: a file system of its own.
//! * [`gsd`]: a builder of GSD files.
//! * [`encode`]: stored forms of a block's data, one per codec and dialect.
//! * [`mount`]: a mount that cleans up after itself.
//! * [`python`]: the Python environment with the reference implementation.

#![allow(dead_code, unused_imports, unreachable_pub, missing_docs, missing_debug_implementations)]

pub mod asdf;
pub mod bloscpack_builder;
#[allow(unsafe_code)] // close(2) for its answer
pub mod case;
pub mod daemon;
pub mod dice;
pub mod disk;
pub mod encode;
pub mod gsd_builder;
pub mod mount;
pub mod python;
