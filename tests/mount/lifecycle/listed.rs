//! `--list`.

use std::fs;

use serde_json::Value;

use crate::user::PROLOGUE;
use common::daemon::{Bench, Daemon, succeeded};

/// Returns the object of a mountpoint in the output of `--list --json`.
fn object(bench: &Bench, name: &str) -> Value {
    let output = bench.run(["-l", "--json"]);
    succeeded(&output);
    let text = String::from_utf8(output.stdout).unwrap();
    let objects = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let path = bench.path(name);
    objects.into_iter().find(|object| object["mountpoint"] == path.to_str().unwrap()).unwrap()
}

#[test]
fn a_mount_is_listed_with_source_process_mode_and_start() {
    let bench = Bench::new();
    let place = "with blank";
    succeeded(&bench.run(["-r", "a.asdf", place]));
    let daemon = Daemon::of(&bench.path(place));
    let object = object(&bench, place);
    assert_eq!(object["source"], bench.source().to_str().unwrap());
    assert_eq!((&object["pid"], &object["mode"]), (&daemon.number.into(), &"ro".into()));
    let since = object["since"].as_str().unwrap();
    assert!(since.starts_with("20") && since.ends_with('Z') && since.len() == 20, "{since}");
    let table = String::from_utf8(bench.run(["--list"]).stdout).unwrap();
    let mut lines = table.lines();
    assert!(lines.next().unwrap().starts_with("MOUNTPOINT "), "{table}");
    let path = bench.path(place);
    let line = lines.find(|line| line.starts_with(path.to_str().unwrap())).unwrap();
    let fields: Vec<&str> = line.split_whitespace().collect();
    assert!(fields.ends_with(&[&*daemon.number.to_string(), "ro", since]), "{line}");
    daemon.kill();
    assert_eq!(self::object(&bench, place)["mode"], "dead");
    succeeded(&bench.run(["-u", place]));
    fs::remove_dir(bench.path(place)).unwrap_or_default();
    bench.nothing_is_left();
}

#[test]
fn a_user_sees_his_own_and_root_sees_all() {
    let bench = Bench::new();
    let script = r#"
        asdf-mount a.asdf mnt
        user asdf-mount a.asdf home/m
        own=$(user_daemon)
        user asdf-mount -l >listed
        test $(wc -l <listed) = 2
        grep "^$T/home/m  *$T/a.asdf  *$own  *ro  " listed
        asdf-mount -l | grep "^$T/mnt .* rw "
        asdf-mount -l | grep "^$T/home/m .* $own  *ro "
        user asdf-mount -u home/m
        asdf-mount -u mnt
        test "$(asdf-mount -l; user asdf-mount -l --json)" = ''"#;
    let output = bench.script(&format!("{PROLOGUE}{script}"));
    assert!(output.status.success(), "{output:?}");
    bench.nothing_is_left();
}

#[test]
fn a_source_that_is_gone_is_listed_and_logged() {
    let bench = Bench::new();
    let script = r#"
        mkdir m
        cp a.asdf b.asdf
        asdf-mount -v --log-file log a.asdf mnt
        asdf-mount a.asdf b.asdf m
        mode() { asdf-mount -l | grep "^$T/$1 .* $2 "; }
        mode mnt rw
        mode m rw
        mv a.asdf away
        mode mnt gone
        mode m gone
        not cat mnt/tree.yaml
        # The kernel asks for the attributes of the root after half a second.
        for i in $(seq 600); do stat mnt >/dev/null; ! grep -q 'WARN.*a.asdf: is gone' log || break; sleep 0.1; done
        grep -c 'WARN.*a.asdf: is gone; the mount shows it again once it is back' log | grep -x 1
        mv away a.asdf
        mode mnt rw
        mode m rw
        for i in $(seq 600); do cat mnt/tree.yaml >/dev/null && ! grep -q 'INFO.*a.asdf: is back' log || break; sleep 0.1; done
        grep 'INFO.*a.asdf: is back' log
        asdf-mount -u mnt m
        mkdir dir
        asdf-mount --log-file log dir mnt
        mode mnt rw
        rmdir dir
        mode mnt gone
        for i in $(seq 600); do ls mnt >/dev/null; ! grep -q 'WARN.*dir: is gone' log || break; sleep 0.1; done
        grep 'WARN.*dir: is gone' log
        asdf-mount -u mnt"#;
    bench.runs(script);
}
