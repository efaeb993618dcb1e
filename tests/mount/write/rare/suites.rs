//! Suites that others wrote, on the files beside `tree.yaml` and on a draft: fsx and pjdfstest.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::place::Place;
use common::mount::Mounted;

/// fsx: operations on each of the files beside `tree.yaml`, of which several are exercised at once.
const OPERATIONS: u32 = 25_000;
const FILES: u64 = 4;
/// fsx: operations on a draft.
const OPERATIONS_ON_DRAFT: u32 = 20_000;

/// Weights of fsx's operations. The mount does not serve FALLOCATE: no hole is punched, and `posix_fallocate` of the C
/// library writes zeros.
const WEIGHTS: &str = "[weights]\ninvalidate = 1\nmapread = 10\nmapwrite = 10\nread = 10\nwrite = 10\ntruncate = 5\n\
                       sendfile = 5\ncopy_file_range = 5\nposix_fadvise = 1\nposix_fallocate = 5\n";

/// Runs a program that `scripts/test --all` installs.
fn start(program: &str, arguments: &[&str]) -> std::process::Child {
    let started = Command::new(program).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    started.unwrap_or_else(|error| panic!("{program}: {error}: run scripts/test --all, which installs it"))
}

fn mount(place: &Place, options: &str) -> Mounted {
    place.try_mount(&place.source, &["-o", options]).unwrap_or_else(|output| panic!("{output:?}"))
}

/// Starts fsx on a file.
fn start_fsx(place: &Place, file: &Path, config: &str, operations: u32, seed: u64) -> std::process::Child {
    let folder = place.folder();
    let path = folder.join(format!("fsx-{seed}.toml"));
    fs::write(&path, config).unwrap();
    let [config, folder, file] = [&path, &folder, file].map(|path| path.to_str().unwrap());
    let [operations, seed] = [u64::from(operations), seed].map(|number| number.to_string());
    start("fsx", &["-f", config, "-P", folder, "-N", &operations, "-S", &seed, file])
}

#[track_caller]
fn is_ok(output: &Output) {
    let said = [&output.stdout[..], &output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.contains("All operations completed A-OK"), "{said}");
}

#[test]
fn files_beside_the_tree_are_files_to_fsx() {
    let place = Place::on("tmpfs");
    let mounted = mount(&place, "rw");
    let config = format!("{WEIGHTS}close_open = 1\nfsync = 1\nfdatasync = 1\n");
    let running: Vec<_> = (1..=FILES)
        .map(|seed| start_fsx(&place, &mounted.path(format!("scratch{seed}")), &config, OPERATIONS, seed))
        .collect();
    for child in running {
        is_ok(&child.wait_with_output().unwrap());
    }
    println!("fsx: {OPERATIONS} operations on each of {FILES} files");
}

/// The bytes that fsx writes are no text. It therefore neither closes the file nor calls fsync, which would try a save.
#[test]
fn a_draft_is_a_file_to_fsx_until_it_is_tried() {
    let place = Place::on("tmpfs");
    let before = fs::read(&place.source).unwrap();
    let mounted = mount(&place, "validate=off");
    let config = format!("nomsyncafterwrite = true\n{WEIGHTS}");
    let fsx = start_fsx(&place, &mounted.path("tree.yaml"), &config, OPERATIONS_ON_DRAFT, 7);
    is_ok(&fsx.wait_with_output().unwrap());
    assert!(mounted.path("tree.yaml.error").exists(), "the bytes were refused");
    assert!(fs::read(&place.source).unwrap() == before);
    println!("fsx: {OPERATIONS_ON_DRAFT} operations on a draft");
}

/// Tests of pjdfstest that fail by design: a part of the name, and the reason.
const BY_DESIGN: [(&str, &str); 11] = [
    ("::fifo", "no pipe is made beside the tree"),
    ("::socket", "no socket"),
    ("::block", "no device"),
    ("::char", "no device"),
    ("mkfifo::", "no pipe"),
    ("mknod::", "no device"),
    ("open::fifo_nonblock_wronly", "no pipe"),
    ("open::socket_error", "no socket"),
    ("open::interact_2gb", "the files beside the tree take at most 256 MiB"),
    ("enametoolong_path", "a path beside the tree has at most 1024 bytes"),
    ("rename::updates_link_parent", "the link count of a directory is 1, as on btrfs"),
];

/// Users and groups that every Debian has; the features of the suite that Linux has.
const CONFIG: &str = "[features]\nposix_fallocate = {}\nutimensat = {}\nutime_now = {}\n\
                      [settings]\nnaptime = 0.01\nallow_remount = false\n\
                      [dummy_auth]\nentries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"]]\n";

#[test]
fn pjdfstest_finds_nothing_that_is_not_by_design() {
    let place = Place::on("tmpfs");
    let mounted =
        Mounted::for_all_users([OsStr::new("-o"), OsStr::new("allow_other"), place.source.as_os_str()]);
    let config = place.folder().join("pjdfstest.toml");
    fs::write(&config, CONFIG).unwrap();
    let [config, root] = [&config, mounted.root()].map(|path| path.to_str().unwrap());
    let output = start("pjdfstest", &["-c", config, "-p", root]).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let named = |result: &str| -> Vec<&str> {
        said.lines().filter_map(|line| Some(line.strip_suffix(result)?.trim())).collect()
    };
    let [passed, failed] = [" ok", " FAILED"].map(named);
    let is_by_design = |name: &&str| BY_DESIGN.iter().any(|(part, _)| name.contains(part));
    let (by_design, found): (Vec<_>, Vec<_>) = failed.into_iter().partition(is_by_design);
    println!("pjdfstest: {} pass, {} fail by design", passed.len(), by_design.len());
    assert!(found.is_empty(), "{found:?}\n{said}");
    assert!(passed.len() > 180, "{said}");
    for (part, reason) in BY_DESIGN {
        assert!(by_design.iter().any(|name| name.contains(part)), "{part} no longer fails: {reason}");
    }
}
