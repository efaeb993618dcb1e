//! Checksums: after a mismatch, reads fail, and the mismatch is reported.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;

use common::asdf::{AsdfBuilder, Block, Checksum, sample};
use common::encode::Encoding;
use common::mount::{Mounted, fresh_folder, wait_until};

fn status(mounted: &Mounted) -> String {
    fs::read_to_string(mounted.path(".asdf-mount/status.yaml")).unwrap()
}

fn is_eio<T: std::fmt::Debug>(read: std::io::Result<T>) -> bool {
    read.is_err_and(|error| error.raw_os_error() == Some(libc::EIO))
}

/// Makes a file with a good and a bad block of an encoding; the bad block has the checksum of other data.
fn source(folder: &std::path::Path, encoding: &Encoding) -> (std::path::PathBuf, Vec<u8>) {
    let data = sample(3_000_000, 5);
    let encoding = Encoding::Raw(encoding.label(), encoding.encode(&data));
    let good = |rule| Block::new(data.clone()).encoding(encoding.clone()).checksum(rule);
    let built = AsdfBuilder::new()
        .blocks([
            good(Checksum::Stored),
            good(Checksum::Decoded),
            good(Checksum::None),
            good(Checksum::Wrong),
        ])
        .build();
    (built.save(folder, "a.asdf"), data)
}

#[test]
fn always_gives_no_byte_before_all_of_the_block_was_found_right() {
    for encoding in Encoding::all() {
        let folder = fresh_folder();
        let (source, data) = source(folder.path(), &encoding);
        let mounted = super::SOURCES.mount(["-o".as_ref(), "verify=always".as_ref(), source.as_os_str()]);
        for n in 0..3 {
            let block = File::open(mounted.block_path(n)).unwrap();
            let mut bytes = vec![0; 1000];
            block.read_exact_at(&mut bytes, 2_000_000).unwrap();
            assert_eq!(bytes, data[2_000_000..2_001_000], "{encoding:?}");
            assert!(mounted.block(n) == data, "{encoding:?}");
        }
        let bad = File::open(mounted.block_path(3)).unwrap();
        assert!(is_eio(bad.read_at(&mut [0; 10], 0)), "{encoding:?}");
        assert!(is_eio(bad.read_at(&mut [0; 10], 2_999_000)), "{encoding:?}");
        assert!(status(&mounted).contains("block 3: its MD5"), "{}", status(&mounted));
    }
}

#[test]
fn first_read_checks_beside_the_reader_and_refuses_what_is_wrong_from_then_on() {
    for encoding in [Encoding::Stored, Encoding::Zlib, Encoding::Lz4(4096), Encoding::Zstd] {
        let folder = fresh_folder();
        let (source, data) = source(folder.path(), &encoding);
        let mounted = super::SOURCES.mount(["-o".as_ref(), "verify=first-read".as_ref(), source.as_os_str()]);
        let bad = File::open(mounted.block_path(3)).unwrap();
        // The first reads may succeed.
        let mut bytes = [0; 100];
        if bad.read_exact_at(&mut bytes, 0).is_ok() {
            assert_eq!(bytes, data[..100]);
        }
        assert!(wait_until(|| is_eio(bad.read_at(&mut bytes, 5000))), "{encoding:?}");
        assert!(is_eio(fs::read(mounted.block_path(3))), "{encoding:?}");
        assert!(status(&mounted).contains("block 3: its MD5"), "{}", status(&mounted));
        for n in 0..3 {
            assert!(mounted.block(n) == data, "{encoding:?}");
            assert!(mounted.block(n) == data, "{encoding:?}");
        }
        let table = || fs::read_to_string(mounted.path(".asdf-mount/blocks.yaml")).unwrap();
        assert!(wait_until(|| !table().contains("verified: unknown")), "{}", table());
        assert!(table().contains("verified: mismatch"), "{}", table());
    }
}

#[test]
fn without_being_asked_nothing_is_checked() {
    let folder = fresh_folder();
    let (source, data) = source(folder.path(), &Encoding::Zlib);
    let mounted = super::SOURCES.file(&source);
    assert!((0..4).all(|n| mounted.block(n) == data));
    let table = fs::read_to_string(mounted.path(".asdf-mount/blocks.yaml")).unwrap();
    assert!(!table.contains("mismatch"), "{table}");
    assert_eq!(mounted.attribute("blocks/3.bin", "user.asdf.verified").unwrap(), "mismatch");
}

