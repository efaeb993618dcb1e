//! Blosc2 frames written by python-blosc2, and ASDF files with blocks of Blosc2, compared with the original data.

use std::fs;

use common::mount::{Mounted, fresh_folder, program};
use common::python::{python, run};

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

#[test]
fn data_that_are_elsewhere_are_no_zeros() {
    let folder = fresh_folder();
    let printed = run(&python(), "write_blosc2_elsewhere.py", [folder.path()]);
    let mounted = Mounted::file(folder.path());
    let mut names = Vec::new();
    for line in printed.lines() {
        let mut words = line.split(' ');
        let name = words.next().unwrap();
        let stored: Vec<usize> = words.map(|word| word.parse().unwrap()).collect();
        let within = |path: &str| mounted.path(format!("{name}/{path}"));
        let expected = fs::read(folder.path().join(name.replace("b2nd", "bin"))).unwrap();
        let mut found = Vec::new();
        for n in 0..4 {
            match fs::read(within(&format!("blocks/{n}.bin"))) {
                Ok(chunk) => {
                    assert!(stored.contains(&n), "{name} {n}");
                    found.extend(chunk);
                }
                Err(error) => {
                    assert!(!stored.contains(&n), "{name} {n}");
                    assert_eq!(error.raw_os_error(), Some(libc::EIO), "{name} {n}");
                }
            }
        }
        assert!(found == expected, "{name}");
        let status = fs::read_to_string(within(".asdf-mount/status.yaml")).unwrap();
        let is_lazy = name.starts_with("lazy") || name.starts_with("function");
        let array = fs::read(within("arrays/data.npy"));
        if is_lazy {
            assert!(!within("arrays").exists() && !within("data.bin").exists(), "{name}");
            assert!(status.contains("so it is not shown"), "{name}: {status}");
        } else if stored.len() == 4 {
            assert!(array.unwrap() == fs::read(mounted.path("one.b2nd/arrays/data.npy")).unwrap());
            assert!(
                fs::read(within("data.bin")).unwrap() == expected && !status.contains("proxy"),
                "{status}"
            );
        } else {
            assert_eq!(array.unwrap_err().raw_os_error(), Some(libc::EIO), "{name}");
            assert!(fs::metadata(within("arrays/data.npy")).unwrap().len() > 800, "{name}");
        }
        if name == "cache.b2nd" {
            assert!(status.contains("has not fetched 3 of 4 chunks"), "{status}");
        }
        names.push(name);
    }
    assert_eq!(names.len(), 9);
    mounted.unmount();
    let catalog = std::process::Command::new(program()).arg("--catalog").arg(folder.path()).output().unwrap();
    let lazy = String::from_utf8(catalog.stdout).unwrap();
    let lazy = lazy.lines().find(|line| line.contains("lazy.b2nd")).unwrap();
    assert!(lazy.contains("\"array_count\":0"), "{lazy}");
}
