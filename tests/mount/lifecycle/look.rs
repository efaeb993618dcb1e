//! `--ls`, `--cat` and `--extract`: they show what a mount shows, and write nothing but what was asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use common::asdf::{AsdfBuilder, Block};
use common::daemon::{Bench, SAMPLE, eventually, failed, succeeded};
use common::encode::Encoding;
use common::names;

/// A node in a mount: the fields of a line of `--ls --json`.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    kind: String,
    mode: u32,
    size: u64,
    mtime: (i64, i64),
    target: Option<PathBuf>,
}

/// Returns all that a mount shows, by path.
fn walk(root: &Path) -> BTreeMap<String, Seen> {
    let (mut found, mut left) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(path) = left.pop() {
        for entry in fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            let stat = fs::symlink_metadata(&path).unwrap();
            let kind = match stat.file_type() {
                kind if kind.is_dir() => "directory",
                kind if kind.is_symlink() => "link",
                _ => "file",
            };
            if stat.is_dir() {
                left.push(path.clone());
            }
            let seen = Seen {
                kind: kind.to_owned(),
                mode: stat.mode() & 0o7777,
                size: stat.size(),
                mtime: (stat.mtime(), stat.mtime_nsec()),
                target: fs::read_link(&path).ok(),
            };
            found.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned(), seen);
        }
    }
    found
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Returns the lines of `--ls --json`, by path.
fn listed(bench: &Bench, output: &Output) -> BTreeMap<String, Seen> {
    succeeded(output);
    let lines = String::from_utf8(output.stdout.clone()).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let times: BTreeSet<String> = lines.iter().map(|line| text(&line["mtime"])).collect();
    fs::write(bench.path("times"), times.iter().map(|time| format!("{time}\n")).collect::<String>()).unwrap();
    let output = bench.shell("date -u +'%s %N' -f times");
    let parsed = String::from_utf8(output.stdout).unwrap();
    let parsed = parsed.lines().map(|line| line.split_once(' ').unwrap());
    let parsed = parsed.map(|(whole, part)| (whole.parse().unwrap(), part.parse().unwrap()));
    let seconds: BTreeMap<_, _> = times.into_iter().zip(parsed).collect();
    let seen = |line: &Value| Seen {
        kind: text(&line["kind"]),
        mode: u32::from_str_radix(&text(&line["mode"]), 8).unwrap(),
        size: line["size"].as_u64().unwrap(),
        mtime: seconds[&text(&line["mtime"])],
        target: line.get("target").map(|target| text(target).into()),
    };
    lines.iter().map(|line| (text(&line["path"]), seen(line))).collect()
}

/// Returns the bytes of a file before its end or its first unreadable byte, and true if that is the end.
fn bytes(path: &Path) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    (bytes, read.is_ok())
}

