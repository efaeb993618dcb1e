//! Series and resolved frames of random and damaged files compared with a model.

use std::collections::BTreeMap;
use std::sync::Arc;

use asdf_file::container::Container;
use asdf_file::folder::Node;

use super::walked::{at, bytes, file, folder, npy, open, walk};
use common::dice::Dice;
use common::gsd_builder::{COLUMNS, Chunk, DESCRS, GsdBuilder, LOCATION, ROWS, SIZES};

const FILES: u64 = 200;
const NAMES: [&str; 6] = ["a", "a/b", "step", "x.npy", "rare", "../up"];
/// [`NAMES`] as file names.
const PATHS: [&str; 6] = ["a", "a/b", "step", "x%2Enpy", "rare", "%2E%2E/up"];

/// Adds frames: each name has its own type and shape, which rarely change.
fn add_frames(mut builder: GsdBuilder, dice: &mut Dice, frames: std::ops::Range<u64>) -> GsdBuilder {
    for frame in frames {
        for (n, name) in (0..).zip(NAMES) {
            let copies = match name {
                "rare" => u64::from(dice.below(5) == 0),
                "a" => 1,
                // Some names have several chunks in a frame.
                _ => dice.below(8).div_ceil(7).max(dice.below(5) / 3),
            };
            for _ in 0..copies {
                let varies = n % 2 == 1 && dice.below(20) == 0;
                let kind = 1 + ((n * 3 + u64::from(varies)) % 10) as u8;
                let shape = [1 + n + u64::from(varies), 1 + n % 3];
                let len = shape[0] * shape[1] * SIZES[usize::from(kind) - 1];
                let data: Vec<u8> = (0..len).map(|_| dice.below(256) as u8).collect();
                builder = builder.chunk(frame, name, shape, kind, &data);
            }
        }
    }
    builder
}

/// Returns the expected files of `arrays/series` for these chunks. If a frame has several chunks of a name,
/// the last one counts.
fn wanted(chunks: &[Chunk]) -> BTreeMap<String, Vec<u8>> {
    let frames = chunks.iter().map(|chunk| chunk.frame + 1).max().unwrap_or(0);
    let mut wanted = BTreeMap::new();
    for (name, path) in NAMES.iter().zip(PATHS) {
        let of_name: BTreeMap<u64, &Chunk> = chunks
            .iter()
            .filter(|chunk| chunk.name == name.as_bytes())
            .map(|chunk| (chunk.frame, chunk))
            .collect();
        let Some(first) = of_name.values().next() else { continue };
        if of_name.values().any(|chunk| (chunk.kind, chunk.shape) != (first.kind, first.shape)) {
            continue;
        }
        let count = of_name.len() as u64;
        let data: Vec<u8> = of_name.values().flat_map(|chunk| chunk.data.clone()).collect();
        let shape: Vec<u64> = [count, first.shape[0], first.shape[1]].into();
        let shape = if first.shape[1] == 1 { &shape[..2] } else { &shape };
        wanted.insert(format!("{path}.npy"), npy(DESCRS[usize::from(first.kind) - 1], shape, &data));
        if count != frames {
            let numbers: Vec<u8> = of_name.keys().flat_map(|frame| frame.to_le_bytes()).collect();
            wanted.insert(format!("{path}.frames.npy"), npy("'<u8'", &[count], &numbers));
        }
    }
    wanted
}

fn shown(container: &Arc<dyn Container>) -> BTreeMap<String, Vec<u8>> {
    let files = walk(&*folder(container, "arrays/series")).into_iter();
    files.map(|(path, file)| (path, crate::open::read(&*file.content.unwrap()).unwrap())).collect()
}

fn differing(one: &BTreeMap<String, Vec<u8>>, other: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let paths = one.keys().chain(other.keys());
    paths.filter(|path| one.get(*path) != other.get(*path)).cloned().collect()
}

