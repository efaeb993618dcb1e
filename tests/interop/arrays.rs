//! `arrays/`: the arrays in files written by Python are equal to numpy's output.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use common::mount::{Mounted, fresh_folder};
use common::python::{python, run};

#[test]
fn random_arrays_are_those_of_numpy() {
    let folder = fresh_folder();
    let arguments = [folder.path().as_os_str(), "7".as_ref(), "10".as_ref()];
    run(&python(), "write_arrays.py", arguments);
    let mounted = Mounted::file(folder.path());
    let counts = run(&python(), "read_arrays_folder.py", [folder.path(), mounted.root()]);
    mounted.unmount();
    let counts: Vec<usize> = counts.split_whitespace().map(|count| count.parse().unwrap()).collect();
    assert!(counts[0] > 80 && counts[1] > 30, "{counts:?}");
}

#[test]
fn arrays_in_the_tree_are_those_of_python() {
    let folder = fresh_folder();
    run(&python(), "write_inline.py", [folder.path().as_os_str(), "7".as_ref(), "6".as_ref()]);
    let mounted = Mounted::file(folder.path());
    let counts = run(&python(), "read_arrays_folder.py", [folder.path(), mounted.root()]);
    mounted.unmount();
    let compared: usize = counts.split_whitespace().next().unwrap().parse().unwrap();
    assert!(compared > 50, "{counts}");
}

#[test]
fn wrapped_arrays_lie_below_their_keys() {
    let folder = fresh_folder();
    let told = run(&python(), "write_astropy.py", [folder.path()]);
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let all = |key: &str| -> BTreeSet<String> {
        told[key].as_array().unwrap().iter().map(|path| path.as_str().unwrap().to_owned()).collect()
    };
    let mounted = Mounted::file(folder.path().join("astropy.asdf"));
    // The mask of a column is a file beside it.
    let expected: BTreeSet<String> =
        all("paths").iter().map(|path| path.replace("/data/mask", "/data.mask")).collect();
    let mut found = BTreeSet::new();
    files(&mounted.path("arrays"), "", &mut found);
    assert_eq!(found, expected);
    for path in all("expected") {
        let ours = fs::read(mounted.path(format!("arrays/{path}.npy"))).unwrap();
        let saved = fs::read(folder.path().join(format!("expected/{}.npy", path.replace('/', "+")))).unwrap();
        assert!(ours == saved, "{path} differs from numpy.save");
    }
    mounted.unmount();
}

/// Collects the paths of all files below a directory, without their ending.
fn files(folder: &Path, above: &str, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            files(&entry.path(), &format!("{above}{name}/"), found);
        } else {
            found.insert(format!("{above}{}", name.strip_suffix(".npy").unwrap()));
        }
    }
}
