//! Shows files as folders: the list of formats, and what the tree of an ASDF file is shown as.
//!
//! | module | responsibility | must not |
//! |---|---|---|
//! | [`mod@format`] | the list of formats, the list of ASDF's views (`format/asdf.rs`), GSD, Bloscpack, Blosc2 | know the mount |
//! | [`views`] | FITS, tables, JSON, pictures, references, the exploded form | know each other |
//! | [`info`] | `--info` and `info.txt`: a file on one screen, from the document of its tree; its page | know a format |
//! | [`parquet`] | tables as Parquet files, whose length is known before they are written | know a format |
//! | [`picture`] | pictures in memory, and as PNG | know a format |
//!
//! Names of modules and types may change with each version of `asdf-mount`, for which the crate was written.

pub mod format;
pub mod info;
pub mod parquet;
pub mod picture;
pub mod views;

#[cfg(test)]
#[path = "../../../tests/common/counted.rs"]
mod counted;
