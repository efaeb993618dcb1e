//! Large directories: how often a source is opened, and how many requests a listing takes.

use std::fs::{self, File};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

use common::asdf::AsdfBuilder;
use common::mount::{Mounted, fresh_folder};

const FILES: usize = 60;

/// Makes a directory of ASDF files and of plain files; returns the bytes of both kinds, which have one
/// length.
fn folder() -> (tempfile::TempDir, Vec<u8>, Vec<u8>) {
    let folder = fresh_folder();
    let known = AsdfBuilder::new().build().bytes;
    let plain = vec![b'x'; known.len()];
    for n in 0..FILES {
        fs::write(folder.path().join(format!("f{n}.asdf")), &known).unwrap();
        fs::write(folder.path().join(format!("p{n}.txt")), &plain).unwrap();
    }
    (folder, known, plain)
}

/// Waits until the times of a file that was written before are so old that the file is remembered.
fn wait_for_times(path: &Path) {
    let changed = fs::metadata(path).unwrap().ctime();
    for _ in 0..100 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        if i64::try_from(now).unwrap() > changed + 2 {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{} is of the future", path.display());
}

/// Returns the number of files opened since the last call.
fn opened(watch: &impl AsFd) -> usize {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(watch, &mut buffer);
    let mut count = 0;
    while let Ok(event) = reader.next() {
        assert!(!event.events().contains(ReadFlags::QUEUE_OVERFLOW));
        count += usize::from(!event.events().contains(ReadFlags::ISDIR));
    }
    count
}

/// Returns the number of directories that a glob finds.
fn directories(mount: &Mounted) -> usize {
    let output =
        Command::new("sh").args(["-c", "ls -d */ | wc -l"]).current_dir(mount.root()).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

#[test]
fn files_that_were_recognised_are_not_opened_again_until_they_change() {
    let (folder, known, plain) = folder();
    let path = |name: &str| folder.path().join(name);
    wait_for_times(&path(&format!("p{}.txt", FILES - 1)));
    let mount = Mounted::new(["-r".as_ref(), folder.path()]);
    let watch = inotify::init(CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&watch, folder.path(), WatchFlags::OPEN).unwrap();
    assert_eq!(directories(&mount), FILES);
    assert!(opened(&watch) >= 2 * FILES);
    for _ in 0..2 {
        assert_eq!(directories(&mount), FILES);
        let listed = fs::read_dir(mount.root()).unwrap();
        assert_eq!(
            listed.filter(|entry| entry.as_ref().unwrap().file_type().unwrap().is_dir()).count(),
            FILES
        );
        assert_eq!(opened(&watch), 0);
    }

    // One file is changed in place, the other replaced, both with unchanged size and mtime.
    let time = |name: &str| fs::metadata(path(name)).unwrap().modified().unwrap();
    let (first, second) = (time("f0.asdf"), time("p0.txt"));
    fs::write(path("f0.asdf"), &plain).unwrap();
    File::options().write(true).open(path("f0.asdf")).unwrap().set_modified(first).unwrap();
    fs::write(path("new"), &known).unwrap();
    File::options().write(true).open(path("new")).unwrap().set_modified(second).unwrap();
    fs::rename(path("new"), path("p0.txt")).unwrap();
    assert_eq!((time("f0.asdf"), time("p0.txt")), (first, second));
    std::thread::sleep(Duration::from_secs(1)); // the kernel caches names and attributes for a moment
    assert!(mount.path("p0.txt").is_dir() && mount.path("f0.asdf").is_file());
    let kind = |name: &str| {
        let entry =
            fs::read_dir(mount.root()).unwrap().find(|entry| entry.as_ref().unwrap().file_name() == name);
        entry.unwrap().unwrap().file_type().unwrap()
    };
    assert!(kind("p0.txt").is_dir() && kind("f0.asdf").is_file());
}

#[test]
fn a_long_listing_takes_one_lookup_for_an_entry() {
    let (folder, ..) = folder();
    let log = fresh_folder();
    let log = log.path().join("log");
    let args = ["-r".as_ref(), "--log-file".as_ref(), log.as_os_str(), folder.path().as_os_str()];
    let mount = Mounted::prepared(args, |command| {
        command.env("ASDF_MOUNT_LOG", "asdf_mount::fuse=debug");
    });
    let mount = mount.unwrap();
    let output = Command::new("ls").arg("-l").arg(mount.root()).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 1 + 2 * FILES);
    let log = fs::read_to_string(&log).unwrap();
    let count = |request: &str| log.lines().filter(|line| line.contains(request)).count();
    assert!(count(": lookup ") <= 2 * FILES, "{} lookups", count(": lookup "));
    // `ls` asks for attributes of the root and of the first entry only.
    assert!(count(": getxattr ") <= 10, "{log}");
}

/// Returns the names of the extended attributes of a file, in the order in which they are listed.
fn attributes(path: &Path) -> Vec<String> {
    let mut names = [0; 1024];
    let len = rustix::fs::listxattr(path, &mut names).unwrap();
    let names = std::str::from_utf8(&names[..len]).unwrap();
    names.split_terminator('\0').map(str::to_owned).collect()
}

#[test]
fn the_names_of_attributes_are_listed_before_a_file_is_parsed() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = fresh_folder();
    let sources =
        ["examples/sample.asdf", "examples/trajectory.gsd", "tests/fixtures/bloscpack/bcolz1.2.1_f8__0.blp"];
    for source in sources.map(Path::new) {
        fs::copy(here.join(source), folder.path().join(source.file_name().unwrap())).unwrap();
    }
    let mount = Mounted::new(["-r".as_ref(), folder.path()]);
    let watch = inotify::init(CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&watch, folder.path(), WatchFlags::OPEN).unwrap();
    for source in sources.map(Path::new) {
        let shown = mount.path(source.file_name().unwrap());
        assert!(shown.is_dir());
        opened(&watch);
        let before = attributes(&shown);
        // Parsing opens the file twice: it looks for traces of a save first.
        assert_eq!((before.len(), opened(&watch)), (2, 1), "{before:?}");
        assert!(fs::read_dir(&shown).unwrap().count() > 1);
        assert_eq!(attributes(&shown), before);
        let value = |name: &str| mount.attribute(source.file_name().unwrap(), name).unwrap();
        assert!(before.iter().all(|name| !value(name).is_empty()));
    }
}

#[test]
fn a_name_that_no_save_changes_is_not_looked_up_at_each_open() {
    const OPENED: usize = 200;
    let log = fresh_folder();
    let log = log.path().join("log");
    let source = fresh_folder();
    let source = source.path().join("a.asdf");
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/sample.asdf"), &source).unwrap();
    let mount = Mounted::prepared(["--log-file".as_ref(), log.as_os_str(), source.as_os_str()], |command| {
        command.env("ASDF_MOUNT_LOG", "asdf_mount::fuse=debug");
    });
    let mount = mount.unwrap();
    let block = mount.block(0);
    for n in 0..OPENED {
        if n % 50 == 0 {
            let text = fs::read_to_string(mount.path("tree.yaml")).unwrap();
            fs::write(mount.path("tree.yaml"), text.replacen("name: ", &format!("name: {n} "), 1)).unwrap();
            let json = fs::read_to_string(mount.path("tree.json")).unwrap();
            assert!(json.contains(&format!("\"{n} ")), "{n}: {json}");
        }
        assert!(mount.block(0) == block);
    }
    let log = fs::read_to_string(&log).unwrap();
    let lookups = log.lines().filter(|line| line.contains("lookup \"0.bin\"")).count();
    assert!((1..OPENED / 2).contains(&lookups), "{lookups}");
}
