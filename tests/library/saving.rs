//! `File::set_tree` and `File::set`: the rules of any save.

use std::path::{Path, PathBuf};
use std::process::Command;

use asdf_access::{Allowed, File, Kind, OpenOptions};

use crate::repository;

/// Copies the sample into a directory.
fn sample(folder: &Path) -> PathBuf {
    let path = folder.join("a.asdf");
    std::fs::copy(repository("examples/sample.asdf"), &path).unwrap();
    path
}

/// Opens a file whose saves leave no text in the user's history.
fn open(path: &Path) -> File {
    OpenOptions::parse("history=off").unwrap().open(path).unwrap()
}

#[test]
fn a_changed_key_is_saved_and_blocks_keep_their_data() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path());
    let mut file = open(&path);
    let before = file.array("image").unwrap();
    let image = before.to_vec::<i16>().unwrap();
    let stars = file.block(2).unwrap();
    let stars_before = stars.to_vec().unwrap();
    // A text of the same length, a shorter one, and one for which the blocks have to move.
    for name in ["Simple Galaxy", "M31", &"long ".repeat(3000)] {
        let tree = file.tree().unwrap();
        let start = tree.find("name: Sample Galaxy").or_else(|| tree.find("name: Simple Galaxy"));
        let start = start.or_else(|| tree.find("name: M31")).unwrap();
        let end = start + tree[start..].find('}').unwrap();
        let text = format!("{}name: '{name}'{}", &tree[..start], &tree[end..]);
        let text =
            text.replace("name: 'M31'", "name: M31").replace("name: 'Simple Galaxy'", "name: Simple Galaxy");
        let report = file.set_tree(&text).unwrap();
        assert!(report.written && report.restored.is_empty(), "{report:?}");
        assert_eq!(file.tree().unwrap(), text);
        assert_eq!(File::open(&path).unwrap().tree().unwrap(), text);
        assert!(file.array("image").unwrap().to_vec::<i16>().unwrap() == image);
        assert!(file.block(2).unwrap().to_vec().unwrap() == stars_before);
    }
    // The bytes have moved below these.
    assert_eq!(stars.to_vec().unwrap_err().kind(), Kind::Changed);
    let tree = file.tree().unwrap();
    assert!(!file.set_tree(&tree).unwrap().written);
    assert!(file.check().unwrap().is_empty());
    // Nothing lies beside the file.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_refused_text_leaves_the_file_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path());
    let before = std::fs::read(&path).unwrap();
    let mut file = open(&path);
    let tree = file.tree().unwrap();
    let image = file.array("image").unwrap();
    for (text, what) in [
        (tree.replace("source: 0", "source: 9"), "block 9"),
        (tree.replace("object: {", "object: {{"), "line "),
        (tree.replace("[160, 160]", "[160, 161]"), "does not fit in block 0"),
        (String::new(), "empty"),
    ] {
        let error = file.set_tree(&text).unwrap_err();
        assert_eq!(error.kind(), Kind::Refused, "{error}");
        assert!(error.to_string().contains(what), "{error}");
    }
    assert!(std::fs::read(&path).unwrap() == before);
    // Arrays taken before are still read.
    assert_eq!(image.to_vec::<i16>().unwrap().len(), 160 * 160);
    let lost = tree.replacen("#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n", "", 1);
    let report = file.set_tree(&lost.replace("Sample", "Simple")).unwrap();
    assert!(report.written && report.restored.len() == 2, "{report:?}");
    assert!(file.tree().unwrap().starts_with("#ASDF 1.0.0\n"));
}

#[test]
fn other_programs_are_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path());
    let (mut one, mut other) = (open(&path), open(&path));
    let tree = one.tree().unwrap();
    assert!(one.set_tree(&tree.replace("Sample", "First Sample")).unwrap().written);
    let error = other.set_tree(&tree.replace("Sample", "Second")).unwrap_err();
    assert!(matches!(error.kind(), Kind::Changed | Kind::Conflict), "{error}");
    assert!(open(&path).tree().unwrap().contains("First Sample"));

    let held = std::fs::File::open(&path).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    let error = one.set_tree(&tree).unwrap_err();
    assert_eq!(error.kind(), Kind::Busy, "{error}");
    drop(held);

    for path in ["examples/trajectory.gsd", "tests/fixtures/bloscpack/bcolz1.2.1_f8__0.blp"] {
        let copy = folder.path().join("copy");
        std::fs::copy(repository(path), &copy).unwrap();
        let error = open(&copy).set_tree("a: 1\n").unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    }
}

