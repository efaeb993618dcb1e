//! `--check` as a program: lines, JSON, exit status.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output};

use common::asdf::{AsdfBuilder, Block, Index};
use common::encode::Encoding;
use common::schemas::package;

fn check(folder: &Path, arguments: &[&OsStr]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_asdf-mount"));
    command.arg("--check").args(arguments).current_dir(folder).output().unwrap()
}

/// Fixtures of other formats, with the ending of their names.
const OTHERS: [(&str, &str); 3] = [
    ("a.b2nd", "blosc2/edges.b2nd"),
    ("a.blp", "bloscpack/bloscpack0.16.0-blosc1.11.4_codec_lz4_shuffle2.blp"),
    ("a.gsd", "gsd/gsd1.10.0_alltypes.gsd"),
];

/// Returns the exit status and the lines of stdout.
fn lines(folder: &Path, name: &OsStr) -> (i32, Vec<String>) {
    let output = check(folder, &[OsStr::new("-q"), name]);
    assert!(output.stderr.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.code().unwrap(), text.lines().map(str::to_owned).collect())
}

/// A file with a block that this program can't read.
fn unread() -> Vec<u8> {
    let label = *b"\x1b[2J";
    let mut bytes = AsdfBuilder::new().block(Block::new(b"data".repeat(9))).build().bytes;
    let magic = bytes.windows(4).position(|window| window == b"\xd3BLK").unwrap();
    bytes[magic + 10..magic + 14].copy_from_slice(&label);
    bytes
}

/// A file with a damaged block.
fn broken() -> Vec<u8> {
    let mut bytes = AsdfBuilder::new().block(Block::new(b"data".repeat(9))).build().bytes;
    let magic = bytes.windows(4).position(|window| window == b"\xd3BLK").unwrap();
    bytes[magic + 54] ^= 1;
    bytes
}

#[test]
fn a_defect_is_one_line_whatever_the_file_is_called_and_names_its_block_once() {
    let folder = tempfile::tempdir().unwrap();
    let name = "a\nb.asdf";
    std::fs::write(folder.path().join(name), unread()).unwrap();
    let (status, lines) = lines(folder.path(), OsStr::new(name));
    assert_eq!((status, lines.len()), (2, 1), "{lines:?}");
    assert!(lines[0].starts_with(r"a\nb.asdf: byte "), "{lines:?}");
    assert!(
        lines[0].ends_with(r#": block 0: not read: the compression "\x1b[2J" is not known"#),
        "{lines:?}"
    );
}

#[test]
fn an_unknown_compression_is_in_the_overview() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.asdf"), unread()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_asdf-mount"));
    let output = command.args(["--info", "a.asdf"]).current_dir(folder.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("\nnot read   block 0: the compression \"\\x1b[2J\" is not known\n")
            && !text.contains("no damage"),
        "{text}"
    );
}

#[test]
fn a_name_that_is_not_utf_8_is_whole_json() {
    let folder = tempfile::tempdir().unwrap();
    let name = OsStr::from_bytes(b"\xff.asdf");
    for (bytes, status) in [(broken(), 1), (b"text".to_vec(), 2)] {
        std::fs::write(folder.path().join(name), bytes).unwrap();
        let output = check(folder.path(), &[OsStr::new("--json"), name]);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["file"], "\u{fffd}.asdf");
    }
}

