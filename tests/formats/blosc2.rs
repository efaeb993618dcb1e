//! Blosc2 frames of the real writer (`scripts/make-blosc2-fixtures.py`), frames of our own, and broken ones.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use asdf_access::Kind;
use asdf_file::container::{Container, Severity};
use asdf_views::format;
use seekable::content::{Content, read_exact_at};
use seekable::source::FileSource;
use serde_json::Value;

use crate::counted::CountedSource;
use crate::shown::{context, file, open, read, view, whole};
use common::blosc2_builder::{Frame, compressed, header, stored};
use common::dice::Dice;
use common::md5;

fn content(container: &Arc<dyn Container>, path: &str) -> Arc<dyn Content> {
    file(container, path).unwrap().content.unwrap()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/blosc2")
}

fn fixture(name: &str) -> Arc<dyn Container> {
    format::open(Arc::new(FileSource::open(&folder().join(name)).unwrap()), &context()).unwrap()
}

fn tree(container: &dyn Container) -> serde_yaml::Value {
    serde_yaml::from_slice(&whole(&*container.tree())).unwrap()
}

/// Returns numbers that compress.
fn numbers(len: usize) -> Vec<u8> {
    (0..len.div_ceil(4)).flat_map(|n| (n as u32 / 3).to_le_bytes()).take(len).collect()
}

#[test]
fn every_frame_is_what_its_truth_says() {
    let truth: Value = serde_json::from_slice(&std::fs::read(folder().join("frames.json")).unwrap()).unwrap();
    let frames = truth.as_object().unwrap();
    assert!(frames.len() > 25);
    for (name, truth) in frames {
        let container = fixture(name);
        assert_eq!(container.format(), "blosc2");
        let count = container.block_count().unwrap();
        assert_eq!(count as u64, truth["nchunks"].as_u64().unwrap(), "{name}");
        let data = view(&container, "data.bin").unwrap();
        assert_eq!(data.len() as u64, truth["nbytes"].as_u64().unwrap(), "{name}");
        let blocks: Vec<u8> =
            (0..count).flat_map(|n| whole(&*container.block(n).unwrap().content.unwrap())).collect();
        assert!(blocks == data, "{name}");
        if let Some(sum) = truth.get("md5") {
            assert_eq!(md5(&data), *sum, "{name}");
        }
        let array = view(&container, "arrays/data.npy");
        match truth.get("npy") {
            Some(sum) => {
                let array = array.unwrap_or_else(|| panic!("{name}: {:?}", container.defects()));
                assert_eq!(md5(&array), *sum, "{name}");
            }
            None => assert!(array.is_none() || name.starts_with("unset"), "{name}"),
        }
        assert_eq!(container.check_tree().unwrap(), [], "{name}");
        assert_eq!(container.defects(), [], "{name}");
        let tree = tree(&*container);
        assert_eq!(tree["nbytes"].as_u64(), truth["nbytes"].as_u64(), "{name}");
        assert_eq!(tree["nchunks"].as_u64(), truth["nchunks"].as_u64(), "{name}");
    }
}

#[test]
fn arrays_are_read_at_any_place() {
    let mut dice = Dice(3);
    for name in ["cube.b2nd", "four.b2nd", "edges.b2nd", "partly.b2nd", "row.b2nd", "rows.b2nd"] {
        let array = view(&fixture(name), "arrays/data.npy").unwrap();
        let again = content(&fixture(name), "arrays/data.npy");
        for _ in 0..100 {
            let at = dice.below(array.len() as u64) as usize;
            let mut buf = vec![0; 1 + dice.below(500) as usize];
            let read = again.read_at(at as u64, &mut buf).unwrap();
            assert!(read > 0 && buf[..read] == array[at..at + read], "{name} at {at}");
        }
    }
}

