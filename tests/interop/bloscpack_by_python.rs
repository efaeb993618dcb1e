//! Bloscpack files written by the bloscpack package, mounted and compared with the original data.

use std::fs;

use common::mount::{Mounted, fresh_folder, program};
use common::python::{python, run};

#[test]
fn data_arrays_and_metadata_are_those_that_were_packed() {
    let folder = fresh_folder();
    let names = run(&python(), "write_bloscpack.py", [folder.path()]);
    let names: Vec<_> = names.lines().collect();
    assert_eq!(names.len(), 50);
    let mounted = Mounted::file(folder.path());
    for name in &names {
        let within = |path: &str| mounted.path(format!("{name}.blp/{path}"));
        let beside = |ending: &str| fs::read(folder.path().join(format!("{name}.{ending}"))).ok();
        let data = beside("bin").unwrap();
        assert!(fs::read(within("data.bin")).unwrap() == data, "{name}");
        assert!(fs::read(within("arrays/data.npy")).ok() == beside("npy"), "{name}");
        if let Some(metadata) = beside("json") {
            assert_eq!(fs::read(within("meta.json")).unwrap(), metadata, "{name}");
        }
        let count = fs::read_dir(within("blocks")).unwrap().count();
        let blocks: Vec<_> =
            (0..count).map(|n| fs::read(within(&format!("blocks/{n}.bin"))).unwrap()).collect();
        assert!(blocks.concat() == data, "{name}");
    }
    mounted.unmount();
    let mut check = std::process::Command::new(program());
    let output = check.args(["--check", "-q"]).arg(folder.path()).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
}
