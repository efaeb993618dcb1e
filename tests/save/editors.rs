//! Terminal editors of Debian on a real mount, each driven through a terminal of its own.
//!
//! `editors/run.sh` says how. An editor that is missing makes its test fail, not pass.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::case::{BAD, Case, OLD};

/// What a driver writes in the end.
const WRITTEN: &str = "second light";

fn drive(case: &Case, editor: &str, mode: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/save/editors/run.sh");
    let output = Command::new("timeout")
        .args(["-k", "5", "120", "bash"])
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

/// Saves in a session, then in another refuses, corrects and saves; `leaves` are the backups.
fn saves_and_mends(editor: &str, leaves: &[&str]) {
    let case = Case::new();
    drive(&case, editor, "save");
    case.is_saved_beside(&case.named(WRITTEN), 1, leaves);
    fs::write(case.tree(), &case.text).unwrap();
    drive(&case, editor, "mend");
    assert_eq!(case.saved(), case.named(WRITTEN));
    assert_eq!(case.saves(), 3, "{}", case.log());
    let beside = case.names();
    assert!(
        !beside.iter().any(|name| name == "tree.yaml.error" || name == "tree.yaml.rejected"),
        "{beside:?}"
    );
    assert!(case.kept().iter().any(|text| text == case.named(BAD).as_bytes()));
    case.blocks_are_whole();
    assert!(case.text.contains(OLD));
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
fn neovim() {
    saves_and_mends("nvim", &[]);
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
fn micro() {
    saves_and_mends("micro", &[]);
}
