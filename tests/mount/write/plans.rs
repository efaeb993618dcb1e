//! Saves on real file systems: the plan of each, preserved properties, full disks, killed processes.
//!
//! The file systems are images mounted through loop devices. Needs root.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Seek, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use asdf_access::{Kind, Result};
use asdf_file::container::Context;
use asdf_file::edit::context::DeviceLimits;
use asdf_file::edit::{Indexed, SaveOptions, SavePlan, Target};
use seekable::cache::Cache;
use seekable::source::FileSource;
use seekable::source::storage::System;

use crate::files::{Parts, block, text};
use common::dice::Dice;
use common::disk::{ACL, Disk, acl, run, write_sparse};

/// Opens a file on a disk, with the state directory of the disk.
fn open(disk: &Disk, path: &Path) -> Result<Target> {
    Target::open_in(System, &path.canonicalize().unwrap(), Some(disk.state()))
}

/// The file systems, with their sizes in MiB.
const KINDS: [(&str, u64); 10] = [
    ("ext4", 64),
    ("xfs", 320),
    ("btrfs", 128),
    ("tmpfs", 64),
    // The next four refuse an insertion, but change the file's time.
    ("ext2", 64),
    ("ext3", 64),
    ("ext4 without extents", 64),
    ("ext4 with bigalloc", 64),
    // The last two have blocks smaller than a page.
    ("ext4 of 1 KiB", 64),
    ("xfs of 1 KiB", 320),
];

/// File systems with blocks of other sizes. Linux before 6.12 can't mount those with blocks longer than a page.
const OTHER_BLOCKS: [(&str, u64); 2] = [("xfs of 8 KiB", 320), ("xfs of 64 KiB", 512)];

/// True if a file system can insert ranges.
fn inserts(kind: &str) -> bool {
    matches!(kind, "ext4" | "ext4 of 1 KiB" | "xfs" | "xfs of 1 KiB")
}

/// True if files of a file system can share extents.
fn clones(kind: &str) -> bool {
    matches!(kind, "xfs" | "xfs of 1 KiB" | "btrfs")
}

/// Returns a block of 8 MiB that is mostly a hole, between two small blocks.
pub(crate) fn parts() -> Parts {
    let data: Vec<u8> = (0..50_000_u32).map(|n| (n / 3) as u8).collect();
    let mut sparse = vec![0; 8 << 20];
    for at in [0, 1 << 20, (3 << 20) + 17, (8 << 20) - 9] {
        sparse[at..at + 9].copy_from_slice(b"not a hole"[..9].try_into().unwrap());
    }
    let blocks = vec![block(&data, 60_000, 0), block(&sparse, sparse.len(), 0), block(&data[..3], 3, 0)];
    Parts { text: text('a', 3000), padding: Vec::new(), blocks, tail: None }
}

/// Asserts that our own reader finds no damage.
fn assert_sound(path: &Path, parts: &Parts) {
    let context = Context::new(std::sync::Arc::new(Cache::new(1 << 20)));
    let source = std::sync::Arc::new(FileSource::open(path).unwrap());
    let container = asdf_views::format::open(source, &context).unwrap();
    assert_eq!(container.block_count().unwrap(), parts.blocks.len());
    assert_eq!(container.defects(), []);
    assert_eq!(container.tree().len(), parts.text.len() as u64);
}