#[test]
fn a_set_value_changes_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path());
    let mut file = open(&path);
    let before = file.tree().unwrap();
    let image = file.array("image").unwrap().to_vec::<i16>().unwrap();
    let create = Allowed { create: true, ..Allowed::default() };
    let report = file.set(&[("object.filter", "B"), ("object.exposure", "long"), ("a", "{b: 1}")], create);
    let report = report.unwrap();
    let warning = "object.exposure: it was a number, and Python reads \"long\" as a text";
    assert!(report.written && report.warnings.contains(&warning.to_owned()), "{report:?}");
    let expected = before.replace("{exposure: 1200.0, filter: V,", "{exposure: long, filter: B,");
    let expected = expected.replace("\n...\n", "\na: {b: 1}\n...\n");
    assert_eq!(file.tree().unwrap(), expected);
    assert_eq!(File::open(&path).unwrap().tree().unwrap(), expected);
    assert!(file.array("image").unwrap().to_vec::<i16>().unwrap() == image);
    assert!(!file.set(&[("object.filter", "B")], Allowed::default()).unwrap().written);
}

#[test]
fn what_can_not_be_set_leaves_the_file_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path());
    let before = std::fs::read(&path).unwrap();
    let mut file = open(&path);
    for (key, value, kind, what) in [
        ("object.none", "1", Kind::NotFound, "object.none: object has no key"),
        ("object", "1", Kind::Refused, "object is a mapping with 3 keys"),
        ("image", "", Kind::Refused, "image is an array"),
        ("object.filter=V", "B", Kind::Usage, "give the key alone, object.filter"),
        ("object..filter", "B", Kind::Usage, "a key is empty"),
        ("object.filter", "[", Kind::Usage, "object.filter=[: "),
        ("image.shape", "[160, 161]", Kind::Refused, "does not fit in block 0"),
    ] {
        let error = file.set(&[("object.name", "M31"), (key, value)], Allowed::default()).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        let message = error.to_string();
        assert!(message.starts_with(path.to_str().unwrap()) && message.contains(what), "{message}");
    }
    assert!(std::fs::read(&path).unwrap() == before);
    open(&path).set(&[("object.name", "First")], Allowed::default()).unwrap();
    let error = file.set(&[("object.name", "Second")], Allowed::default()).unwrap_err();
    assert!(matches!(error.kind(), Kind::Changed | Kind::Conflict), "{error}");
    assert!(open(&path).tree().unwrap().contains("name: First"));

    let copy = folder.path().join("copy");
    std::fs::copy(repository("examples/trajectory.gsd"), &copy).unwrap();
    let error = open(&copy).set(&[("none", "1")], Allowed::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    let mut received = File::from_bytes(before).unwrap();
    let error = received.set(&[("object.name", "M31")], Allowed::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::ReadOnly, "{error}");
}

/// The environment decides where the history is, so a process of its own saves.
#[test]
fn the_replaced_text_goes_into_the_history() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path());
    let state = folder.path().join("state");
    let saved = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "saving::saves_with_a_history"])
        .env("XDG_STATE_HOME", &state)
        .env("SAVED_FILE", &path)
        .output()
        .unwrap();
    assert!(saved.status.success(), "{saved:?}");
    let mut texts = Vec::new();
    for bucket in std::fs::read_dir(state.join("asdf-mount/history")).unwrap() {
        let Ok(entries) = std::fs::read_dir(bucket.unwrap().path()) else { continue };
        texts.extend(entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()));
    }
    let [text] = &texts[..] else { panic!("{texts:?}") };
    assert!(std::fs::read_to_string(text).unwrap().contains("name: Sample Galaxy"));
}

#[test]
#[ignore = "runs in a process of its own"]
fn saves_with_a_history() {
    let mut file = File::open(std::env::var_os("SAVED_FILE").unwrap()).unwrap();
    let tree = file.tree().unwrap().replace("Sample", "Simple");
    assert!(file.set_tree(&tree).unwrap().written);
}
