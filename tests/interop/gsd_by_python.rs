//! GSD files written by the gsd package, mounted and compared with its readers.

use std::fs;
use std::path::{Path, PathBuf};

use common::mount::{Mounted, fresh_folder};
use common::python::{python, root, run};

/// Mounts the files and compares everything in `arrays/` with Python; returns the number of compared files.
fn compare(files: impl IntoIterator<Item = PathBuf>) -> usize {
    let mounts: Vec<_> = files.into_iter().map(|file| (Mounted::file(&file), file)).collect();
    let pairs = mounts.iter().flat_map(|(mounted, file)| [file.as_path(), mounted.root()]);
    run(&python(), "compare_gsd.py", pairs).trim().parse().unwrap()
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "gsd"));
    files.sort();
    files
}

#[test]
fn frames_series_and_resolved_frames_are_those_of_gsd() {
    let folder = fresh_folder();
    let names = run(&python(), "write_gsd.py", [folder.path()]);
    let files = files_in(folder.path());
    assert_eq!(names.lines().count(), files.len());
    let compared = compare(files);
    assert!(compared > 2000, "only {compared} files were compared");
}

/// Files of gsd 1.4 to 5.0. If a frame has several chunks of a name, gsd's readers disagree on which one they
/// return.
#[test]
fn files_of_old_and_new_writers_are_those_of_gsd() {
    let mut files = files_in(&root().join("tests/fixtures/gsd"));
    files.retain(|file| !file.to_str().unwrap().contains("duplicate"));
    assert!(files.len() >= 15, "only {} fixtures", files.len());
    let compared = compare(files);
    assert!(compared > 2000, "only {compared} files were compared");
}

#[test]
fn the_trajectory_of_the_examples_is_that_of_gsd() {
    assert!(compare([root().join("examples/trajectory.gsd")]) > 300);
}
