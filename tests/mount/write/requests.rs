//! The system calls with which programs write files.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use common::asdf::AsdfBuilder;
use common::case::{BAD, Case, NEW, OLD, close, errno};
use common::mount::{Mounted, fresh_folder, wait_until};

/// vim, emacs, helix, jed: rename the old file away, create a new one, remove the old one.
#[test]
fn renamed_away_and_made_anew() {
    let case = Case::new();
    let (tree, aside) = (case.tree(), case.path("tree.yaml~"));
    for (n, name) in [NEW, "third"].into_iter().enumerate() {
        fs::write(case.path("4913"), "").unwrap();
        fs::remove_file(case.path("4913")).unwrap();
        let before = fs::metadata(&tree).unwrap();
        fs::rename(&tree, &aside).unwrap();
        assert_eq!(errno(fs::metadata(&tree)), libc::ENOENT);
        let mut file = OpenOptions::new().write(true).create_new(true).open(&tree).unwrap();
        file.set_len(0).unwrap();
        file.write_all(case.named(name).as_bytes()).unwrap();
        assert_eq!(case.saves(), n as u64, "written, and not saved yet");
        file.sync_all().unwrap();
        assert_eq!(case.saves(), n as u64 + 1);
        file.set_permissions(fs::Permissions::from_mode(before.mode())).unwrap();
        close(file).unwrap();
        assert_ne!(fs::read_to_string(&aside).unwrap(), case.named(name), "the backup is the old text");
        fs::remove_file(&aside).unwrap();
        let after = fs::metadata(&tree).unwrap();
        assert_eq!(after.mode(), before.mode());
        case.is_saved(&case.named(name), n as u64 + 1);
        assert_eq!(fs::metadata(&tree).unwrap().mtime_nsec(), after.mtime_nsec());
    }
}

/// nano, cp, tee, node, Path.write_text: truncate on open, write.
#[test]
fn emptied_while_opened_and_written() {
    let case = Case::new();
    let mut file = File::create(case.tree()).unwrap();
    assert_eq!(fs::metadata(case.tree()).unwrap().len(), 0, "as any file");
    assert_eq!(case.saved(), case.text);
    file.write_all(case.named(NEW).as_bytes()).unwrap();
    assert_eq!(fs::read_to_string(case.tree()).unwrap(), case.named(NEW), "readers see the draft");
    assert_eq!(case.saved(), case.text);
    case.blocks_are_whole();
    let written = fs::metadata(case.tree()).unwrap();
    close(file).unwrap();
    case.is_saved(&case.named(NEW), 1);
    let saved = fs::metadata(case.tree()).unwrap();
    assert_eq!((saved.mtime(), saved.mtime_nsec()), (written.mtime(), written.mtime_nsec()));
    assert_eq!(saved.ino(), written.ino());
}

/// After close, emacs compares time and size again only if the time comes from a coarse clock. emacs must
/// compare them again, because a refusal restores the saved text.
#[test]
fn the_time_of_a_draft_is_that_of_a_coarse_clock() {
    let case = Case::new();
    for n in 0..20 {
        let mut file = File::create(case.tree()).unwrap();
        file.write_all(case.named(&format!("{BAD} {n}")).as_bytes()).unwrap();
        assert_eq!(file.metadata().unwrap().mtime_nsec() % 100, 0);
        assert_eq!(errno(close(file)), libc::EINVAL);
        let after = fs::metadata(case.tree()).unwrap();
        assert_eq!(
            (after.len(), after.mtime()),
            (case.text.len() as u64, fs::metadata(&case.source).unwrap().mtime())
        );
    }
}

/// r+, rsync --inplace, busybox vi: overwrite, then truncate.
#[test]
fn written_over_and_cut() {
    let case = Case::new();
    let file = OpenOptions::new().write(true).open(case.tree()).unwrap();
    let text = case.named("1st");
    file.write_all_at(text.as_bytes(), 0).unwrap();
    file.set_len(text.len() as u64).unwrap();
    close(file).unwrap();
    case.is_saved(&text, 1);
}

