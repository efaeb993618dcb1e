//! Random files compared with a model: all chunks are shown.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use asdf_file::folder::names::original;

use super::crafted::is_of_series;
use super::walked::{bytes, folder, names, npy, open, walk};
use common::dice::Dice;
use common::gsd_builder::{Built, Chunk, DESCRS, GsdBuilder, SIZES};

const FILES: u64 = 300;

/// Names of all kinds. In the old layout, names have at most 63 bytes.
const NAMES: [&[u8]; 20] = [
    b"a",
    b"a/b",
    b"a/b/c",
    b"b",
    b"particles/position",
    b"particles/N",
    b"..",
    b"./x",
    b"/",
    b"//",
    b"x.npy",
    b"x",
    b"x~1",
    b"x.txt/y",
    b"%",
    b"\xff\xfe/\n",
    "größe/λ".as_bytes(),
    b"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    b" ",
    b"~",
];

/// The chunks that a file shows for a frame: name, number of the duplicate, bytes.
type Shown = Vec<(Vec<u8>, u64, Vec<u8>)>;

fn random(dice: &mut Dice) -> GsdBuilder {
    let version = [0x1_0000, 0x2_0000, 0x2_0001][dice.below(3) as usize];
    let mut builder = GsdBuilder::new().version(version).dead(dice.below(3) as usize * 100);
    let (mut frame, most) = (0, dice.below(12));
    for _ in 0..dice.below(12) {
        // Some frames have no chunk.
        frame += dice.below(4) / 3;
        for _ in 0..dice.below(most + 1) {
            let shape = [dice.below(5), 1 + dice.below(3)];
            let kind = 1 + dice.below(if version == 0x2_0001 { 11 } else { 10 }) as u8;
            let len = shape[0] * shape[1] * SIZES[usize::from(kind) - 1];
            let data: Vec<u8> = (0..len).map(|_| dice.below(256) as u8).collect();
            let name = NAMES[dice.below(NAMES.len() as u64) as usize];
            builder = builder.chunk(frame, name, shape, kind, &data);
        }
        frame += 1;
    }
    builder
}

fn shown_as(chunk: &Chunk) -> Vec<u8> {
    match DESCRS.get(usize::from(chunk.kind) - 1) {
        Some(descr) => {
            let shape = if chunk.shape[1] == 1 { &chunk.shape[..1] } else { &chunk.shape };
            npy(descr, shape, &chunk.data)
        }
        None => chunk.data.clone(),
    }
}

fn wanted(built: &Built, frame: u64) -> Shown {
    let mut of_name: BTreeMap<&[u8], Vec<&Chunk>> = BTreeMap::new();
    for chunk in built.entries.iter().filter(|chunk| chunk.frame == frame) {
        of_name.entry(&chunk.name).or_default().push(chunk);
    }
    let mut shown = Shown::new();
    for (name, chunks) in of_name {
        let last = chunks.len() - 1;
        let number = |at| if at == last { 0 } else { at as u64 + 1 };
        shown.extend(
            chunks.iter().enumerate().map(|(at, chunk)| (name.to_vec(), number(at), shown_as(chunk))),
        );
    }
    shown.sort();
    shown
}

/// Returns the name and the number of the duplicate for a path.
fn name_of(path: &str) -> (Vec<u8>, u64) {
    let stem = path.strip_suffix(".npy").or(path.strip_suffix(".txt")).unwrap();
    let copy = stem.rsplit_once('~').and_then(|(stem, number)| Some((stem, number.parse().ok()?)));
    let (stem, number) = copy.unwrap_or((stem, 0));
    (original(stem.split('/').map(OsStr::new)).unwrap(), number)
}

