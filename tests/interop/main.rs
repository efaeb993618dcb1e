//! Mounts held against other programs: what Python asdf writes, what numpy reads, the reference set.
//!
//! | module | what is mounted | the truth |
//! |---|---|---|
//! | `written_by_python` | files written at test time by Python asdf, new and old | the numpy arrays before they were written |
//! | `built` | files of the tests' builder | Python asdf: is the builder right? |
//! | `doubtful` | files with damaged block headers | Python asdf, new and old; for old layouts the data |
//! | `reference` | the reference files of the ASDF standard, if they are here | their twins with the data in the tree |
//! | `saved` | nothing: which texts a save accepts | whether Python asdf, new and old, opens them as the same data |
//! | `exploded` | files of every kind of block, and copies of their exploded form | Python asdf; for old layouts the data |
//! | `fits` | arrays, and FITS files that nodes describe | astropy, gwcs |
//! | `shared_fixtures` | `tests/fixtures/asdf`, made once by its script | two formulas |
//! | `bloscpack_by_python` | files written at test time by the bloscpack package | the data before they were written |
//! | `gsd_by_python` | trajectories written at test time by the gsd package, and fixtures of its old versions | its readers |
//! | `gsd_growing` | trajectories that are being written, or are written anew | a formula |
//! | `json` | trees of every type, and random ones | PyYAML, Python's JSON, jq |
//! | `preview` | pictures of arrays | numpy, by the documented formula |
//! | `tables` | tables of random columns | the columns before they were written, read by pyarrow and DuckDB |

#![allow(clippy::unwrap_used)] // a test fails where it panics

#[path = "../common/mod.rs"]
mod common;

mod arrays;
mod bloscpack_by_python;
mod built;
mod doubtful;
mod exploded;
mod fits;
mod gsd_by_python;
mod gsd_growing;
mod json;
mod preview;
mod reference;
mod saved;
mod shared_fixtures;
mod tables;
mod written_by_python;
