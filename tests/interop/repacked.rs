//! Files that `--repack` writes, opened by Python asdf: trees and arrays are those of the old file, and each checksum is
//! right.

use std::process::Command;

use common::mount::fresh_folder;
use common::python::{python, run};

const CODECS: [&str; 6] =
    ["--codec=zlib", "--codec=zstd", "--codec=lz4", "--codec=bzp2", "--codec=none", "-q"];
const FILES: usize = 30;

#[test]
fn python_reads_the_same_from_a_tidy_file() {
    let folder = fresh_folder();
    let program = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_asdf-mount"));
        let output = command.args(arguments).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let count = FILES.to_string();
    run(&python(), "write_views.py", [folder.path().to_str().unwrap(), &count]);
    let mut smaller = 0;
    for n in 0..FILES {
        let old = format!("{n}.asdf");
        let new = format!("{n}.new.asdf");
        if n % 5 == 0 {
            program(&["-q", "-o", "history=off", "--unset", "unused", &old]);
        }
        let told = program(&["--repack", &old, "-O", &new, CODECS[n % CODECS.len()]]);
        assert_eq!(told.contains(": block 0: left out: no array is in it\n"), n % 5 == 0, "{told}");
        smaller += usize::from(told.contains(" bytes are in use"));
    }
    assert!(smaller > 15, "{smaller}");
    let compared = run(&python(), "compare_repacked.py", [folder.path()]);
    assert!(compared.trim().parse::<usize>().unwrap() > 200, "{compared}");
}
