//! Mounts compared with other programs: files written by Python asdf, numpy's output, the reference files.
//!
//! | module | mounted files | compared with |
//! |---|---|---|
//! | `written_by_python` | files written at test time by Python asdf | the original numpy arrays |
//! | `built` | files of the tests' builder | Python asdf, to check the builder |
//! | `catalog` | a catalogue of files | Python asdf, through DuckDB and Dask |
//! | `doubtful` | files with damaged block headers | Python asdf; for old layouts the data |
//! | `reference` | the reference files of the ASDF standard, if available | their `.yaml` twins with inline data |
//! | `refs` | files of every codec and type, read by references | Python asdf, through zarr, xarray and Dask |
//! | `repacked` | none: files that `--repack` writes from random ones | Python asdf |
//! | `repaired` | none: files that `--repair` writes from damaged ones | Python asdf |
//! | `saved` | none: texts that a save accepts | Python asdf: does it open them as the same data? |
//! | `exploded` | files of every kind of block, and copies of their exploded form | Python asdf; for old layouts the data |
//! | `fits` | arrays, and FITS files described by nodes | astropy, gwcs |
//! | `shared_fixtures` | `tests/fixtures/asdf`, made once by its script | two formulas |
//! | `blosc2_by_python` | frames written at test time by python-blosc2, and ASDF files with blocks of Blosc2 | the original data |
//! | `bloscpack_by_python` | files written at test time by the bloscpack package | the original data |
//! | `gsd_by_python` | trajectories written at test time by the gsd package, and fixtures of its old versions | the readers of the gsd package |
//! | `gsd_growing` | trajectories while they are written or rewritten | a formula |
//! | `json` | trees of every type, and random ones | PyYAML, Python's JSON, jq |
//! | `object_store` | objects in a bucket, mounted, changed, and asked for with a wrong key | moto, a server of S3 |
//! | `preview` | pictures of arrays | numpy, by the documented formula |
//! | `rare` | files and texts of `written_by_python`, `doubtful` and `saved`; all FITS files and tables | Python asdf 5.2; fitsverify and DuckDB; only with `scripts/test --all` |
//! | `schemas` | none: random edits of a tree, checked by the schemas of packages | the validator of Python asdf |
//! | `tables` | tables of random columns | the original columns, through pyarrow and DuckDB |

#![allow(clippy::unwrap_used)] // a test fails by panicking

mod arrays;
mod blosc2_by_python;
mod bloscpack_by_python;
mod built;
mod catalog;
mod doubtful;
mod exploded;
mod fits;
mod gsd_by_python;
mod gsd_growing;
mod json;
mod object_store;
mod preview;
mod rare;
mod reference;
mod refs;
mod repacked;
mod repaired;
mod saved;
mod schemas;
mod shared_fixtures;
mod tables;
mod written_by_python;