#[test]
fn metalayers_are_shown_and_nothing_is_unpickled() {
    let partly = fixture("partly.b2nd");
    let json: Value = serde_json::from_slice(&view(&partly, "meta.json").unwrap()).unwrap();
    assert_eq!(json["vlmetalayers"]["note"], serde_json::json!({"why": ["a test", 1.5, null], "n": -3}));
    assert_eq!(json["vlmetalayers"]["raw"], serde_json::json!({"base64": "AP8="}));
    let tree = tree(&*partly);
    assert_eq!(tree["vlmetalayers"]["note"]["n"], serde_yaml::Value::from(-3));
    assert_eq!(tree["array"]["descr"], serde_yaml::Value::from("'<i4'"));
    assert_eq!(tree["array"]["chunkshape"][0], serde_yaml::Value::from(30));
    assert_eq!(tree["array"]["blockshape"][1], serde_yaml::Value::from(10));
    let labelled: Value =
        serde_json::from_slice(&view(&fixture("labelled.b2nd"), "meta.json").unwrap()).unwrap();
    assert_eq!(labelled["metalayers"]["axes"], serde_json::json!(["x"]));
    assert!(labelled["metalayers"].get("b2nd").is_none());
    assert!(view(&fixture("cube.b2nd"), "meta.json").is_none());
}

#[test]
fn chunks_have_facts() {
    let container = fixture("partly.b2nd");
    let facts = |n| container.block(n).unwrap().facts;
    let special: Vec<String> = (0..16).map(|n| facts(n).get("special").unwrap()).collect();
    assert_eq!(special.iter().filter(|special| *special == "zeros").count(), 13, "{special:?}");
    let n = special.iter().position(|special| special == "none").unwrap();
    assert_eq!(facts(n).get("nbytes").unwrap(), "3600");
    assert_eq!(facts(n).get("typesize").unwrap(), "4");
    assert_eq!(facts(n).get("filters").unwrap(), "shuffle");
    let bytes = std::fs::read(folder().join("partly.b2nd")).unwrap();
    assert_eq!(
        facts(special.iter().position(|special| special == "zeros").unwrap()).get("codec").unwrap(),
        "none"
    );
    let at = facts(n).offset as usize;
    assert_eq!(bytes[at], 5);
    assert_eq!(bytes[at + 4..at + 8], 3600_u32.to_le_bytes());
}

#[test]
fn a_read_near_the_end_takes_header_index_and_one_chunk() {
    let data = numbers(96 << 20);
    let frame = Frame::new(4 << 20, &data, |part| compressed(part, 128 << 10));
    let frame = frame.described(&[96 << 20], &[4 << 20], &[128 << 10], "|u1");
    let bytes = frame.build();
    let source = CountedSource::new(bytes.clone());
    let container = format::open(source.clone(), &context()).unwrap();
    let array = content(&container, "arrays/data.npy");
    let opened = source.counts().1;
    assert!(opened < 2000, "{opened} bytes to open");
    let mut buf = [0; 4096];
    let at = data.len() as u64 - 10_000;
    read_exact_at(&*array, 128 + at, &mut buf).unwrap();
    assert!(buf == data[at as usize..][..4096]);
    let read = source.counts().1 - opened;
    let block = frame.chunks[0].len() / 32;
    assert!(read < 4000 + 4 * block, "{read} bytes for a read of 4096; a block has {block}");
}

#[test]
fn chunks_of_different_lengths() {
    let parts: Vec<Vec<u8>> = [3, 0, 5000, 1, 70_000].into_iter().map(numbers).collect();
    let data = parts.concat();
    let frame = Frame {
        nbytes: data.len() as u64,
        typesize: 1,
        chunks: parts.iter().map(|part| stored(part)).collect(),
        ..Frame::default()
    };
    let container = open(&frame.build()).unwrap();
    assert!(container.is_slow());
    assert!(view(&container, "data.bin").unwrap() == data);
    assert!(!container.is_slow());
    assert_eq!(container.block_count().unwrap(), 5);
    for (n, part) in parts.iter().enumerate() {
        assert!(whole(&*container.block(n).unwrap().content.unwrap()) == *part);
    }
    // Behind a chunk with a broken header nothing has a place.
    let mut broken = frame.build();
    broken[frame.places()[2]] = 99;
    let container = open(&broken).unwrap();
    let (bytes, error) = read(&*content(&container, "data.bin"));
    assert!(bytes == data[..3]);
    assert_eq!(error.unwrap().kind(), Kind::Unsupported);
}