/// sed -i, perl -pi, rsync, mkstemp and replace, GIO: rename another file onto the tree.
#[test]
fn another_file_renamed_onto_it() {
    let case = Case::new();
    let mut old = File::open(case.tree()).unwrap();
    let temporary = case.path("sedA1b2C3");
    let mut file =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&temporary).unwrap();
    file.write_all(case.named(NEW).as_bytes()).unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o644)).unwrap();
    file.sync_data().unwrap();
    assert_eq!(case.saves(), 0);
    fs::rename(&temporary, case.tree()).unwrap();
    case.is_saved(&case.named(NEW), 1);
    // The file is closed after the rename; its flush refers to tree.yaml.
    close(file).unwrap();
    case.is_saved(&case.named(NEW), 1);
    let mut text = String::new();
    old.read_to_string(&mut text).unwrap();
    assert_eq!(text, case.text, "a handle on the old file still reads it");
}

/// The flush of a handle that can't write would be a further request to the daemon.
#[test]
fn a_handle_that_only_reads_is_closed_without_a_flush() {
    let folder = fresh_folder();
    let source = AsdfBuilder::new().build().save(folder.path(), "a.asdf");
    let log = folder.path().join("log");
    let mount = Mounted::new(["-vv".as_ref(), "--log-file".as_ref(), log.as_os_str(), source.as_os_str()]);
    let flushes = || fs::read_to_string(&log).unwrap().matches(" flush ").count();
    fs::read(mount.path("tree.yaml")).unwrap();
    assert_eq!(flushes(), 0);
    close(OpenOptions::new().write(true).open(mount.path("tree.yaml")).unwrap()).unwrap();
    assert_eq!(flushes(), 1);
}

/// mv from another file system, install, cp --remove-destination, git apply: unlink, create.
#[test]
fn unlinked_and_made_anew() {
    let case = Case::new();
    fs::remove_file(case.tree()).unwrap();
    assert_eq!(case.names(), [""; 0]);
    assert_eq!(case.saved(), case.text);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(case.tree()).unwrap();
    file.write_all(case.named(NEW).as_bytes()).unwrap();
    assert_eq!(fs::metadata(case.tree()).unwrap().mode() & 0o777, 0o600);
    close(file).unwrap();
    case.is_saved(&case.named(NEW), 1);
}

/// sed -i.bak, patch -b: rename the tree away, then rename another file onto the free name.
#[test]
fn renamed_away_and_another_renamed_onto_the_free_name() {
    let case = Case::new();
    fs::write(case.path("sedX"), case.named(NEW)).unwrap();
    fs::rename(case.tree(), case.path("tree.yaml.bak")).unwrap();
    fs::rename(case.path("sedX"), case.tree()).unwrap();
    case.is_saved_beside(&case.named(NEW), 1, &["tree.yaml.bak"]);
    assert_eq!(fs::read_to_string(case.path("tree.yaml.bak")).unwrap(), case.text);
    // A user may rename it back.
    fs::rename(case.path("tree.yaml.bak"), case.tree()).unwrap();
    case.is_saved(&case.text, 2);
}

/// `>>`, `tee -a`: text after the line `...` in the mount is before that line in the file.
#[test]
fn appended() {
    let case = Case::new();
    let append = |text: &str| {
        let mut file = OpenOptions::new().append(true).open(case.tree()).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        close(file)
    };
    // The text as it was written is shown while a program has the file open.
    let is_both = |shown: &str, saved: &str, saves: u64| {
        assert_eq!((case.saved(), case.saves()), (saved.to_owned(), saves), "{}", case.log());
        assert_eq!(fs::read_to_string(case.tree()).unwrap(), shown);
        assert_eq!(case.names(), ["tree.yaml"]);
    };
    let tree = case.text.trim_end_matches("...\n");
    let before = fs::metadata(case.tree()).unwrap().modified().unwrap();
    append("# one\n").unwrap();
    let one = format!("{tree}# one\n...\n");
    is_both(&one, &one, 1);
    let reader = File::open(case.tree()).unwrap();
    append("two: 2\n").unwrap();
    is_both(&format!("{one}two: 2\n"), &format!("{tree}# one\ntwo: 2\n...\n"), 2);
    let written = fs::metadata(case.tree()).unwrap().modified().unwrap();
    assert!(written > before);
    // An editor saves the text that it read.
    let shown = format!("{one}two: 2\n");
    assert_eq!(fs::read_to_string(case.tree()).unwrap(), shown);
    drop(reader);
    let saved = format!("{tree}# one\ntwo: 2\n...\n");
    assert!(wait_until(|| fs::read_to_string(case.tree()).unwrap() == saved));
    assert_eq!(fs::metadata(case.tree()).unwrap().modified().unwrap(), written);
    fs::write(case.tree(), &shown).unwrap();
    is_both(&saved, &saved, 2);
    fs::rename(case.tree(), case.path("tree.yaml~")).unwrap();
    let changed = shown.replace("two: 2", "two: 3");
    fs::write(case.tree(), &changed).unwrap();
    fs::remove_file(case.path("tree.yaml~")).unwrap();
    let saved_change = saved.replace("two: 2", "two: 3");
    is_both(&saved_change, &saved_change, 3);
    fs::write(case.path("new"), shown.replace("two: 2", "two: 4")).unwrap();
    fs::rename(case.path("new"), case.tree()).unwrap();
    let renamed = saved.replace("two: 2", "two: 4");
    is_both(&renamed, &renamed, 4);
    // A text with the lines `...` is saved after a refusal, too.
    let mut file = File::create(case.tree()).unwrap();
    file.write_all(changed.replace("two: 3", "two: : 3").as_bytes()).unwrap();
    assert_eq!(errno(close(file)), libc::EINVAL);
    fs::write(case.tree(), &shown).unwrap();
    is_both(&saved, &saved, 5);
    // After a save of a text without inner lines `...`, such lines are refused again.
    fs::write(case.tree(), &case.text).unwrap();
    case.is_saved(&case.text, 6);
    let mut file = File::create(case.tree()).unwrap();
    file.write_all(shown.as_bytes()).unwrap();
    assert_eq!(errno(close(file)), libc::EINVAL);
}

