//! `--repair`: what it writes is sound, and has all that a reader of the damaged file gets.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use asdf_access::Kind;
use asdf_file::container::{Container, Context, Severity};
use asdf_file::edit::repair::{Outcome, Repair};
use asdf_views::format;
use seekable::cache::Cache;
use seekable::content::Content;
use seekable::source::MemorySource;

use common::asdf::{AsdfBuilder, Block, Built, Index, sample};
use common::damaged;
use common::dice::Dice;
use common::encode::{self, Encoding};

fn open(bytes: &[u8]) -> asdf_access::Result<Arc<dyn Container>> {
    let context = Context::new(Arc::new(Cache::new(1 << 20)));
    format::open(Arc::new(MemorySource(bytes.to_vec())), &context)
}

/// Reads block `n` up to its end or the first error. The bytes are all if there is no error; a second reading does not get
/// those that turned out to be wrong.
fn read(container: &dyn Container, n: usize) -> (Vec<u8>, bool) {
    let Ok(content) = container.block(n).and_then(|block| block.content) else { return (Vec::new(), false) };
    let _ = read_content(&*content);
    read_content(&*content)
}

fn read_content(content: &dyn Content) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    let mut piece = vec![0; 4096];
    loop {
        match content.read_at(bytes.len() as u64, &mut piece) {
            Ok(0) => return (bytes, true),
            Ok(n) => bytes.extend(&piece[..n]),
            Err(_) => return (bytes, false),
        }
    }
}

/// Repairs a file; `None` if there is nothing to repair, or the file can't be repaired.
fn repaired(case: &str, container: &dyn Container) -> Option<(Repair, Vec<u8>)> {
    let repair = match Repair::plan(container, &|_| {}) {
        Ok(repair) => repair,
        Err(error) => {
            assert_eq!(error.kind(), Kind::Unsupported, "{case}: {error}");
            return None;
        }
    };
    let mut bytes = Vec::new();
    repair.write(&mut bytes, &|_| {}).unwrap();
    Some((repair, bytes))
}

/// Repairs a damaged file, and compares the new one with the damaged one, and with the file before the damage. Returns true
/// if it is repaired.
fn check(case: &str, bytes: &[u8], truth: &Built) -> bool {
    let Ok(container) = open(bytes) else { return false };
    let Some((repair, fixed)) = repaired(case, &*container) else { return false };
    let told = format!("{case}: {:?}", repair.findings);
    let file = asdf_access::File::from_bytes(fixed.clone()).unwrap_or_else(|error| panic!("{told}: {error}"));
    let damage = file.check().unwrap_or_else(|error| panic!("{told}: {error}"));
    assert!(damage.iter().all(|defect| defect.severity != Severity::Damage), "{told}: {damage:?}");
    let found = open(&fixed).unwrap();
    for n in 0..container.block_count().unwrap() {
        let (old, whole) = read(&*container, n);
        let (new, is_read) = read(&*found, n);
        let right = truth.blocks.get(n).map_or(&[][..], |block| &block.data);
        let finding = repair.findings.iter().find(|finding| finding.block == Some(n)).unwrap();
        let is_unproven = finding.what.contains("nothing proves them");
        let is_known = found.block(n).unwrap().content.is_ok();
        let is_allowed = match finding.outcome {
            _ if !is_known => old.is_empty(),
            // A mended header may lead to more than a reader of the damaged file gets.
            _ if new == right => true,
            _ if whole => new == old,
            Outcome::Kept | Outcome::Mended => false,
            Outcome::Doubtful => new.starts_with(&old),
            Outcome::Cut if is_unproven => new.starts_with(&old),
            Outcome::Cut => new == old || old.is_empty() && right.starts_with(&new),
            Outcome::Lost => new.is_empty() && old.is_empty(),
        };
        let lens = (new.len(), old.len(), right.len());
        assert!(is_allowed, "{told}: block {n}: {lens:?} {whole}");
        assert!(is_read || !is_known, "{told}: block {n}");
    }
    // A repaired file needs no repair.
    let again = Repair::plan(&*found, &|_| {}).unwrap();
    assert!(!again.is_needed(), "{told}: {:?}", again.findings);
    true
}

#[test]
fn each_kind_of_damage_is_repaired() {
    for (case, bytes, truth) in damaged::each_kind() {
        assert!(check(&case, &bytes, &truth), "{case}");
    }
}