#[test]
fn a_broken_chunk_costs_its_own_bytes_alone() {
    let data = numbers(40_000);
    let frame = Frame::new(10_000, &data, |part| compressed(part, 5000));
    let mut bytes = frame.build();
    // The first stream, after the header, the table of two blocks, and its size.
    let at = frame.places()[1] + 32 + 8 + 4;
    bytes[at..at + 8].fill(0xff);
    let container = open(&bytes).unwrap();
    let whole = content(&container, "data.bin");
    let mut part = vec![0; 10_000];
    read_exact_at(&*whole, 20_000, &mut part).unwrap();
    assert!(part == data[20_000..30_000]);
    let (start, error) = read(&*whole);
    assert!(start == data[..start.len()] && (10_000..20_000).contains(&start.len()));
    assert_eq!(error.unwrap().kind(), Kind::Damaged);
    let defects = container.defects();
    assert_eq!(defects.len(), 1, "{defects:?}");
    assert_eq!((defects[0].severity, defects[0].block), (Severity::Damage, Some(1)));
}

#[test]
fn zeros_of_any_size_take_no_memory() {
    let zeros = i64::MIN | 1 << 56;
    let chunksize = 1_u64 << 30;
    let frame = Frame {
        nbytes: chunksize * 10_000,
        chunksize: chunksize as u32,
        typesize: 8,
        offsets: Some(vec![zeros; 10_000]),
        ..Frame::default()
    };
    let shape = [10_000, 1 << 27];
    let frame = frame.described(&shape, &[1, 1 << 27], &[1, 1 << 20], "<f8");
    let container = open(&frame.build()).unwrap();
    let array = content(&container, "arrays/data.npy");
    assert_eq!(array.len(), 128 + chunksize * 10_000);
    let mut buf = [1; 5000];
    for at in [128, array.len() / 2, array.len() - 5000] {
        buf.fill(1);
        read_exact_at(&*array, at, &mut buf).unwrap();
        assert!(buf == [0; 5000]);
    }
    let unknown = Frame { offsets: Some(vec![i64::MIN; 10_000]), ..frame };
    let container = open(&unknown.build()).unwrap();
    let error = content(&container, "data.bin").read_at(0, &mut buf).unwrap_err();
    assert!(error.message().contains("has no meaning"), "{error}");
}

#[test]
fn descriptions_that_do_not_belong_to_the_chunks_are_told() {
    let frame = Frame::new(96, &[7; 384], stored);
    let with = |shape: &[i64], chunk: &[i32], block: &[i32], dtype: &str| {
        let container = open(&frame.clone().described(shape, chunk, block, dtype).build()).unwrap();
        let array = view(&container, "arrays/data.npy");
        let told = container.defects().pop().map(|defect| defect.what);
        (array.map(|array| array.len()), told)
    };
    assert_eq!(with(&[5, 7], &[3, 4], &[2, 3], "<f4"), (Some(128 + 140), None));
    for (shape, chunk, block, dtype, says) in [
        (&[5, 7][..], &[3, 4][..], &[2, 3][..], "<f8", "other chunks"),
        (&[5, 9], &[3, 4], &[2, 3], "<f4", "other chunks"),
        (&[5, 7], &[3, 0], &[2, 3], "<f4", "other chunks"),
        (&[5, 7], &[3, 4], &[2, 0], "<f4", "other chunks"),
        (&[5, 7], &[3], &[2, 3], "<f4", "invalid shape"),
        (&[-5, 7], &[3, 4], &[2, 3], "<f4", "invalid shape"),
        (&[5, 7], &[3, 4], &[2, 3], "O", "dtype"),
        (&[5, 7], &[3, 4], &[2, 3], "__import__('os')", "dtype"),
        (&[i64::MAX, i64::MAX], &[3, 4], &[2, 3], "<f4", "other chunks"),
    ] {
        let (array, told) = with(shape, chunk, block, dtype);
        assert_eq!(array, None, "{says}");
        assert!(told.as_ref().is_some_and(|told| told.contains(says)), "{says}: {told:?}");
    }
    // A dimension without elements has no chunks.
    let empty = Frame { nbytes: 0, chunks: vec![], ..frame.clone() };
    let empty = open(&empty.described(&[0, 7], &[0, 4], &[0, 3], "<f4").build()).unwrap();
    assert_eq!(view(&empty, "arrays/data.npy").unwrap().len(), 128);
}

