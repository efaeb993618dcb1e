//! The mount's own information: its space, and its log.

use std::fs;

use rustix::process::Signal;

use common::daemon::{Bench, Daemon, succeeded};

#[test]
fn an_idle_mount_is_empty_and_not_full() {
    let bench = Bench::new();
    for options in ["rw", "ro"] {
        succeeded(&bench.run(["-o", options, "a.asdf", "mnt"]));
        for column in ["pcent", "ipcent"] {
            let output = bench.shell(&format!("df --output={column} mnt | tail -n 1"));
            let shown = String::from_utf8(output.stdout).unwrap();
            assert_eq!(shown.trim(), "0%", "{options} {column}");
        }
        succeeded(&bench.run(["-u", "mnt"]));
    }
}

#[test]
fn the_free_space_is_that_of_the_source() {
    Bench::new().runs(
        r#"
        mkdir d
        mount -t tmpfs -o size=8m none d
        cp a.asdf d
        asdf-mount d/a.asdf m
        asdf-mount d n
        free() { df --output=size,avail "$1" | tail -n 1; }
        for bytes in 1 3000000 20000000; do
            head -c $bytes /dev/zero >d/other 2>/dev/null || true
            test "$(free m)" = "$(free d)"
            test "$(free n)" = "$(free d)"
        done
        test "$(df --output=avail m | tail -n 1)" -eq 0
        asdf-mount -u m n"#,
    );
}

#[test]
fn each_kind_of_request_is_logged_where_that_is_wanted() {
    let bench = Bench::new();
    succeeded(&bench.run(["-vv", "--log-file", "log", "a.asdf", "mnt"]));
    let mount = bench.mountpoint();
    let scratch = mount.join("scratch");
    fs::read(mount.join("tree.yaml")).unwrap();
    for entry in fs::read_dir(&mount).unwrap() {
        entry.unwrap().metadata().unwrap();
    }
    fs::write(&scratch, "text").unwrap();
    fs::rename(&scratch, mount.join("other")).unwrap();
    fs::remove_file(mount.join("other")).unwrap();
    let _ = fs::create_dir(mount.join("folder"));
    rustix::fs::statfs(&mount).unwrap();
    succeeded(&bench.run(["-u", "mnt"]));
    let log = fs::read_to_string(bench.path("log")).unwrap();
    for request in [
        "lookup \"scratch\" in ",
        "getattr ",
        "open ",
        "read ",
        "readdir",
        "create \"scratch\" in ",
        "write ",
        "flush ",
        "release ",
        "rename \"scratch\" in ",
        "unlink \"other\" in ",
        "mkdir \"folder\" in ",
        "statfs ",
        "getxattr ",
    ] {
        assert!(log.contains(&format!("asdf_mount::fuse: {request}")), "{request} is not in\n{log}");
    }
}

#[test]
fn a_log_in_the_foreground_has_times() {
    let bench = Bench::new();
    let child = bench.mount_in_foreground(&bench.mountpoint());
    Daemon::of(&bench.mountpoint()).send(Signal::TERM);
    let output = child.wait_with_output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(
        !log.is_empty() && log.lines().all(|line| line.starts_with("20") && line[..30].contains("Z ")),
        "{log}"
    );
}