#[test]
fn random_damage_is_repaired() {
    let mut dice = Dice(48);
    let mut repaired = 0;
    for round in 0..1000 {
        let built = damaged::random_file(&mut dice, &Encoding::all());
        let (damage, bytes) = damaged::at_random(&built, &mut dice);
        repaired += usize::from(check(&format!("round {round}: {damage}"), &bytes, &built));
    }
    assert!(repaired > 900, "{repaired}");
}

/// Nothing but the checksum of the stream tells that a byte is wrong.
#[test]
fn the_bytes_of_a_zlib_stream_with_a_wrong_checksum_are_kept() {
    let data = sample(100_000, 7);
    let mut stored = vec![0x78, 0x01];
    for (n, piece) in data.chunks(50_000).enumerate() {
        stored.push(u8::from(n == 1));
        stored.extend((piece.len() as u16).to_le_bytes());
        stored.extend((!(piece.len() as u16)).to_le_bytes());
        stored.extend(piece);
    }
    stored.extend(encode::zlib(&data).last_chunk::<4>().unwrap());
    let block = Block::new(data.clone()).encoding(Encoding::Raw(*b"zlib", stored));
    let mut built = AsdfBuilder::new().block(block).build();
    let sound = Repair::plan(&*open(&built.bytes).unwrap(), &|_| {}).unwrap();
    assert!(!sound.is_needed(), "{sound:?}");
    built.bytes[built.blocks[0].data_offset as usize + 70_000] ^= 1;
    let (repair, fixed) = repaired("a byte", &*open(&built.bytes).unwrap()).unwrap();
    assert_eq!(repair.findings[0].outcome, Outcome::Doubtful, "{repair:?}");
    let (new, _) = read(&*open(&fixed).unwrap(), 0);
    let wrong: Vec<usize> = (0..data.len()).filter(|at| new.get(*at) != data.get(*at)).collect();
    assert_eq!((new.len(), wrong), (data.len(), vec![70_000 - 12]));
}

#[test]
fn cut_anywhere() {
    let whole = damaged::small_file();
    for end in 13..whole.bytes.len() {
        assert!(check(&format!("cut at {end}"), &whole.bytes[..end], &whole), "{end}");
    }
}

/// Runs the program in a directory; returns exit status, stdout and stderr.
fn run(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_asdf-mount"));
    let Output { status, stdout, stderr } = command.args(arguments).current_dir(folder).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// A file of which block 1 has a damaged header, and the last block is cut off after 100 of 300 bytes.
fn damaged_file() -> Vec<u8> {
    let blocks = (0..4).map(|n| Block::new(sample(300, n)));
    let mut bytes = AsdfBuilder::new().blocks(blocks).index(Index::Absent).build();
    let header = bytes.blocks[1].offset as usize;
    bytes.bytes[header] = b'!';
    bytes.bytes.truncate(bytes.blocks[3].data_offset as usize + 100);
    bytes.bytes
}

#[test]
fn a_line_tells_what_became_of_each_block() {
    let folder = tempfile::tempdir().unwrap();
    let old = damaged_file();
    std::fs::write(folder.path().join("a.asdf"), &old).unwrap();
    let (status, lines, line) = run(folder.path(), &["--repair", "a.asdf", "-O", "b.asdf"]);
    assert_eq!(
        (status, line.as_str()),
        (Some(1), "b.asdf: 2 kept, 1 mended, 0 doubtful, 1 cut, 0 lost\n"),
        "{lines}"
    );
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    for (line, wanted) in lines.iter().zip([
        "a.asdf: block 0: kept: 300 bytes",
        "a.asdf: block 1: mended: 300 bytes: ",
        "a.asdf: block 2: kept: 300 bytes",
        "a.asdf: block 3: cut: 100 of 300 bytes are there: ",
    ]) {
        assert!(line.starts_with(wanted), "{lines:?}");
    }
    assert!(lines[3].ends_with("; block3 has 100 of 300 rows"), "{lines:?}");
    assert_eq!(std::fs::read(folder.path().join("a.asdf")).unwrap(), old);
    assert_eq!(run(folder.path(), &["--check", "b.asdf"]).0, Some(0));
    let tree = run(folder.path(), &["--cat", "b.asdf", "tree.yaml"]).1;
    assert!(tree.contains("\n# asdf-mount --repair: block 3: cut: 100 of 300 bytes are there"), "{tree}");
    let (status, json, _) = run(folder.path(), &["--repair", "--json", "-q", "a.asdf", "-O", "c.asdf"]);
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (status, &report["status"], &report["fixed"]),
        (Some(1), &"incomplete".into(), &"c.asdf".into())
    );
    assert_eq!(
        (&report["findings"][3]["outcome"], &report["findings"][3]["block"]),
        (&"cut".into(), &3.into())
    );
}

