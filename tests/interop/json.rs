//! `tree.json` and `tree.tagged.json`: the values that PyYAML reads, in JSON that Python and jq can read.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::process::Command;

use common::mount::{Mounted, fresh_folder};
use common::python::{python, run};

#[test]
fn trees_in_json_are_those_of_python() {
    let folder = fresh_folder();
    run(&python(), "write_trees.py", [folder.path()]);
    let mounted = Mounted::file(folder.path());
    let compared = run(&python(), "read_json.py", [folder.path(), mounted.root()]);
    assert!(compared.trim().parse::<usize>().unwrap() > 60, "{compared}");
    let jq =
        Command::new("jq").args(["-r", ".object.name"]).arg(mounted.path("plain.asdf/tree.json")).output();
    assert_eq!(jq.unwrap().stdout, b"M 31\n");
    mounted.unmount();
}

/// Trees that no test lists: tags of YAML's own types, repeated keys, references, merge keys.
#[test]
fn random_trees_are_those_of_python() {
    let folder = fresh_folder();
    let program = std::ffi::OsStr::new(env!("CARGO_BIN_EXE_asdf-mount"));
    let compared = run(&python(), "random_trees.py", [folder.path().as_os_str(), program]);
    assert!(compared.trim().parse::<usize>().unwrap() > 2000, "{compared}");
}

/// A text that is not cached in memory can be read from any offset, and its handle never mixes two trees.
#[test]
fn a_large_tree_is_read_at_any_offset() {
    let folder = fresh_folder();
    let source = folder.path().join("large.asdf");
    let numbers: Vec<String> = (0..60_000).map(|n| format!("- {{a: {n}, b: &x{n} [text]}}")).collect();
    let tree = format!("#ASDF 1.0.0\n%YAML 1.1\n---\nname: one\nlist:\n{}\n...\n", numbers.join("\n"));
    fs::write(&source, tree).unwrap();
    let mounted = Mounted::file(&source);
    let path = mounted.path("tree.json");
    let whole = fs::read(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), whole.len() as u64);
    let value: serde_json::Value = serde_json::from_slice(&whole).unwrap();
    assert_eq!(value["list"][59_999]["a"], 59_999);
    let mut file = fs::File::open(&path).unwrap();
    for at in [whole.len() - 1000, 1_500_000, 0, 1_700_001] {
        let mut piece = [0; 1000];
        file.seek(SeekFrom::Start(at as u64)).unwrap();
        file.read_exact(&mut piece).unwrap();
        assert!(piece == whole[at..at + 1000], "{at}");
    }
    let tree = fs::read_to_string(mounted.path("tree.yaml")).unwrap();
    fs::write(mounted.path("tree.yaml"), tree.replace("name: one", "name: two")).unwrap();
    // The kernel's cache still has the old text; no other bytes appear.
    let (mut old, mut left) = (vec![0; whole.len()], 0);
    file.seek(SeekFrom::Start(0)).unwrap();
    while let Ok(read @ 1..) = file.read(&mut old[left..]) {
        left += read;
    }
    assert!(old[..left] == whole[..left], "{left} bytes, some of them of another tree");
    assert!(fs::read_to_string(&path).unwrap().contains("\"name\": \"two\""));
    drop(file);
    mounted.unmount();
}

/// Handles that have a short text open keep it.
#[test]
fn an_open_text_stays_as_it_was_when_the_tree_is_saved() {
    let folder = fresh_folder();
    let source = folder.path().join("a.asdf");
    fs::write(&source, "#ASDF 1.0.0\n%YAML 1.1\n---\nname: one\n...\n").unwrap();
    let mounted = Mounted::file(&source);
    let mut open = fs::File::open(mounted.path("tree.json")).unwrap();
    let tree = fs::read_to_string(mounted.path("tree.yaml")).unwrap();
    fs::write(mounted.path("tree.yaml"), tree.replace("one", "three")).unwrap();
    let mut text = String::new();
    open.read_to_string(&mut text).unwrap();
    assert_eq!(text, "{\n  \"name\": \"one\"\n}\n");
    assert_eq!(fs::read_to_string(mounted.path("tree.json")).unwrap(), "{\n  \"name\": \"three\"\n}\n");
    assert_eq!(fs::metadata(mounted.path("tree.json")).unwrap().len(), 22);
    drop(open);
    mounted.unmount();
}

/// On listing, the kernel first asks for all attributes; the tree is read only if a program asks for them.
#[test]
fn listing_a_folder_makes_no_json() {
    let folder = fresh_folder();
    fs::write(folder.path().join("a.asdf"), "#ASDF 1.0.0\n%YAML 1.1\n---\n{[1]: 2}\n...\n").unwrap();
    fs::write(folder.path().join("b.asdf"), "#ASDF 1.0.0\n%YAML 1.1\n---\n{c: d}\n...\n").unwrap();
    let mounted = Mounted::file(folder.path());
    let is_made = || {
        let status = fs::read_to_string(mounted.path("a.asdf/.asdf-mount/status.yaml")).unwrap();
        status.contains("tree.json")
    };
    for name in ["a.asdf", "b.asdf"] {
        let entries = fs::read_dir(mounted.path(name)).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(entries.filter(|name| name.to_string_lossy().contains(".json")).count() == 3);
    }
    assert!(!is_made());
    assert!(fs::metadata(mounted.path("a.asdf/tree.json")).unwrap().is_file());
    assert!(is_made());
    assert_eq!(fs::metadata(mounted.path("b.asdf/tree.json")).unwrap().len(), 15);
    assert_eq!(fs::read(mounted.path("b.asdf/tree.json")).unwrap().len(), 15);
    mounted.unmount();
}

/// A tree that can't be shown as JSON can be edited, and the status gives the reason.
#[test]
fn what_has_no_json_is_an_error_with_its_reason() {
    let folder = fresh_folder();
    let source = folder.path().join("a.asdf");
    fs::write(&source, "#ASDF 1.0.0\n%YAML 1.1\n---\n{[1]: 2}\n...\n").unwrap();
    let mounted = Mounted::file(&source);
    let error = fs::read(mounted.path("tree.json")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
    let status = fs::read_to_string(mounted.path(".asdf-mount/status.yaml")).unwrap();
    assert!(status.contains("a key is not a scalar at line 4, column 2"), "{status}");
    assert!(fs::read(mounted.path("tree.yaml")).is_ok());
    mounted.unmount();
}
