//! When a save is attempted: half-written and empty texts never reach the source.

use std::fs::{self, File};
use std::io::Write;
use std::process::{Command, Stdio};

use common::case::{BAD, Case, NEW, close, errno};
use common::mount::wait_until;

#[test]
fn the_shell_makes_one_save_of_each_redirection() {
    let case = Case::new();
    for (saves, script) in [
        (1, "cat $NEW > tree.yaml"),
        // An unchanged text is not a save.
        (1, "cp tree.yaml ../old; cat ../old > tree.yaml"),
        (1, "t=$(cat $NEW; echo x); printf %s \"${t%x}\" > tree.yaml"),
        (2, "sed 's/second light.*/4th/' tree.yaml > ../t; dd if=../t of=tree.yaml 2>&1"),
        (3, "sed -i s/4th/5th/ tree.yaml"),
        (4, "truncate -s0 tree.yaml; cat $NEW >> tree.yaml"),
        (5, "dash -c 'sed s/second/7th/ $NEW > tree.yaml'"),
    ] {
        let output = case.sh(script);
        assert!(output.status.success(), "{script}: {output:?}");
        assert_eq!(case.saves(), saves, "{script}: {}", case.log());
        assert_eq!(case.names(), ["tree.yaml"], "{script}");
        assert_eq!(case.saved(), fs::read_to_string(case.tree()).unwrap(), "{script}");
    }
    assert_eq!(case.saved(), case.named(NEW).replace("second", "7th"));
}

/// A separate process flushes each part; the first part is a valid tree by itself.
#[test]
fn parts_written_by_children_are_one_save() {
    let case = Case::new();
    let script =
        "head -n 8 $NEW > ../a; tail -n +9 $NEW > ../b; { cat ../a; sleep 0.3; cat ../b; } > tree.yaml";
    let output = case.sh(script);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    case.is_saved(&case.named(NEW), 1);
    let script = "python3 - <<'E'\nimport subprocess\nwith open('tree.yaml','wb') as f:\n  \
                  for part in ('../a','../b'): subprocess.check_call(['cat',part],stdout=f)\nE\n";
    let output = case
        .sh(&script.replace("../b", "../c").replace("python3", "sed 's/value 39/v/' ../b >../c; python3"));
    assert!(output.status.success(), "{output:?}");
    case.is_saved(&case.named(NEW).replace("value 39", "v"), 2);
}

#[test]
fn an_empty_text_is_never_tried() {
    let case = Case::new();
    let file = File::create(case.tree()).unwrap();
    file.sync_all().unwrap();
    close(file).unwrap();
    fs::write(case.path("empty"), "").unwrap();
    fs::rename(case.path("empty"), case.tree()).unwrap();
    assert_eq!((case.saved(), case.saves()), (case.text.clone(), 0));
    assert_eq!(fs::read(case.tree()).unwrap(), b"");
    fs::write(case.tree(), case.named(NEW)).unwrap();
    case.is_saved(&case.named(NEW), 1);
}

#[test]
fn several_handles_are_one_text() {
    let case = Case::new();
    let text = case.named(NEW);
    let (one, two) = text.split_at(200);
    let mut first = File::create(case.tree()).unwrap();
    let second = fs::OpenOptions::new().append(true).open(case.tree()).unwrap();
    first.write_all(one.as_bytes()).unwrap();
    // Closing a handle that wrote nothing attempts no save.
    close(second).unwrap();
    assert_eq!((case.saved(), case.saves()), (case.text.clone(), 0));
    first.write_all(two.as_bytes()).unwrap();
    let duplicate = first.try_clone().unwrap();
    close(first).unwrap();
    assert_eq!(case.saves(), 1, "as close has returned 0");
    close(duplicate).unwrap();
    case.is_saved(&text, 1);
}

#[test]
fn fsync_saves_and_close_does_not_again() {
    let case = Case::new();
    let mut file = File::create(case.tree()).unwrap();
    file.write_all(case.named(NEW).as_bytes()).unwrap();
    file.sync_data().unwrap();
    case.is_saved(&case.named(NEW), 1);
    file.sync_all().unwrap();
    close(file).unwrap();
    case.is_saved(&case.named(NEW), 1);
}

#[test]
fn a_writer_that_is_killed_saves_nothing_of_what_it_began() {
    let case = Case::new();
    let script = "exec 3> tree.yaml; head -n 8 \"$NEW\" >&3; echo ready; exec sleep 100";
    let mut child = Command::new("bash")
        .args(["-c", script])
        .current_dir(case.mount.root())
        .env("NEW", case.new_file(NEW))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
    let half = fs::read_to_string(case.tree()).unwrap();
    assert_eq!(half.lines().count(), 8);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(wait_until(|| fs::read_to_string(case.tree()).unwrap() == case.text));
    assert_eq!((case.saved(), case.saves()), (case.text.clone(), 0));
    case.is_refused(&half);
}

