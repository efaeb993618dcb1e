//! `--catalog`: DuckDB and Dask read it by the statements of `docs/scale.md`.
//!
//! `scripts/test-spark` runs the Spark session: pyspark and a Java runtime take minutes to install.

use std::ffi::OsStr;

use common::mount::fresh_folder;
use common::python::{python, run};

#[test]
fn the_sessions_of_the_document_read_a_catalogue() {
    let folder = fresh_folder();
    run(&python(), "write_refs.py", [folder.path()]);
    let program = OsStr::new(env!("CARGO_BIN_EXE_asdf-mount"));
    let described = run(&python(), "read_catalog.py", [folder.path().as_os_str(), program]);
    assert!(described.trim().parse::<usize>().unwrap() > 9, "{described}");
}
