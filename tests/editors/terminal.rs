//! The editors that most people have, on a real mount, each on its own terminal; `rare` has the others of Debian.
//!
//! `editors/drivers/run.sh` drives them. If an editor is missing, its test fails.

use std::fs;
use std::path::Path;
use std::process::Command;

use common::case::{BAD, Case, OLD};

/// The text that a driver writes last.
const WRITTEN: &str = "second light";

fn drive(case: &Case, editor: &str, mode: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/editors/drivers/run.sh");
    let output = Command::new("timeout")
        .args(["-k", "5", "300", "bash"])
        .arg(script)
        .args([editor, mode])
        .arg(case.mount.root())
        .output();
    let output = output.unwrap();
    assert!(
        output.status.success(),
        "{}{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
        case.log()
    );
}

/// Saves in one session; in another, gets a refusal, corrects the text and saves. `leaves` are the backups.
#[track_caller]
pub(crate) fn saves_and_mends(editor: &str, leaves: &[&str]) {
    std::thread::scope(|scope| {
        let saving = scope.spawn(|| saves(editor, leaves));
        mends(editor);
        saving.join().expect("the session that saves went wrong");
    });
}

fn saves(editor: &str, leaves: &[&str]) {
    let case = Case::new();
    drive(&case, editor, "save");
    case.is_saved_beside(&case.named(WRITTEN), 1, leaves);
    keeps_the_text(&case);
}

/// Asserts that the history has the text that the only save replaced.
#[track_caller]
fn keeps_the_text(case: &Case) {
    let texts = fs::read_dir(case.path(".asdf-mount/history")).unwrap().map(|entry| entry.unwrap().path());
    let texts: Vec<_> = texts.map(|path| fs::read_to_string(path).unwrap()).collect();
    assert_eq!(texts, [case.text.as_str()]);
}

fn mends(editor: &str) {
    let case = Case::new();
    drive(&case, editor, "mend");
    assert_eq!((case.saved(), case.saves()), (case.named(WRITTEN), 1), "{}", case.log());
    assert_eq!(fs::read_to_string(case.tree()).unwrap(), case.named(WRITTEN));
    let beside = case.names();
    let told = |name: &String| name == "tree.yaml.error" || name == "tree.yaml.rejected";
    assert!(!beside.iter().any(told), "{beside:?}");
    assert!(case.kept().iter().any(|text| text == case.named(BAD).as_bytes()));
    case.blocks_are_whole();
    assert!(case.text.contains(OLD));
    keeps_the_text(&case);
}

#[test]
fn vim() {
    saves_and_mends("vim", &[]);
}

#[test]
fn vim_that_copies_its_backup() {
    saves_and_mends("vim-copy", &[".tree.yaml.un~", "tree.yaml~"]);
}

#[test]
fn vim_without_fsync() {
    saves_and_mends("vim-nofsync", &[]);
}

#[test]
fn emacs() {
    saves_and_mends("emacs", &["tree.yaml~"]);
}

#[test]
fn nano() {
    saves_and_mends("nano", &[]);
}

#[test]
fn vim_that_keeps_the_original() {
    saves_and_mends("vim-patchmode", &["tree.yaml.orig"]);
}

#[test]
fn vim_without_backup_and_swap_file() {
    saves_and_mends("vim-plain", &[]);
}

#[test]
fn emacs_that_copies_its_backup() {
    saves_and_mends("emacs-copy", &["tree.yaml~"]);
}

#[test]
fn emacs_with_precious_files() {
    // The editor renames a new file over the old one. If that fails, it asks at the next save whether to
    // continue, as on any file system, because it has noted the time of the file that it could not rename.
    saves("emacs-precious", &["tree.yaml~"]);
}

#[test]
fn nano_with_backup() {
    saves_and_mends("nano-backup", &["tree.yaml~"]);
}

/// Runs a test with each editor, all at once, because a session mostly waits.
fn with_each(editors: &[&str], test: impl Fn(&str) + Sync) {
    std::thread::scope(|scope| {
        for editor in editors {
            scope.spawn(|| test(editor));
        }
    });
}

#[test]
fn a_refusal_after_a_save_of_the_session_makes_no_editor_ask() {
    with_each(&["emacs", "emacs-copy", "vim", "nano"], |editor| {
        let case = Case::new();
        drive(&case, editor, "later");
        assert_eq!(case.saved(), case.named(WRITTEN), "{editor}");
    });
}

/// The file has one more line than the editor saved, and the editor's view stays unchanged, also after a
/// refusal.
#[test]
fn what_was_put_back_is_not_seen_after_a_refusal() {
    with_each(&["vim", "vim-copy", "nano", "emacs"], |editor| {
        let case = Case::new();
        drive(&case, editor, "again");
        let commented = case.named(WRITTEN).replace("%YAML 1.1\n", "# no version\n");
        assert_eq!(fs::read_to_string(case.tree()).unwrap(), commented, "{editor}");
        let whole = commented.replace("# no version\n", "# no version\n%YAML 1.1\n");
        assert_eq!((case.saved(), case.saves()), (whole, 2), "{editor}: {}", case.log());
    });
}

/// Appended text comes after a line `...` in the text that an editor reads and saves.
#[test]
fn a_text_with_something_appended_is_edited() {
    with_each(&["vim", "emacs"], |editor| {
        let case = Case::new();
        assert!(case.sh("echo 'note: 1' >> tree.yaml").status.success());
        drive(&case, editor, "mend");
        let whole = case.named(WRITTEN).replace("\n...\n", "\nnote: 1\n...\n");
        assert_eq!((case.saved(), case.saves()), (whole, 2), "{editor}: {}", case.log());
    });
}
