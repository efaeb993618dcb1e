//! Files that a kill left half-saved, found elsewhere or later: copied, renamed, restored, or mounted again,
//! with a journal that is missing, truncated, or from another user or version. They are never shown, and
//! never changed except to the old file or the new one.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::faults::{Fault, Faults};
use crate::killed::{WAYS, Way};
use crate::place::{Place, said, write};
use common::case::build;
use common::disk::run;
use common::mount::{Asking, Mounted, fresh_folder, wait_until};

const STRANGER: u32 = 65_533;

/// Kills `--set-tree` one call later each time, until the file is a mixture.
pub(crate) fn leave_half(place: &Place, old: &str, new: &str) {
    let tree = place.folder().join("new");
    fs::write(&tree, new).unwrap();
    let faults = Faults::new(&place.folder(), &place.disk.path());
    for at in 0..100 {
        faults.after(at, Fault::KilledBefore);
        let mut command =
            place.command([OsStr::new("--set-tree"), tree.as_os_str(), place.source.as_os_str()]);
        faults.under(&mut command);
        assert!(!command.output().unwrap().status.success(), "it was never half-saved");
        if !place.is_whole(&[old, new]) {
            return;
        }
        let output = place.run([OsStr::new("--recover"), place.source.as_os_str()]);
        assert!(output.status.success(), "{at}: {output:?}");
    }
    panic!("the save never came to its end");
}

/// A half-saved file, with the files that the save created beside it.
#[derive(Debug)]
struct Half {
    place: Place,
    texts: [String; 2],
    /// Names and bytes of the file, its journal and its image.
    files: Vec<(String, Vec<u8>)>,
}

/// Returns the state before the last call with which a save modifies the file.
fn half(way: Way) -> Half {
    let place = way.place();
    let old = place.named(&if way.grows { "room ".repeat(200) } else { "a".repeat(150_000) });
    write(&place.mount(), &old).unwrap();
    let new = if way.grows { way.next(&place, &old, 3) } else { old.replace("aaaa", "bbbb") };
    let before = fs::read(&place.source).unwrap();
    let mut files = Vec::new();
    let tree = place.folder().join("new");
    fs::write(&tree, &new).unwrap();
    let faults = Faults::new(&place.folder(), &place.disk.path());
    for at in 0..100 {
        fs::write(&place.source, &before).unwrap();
        faults.after(at, Fault::KilledBefore);
        let mut command =
            place.command([OsStr::new("--set-tree"), tree.as_os_str(), place.source.as_os_str()]);
        faults.under(&mut command);
        let done = command.output().unwrap().status.success();
        if !done && !place.is_whole(&[&old, &new]) {
            let names = fs::read_dir(place.disk.path()).unwrap().map(|entry| entry.unwrap().file_name());
            let names = names.map(|name| name.into_string().unwrap()).filter(|name| name.contains("a.asdf"));
            files =
                names.map(|name| (name.clone(), fs::read(place.disk.path().join(name)).unwrap())).collect();
        }
        for name in place.ours_beside() {
            fs::remove_file(place.disk.path().join(name)).unwrap();
        }
        if done {
            break;
        }
    }
    assert!(files.iter().any(|(name, bytes)| name == "a.asdf" && bytes.starts_with(b"#ASDF!")), "{way:?}");
    Half { place, texts: [old, new], files }
}

/// A directory with copies of the half-saved files, in new inodes.
struct Copied<'a> {
    half: &'a Half,
    folder: tempfile::TempDir,
}

impl Half {
    fn copied(&self) -> Copied<'_> {
        let folder = fresh_folder();
        for (name, bytes) in &self.files {
            fs::write(folder.path().join(name), bytes).unwrap();
            fs::set_permissions(folder.path().join(name), fs::Permissions::from_mode(0o600)).unwrap();
        }
        Copied { half: self, folder }
    }
}

