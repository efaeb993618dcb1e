//! Two writers of one file, and other programs that change it.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::process::Output;

use rustix::process::{Pid, Signal, kill_process};

use crate::exchanged::Stopped;
use crate::faults::{Faults, calls};
use crate::place::{Place, close, errno, file, said, saved, write};
use common::asdf::{Block, sample};
use common::mount::{Mounted, wait_until};

const READ_ONLY: &[&str] = &["-o", "ro"];

fn kill(daemon: u32) {
    kill_process(Pid::from_raw(daemon.cast_signed()).unwrap(), Signal::KILL).unwrap();
}

/// Truncates a file by name, without opening it.
fn cut(path: &Path, len: i64) {
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
    // SAFETY: the pointer is to a NUL-terminated string that outlives the call.
    assert_eq!(unsafe { libc::truncate(path.as_ptr(), len) }, 0);
}

/// Asserts that one line names the process that has the file locked.
#[track_caller]
fn names(output: &Output, daemon: u32, mountpoint: &Path) {
    let said = said(output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let holder = format!("already mounted for writing at {} (process {daemon}); ", mountpoint.display());
    assert!(said.contains(&holder), "{said}, not {holder}");
}

#[test]
fn a_second_writer_is_refused_under_whatever_name_and_a_reader_never() {
    let place = Place::on("ext4");
    let (link, hard) = (place.disk.path().join("link"), place.disk.path().join("hard"));
    symlink("a.asdf", &link).unwrap();
    fs::hard_link(&place.source, &hard).unwrap();
    let tree = place.folder().join("tree");
    fs::write(&tree, place.named("second")).unwrap();
    let mut first = place.mount();
    for round in 0..3 {
        let daemon = first.daemon().unwrap();
        for name in [&place.source, &link, &hard].into_iter().skip(round) {
            let output = place.try_mount(name, &[]).unwrap_err();
            names(&output, daemon, first.root());
            assert!(said(&output).ends_with("; add -r to mount it read-only\n"), "{output:?}");
            // This one saves through the mount.
            let set = place.run([Path::new("--set-tree"), &tree, name]);
            assert!(set.status.success(), "{set:?}");
            place.holds(&place.named("second"));
            names(&place.run([Path::new("--recover"), name]), daemon, first.root());
            let reader = place.try_mount(name, READ_ONLY).unwrap();
            assert_eq!(reader.tree(), first.tree());
            assert_eq!(errno(write(&reader, &place.named("third"))), libc::EROFS);
        }
        // The second writer is also refused if the file under the name has another inode or size.
        write(&first, &place.named(&"longer ".repeat(1000 * (round + 1)))).unwrap();
        names(&place.try_mount(&link, &[]).unwrap_err(), daemon, first.root());
        // The lock is released at every kind of unmount.
        match round {
            0 => first.unmount(),
            1 => {
                kill(daemon);
                assert!(wait_until(|| first.daemon().is_none()));
            }
            _ => return,
        }
        first = place.try_mount(&hard, &[]).unwrap();
        place.shows_blocks(&first);
    }
}

/// The note about the process that has the file lies in the state directory of the user who mounted it.
#[test]
fn another_user_is_told_as_well() {
    let place = Place::on("tmpfs");
    let first = place.mount();
    for _ in 0..2 {
        let output = Mounted::try_new([place.source.as_path()]);
        names(&output.unwrap_err(), first.daemon().unwrap(), first.root());
        write(&first, &place.named(&"longer ".repeat(1000))).unwrap();
    }
    let whole = place.try_mount(&place.disk.path(), &[]).unwrap();
    let opened = File::create(whole.path("a.asdf/tree.yaml"));
    assert_eq!(errno(opened), libc::EBUSY);
    let holder = format!(
        "already mounted for writing at {} (process {})",
        first.root().display(),
        first.daemon().unwrap()
    );
    assert!(place.log().contains(&holder), "{}", place.log());
}

#[test]
fn a_program_that_locks_the_file_is_not_called_a_mount() {
    let place = Place::on("tmpfs");
    let whole = place.try_mount(&place.disk.path(), &[]).unwrap();
    let file = File::open(&place.source).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let output = place.try_mount(&place.source, &[]).map(drop).unwrap_err();
    let locked = format!("process {} has locked it", std::process::id());
    assert!(said(&output).contains(&locked), "{output:?}");
    assert_eq!(errno(File::create(whole.path("a.asdf/tree.yaml"))), libc::EBUSY);
    assert!(place.log().contains(&locked) && !place.log().contains("already mounted"), "{}", place.log());
}

#[test]
fn a_folder_has_the_lock_of_a_file_from_its_first_draft_to_the_last() {
    let place = Place::on("tmpfs");
    let folder = place.try_mount(&place.disk.path(), &[]).unwrap();
    let daemon = folder.daemon().unwrap();
    let tree = folder.path("a.asdf/tree.yaml");
    let is_free = || place.run([Path::new("--recover"), &place.source]).status.success();
    let is_taken = || names(&place.try_mount(&place.source, &[]).unwrap_err(), daemon, folder.root());
    assert!(is_free());
    // stat, reading and scratch files do not lock the file.
    fs::read(&tree).unwrap();
    fs::write(folder.path("a.asdf/scratch"), "x").unwrap();
    assert!(is_free());

    let mut draft = File::create(&tree).unwrap();
    is_taken();
    draft.write_all(place.named("second").as_bytes()).unwrap();
    is_taken();
    draft.sync_all().unwrap();
    is_taken();
    close(draft).unwrap();
    assert!(wait_until(is_free), "after a save");
    assert_eq!(place.saved(), place.named("second"));

    // A save by rename; a refused rename; a refused close.
    fs::write(folder.path("a.asdf/scratch"), place.named(&"third ".repeat(2000))).unwrap();
    fs::rename(folder.path("a.asdf/scratch"), &tree).unwrap();
    assert!(wait_until(is_free), "after a renaming");
    fs::write(folder.path("a.asdf/scratch"), place.named("a: b: c")).unwrap();
    assert_eq!(errno(fs::rename(folder.path("a.asdf/scratch"), &tree)), libc::EINVAL);
    assert!(wait_until(is_free), "after a renaming that was refused");
    let mut draft = File::create(&tree).unwrap();
    draft.write_all(place.named("a: b: c").as_bytes()).unwrap();
    assert_eq!(errno(close(draft)), libc::EINVAL);
    assert!(wait_until(is_free), "after a refusal");
    // A handle closed before any write; a tree that stays truncated.
    drop(File::options().write(true).open(&tree).unwrap());
    assert!(wait_until(is_free), "after a handle that wrote nothing");
    cut(&tree, 10);
    is_taken();
    fs::write(&tree, place.named("fourth")).unwrap();
    assert!(wait_until(is_free), "after a cut text was written anew");

    // The reverse: while the file itself is mounted, the mounted directory can't write its tree.
    let first = place.mount();
    let holder = format!(
        "already mounted for writing at {} (process {})",
        first.root().display(),
        first.daemon().unwrap()
    );
    assert_eq!(errno(File::create(&tree)), libc::EBUSY);
    assert!(place.log().contains(&holder), "{}", place.log());
    write(&first, &place.named("fifth")).unwrap();
    assert!(wait_until(|| fs::read_to_string(&tree).unwrap() == place.named("fifth")));
    first.unmount();
    fs::write(&tree, place.named("sixth")).unwrap();
    assert_eq!(place.saved(), place.named("sixth"));
    let draft = File::create(&tree).unwrap();
    kill(daemon);
    assert!(wait_until(|| folder.daemon().is_none()));
    drop(draft);
    assert!(is_free(), "after kill -9");
}

#[test]
fn what_other_programs_write_is_read() {
    let place = Place::with("ext4", &file(vec![Block::new(sample(3000, 1))]));
    let mount = place.mount();
    assert_eq!(mount.tree(), place.text().as_bytes());
    let shows = |text: &str, block: &[u8]| {
        wait_until(|| {
            fs::read(mount.path("tree.yaml")).is_ok_and(|tree| tree == text.as_bytes())
                && fs::read(mount.block_path(0)).is_ok_and(|bytes| bytes == block)
        })
    };
    // Another program changes the file in place, and by replacing it.
    let mut source = File::options().write(true).open(&place.source).unwrap();
    let text = place.named("first night");
    source.write_all_at(text.as_bytes(), 0).unwrap();
    assert!(shows(&text, &sample(3000, 1)));
    let other = file(vec![Block::new(sample(500, 9))]).build().save(&place.disk.path(), "other");
    fs::rename(other, &place.source).unwrap();
    assert!(shows(&place.text().replace("3000", "500"), &sample(500, 9)));
    source.flush().unwrap();
    // A save now goes into the new file.
    let text = place.named("later").replace("3000", "500");
    write(&mount, &text).unwrap();
    assert_eq!(place.saved(), text);
    assert!(shows(&text, &sample(500, 9)));
}

#[test]
#[allow(clippy::too_many_lines)] // the cases, in chronological order
fn a_save_onto_a_changed_tree_is_a_conflict_and_onto_other_changes_is_not() {
    let place = Place::with("ext4", &file(vec![Block::new(sample(3000, 1))]));
    let mount = place.mount();
    let mine = place.named("mine");
    let begun = |text: &str| {
        let mut draft = File::create(mount.path("tree.yaml")).unwrap();
        draft.write_all(text.as_bytes()).unwrap();
        draft
    };

    // Another program appends a block in place after the draft began.
    let draft = begun(&mine);
    let one_more = file(vec![Block::new(sample(3000, 1)), Block::new(sample(700, 2))]).build();
    let from = one_more.blocks[1].offset as usize;
    let from_end = one_more.bytes.len() - (one_more.blocks[1].data_offset as usize + 700);
    let block = &one_more.bytes[from..one_more.bytes.len() - from_end];
    let end = (place.built.blocks[0].data_offset + 3000) as usize;
    let appended = [&place.built.bytes[..end], block].concat();
    let source = File::options().write(true).open(&place.source).unwrap();
    source.write_all_at(&appended, 0).unwrap();
    source.set_len(appended.len() as u64).unwrap();
    close(draft).unwrap();
    assert_eq!(place.saved(), mine);
    assert!(wait_until(|| mount.block_count() == 2));
    assert_eq!((mount.block(0), mount.block(1)), (sample(3000, 1), sample(700, 2)));
    place.is_sound();
    assert!(fs::read(&place.source).unwrap().ends_with(b"...\n"), "an index is made");

    // Another program changes the tree; the handle wrote before that, or was only opened.
    for (by_rename, late) in [(false, false), (true, false), (false, true), (true, true)] {
        let not_saved = place.named("mine again, which is not saved");
        let mut draft = if late {
            File::options().write(true).open(mount.path("tree.yaml")).unwrap()
        } else {
            begun(&not_saved)
        };
        let bytes = fs::read(&place.source).unwrap();
        let now = saved(&place.source);
        let theirs = if by_rename {
            now.replace("B comment", "a comment")
        } else {
            now.replace("a comment", "B comment")
        };
        assert_ne!(theirs, now);
        let changed = [theirs.as_bytes(), &bytes[now.len()..]].concat();
        if by_rename {
            fs::write(place.disk.path().join("new"), &changed).unwrap();
            fs::rename(place.disk.path().join("new"), &place.source).unwrap();
        } else {
            let source = File::options().write(true).open(&place.source).unwrap();
            source.write_all_at(&changed, 0).unwrap();
        }
        if late {
            assert!(wait_until(|| mount.tree() == theirs.as_bytes()));
            draft.set_len(0).unwrap();
            draft.write_all(not_saved.as_bytes()).unwrap();
        }
        assert_eq!(errno(draft.sync_all()), libc::EBUSY);
        assert_eq!(errno(close(draft)), libc::EBUSY);
        assert_eq!(fs::read(&place.source).unwrap(), changed);
        let kept = place.kept();
        assert!(kept.iter().any(|kept| kept.contains("mine again, which is not saved")), "{kept:?}");
        let told = fs::read_to_string(mount.path("tree.yaml.error")).unwrap();
        assert!(told.contains("another program changed the tree"), "{told}");
        assert!(wait_until(|| fs::read_to_string(mount.path("tree.yaml")).is_ok_and(|text| text == theirs)));
    }
    // A text is based on the version that its handle last read from the start.
    let mut draft = File::options().read(true).write(true).open(mount.path("tree.yaml")).unwrap();
    let theirs = saved(&place.source).replace("B comment", "a comment").replace("first", "fifth");
    let source = File::options().write(true).open(&place.source).unwrap();
    source.write_all_at(theirs.as_bytes(), 0).unwrap();
    assert!(wait_until(|| mount.tree() == theirs.as_bytes()));
    let mut text = String::new();
    draft.read_to_string(&mut text).unwrap();
    assert_eq!(text, theirs);
    draft.set_len(0).unwrap();
    draft.write_all_at(mine.as_bytes(), 0).unwrap();
    close(draft).unwrap();
    assert_eq!(place.saved(), mine);
    place.is_sound();
}

/// The other program writes into an array, for instance through numpy's map of the file, while a save in place is stopped
/// before one of its calls. Neither touches the bytes of the other.
#[test]
fn a_write_into_a_block_beside_a_save_in_place_is_no_mixture() {
    for kind in ["ext4", "xfs"] {
        let place =
            Place::with(kind, &file(vec![Block::new(sample(9000, 1)), Block::new(sample(300_000, 2))]));
        // Makes room for texts that fit.
        write(&place.mount(), &place.named(&"room ".repeat(200))).unwrap();
        write(&place.mount(), &place.text()).unwrap();
        let before = fs::read(&place.source).unwrap();
        let tree = place.folder().join("tree");
        fs::write(&tree, place.named("beside")).unwrap();
        let faults = Faults::new(&place.folder(), &place.disk.path());
        let first = before.windows(4).position(|four| four == common::asdf::MAGIC).unwrap() as u64;
        for offset in [first + 100, first + 200_000] {
            for at in calls() {
                fs::File::options()
                    .write(true)
                    .open(&place.source)
                    .unwrap()
                    .write_all_at(&before, 0)
                    .unwrap();
                let command = place.command([Path::new("--set-tree"), &tree, &place.source]);
                let stopped = Stopped::at_call(at, &faults, command);
                let is_stopped = stopped.is_stopped;
                if is_stopped {
                    let other = File::options().write(true).open(&place.source).unwrap();
                    other.write_all_at(b"another program", offset).unwrap();
                }
                faults.none();
                let (succeeded, said) = stopped.ends();
                assert!(succeeded, "{kind}, {offset}, {at}: {said}");
                place.nothing_is_beside();
                let now = fs::read(&place.source).unwrap();
                assert_eq!(place.saved(), place.named("beside"), "{kind}, {at}");
                let mut wanted = before.clone();
                if is_stopped {
                    wanted[offset as usize..][..15].copy_from_slice(b"another program");
                }
                let kept = first as usize..first as usize + 309_000;
                assert!(
                    now.len() == wanted.len() && now[kept.clone()] == wanted[kept],
                    "{kind}, {offset}, {at}"
                );
                if !is_stopped {
                    break;
                }
            }
        }
    }
}

/// The other program writes into the padding of the tree, where the save in place writes nothing.
#[test]
fn a_write_into_the_padding_beside_a_save_in_place_is_a_mixture() {
    let place = Place::with("ext4", &file(vec![Block::new(sample(9000, 1)), Block::new(sample(300_000, 2))]));
    // Makes room for texts that fit.
    write(&place.mount(), &place.named(&"room ".repeat(3000))).unwrap();
    write(&place.mount(), &place.text()).unwrap();
    let before = fs::read(&place.source).unwrap();
    let tree = place.folder().join("tree");
    fs::write(&tree, place.named("beside")).unwrap();
    let faults = Faults::new(&place.folder(), &place.disk.path());
    let mut refused = 0;
    for at in calls() {
        for name in place.ours_beside() {
            fs::remove_file(place.disk.path().join(name)).unwrap();
        }
        File::options().write(true).open(&place.source).unwrap().write_all_at(&before, 0).unwrap();
        let command = place.command([Path::new("--set-tree"), &tree, &place.source]);
        let stopped = Stopped::at_call(at, &faults, command);
        if !stopped.is_stopped {
            assert!(stopped.ends().0);
            break;
        }
        let other = File::options().write(true).open(&place.source).unwrap();
        other.write_all_at(b"another program", 10_000).unwrap();
        faults.none();
        let (succeeded, said) = stopped.ends();
        // A write before the first look of a save, or after its last one, is not beside it.
        if !succeeded {
            assert!(said.contains("may be a mixture"), "{at}: {said}");
            if refused == 0 {
                is_shown_without_its_journal(&place);
            }
            refused += 1;
        }
    }
    assert!(refused > 0, "no save noticed the other program");
}

/// Does what the message advises if the file is right as it is.
fn is_shown_without_its_journal(place: &Place) {
    let directory = place.disk.path();
    let mounts = ["rw", "ro"].map(|mode| place.try_mount(&directory, &["-o", mode]).unwrap());
    let read = |mount: &Mounted| fs::read(mount.path("a.asdf/blocks/0.bin"));
    for mount in &mounts {
        assert!(read(mount).is_err());
    }
    fs::remove_file(directory.join(".a.asdf.asdf-mount-journal")).unwrap();
    for mount in &mounts {
        assert!(read(mount).unwrap() == place.built.blocks[0].data);
    }
}