/// Compares a mount of a source with what is shown of it without a mount.
fn compare(bench: &Bench, source: &Path) {
    let (source, mnt) = (source.to_str().unwrap(), bench.mountpoint());
    succeeded(&bench.run(["-r", source, "mnt"]));
    let shown = walk(&mnt);
    assert_eq!(listed(bench, &bench.run(["--ls", "-R", "--json", source])), shown, "{source}");

    let mut files: Vec<&String> =
        shown.iter().filter(|(_, seen)| seen.kind == "file").map(|(path, _)| path).collect();
    // Trajectories have thousands of small files; some of each are enough.
    let mut n = 0;
    files.retain(|path| {
        n += 1;
        !path.contains("/frames/") && !path.contains("/resolved/") || n % 10 == 0
    });
    let (mut wanted, mut unreadable) = (Vec::<u8>::new(), Vec::new());
    let mut read = BTreeMap::new();
    for path in &files {
        let (bytes, is_whole) = bytes(&mnt.join(path));
        wanted.extend(&bytes);
        read.insert(*path, bytes);
        if !is_whole {
            unreadable.push(*path);
        }
    }
    let output = bench.command(["--cat", source]).args(&files).output().unwrap();
    assert!(output.stdout == wanted, "{source}: other bytes");
    let refused = String::from_utf8(output.stderr).unwrap();
    assert_eq!(refused.lines().count(), unreadable.len(), "{refused}");
    assert_eq!(output.status.code(), Some(i32::from(!unreadable.is_empty())));

    let output = bench.run(["--extract", source, "-C", "out"]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(i32::from(!unreadable.is_empty())), "{told}");
    let extracted = walk(&bench.path("out"));
    for (path, seen) in &shown {
        if unreadable.contains(&path) {
            assert!(!extracted.contains_key(path) && told.contains(path.as_str()), "{path}: {told}");
            continue;
        }
        let own = &extracted[path];
        let is_folder = seen.kind == "directory";
        assert_eq!((&own.kind, &own.target, own.mtime), (&seen.kind, &seen.target, seen.mtime), "{path}");
        assert_eq!(own.mode, if is_folder { 0o755 } else { seen.mode }, "{path}");
        // The status of a file lists errors of earlier reads.
        if let Some(read) = read.get(path)
            && !path.ends_with("status.yaml")
        {
            assert!(fs::read(bench.path("out").join(path)).unwrap() == *read, "{path}: other bytes");
        }
    }
    assert_eq!(extracted.len(), shown.len() - unreadable.len());
    succeeded(&bench.run(["-u", "mnt"]));
    fs::remove_dir_all(bench.path("out")).unwrap();
}

#[test]
fn fixtures_are_shown_as_in_a_mount() {
    let bench = Bench::new();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fixtures = here.join("tests/fixtures");
    for name in [
        "asdf",
        "blosc2",
        "bloscpack",
        "chunked",
        "fits",
        "asdf/none.asdf",
        "asdf/unknown-label.asdf",
        "gsd/gsd5.0.1_weird_names.gsd",
        "bloscpack/varlen_plain.blp",
    ] {
        compare(&bench, &fixtures.join(name));
    }
    compare(&bench, &here.join("examples"));
    bench.nothing_is_left();
}

/// Trajectories have thousands of files. Only `scripts/test --all` compares all of them.
mod rare {
    use super::*;