#[test]
fn a_file_whose_name_promises_a_format_is_unreadable_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let sound = AsdfBuilder::new().block(Block::new(b"data".repeat(9))).build().bytes;
    let mut wrong = sound.clone();
    wrong[0] = b'!';
    for (name, bytes) in [
        ("sound.asdf", &sound[..]),
        ("a/empty.asdf", b""),
        ("a/zeros.asdf", &[0; 1000]),
        ("a/first.asdf", &wrong),
        ("a/page.ASDF", b"<!DOCTYPE html><title>404 Not Found</title>"),
        ("a/empty.gsd", b""),
        ("a/text.blp", b"text"),
        ("a/empty", b""),
        ("a/text.txt", b"text"),
    ] {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    for action in ["--check", "--index"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_asdf-mount"));
        let output = command.args([action, "."]).current_dir(folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let told = String::from_utf8(output.stderr).unwrap();
        let unreadable = ["empty.asdf", "empty.gsd", "first.asdf", "page.ASDF", "text.blp", "zeros.asdf"];
        for name in unreadable {
            assert!(
                told.lines().any(|line| line.starts_with(&format!("asdf-mount: ./a/{name}: "))),
                "{name}: {told}"
            );
        }
        assert_eq!(told.lines().count(), unreadable.len() + 1, "{told}");
        assert!(told.contains("6 unreadable; 2 other files skipped"), "{told}");
    }
}

#[test]
fn what_costs_no_data_is_told_but_is_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let stale = AsdfBuilder::new()
        .block(Block::new(b"data".repeat(9)))
        .index(Index::Bytes(b"#ASDF BLOCK INDEX\n--- [7]\n...\n".to_vec()));
    stale.build().save(folder.path(), "stale.asdf");
    let (status, lines) = lines(folder.path(), OsStr::new("stale.asdf"));
    assert_eq!((status, lines.len()), (0, 1), "{lines:?}");
    assert!(lines[0].contains(": note: the block index is stale"), "{lines:?}");
}

#[test]
fn a_block_that_says_it_is_empty_and_is_not_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    for encoding in Encoding::all().into_iter().skip(1) {
        let block = Block::new(b"data".repeat(9)).encoding(encoding).claim_data(0);
        AsdfBuilder::new().block(block).build().save(folder.path(), "empty.asdf");
        let (status, lines) = lines(folder.path(), OsStr::new("empty.asdf"));
        assert_eq!((status, lines.len()), (1, 2), "{lines:?}");
        assert!(lines[0].contains("arrays/ leaves out block0: it takes 36 bytes"), "{lines:?}");
        assert!(lines[1].contains("block 0: damage: "), "{lines:?}");
    }
}

#[test]
fn an_array_in_a_block_that_is_not_there_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let array = |source: i64| format!("{{source: {source}, shape: [1], datatype: uint8, byteorder: big}}");
    for (source, status) in [(0, 0), (1, 1), (-1, 0), (-2, 1)] {
        let tree = format!("a: !core/ndarray-1.0.0 {}\nb: {}\n", array(source), array(77));
        let tree = format!("%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n{tree}...\n");
        AsdfBuilder::new().tree(tree).block(Block::new(b"x")).build().save(folder.path(), "a.asdf");
        let (found, lines) = lines(folder.path(), OsStr::new("a.asdf"));
        assert_eq!(found, status, "{lines:?}");
        let told = format!("damage: the tree has an array in block {source}, but the last block is 0");
        assert_eq!(lines.iter().any(|line| line.contains(&told)), status == 1, "{lines:?}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.asdf"), broken()).unwrap();
    // More output than a pipe can hold.
    let script = "\"$0\" --check $1 $(yes a.asdf | head -5000) | head -n 1";
    for json in ["", "--json"] {
        let program = env!("CARGO_BIN_EXE_asdf-mount");
        let mut command = Command::new("bash");
        let output = command.args(["-c", script, program, json]).current_dir(folder.path()).output().unwrap();
        assert!(output.stderr.is_empty(), "{output:?}");
        assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), 1, "{output:?}");
    }
}