#[test]
fn a_program_that_ends_without_closing_has_saved() {
    let case = Case::new();
    let script =
        "import os; f=open('tree.yaml','w'); f.write(open(os.environ['NEW']).read()); f.flush(); os._exit(0)";
    let output = case.sh(&format!("python3 -c \"{script}\""));
    assert!(output.status.success(), "{output:?}");
    assert!(wait_until(|| case.saves() == 1));
    case.is_saved(&case.named(NEW), 1);
}

/// exec closes the child's files before the text is complete.
#[test]
fn a_child_that_closes_the_file_by_executing_holds_nothing_up() {
    let case = Case::new();
    let script = "import os,subprocess\nf=open('tree.yaml','w')\nf.write(open(os.environ['NEW']).read())\nf.flush()\n\
                  subprocess.check_call(['true'],close_fds=False)\nf.close()";
    let output = case.sh(&format!("python3 -c \"{script}\""));
    assert!(output.status.success(), "{output:?}");
    case.is_saved(&case.named(NEW), 1);
}

/// Replaces the source by a file with another value, as another program does. Returns its tree.
fn change_by_another(case: &Case) -> String {
    let bytes = fs::read(&case.source).unwrap();
    let other = case.source.with_extension("other");
    let text = String::from_utf8_lossy(&bytes[..case.text.len()]).replace("value 7", "VALUE 7");
    fs::write(&other, [text.as_bytes(), &bytes[case.text.len()..]].concat()).unwrap();
    fs::rename(&other, &case.source).unwrap();
    text
}

/// The mount looks at the file at least once a second, and may have read the other tree before the save begins.
#[test]
fn another_programs_change_that_the_mount_has_seen_is_a_conflict() {
    let case = Case::new();
    let mut file = File::create(case.tree()).unwrap();
    file.write_all(case.named(NEW).as_bytes()).unwrap();
    let text = change_by_another(&case);
    assert!(wait_until(
        || fs::read_to_string(case.path("tree.json")).is_ok_and(|json| json.contains("VALUE 7"))
    ));
    assert_eq!(errno(close(file)), libc::EBUSY);
    assert_eq!(case.saved(), text);
    case.is_refused(&case.named(NEW));
}

#[test]
fn another_programs_change_is_a_conflict() {
    let case = Case::new();
    let mut file = File::create(case.tree()).unwrap();
    file.write_all(case.named(NEW).as_bytes()).unwrap();
    let text = change_by_another(&case);
    assert_eq!(errno(close(file)), libc::EBUSY);
    assert_eq!(case.saved(), text);
    assert!(wait_until(|| fs::read_to_string(case.tree()).is_ok_and(|shown| shown == text)));
    case.is_refused(&case.named(NEW));
    // The texts for a merge are beside the refused one.
    let beside = ["tree.yaml", "tree.yaml.base", "tree.yaml.error", "tree.yaml.rejected", "tree.yaml.theirs"];
    assert_eq!(case.names(), beside);
    assert_eq!(fs::read_to_string(case.path("tree.yaml.base")).unwrap(), case.text);
    assert_eq!(fs::read_to_string(case.path("tree.yaml.theirs")).unwrap(), text);
    let why = fs::read_to_string(case.path("tree.yaml.error")).unwrap();
    assert!(why.contains("git merge-file tree.yaml.rejected tree.yaml.base tree.yaml.theirs"), "{why}");
    // A new text is based on the current tree, so it is no conflict.
    fs::write(case.tree(), case.named(NEW)).unwrap();
    assert_eq!(case.saved(), case.named(NEW));
    assert_eq!(case.names(), ["tree.yaml"]);
}

/// The first close of a descriptor that has a copy only checks the text, and the mount has not seen the change yet.
#[test]
fn the_command_of_a_conflict_saves_both_changes() {
    let case = Case::new();
    let file = File::options().read(true).write(true).open(case.tree()).unwrap();
    let text = change_by_another(&case);
    let copy = file.try_clone().unwrap();
    (&copy).write_all(case.named(NEW).as_bytes()).unwrap();
    copy.set_len(case.named(NEW).len() as u64).unwrap();
    assert_eq!(errno(close(copy)), libc::EBUSY);
    assert_eq!(fs::read_to_string(case.path("tree.yaml.theirs")).unwrap(), text);
    assert_eq!(errno(close(file)), libc::EBUSY);
    let why = fs::read_to_string(case.path("tree.yaml.error")).unwrap();
    let command = why.split_once("save the result: ").unwrap().1;
    // The kernel reports the end of a handle only after close has returned; until then the refused draft goes on.
    assert!(wait_until(|| fs::read_to_string(case.tree()).is_ok_and(|shown| shown == text)));
    let output = case.sh(command);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(case.saved(), case.named(NEW).replace("value 7", "VALUE 7"));
}

