//! `refs.json` and `--refs`: zarr, xarray and Dask read the arrays from the file itself, as Python asdf does.

use std::path::Path;

use crate::common::mount::{Mounted, fresh_folder};
use crate::common::python::{python, run};

#[test]
fn references_lead_to_the_arrays_of_python() {
    let folder = fresh_folder();
    run(&python(), "write_refs.py", [folder.path()]);
    let trajectory = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/trajectory.gsd");
    std::fs::copy(trajectory, folder.path().join("run.gsd")).unwrap();
    let mounted = Mounted::file(folder.path());
    let program = Path::new(env!("CARGO_BIN_EXE_asdf-mount"));
    let compared = run(&python(), "read_refs.py", [folder.path(), mounted.root(), program]);
    assert!(compared.trim().parse::<usize>().unwrap() > 90, "{compared}");
    mounted.unmount();
}