    #[test]
    fn every_fixture_is_shown_as_in_a_mount() {
        let bench = Bench::new();
        compare(&bench, &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures"));
        bench.nothing_is_left();
    }
}

#[test]
fn a_table_is_that_of_ls() {
    let bench = Bench::new();
    fs::create_dir(bench.path("data")).unwrap();
    fs::copy(bench.source(), bench.path("data/a.asdf")).unwrap();
    fs::write(bench.path("data/.hidden"), "h").unwrap();
    fs::write(bench.path("data/old"), "old").unwrap();
    symlink("old", bench.path("data/link")).unwrap();
    symlink("a.asdf", bench.path("data/folder")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        bench.path("data/pipe"),
        rustix::fs::FileType::Fifo,
        0o640.into(),
        0,
    )
    .unwrap();
    succeeded(
        &bench.shell("touch -d 1999-12-31T12:00 data/old; chown 12345:12346 data/old; chmod 4751 data/old"),
    );
    succeeded(&bench.run(["-r", "data", "mnt"]));
    for (ls, own) in [
        ("ls -l", "data"),
        ("ls -lA", "-a data"),
        ("ls -lRA", "-aR data"),
        ("TZ=Asia/Kolkata ls -l", "data"),
        ("TZ=EST5EDT,M3.2.0,M11.1.0 ls -l", "data"),
        ("ls -l old link a.asdf/ folder folder/ .", "data old link a.asdf/ folder folder/ ."),
    ] {
        let zone = ls.split_once("ls ").unwrap().0;
        let line = format!("(cd mnt && {ls}) >one; {zone} asdf-mount --ls {own} >two && cmp one two");
        let output = bench.shell(&line);
        let (one, two) = (fs::read_to_string(bench.path("one")), fs::read_to_string(bench.path("two")));
        assert!(output.status.success(), "{ls}:\n{}\n{}", one.unwrap(), two.unwrap());
    }
    succeeded(&bench.run(["-u", "mnt"]));
    fs::write(bench.path("data/\u{1b}[2J\n"), "").unwrap();
    let output = bench.run(["--ls", "data"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains(r" \u{1b}[2J\n") && !shown.contains('\u{1b}'), "{shown}");
}

#[test]
fn paths_and_ranges_are_those_of_cat_and_tail() {
    let bench = Bench::new();
    let block = AsdfBuilder::new().block(Block::new(*b"0123456789"));
    fs::write(bench.path("b.asdf"), block.build().bytes).unwrap();
    for (range, wanted) in [
        ("0-0", "0"),
        ("2-4", "234"),
        ("7-", "789"),
        ("8-99", "89"),
        ("-3", "789"),
        ("-99", "0123456789"),
        ("10-", ""),
    ] {
        let output = bench.run(["--cat", "b.asdf", "/blocks/./0.bin", "--range", range]);
        succeeded(&output);
        assert_eq!(output.stdout, wanted.as_bytes(), "{range}");
    }
    for (range, why) in [
        ("4-2", "4 is after 2"),
        ("x", "FROM-TO"),
        ("1-2-3", "FROM-TO"),
        ("9-99999999999999999999", "too large"),
    ] {
        let told = failed(&bench.run(["--cat", "b.asdf", "blocks/0.bin", "--range", range]), 2);
        assert!(told.contains(why), "{told}");
    }
    for (arguments, status, why) in [
        (
            "--cat b.asdf blocks/9.bin",
            1,
            "b.asdf: blocks/9.bin: No such file or directory; names in blocks: 0.bin",
        ),
        ("--cat b.asdf blocks", 1, "b.asdf: blocks: Is a directory"),
        ("--cat b.asdf tree.yaml/", 1, "b.asdf: tree.yaml/: Not a directory"),
        ("--cat b.asdf ../b.asdf", 1, "leads out of what a mount would show"),
        (
            "--ls b.asdf block",
            2,
            "b.asdf: block: No such file or directory; names there: .asdf-mount, arrays, blocks, ",
        ),
        ("--ls nothing.asdf", 2, "nothing.asdf: no such file or directory"),
        ("--cat nothing.asdf tree.yaml", 1, "nothing.asdf: no such file or directory"),
        ("--cat b.asdf", 2, "--cat needs a FILE and a PATH"),
        ("--ls", 2, "--ls needs a FILE"),
        ("--ls -o ro b.asdf", 2, "-o ro has no meaning with --ls"),
        ("--ls -o views=arrays,allow_other b.asdf", 2, "-o allow_other has no meaning with --ls"),
        ("--ls -o veiws=arrays b.asdf", 2, "did you mean views="),
        ("--ls -r b.asdf", 2, "--read-only can't be used with --ls; it goes with a mount"),
        ("--force b.asdf", 2, "--force needs --extract, --set-tree or --set"),
        ("-R b.asdf", 2, "--recursive needs --ls"),
    ] {
        let told = failed(&bench.run(arguments.split(' ')), status);
        assert!(told.contains(why), "{told}");
    }
}

#[test]
fn one_bad_path_stops_no_other_and_a_closed_pipe_is_quiet() {
    let bench = Bench::new();
    let block = AsdfBuilder::new().block(Block::new(*b"0123456789"));
    fs::write(bench.path("b.asdf"), block.build().bytes).unwrap();
    let output = bench.run(["--cat", "b.asdf", "nothing", "blocks/0.bin", "tree.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.starts_with(b"0123456789#ASDF "));
    for line in ["--cat b.asdf tree.yaml blocks/0.bin", "--ls -R b.asdf"] {
        let output = bench.shell(&format!("asdf-mount {line} | head -c 1; echo ${{PIPESTATUS}}"));
        assert!(output.stderr.is_empty() && output.stdout.len() >= 2, "{output:?}");
        let told = failed(
            &bench.shell(&format!("asdf-mount {line} >/dev/full")),
            if line.starts_with("--ls") { 2 } else { 1 },
        );
        assert!(told.contains("can't write to standard output: no space left"), "{told}");
    }
    let views = bench.run(["--ls", "-o", "views=none,cache=1M", "b.asdf"]);
    assert!(!String::from_utf8(views.stdout).unwrap().contains("exploded"));
}

/// Makes `b.asdf` with a readable and an unreadable block.
fn half_readable(bench: &Bench) {
    let built = AsdfBuilder::new()
        .block(Block::new(b"good".repeat(2000)).encoding(Encoding::Zlib))
        .block(Block::new(b"bad".repeat(9000)).encoding(Encoding::Zlib))
        .build();
    let mut bytes = built.bytes.clone();
    let end = bytes.len();
    let index = bytes.windows(11).rposition(|window| window == b"#ASDF BLOCK").unwrap_or(end);
    bytes[index - 12..index].fill(0xff);
    fs::write(bench.path("b.asdf"), bytes).unwrap();
}

#[test]
fn a_file_that_cant_be_read_is_left_out_and_named() {
    let bench = Bench::new();
    half_readable(&bench);
    let told =
        failed_lines(&bench.run(["--extract", "b.asdf", "blocks", "tree.yaml", "nothing", "-C", "out"]));
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].starts_with("asdf-mount: b.asdf: blocks/1.bin: "), "{told:?}");
    assert!(told[1].starts_with("asdf-mount: b.asdf: nothing: No such file"), "{told:?}");
    assert_eq!(told[2], "asdf-mount: 2 files extracted into out, 2 not");
    assert_eq!(fs::read(bench.path("out/blocks/0.bin")).unwrap(), b"good".repeat(2000));
    assert_eq!(names(&bench.path("out/blocks")), ["0.bin"]);
}

fn failed_lines(output: &Output) -> Vec<String> {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).lines().map(str::to_owned).collect()
}

#[test]
fn nothing_is_written_outside_and_nothing_is_overwritten_unasked() {
    let bench = Bench::new();
    let block = AsdfBuilder::new().block(Block::new(*b"0123456789"));
    fs::write(bench.path("b.asdf"), block.build().bytes).unwrap();
    for folder in ["out", "outside"] {
        fs::create_dir(bench.path(folder)).unwrap();
    }
    fs::write(bench.path("outside/kept"), "kept").unwrap();
    symlink("../outside", bench.path("out/blocks")).unwrap();
    symlink("../outside/kept", bench.path("out/tree.yaml")).unwrap();
    for force in [&[][..], &["--force"]] {
        let paths = ["--extract", "b.asdf", "blocks", "blocks/0.bin", "blocks/../tree.yaml", "-C", "out"];
        let told = failed_lines(&bench.run(paths.iter().chain(force)));
        assert!(
            told[0].contains("blocks: the existing file or link of this name is no directory"),
            "{told:?}"
        );
        assert_eq!(names(&bench.path("outside")), ["kept"]);
        assert_eq!(fs::read(bench.path("outside/kept")).unwrap(), b"kept");
        let is_link = fs::symlink_metadata(bench.path("out/tree.yaml")).unwrap().is_symlink();
        assert_eq!(is_link, force.is_empty());
        assert_eq!(
            told.iter().any(|line| line.contains("tree.yaml: exists already; --force")),
            force.is_empty()
        );
    }
    // A directory can be chosen through a link, and a complete extraction can be removed and repeated.
    symlink("out", bench.path("chosen")).unwrap();
    fs::remove_file(bench.path("out/blocks")).unwrap();
    succeeded(&bench.run(["--extract", "b.asdf", "blocks/0.bin", "-C", "chosen"]));
    assert_eq!(fs::metadata(bench.path("out/blocks")).unwrap().permissions().mode() & 0o777, 0o755);
    succeeded(&bench.run(["--extract", "--force", "b.asdf", "blocks/0.bin", "-C", "chosen"]));
    let told = failed_lines(&bench.run(["--extract", "b.asdf", "blocks/0.bin", "-C", "chosen"]));
    assert!(told[0].contains("blocks/0.bin: exists already"), "{told:?}");
    let told = failed(&bench.run(["--extract", ".", "-C", "out"]), 2);
    assert!(told.contains("lies in the directory to extract"), "{told}");
}

#[test]
fn links_stay_links() {
    let bench = Bench::new();
    fs::create_dir_all(bench.path("data/sub")).unwrap();
    fs::write(bench.path("data/sub/file"), "text").unwrap();
    fs::create_dir(bench.path("else")).unwrap();
    symlink("sub/file", bench.path("data/link")).unwrap();
    symlink("sub", bench.path("data/folder")).unwrap();
    symlink(bench.path("else"), bench.path("data/out")).unwrap();
    symlink("loop", bench.path("data/loop")).unwrap();
    succeeded(&bench.run(["--extract", "data", "-C", "copy"]));
    assert_eq!(fs::read_link(bench.path("copy/link")).unwrap(), Path::new("sub/file"));
    assert_eq!(fs::read_link(bench.path("copy/out")).unwrap(), bench.path("else"));
    for path in ["link", "folder/file", "folder/../sub/file"] {
        assert_eq!(bench.run(["--cat", "data", path]).stdout, b"text", "{path}");
    }
    for path in ["out/x", "loop"] {
        failed(&bench.run(["--cat", "data", path]), 1);
    }
}

#[test]
fn a_signal_or_a_full_disk_leaves_no_half_file() {
    let bench = Bench::new();
    // 4 GiB of the same element.
    let tree = "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n\
                x: !core/ndarray-1.0.0 {source: 0, datatype: uint8, byteorder: little, shape: [65536, 65536], \
                strides: [0, 0]}\n...\n";
    let built = AsdfBuilder::new().tree(tree).block(Block::new(*b"x")).build();
    fs::write(bench.path("large.asdf"), built.bytes).unwrap();

    let mut child = bench
        .command(["--extract", "large.asdf", "tree.yaml", "arrays", "-C", "out"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let is_part = |name: &String| name.ends_with(".part");
    eventually("the block is being written", || {
        assert_eq!(child.try_wait().unwrap(), None);
        bench.path("out/arrays").exists() && names(&bench.path("out/arrays")).iter().any(is_part)
    });
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(2));
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(told, "asdf-mount: interrupted with 1 file extracted into out\n");
    assert_eq!(names(&bench.path("out")), ["arrays", "tree.yaml"]);
    assert_eq!(names(&bench.path("out/arrays")), [""; 0]);

    // No room for one more file.
    let output = bench.script(
        "mkdir full; mount -t tmpfs -o size=1m,nr_inodes=3 none full
        not asdf-mount --extract large.asdf tree.yaml blocks -C full 2>error
        test $(wc -l <error) = 1; cat error; ls -A full full/blocks; umount full",
    );
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "asdf-mount: full: no space left on device; stopped at blocks/0.bin with 1 file extracted\n\
         full:\nblocks\ntree.yaml\n\nfull/blocks:\n"
    );
    // A file that does not fit is refused before its first byte, and all others are extracted.
    let output = bench.script(
        "mount -t tmpfs -o size=1m none full
        not asdf-mount --extract large.asdf arrays tree.yaml blocks -C full 2>error
        cat error; find full -type f | sort; df --output=used full | tail -n 1; umount full",
    );
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = told.lines().collect();
    let start = "asdf-mount: large.asdf: arrays: the files need more than the ";
    assert!(lines[0].starts_with(start) && lines[0].ends_with(" bytes that the disk has left"), "{told}");
    assert_eq!(
        lines[1..4],
        ["asdf-mount: 2 files extracted into full, 1 not", "full/blocks/0.bin", "full/tree.yaml"]
    );
    assert!(lines[4].trim().parse::<u64>().unwrap() < 100, "{told}");
    let output = bench.script(
        "mount -t tmpfs -o size=1m none full
        not asdf-mount --extract . large.asdf -C full; find full -mindepth 2; umount full
        mount -t tmpfs -o size=1m none full
        not asdf-mount --extract large.asdf -C full; find full -mindepth 1; umount full
        mount -t tmpfs -o size=1m none full
        not asdf-mount --extract large.asdf arrays/x.npy -C full 2>&1 | grep ' needs 4294967424 bytes'; umount full",
    );
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8(output.stdout).unwrap().lines().count() == 1, "{told}");
}