#[test]
#[allow(clippy::too_many_lines)] // the cases, in chronological order
fn each_file_system_takes_its_plan() {
    for (kind, size) in KINDS {
        let disk = Disk::new(kind, size);
        let closed = disk.path().join("closed");
        fs::create_dir(&closed).unwrap();
        let cases = [
            (
                "alone",
                None,
                match kind {
                    _ if clones(kind) => SavePlan::Clone,
                    _ if inserts(kind) => SavePlan::Insert,
                    _ => SavePlan::Copy,
                },
            ),
            ("linked", None, if inserts(kind) { SavePlan::Insert } else { SavePlan::Rewrite }),
            ("closed/alone", None, if inserts(kind) { SavePlan::Insert } else { SavePlan::Rewrite }),
            ("copied", Some(SavePlan::Copy), SavePlan::Copy),
            ("rewritten", Some(SavePlan::Rewrite), SavePlan::Rewrite),
        ];
        for (name, only, plan) in cases {
            let shown = format!("{kind}, {name}");
            let parts = parts();
            let path = disk.path().join(name);
            write_sparse(&path, &parts.bytes());
            rustix::fs::setxattr(&path, "user.note", b"kept", rustix::fs::XattrFlags::empty()).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
            std::os::unix::fs::chown(&path, Some(1234), Some(4321)).unwrap();
            rustix::fs::setxattr(&path, ACL, &acl(), rustix::fs::XattrFlags::empty()).unwrap();
            run("touch", &["-d", "2001-01-01", path.to_str().unwrap()]);
            let link = disk.path().join(format!("{}-link", name.replace('/', "-")));
            std::os::unix::fs::symlink(&path, &link).unwrap();
            if name == "linked" {
                fs::hard_link(&path, disk.path().join("other name")).unwrap();
            }
            let is_closed = name.starts_with("closed") && kind != "tmpfs";
            let set_closed = |on: bool| {
                if is_closed {
                    run("chattr", &[if on { "+i" } else { "-i" }, closed.to_str().unwrap()]);
                }
            };
            set_closed(true);
            let before = fs::metadata(&path).unwrap();
            let options = SaveOptions { padding: None, only };
            let new = text('b', 3500);
            let plan = if name == "closed/alone" && kind == "tmpfs" { SavePlan::Copy } else { plan };
            let mut target = open(&disk, &link).unwrap();
            let saved = target.save(&new, &options).unwrap_or_else(|error| panic!("{shown}: {error}"));
            assert_eq!((saved.plan, saved.indexed), (Some(plan), Indexed::Written), "{shown}");
            let wanted = parts.saved(&new, &options);
            assert!(fs::read(&path).unwrap() == wanted.bytes(), "{shown}");
            assert_sound(&path, &wanted);
            // Another save, in place.
            let shorter = text('c', 200);
            assert_eq!(target.save(&shorter, &options).unwrap().plan, Some(SavePlan::InPlace), "{shown}");
            assert!(fs::read(&path).unwrap() == wanted.saved(&shorter, &options).bytes(), "{shown}");
            set_closed(false);

            let after = fs::metadata(&path).unwrap();
            assert_eq!((after.mode(), after.uid(), after.gid()), (before.mode(), 1234, 4321), "{shown}");
            assert!(after.mtime() > before.mtime(), "{shown}");
            assert_eq!(after.nlink(), before.nlink(), "{shown}");
            assert_eq!(
                after.ino() == before.ino(),
                !matches!(plan, SavePlan::Clone | SavePlan::Copy),
                "{shown}"
            );
            // XFS preallocates some space temporarily.
            assert!(after.blocks() <= before.blocks() + 1024, "{shown}: {} blocks", after.blocks());
            let mut note = [0; 16];
            let len = rustix::fs::getxattr(&path, "user.note", &mut note).unwrap();
            assert_eq!(&note[..len], b"kept", "{shown}");
            let mut kept = [0; 128];
            let len = rustix::fs::getxattr(&path, ACL, &mut kept).unwrap();
            assert_eq!(kept[..len], acl(), "{shown}");
            assert!(link.is_symlink(), "{shown}");
        }
        let mut left: Vec<_> =
            fs::read_dir(disk.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.retain(|name| name.to_string_lossy().contains("asdf-mount"));
        assert!(left.is_empty(), "{kind}: {left:?}");
    }
}

/// A growing save tries each unsupported operation only once per file system. The next save, and saves of
/// other files in the mount, skip it. They need no more fsyncs than a copy.
#[test]
fn what_a_file_system_refused_is_not_tried_again() {
    for kind in ["ext2", "ext3", "ext4 without extents", "ext4 with bigalloc"] {
        let disk = Disk::new(kind, 64);
        let (one, other) = (disk.path().join("one"), disk.path().join("other"));
        let limits = DeviceLimits::default();
        let opened = |path: &Path| {
            write_sparse(path, &parts().bytes());
            let mut target = Target::open_in(System, path, None).unwrap();
            target.share(&limits);
            target
        };
        let grow = |target: &mut Target, len: usize| {
            let text = text('b', len);
            let saved = target.save(&text, &SaveOptions::default());
            let saved = saved.unwrap_or_else(|error| panic!("{kind}: {error}"));
            assert_eq!(saved.plan, Some(SavePlan::Copy), "{kind}");
            assert!(fs::read(target.label()).unwrap().starts_with(&text), "{kind}");
            saved.fsyncs
        };
        let mut target = opened(&one);
        assert!(grow(&mut target, 20_000) > 2, "{kind}: the first save tries to insert");
        assert_eq!([grow(&mut target, 40_000), grow(&mut opened(&other), 20_000)], [2, 2], "{kind}");
    }
}

#[test]
fn a_second_writer_is_refused_also_after_a_new_file_took_the_place() {
    let disk = Disk::new("tmpfs", 32);
    let path = disk.path().join("a.asdf");
    write_sparse(&path, &parts().bytes());
    let mut target = Target::open_in(System, &path.canonicalize().unwrap(), Some(disk.state())).unwrap();
    target.held_for(Path::new("/mnt/somewhere"));
    for _ in 0..2 {
        let error = open(&disk, &path).unwrap_err();
        assert_eq!((error.kind(), error.errno()), (Kind::Busy, libc::EBUSY));
        let named = format!("already mounted for writing at /mnt/somewhere (process {})", std::process::id());
        assert!(error.to_string().contains(&named), "{error}");
        let len = target.layout().unwrap().kept_from as usize + 100;
        assert_eq!(target.save(&text('b', len), &SaveOptions::default()).unwrap().plan, Some(SavePlan::Copy));
    }
    drop(target);
    open(&disk, &path).unwrap();
}

#[test]
fn a_tree_that_another_program_changed_is_a_conflict_and_other_changes_are_not() {
    let disk = Disk::new("tmpfs", 64);
    let path = disk.path().join("a.asdf");
    let mut parts = Parts { padding: vec![0; 3000], ..parts() };
    write_sparse(&path, &parts.bytes());
    let mut target = open(&disk, &path).unwrap();
    // Another program appends a block.
    parts.blocks.push(block(b"one more", 8, 0));
    write_sparse(&path, &parts.bytes());
    let options = SaveOptions::default();
    target.save(&text('b', 9000), &options).unwrap();
    let parts = parts.saved(&text('b', 9000), &options);
    assert!(fs::read(&path).unwrap() == parts.bytes());
    // Another program replaces the file with another tree.
    let others = Parts { text: text('x', 9000), ..parts.clone() };
    write_sparse(&path.with_extension("new"), &others.bytes());
    fs::rename(path.with_extension("new"), &path).unwrap();
    for _ in 0..2 {
        let error = target.save(&text('c', 9000), &options).unwrap_err();
        assert_eq!((error.kind(), error.errno()), (Kind::Conflict, libc::EBUSY));
    }
    assert!(fs::read(&path).unwrap() == others.bytes());
    assert!(!target.is_current().unwrap());
    target.reload().unwrap();
    assert!(target.is_current().unwrap());
    target.save(&text('c', 9000), &options).unwrap();
    assert!(fs::read(&path).unwrap() == others.saved(&text('c', 9000), &options).bytes());
}

/// A way of a save: its name, the plan that is forced, and the padding of the file before.
const WAYS: [(&str, Option<SavePlan>, usize); 6] = [
    ("in place", None, 14_000),
    ("the first that works", None, 0),
    ("clone", Some(SavePlan::Clone), 0),
    ("insert", Some(SavePlan::Insert), 0),
    ("copy", Some(SavePlan::Copy), 0),
    ("rewrite", Some(SavePlan::Rewrite), 0),
];

#[test]
fn a_full_disk_leaves_the_old_file_or_the_new_one() {
    for (kind, size) in KINDS.into_iter().chain(OTHER_BLOCKS) {
        // The files are small, and some file systems are filled by writing to their end.
        let Some(disk) = Disk::try_new(kind, if kind.starts_with("ext") { 16 } else { size }) else {
            println!("{kind}: this kernel can't mount it");
            continue;
        };
        // File systems that can neither insert nor clone differ little.
        let has_all = clones(kind) || inserts(kind) || kind == "tmpfs";
        for (way, only, padding) in WAYS.into_iter().filter(|(_, only, _)| has_all || only.is_none()) {
            on_a_full_disk(&disk, kind, (way, only, padding), false);
        }
        // A change in place also needs room where another file shares the extents.
        if clones(kind) {
            on_a_full_disk(&disk, kind, WAYS[0], true);
            on_a_full_disk(&disk, kind, WAYS[5], true);
        }
    }
}

/// Saves in one way with every number of free blocks, until three saves have had enough of them.
fn on_a_full_disk(
    disk: &Disk,
    kind: &str,
    (way, only, padding): (&str, Option<SavePlan>, usize),
    is_shared: bool,
) {
    let path = disk.path().join("a.asdf");
    let other = disk.path().join("shares.asdf");
    let shown = format!("{kind}, {way}, shared: {is_shared}");
    let small = vec![block(&[1; 9000], 9000, 0), block(&[2; 200], 200, 0)];
    let old = Parts { blocks: small, padding: vec![0; padding], ..parts() };
    let options = SaveOptions { padding: None, only };
    let new_text = text('b', 12_000);
    let new = old.saved(&new_text, &options).bytes();
    let ballast = File::create(disk.path().join("ballast")).unwrap();
    // btrfs counts the room of the way before as free from the next commit on.
    rustix::fs::syncfs(&ballast).unwrap();
    let save =
        || Target::open_in(System, &path, None).and_then(|mut target| target.save(&new_text, &options));
    write_sparse(&path, &old.bytes());
    match save() {
        Ok(_) => {}
        Err(error) if error.errno() == libc::ENOSPC => panic!("{shown}: {error}"),
        // The file system does not have this way.
        Err(error) => {
            assert_eq!(error.kind(), Kind::Refused, "{shown}: {error}");
            return;
        }
    }
    let block = if kind == "btrfs" { 400 << 10 } else { rustix::fs::fstatvfs(&ballast).unwrap().f_frsize };
    let (mut refused, mut saved) = (0, 0);
    let mut free = 0;
    while saved < 3 && free < 24 << 20 {
        let _ = fs::remove_file(&path);
        ballast.set_len(0).unwrap();
        (&ballast).rewind().unwrap();
        rustix::fs::syncfs(&ballast).unwrap();
        write_sparse(&path, &old.bytes());
        if is_shared {
            run("cp", &["--reflink=always", path.to_str().unwrap(), other.to_str().unwrap()]);
        }
        fill(&ballast, free);
        free += block;
        let answer = save();
        let bytes = fs::read(&path).unwrap();
        match answer {
            Ok(_) => {
                assert!(bytes == new, "{shown}, {free}");
                saved += 1;
            }
            Err(error) => {
                assert_eq!(error.errno(), libc::ENOSPC, "{shown}, {free}: {error}");
                assert!(bytes == old.bytes(), "{shown}, {free}: {error}");
                refused += 1;
            }
        }
        let left = fs::read_dir(disk.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = left.filter(|name| name.to_string_lossy().contains("asdf-mount")).collect();
        assert!(left.is_empty(), "{shown}, {free}: {left:?}");
    }
    println!("{shown}: {refused} refused, {saved} saved");
    assert!(saved > 0, "{shown}: {refused} refused");
    let _ = fs::remove_file(&path);
    let _ = fs::remove_file(&other);
}

/// A copy-on-write file system also needs free space to overwrite a file, and to undo that.
#[test]
fn a_full_disk_that_copies_on_write_leaves_the_old_file_or_the_new_one() {
    let data: Vec<u8> = (0..1 << 20).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let old = Parts { text: text('a', 300_000), padding: Vec::new(), ..parts() };
    let old = Parts { blocks: vec![block(&data, data.len(), 0)], ..old };
    let (grown, fitting) = (text('b', 400_000), text('c', 299_000));
    let options = SaveOptions::default();
    for kind in ["btrfs", "btrfs of two kinds of room"] {
        let disk = Disk::new(kind, 128);
        let path = disk.path().join("a.asdf");
        let ballast = File::create(disk.path().join("ballast")).unwrap();
        for (new_text, least) in [(&grown, SavePlan::Rewrite), (&fitting, SavePlan::InPlace)] {
            let new = old.saved(new_text, &options).bytes();
            let (mut refused, mut saved) = (0, 0);
            for free in (0..24 << 20).step_by(400 << 10) {
                let _ = fs::remove_file(&path);
                let _ = fs::remove_file(disk.path().join("other name"));
                ballast.set_len(0).unwrap();
                rustix::fs::syncfs(&ballast).unwrap();
                write_sparse(&path, &old.bytes());
                fs::hard_link(&path, disk.path().join("other name")).unwrap();
                let mut target = Target::open_in(System, &path, None).unwrap();
                fill(&ballast, free);
                let answer = target.save(new_text, &options);
                let bytes = fs::read(&path).unwrap();
                match answer {
                    Ok(done) => {
                        let plan = done.plan.unwrap();
                        assert!(plan == SavePlan::Rewrite || plan == least, "{kind}, {free}: {done:?}");
                        assert!(bytes == new, "{kind}, {free}: {done:?}");
                        saved += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.errno(), libc::ENOSPC, "{kind}, {free}: {error}");
                        assert!(bytes == old.bytes(), "{kind}, {free}: {error}");
                        refused += 1;
                    }
                }
                let left = fs::read_dir(disk.path()).unwrap().map(|entry| entry.unwrap().file_name());
                assert!(
                    !left.into_iter().any(|name| name.to_string_lossy().contains("asdf-mount")),
                    "{kind}, {free}"
                );
            }
            println!("{kind}, {least:?}: {refused} refused, {saved} saved");
            assert!(refused > 0 && saved > 0, "{kind}, {least:?}: {refused} refused, {saved} saved");
        }
    }
}

/// A quota is not included in the free space that the file system reports.
#[test]
fn a_quota_leaves_the_old_file_or_the_new_one() {
    let old = Parts { text: text('a', 1_200_000), padding: Vec::new(), ..parts() };
    let (new_text, options) = (text('b', 1_190_000), SaveOptions::default());
    let new = old.saved(&new_text, &options).bytes();
    let disk = Disk::new("btrfs of two kinds of room", 256);
    let folder = disk.path().join("limited");
    let (top, limited) = (disk.path(), folder.to_str().unwrap());
    let btrfs = |arguments: &[&str]| run("btrfs", arguments);
    btrfs(&["quota", "enable", top.to_str().unwrap()]);
    btrfs(&["subvolume", "create", limited]);
    let path = folder.join("a.asdf");
    let (mut refused, mut saved) = (0, 0);
    for free in (1_u64 << 20..5 << 20).step_by(256 << 10) {
        btrfs(&["qgroup", "limit", "none", limited]);
        let _ = fs::remove_file(&path);
        write_sparse(&path, &old.bytes());
        rustix::fs::syncfs(File::open(&path).unwrap()).unwrap();
        let shown = Command::new("btrfs").args(["qgroup", "show", "--raw", "-f", limited]).output().unwrap();
        let shown = String::from_utf8(shown.stdout).unwrap();
        let line = shown.lines().last().unwrap();
        let taken: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        btrfs(&["qgroup", "limit", &(taken + free).to_string(), limited]);
        let answer =
            Target::open_in(System, &path, None).and_then(|mut target| target.save(&new_text, &options));
        let bytes = fs::read(&path).unwrap();
        match answer {
            Ok(_) => assert!(bytes == new, "{free}"),
            Err(error) => {
                assert!([libc::EDQUOT, libc::ENOSPC].contains(&error.errno()), "{free}: {error}");
                assert!(bytes == old.bytes(), "{free}: {error}");
            }
        }
        *(if bytes == new { &mut saved } else { &mut refused }) += 1;
    }
    assert!(refused > 0 && saved > 0, "{refused} refused, {saved} saved");
}

/// Fills the file system except for about `free` bytes.
pub(crate) fn fill(ballast: &File, free: u64) {
    let space = rustix::fs::fstatvfs(ballast).unwrap();
    let mut len = (space.f_bavail * space.f_frsize).saturating_sub(free);
    // The reported free space may include space that the file system needs itself.
    loop {
        match rustix::fs::fallocate(ballast, rustix::fs::FallocateFlags::empty(), 0, len) {
            Ok(()) => break,
            Err(rustix::io::Errno::OPNOTSUPP) => {
                // Writes until the disk is full. io::repeat would fill its buffer byte by byte.
                let zeros = vec![0; 1 << 20];
                while len > 0
                    && let Ok(written @ 1..) = (&*ballast).write(&zeros[..zeros.len().min(len as usize)])
                {
                    len -= written as u64;
                }
                break;
            }
            Err(_) => len = len.checked_sub(4 << 10).expect("some room is left"),
        }
    }
    rustix::fs::syncfs(ballast).unwrap();
}

/// Returns the `n`th text that the killed process saves.
fn nth_text(n: u64) -> Vec<u8> {
    let letter = char::from(b'a' + (n % 26) as u8);
    text(letter, 300 + (Dice(n).below(40_000)) as usize)
}

const SAVER: &str = "ASDF_MOUNT_TEST_SAVER";
/// The line that the process prints before its first save.
const SAVING: &str = "it saves";
/// More saves than a process makes before it is killed.
const MAX_SAVES: u64 = 2000;

/// The process to kill; does nothing when run as a test.
#[test]
fn saver() {
    let Ok(path) = std::env::var(SAVER) else { return };
    let only = if path.ends_with("rewritten") { Some(SavePlan::Rewrite) } else { None };
    let options = SaveOptions { padding: Some(0), only };
    let first: u64 = std::env::var("ASDF_MOUNT_TEST_FIRST").unwrap().parse().unwrap();
    let mut target = Target::open_in(System, Path::new(&path), None).unwrap();
    println!("{SAVING}");
    for n in first..first + MAX_SAVES {
        target.save(&nth_text(n), &options).unwrap();
    }
}

#[test]
fn a_process_killed_at_any_moment_leaves_the_old_file_or_the_new_one() {
    let mut dice = Dice(5);
    let mut saved = 0;
    for (kind, size) in KINDS {
        for name in ["plain", "rewritten"] {
            let disk = Disk::new(kind, size);
            let path = disk.path().join(name);
            let original = parts();
            let blocks = original.blocks.concat();
            let mut journals = 0;
            let rounds = if matches!(kind, "ext4" | "xfs" | "btrfs" | "tmpfs") { 25 } else { 4 };
            for round in 0..rounds {
                write_sparse(&path, &original.bytes());
                let mut child = Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", "plans::saver", "--nocapture"])
                    .env(SAVER, &path)
                    .env("ASDF_MOUNT_TEST_FIRST", (round * 100).to_string())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap();
                let printed = BufReader::new(child.stdout.take().unwrap());
                assert!(
                    printed.lines().any(|line| line.unwrap().contains(SAVING)),
                    "{kind}: it saves nothing"
                );
                std::thread::sleep(std::time::Duration::from_micros(dice.below(60_000)));
                child.kill().unwrap();
                child.wait().unwrap();
                let target = Target::open_in(System, &path, None).unwrap();
                let recovered = target.recovered().clone();
                assert!(recovered.set_aside.is_empty(), "{kind}: {recovered:?}");
                journals += usize::from(recovered.outcome.is_some());
                drop(target);
                let mut again = Target::open_in(System, &path, None).unwrap();
                assert!(again.recovered().is_nothing());
                let bytes = fs::read(&path).unwrap();
                let layout = again.layout().unwrap();
                let (end, first) = (layout.head.len as usize, layout.kept_from as usize);
                let head = &bytes[..end];
                saved += usize::from(head != original.text);
                let known = head == original.text
                    || (round * 100..round * 100 + MAX_SAVES).any(|n| nth_text(n) == head);
                assert!(known, "{kind} {name}: {}", head[..200].escape_ascii());
                assert!(bytes[end..first].iter().all(|byte| *byte == b' '), "{kind} {name}");
                assert!(bytes[first..first + blocks.len()] == blocks[..], "{kind} {name}");
                let made =
                    Parts { text: head.to_vec(), padding: vec![b' '; first - end], ..original.clone() };
                assert!(bytes == made.bytes(), "{kind} {name}: the index");
            }
            println!("{kind}, {name}: {journals} journals were left");
        }
    }
    assert!(saved > 0);
}

#[test]
fn a_lock_that_a_starting_program_holds_for_a_moment_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.asdf");
    write_sparse(&path, &parts().bytes());
    let file = File::open(&path).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let mut child = Command::new("sleep").arg("0.05").stdin(file).spawn().unwrap();
    Target::open_in(System, &path, None).unwrap();
    child.wait().unwrap();
}