#[test]
fn frames_that_are_not_read_say_why() {
    let good = Frame::new(100, &numbers(1000), stored);
    let error = |bytes: &[u8]| open(bytes).map(|_| ()).unwrap_err();
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.build();
        bytes[at] = byte;
        error(&bytes)
    };
    for (at, byte, kind, says) in [
        (26, 1, Kind::Unsupported, "sparse frame"),
        (26, 2, Kind::Unsupported, "type 2"),
        (25, 0x14, Kind::Unsupported, "version 4"),
        (25, 0x23, Kind::Unsupported, "offsets of another size"),
        (11, 0x80, Kind::Damaged, "its header has"),
        (16, 0x7f, Kind::Damaged, "is cut off"),
        (30, 0x80, Kind::Damaged, "decoded data"),
        (40, 1, Kind::Damaged, "the chunks"),
        (38, 0, Kind::Damaged, "broken"),
        (87, 0, Kind::Damaged, "metalayers"),
    ] {
        let error = changed(at, byte);
        assert_eq!(error.kind(), kind, "{says}: {error}");
        assert!(error.message().contains(says), "{says}: {error}");
    }
    let bytes = good.build();
    for cut in 16..bytes.len() {
        assert!(open(&bytes[..cut]).is_err(), "{cut}");
    }
    // An index that is shorter than the header says, and offsets outside of the chunks.
    let short = Frame { offsets: Some(vec![0; 9]), ..good.clone() };
    assert!(error(&short.build()).message().contains("its index has 9"));
    let outside = Frame { offsets: Some(vec![1 << 40; 10]), ..good.clone() };
    let container = open(&outside.build()).unwrap();
    assert!(container.block(3).unwrap().content.unwrap_err().message().contains("begins at byte"));
    let error = error(&stored(b"some data"));
    assert!(error.message().starts_with("is a bare Blosc2 chunk of 9 uncompressed bytes"), "{error}");
    let behind = Frame { behind: b"abc".to_vec(), ..good };
    let defects = open(&behind.build()).unwrap().defects();
    assert!(defects[0].what.starts_with("3 bytes follow") && defects[0].severity == Severity::Note);
}

#[test]
fn a_dictionary_is_bounded() {
    let mut chunk = header(0x30, 1, [8, 8, 60]);
    chunk[31] = 1;
    chunk.extend(36_u32.to_le_bytes());
    for size in [0, 1 << 20, u32::MAX] {
        let mut chunk = chunk.clone();
        chunk.extend(size.to_le_bytes());
        chunk.resize(60, 0);
        let container = open(&Frame::new(8, &[0; 8], |_| chunk.clone()).build()).unwrap();
        let error = content(&container, "data.bin").read_at(0, &mut [0]).unwrap_err();
        assert!(error.message().contains("dictionary has"), "{error}");
    }
}

#[test]
fn large_metalayers_are_not_shown() {
    let bomb = {
        let mut chunk = header(0, 1, [1 << 30, 1, 32]);
        chunk[31] = 0x10;
        chunk
    };
    let trailing: Vec<_> = ["a", "b", "c"].map(|name| (name, bomb.clone())).into();
    let frame = Frame { trailing, ..Frame::new(8, &[0; 8], stored) };
    let container = open(&frame.build()).unwrap();
    let json: Value = serde_json::from_slice(&view(&container, "meta.json").unwrap()).unwrap();
    assert!(json["vlmetalayers"]["a"].as_str().unwrap().starts_with("not shown"), "{json}");
}

#[test]
fn mutated_frames_never_panic() {
    let mut dice = Dice(77);
    for name in [
        "cube.b2nd",
        "partly.b2nd",
        "labelled.b2nd",
        "moved.b2frame",
        "packed.b2frame",
        "text.b2nd",
        "tiny.b2frame",
    ] {
        let good = std::fs::read(folder().join(name)).unwrap();
        for _ in 0..150 {
            let mut bytes = good.clone();
            for _ in 0..=dice.below(3) {
                let end = if dice.below(2) == 0 { bytes.len().min(300) } else { bytes.len() };
                let at = dice.below(end as u64) as usize;
                bytes[at] = [0, 1, 0x7f, 0x80, 0xff, dice.below(256) as u8][dice.below(6) as usize];
            }
            let Ok(container) = open(&bytes) else { continue };
            let _ = whole(&*container.tree());
            for path in ["data.bin", "arrays/data.npy", "meta.json"] {
                let Some(Ok(content)) = file(&container, path).map(|file| file.content) else { continue };
                let mut buf = [0; 3000];
                for at in [0, content.len() / 2, content.len().saturating_sub(3000)] {
                    let _ = content.read_at(at, &mut buf);
                }
            }
            for n in 0..container.block_count().unwrap().min(4) {
                let _ = container.block(n).map(|block| block.facts);
            }
            let _ = container.defects();
        }
    }
}