impl Copied<'_> {
    fn source(&self) -> PathBuf {
        self.folder.path().join("a.asdf")
    }

    fn journal(&self) -> PathBuf {
        self.folder.path().join(".a.asdf.asdf-mount-journal")
    }

    fn run(&self, option: &str, source: &Path) -> Output {
        self.half.place.run([OsStr::new(option), source.as_os_str()])
    }

    /// Asserts that the file is neither shown nor changed, and that each command says so.
    #[track_caller]
    fn is_refused(&self, source: &Path, says: &str) {
        let before = fs::read(source).unwrap();
        let told = |output: &Output| {
            let told = [said(output), String::from_utf8_lossy(&output.stdout).into_owned()].concat();
            assert!(!output.status.success() && told.contains(says), "{says}: {output:?}");
            assert!(told.contains("a save was interrupted"), "{output:?}");
        };
        told(&self.half.place.try_mount(source, &["-o", "ro"]).map(drop).unwrap_err());
        told(&self.half.place.try_mount(source, &[]).map(drop).unwrap_err());
        told(&self.run("--recover", source));
        for option in ["--check", "--info", "--ls", "--refs", "--catalog"] {
            told(&self.run(option, source));
        }
        told(&self.half.place.run([OsStr::new("--search"), OsStr::new("name"), source.as_os_str()]));
        told(&self.half.place.run([OsStr::new("--cat"), source.as_os_str(), OsStr::new("tree.yaml")]));
        told(&self.run("--check", self.folder.path()));
        let tree = self.half.place.folder().join("new");
        told(&self.half.place.run([OsStr::new("--set-tree"), tree.as_os_str(), source.as_os_str()]));
        assert!(fs::read(source).unwrap() == before, "it was changed");
    }

    /// Asserts that the file is hidden before a recovery, and is the old or the new one afterwards.
    #[track_caller]
    fn is_mended(&self, source: &Path) {
        let refused = self.half.place.try_mount(source, &["-o", "ro"]).map(drop).unwrap_err();
        assert!(said(&refused).contains("--recover"), "{refused:?}");
        let recovered = self.run("--recover", source);
        assert!(recovered.status.success(), "{recovered:?}");
        let text = crate::place::saved(source);
        assert!(self.half.texts.contains(&text), "a text that was never written: {text}");
        let bytes = fs::read(source).unwrap();
        let first = bytes.windows(4).position(|four| four == common::asdf::MAGIC).unwrap();
        assert!(bytes == self.half.place.model(&text, first), "the blocks are others");
        assert!(self.run("--check", source).status.success());
    }
}

const MISSING: &str = "its journal is missing";

fn met_in_every_way(way: Way) {
    let half = half(way);
    journal_is_changed(&half);
    file_is_moved(&half);
}

fn journal_is_changed(half: &Half) {
    let copied = half.copied();
    let (source, journal) = (copied.source(), copied.journal());
    let bytes = fs::read(&journal).unwrap();
    let mut other = bytes.clone();
    other[9] = 9;
    fs::write(&journal, &other).unwrap();
    copied.is_refused(&source, "can't use the journal");
    for len in [bytes.len() - 1, bytes.len() / 2, 600, 300, 20] {
        fs::write(&journal, &bytes[..len]).unwrap();
        copied.is_refused(&source, "it is truncated or damaged");
    }
    fs::write(&journal, b"").unwrap();
    copied.is_refused(&source, "it is truncated or damaged");
    fs::write(&journal, &bytes).unwrap();
    chown(&journal, Some(STRANGER), None).unwrap();
    copied.is_refused(&source, "it belongs to another user (uid 65533)");
    chown(&journal, Some(0), None).unwrap();
    fs::set_permissions(&journal, fs::Permissions::from_mode(0o666)).unwrap();
    copied.is_refused(&source, "other users can write to it");
    let aside = journal.with_extension("asdf-mount-journal.aside");
    fs::rename(&journal, &aside).unwrap();
    copied.is_refused(&source, "other users can write to it");
    fs::set_permissions(&aside, fs::Permissions::from_mode(0o600)).unwrap();
    copied.is_mended(&source);

    let copied = half.copied();
    fs::remove_file(copied.journal()).unwrap();
    copied.is_refused(&copied.source(), MISSING);

    // Another program wrote to the file.
    let copied = half.copied();
    let mut changed = fs::read(copied.source()).unwrap();
    changed[40] = b'~';
    fs::write(copied.source(), changed).unwrap();
    copied.is_refused(&copied.source(), "the file was changed since");
}

fn file_is_moved(half: &Half) {
    // The whole directory is copied or restored.
    let copied = half.copied();
    copied.is_mended(&copied.source());

    // The files are hard links to the copies.
    let copied = half.copied();
    let linked = half.copied();
    for (name, _) in &half.files {
        fs::remove_file(linked.folder.path().join(name)).unwrap();
        fs::hard_link(copied.folder.path().join(name), linked.folder.path().join(name)).unwrap();
    }
    copied.is_mended(&copied.source());

    // Everyone can write all files.
    let copied = half.copied();
    for (name, _) in &half.files {
        fs::set_permissions(copied.folder.path().join(name), fs::Permissions::from_mode(0o777)).unwrap();
    }
    copied.is_mended(&copied.source());

    // The file is copied or renamed without its journal.
    let copied = half.copied();
    let other = copied.folder.path().join("b.asdf");
    fs::copy(copied.source(), &other).unwrap();
    copied.is_refused(&other, MISSING);
    fs::rename(copied.source(), &other).unwrap();
    copied.is_refused(&other, MISSING);
    let folder = half.place.try_mount(copied.folder.path(), &[]).unwrap();
    let status = fs::read_to_string(folder.path("b.asdf/.asdf-mount/status.yaml")).unwrap();
    assert!(status.contains("a save was interrupted"), "{status}");
    assert!(half.place.log().contains(MISSING), "{}", half.place.log());
    assert!(fs::read(folder.path("b.asdf/tree.yaml")).is_err() && fs::read(folder.path("b.asdf")).is_err());
    drop(folder);
    for (name, _) in half.files.iter().filter(|(name, _)| name.starts_with('.')) {
        let renamed = name.replace("a.asdf.", "b.asdf.");
        fs::rename(copied.folder.path().join(name), copied.folder.path().join(renamed)).unwrap();
    }
    copied.is_mended(&other);
}