#[test]
fn after_a_save_of_this_mount_the_base_is_the_saved_text() {
    let case = Case::new();
    fs::write(case.tree(), case.named(NEW)).unwrap();
    assert_eq!(case.saved(), case.named(NEW));
    let mut file = File::create(case.tree()).unwrap();
    file.write_all(case.named("mine").as_bytes()).unwrap();
    let bytes = fs::read(&case.source).unwrap();
    let own = case.named(NEW);
    let theirs = case.named(&"x".repeat(NEW.len()));
    let other = case.source.with_extension("other");
    fs::write(&other, [theirs.as_bytes(), &bytes[own.len()..]].concat()).unwrap();
    fs::rename(&other, &case.source).unwrap();
    assert_eq!(errno(close(file)), libc::EBUSY);
    assert_eq!(fs::read_to_string(case.path("tree.yaml.base")).unwrap(), own);
    assert_eq!(fs::read_to_string(case.path("tree.yaml.theirs")).unwrap(), theirs);
    // The kernel reports the end of a handle only after close has returned; until then the refused draft goes on.
    assert!(wait_until(|| fs::read_to_string(case.tree()).is_ok_and(|shown| shown == theirs)));
    // Any other refusal removes them.
    let mut file = File::create(case.tree()).unwrap();
    file.write_all(case.named(BAD).as_bytes()).unwrap();
    assert_eq!(errno(close(file)), libc::EINVAL);
    assert_eq!(case.names(), ["tree.yaml", "tree.yaml.error", "tree.yaml.rejected"]);
}

#[test]
fn readers_of_blocks_go_on_over_saves() {
    use std::os::unix::fs::FileExt;
    let case = Case::new();
    let block = File::open(case.mount.block_path(0)).unwrap();
    let whole = case.mount.block(0);
    let mut part = vec![0; 100];
    for n in 0..3 {
        fs::write(case.tree(), case.named(&"longer ".repeat(1000 * (n + 1)))).unwrap();
        block.read_exact_at(&mut part, 700).unwrap();
        assert_eq!(part, whole[700..800]);
    }
    assert_eq!(case.saves(), 3);
}

/// Another program has the source open for writing, so that a longer text is refused. The refusal may end at any moment.
#[test]
fn a_text_that_was_refused_by_fsync_is_not_saved_by_close() {
    let case = Case::new();
    let before = fs::read(&case.source).unwrap();
    let longer = case.named(&"longer ".repeat(4000));
    let other = File::options().write(true).open(&case.source).unwrap();
    let mut file = File::create(case.tree()).unwrap();
    file.write_all(longer.as_bytes()).unwrap();
    let refused =
        |error: std::io::Error| assert_eq!(error.raw_os_error(), Some(libc::EBUSY), "{}", case.log());
    refused(file.sync_all().unwrap_err());
    drop(other);
    refused(close(file).unwrap_err());
    assert!(fs::read(&case.source).unwrap() == before, "{}", case.log());
    // An fsync tries the text anew.
    let other = File::options().write(true).open(&case.source).unwrap();
    let mut file = File::create(case.tree()).unwrap();
    file.write_all(longer.as_bytes()).unwrap();
    refused(file.sync_all().unwrap_err());
    drop(other);
    file.sync_all().unwrap();
    close(file).unwrap();
    assert_eq!(case.saved(), longer);
}

/// A tool such as yq drops the prologue. The file gets it back; no editor looks at the text that was copied.
#[test]
fn a_text_without_its_prologue_gives_way_to_the_saved_one() {
    let case = Case::new();
    let text = case.named("stripped");
    let start = text.find("---").unwrap();
    let stripped = case.new_file("stripped");
    fs::write(&stripped, &text[start..]).unwrap();
    let output = case.sh(&format!("cp {} tree.yaml", stripped.display()));
    assert!(output.status.success(), "{output:?}");
    assert_eq!(case.saved(), text, "{}", case.log());
    assert!(wait_until(|| fs::read_to_string(case.tree()).unwrap() == text));
}