#[test]
fn an_extraction_keeps_holes() {
    let bench = Bench::new();
    fs::create_dir(bench.path("data")).unwrap();
    let size = 200_u64 << 30;
    let sparse = fs::File::create(bench.path("data/plain")).unwrap();
    sparse.write_all_at(b"start", 0).unwrap();
    sparse.write_all_at(b"middle", size / 2).unwrap();
    sparse.set_len(size).unwrap();
    let tree = format!(
        "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n\
         x: !core/ndarray-1.1.0 {{source: 0, datatype: uint8, byteorder: big, shape: [{size}]}}\n...\n"
    );
    let mut built = AsdfBuilder::new().tree(tree).block(Block::new(*b"x")).build().bytes;
    let header = built.windows(4).rposition(|window| window == b"\xd3BLK").unwrap();
    built.truncate(header + 54);
    // Allocated, used and uncompressed size, and no checksum.
    for at in [14, 22, 30] {
        built[header + at..header + at + 8].copy_from_slice(&size.to_be_bytes());
    }
    built[header + 38..].fill(0);
    let end = built.len() as u64 + size;
    fs::write(bench.path("data/a.asdf"), built).unwrap();
    let block = fs::File::options().write(true).open(bench.path("data/a.asdf")).unwrap();
    block.set_len(end).unwrap();
    block.write_all_at(b"end", end - 3).unwrap();
    succeeded(&bench.run(["--extract", "data", "plain", "a.asdf/blocks", "-C", "out"]));
    for (name, texts) in [
        ("plain", &[(0, "start"), (size / 2, "middle"), (size / 2 + 6, "\0")][..]),
        ("a.asdf/blocks/0.bin", &[(0, "\0"), (size - 3, "end")]),
    ] {
        let copy = fs::File::open(bench.path("out").join(name)).unwrap();
        let meta = copy.metadata().unwrap();
        assert_eq!(meta.len(), size, "{name}");
        assert!(meta.blocks() * 512 < 1 << 20, "{name}: {}", meta.blocks());
        for (at, text) in texts {
            let mut found = vec![0; text.len()];
            copy.read_exact_at(&mut found, *at).unwrap();
            assert_eq!(String::from_utf8(found).unwrap(), *text, "{name}");
        }
    }
    // On a disk that has no room for the holes.
    let output = bench.script(
        "mkdir full; mount -t tmpfs -o size=1m none full
        asdf-mount --extract data a.asdf/arrays -C full; asdf-mount --extract data a.asdf/arrays/x.npy -C full --force
        stat -c %s full/a.asdf/arrays/x.npy; umount full",
    );
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{}\n", size + 128));
}