/// A program that reads the tree after `>>` finds no inner line `...`. So a text that has one is refused as before.
#[test]
fn a_text_with_a_line_after_the_end_is_refused_after_an_append_too() {
    for appended in ["", "one: 1\n"] {
        let case = Case::new();
        let mut saved = case.text.clone();
        if !appended.is_empty() {
            let mut file = OpenOptions::new().append(true).open(case.tree()).unwrap();
            file.write_all(appended.as_bytes()).unwrap();
            close(file).unwrap();
            saved = saved.replace("\n...\n", &format!("\n{appended}...\n"));
        }
        let mut file = File::create(case.tree()).unwrap();
        file.write_all(format!("{saved}two: 2\n").as_bytes()).unwrap();
        assert_eq!(errno(close(file)), libc::EINVAL, "{appended:?}: {}", case.log());
        assert!(wait_until(|| fs::read_to_string(case.tree()).unwrap() == saved), "{appended:?}");
        assert_eq!(case.saved(), saved, "{appended:?}");
    }
}

/// Several programs append, or one process for each part.
#[test]
fn appended_in_parts() {
    let case = Case::new();
    let mut one = OpenOptions::new().append(true).open(case.tree()).unwrap();
    let mut two = OpenOptions::new().append(true).open(case.tree()).unwrap();
    one.write_all(b"# one\n").unwrap();
    two.write_all(b"# two\n").unwrap();
    one.write_all(b"# three\n").unwrap();
    let text = format!("{}# one\n# two\n# three\n", case.text);
    assert_eq!(fs::read_to_string(case.tree()).unwrap(), text);
    close(one).unwrap();
    close(two).unwrap();
    let tree = case.text.trim_end_matches("...\n");
    assert_eq!((case.saved(), case.saves()), (format!("{tree}# one\n# two\n# three\n...\n"), 1));
    let output = case.sh("{ echo 'four: 4'; sleep 0.1; env printf 'five: 5\\n...\\n'; } >> tree.yaml");
    assert!(output.status.success(), "{output:?}");
    let text = format!("{tree}# one\n# two\n# three\nfour: 4\nfive: 5\n...\n");
    assert_eq!((case.saved(), case.saves()), (text, 2), "{}", case.log());
}

#[test]
fn what_is_appended_is_checked_as_part_of_the_tree() {
    let case = Case::new();
    for bad in ["a: b: c\n", "---\na: 1\n", "name: twice\n", "a: 1\n...\nb: 2\n"] {
        let mut file = OpenOptions::new().append(true).open(case.tree()).unwrap();
        file.write_all(bad.as_bytes()).unwrap();
        assert_eq!(errno(close(file)), libc::EINVAL, "{bad:?}");
        assert!(wait_until(|| fs::read_to_string(case.tree()).unwrap() == case.text));
        case.is_refused(&format!("{}{bad}", case.text));
    }
    assert_eq!((case.saved(), case.saves()), (case.text.clone(), 0));
}

