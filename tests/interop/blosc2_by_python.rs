//! Blosc2 frames written by python-blosc2, and ASDF files with blocks of Blosc2, compared with the original data.

use std::fs;

use crate::common::mount::{Mounted, fresh_folder, program};
use crate::common::python::{python, run};

#[test]
fn data_and_arrays_are_those_that_were_written() {
    let folder = fresh_folder();
    let names = run(&python(), "write_blosc2.py", [folder.path()]);
    let names: Vec<_> = names.lines().collect();
    assert_eq!(names.len(), 60);
    let mounted = Mounted::file(folder.path());
    for name in &names {
        let within = |path: &str| mounted.path(format!("{name}/{path}"));
        let (stem, ending) = name.split_once('.').unwrap();
        let beside = |ending: &str| fs::read(folder.path().join(format!("{stem}.{ending}"))).ok();
        let data = beside("bin").unwrap();
        assert!(fs::read(within("arrays/data.npy")).ok() == beside("npy"), "{name}");
        let count = fs::read_dir(within("blocks")).unwrap().count();
        let blocks: Vec<_> =
            (0..count).map(|n| fs::read(within(&format!("blocks/{n}.bin"))).unwrap()).collect();
        assert!(blocks.concat() == data, "{name}");
        if ending != "asdf" {
            assert!(fs::read(within("data.bin")).unwrap() == data, "{name}");
        }
    }
    mounted.unmount();
    let mut check = std::process::Command::new(program());
    let output = check.args(["--check", "-q"]).arg(folder.path()).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
}