#[test]
fn an_extraction_heeds_the_umask() {
    let bench = Bench::new();
    fs::set_permissions(bench.source(), fs::Permissions::from_mode(0o666)).unwrap();
    let modes = |umask: &str| {
        let output = bench.script(&format!(
            "umask {umask}; mkdir x; asdf-mount --extract . a.asdf/tree.yaml -C x; find x -mindepth 1 -printf '%m '; rm -r x"
        ));
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    // A file that is shown read-only stays so.
    assert_eq!(modes("000"), "777 444 ");
    assert_eq!(modes("022"), "755 444 ");
    assert_eq!(modes("077"), "700 400 ");
}

#[test]
fn a_file_that_is_being_saved_is_shown_complete_and_left_alone() {
    let bench = Bench::new();
    let block = AsdfBuilder::new().block(Block::new(*b"0123456789"));
    fs::write(bench.path("b.asdf"), block.build().bytes).unwrap();
    succeeded(&bench.run(["b.asdf", "mnt"]));
    let line = "grep -v '^[.][.][.]' mnt/tree.yaml >base; for i in $(seq 40); do
        { cat base; seq -f \"n%03.0f: $i\" $((i * 7 % 300 + 1)); echo ...; } >new; cp new mnt/tree.yaml; done";
    let mut saves = Command::new("sh").args(["-euc", line]).current_dir(bench.path("")).spawn().unwrap();
    let mut looks = 0;
    while saves.try_wait().unwrap().is_none() {
        let output = bench.run(["--cat", "b.asdf", "tree.yaml", "blocks/0.bin"]);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with("#ASDF ") && text.ends_with("...\n0123456789"), "{text}");
        let values: Vec<_> =
            text.lines().filter_map(|line| Some(line.strip_prefix('n')?.split_once(": ")?.1)).collect();
        assert!(values.windows(2).all(|two| two[0] == two[1]), "{values:?}");
        looks += 1;
    }
    assert!(looks > 0 && saves.wait().unwrap().success());
    succeeded(&bench.run(["-u", "mnt"]));

    fs::remove_dir_all(bench.path("state")).unwrap();
    let before =
        (fs::read(bench.path("b.asdf")).unwrap(), fs::metadata(bench.path("b.asdf")).unwrap().ctime());
    let beside = names(&bench.path(""));
    succeeded(&bench.run(["--ls", "-R", "b.asdf"]));
    succeeded(&bench.run(["--cat", "b.asdf", "tree.yaml", "blocks/0.bin"]));
    assert_eq!(
        before,
        (fs::read(bench.path("b.asdf")).unwrap(), fs::metadata(bench.path("b.asdf")).unwrap().ctime())
    );
    let after: Vec<_> = names(&bench.path("")).into_iter().filter(|name| name != "cache").collect();
    assert_eq!(after, beside.into_iter().filter(|name| name != "cache").collect::<Vec<_>>());
}

#[test]
fn no_thread_is_started_where_one_is_enough() {
    let bench = Bench::new();
    fs::copy(SAMPLE, bench.path("b.asdf")).unwrap();
    bench.runs(
        "echo 'int pthread_create(void) { __builtin_trap(); }' | cc -shared -fPIC -x c - -o alone.so
        export LD_PRELOAD=$T/alone.so
        asdf-mount --ls -R b.asdf
        asdf-mount --cat b.asdf tree.yaml >tree
        not asdf-mount --cat b.asdf nothing
        asdf-mount --extract b.asdf tree.yaml tree.json -C out
        cmp tree out/tree.yaml",
    );
}

#[test]
fn who_cant_mount_is_told_of_what_needs_no_mount() {
    let bench = Bench::new();
    let output = bench.script(
        "mkdir nodev; : >nodev/null; mount --bind /dev/null nodev/null; mount --rbind nodev /dev
        not asdf-mount a.asdf mnt 2>error; umount -l /dev; cat error
        grep -q '/dev/fuse.*asdf-mount --ls, --cat, or --extract FILE -C /tmp' error",
    );
    assert!(output.status.success(), "{output:?}");
}
