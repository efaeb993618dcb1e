//! A file without a mountpoint is mounted on the directory beside it.

use std::fs;
use std::process::Command;

use rustix::process::Signal;

use crate::user::PROLOGUE;
use common::daemon::{Bench, Daemon, TEXT, failed, succeeded};

#[test]
fn the_directory_is_made_and_removed_again_however_the_mount_ends() {
    let bench = Bench::new();
    let place = bench.path("a");
    for end in ["-u", "umount", "fusermount3 -u", "TERM"] {
        succeeded(&bench.run(["a.asdf"]));
        let daemon = Daemon::of(&place);
        assert_eq!(fs::read_to_string(place.join("tree.yaml")).unwrap(), TEXT);
        assert!(failed(&bench.run(["a.asdf"]), 1).contains("already mounted"));
        match end {
            "-u" => succeeded(&bench.run(["-u", "a"])),
            "TERM" => daemon.send(Signal::TERM),
            command => {
                let mut words = command.split(' ');
                let mut command = Command::new(words.next().unwrap());
                assert!(command.args(words).arg(&place).status().unwrap().success());
            }
        }
        daemon.ends();
        assert!(!place.exists(), "{end}");
    }
    bench.nothing_is_left();
}

#[test]
fn a_directory_that_a_killed_daemon_left_is_used_and_removed() {
    let bench = Bench::new();
    let place = bench.path("a");
    let kill = || {
        succeeded(&bench.run(["a.asdf"]));
        Daemon::of(&place).kill();
    };
    // First with the dead mount in place, then after it was unmounted.
    for umount in [false, true] {
        kill();
        if umount {
            assert!(Command::new("umount").arg(&place).status().unwrap().success());
            assert!(place.is_dir());
        }
        succeeded(&bench.run(["a.asdf"]));
        succeeded(&bench.run(["-u", "a"]));
        assert!(!place.exists(), "{umount}");
    }
    kill();
    succeeded(&bench.run(["-u", "a"]));
    assert!(!place.exists());
    // A directory that has a file of the user is neither used without being named, nor removed.
    kill();
    assert!(Command::new("umount").arg(&place).status().unwrap().success());
    fs::write(place.join("notes"), "x").unwrap();
    assert!(failed(&bench.run(["a.asdf"]), 1).contains("is not empty"));
    succeeded(&bench.run([bench.source(), place.clone()]));
    succeeded(&bench.run(["-u", "a"]));
    assert!(place.join("notes").exists());
    bench.nothing_is_left();
}

#[test]
fn nothing_is_removed_that_was_there() {
    let bench = Bench::new();
    let place = bench.path("a");
    fs::create_dir(&place).unwrap();
    succeeded(&bench.run(["a.asdf"]));
    succeeded(&bench.run(["-u", "a"]));
    assert!(place.is_dir());
    // A dead mount is removed, and its directory is used.
    succeeded(&bench.run(["a.asdf"]));
    Daemon::of(&place).kill();
    succeeded(&bench.run([bench.source()]));
    assert_eq!(bench.mounted_on(&place), ["fuse.asdf-mount"]);
    succeeded(&bench.run(["-u", "a"]));
    assert!(place.is_dir());
    // A file that can't be shown leaves no directory.
    fs::write(bench.path("b.txt"), "no format").unwrap();
    failed(&bench.run(["b.txt"]), 1);
    assert!(!bench.path("b").exists());
    bench.nothing_is_left();
}

#[test]
fn a_directory_that_can_not_be_made_is_named_with_a_place_that_works() {
    let bench = Bench::new();
    let script = r#"
        mkdir closed run
        cp a.asdf closed
        chown 65534 run
        not user env XDG_RUNTIME_DIR=$T/run asdf-mount closed/a.asdf 2>said
        grep "/closed/a: can't create the mountpoint: permission denied; mount elsewhere: asdf-mount SOURCE $T/run/a$" said
        not user env -u XDG_RUNTIME_DIR asdf-mount closed/a.asdf 2>said
        grep "mount elsewhere: asdf-mount SOURCE /tmp/a$" said
        user asdf-mount closed/a.asdf run/a
        user asdf-mount -u run/a
        cp a.asdf home
        chown 65534 home/a.asdf
        user sh -c 'cd home; asdf-mount a.asdf; grep -q 1.5.0 a/tree.yaml; fusermount3 -u a'
        for i in $(seq 100); do test -e home/a || exit 0; sleep 0.1; done
        exit 1"#;
    let output = bench.script(&format!("{PROLOGUE}{script}"));
    assert!(output.status.success(), "{output:?}");
    bench.nothing_is_left();
}