#[test]
fn what_was_put_in_is_what_is_shown() {
    let mut dice = Dice(13);
    for file in 0..FILES {
        let built = random(&mut dice).build();
        let container = open(&built.bytes).unwrap();
        let frames = built.entries.iter().map(|chunk| chunk.frame + 1).max().unwrap_or(0);
        assert_eq!(names(&*folder(&container, "arrays/frames")).len() as u64, frames, "file {file}");
        for frame in 0..frames {
            let mut shown = Shown::new();
            let top = format!("arrays/frames/{frame}");
            for path in walk(&*folder(&container, &top)).keys() {
                let (name, number) = name_of(path);
                shown.push((name, number, bytes(&container, &format!("{top}/{path}"))));
            }
            shown.sort();
            assert_eq!(shown, wanted(&built, frame), "file {file}, frame {frame}");
        }
        assert_eq!(container.block_count().unwrap(), built.entries.len());
        for (n, chunk) in built.entries.iter().enumerate() {
            let block = container.block(n).unwrap().content.unwrap();
            assert_eq!(crate::open::read(&*block).unwrap(), chunk.data, "file {file}, block {n}");
        }
        let defects = container.defects().into_iter().filter(|defect| !is_of_series(defect));
        assert_eq!(defects.collect::<Vec<_>>(), [], "file {file}");
    }
}

#[test]
fn one_damaged_entry_costs_no_other_chunk() {
    let mut dice = Dice(14);
    for file in 0..FILES {
        let built = random(&mut dice).build();
        if built.entries.is_empty() {
            continue;
        }
        let slot = dice.below(built.entries.len() as u64) as usize;
        let place = built.place(slot);
        let mut damaged = built.clone();
        for _ in 0..=dice.below(3) {
            damaged.bytes[place + dice.below(32) as usize] ^= 1 << dice.below(8);
        }
        if damaged.bytes[place + 16..place + 24] == [0; 8] {
            continue; // This entry ends the index
        }
        let container = open(&damaged.bytes).unwrap();
        let frames = names(&*folder(&container, "arrays/frames"));
        let mut shown: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
        for chunk in built.entries.iter() {
            if !frames.iter().any(|(name, _)| *name == chunk.frame.to_string()) {
                continue;
            }
            shown.entry(chunk.frame).or_insert_with(|| {
                let files = walk(&*folder(&container, &format!("arrays/frames/{}", chunk.frame)));
                let content = files.into_values().filter_map(|file| file.content.ok());
                content.filter_map(|content| crate::open::read(&*content).ok()).collect()
            });
        }
        let others = built.entries.iter().enumerate().filter(|(n, _)| *n != slot);
        let is_there = |chunk: &Chunk| {
            let data = shown_as(chunk);
            shown.get(&chunk.frame).is_some_and(|files| files.contains(&data))
        };
        let lost = others.filter(|(_, chunk)| !is_there(chunk)).count();
        // A neighbouring frame with a single chunk may be the one that seems out of order.
        assert!(lost <= 1, "file {file}: {lost} lost by damage of entry {slot}");
    }
}

#[test]
fn nothing_that_is_cut_or_changed_breaks_the_reader() {
    let mut dice = Dice(15);
    for _ in 0..FILES {
        let mut bytes = random(&mut dice).build().bytes;
        match dice.below(2) {
            0 => bytes.truncate(dice.below(bytes.len() as u64) as usize),
            _ => {
                for _ in 0..=dice.below(8) {
                    let at = dice.below(bytes.len() as u64) as usize;
                    bytes[at] = dice.below(256) as u8;
                }
            }
        }
        let Ok(container) = open(&bytes) else { continue };
        let _ = (container.defects(), container.check_tree(), container.tree());
        for n in 0..container.block_count().unwrap_or(0) {
            if let Ok(content) = container.block(n).unwrap().content {
                assert!(content.len() <= bytes.len() as u64);
                crate::open::read(&*content).unwrap();
            }
        }
        let frames = folder(&container, "arrays/frames");
        for (name, _) in names(&*frames).into_iter().take(100) {
            for file in walk(&*folder(&container, &format!("arrays/frames/{name}"))).into_values() {
                assert!(file.content.is_err() || file.len() <= bytes.len() as u64 + 128);
            }
        }
    }
}