#[test]
fn mapped() {
    let case = Case::new();
    let file = OpenOptions::new().read(true).write(true).open(case.tree()).unwrap();
    let text = case.named("MAPPED LITE");
    assert_eq!(text.len(), case.text.len());
    // SAFETY: nothing else changes the file's length while it is mapped.
    let mut map = unsafe { memmap2::MmapMut::map_mut(&file) }.unwrap();
    assert_eq!(&map[..], case.text.as_bytes());
    map.copy_from_slice(text.as_bytes());
    assert_eq!(case.saves(), 0);
    map.flush().unwrap();
    drop(map);
    close(file).unwrap();
    case.is_saved(&text, 1);
    // A mapping that outlives its descriptor.
    let file = OpenOptions::new().read(true).write(true).open(case.tree()).unwrap();
    // SAFETY: as above.
    let mut map = unsafe { memmap2::MmapMut::map_mut(&file) }.unwrap();
    close(file).unwrap();
    map.copy_from_slice(case.text.as_bytes());
    drop(map);
    // The kernel closes the file after munmap has returned, so the save may still be running.
    assert!(wait_until(|| case.saves() == 2), "{}", case.log());
    case.is_saved(&case.text, 2);
    // A private mapping sees the saved text.
    let file = File::open(case.tree()).unwrap();
    // SAFETY: as above.
    let map = unsafe { memmap2::MmapOptions::new().map_copy_read_only(&file) }.unwrap();
    assert_eq!(&map[..], case.text.as_bytes());
}

#[test]
fn holes_and_seeks_are_those_of_any_file() {
    let case = Case::new();
    let mut file =
        OpenOptions::new().read(true).write(true).create_new(true).open(case.path("hole")).unwrap();
    file.seek(SeekFrom::Start(100_000)).unwrap();
    file.write_all(b"end").unwrap();
    file.set_len(200_000).unwrap();
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len(), 200_000);
    assert_eq!(bytes.iter().filter(|byte| **byte != 0).count(), 3);
    assert_eq!(file.seek(SeekFrom::End(-1)).unwrap(), 199_999);
    let fallocated = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 300_000);
    assert_eq!(fallocated, Err(rustix::io::Errno::OPNOTSUPP));
    assert_eq!(case.saves(), 0);
}

#[test]
fn names_are_exchanged_and_not_replaced() {
    let case = Case::new();
    let (tree, other) = (case.tree(), case.path("other"));
    fs::write(&other, case.named(NEW)).unwrap();
    let refused = renameat_with(CWD, &other, CWD, &tree, RenameFlags::NOREPLACE);
    assert_eq!(refused, Err(rustix::io::Errno::EXIST));
    assert_eq!(case.saves(), 0);
    renameat_with(CWD, &other, CWD, &tree, RenameFlags::EXCHANGE).unwrap();
    case.is_saved_beside(&case.named(NEW), 1, &["other"]);
    assert_eq!(fs::read_to_string(&other).unwrap(), case.text);
    renameat_with(CWD, &tree, CWD, &other, RenameFlags::EXCHANGE).unwrap();
    case.is_saved_beside(&case.text, 2, &["other"]);
    fs::remove_file(&tree).unwrap();
    renameat_with(CWD, &other, CWD, &tree, RenameFlags::NOREPLACE).unwrap();
    case.is_saved(&case.named(NEW), 3);
}

/// ln -f, perl -pi.bak: a hard link to the tree becomes a copy.
#[test]
fn links_of_the_tree_are_copies() {
    let case = Case::new();
    let (tree, backup) = (case.tree(), case.path("backup"));
    fs::hard_link(&tree, &backup).unwrap();
    fs::write(&tree, case.named(NEW)).unwrap();
    assert_eq!(fs::read_to_string(&backup).unwrap(), case.text);
    fs::hard_link(&backup, case.path("CuA1B2C3")).unwrap();
    assert_eq!(fs::metadata(&backup).unwrap().nlink(), 2);
    assert_eq!(errno(fs::hard_link(&backup, &tree)), libc::EEXIST);
    fs::rename(case.path("CuA1B2C3"), &tree).unwrap();
    case.is_saved_beside(&case.text, 2, &["backup"]);
    fs::write(&backup, "anything").unwrap();
    case.is_saved_beside(&case.text, 2, &["backup"]);
}

