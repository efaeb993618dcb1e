//! `-o timeout=`, and SIGHUP.

use std::fs::{self, File};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::user::PROLOGUE;
use common::daemon::{Bench, Daemon, eventually, succeeded};

#[test]
fn an_idle_mount_ends_and_one_in_use_does_not() {
    let bench = Bench::new();
    let place = bench.path("a");
    let open = |options: &str| {
        succeeded(&bench.run(["-o", options, "a.asdf"]));
        Daemon::of(&place)
    };
    open("timeout=1").ends();
    assert!(!place.exists());
    // An open file and a working directory are uses that send no request. On a busy machine, the mount may end before the
    // file is opened.
    let opened = (0..60).find_map(|_| {
        let daemon = open("timeout=1");
        let file = File::open(place.join("tree.yaml")).ok();
        eventually("the file is open, or the mount is gone", || file.is_some() || !place.exists());
        file.map(|file| (daemon, file))
    });
    let (daemon, file) = opened.unwrap();
    std::thread::sleep(Duration::from_millis(2200));
    assert!(daemon.runs());
    let mut inside = Command::new("sleep").arg("600").current_dir(&place).spawn().unwrap();
    drop(file);
    std::thread::sleep(Duration::from_millis(2200));
    assert!(daemon.runs());
    inside.kill().unwrap();
    inside.wait().unwrap();
    // `--list` does not count as use of the mount.
    eventually("the mount is gone", || {
        bench.run(["-l"]);
        !place.exists()
    });
    daemon.ends();
    bench.nothing_is_left();
}

#[test]
fn a_refused_text_keeps_the_mount() {
    let bench = Bench::of_sample();
    // On a busy machine, the mount may end before sed opens the text.
    let refused = (0..60).find_map(|_| {
        succeeded(&bench.run(["-o", "timeout=1", "a.asdf"]));
        let daemon = Daemon::of(&bench.path("a"));
        let output = bench.shell("sed -i 's/source: 0/source: 9/' a/tree.yaml");
        assert!(!output.status.success(), "{output:?}");
        let is_kept = bench.path("a/tree.yaml.rejected").exists();
        eventually("the mount is kept, or gone", || is_kept || !bench.path("a").exists());
        is_kept.then_some(daemon)
    });
    let daemon = refused.unwrap();
    std::thread::sleep(Duration::from_millis(2200));
    assert!(daemon.runs());
    fs::remove_file(bench.path("a/tree.yaml.rejected")).unwrap();
    daemon.ends();
    bench.nothing_is_left();
}

#[test]
fn a_mount_of_a_user_ends_through_fusermount3() {
    let bench = Bench::new();
    let script = r#"
        user asdf-mount -o timeout=1 a.asdf home/m
        for i in $(seq 300); do test -e home/m || exit 0; sleep 0.1; done
        exit 1"#;
    let output = bench.script(&format!("{PROLOGUE}{script}"));
    assert!(output.status.success(), "{output:?}");
    bench.nothing_is_left();
}

#[test]
fn sighup_opens_the_log_again() {
    let bench = Bench::new();
    succeeded(&bench.run(["-v", "--log-file", "log", "a.asdf"]));
    let daemon = Daemon::of(&bench.path("a"));
    fs::rename(bench.path("log"), bench.path("log.1")).unwrap();
    daemon.send(Signal::HUP);
    eventually("there is a new log", || bench.path("log").exists());
    // The daemon keeps running if the log can't be opened.
    fs::remove_file(bench.path("log")).unwrap();
    fs::create_dir(bench.path("log")).unwrap();
    daemon.send(Signal::HUP);
    fs::read(bench.path("a/tree.yaml")).unwrap();
    fs::remove_dir(bench.path("log")).unwrap();
    daemon.send(Signal::HUP);
    eventually("there is a new log", || bench.path("log").exists());
    succeeded(&bench.run(["-u", "a"]));
    let log = |name: &str| fs::read_to_string(bench.path(name)).unwrap();
    assert!(log("log.1").contains(": mounted") && !log("log.1").contains(": ended"));
    assert!(log("log").contains(": ended"));
    bench.nothing_is_left();
}
