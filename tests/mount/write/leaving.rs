//! Unmounting with an open draft or during a save: the save is finished, the draft is kept.

use std::fs::{self, File};
use std::io::Write;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::faults::Faults;
use crate::place::{Place, close, write};
use common::mount::{Mounted, is_mounted, wait_until};

/// Duration of each fsync of a save, in milliseconds.
const SLOW: i32 = 700;

/// Returns a place and a mount of it with slow saves.
fn slow(kind: &str) -> (Place, Faults, Mounted) {
    let place = Place::on(kind);
    let faults = Faults::new(&place.folder(), &place.disk.path());
    let mount = place.try_mount_as(&place.source, &[], |command| faults.under(command)).unwrap();
    faults.slow(SLOW);
    (place, faults, mount)
}

fn signal(mount: &Mounted, signal: Signal) {
    let daemon = mount.daemon().unwrap();
    kill_process(Pid::from_raw(daemon.cast_signed()).unwrap(), signal).unwrap();
}

/// Waits until a save is in progress: its journal or its new file exists.
fn is_saving(place: &Place) {
    assert!(wait_until(|| !place.ours_beside().is_empty()), "no save began");
}

fn ended(mount: &Mounted) -> bool {
    wait_until(|| mount.daemon().is_none())
}

/// Starts a process that saves by closing the file.
fn saver(place: &Place, mount: &Mounted, text: &str) -> Child {
    let new = place.folder().join("new");
    fs::write(&new, text).unwrap();
    Command::new("dd")
        .args(["conv=fsync", &format!("if={}", new.display())])
        .arg(format!("of={}", mount.path("tree.yaml").display()))
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_save_that_runs_is_finished_before_a_signal_ends_the_daemon() {
    for (kind, signals) in [
        ("ext4", &[Signal::TERM][..]),
        ("tmpfs", &[Signal::INT]),
        ("xfs", &[Signal::TERM]),
        ("ext4", &[Signal::TERM, Signal::TERM]),
        ("btrfs", &[Signal::INT, Signal::TERM, Signal::INT]),
    ] {
        let (place, faults, mount) = slow(kind);
        let text = place.named(&"longer ".repeat(3000));
        let mut saver = saver(&place, &mount, &text);
        is_saving(&place);
        for wanted in signals {
            signal(&mount, *wanted);
        }
        faults.none();
        assert!(ended(&mount), "{kind}");
        place.holds(&text);
        place.nothing_is_beside();
        assert!(!is_mounted(mount.root()));
        // The saver was told of success before the unmount; with a second signal, the daemon doesn't wait for
        // the saver's close.
        let status = saver.wait().unwrap();
        assert!(status.success() || signals.len() > 1, "{kind}, {signals:?}");
        assert_eq!(place.kept(), [""; 0], "{kind}: {}", place.log());
    }
}

#[test]
fn a_save_that_runs_is_finished_after_its_program_was_killed_and_the_mount_taken_away() {
    for how in [&["asdf-mount", "-u"][..], &["umount"], &["fusermount3", "-u"], &["umount", "-l"]] {
        let (place, faults, mount) = slow("ext4");
        let text = place.named(&"longer ".repeat(3000));
        let mut saver = saver(&place, &mount, &text);
        is_saving(&place);
        saver.kill().unwrap();
        saver.wait().unwrap();
        let run = || match how {
            ["asdf-mount", "-u"] => place.command(["-u"]).arg(mount.root()).output(),
            _ => Command::new(how[0]).args(&how[1..]).arg(mount.root()).output(),
        };
        // The mount is in use until the kernel has closed the files of the killed program.
        assert!(wait_until(|| run().unwrap().status.success()), "{how:?}");
        faults.none();
        if how[0] == "asdf-mount" {
            assert_eq!(mount.daemon(), None, "it returned too early");
        }
        assert!(ended(&mount));
        place.holds(&text);
        place.nothing_is_beside();
    }
}

#[test]
fn in_use_it_is_not_unmounted_and_nothing_happens_to_the_save() {
    let (place, faults, mount) = slow("tmpfs");
    // Longer than these programs take on any machine.
    faults.slow(60_000);
    let text = place.named(&"longer ".repeat(3000));
    let mut saver = saver(&place, &mount, &text);
    is_saving(&place);
    let output = place.command(["-u"]).arg(mount.root()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = crate::place::said(&output);
    assert!(said.contains("in use") && said.lines().count() == 1, "{said}");
    for program in ["umount", "fusermount3"] {
        let mut command = Command::new(program);
        let command = if program == "umount" { &mut command } else { command.arg("-u") };
        let output = command.arg(mount.root()).output().unwrap();
        assert!(!output.status.success());
    }
    faults.none();
    assert!(saver.wait().unwrap().success());
    place.holds(&text);
    write(&mount, &place.text()).unwrap();
    place.holds(&place.text());
}

#[test]
fn a_draft_that_is_open_when_the_mount_is_taken_away_can_be_saved_or_is_kept() {
    for saves in [true, false] {
        for lazily in [&["umount", "-l"][..], &["fusermount3", "-u", "-z"]] {
            let place = Place::on("tmpfs");
            let mount = place.mount();
            let text = if saves { place.named("second") } else { place.named("half")[..150].to_owned() };
            let mut draft = File::create(mount.path("tree.yaml")).unwrap();
            draft.write_all(text.as_bytes()).unwrap();
            let status = Command::new(lazily[0]).args(&lazily[1..]).arg(mount.root()).status().unwrap();
            assert!(status.success());
            assert!(!is_mounted(mount.root()));
            let answer = close(draft);
            assert!(ended(&mount));
            assert_eq!(answer.is_ok(), saves, "{answer:?}");
            place.holds(&if saves { text.clone() } else { place.text() });
            assert_eq!(place.kept().contains(&text), !saves, "{}", place.log());
        }
    }
}

#[test]
fn each_draft_of_a_folder_of_files_is_kept_and_the_log_says_where() {
    let place = Place::on("tmpfs");
    for name in ["b.asdf", "c.asdf"] {
        fs::copy(&place.source, place.disk.path().join(name)).unwrap();
    }
    let mount = place.try_mount(&place.disk.path(), &[]).unwrap();
    let mut drafts = Vec::new();
    for name in ["a.asdf", "b.asdf", "c.asdf"] {
        let mut draft = File::create(mount.path(name).join("tree.yaml")).unwrap();
        draft.write_all(format!("of {name}").as_bytes()).unwrap();
        drafts.push(draft);
    }
    signal(&mount, Signal::TERM);
    assert!(ended(&mount));
    let mut kept = place.kept();
    kept.sort();
    assert_eq!(kept, ["of a.asdf", "of b.asdf", "of c.asdf"]);
    let log = place.log();
    let names = fs::read_dir(place.state()).unwrap().map(|entry| entry.unwrap().path());
    // The files that report the texts are for the next mount.
    for name in names.filter(|name| name.extension().is_some_and(|extension| extension == "yaml")) {
        assert!(log.contains(&format!("it is kept in {}", name.display())), "{log}");
    }
    assert_eq!(log.matches("unfinished text of tree.yaml was not saved; it is kept in").count(), 3);
    place.holds(&place.text());
}