#[test]
fn a_file_half_saved_in_place() {
    met_in_every_way(WAYS[0]);
}

/// After a power cut, a mixture may begin like any file.
#[test]
fn a_half_saved_file_without_the_mark_is_not_shown() {
    let half = half(WAYS[0]);
    let copied = half.copied();
    let mut unmarked = fs::read(copied.source()).unwrap();
    unmarked[..6].copy_from_slice(b"#ASDF ");
    unmarked[40_960..45_056].fill(b'a');
    fs::write(copied.source(), unmarked).unwrap();
    for option in ["--info", "--catalog", "--refs", "--check", "--ls"] {
        let output = copied.run(option, &copied.source());
        let told = [said(&output), String::from_utf8_lossy(&output.stdout).into_owned()].concat();
        assert!(!output.status.success() && told.contains("asdf-mount --recover"), "{option}: {output:?}");
    }
    copied.is_mended(&copied.source());
}

#[test]
fn a_file_half_saved_with_moved_blocks() {
    met_in_every_way(WAYS[3]);
}

#[test]
fn a_file_half_saved_from_a_copy() {
    met_in_every_way(WAYS[6]);
}

/// Another user's journal neither changes nor hides a file that is one of its two versions, and never changes a sound
/// file that it calls a mixture.
#[test]
fn a_forged_journal_changes_no_file() {
    let half = half(WAYS[0]);
    let copied = half.copied();
    let (source, journal) = (copied.source(), copied.journal());
    let [before, new] = [0, 1].map(|n| half.place.model(&half.texts[n], half.place.room()));
    let mut mixture = before.clone();
    mixture[40_960..81_920].copy_from_slice(&new[40_960..81_920]);
    for (owner, mode, why) in [
        (STRANGER, 0o644, "it belongs to another user (uid 65533)"),
        (0, 0o666, "other users can write to it"),
    ] {
        fs::write(&source, &before).unwrap();
        chown(&journal, Some(owner), None).unwrap();
        fs::set_permissions(&journal, fs::Permissions::from_mode(mode)).unwrap();
        let bytes = fs::read(&journal).unwrap();
        assert_eq!(half.place.try_mount(&source, &["-o", "ro"]).unwrap().tree(), half.texts[0].as_bytes());
        assert!(copied.run("--check", &source).status.success());
        assert!(copied.run("--recover", &source).status.success());
        assert!(fs::read(&source).unwrap() == before);
        fs::write(&journal, bytes).unwrap();
        chown(&journal, Some(owner), None).unwrap();
        fs::set_permissions(&journal, fs::Permissions::from_mode(mode)).unwrap();
        fs::write(&source, &mixture).unwrap();
        copied.is_refused(&source, why);
    }
}

/// The journal lies in the state directory, because no file can be created beside the source.
#[test]
fn with_another_state_directory() {
    let place = Place::on("ext4");
    let folder = place.disk.path();
    let old = place.named(&"a".repeat(150_000));
    let new = old.replace("aaaa", "bbbb");
    write(&place.mount(), &old).unwrap();
    run("chattr", &["+i", folder.to_str().unwrap()]);
    leave_half(&place, &old, &new);
    let elsewhere = |option: &str| {
        let mut command = place.command([OsStr::new(option), place.source.as_os_str()]);
        command.env("XDG_STATE_HOME", place.folder().join("other")).output().unwrap()
    };
    for option in ["--recover", "--check", "-r"] {
        let output = elsewhere(option);
        let told = [&output.stdout[..], &output.stderr].concat();
        assert!(!output.status.success(), "{option}: {output:?}");
        assert!(option == "-r" || String::from_utf8_lossy(&told).contains(MISSING), "{option}: {output:?}");
    }
    let output = place.run([OsStr::new("--recover"), place.source.as_os_str()]);
    run("chattr", &["-i", folder.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    place.holds_one_of(&[&old, &new]);
}

/// The journal is of a save into a file that another one has just replaced. It goes when that save ends.
#[test]
fn the_journal_of_a_replaced_file_that_is_being_saved_keeps_no_reader_away() {
    let folder = fresh_folder();
    let source = folder.path().join("a.asdf");
    build(&source);
    let mount = Mounted::new(["-r", folder.path().to_str().unwrap()]);
    let journal = source.with_file_name(".a.asdf.asdf-mount-journal");
    fs::write(&journal, [&b"ASDFJRNL"[..], &[1; 600]].concat()).unwrap();
    let tree = mount.path("a.asdf/tree.yaml");
    let reader = Asking::begin(move || fs::read(tree));
    assert!(wait_until(|| reader.waits()));
    fs::remove_file(&journal).unwrap();
    let text = reader.thread.join().unwrap().unwrap();
    assert!(fs::read(&source).unwrap().starts_with(&text));
}
