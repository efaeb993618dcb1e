//! Messages and habits that a new user meets.

use std::fs;

use crate::user::PROLOGUE;
use common::daemon::{Bench, SAMPLE, failed, succeeded};

#[test]
fn a_copy_of_a_mount_can_be_removed() {
    let bench = Bench::of_sample();
    let script = r#"
        mkdir -p home/data
        cp a.asdf home/data
        cp a.asdf home
        chown -R 65534:65534 home
        user sh -c 'cd home; asdf-mount a.asdf one; asdf-mount data two; asdf-mount -r a.asdf data three; asdf-mount a.asdf data four' || true
        for mount in one two; do
            user cp -r home/$mount home/copy
            user rm -r home/copy
        done
        for folder in one/blocks one/arrays one/.asdf-mount two two/a.asdf/blocks; do
            for change in "touch home/$folder/x" "mkdir home/$folder/x"; do
                not user $change 2>said
                grep 'Read-only file system' said
            done
        done
        for mount in one two three four; do user asdf-mount -u home/$mount || true; done"#;
    let output = bench.script(&format!("{PROLOGUE}{script}"));
    assert!(output.status.success(), "{output:?}");
    bench.nothing_is_left();
}

#[test]
fn damage_is_told_in_a_line_and_a_sound_file_has_none() {
    let bench = Bench::new();
    let sound = fs::read(SAMPLE).unwrap();
    fs::write(bench.source(), &sound).unwrap();
    let stderr = |arguments: &[&str]| {
        let output = bench.run(arguments);
        assert!(output.status.success(), "{output:?}");
        succeeded(&bench.run(["-u", "a"]));
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(stderr(&["a.asdf"]), "");
    fs::write(bench.source(), &sound[..sound.len() * 2 / 3]).unwrap();
    let said = stderr(&["a.asdf"]);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("a.asdf: damaged: ") && said.contains("asdf-mount --check "), "{said}");
    assert_eq!(stderr(&["-q", "a.asdf"]), "");
}

#[test]
fn a_file_of_another_format_is_called_by_it() {
    let bench = Bench::new();
    let mut tar = vec![0; 600];
    tar[257..262].copy_from_slice(b"ustar");
    let said = |bytes: &[u8]| {
        fs::write(bench.path("x.dat"), bytes).unwrap();
        let said = failed(&bench.run(["x.dat"]), 1);
        assert_eq!(failed(&bench.run(["x.dat", "mnt"]), 1), said);
        said
    };
    for (bytes, named) in [
        (&b"\x1f\x8b\x08\x00"[..], "is compressed by gzip; decompress it first"),
        (b"BZh91AY", "bzip2"),
        (b"SIMPLE  =                    T", "is a FITS file"),
        (b"\x89HDF\r\n\x1a\n....", "is an HDF5 file"),
        (b"PK\x03\x04....", "is a zip archive"),
        (&tar, "is a tar archive"),
        (b"\x93NUMPY\x01\0", "is a .npy file"),
        (b"just text\n", "is not an ASDF file, a GSD file, a Bloscpack file or a Blosc2 frame: it is a text"),
        (&[1, 2, 3, 4], "its format is unknown"),
        (b"", "is empty: it is not an ASDF file, a GSD file, a Bloscpack file or a Blosc2 frame"),
    ] {
        let said = said(bytes);
        assert!(said.contains(named), "{said}");
        assert!(!said.contains("\\x"), "{said}");
    }
    // Its mountpoint would be the file that was compressed.
    fs::write(bench.path("x.dat.gz"), b"\x1f\x8b\x08\x00").unwrap();
    let said = failed(&bench.run(["x.dat.gz"]), 1);
    assert!(said.contains("x.dat.gz: is compressed by gzip"), "{said}");
    bench.nothing_is_left();
}