#[test]
fn series_are_the_chunks_of_all_frames_in_a_row() {
    let mut dice = Dice(21);
    let mut compared = 0;
    for number in 0..FILES {
        let version = [0x1_0000, 0x2_0000][dice.below(2) as usize];
        let frames = dice.below(40);
        let builder = add_frames(GsdBuilder::new().version(version), &mut dice, 0..frames);
        let built = builder.build();
        let container = open(&built.bytes).unwrap();
        let wanted = wanted(&built.entries);
        let shown = shown(&container);
        assert_eq!(differing(&shown, &wanted), [""; 0], "file {number}");
        compared += wanted.len();
        // Reads pieces in random order.
        for (path, whole) in wanted.iter().filter(|_| number % 10 == 0) {
            let content = file(&container, &format!("arrays/series/{path}")).content.unwrap();
            for _ in 0..50 {
                let from = dice.below(whole.len() as u64 + 1) as usize;
                let mut buf = vec![0; dice.below(600) as usize];
                let read = content.read_at(from as u64, &mut buf).unwrap();
                assert_eq!(buf[..read], whole[from..whole.len().min(from + buf.len())], "{path} at {from}");
            }
        }
        let names = container.defects().len();
        assert_eq!(
            names,
            NAMES.len()
                - wanted.keys().filter(|path| !path.contains(".frames")).count()
                - missing(&built.entries)
        );
    }
    assert!(compared > 800, "only {compared} series");
}

/// Returns the number of names without a chunk.
fn missing(chunks: &[Chunk]) -> usize {
    NAMES.iter().filter(|name| chunks.iter().all(|chunk| chunk.name != name.as_bytes())).count()
}

#[test]
fn a_file_that_has_grown_goes_on_from_the_older_one() {
    let mut dice = Dice(22);
    for number in 0..FILES / 4 {
        let version = [0x1_0000, 0x2_0000][dice.below(2) as usize];
        let frames = 1 + dice.below(20);
        let builder = add_frames(GsdBuilder::new().version(version), &mut dice, 0..frames);
        let older = open(&builder.build().bytes).unwrap();
        // The builder puts names and index after the data, so in the longer file they have moved.
        let all = frames + 1 + dice.below(9);
        let longer = add_frames(builder, &mut dice, frames..all).build();
        let newer = open(&longer.bytes).unwrap();
        shown(&older);
        assert!(older.still_has(newer.source()), "file {number}");
        newer.carry_over_from(&*older);
        assert_eq!(differing(&shown(&newer), &wanted(&longer.entries)), [""; 0], "file {number}");
        assert!(!newer.still_has(older.source()), "file {number}");
        // The offsets are equal, but the data differ.
        let mut other = longer.clone();
        let data = 256..256 + longer.entries.iter().map(|chunk| chunk.data.len()).sum::<usize>();
        other.bytes[data].iter_mut().for_each(|byte| *byte ^= 0x55);
        assert!(!older.still_has(open(&other.bytes).unwrap().source()), "file {number}");
    }
}

#[test]
fn data_outside_of_the_file_end_a_series_where_they_are() {
    let built = (0..9_u8)
        .fold(GsdBuilder::new(), |builder, frame| builder.bytes(frame.into(), "a", &[frame; 5]))
        .build();
    let cut = built.clone().set(6, LOCATION, built.bytes.len() as u64 - 4);
    let container = open(&cut.bytes).unwrap();
    let content = file(&container, "arrays/series/a.npy").content.unwrap();
    assert_eq!(content.len(), 128 + 45);
    let mut buf = [0; 64];
    assert_eq!(content.read_at(128, &mut buf).unwrap(), 30);
    assert_eq!(buf[25..30], [5; 5]);
    let error = content.read_at(158, &mut buf).unwrap_err();
    assert!(error.message().contains("frame 6"), "{error}");
    assert_eq!(content.read_at(163, &mut buf).unwrap(), 10);
    // One impossible size is another shape; if all are impossible, it is an error of the file.
    let huge = (0..9).fold(built, |built, slot| built.set(slot, ROWS, 1 << 62).set(slot, COLUMNS, 4));
    let container = open(&huge.bytes).unwrap();
    assert!(file(&container, "arrays/series/a.npy").content.is_err());
}