#[test]
fn a_sound_file_is_not_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let sound = AsdfBuilder::new().block(Block::new(sample(300, 1)).encoding(Encoding::Zlib)).build();
    sound.save(folder.path(), "a.asdf");
    let said = run(folder.path(), &["--repair", "a.asdf", "-O", "b.asdf"]);
    assert_eq!(said, (Some(0), "a.asdf: nothing to repair\n".to_owned(), String::new()));
    assert_eq!(common::names(folder.path()), ["a.asdf"]);
    let stale = AsdfBuilder::new().block(Block::new(sample(300, 1))).index(Index::Stale);
    stale.build().save(folder.path(), "stale.asdf");
    let (status, lines, _) = run(folder.path(), &["--repair", "stale.asdf", "-O", "b.asdf"]);
    assert_eq!((status, lines.lines().count()), (Some(0), 2), "{lines}");
    let (status, lines, _) = run(folder.path(), &["--check", "b.asdf"]);
    assert_eq!((status, lines.as_str()), (Some(0), ""));
}

#[test]
fn nothing_is_overwritten_and_no_half_file_is_left() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.asdf"), damaged_file()).unwrap();
    std::fs::write(folder.path().join("old"), "old").unwrap();
    std::os::unix::fs::symlink("elsewhere", folder.path().join("link")).unwrap();
    for fixed in ["a.asdf", "old", "link", "missing/b.asdf", "."] {
        let (status, _, said) = run(folder.path(), &["--repair", "a.asdf", "-O", fixed]);
        assert_eq!((status, said.lines().count()), (Some(1), 1), "{fixed}: {said}");
        assert!(said.starts_with(&format!("asdf-mount: {fixed}: ")), "{said}");
    }
    // The limit on the size of a file stands for a full disk.
    let mut command = Command::new("prlimit");
    command.args(["--fsize=500", env!("CARGO_BIN_EXE_asdf-mount"), "--repair", "a.asdf", "-O", "b.asdf"]);
    let output = command.current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    for (arguments, wanted) in [
        (&["--repair", "a.asdf"][..], "--repair FILE -O FIXED"),
        (&["--repair", "-O", "b.asdf"], "--repair FILE -O FIXED"),
        (&["--check", "a.asdf", "-O", "b.asdf"], "it goes with --cutout, --repair or --repack"),
    ] {
        let (status, _, said) = run(folder.path(), arguments);
        assert!(status == Some(2) && said.contains(wanted), "{said}");
    }
    assert_eq!(common::names(folder.path()), ["a.asdf", "link", "old"]);
    assert_eq!(std::fs::read_to_string(folder.path().join("old")).unwrap(), "old");
}

#[test]
fn other_formats_and_layouts_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let old = AsdfBuilder::new().head("#ASDF 0.1.0\n").block(Block::new(sample(300, 1))).build();
    old.save(folder.path(), "old.asdf");
    let gsd = common::gsd_builder::GsdBuilder::new().build().bytes;
    std::fs::write(folder.path().join("a.gsd"), gsd).unwrap();
    for (file, why) in
        [("old.asdf", "only files of ASDF 1.0.0 are repaired"), ("a.gsd", "only ASDF files are repaired")]
    {
        let (status, _, said) = run(folder.path(), &["--repair", file, "-O", "b.asdf"]);
        assert!(status == Some(1) && said.contains(why), "{said}");
    }
}

/// A signal arrives while the new file is written or checked.
#[test]
fn a_signal_leaves_no_half_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(folder.path().join("a.asdf")).unwrap();
    let size = 64_u64 << 20;
    let built = AsdfBuilder::new()
        .block(Block::new(b"").claim_allocated(size).claim_used(size).claim_data(size))
        .index(Index::Absent)
        .build();
    std::os::unix::fs::FileExt::write_all_at(&file, &built.bytes, 0).unwrap();
    file.set_len(built.bytes.len() as u64 + size - 1).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_asdf-mount"));
    let mut child =
        command.args(["--repair", "a.asdf", "-O", "b.asdf"]).current_dir(folder.path()).spawn().unwrap();
    for _ in 0..60_000 {
        if common::names(folder.path()).len() > 1 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    child.wait().unwrap();
    let names = common::names(folder.path());
    // If the new file was complete before the signal, it is there.
    assert!(names == ["a.asdf"] || names == ["a.asdf", "b.asdf"], "{names:?}");
}
