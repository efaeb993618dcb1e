//! Files beside `tree.yaml` at the end of a mount.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use rustix::process::Signal;

use common::case::Case;
use common::names;

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_is_not_empty_and_not_an_editors_swap_or_lock_is_kept_and_u_says_where() {
    let case = Case::new();
    let kept = ["notes.txt", "tree.yaml~", "#tree.yaml#", "DEADJOE", "tree.yaml.save", "linked"];
    for name in &kept[..5] {
        fs::write(case.path(name), name).unwrap();
    }
    fs::hard_link(case.path("notes.txt"), case.path("linked")).unwrap();
    fs::write(case.path("moved"), "over").unwrap();
    fs::rename(case.path("moved"), case.path("DEADJOE")).unwrap();
    for name in
        [".tree.yaml.swp", ".tree.yaml.swo", ".#tree.yaml", ".~lock.tree.yaml#", ".tree.yaml.kate-swp"]
    {
        fs::write(case.path(name), name).unwrap();
    }
    fs::write(case.path("empty"), "").unwrap();
    fs::write(case.path("removed"), "x").unwrap();
    fs::remove_file(case.path("removed")).unwrap();
    // A copy of an earlier tree is kept; a copy equal to the saved tree is not.
    fs::copy(case.tree(), case.path("tree.yaml.bak")).unwrap();
    fs::write(case.tree(), case.named("second")).unwrap();
    fs::write(case.path("copy"), case.named("second")).unwrap();
    let output = case.unmount();
    assert!(output.status.success(), "{output:?}");
    let state = case.in_state();
    let [dir] = &state[..] else { panic!("{state:?}") };
    let name = dir.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with(&case.stem()) && name.ends_with(".files"), "{name}");
    let mut wanted: Vec<_> = kept.into_iter().chain(["tree.yaml.bak"]).collect();
    wanted.sort_unstable();
    assert_eq!(names(dir), wanted);
    assert_eq!(fs::read(dir.join("linked")).unwrap(), b"notes.txt");
    assert_eq!(fs::read(dir.join("DEADJOE")).unwrap(), b"over");
    assert_eq!(fs::read_to_string(dir.join("tree.yaml.bak")).unwrap(), case.text);
    for text in [said(&output), case.log()] {
        assert!(text.contains(&format!("in {}", dir.display())), "{text}");
        assert!(wanted.iter().all(|name| text.contains(name)) && !text.contains(".swp"), "{text}");
    }
    assert_eq!(said(&output).lines().count(), 1);
    // The files were already reported.
    assert_eq!(case.next(&[], &case.source).stderr(), "");
}

#[test]
fn where_nothing_is_worth_keeping_nothing_is_kept_or_said() {
    let case = Case::new();
    fs::write(case.path(".tree.yaml.swp"), "swap").unwrap();
    fs::write(case.path("empty"), "").unwrap();
    fs::write(case.tree(), case.named("second")).unwrap();
    let output = case.unmount();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(case.in_state(), [""; 0].map(PathBuf::from));
}

#[test]
fn a_refused_text_is_kept_beyond_the_unmount() {
    let case = Case::new();
    fs::write(case.tree(), "a: b: c").unwrap();
    let refused =
        case.in_state().into_iter().find(|path| path.extension() == Some(OsStr::new("yaml"))).unwrap();
    assert!(refused.file_name().unwrap().to_str().unwrap().starts_with(&case.stem()));
    assert!(case.unmount().status.success());
    assert_eq!(fs::read(refused).unwrap(), b"a: b: c");
}

#[test]
fn after_another_end_the_log_tells_and_the_next_mount_does_once() {
    let case = Case::new();
    fs::write(case.path("notes.txt"), "notes").unwrap();
    case.ends_by(Signal::TERM);
    let dir = case.in_state().into_iter().find(|path| path.is_dir()).unwrap();
    let line = format!("files made beside tree.yaml are kept: notes.txt in {}", dir.display());
    assert!(case.log().contains(&line), "{}", case.log());
    // A read-only mount also reports the files, and changes nothing.
    assert!(case.next(&["-r"], &case.source).stderr().contains(&line));
    assert!(case.next(&[], &case.source).stderr().contains(&line));
    assert_eq!(case.next(&[], &case.source).stderr(), "");
    assert_eq!(case.in_state(), [dir]);
}

#[test]
fn the_mount_after_one_that_was_killed_tells_of_its_swap_file_and_of_others() {
    let case = Case::new();
    fs::write(case.path(".tree.yaml.swp"), "b0VIM 9.0").unwrap();
    fs::write(case.path("notes.txt"), "notes").unwrap();
    fs::write(case.path("empty"), "").unwrap();
    let drawer = case.drawer();
    case.ends_by(Signal::KILL);
    for arguments in [&["-r"][..], &[], &[]] {
        let said = case.next(arguments, &case.source).stderr();
        assert!(said.contains(&format!("vim -r {}/.tree.yaml.swp\n", drawer.display())), "{said}");
        assert!(said.contains(&format!("left notes.txt in {}", drawer.display())), "{said}");
        assert_eq!(said.lines().count(), 2, "{said}");
    }
    // A mount of another file prints nothing on stderr.
    let other = case.source.with_file_name("b.asdf");
    fs::copy(&case.source, &other).unwrap();
    assert_eq!(case.next(&[], &other).stderr(), "");
    assert!(case.next(&[], case.source.parent().unwrap()).stderr().contains("vim -r"));
    fs::remove_dir_all(drawer).unwrap();
    assert_eq!(case.next(&[], &case.source).stderr(), "");
}

#[test]
fn a_swap_file_with_changes_that_were_not_saved_is_kept_for_vim() {
    let case = Case::new();
    // vim is killed with changes in its swap file.
    case.sh("\
             vim -N -u NONE -es -c 'set swapfile' -c 'e tree.yaml' -c 's/^/# unsaved work/' -c preserve \
             -c 'call system(\"kill -9 \".getpid())' </dev/null >/dev/null 2>&1");
    assert!(case.names().contains(&".tree.yaml.swp".to_owned()), "{:?}", case.names());
    assert!(case.unmount().status.success());
    let dir = case.in_state().into_iter().find(|path| path.is_dir()).unwrap();
    assert_eq!(names(&dir), [".tree.yaml.swp"]);
    assert!(case.log().contains(&format!("vim -r {}/.tree.yaml.swp", dir.display())), "{}", case.log());
    let recovered = dir.with_file_name("recovered");
    let output = Command::new("vim")
        .args(["-N", "-u", "NONE", "-es", "-r"])
        .arg(dir.join(".tree.yaml.swp"))
        .args(["-c", &format!("w! {}", recovered.display()), "-c", "qa!"])
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let text = fs::read_to_string(recovered).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert!(text.contains("# unsaved work"), "{text}");
}
