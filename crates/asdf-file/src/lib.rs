//! Reads and changes ASDF files: head, blocks, arrays, and saves that leave the old file or the new one.
//!
//! | module | responsibility | must not |
//! |---|---|---|
//! | [`container`] | what a file is, whatever its format: tree, blocks, arrays, defects | know a format |
//! | [`asdf`] | an ASDF file: head, blocks, and the arrays of its tree | know a view |
//! | [`edit`] | saves a text into an ASDF file, whatever happens | know the mount |
//! | [`history`] | keeps the texts that saves replaced, and selects those that led to a file's present text | know a format, or fail a save |
//! | [`array`](mod@array) | arrays, contents made of others, and their file formats | know a file |
//! | [`folder`] | directories of contents, listed on demand | know a format |
//! | [`generated`] | texts that are made while they are read | know what they say |
//! | [`time`] | times as text | |
//!
//! Names of modules and types may change with each version of `asdf-mount`, for which the crate was written.

pub mod array;
pub mod asdf;
pub mod container;
pub mod edit;
pub mod folder;
pub mod generated;
pub mod history;
pub mod time;

#[cfg(test)]
#[path = "../../../tests/common/counted.rs"]
mod counted;
