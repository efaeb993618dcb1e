//! The reference files of the ASDF standard, of every version, compared with their `.yaml` twins.
//!
//! They belong to another project. If `../shared/fixtures/asdf-reference` does not exist beside the checkout,
//! the test prints this and passes.

use std::fs;
use std::path::{Path, PathBuf};

use common::mount::Mounted;
use common::python::{python, root, run};

/// Returns the `.asdf` files of a directory, each with the twin that has its data inline.
fn pairs(folder: &Path) -> Vec<(PathBuf, PathBuf)> {
    let mut pairs: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "asdf"))
        .map(|path| {
            let stem = path.file_stem().unwrap().to_str().unwrap().trim_end_matches("0000").to_owned();
            let twin = folder.join(format!("{stem}.yaml"));
            (path, twin)
        })
        .filter(|(_, twin)| twin.exists())
        .collect();
    pairs.sort();
    pairs
}

#[test]
fn every_file_agrees_with_its_twin() {
    let set = root().join("../shared/fixtures/asdf-reference");
    if !set.is_dir() {
        println!("the reference set is not at {}: nothing compared", set.display());
        return;
    }
    let mut versions: Vec<PathBuf> = fs::read_dir(&set).unwrap().map(|entry| entry.unwrap().path()).collect();
    versions.retain(|path| path.is_dir());
    let mut arguments = Vec::new();
    let mut mounts = Vec::new();
    for version in versions {
        let mounted = Mounted::file(&version);
        for (file, twin) in pairs(&version) {
            arguments.extend([mounted.path(file.file_name().unwrap()), twin]);
        }
        mounts.push(mounted);
    }
    let files = arguments.len() / 2;
    let arrays: usize = run(&python(), "compare_reference.py", arguments).trim().parse().unwrap();
    println!("{files} files of the reference set compared, {arrays} arrays");
    assert!(arrays > 0, "the reference set is there, but nothing was compared");
}
