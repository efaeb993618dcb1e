//! `arrays/`: the arrays of Python's files are what numpy saves.

use crate::common::mount::{Mounted, fresh_folder};
use crate::common::python::{python, run};

#[test]
fn random_arrays_are_those_of_numpy() {
    let folder = fresh_folder();
    let arguments = [folder.path().as_os_str(), "7".as_ref(), "30".as_ref()];
    run(&python(), "write_arrays.py", arguments);
    let mounted = Mounted::file(folder.path());
    let counts = run(&python(), "read_arrays_folder.py", [folder.path(), mounted.root()]);
    mounted.unmount();
    let counts: Vec<usize> = counts.split_whitespace().map(|count| count.parse().unwrap()).collect();
    assert!(counts[0] > 250 && counts[1] > 100, "{counts:?}");
}

#[test]
fn arrays_in_the_tree_are_those_of_python() {
    let folder = fresh_folder();
    run(&python(), "write_inline.py", [folder.path().as_os_str(), "7".as_ref(), "30".as_ref()]);
    let mounted = Mounted::file(folder.path());
    let counts = run(&python(), "read_arrays_folder.py", [folder.path(), mounted.root()]);
    mounted.unmount();
    let compared: usize = counts.split_whitespace().next().unwrap().parse().unwrap();
    assert!(compared > 150, "{counts}");
}