#[test]
fn pages_of_a_block_that_turns_out_to_be_wrong_are_forgotten() {
    let folder = fresh_folder();
    // The kernel caches a small block as soon as it is opened.
    let data = sample(300_000, 7);
    let block = Block::new(data).encoding(Encoding::Zlib).checksum(Checksum::Wrong);
    let source = AsdfBuilder::new().block(block).build().save(folder.path(), "a.asdf");
    let mounted = super::SOURCES.mount(["-o".as_ref(), "verify=first-read".as_ref(), source.as_os_str()]);
    let open = File::open(mounted.block_path(0)).unwrap();
    let _ = open.read_at(&mut [0; 100_000], 0);
    assert!(wait_until(|| is_eio(open.read_at(&mut [0; 100], 0))));
}

#[test]
fn a_stream_whose_own_checksum_is_wrong_is_unreadable_once_it_was_read_to_its_end() {
    let data = sample(2_000_000, 9);
    let mut zlib = Encoding::Zlib.encode(&data);
    *zlib.last_mut().unwrap() ^= 1;
    let mut zstd = {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.include_checksum(true).unwrap();
        std::io::Write::write_all(&mut encoder, &data).unwrap();
        encoder.finish().unwrap()
    };
    *zstd.last_mut().unwrap() ^= 1;
    let mut lz4f = {
        let info = lz4_flex::frame::FrameInfo::new().content_checksum(true);
        let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
        std::io::Write::write_all(&mut encoder, &data).unwrap();
        encoder.finish().unwrap()
    };
    *lz4f.last_mut().unwrap() ^= 1;
    for (label, stored) in [(*b"zlib", zlib), (*b"zstd", zstd), (*b"lz4f", lz4f)] {
        let folder = fresh_folder();
        let block = Block::new(data.clone()).encoding(Encoding::Raw(label, stored));
        let source = AsdfBuilder::new().block(block).build().save(folder.path(), "a.asdf");
        let mounted = super::SOURCES.file(&source);
        let open = File::open(mounted.block_path(0)).unwrap();
        let mut start = vec![0; 1000];
        open.read_exact_at(&mut start, 0).unwrap();
        assert_eq!(start, data[..1000]);
        assert!(is_eio(fs::read(mounted.block_path(0))));
        assert!(is_eio(open.read_at(&mut start, 0)));
        let status = status(&mounted).to_lowercase();
        assert!(status.contains("check"), "{status}");
    }
}

#[test]
fn where_a_stream_is_broken_stands_in_the_status_whatever_the_codec() {
    let data = sample(3_000_000, 78);
    for encoding in Encoding::all() {
        // The index of a frame is at its end: without it no chunk is found.
        if matches!(encoding, Encoding::Stored | Encoding::Blosc2Abacus(_)) {
            continue;
        }
        let mut stored = encoding.encode(&data);
        let end = stored.len() / 2;
        stored.truncate(end);
        let folder = fresh_folder();
        let block = Block::new(data.clone()).encoding(Encoding::Raw(encoding.label(), stored));
        let file = AsdfBuilder::new().block(block).build().save(folder.path(), "a.asdf");
        let mounted = super::SOURCES.file(file);
        let mut good = Vec::new();
        assert!(is_eio(File::open(mounted.block_path(0)).unwrap().read_to_end(&mut good)), "{encoding:?}");
        assert!(data.starts_with(&good), "{encoding:?}");
        assert!(!good.is_empty(), "{encoding:?}: what is before the damage is given");
        let status = status(&mounted);
        let said = status.split_once("compressed bit ").expect(&status).1;
        let (bit, said) = said.split_once(", decoded offset ").expect(&status);
        assert!(bit.parse::<usize>().unwrap() <= 8 * end, "{encoding:?}: {status}");
        assert_eq!(said.split_once(':').unwrap().0, good.len().to_string(), "{encoding:?}: {status}");
    }
}