#[test]
fn resolved_frames_take_no_chunk_at_its_word() {
    let number = |value: u32| value.to_le_bytes();
    let builder = |rows: &[u8], kind: u8| {
        GsdBuilder::new()
            .schema("hoomd", 0x1_0004)
            .chunk(0, "particles/N", [1, 1], 3, &number(2))
            .chunk(0, "particles/mass", [2, 1], 9, &[7; 8])
            .chunk(0, "log/x", [1, 1], 1, &[9])
            .chunk(1, "particles/N", [rows.len() as u64 / SIZES[usize::from(kind) - 1], 1], kind, rows)
            .chunk(1, "particles/types", [2, 3], 5, b"A\0\0\xff\0\0")
    };
    let container = |rows: &[u8], kind: u8| open(&builder(rows, kind).build().bytes).unwrap();
    let mass = |container: &Arc<dyn Container>| {
        file(container, "arrays/resolved/1/particles/mass.npy").content.map(|content| content.len())
    };
    assert_eq!(mass(&container(&number(2), 3)).unwrap(), 128 + 8);
    assert_eq!(mass(&container(&number(u32::MAX), 3)).unwrap(), 128 + 4 * u64::from(u32::MAX));
    assert_eq!(mass(&container(&[3, 0], 2)).unwrap(), 128 + 12);
    // No number, a negative number, a float, and more rows than any file can have.
    for (rows, kind) in [(&[][..], 3), (&[0xff; 4], 7), (&[0; 4], 9), (&[0xff; 8], 4)] {
        assert!(mass(&container(rows, kind)).is_err(), "{rows:?}");
    }
    let container = container(&number(2), 3);
    assert!(file(&container, "arrays/resolved/1/particles/types.npy").content.is_err());
    assert_eq!(bytes(&container, "arrays/resolved/1/particles/types.txt"), b"A\n\xff\n");
    assert_eq!(bytes(&container, "arrays/resolved/1/log/x.npy").last(), Some(&9));
    assert!(at(&container, "arrays/resolved/2").is_none() && at(&container, "arrays/resolved/1/x").is_none());
    let other = open(&GsdBuilder::new().schema("hoomd", 0x3_0000).bytes(0, "a", b"1").build().bytes).unwrap();
    assert!(at(&other, "arrays/resolved").is_none());
}

#[test]
fn no_damage_makes_a_reader_panic_or_loop() {
    let mut dice = Dice(23);
    let mut read = 0;
    for _ in 0..FILES {
        let version = [0x1_0000, 0x2_0001][dice.below(2) as usize];
        let mut builder = GsdBuilder::new().version(version).schema("hoomd", 0x1_0004);
        for frame in 0..4 {
            builder = builder
                .chunk(frame, "particles/N", [1, 1], 3, &[4, 0, 0, 0])
                .chunk(frame, "particles/position", [4, 3], 9, &[frame as u8; 48])
                .chunk(frame, "particles/types", [2, 2], 5, b"A\0B\0")
                .chunk(frame, "log/x", [2, 1], 10, &[1; 16]);
        }
        let built = builder.build();
        let mut bytes = built.bytes.clone();
        for _ in 0..=dice.below(6) {
            // Damage the header, the names or a used entry.
            let (from, len) =
                [(0, 256), (built.names.0, built.names.1), (built.index, 16 * 32)][dice.below(3) as usize];
            bytes[from + dice.below(len as u64) as usize] = [0, 1, 0x7f, 0xff][dice.below(4) as usize];
        }
        let Ok(container) = open(&bytes) else { continue };
        open(&built.bytes).unwrap().still_has(container.source());
        for top in ["arrays/series", "arrays/resolved"] {
            let Some(Node::Dir(top)) = at(&container, top) else { continue };
            let mut frames = Vec::new();
            top.list(0, &mut |name, _| {
                frames.push(name.to_owned());
                frames.len() < 5
            })
            .unwrap_or_default();
            for frame in frames {
                let Ok(Some(Node::Dir(frame))) = top.lookup(&frame) else { continue };
                for file in walk(&*frame).into_values() {
                    let Ok(content) = file.content else { continue };
                    let mut buf = [0; 300];
                    for offset in [0, content.len() / 2, content.len().saturating_sub(20)] {
                        read += u64::from(content.read_at(offset, &mut buf).is_ok());
                    }
                }
            }
        }
    }
    assert!(read > 10_000, "only {read} reads");
}
