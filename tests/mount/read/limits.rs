//! Mounts under resource limits, and files that can't be read.

use std::fs::{self, File};

use crate::common::asdf::{AsdfBuilder, Block, sample};
use crate::common::encode::Encoding;
use crate::common::mount::{Mounted, fresh_folder};

const FILES: usize = 101;

/// Makes a directory of ASDF files.
fn folder() -> tempfile::TempDir {
    let folder = fresh_folder();
    let bytes = AsdfBuilder::new().block(Block::new(sample(100, 1))).build().bytes;
    for n in 0..FILES {
        fs::write(folder.path().join(format!("f{n}.asdf")), &bytes).unwrap();
    }
    folder
}

fn names() -> impl Iterator<Item = String> {
    (0..FILES).map(|n| format!("f{n}.asdf"))
}

#[test]
fn a_file_that_cannot_be_opened_for_lack_of_descriptors_is_never_shown_as_another_kind() {
    let (folder, log) = (folder(), fresh_folder());
    let log = log.path().join("log");
    for mode in ["rw", "ro"] {
        let args = ["-o", mode, "--log-file", log.to_str().unwrap(), folder.path().to_str().unwrap()];
        let mount = Mounted::limited("64:64", args);
        let open: Vec<_> =
            names().map_while(|name| File::open(mount.path(name).join("blocks/0.bin")).ok()).collect();
        assert!((10..FILES).contains(&open.len()), "{} blocks are open", open.len());
        let (mut shown, mut refused) = (0, 0);
        for name in names() {
            match fs::symlink_metadata(mount.path(&name)) {
                Ok(meta) => {
                    assert!(meta.is_dir(), "{name} is {meta:?}");
                    shown += 1;
                }
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(libc::EMFILE), "{name}: {error}");
                    refused += 1;
                }
            }
        }
        assert!(shown >= open.len() && refused > 0, "{shown} are shown, {refused} refused");
        // A listing is complete or fails.
        match fs::read_dir(mount.root()).and_then(Iterator::collect::<std::io::Result<Vec<_>>>) {
            Ok(entries) => {
                assert_eq!(entries.len(), FILES);
                assert!(entries.iter().all(|entry| entry.file_type().unwrap().is_dir()));
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EMFILE)),
        }
        assert_eq!(
            fs::read_to_string(&log).unwrap().matches("ulimit -n").count(),
            if mode == "rw" { 1 } else { 2 }
        );
        drop(open);
        assert!(names().all(|name| fs::metadata(mount.path(name).join("tree.yaml")).unwrap().is_file()));
    }
}

#[test]
fn the_limit_of_open_files_is_raised_as_far_as_that_is_allowed() {
    let folder = folder();
    let mount = Mounted::limited("64:512", [folder.path()]);
    let open: Vec<_> =
        names().map(|name| File::open(mount.path(name).join("blocks/0.bin")).unwrap()).collect();
    let limits = fs::read_to_string(format!("/proc/{}/limits", mount.daemon().unwrap())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(line.split_whitespace().nth(3), Some("512"), "{line}");
    drop(open);
}

#[test]
fn a_file_whose_first_bytes_cannot_be_read_is_there_and_says_so_when_it_is_read() {
    let folder = fresh_folder();
    let block = Block::new(sample(100, 1)).encoding(Encoding::Zlib);
    let mut broken = AsdfBuilder::new().block(block).build().bytes;
    // Damage the first bytes of the stream.
    let at = broken.windows(4).position(|four| four == b"\xd3BLK").unwrap() + 54;
    broken[at..at + 2].copy_from_slice(&[0xff, 0xff]);
    fs::write(folder.path().join("a.asdf"), broken).unwrap();
    let inner = Mounted::file(folder.path().join("a.asdf"));
    let mount = Mounted::file(inner.path("blocks"));
    let listed: Vec<_> =
        fs::read_dir(mount.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(listed, ["0.bin"]);
    assert!(fs::symlink_metadata(mount.path("0.bin")).unwrap().is_file());
    assert_eq!(fs::read(mount.path("0.bin")).unwrap_err().raw_os_error(), Some(libc::EIO));
    mount.unmount();
}