#[test]
fn a_mount_in_the_mount_is_named() {
    let bench = Bench::new();
    let output = bench.script(
        r#"
        mkdir dir dir/below
        asdf-mount dir mnt
        mount -t tmpfs none mnt/below
        not asdf-mount -u mnt 2>said
        grep "in use: $T/mnt/below is mounted in it; unmount that first" said
        umount mnt/below
        asdf-mount -u mnt"#,
    );
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_missing_editor_is_told() {
    let bench = Bench::new();
    let output = bench.shell("EDITOR=no-such-editor asdf-mount --edit a.asdf");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("found no editor 'no-such-editor'; set EDITOR"), "{said}");
}

#[test]
fn a_directory_without_its_source_is_not_just_empty() {
    let bench = Bench::new();
    for options in ["rw", "ro"] {
        succeeded(&bench.run(["-o", options, "a.asdf"]));
        fs::rename(bench.source(), bench.path("other")).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(700));
        let error = fs::read_dir(bench.path("a")).map(Iterator::count).unwrap_err();
        assert!([libc::ENOENT, libc::ESTALE].contains(&error.raw_os_error().unwrap()), "{error}");
        fs::rename(bench.path("other"), bench.source()).unwrap();
        succeeded(&bench.run(["-u", "a"]));
    }
    bench.nothing_is_left();
}

#[test]
fn a_file_without_blocks_has_an_empty_list() {
    let bench = Bench::new();
    succeeded(&bench.run(["a.asdf"]));
    let path = bench.path("a/.asdf-mount/blocks.yaml");
    assert_eq!(fs::read_to_string(&path).unwrap(), "[]\n");
    assert_eq!(fs::metadata(&path).unwrap().len(), 3);
    succeeded(&bench.run(["-u", "a"]));
}

#[test]
fn help_and_man_page_tell_what_is_in_the_mount() {
    let bench = Bench::new();
    for arguments in [&["--help=all"][..], &["--generate", "man"]] {
        let output = bench.run(arguments);
        let text = String::from_utf8(output.stdout).unwrap().replace('\\', "");
        for word in [
            "tree.yaml",
            "arrays/",
            "status.yaml",
            "blocks.yaml",
            "views=none",
            "imploded.asdf",
            "--set-tree",
        ] {
            assert!(text.contains(word), "{word} is not in {arguments:?}");
        }
        assert!(text.to_lowercase().contains("in the mount"), "{text}");
    }
    let short = String::from_utf8(bench.run(["-h"]).stdout).unwrap();
    assert!(!short.contains("listed below"), "{short}");
}

#[test]
fn a_mount_in_place_of_its_file_is_said_to_be_one() {
    let bench = Bench::new();
    fs::create_dir(bench.path("d")).unwrap();
    fs::copy(bench.source(), bench.path("d/b.asdf")).unwrap();
    succeeded(&bench.run(["a.asdf"]));
    succeeded(&bench.run(["d", "m"]));
    for action in
        [&["--ls"][..], &["--edit"], &["--set-tree", "a.asdf"], &["--log"], &["--undo"], &["--check"]]
    {
        for mount in ["a", "m/b.asdf"] {
            let output = bench.run(action.iter().chain(&[mount]));
            let told = String::from_utf8(output.stderr).unwrap();
            assert!(!output.status.success(), "{action:?}");
            let message = format!(
                "{mount}: is a mount of asdf-mount: use ls, cp and cat in it, and any editor for {mount}/tree.yaml"
            );
            assert!(told.contains(&message), "{told}");
        }
    }
    succeeded(&bench.run(["-u", "a", "m"]));
}

#[test]
fn an_action_logs_if_it_is_asked_to() {
    let bench = Bench::new();
    for action in [&["--ls"][..], &["--check"], &["--catalog"], &["--log"]] {
        let quiet = bench.run(action.iter().chain(&["a.asdf"]));
        let verbose = bench.run(action.iter().chain(&["-vvv", "a.asdf"]));
        assert!(quiet.status.success(), "{quiet:?}");
        assert!(verbose.status.success(), "{verbose:?}");
        assert_eq!(quiet.stdout, verbose.stdout, "{action:?}");
    }
    let told = failed(&bench.run(["--undo", "--ls", "a.asdf"]), 2);
    assert!(told.contains("--undo") && told.contains("--ls"), "{told}");
}
