//! Mounts that fail: one line of error, and no leftovers.

use std::fs;

use common::daemon::{Bench, failed, succeeded};

/// Arguments, exit status, and a part of the error.
const FAILURES: &[(&[&str], i32, &str)] = &[
    (&[], 2, "SOURCE is required"),
    (&["mnt"], 2, "mnt: is a directory; give a MOUNTPOINT, too"),
    (&["missing.asdf"], 1, "missing.asdf: no such file or directory"),
    (&["plain"], 2, "plain: has no extension to leave out"),
    (&["full.asdf"], 1, "full: is not empty; name a directory to mount on"),
    (&["file.x.asdf"], 1, "file.x: is not a directory; name a directory to mount on"),
    (&["/proc/version.asdf"], 1, "no such file or directory"),
    (
        &["--json", "a.asdf", "new"],
        2,
        "--json needs --list, --ls, --search, --get, --set, --unset, --filter, --log, --check, --repair or --repack",
    ),
    (&["--dry-run", "a.asdf", "new"], 2, "--dry-run needs --edit, --set-tree, --set, --unset or --filter"),
    (&["-o", "remount,ro", "mnt"], 1, "mnt: not a mount of asdf-mount"),
    (&["-o", "remount,ro", "missing"], 1, "missing: not a mount of asdf-mount"),
    (&["-o", "remount,noatime", "mnt"], 2, "-o remount needs ro or rw"),
    (&["--check"], 2, "--check needs at least one FILE"),
    (&["--catalog", "--files-from", "/dev/zero"], 2, "/dev/zero: a name in the list is longer than any path"),
    (&["--nonsense", "a.asdf", "new"], 2, "unexpected argument '--nonsense' found"),
    (&["-o", "alow_other", "a.asdf", "new"], 2, "did you mean allow_other?"),
    (&["a.asdf", "new", "-o"], 2, "a value is required"),
    (&["missing.asdf", "new"], 1, "missing.asdf: no such file or directory"),
    (&["a.asdf", "missing.asdf", "new"], 1, "missing.asdf: no such file or directory"),
    (&["pipe", "new"], 2, "pipe: neither a regular file nor a directory"),
    (&["a.asdf", "a.asdf"], 2, "a.asdf: is a file, but the last argument is the directory to mount on"),
    (&["a.asdf", "pipe"], 1, "pipe: not a directory; give an existing or a new directory"),
    (&["a.asdf", "a.asdf/new"], 1, "not a directory"),
    (
        &["a.asdf", "missing/new"],
        1,
        "missing: no such directory; only the last component of a mountpoint is created",
    ),
    (&["a.asdf", ""], 2, "argument 2 is an empty name (''); give a file or directory"),
    (&["", "new"], 2, "argument 1 is an empty name"),
    (&["-u", ""], 2, "argument 1 is an empty name"),
    (&["--check", "a.asdf", ""], 2, "argument 2 is an empty name"),
    (&["--set-tree", "", "a.asdf"], 2, "--set-tree got an empty name (''); give a file"),
    (&["--log-file", "", "a.asdf", "new"], 2, "--log-file got an empty name"),
    (&["--umount", "mnt"], 2, "unexpected argument '--umount' found; did you mean --unmount?"),
    (&["--readonly", "a.asdf", "new"], 2, "did you mean --read-only?"),
    (&["--chek", "a.asdf"], 2, "did you mean --check?"),
    (&["--generate", "fsh"], 2, "did you mean fish?"),
    (&["-o", "ro,=x", "a.asdf", "new"], 2, "-o has a value without a name"),
    (&["-o", "cache=0", "a.asdf", "new"], 2, "-o cache=0 is not a size such as 64M or 1G, at least 1M"),
    (&["-u", "no/such/folder"], 1, "no/such/folder: not mounted: no such directory"),
    (&["--recover", "pipe"], 1, "pipe: is not a regular file"),
    (&["a.asdf", "dangling"], 1, "dangling: dangling symbolic link"),
    (&["--log-file", "missing/log", "a.asdf", "new"], 1, "missing/log: no such file or directory"),
    (&["-f", "--log-file", "missing/log", "a.asdf", "new"], 1, "--log-file /"),
    (&["-u", "mnt"], 1, "mnt: not a mountpoint; "),
    (&["-u", "missing"], 1, "missing: not mounted: no such directory"),
    (&["-u", "/proc"], 1, "/proc: a mount of type proc, not of asdf-mount"),
];

#[test]
fn each_is_told_in_one_line_and_leaves_nothing() {
    let bench = Bench::new();
    assert!(std::process::Command::new("mkfifo").arg(bench.path("pipe")).status().unwrap().success());
    std::os::unix::fs::symlink("nowhere", bench.path("dangling")).unwrap();
    for name in ["plain", "full.asdf", "file.x.asdf", "file.x"] {
        fs::copy(bench.source(), bench.path(name)).unwrap();
    }
    fs::create_dir_all(bench.path("full/of")).unwrap();
    let before = names(&bench);
    for (arguments, status, says) in FAILURES {
        let said = failed(&bench.run(*arguments), *status);
        assert!(said.contains(says), "{arguments:?}: {said}");
        assert_eq!(names(&bench), before, "{arguments:?}");
        bench.nothing_is_left();
    }
}

fn names(bench: &Bench) -> Vec<std::ffi::OsString> {
    let mut names: Vec<_> =
        fs::read_dir(bench.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

#[test]
fn a_line_break_in_a_name_does_not_break_the_line() {
    let bench = Bench::new();
    let said = failed(&bench.run(["a\nasdf-mount: all is well\u{1b}[2J", "new"]), 1);
    assert!(said.starts_with(r"a\nasdf-mount: all is well\u{1b}[2J: no such file"), "{said}");
}

#[test]
fn mounting_twice_is_refused_and_the_first_lives_on() {
    let bench = Bench::new();
    let daemon = bench.mount(&bench.mountpoint());
    for foreground in [&["a.asdf", "mnt"][..], &["-f", "a.asdf", "mnt"]] {
        let said = failed(&bench.run(foreground), 1);
        assert!(said.contains("already mounted") && said.contains("asdf-mount -u"), "{said}");
    }
    assert!(daemon.runs());
    succeeded(&bench.run(["-u", "mnt"]));
    bench.nothing_is_left();
}

#[test]
fn a_full_stdout_is_a_failure_and_a_closed_one_is_not() {
    let bench = Bench::new();
    let output = bench.script(
        r#"asdf-mount --help | head -1 >/dev/null
           asdf-mount --help >/dev/full"#,
    );
    assert!(failed(&output, 1).contains("no space left"), "{output:?}");
}
