//! Names and sizes that can't be known, because a part of a file can't be read: no program takes them for missing or
//! empty.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, io};

use crate::on_servers::{errno, mount, run};
use common::asdf::{AsdfBuilder, Block, Index, sample};
use common::mount::{Mounted, fresh_folder, wait_until};
use common::names;
use common::server::Reply;
use common::site::Site;

/// Length of each block: the program reads the header of each one with a request of its own.
const LEN: usize = 1 << 20;
const BLOCKS: usize = 3;

/// Allocated bytes after the data: the request for a header asks for nothing of the block before.
const SLACK: usize = 512 << 10;

fn file(index: Index) -> Vec<u8> {
    let block = |n| Block::new(sample(LEN, n as u32)).slack(vec![0; SLACK]);
    AsdfBuilder::new().blocks((0..BLOCKS).map(block)).index(index).build().bytes
}

/// Starts a server that, while the flag is set, fails each request for the header of the second block of a file
/// whose name begins with "bad".
fn failing() -> (Site, Arc<AtomicBool>) {
    let fails = Arc::new(AtomicBool::new(true));
    let flag = fails.clone();
    let header = memchr::memmem::find_iter(&file(Index::Right), b"\xd3BLK").nth(1).unwrap();
    let site = Site::web(move |request, reply| {
        let has_header = request.range().is_some_and(|range| (range.0..range.1).contains(&header));
        let is_bad = request.target.contains("/bad");
        if flag.load(Ordering::Relaxed) && is_bad && has_header { Reply::status(500) } else { reply }
    });
    site.put("d/bad.asdf", file(Index::Right));
    site.put("d/good.asdf", file(Index::Right));
    (site, fails)
}

fn shell(line: &str, dir: &Path) -> Output {
    Command::new("sh").args(["-c", line]).current_dir(dir).env("LC_ALL", "C").output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn an_array_whose_header_cant_be_read_is_listed_and_fails() {
    let (site, fails) = failing();
    let mounted = mount("ro,read-timeout=1", &site.server.url("/d/bad.asdf"));
    let arrays = mounted.path("arrays");
    let listed = names(&arrays);
    assert_eq!(listed.len(), BLOCKS, "{listed:?}");
    let failed: Vec<_> = listed.iter().filter_map(|name| fs::metadata(arrays.join(name)).err()).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(failed[0].raw_os_error(), Some(libc::EIO));
    assert!(names(&mounted.path(".asdf-mount")).contains(&"blocks.yaml".to_owned()));
    let copied = fresh_folder();
    for line in [
        "ls -l arrays".to_owned(),
        format!("cp -r arrays {}", copied.path().display()),
        "cat .asdf-mount/blocks.yaml".to_owned(),
    ] {
        let output = shell(&line, mounted.root());
        assert!(
            !output.status.success() && said(&output).contains("Input/output error"),
            "{line}: {output:?}"
        );
    }
    assert_eq!(names(&copied.path().join("arrays")).len(), BLOCKS - 1);
    fails.store(false, Ordering::Relaxed);
    let is_whole = |name: &String| fs::read(arrays.join(name)).is_ok_and(|bytes| bytes.len() >= LEN);
    assert!(wait_until(|| listed.iter().all(is_whole)));
    assert!(shell("ls -l arrays", mounted.root()).status.success());
}

#[test]
fn actions_without_a_mount_tell_what_they_cant_list() {
    let (site, _fails) = failing();
    // Without an index, the header is needed to find all the blocks behind it.
    site.put("d/bad.asdf", file(Index::Absent));
    let (dir, file) = (site.server.url("/d/"), site.server.url("/d/bad.asdf"));
    let folder = fresh_folder();
    let into = |name: &str| folder.path().join(name);
    let options = ["-o", "anonymous,read-timeout=1"];
    let fails = |arguments: &[&str]| {
        let output = run(&[&options, arguments].concat());
        assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?}: {output:?}");
        assert!(said(&output).contains("bad.asdf"), "{arguments:?}: {output:?}");
        output
    };
    let extract = |name: &str, source: &str, patterns: &[&str]| {
        let target = into(name);
        let mut arguments = vec!["--extract", "-q", "-C", target.to_str().unwrap(), source];
        arguments.extend(patterns);
        assert_eq!(fails(&arguments).status.code(), Some(1));
        target
    };
    extract("all", &file, &[]);
    let both = extract("both", &dir, &[]);
    assert_eq!(names(&both.join("good.asdf/arrays")).len(), BLOCKS);
    let matching = extract("matching", &dir, &["*/arrays/*.npy"]);
    assert_eq!(names(&matching.join("good.asdf/arrays")).len(), BLOCKS);
    let blocks = extract("blocks", &dir, &["*/blocks/*.bin"]);
    assert_eq!(names(&blocks.join("good.asdf/blocks")).len(), BLOCKS);
    let bytes = fails(&["--cat", &dir, "*/arrays/*.npy"]).stdout.len();
    assert!(bytes >= LEN * BLOCKS, "{bytes}");
    for directory in ["arrays", "blocks"] {
        fails(&["--ls", "-a", &file, directory]);
    }
}

fn read_names(dir: &Path) -> io::Result<BTreeSet<OsString>> {
    fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name())).collect()
}

#[test]
fn the_names_of_a_file_that_becomes_unreadable_are_an_error() {
    let folder = fresh_folder();
    let source = folder.path().join("a.asdf");
    let sound = AsdfBuilder::new().block(Block::new(sample(5000, 1))).build().bytes;
    for writable in [false, true] {
        fs::write(&source, &sound).unwrap();
        let options = if writable { "history=off" } else { "ro,history=off" };
        let mounted = Mounted::new(["-o".as_ref(), options.as_ref(), source.as_os_str()]);
        let root = mounted.root();
        let before = read_names(root).unwrap();
        for spoilt in [Vec::new(), b"<html>404 Not Found</html>".to_vec(), vec![0; sound.len()]] {
            fs::write(&source, &spoilt).unwrap();
            let case = format!("{writable}, {} bytes", spoilt.len());
            assert!(wait_until(|| read_names(root).is_err()), "{case}");
            assert_eq!(errno(read_names(root)), libc::EIO, "{case}");
            let output = shell("ls", root);
            assert_eq!(output.status.code(), Some(2), "{case}: {output:?}");
            assert!(said(&output).contains("Input/output error"), "{case}: {output:?}");
            fs::write(&source, &sound).unwrap();
            assert!(wait_until(|| read_names(root).is_ok_and(|found| found == before)), "{case}");
        }
        mounted.unmount();
    }
}