/// Quadratic work would exceed the limit of CPU time, which is at least ten times the time needed.
#[test]
fn many_damaged_blocks_take_work_in_proportion() {
    const COUNT: usize = 50_000;
    let block = |magic: &[u8], label: &[u8]| {
        [magic, b"\0\x30\0\0\0\0", label, &1_u64.to_be_bytes().repeat(3), &[0; 16], b"x"].concat()
    };
    let (unknown, no_magic) = (block(b"\xd3BLK", b"what"), block(b"????", b"\0\0\0\0"));
    let damaged = [block(b"\xd3BLK", b"\0\0\0\0"), no_magic].concat().repeat(COUNT);
    // A wrong index in ascending order is of no use.
    let offsets: String = (0..COUNT).map(|n| format!("- {}\n", 70 + 55 * n)).collect();
    let index = format!("#ASDF BLOCK INDEX\n%YAML 1.1\n---\n{offsets}...\n");
    let folder = tempfile::tempdir().unwrap();
    for (what, blocks, index, status) in [
        ("unknown codecs", unknown.repeat(COUNT), "", 2),
        ("no magics", damaged.clone(), "", 1),
        ("no magics, wrong index", damaged, &*index, 1),
    ] {
        std::fs::write(folder.path().join("a.asdf"), [b"#ASDF 1.0.0\n", &*blocks, index.as_bytes()].concat())
            .unwrap();
        let mut command = Command::new("prlimit");
        command.args(["--cpu=5", env!("CARGO_BIN_EXE_asdf-mount"), "--check", "a.asdf"]);
        let output = command.current_dir(folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{what}: {}", output.status);
        assert!(output.stdout.iter().filter(|byte| **byte == b'\n').count() >= COUNT, "{what}");
    }
}

/// Runs the program in a directory; returns exit status, stdout and stderr.
fn run(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_asdf-mount"));
    command.args(arguments).current_dir(folder).env("XDG_CACHE_HOME", folder.join("cache"));
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn one_line_sums_up_unless_it_is_not_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let sound = AsdfBuilder::new().block(Block::new(b"data".repeat(9))).block(Block::new(b"x"));
    sound.build().save(folder.path(), "a.asdf");
    std::fs::write(folder.path().join("broken.asdf"), broken()).unwrap();
    std::fs::write(folder.path().join("text"), "text").unwrap();
    let said = |arguments: &[&str]| run(folder.path(), arguments).2;
    assert_eq!(said(&["--check", "a.asdf"]), "1 file, 2 blocks, sound\n");
    assert_eq!(said(&["--check", "a.asdf", "broken.asdf"]), "2 files, 3 blocks, 1 damaged\n");
    assert!(said(&["--check", "text", "a.asdf"]).ends_with("\n2 files, 2 blocks, 1 unreadable\n"));
    assert_eq!(said(&["--check", "-q", "a.asdf"]), "");
    let (status, json, line) = run(folder.path(), &["--check", "--json", "a.asdf"]);
    assert_eq!((status, line.as_str()), (Some(0), "1 file, 2 blocks, sound\n"));
    assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok(), "{json}");
    let encoded = Block::new(b"data".repeat(9)).encoding(Encoding::Zlib);
    AsdfBuilder::new().block(encoded).block(Block::new(b"x")).build().save(folder.path(), "z.asdf");
    assert_eq!(said(&["--index", "z.asdf", "a.asdf"]), "2 files, 4 blocks, 1 indexed\n");
    assert_eq!(said(&["--index", "-q", "z.asdf"]), "");
    std::fs::write(folder.path().join("unread.asdf"), unread()).unwrap();
    let (status, _, line) = run(folder.path(), &["--index", "unread.asdf"]);
    assert!(status == Some(2) && line.ends_with("\n1 file, 1 block, 0 indexed, 1 unreadable\n"), "{line}");
}

#[test]
fn a_folder_is_checked_at_any_depth_in_order_and_only_what_lies_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let (inside, outside) = (folder.path().join("in"), folder.path().join("out"));
    std::fs::create_dir_all(inside.join("b/deep")).unwrap();
    std::fs::create_dir(&outside).unwrap();
    for name in ["in/c.asdf", "in/a.asdf", "in/b/deep/x.asdf", "out/o.asdf"] {
        std::fs::write(folder.path().join(name), broken()).unwrap();
    }
    std::fs::write(inside.join("notes.txt"), "notes").unwrap();
    std::fs::write(inside.join("b/empty"), "").unwrap();
    // Leftovers of an interrupted save are not files of their own.
    for name in [
        ".a.asdf.asdf-mount-new-0123456789abcdef01234567-708-89abcdef",
        ".a.asdf.asdf-mount-swap-0123456789abcdef01234567-708-89abcdef",
        ".a.asdf.asdf-mount-journal.aside-2",
    ] {
        std::fs::write(inside.join(name), broken()).unwrap();
    }
    for (target, name) in
        [("../out", "in/folder"), ("../out/o.asdf", "in/file"), ("..", "in/b/up"), ("none", "in/dangling")]
    {
        std::os::unix::fs::symlink(target, folder.path().join(name)).unwrap();
    }
    assert!(Command::new("mkfifo").arg(inside.join("pipe")).status().unwrap().success());
    let checked = |names: &[&str]| {
        let (status, told, line) = run(folder.path(), &[&["--check"][..], names].concat());
        let files: Vec<String> =
            told.lines().map(|line| line.split(':').next().unwrap().to_owned()).collect();
        (status, files.join(" "), line)
    };
    let all = "in/a.asdf in/b/deep/x.asdf in/c.asdf".to_owned();
    let line = "3 files, 3 blocks, 3 damaged; 2 other files skipped\n".to_owned();
    assert_eq!(checked(&["in"]), (Some(1), all, line));
    // A symbolic link on the command line is followed.
    assert_eq!(checked(&["in/folder"]).1, "in/folder/o.asdf");
    assert_eq!(checked(&["in/b/deep", "out/o.asdf"]).1, "in/b/deep/x.asdf out/o.asdf");
    std::fs::remove_file(outside.join("o.asdf")).unwrap();
    assert_eq!(checked(&["out"]), (Some(0), String::new(), "no files of a known format\n".to_owned()));
}

