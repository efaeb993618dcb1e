//! Directories of many files, mounted for writing with default options, under the usual limit of open files.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use common::asdf::{AsdfBuilder, Block};
use common::case::{NEW, OLD, build, close, errno, tree};
use common::disk::Disk;
use common::mount::{Mounted, fresh_folder, wait_until};

/// Number of files, unless the environment variable [`FILES_VARIABLE`] sets another number.
const FILES: usize = 8_000;
const FILES_VARIABLE: &str = "ASDF_MOUNT_TEST_FILES";
/// The usual limit of open files, with an equal hard limit.
const USUAL: &str = "1024:1024";

/// Runs a script in a mount; returns its output.
fn sh(mount: &Mounted, script: &str) -> String {
    let output = Command::new("bash").args(["-c", script]).current_dir(mount.root()).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{script}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the memory that the daemon allocated, in KiB: without the pages of its program that are loaded.
fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Returns the number of directories of scratch files.
fn drawers(mount: &Mounted) -> usize {
    let is_drawer = |entry: &fs::DirEntry| entry.path().is_dir() && entry.file_name() != "history";
    fs::read_dir(mount.state()).map_or(0, |found| found.flatten().filter(is_drawer).count())
}

/// True if the kernel forgets nodes on request (Linux 6.18).
fn gives_nodes_back() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(18))
}

/// Makes the kernel forget all unused nodes of a mount.
fn forget(mount: &Mounted) {
    rustix::mount::mount_remount(mount.root(), rustix::mount::MountFlags::empty(), "").unwrap();
}

#[test]
fn a_tree_that_was_only_looked_at_takes_nothing_and_one_that_was_saved_nothing_for_good() {
    // More than the limit of open files.
    const SAVED: usize = 1_100;
    let count = std::env::var(FILES_VARIABLE).map_or(FILES, |count| count.parse().unwrap());
    let disk = Disk::new("ext4", 128 + count as u64 / 64);
    let folder = fresh_folder();
    let source = disk.path().join("many");
    fs::create_dir(&source).unwrap();
    let bytes = AsdfBuilder::new().tree(tree()).block(Block::new(vec![7; 16])).build().bytes;
    for n in 0..count {
        fs::write(source.join(format!("f{n:06}.asdf")), &bytes).unwrap();
    }
    let log = folder.path().join("log");
    let mount = Mounted::limited(USUAL, [Path::new("-v"), Path::new("--log-file"), &log, source.as_path()]);
    let pid = mount.daemon().unwrap();
    let (files, before) = (open_files(pid), memory(pid));

    let list = folder.path().join("list");
    let found = sh(
        &mount,
        &format!(
            "find . -maxdepth 2 -name tree.yaml -print0 | tee {} | xargs -0 grep -l '{OLD}' | wc -l",
            list.display()
        ),
    );
    assert_eq!(found.trim(), count.to_string());
    assert_eq!(fs::read(&list).unwrap().split(|byte| *byte == 0).count(), count + 1);
    let known = memory(pid);
    let each = (known - before) * 1024 / count as u64;
    // Some MiB are for all files together.
    assert!(each < 3072, "{each} bytes of memory for each file that the kernel knows");
    if gives_nodes_back() {
        assert!(known < before + (30 << 10), "{before} KiB before, {known} KiB after all were looked at");
    }
    assert!(open_files(pid) <= files + 70, "{} open files", open_files(pid));
    assert_eq!(drawers(&mount), 0);

    sh(&mount, &format!("sed -i 's/{OLD}/{NEW}/' f000*/tree.yaml f0010*/tree.yaml"));
    for n in 0..SAVED {
        let saved = fs::read(source.join(format!("f{n:06}.asdf"))).unwrap();
        assert!(memchr::memmem::find(&saved, NEW.as_bytes()).is_some(), "file {n}");
    }
    let told = fs::read_to_string(&log).unwrap();
    assert_eq!(told.matches("tree.yaml was saved").count(), SAVED);
    assert!(open_files(pid) <= files + 70, "{} open files", open_files(pid));
    assert_eq!(drawers(&mount), 0);

    let saved = memory(pid);
    forget(&mount);
    // Recognised files and facts about saved trees stay cached, both for a limited number of files.
    let back = || memory(pid) < before + (28 << 10);
    assert!(wait_until(back), "{before} KiB before, {known} KiB known, {} KiB after", memory(pid));
    eprintln!(
        "{count} files: {before} KiB before, {known} KiB known, {saved} KiB after the saves, {} KiB after",
        memory(pid)
    );
}

