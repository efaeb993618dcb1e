//! Files written at test time by Python asdf, mounted and compared with numpy.

use std::fs;
use std::path::Path;
use std::process::Command;

use common::mount::{Mounted, fresh_folder, program};
use common::python::{python, run};

/// Mounts every file in `folder` made by `write_files.py` and compares every block. Returns the number of blocks.
pub(crate) fn every_block_is_numpys(folder: &Path, names: &str) -> usize {
    let mut compared = 0;
    let mut mounts = Vec::new();
    for name in names.lines() {
        let source = folder.join(format!("{name}.asdf"));
        let truth = folder.join(format!("{name}.blocks"));
        let mounted = Mounted::file(&source);
        let count = fs::read_dir(&truth).unwrap().count();
        assert_eq!(mounted.block_count(), count, "{name}: how many blocks there are");
        for n in 0..count {
            let wanted = fs::read(truth.join(format!("{n}.bin"))).unwrap();
            let size = fs::metadata(mounted.block_path(n)).unwrap().len();
            assert_eq!(size, wanted.len() as u64, "{name}: size of block {n}");
            assert!(mounted.block(n) == wanted, "{name}: block {n} holds other bytes than numpy had");
        }
        compared += count;
        mounts.push((source, mounted));
    }
    // One process compares all files: it takes longer to start than to compare one.
    let pairs = mounts.iter().flat_map(|(source, mounted)| [source.as_path(), mounted.root()]);
    let arrays = run(&python(), "read_mount.py", pairs);
    println!("{compared} blocks; arrays read and mapped by numpy, for each file:\n{arrays}");
    compared
}

#[test]
fn files_of_todays_asdf() {
    let folder = fresh_folder();
    let names = run(&python(), "write_files.py", [folder.path()]);
    for codec in ["stored", "zlib", "bzp2", "lz4", "lz4f", "zstd", "blsc", "streamed", "many"] {
        assert!(names.lines().any(|name| name == codec), "Python wrote no file {codec}: {names}");
    }
    let compared = every_block_is_numpys(folder.path(), &names);
    assert!(compared > 500, "only {compared} blocks");
}

#[test]
fn the_check_finds_nothing_wrong_with_pythons_files() {
    let folder = fresh_folder();
    let names = run(&python(), "write_files.py", [folder.path()]);
    for name in names.lines() {
        let output = Command::new(program())
            .arg("--check")
            .arg(folder.path().join(format!("{name}.asdf")))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{name}: {}\n{said}", output.status);
    }
}
