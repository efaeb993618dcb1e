//! The end of a mount with an unsaved text.

use std::fs::{self, File};
use std::io::Write;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use common::case::{BAD, Case, NEW, errno};
use common::mount::{is_mounted, program, wait_until};

/// Opens a handle that stays open beyond the end of the mount.
fn begun(case: &Case) -> File {
    let mut file = File::create(case.tree()).unwrap();
    file.write_all(b"#ASDF 1.0.0\nnot yet").unwrap();
    file
}

#[test]
fn a_text_that_is_not_finished_is_kept_whatever_ends_the_mount() {
    for lazily in [true, false] {
        let case = Case::new();
        let file = begun(&case);
        let daemon = case.mount.daemon().unwrap();
        if lazily {
            kill_process(Pid::from_raw(daemon.cast_signed()).unwrap(), Signal::TERM).unwrap();
        } else {
            // The mount is in use: `-u` says so, and the draft is unchanged.
            let output = Command::new(program()).arg("-u").arg(case.mount.root()).output().unwrap();
            assert_eq!(output.status.code(), Some(1));
            assert_eq!(fs::read(case.tree()).unwrap(), b"#ASDF 1.0.0\nnot yet");
            let pid = Pid::from_raw(daemon.cast_signed()).unwrap();
            kill_process(pid, Signal::INT).unwrap();
            kill_process(pid, Signal::INT).unwrap();
        }
        assert!(wait_until(|| case.mount.daemon().is_none()));
        drop(file);
        assert!(!is_mounted(case.mount.root()));
        assert_eq!(case.saved(), case.text);
        assert_eq!(case.kept(), [b"#ASDF 1.0.0\nnot yet"]);
        assert!(
            case.log().contains("unfinished text of tree.yaml was not saved; it is kept in"),
            "{}",
            case.log()
        );
    }
}

#[test]
fn however_fast_the_second_signal_comes_no_dead_mount_is_left() {
    for _ in 0..20 {
        let case = Case::new();
        let pid = Pid::from_raw(case.mount.daemon().unwrap().cast_signed()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
        // Both signals count even if the first is not handled yet. The daemon may have ended, too.
        assert!(matches!(kill_process(pid, Signal::TERM), Ok(()) | Err(Errno::SRCH)));
        assert!(wait_until(|| case.mount.daemon().is_none()));
        assert!(!is_mounted(case.mount.root()));
    }
}

#[test]
fn unmounting_returns_when_all_is_put_away() {
    let case = Case::new();
    fs::write(case.path("scratch"), "").unwrap();
    fs::write(case.tree(), case.named(NEW)).unwrap();
    fs::File::create(case.tree()).unwrap();
    let output = Command::new(program()).arg("-u").arg(case.mount.root()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(case.saved(), case.named(NEW), "an empty text is no tree");
    assert!(case.log().contains("tree.yaml was left empty"), "{}", case.log());
    let left: Vec<_> =
        fs::read_dir(case.mount.state()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["history"]);
}

#[test]
fn a_refused_text_outlives_a_daemon_that_is_killed() {
    let case = Case::new();
    let mut file = File::create(case.tree()).unwrap();
    file.write_all(case.named(BAD).as_bytes()).unwrap();
    assert_eq!(errno(file.sync_all()), libc::EINVAL);
    let log = case.log();
    case.ends_by(Signal::KILL);
    assert_eq!(case.kept(), [case.named(BAD).as_bytes()]);
    let named = log.split("it is kept in ").nth(1).and_then(|rest| rest.lines().next()).unwrap();
    assert_eq!(fs::read_to_string(named).unwrap(), case.named(BAD));
    assert_eq!(case.saved(), case.text);
}

#[test]
fn killed_the_daemon_leaves_scratch_files_where_the_next_mount_says() {
    let case = Case::new();
    fs::write(case.path(".tree.yaml.swp"), "unsaved work").unwrap();
    let file = begun(&case);
    case.ends_by(Signal::KILL);
    drop(file);
    let drawer = case.drawer();
    assert_eq!(fs::read(drawer.join(".tree.yaml.swp")).unwrap(), b"unsaved work");
    assert_eq!(fs::read(drawer.join("tree.yaml")).unwrap(), b"#ASDF 1.0.0\nnot yet");
    assert_eq!(case.saved(), case.text);
    let mut again = Command::new(program());
    again.args(["-v", "--log-file"]).arg(case.log_path()).arg(&case.source).arg(case.mount.root());
    again.env("XDG_STATE_HOME", case.mount.scratch().join("state"));
    assert!(again.status().unwrap().success());
    assert!(case.log().contains("a mount was killed and has left tree.yaml in"), "{}", case.log());
    case.is_saved(&case.text, 0);
}