#[test]
fn what_is_told_of_saves_and_refusals_takes_no_room() {
    const FILES: usize = 700;
    let disk = Disk::new("ext4", 128);
    let source = disk.path().join("some");
    fs::create_dir(&source).unwrap();
    let names: Vec<_> = (0..FILES).map(|n| format!("f{n}.asdf")).collect();
    let tagged = tree().replace(OLD, &format!("{OLD}\nt0: !time/time-1.2.0 2020\nt1: !time/time-1.2.0 2021"));
    let bytes = AsdfBuilder::new().tree(&tagged).block(Block::new(vec![7; 16])).build().bytes;
    for name in &names {
        fs::write(source.join(name), &bytes).unwrap();
    }
    let mount = Mounted::limited(USUAL, [&source]);
    let files = open_files(mount.daemon().unwrap());
    sh(&mount, "sed -i 's/^t1: !time.time-1.2.0/t1:/' */tree.yaml");
    for name in &names {
        let dir = mount.path(name);
        let told = fs::read_to_string(dir.join("tree.yaml.warning")).unwrap();
        assert!(told.contains("t1 has lost its tag"), "{name}: {told}");
        let text = fs::read_to_string(dir.join("tree.yaml")).unwrap().replace("source: 0", "source: 9");
        let mut file = fs::File::create(dir.join("tree.yaml")).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        assert_eq!(errno(close(file)), libc::EINVAL, "{name}");
    }
    // The kernel reports the last close of a refused text with a delay.
    assert!(wait_until(|| drawers(&mount) == 0));
    let now = open_files(mount.daemon().unwrap());
    assert!(now < files + 70, "{now} open files");
    for name in &names {
        let dir = mount.path(name);
        let told = fs::read_to_string(dir.join("tree.yaml.error")).unwrap();
        assert!(told.contains("its source is block 9"), "{name}: {told}");
        let rejected = dir.join("tree.yaml.rejected");
        assert!(fs::read_to_string(&rejected).unwrap().contains("source: 9"), "{name}");
    }
    // The refused texts can be changed, renamed and saved like any file beside the tree.
    let dir = mount.path(&names[0]);
    let text = fs::read_to_string(dir.join("tree.yaml.rejected")).unwrap();
    fs::OpenOptions::new()
        .append(true)
        .open(dir.join("tree.yaml.error"))
        .unwrap()
        .write_all(b"mine\n")
        .unwrap();
    assert!(fs::read_to_string(dir.join("tree.yaml.error")).unwrap().ends_with("yaml.\nmine\n"));
    fs::hard_link(dir.join("tree.yaml.rejected"), dir.join("linked")).unwrap();
    fs::write(dir.join("linked"), text.replace("source: 9", "source: 0").replace(OLD, NEW)).unwrap();
    fs::rename(dir.join("tree.yaml.rejected"), dir.join("tree.yaml")).unwrap();
    let saved = fs::read(source.join(&names[0])).unwrap();
    assert!(memchr::memmem::find(&saved, NEW.as_bytes()).is_some());
}

#[test]
fn texts_that_something_was_put_back_into_do_not_fill_the_mount() {
    const FILES: usize = 300;
    let disk = Disk::new("ext4", 128);
    let source = disk.path().join("some");
    fs::create_dir(&source).unwrap();
    let names: Vec<_> = (0..FILES).map(|n| format!("f{n}.asdf")).collect();
    let mut text = String::new();
    for name in &names {
        text = build(&source.join(name)).0;
    }
    let mount = Mounted::limited(USUAL, [&source]);
    let files = open_files(mount.daemon().unwrap());
    let written = text.replace(OLD, NEW).replace("...\n", "");
    for name in &names {
        let tree = mount.path(name).join("tree.yaml");
        fs::write(&tree, &written).unwrap();
        assert_eq!(fs::read_to_string(&tree).unwrap(), written);
    }
    for name in &names {
        let saved = fs::read(source.join(name)).unwrap();
        assert!(saved.starts_with(format!("{written}...\n").as_bytes()), "{name}");
    }
    // The oldest texts are no longer shown verbatim, but as they are in the file.
    let first = fs::read_to_string(mount.path(&names[0]).join("tree.yaml")).unwrap();
    assert_eq!(first, format!("{written}...\n"));
    let now = open_files(mount.daemon().unwrap());
    assert!(now < files + 500, "{now} open files");
}

#[test]
fn a_file_that_was_read_before_it_was_written_is_the_same_one_after() {
    use std::os::unix::fs::{FileExt, MetadataExt};
    let folder = fresh_folder();
    let text = build(&folder.path().join("a.asdf")).0;
    let mount = Mounted::file(folder.path());
    let tree = mount.path("a.asdf/tree.yaml");
    let looked = fs::metadata(&tree).unwrap();
    let reader = fs::File::open(&tree).unwrap();
    let writer = fs::OpenOptions::new().write(true).open(&tree).unwrap();
    writer.write_all_at(&text.as_bytes()[..1], 0).unwrap();
    writer.write_all_at(b"#", text.len() as u64).unwrap();
    // A reader that was opened before sees the draft, as in any file system.
    assert_eq!(reader.metadata().unwrap().len(), text.len() as u64 + 1);
    assert_eq!(fs::metadata(&tree).unwrap().ino(), looked.ino());
    writer.set_len(text.len() as u64).unwrap();
    drop(writer);
    fs::rename(&tree, mount.path("a.asdf/old")).unwrap();
    fs::write(&tree, text.replace(OLD, NEW)).unwrap();
    fs::remove_file(mount.path("a.asdf/old")).unwrap();
    let mut first = vec![0; text.len()];
    reader.read_exact_at(&mut first, 0).unwrap();
    assert!(first == text.as_bytes());
    drop(reader);
    assert_eq!(fs::read_to_string(&tree).unwrap(), text.replace(OLD, NEW));
}
