//! Seek tables of local files: of copies, by `--index`, and of an ordinary user.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use crate::seek_tables::{Case, damage};
use common::asdf::{AsdfBuilder, Block, Checksum, sample};
use common::daemon::Bench;
use common::encode::{Encoding, zlib};
use common::mount::program;

fn index(case: &Case, arguments: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.args(["--index", "-q"]).args(arguments).current_dir(case.folder.path());
    command.env("XDG_CACHE_HOME", case.cache()).output().unwrap()
}

#[test]
fn a_copy_of_the_file_and_one_with_another_tree_have_the_same_tables() {
    let case = Case::new(Checksum::Decoded);
    case.prove_md5();
    fs::copy(case.file(), case.path("copy.asdf")).unwrap();
    let tree = [&b"#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"[..],
        &b"# more text than there was\n".repeat(2000), b"a: !core/ndarray-1.1.0\n  source: 0\n  datatype: uint8\n  byteorder: little\n  shape: [6000000]\n...\n"].concat();
    fs::write(case.path("tree"), tree).unwrap();
    let set = Command::new(program())
        .args(["-o", "validate=off", "--set-tree", "tree", "a.asdf"])
        .current_dir(case.folder.path())
        .output();
    let set = set.unwrap();
    assert!(set.status.success(), "{set:?}");
    let moved = fs::metadata(case.file()).unwrap().len() - case.built.bytes.len() as u64;
    assert!(moved > 0);
    // The blocks have moved only by the space that the tree takes.
    let bytes = fs::read(case.file()).unwrap();
    let first = bytes.windows(6).position(|six| six == b"\xd3BLK\0\x30").unwrap() as u64;
    damage(&case.file(), &case.built, first - case.built.blocks[0].offset);
    damage(&case.path("copy.asdf"), &case.built, 0);
    for name in ["a.asdf", "copy.asdf"] {
        let mounted = case.mount(&case.path(name));
        assert_eq!(case.ends(&mounted), [true, true], "{name}");
    }
}

#[test]
fn index_makes_the_tables_of_several_files_and_says_what_is_damaged() {
    let case = Case::new(Checksum::Stored);
    let other = AsdfBuilder::new()
        .block(Block::new(sample(1000, 3)))
        .block(Block::new(sample(3_000_000, 4)).encoding(Encoding::Zlib))
        .block(Block::new(sample(3_000_000, 5)).encoding(Encoding::Lz4(100_000)))
        .build();
    other.save(case.folder.path(), "b.asdf");
    let output = index(&case, &["a.asdf", "b.asdf"]);
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(case.tables().len(), 3);
    assert!(index(&case, &["b.asdf", "a.asdf"]).status.success());
    damage(&case.file(), &case.built, 0);
    assert_eq!(case.ends(&case.mount(&case.file())), [true, true]);

    let mut cut = zlib(&sample(2_000_000, 6));
    cut.truncate(cut.len() / 2);
    let block = Block::new(sample(2_000_000, 6)).encoding(Encoding::Raw(*b"zlib", cut));
    AsdfBuilder::new().block(block).build().save(case.folder.path(), "cut.asdf");
    fs::write(case.path("text"), "no ASDF file").unwrap();
    for (files, status, lines) in [
        (&["cut.asdf", "b.asdf"][..], 1, &["cut.asdf: block 0: "][..]),
        (&["text", "cut.asdf", "none"], 2, &["text: ", "cut.asdf: block 0: ", "none: "]),
    ] {
        let output = index(&case, files);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(status), lines.len()), "{said}");
        for (line, start) in said.lines().zip(lines) {
            assert!(line.starts_with(&format!("asdf-mount: {start}")), "{said}");
        }
        assert!(output.stdout.is_empty());
    }
    assert_eq!(index(&case, &[]).status.code(), Some(2));
}

#[test]
fn index_says_why_there_is_no_place_for_tables() {
    let case = Case::new(Checksum::Stored);
    fs::create_dir_all(case.cache().join("asdf-mount")).unwrap();
    fs::set_permissions(case.cache().join("asdf-mount"), fs::Permissions::from_mode(0o777)).unwrap();
    let output = index(&case, &["a.asdf"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    let place = case.cache().join("asdf-mount");
    assert!(said.contains(place.to_str().unwrap()) && said.contains("chmod go-w"), "{said}");
    assert!(case.tables().is_empty());
}

#[test]
fn an_ordinary_user_has_tables_of_his_own_and_where_he_may_not_write_none() {
    let bench = Bench::new();
    let case = Case::new(Checksum::Stored);
    fs::copy(case.file(), bench.source()).unwrap();
    let output = bench.script(
        r#"
        mkdir dev home home/mine theirs
        mount -t tmpfs -o dev none dev
        mknod -m 666 dev/fuse c 10 229
        chmod 666 dev/fuse
        mount --bind dev/fuse /dev/fuse
        chown -R 65534:65534 home
        user() { setpriv --reuid=65534 --regid=65534 --clear-groups env XDG_CACHE_HOME=$cache "$@"; }
        reads() {
            user asdf-mount a.asdf home/m
            daemon=$(user getfattr --absolute-names --only-values -n user.asdf-mount.pid home/m)
            user cksum home/m/blocks/0.bin home/m/blocks/1.bin >sums
            user asdf-mount -u home/m
            ended $daemon
            cmp sums first || cp sums first
        }
        : >first
        cache=$T/home/mine reads
        test $(ls home/mine/asdf-mount | wc -l) = 2
        test $(stat -c %a:%u home/mine/asdf-mount) = 700:65534
        # A directory of root's that he can't write.
        cache=$T/theirs reads
        test -z "$(ls theirs)"
        # His own, which may be read only: what is there serves, and nothing is added.
        chmod 500 home/mine/asdf-mount
        touch a.asdf
        cache=$T/home/mine reads
        test $(ls home/mine/asdf-mount | wc -l) = 2
        # One that others may write.
        rm home/mine/asdf-mount/*
        chmod 770 home/mine/asdf-mount
        cache=$T/home/mine reads
        test $(ls home/mine/asdf-mount | wc -l) = 0
        # No home at all.
        cache= reads
        cache=relative reads
        # One that is not there, as those of users have that are not to have any.
        (export HOME=$T/home/none && cache= reads)
        test ! -e home/none
        test $(wc -l <first) = 2
        test ! -e relative"#,
    );
    assert!(output.status.success(), "{output:?}");
    bench.nothing_is_left();
}