#[test]
fn data_that_can_not_be_read_are_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in [("broken.asdf", broken()), ("unread.asdf", unread())] {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let (status, text, line) = run(folder.path(), &["--check", "unread.asdf"]);
    assert_eq!((status, line.as_str()), (Some(2), "1 file, 1 block, 1 unreadable\n"), "{text}");
    let (status, json, _) = run(folder.path(), &["--check", "--json", "unread.asdf"]);
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (status, &report["status"], &report["defects"][0]["severity"]),
        (Some(2), &"unreadable".into(), &"unread".into())
    );
    let (status, text, line) = run(folder.path(), &["--check", "."]);
    assert_eq!((status, line.as_str()), (Some(2), "2 files, 2 blocks, 1 damaged, 1 unreadable\n"), "{text}");
    assert_eq!(run(folder.path(), &["--check", "broken.asdf"]).0, Some(1));
}

#[test]
fn files_of_other_formats_that_are_cut_off_are_damaged_in_every_overview() {
    let folder = tempfile::tempdir().unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for (name, fixture) in OTHERS {
        let bytes = std::fs::read(fixtures.join(fixture)).unwrap();
        for (n, len) in [bytes.len() / 2, bytes.len() - 9].into_iter().enumerate() {
            let cut = format!("{n}-{name}");
            std::fs::write(folder.path().join(&cut), &bytes[..len]).unwrap();
            assert_eq!(run(folder.path(), &["--check", &cut]).0, Some(1), "{cut}");
            assert_eq!(run(folder.path(), &["--info", &cut]).0, Some(1), "{cut}");
            let picture = run(folder.path(), &["--thumbnail", &cut, &format!("{cut}.png")]);
            assert_eq!(picture.0, Some(0), "{cut}: {}", picture.2);
        }
    }
    let (status, table, line) = run(folder.path(), &["--info", "."]);
    assert_eq!(status, Some(1));
    assert!(line.contains("6 files, 6 damaged"), "{line}");
    assert_eq!(table.lines().filter(|line| line.contains(" damaged ")).count(), 6, "{table}");
}

/// Each element of the arrays is the same stored one.
#[test]
fn arrays_that_repeat_an_element_endlessly_are_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    for (name, data) in [("a.asdf", b"data"), ("b.asdf", b"DATA")] {
        let tree = "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n\
                    long: !core/ndarray-1.0.0 {source: 0, datatype: int8, byteorder: big, shape: [1152921504606846976], strides: [0]}\n\
                    short: !core/ndarray-1.0.0 {source: 0, datatype: int8, byteorder: big, shape: [1000], strides: [0]}\n...\n";
        let file = AsdfBuilder::new().tree(tree).block(Block::new(data.to_vec())).build();
        file.save(folder.path(), name);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_asdf-mount"));
    let output = command.args(["--diff", "a.asdf", "b.asdf"]).current_dir(folder.path()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("such arrays are not compared"), "{said}{text}");
    assert!(
        text.contains("@@ arrays/short.npy @@") && text.contains("1000 of 1000 elements differ"),
        "{text}"
    );
}

/// A tree with a node that has a schema.
fn product(node: &str) -> String {
    format!(
        "#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n\
         product: !<asdf://x.org/tags/product-1.0.0> {node}\n...\n"
    )
}

