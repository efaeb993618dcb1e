//! `--recover`: files that a crash left half-saved, and journals of other files.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

use super::{Bench, failed, succeeded};
use crate::faults::{Fault, Faults, calls};
use common::disk::run;

/// Kills the program during `--set-tree`; returns false if the program finished before.
fn interrupt(bench: &Bench, text: &str, at: i32) -> bool {
    let faults = Faults::new(&bench.home(), &bench.place.disk.path());
    faults.after(at, Fault::KilledBefore);
    let tree = bench.write("new", text);
    let mut command =
        bench.command([OsStr::new("--set-tree"), tree.as_os_str(), bench.place.source.as_os_str()]);
    fs::set_permissions(bench.home().join("faults"), fs::Permissions::from_mode(0o666)).unwrap();
    faults.under(&mut command);
    let status = command.status().unwrap();
    assert!(status.success() || status.signal() == Some(libc::SIGKILL), "{status}");
    !status.success()
}

/// Kills `--set-tree` after it has begun to modify the file.
fn leave_halfway(bench: &Bench, text: &str) {
    let before = fs::read(&bench.place.source).unwrap();
    for at in calls() {
        assert!(interrupt(bench, text, at), "it was never halfway");
        if fs::read(&bench.place.source).unwrap() != before {
            return;
        }
        assert!(bench.recover().status.success());
    }
}

#[test]
fn what_was_interrupted_is_recovered_once() {
    for user in [false, true] {
        let bench = Bench::on("ext4", user);
        let (old, new) = (bench.place.text(), bench.place.named(&"longer ".repeat(3000)));
        bench.has_nothing_to_recover();
        bench.is_untouched();
        let mut seen = [0, 0];
        for closed in [false, true] {
            for at in calls() {
                fs::write(&bench.place.source, &bench.place.built.bytes).unwrap();
                let folder = bench.place.disk.path();
                if closed {
                    run("chattr", &["+i", folder.to_str().unwrap()]);
                }
                let killed = interrupt(&bench, &new, at);
                let left = fs::read_dir(bench.state()).is_ok_and(|names| {
                    names.flatten().any(|name| name.file_name().to_string_lossy().contains("journal"))
                });
                let beside = !bench.place.ours_beside().is_empty();
                assert!(!(closed && beside), "{at}");
                let output = bench.recover();
                assert!(output.status.success(), "{output:?}");
                let told = String::from_utf8(output.stdout).unwrap();
                let found = bench.place.holds_one_of(&[&old, &new]);
                if left || beside {
                    let which = ["before", "after"][found];
                    let settled = told.contains(&format!("it is now as {which} the interrupted save"));
                    assert!(
                        told.contains(": removed ") && settled || !told.contains("it is now as"),
                        "{told}"
                    );
                    seen[usize::from(closed)] += usize::from(settled);
                }
                bench.has_nothing_to_recover();
                bench.place.nothing_is_beside();
                if closed {
                    run("chattr", &["-i", folder.to_str().unwrap()]);
                }
                assert!(killed || found == 1);
                if !killed {
                    break;
                }
            }
        }
        assert!(seen.iter().all(|seen| *seen >= 2), "{seen:?}");
    }
}

#[test]
fn what_is_no_journal_is_set_aside_and_a_foreign_journal_is_reported() {
    let bench = Bench::on("ext4", false);
    let new = bench.place.named(&"longer ".repeat(3000));
    leave_halfway(&bench, &new);
    let journal = bench.place.disk.path().join(".a.asdf.asdf-mount-journal");
    let bytes = fs::read(&journal).unwrap();
    assert!(bench.recover().status.success());
    // A journal that is not a regular file is set aside.
    for command in ["mkdir \"$1\"", "mkfifo \"$1\"", "ln -s nowhere \"$1\""] {
        run("sh", &["-c", command, "sh", journal.to_str().unwrap()]);
        let output = bench.recover();
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("it is not a regular file"), "{output:?}");
        assert!(journal.symlink_metadata().is_err());
        run("rm", &["-r", &format!("{}.aside", journal.display())]);
    }
    fs::write(&journal, b"a diary").unwrap();
    let output = bench.recover();
    assert!(output.status.success(), "{output:?}");
    let aside = PathBuf::from(format!("{}.aside", journal.display()));
    let told = format!("a journal was not used and is kept as {}: it is not a journal", aside.display());
    assert!(String::from_utf8_lossy(&output.stdout).contains(&told), "{output:?}");
    assert_eq!(fs::read(&aside).unwrap(), b"a diary");
    bench.has_nothing_to_recover();
    // A journal of an earlier version of this file, and a damaged journal.
    let mut changed = fs::read(&bench.place.source).unwrap();
    changed[300..304].copy_from_slice(b"more");
    fs::write(&bench.place.source, &changed).unwrap();
    for foreign in [&bytes[..], b"ASDFJRNL and nonsense"] {
        fs::write(&journal, foreign).unwrap();
        failed(&bench.recover(), &["a save was interrupted", "remove the journal"]);
        assert_eq!(fs::read(&journal).unwrap(), foreign);
        assert!(fs::read(&bench.place.source).unwrap() == changed);
        fs::remove_file(&journal).unwrap();
        bench.has_nothing_to_recover();
    }
}

#[test]
fn what_is_no_asdf_file_is_not_recovered() {
    let bench = Bench::new(false);
    for (name, text, says) in [("text", "hello", "is not an ASDF file"), ("empty", "", "is empty")] {
        let path = bench.write(name, text);
        let output = bench.run([OsStr::new("--recover"), path.as_os_str()]);
        failed(&output, &[name, says]);
        assert!(output.stdout.is_empty(), "{output:?}");
    }
    let source = bench.place.source.clone();
    succeeded(&bench.run([OsStr::new("-q"), OsStr::new("--recover"), source.as_os_str()]), "");
}

#[test]
fn one_file_that_can_not_be_recovered_keeps_none_of_the_others_from_it() {
    let bench = Bench::on("ext4", false);
    leave_halfway(&bench, &bench.place.named(&"longer ".repeat(3000)));
    assert!(!bench.place.ours_beside().is_empty());
    let missing = bench.home().join("missing");
    let output = bench.run([OsStr::new("--recover"), missing.as_os_str(), bench.place.source.as_os_str()]);
    failed(&output, &["missing: no such file"]);
    bench.place.nothing_is_beside();
    let none = bench.run(["--recover"]);
    assert_eq!(none.status.code(), Some(2), "{none:?}");
}