#[test]
fn what_is_said_of_a_file_is_remembered_and_saves_nothing() {
    let case = Case::new();
    let tree = case.tree();
    let source = fs::metadata(&case.source).unwrap();
    let file = File::open(&tree).unwrap();
    let times = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH + std::time::Duration::new(7, 5));
    file.set_times(times).unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::chown(&tree, Some(0), Some(0)).unwrap();
    let meta = fs::metadata(&tree).unwrap();
    assert_eq!((meta.mtime(), meta.mtime_nsec(), meta.mode() & 0o777), (7, 5, 0o640));
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    rustix::fs::setxattr(&tree, "user.note", b"mine", rustix::fs::XattrFlags::CREATE).unwrap();
    let mut value = [0; 9];
    assert_eq!(rustix::fs::getxattr(&tree, "user.note", &mut value), Ok(4));
    assert_eq!(&value[..4], b"mine");
    rustix::fs::removexattr(&tree, "user.note").unwrap();
    let errno = rustix::io::Errno::OPNOTSUPP;
    assert_eq!(rustix::fs::getxattr(&tree, "system.posix_acl_access", &mut value), Err(errno));
    let acl = b"\x02\0\0\0";
    let set = rustix::fs::setxattr(&tree, "system.posix_acl_access", acl, rustix::fs::XattrFlags::empty());
    assert_eq!(set, Err(errno));
    let after = fs::metadata(&case.source).unwrap();
    assert_eq!(
        (after.mode(), after.mtime_nsec(), after.ino()),
        (source.mode(), source.mtime_nsec(), source.ino())
    );
    case.is_saved(&case.text, 0);
}

#[test]
fn nothing_else_can_be_written() {
    let case = Case::new();
    for name in ["blocks/0.bin", ".asdf-mount/status.yaml", "blocks/new", ".asdf-mount/new"] {
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(case.path(name));
        assert_eq!(errno(opened), libc::EROFS, "{name}");
    }
    // The name of a view that this file does not have.
    let reserved = case.path("imploded.asdf");
    assert_eq!(errno(symlink("x", &reserved)), libc::EROFS);
    assert_eq!(errno(fs::write(&reserved, "x")), libc::EROFS);
    assert_eq!(errno(fs::rename(case.tree(), &reserved)), libc::EROFS);
    for name in ["arrays", "blocks", ".asdf-mount"] {
        assert!(fs::rename(case.tree(), case.path(name)).is_err(), "{name}");
        assert_eq!(errno(fs::rename(case.path(name), case.path("other"))), libc::EROFS, "{name}");
    }
    assert_eq!(errno(fs::remove_file(case.path("blocks/0.bin"))), libc::EROFS);
    assert_eq!(errno(fs::remove_dir(case.path("blocks"))), libc::EROFS);
    assert_eq!(errno(fs::create_dir(case.path("imploded.asdf"))), libc::EROFS);
    assert_eq!(errno(fs::create_dir(case.path("blocks/new"))), libc::EROFS);
    assert_eq!(errno(fs::rename(case.tree(), case.path("blocks/x"))), libc::EROFS);
    assert_eq!(errno(symlink("elsewhere", case.path("tree.yaml"))), libc::EEXIST);
    case.is_saved(&case.text, 0);
}

#[test]
fn a_read_only_mount_says_so_at_open() {
    let case = Case::with(&["--read-only"]);
    assert_eq!(errno(OpenOptions::new().write(true).open(case.tree())), libc::EROFS);
    assert_eq!(errno(fs::write(case.path("x"), "")), libc::EROFS);
    assert!(case.status().contains("writable: false\nread_only_because: the mount is read-only\n"));
    case.is_saved(&case.text, 0);
    assert!(!case.mount.state().exists());
}

#[test]
fn the_same_text_is_no_save() {
    let case = Case::new();
    let before = fs::metadata(case.tree()).unwrap();
    fs::write(case.tree(), &case.text).unwrap();
    fs::write(case.path("x"), &case.text).unwrap();
    fs::rename(case.path("x"), case.tree()).unwrap();
    let after = fs::metadata(case.tree()).unwrap();
    assert_eq!((before.mtime(), before.mtime_nsec()), (after.mtime(), after.mtime_nsec()));
    case.is_saved(&case.text, 0);
    assert!(case.text.contains(OLD));
}

#[test]
fn what_is_put_back_into_a_text_does_not_change_it_under_its_editor() {
    let case = Case::new();
    let written = case.named(NEW).replace("...\n", "");
    fs::write(case.tree(), written.trim_end()).unwrap();
    assert_eq!(case.saved(), case.named(NEW));
    assert_eq!(fs::read_to_string(case.tree()).unwrap(), written.trim_end());
    assert_eq!(case.saves(), 1);
}
