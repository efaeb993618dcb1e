//! A folder of files: each can be written, and nothing else.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::case::{NEW, OLD, build, errno};
use crate::common::mount::{Mounted, fresh_folder};

#[test]
fn each_file_of_a_folder_can_be_saved_and_others_only_read() {
    let folder = fresh_folder();
    let sources = folder.path().join("s");
    fs::create_dir_all(sources.join("sub")).unwrap();
    let (text, _) = build(&sources.join("a.asdf"));
    build(&sources.join("sub/b.asdf"));
    fs::write(sources.join("plain"), "plain").unwrap();
    let mount = Mounted::new([OsStr::new("--read-write"), sources.as_os_str()]);
    let new = text.replace(OLD, NEW);
    for name in ["a.asdf", "sub/b.asdf"] {
        fs::write(mount.path(name).join("scratch"), "x").unwrap();
        fs::write(mount.path(name).join("tree.yaml"), &new).unwrap();
        let bytes = fs::read(sources.join(name)).unwrap();
        assert!(bytes.starts_with(new.as_bytes()));
        assert_eq!(fs::read_to_string(mount.path(name).join("tree.yaml")).unwrap(), new);
    }
    assert_eq!(errno(fs::write(mount.path("plain"), "x")), libc::EROFS);
    assert_eq!(errno(fs::write(mount.path("new"), "x")), libc::EROFS);
    let (one, two) = (mount.path("a.asdf/scratch"), mount.path("sub/b.asdf/moved"));
    assert_eq!(errno(fs::rename(&one, two)), libc::EXDEV);
    assert_eq!(errno(fs::rename(&one, mount.path("moved"))), libc::EROFS);
    // The kernel may forget a folder; what was written in it stays.
    fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
    assert_eq!(fs::read(one).unwrap(), b"x");
    assert_eq!(fs::read_dir(&sources).unwrap().count(), 3);
}

#[test]
fn a_mount_over_its_own_folder_saves_too() {
    let folder = fresh_folder();
    let (text, _) = build(&folder.path().join("a.asdf"));
    let mount = Mounted::new([OsStr::new("--read-write"), folder.path().as_os_str()]);
    fs::write(mount.path("a.asdf/tree.yaml"), text.replace(OLD, NEW)).unwrap();
    mount.unmount();
    assert!(fs::read(folder.path().join("a.asdf")).unwrap().starts_with(text.replace(OLD, NEW).as_bytes()));
}

#[test]
fn a_file_that_cannot_be_written_is_mounted_read_only_and_says_so_once() {
    let folder = fresh_folder();
    let source = folder.path().join("a.asdf");
    build(&source);
    fs::set_permissions(&source, fs::Permissions::from_mode(0o644)).unwrap();
    // Root may write any file but one that nobody may.
    let chattr = |flag| std::process::Command::new("chattr").arg(flag).arg(&source).status().unwrap();
    assert!(chattr("+i").success(), "the build folder must lie on a file system with attributes");
    let log = folder.path().join("log");
    let mount = Mounted::new(["--read-write", "--log-file", log.to_str().unwrap(), source.to_str().unwrap()]);
    let refused = fs::write(mount.path("tree.yaml"), "x");
    let created = fs::write(mount.path("x"), "x");
    assert!(chattr("-i").success());
    assert_eq!((errno(refused), errno(created)), (libc::EROFS, libc::EROFS));
    assert_eq!(fs::read_to_string(log).unwrap().matches("the mount is read-only").count(), 1);
}
