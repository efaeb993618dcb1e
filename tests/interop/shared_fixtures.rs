//! `tests/fixtures/asdf`: one small file of each kind, made once by the script beside them.
//!
//! In all of them `a` is int32 0..99 and `b` is int32 (i·i) mod 251 for i in 0..9000, little-endian.

use std::fs;
use std::path::PathBuf;

use common::mount::Mounted;
use common::python::root;

fn a() -> Vec<u8> {
    (0..100_i32).flat_map(i32::to_le_bytes).collect()
}

fn b() -> Vec<u8> {
    (0..9000_i32).flat_map(|i| (i * i % 251).to_le_bytes()).collect()
}

fn fixture(name: &str) -> PathBuf {
    root().join("tests/fixtures/asdf").join(format!("{name}.asdf"))
}

/// Mounts a fixture and compares all its blocks.
fn holds(name: &str, blocks: &[Vec<u8>]) -> Mounted {
    let mounted = Mounted::file(fixture(name));
    assert_eq!(mounted.block_count(), blocks.len(), "{name}");
    for (n, wanted) in blocks.iter().enumerate() {
        let size = fs::metadata(mounted.block_path(n)).unwrap().len();
        assert_eq!(size, wanted.len() as u64, "{name}: size of block {n}");
        assert!(mounted.block(n) == *wanted, "{name}: block {n} holds other bytes");
    }
    mounted
}

#[test]
fn every_codec_and_dialect() {
    for name in [
        "none",
        "zlib",
        "bzp2",
        "lz4",
        "lz4-small-chunks",
        "lz4-label-with-lz4-frame",
        "lz4f",
        "zstd",
        "blsc",
        "blsc-abacus-framing",
        "zlib-old-checksum",
    ] {
        holds(name, &[a(), b()]).unmount();
    }
}

#[test]
fn padding_index_and_checksum_make_no_difference() {
    for name in ["padded-true", "no-index", "no-checksum"] {
        holds(name, &[a(), b()]).unmount();
    }
}

#[test]
fn exploded_and_inline_files() {
    holds("exploded", &[]).unmount();
    holds("exploded0000", &[a()]).unmount();
    holds("exploded0001", &[b()]).unmount();
    holds("inline", &[]).unmount();
}

#[test]
fn a_stream_reaches_to_the_end_of_the_file() {
    holds("streamed", &[a(), (0..12).collect()]).unmount();
}

#[test]
fn an_unknown_codec_is_an_error_of_its_block_alone() {
    let mounted = Mounted::file(fixture("unknown-label"));
    assert_eq!(mounted.block_count(), 2);
    for n in 0..2 {
        let error = fs::read(mounted.block_path(n)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO), "block {n}");
    }
    assert!(mounted.tree().ends_with(b"\n...\n"));
    mounted.unmount();
}

#[test]
fn the_tree_is_the_exact_text_of_the_head() {
    for entry in fs::read_dir(root().join("tests/fixtures/asdf")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "asdf") {
            continue;
        }
        let file = fs::read(&path).unwrap();
        let end = file.windows(5).position(|window| window == b"\n...\n").map(|at| at + 5);
        let mounted = Mounted::file(&path);
        let wanted = match end {
            Some(end) => &file[..end],
            None => panic!("{}: a fixture without a tree", path.display()),
        };
        assert!(mounted.tree() == wanted, "{}", path.display());
        mounted.unmount();
    }
}

#[test]
fn both_checksum_rules_are_told_apart() {
    for (name, word) in
        [("zlib", "stored"), ("zlib-old-checksum", "decoded"), ("no-checksum", "none"), ("none", "stored")]
    {
        let mounted = Mounted::file(fixture(name));
        assert_eq!(mounted.attribute("blocks/1.bin", "user.asdf.verified").unwrap(), word, "{name}");
        mounted.unmount();
    }
}