const SCHEMA: &str =
    "title: A product\nproperties: {telescope: {title: The telescope, enum: [ROMAN]}}\nrequired: [time]\n";

#[test]
fn nodes_that_break_the_schemas_of_a_package_are_told_with_the_rule() {
    let folder = tempfile::tempdir().unwrap();
    package(folder.path(), "asdf://x.org/tags/product-1.0.0", SCHEMA);
    let checked = |node: &str, schemas: &str| {
        std::fs::write(folder.path().join("a.asdf"), product(node)).unwrap();
        let output = check(folder.path(), &["-q", "--schemas", schemas, "a.asdf"].map(OsStr::new));
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    };
    let unknown =
        "a.asdf: byte 0: note: the schemas have no manifest that names tag:stsci.edu:asdf/core/asdf-1.1.0\n";
    assert_eq!(checked("{telescope: ROMAN, time: 1}", "package"), (0, unknown.to_owned()));
    let told = format!(
        "{unknown}a.asdf: byte 100: damage: line 6, column 10: product: required wants the key \"time\" (schema \
         \"A product\", asdf://x.org/schemas/product-1.0.0)\na.asdf: byte 147: damage: line 6, column 57: \
         product/telescope: enum wants [\"ROMAN\"] (schema \"The telescope\", asdf://x.org/schemas/product-1.0.0)\n"
    );
    assert_eq!(checked("{telescope: HST}", "package"), (1, told.clone()));
    let by_option = check(folder.path(), &["-q", "-o", "schemas=package", "a.asdf"].map(OsStr::new));
    assert_eq!(by_option.stdout, told.as_bytes());
    // One of several directories, and the directories within a package.
    std::fs::create_dir_all(folder.path().join("other/schemas")).unwrap();
    let other = folder.path().join("other/schemas/other.yaml");
    std::fs::write(&other, "id: asdf://x.org/schemas/other\n").unwrap();
    let both = "other:package/resources/schemas:package/resources/manifests";
    assert_eq!(checked("{telescope: HST}", both), (1, told));
    // A reference that leads nowhere, a file that is not YAML, and a directory without schemas.
    package(folder.path(), "asdf://x.org/tags/product-1.0.0", "properties: {telescope: {$ref: none-1.0}}\n");
    let (status, told) = checked("{telescope: HST}", "package");
    assert!(
        status == 2 && told.contains("not read: line 6, column 57: product/telescope: it can't be checked: "),
        "{told}"
    );
    assert!(
        told.contains("$ref: none-1.0 leads nowhere, in ") && told.contains("product-1.0.0.yaml"),
        "{told}"
    );
    assert_eq!(checked("{time: 1}", "package").0, 0);
    std::fs::write(&other, "id: [").unwrap();
    let (status, told) = checked("{time: 1}", "package:other");
    assert!(status == 2 && told.contains("other.yaml: not valid YAML"), "{told}");
    std::fs::remove_file(&other).unwrap();
    let (status, told) = checked("{time: 1}", "package:other");
    assert!(status == 2 && told.contains("other: has no schemas: name a directory"), "{told}");
}

/// `scripts/test --all` runs this test.
mod rare {
    use super::*;

    #[test]
    fn a_tree_beyond_a_limit_of_this_program_is_no_damage() {
        let folder = tempfile::tempdir().unwrap();
        let nested = format!("a: {}{}\n", "[".repeat(1200), "]".repeat(1200));
        let anchored = (0..400_000).map(|n| format!("- &a{n} [1]\n- *a{n}\n")).collect::<String>();
        for (nodes, why) in
            [(nested, "deeper than 1000 levels"), (format!("a:\n{anchored}"), "too many anchors")]
        {
            let tree = format!("%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n{nodes}...\n");
            AsdfBuilder::new().tree(tree).build().save(folder.path(), "a.asdf");
            let (status, lines) = lines(folder.path(), OsStr::new("a.asdf"));
            assert_eq!((status, lines.len()), (0, 1), "{lines:?}");
            assert!(
                lines[0].contains(": note: the tree is too complex to be checked: ")
                    && lines[0].contains(why)
            );
        }
    }
}
