//! Mounts under resource limits, and files that can't be read.

use std::fs::{self, File};
use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use common::asdf::{AsdfBuilder, Block, sample};
use common::encode::Encoding;
use common::mount::{Mounted, fresh_folder, program, wait_until};

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
        let mut open = Vec::new();
        let error = loop {
            match File::open(mount.path(format!("f{}.asdf", open.len())).join("blocks/0.bin")) {
                Ok(block) => open.push(block),
                Err(error) => break error,
            }
        };
        assert_eq!(error.raw_os_error(), Some(libc::EMFILE), "{error}");
        assert!((10..FILES).contains(&open.len()), "{} blocks are open", open.len());
        for name in names().take(open.len()) {
            assert!(fs::metadata(mount.path(&name)).unwrap().is_dir(), "{name}");
        }
        // To open a block takes more descriptors than to look at a file, so some are left: leave none.
        let daemon = mount.daemon().unwrap();
        let used: Vec<u64> = fs::read_dir(format!("/proc/{daemon}/fd"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap())
            .collect();
        let limit = |current| {
            let limit = Rlimit { current: Some(current), maximum: Some(64) };
            prlimit(Pid::from_raw(daemon.cast_signed()), Resource::Nofile, limit).unwrap();
        };
        limit((0..).find(|free| !used.contains(free)).unwrap());
        let mut refused = 0;
        for name in names() {
            match fs::symlink_metadata(mount.path(&name)) {
                Ok(meta) => assert!(meta.is_dir(), "{name} is {meta:?}"),
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(libc::EMFILE), "{name}: {error}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 0);
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
        limit(64);
        drop(open);
        // The kernel tells the daemon of closed files later.
        let is_shown =
            |name: String| fs::metadata(mount.path(name).join("tree.yaml")).is_ok_and(|meta| meta.is_file());
        assert!(wait_until(|| names().all(&is_shown)));
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

/// With each limit the mount is made, or the command says why not.
#[test]
fn too_few_open_files_are_an_error_and_no_wait() {
    let folder = fresh_folder();
    let source = folder.path().join("a.asdf");
    fs::write(&source, AsdfBuilder::new().block(Block::new(sample(100, 1))).build().bytes).unwrap();
    let mountpoint = folder.path().join("mounted");
    fs::create_dir(&mountpoint).unwrap();
    let mut failed = 0;
    for limit in 12..48 {
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", "120", "prlimit", &format!("--nofile={limit}")]).arg(program());
        let output =
            command.args(["-r".as_ref(), source.as_os_str(), mountpoint.as_os_str()]).output().unwrap();
        if output.status.success() {
            let unmounted = Command::new(program()).arg("-u").arg(&mountpoint).output().unwrap();
            assert!(unmounted.status.success(), "{limit}: {unmounted:?}");
            continue;
        }
        failed += 1;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_some_and(|code| code < 100), "{limit}: {output:?}");
        assert!(said.contains("open files"), "{limit}: {said}");
    }
    assert!(failed > 0);
}

#[test]
fn a_file_whose_first_bytes_cannot_be_read_is_listed_and_its_lookup_fails() {
    let folder = fresh_folder();
    let block = || Block::new(sample(100, 1)).encoding(Encoding::Zlib);
    let mut broken = AsdfBuilder::new().block(block()).block(block()).build().bytes;
    // Damage the first bytes of the stream.
    let at = broken.windows(4).position(|four| four == b"\xd3BLK").unwrap() + 54;
    broken[at..at + 2].copy_from_slice(&[0xff, 0xff]);
    fs::write(folder.path().join("a.asdf"), broken).unwrap();
    let inner = Mounted::file(folder.path().join("a.asdf"));
    let mount = Mounted::file(inner.path("blocks"));
    for _ in 0..2 {
        assert_eq!(common::names(mount.root()), ["0.bin", "1.bin"]);
        let error = fs::symlink_metadata(mount.path("0.bin")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
        assert_eq!(fs::read(mount.path("0.bin")).unwrap_err().raw_os_error(), Some(libc::EIO));
        assert_eq!(fs::read(mount.path("1.bin")).unwrap(), sample(100, 1));
    }
    mount.unmount();
}
