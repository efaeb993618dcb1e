//! `--catalog`: DuckDB and Dask read it by the statements of `docs/scale.md`.
//!
//! The Spark session is not run here: pyspark and a Java runtime are 700 MB more to install. By hand, with both
//! installed: `write_refs.py DIR`, then `read_catalog.py DIR target/debug/asdf-mount spark`, both in
//! `tests/python`.

use std::ffi::OsStr;

use crate::common::mount::fresh_folder;
use crate::common::python::{python, run};

#[test]
fn the_sessions_of_the_document_read_a_catalogue() {
    let folder = fresh_folder();
    run(&python(), "write_refs.py", [folder.path()]);
    let program = OsStr::new(env!("CARGO_BIN_EXE_asdf-mount"));
    let described = run(&python(), "read_catalog.py", [folder.path().as_os_str(), program]);
    assert!(described.trim().parse::<usize>().unwrap() > 9, "{described}");
}
