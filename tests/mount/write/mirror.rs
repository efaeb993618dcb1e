//! A mirrored directory: the tree of each file can be written, and nothing else.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use common::case::{NEW, OLD, build, errno};
use common::mount::{Mounted, fresh_folder};

#[test]
fn each_file_of_a_folder_can_be_saved_and_others_only_read() {
    let folder = fresh_folder();
    let sources = folder.path().join("s");
    fs::create_dir_all(sources.join("sub")).unwrap();
    let (text, _) = build(&sources.join("a.asdf"));
    build(&sources.join("sub/b.asdf"));
    fs::write(sources.join("plain"), "plain").unwrap();
    let mount = Mounted::file(&sources);
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
    // The kernel may forget the directory; the scratch files in it stay.
    fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
    assert_eq!(fs::read(one).unwrap(), b"x");
    assert_eq!(fs::read_dir(&sources).unwrap().count(), 3);
}

#[test]
fn a_file_is_a_directory_as_soon_as_it_is_written() {
    let folder = fresh_folder();
    for name in ["a.asdf", "data"] {
        let source = folder.path().join(name);
        // As of a program that has truncated the file.
        fs::write(&source, "").unwrap();
        let mount = Mounted::file(folder.path());
        assert!(fs::metadata(mount.path(name)).unwrap().is_file());
        let (text, _) = build(&source);
        assert_eq!(fs::read_to_string(mount.path(name).join("tree.yaml")).unwrap(), text);
    }
}

/// The kernel must not keep that a view is not there: another program is writing the file.
#[test]
fn a_file_has_its_views_as_soon_as_it_is_written() {
    let folder = fresh_folder();
    let source = folder.path().join("a.asdf");
    build(&source);
    let bytes = fs::read(&source).unwrap();
    for options in [&["-r"][..], &[]] {
        let mount = Mounted::new([options, &[folder.path().to_str().unwrap()]].concat());
        let arrays = mount.path("a.asdf/arrays");
        assert!(fs::metadata(mount.path("a.asdf")).unwrap().is_dir());
        fs::write(&source, "").unwrap();
        assert!(fs::metadata(&arrays).is_err());
        fs::write(&source, &bytes).unwrap();
        assert!(fs::metadata(&arrays).unwrap().is_dir(), "{options:?}");
    }
}

#[test]
fn a_mount_over_its_own_folder_saves_too() {
    let folder = fresh_folder();
    let (text, _) = build(&folder.path().join("a.asdf"));
    let mount = Mounted::file(folder.path());
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
    // Root may write any file except an immutable one.
    let chattr = |flag| std::process::Command::new("chattr").arg(flag).arg(&source).status().unwrap();
    assert!(chattr("+i").success(), "the build folder must lie on a file system with attributes");
    let log = folder.path().join("log");
    let mount = Mounted::new(["--log-file", log.to_str().unwrap(), source.to_str().unwrap()]);
    let refused = fs::write(mount.path("tree.yaml"), "x");
    let created = fs::write(mount.path("x"), "x");
    let status = fs::read_to_string(mount.path(".asdf-mount/status.yaml")).unwrap();
    assert!(chattr("-i").success());
    assert_eq!((errno(refused), errno(created)), (libc::EROFS, libc::EROFS));
    for told in [mount.stderr(), fs::read_to_string(log).unwrap()] {
        assert_eq!(told.matches("a.asdf: can't be written: the mount is read-only\n").count(), 1, "{told}");
    }
    assert!(status.contains("writable: false\nread_only_because: "), "{status}");
    // A mount with `-r` or `-q` gives no warning.
    assert!(chattr("+i").success());
    let (asked, quiet) = (
        Mounted::new([OsStr::new("-r"), source.as_os_str()]),
        Mounted::new([OsStr::new("-q"), source.as_os_str()]),
    );
    assert!(chattr("-i").success());
    assert_eq!((asked.stderr(), quiet.stderr()), (String::new(), String::new()));
}

#[test]
fn of_several_files_those_that_cannot_be_written_are_named() {
    let folder = fresh_folder();
    let [one, two] = ["one.asdf", "two.asdf"].map(|name| folder.path().join(name));
    let (text, _) = build(&one);
    build(&two);
    let chattr =
        |flag, path| std::process::Command::new("chattr").arg(flag).arg(path).status().unwrap().success();
    assert!(chattr("+i", &two));
    let mount = Mounted::new([&one, &two]);
    let saved = fs::write(mount.path("one.asdf/tree.yaml"), text.replace(OLD, NEW));
    let refused = fs::write(mount.path("two.asdf/tree.yaml"), text.replace(OLD, NEW));
    let said = mount.stderr();
    mount.unmount();
    assert!(chattr("+i", &one));
    let mount = Mounted::new([&one, &two]);
    let all_said = mount.stderr();
    assert!(chattr("-i", &one) && chattr("-i", &two));
    saved.unwrap();
    assert_eq!(errno(refused), libc::EROFS);
    assert_eq!(said, format!("asdf-mount: {}: can't be written\n", two.display()));
    let both = format!("{}, {}", one.display(), two.display());
    assert_eq!(all_said, format!("asdf-mount: {both}: can't be written: the mount is read-only\n"));
    assert!(fs::read(one).unwrap().starts_with(text.replace(OLD, NEW).as_bytes()));
}
