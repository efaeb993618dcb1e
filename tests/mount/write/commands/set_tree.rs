//! `--set-tree`, from a file and from stdin.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Stdio;

use super::{Bench, failed, succeeded};
use crate::place::{BAD, said};
use common::disk::run;

#[test]
fn a_tree_is_set_from_a_file_or_from_stdin() {
    for user in [false, true] {
        let bench = Bench::new(user);
        let link = bench.home().join("link");
        symlink(&bench.place.source, &link).unwrap();
        let longer = bench.place.named(&"longer ".repeat(3000));
        succeeded(&bench.set_tree(&longer), "");
        bench.place.holds(&longer);
        let short = bench.place.named("short");
        let mut child = bench
            .command([OsStr::new("--set-tree"), OsStr::new("-"), link.as_os_str()])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(short.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
        bench.place.holds(&short);
        assert!(link.is_symlink());
        let before = fs::metadata(&bench.place.source).unwrap();
        succeeded(&bench.set_tree(&short), "");
        let after = fs::metadata(&bench.place.source).unwrap();
        assert_eq!((before.mtime(), before.mtime_nsec()), (after.mtime(), after.mtime_nsec()), "no change");
        // `--set-tree` takes the mount options that concern saving.
        let tree = bench.write("new", bench.place.named(&"still longer ".repeat(5000)));
        let arguments = ["-o", "padding=100k", "--set-tree"].map(OsString::from);
        let arguments = arguments.into_iter().chain([tree.into(), bench.place.source.clone().into()]);
        succeeded(&bench.run(arguments), "");
        let first = crate::place::saved(&bench.place.source).len();
        let bytes = fs::read(&bench.place.source).unwrap();
        let room = bytes[first..].iter().take_while(|byte| **byte == b' ').count();
        assert!((100 << 10..(100 << 10) + 4096).contains(&room), "{room}");
    }
}

#[test]
fn a_tree_that_can_not_be_set_changes_nothing() {
    for user in [false, true] {
        let bench = Bench::new(user);
        failed(
            &bench.set_tree(bench.place.named(BAD)),
            &["a.asdf: not changed: ", "new is refused\n", "line 7", "^"],
        );
        failed(&bench.set_tree(""), &["an empty tree is never saved"]);
        failed(&bench.set_tree(b"#ASDF 1.0.0\n--- \xff\n...\n"), &["not changed"]);
        let source = bench.place.source.clone();
        let set = |tree: &Path, file: &Path| {
            let output = bench.run([OsStr::new("--set-tree"), tree.as_os_str(), file.as_os_str()]);
            assert_eq!(said(&output).lines().count(), 1, "{output:?}");
            output
        };
        let tree = bench.write("new", bench.place.named("second"));
        failed(&set(&bench.home().join("missing"), &source), &["missing: no such file"]);
        failed(&set(&tree, &bench.home().join("missing")), &["missing: no such file"]);
        failed(&set(&tree, &bench.home()), &["home"]);
        failed(&set(&tree, &bench.write("other", "no ASDF")), &["other", "not an ASDF file"]);
        failed(&set(&tree, &bench.write("empty", "")), &["empty: is empty: it is not an ASDF file"]);
        run("mkfifo", &[bench.home().join("pipe").to_str().unwrap()]);
        failed(&set(&tree, &bench.home().join("pipe")), &["pipe"]);
        let both = bench.run([OsStr::new("--set-tree"), tree.as_os_str()]);
        assert_eq!(both.status.code(), Some(2), "{both:?}");
        if user {
            chown(&source, Some(0), Some(0)).unwrap();
            fs::set_permissions(&source, fs::Permissions::from_mode(0o644)).unwrap();
            failed(&set(&tree, &source), &["can't be written", "permission denied"]);
            failed(&bench.edit("true"), &["can't be written"]);
            failed(&bench.recover(), &["can't be written"]);
        }
        bench.is_untouched();
    }
}

#[test]
fn a_tree_is_set_through_the_mount_that_is_writable() {
    let bench = Bench::new(false);
    let read_only = bench.place.try_mount(&bench.place.source, &["-r"]).unwrap();
    let writable = bench.place.mount();
    // Its daemon has the file open while a block is open.
    let open = fs::File::open(read_only.block_path(0)).unwrap();
    succeeded(&bench.set_tree(bench.place.named("second")), "");
    assert_eq!(writable.tree(), bench.place.named("second").as_bytes());
    succeeded(&bench.edit("sed -i 's/second/third/' \"$1\""), "");
    // The history is in the state directory of the mount.
    let undone = bench.place.run([OsStr::new("--undo"), OsStr::new("-q"), bench.place.source.as_os_str()]);
    succeeded(&undone, "");
    bench.place.holds(&bench.place.named("second"));
    drop(open);
}
