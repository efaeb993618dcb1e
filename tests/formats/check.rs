//! `--check` as a program: its lines, its JSON, its exit status.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::asdf::{AsdfBuilder, Block, Index};

fn check(folder: &Path, arguments: &[&OsStr]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_asdf-mount"));
    command.arg("--check").args(arguments).current_dir(folder).output().unwrap()
}

/// The exit status and the lines on stdout.
fn lines(folder: &Path, name: &OsStr) -> (i32, Vec<String>) {
    let output = check(folder, &[name]);
    assert!(output.stderr.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.code().unwrap(), text.lines().map(str::to_owned).collect())
}

fn broken() -> Vec<u8> {
    let label = *b"\x1b[2J";
    let mut bytes = AsdfBuilder::new().block(Block::new(b"data".repeat(9))).build().bytes;
    let magic = bytes.windows(4).position(|window| window == b"\xd3BLK").unwrap();
    bytes[magic + 10..magic + 14].copy_from_slice(&label);
    bytes
}

#[test]
fn a_defect_is_one_line_whatever_the_file_is_called_and_names_its_block_once() {
    let folder = tempfile::tempdir().unwrap();
    let name = "a\nb.asdf";
    std::fs::write(folder.path().join(name), broken()).unwrap();
    let (status, lines) = lines(folder.path(), OsStr::new(name));
    assert_eq!((status, lines.len()), (1, 1), "{lines:?}");
    assert!(lines[0].starts_with(r"a\nb.asdf: byte "), "{lines:?}");
    assert!(lines[0].ends_with(r#": block 0: damage: the compression "\x1b[2J" is not known"#), "{lines:?}");
}

#[test]
fn a_name_that_is_not_utf_8_is_whole_json() {
    let folder = tempfile::tempdir().unwrap();
    let name = OsStr::from_bytes(b"\xff.asdf");
    for (bytes, status) in [(broken(), 1), (b"text".to_vec(), 2)] {
        std::fs::write(folder.path().join(name), bytes).unwrap();
        let output = check(folder.path(), &[OsStr::new("--json"), name]);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["file"], "\u{fffd}.asdf");
    }
}

#[test]
fn what_costs_no_data_is_told_but_is_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let stale = AsdfBuilder::new()
        .block(Block::new(b"data".repeat(9)))
        .index(Index::Bytes(b"#ASDF BLOCK INDEX\n--- [7]\n...\n".to_vec()));
    stale.build().save(folder.path(), "stale.asdf");
    let (status, lines) = lines(folder.path(), OsStr::new("stale.asdf"));
    assert_eq!((status, lines.len()), (0, 1), "{lines:?}");
    assert!(lines[0].contains(": note: the block index is stale"), "{lines:?}");
}
