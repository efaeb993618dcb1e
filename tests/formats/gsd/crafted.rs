//! Crafted files: each is refused with a reason, or only the damaged part can't be read.

use asdf_file::container::{Container, Defect, Severity};
use asdf_file::folder::{EntryKind, Node};
use seekable::source::FileSource;
use std::sync::Arc;

use super::walked::{at, bytes, file, folder, names, open, walk};
use crate::open::read;
use common::gsd_builder::{Built, COLUMNS, FLAGS, FRAME, GsdBuilder, ID, LOCATION, ROWS, TYPE};
use common::mount::fresh_folder;

/// Returns 8 frames with the chunks `a`, `b` and `c` of 16 bytes each.
fn plain(version: u32) -> Built {
    let mut builder = GsdBuilder::new().version(version);
    for frame in 0..8_u8 {
        for name in ["a", "b", "c"] {
            builder = builder.bytes(frame.into(), name, &[frame * 16 + name.as_bytes()[0] % 16; 16]);
        }
    }
    builder.build()
}

fn frame_names(container: &Arc<dyn Container>, frame: u64) -> Vec<String> {
    walk(&*folder(container, &format!("arrays/frames/{frame}"))).into_keys().collect()
}

/// Returns severity, block and offset of the reported defects.
fn defects(container: &Arc<dyn Container>) -> Vec<(Severity, Option<usize>, u64)> {
    let mut found = [container.defects(), container.check_tree().unwrap()].concat();
    found.retain(|defect| !is_of_series(defect));
    found.iter().map(|defect| (defect.severity, defect.block, defect.offset)).collect()
}

/// True if the defect only gives the reason why a name has no series.
pub(super) fn is_of_series(defect: &Defect) -> bool {
    defect.what.contains("is not in arrays/series")
}

/// Asserts that all chunks except those of `lost` slots are at their paths, with the right bytes.
fn assert_others(case: &str, container: &Arc<dyn Container>, built: &Built, lost: &[usize]) {
    for (slot, chunk) in built.entries.iter().enumerate() {
        let name = std::str::from_utf8(&chunk.name).unwrap();
        let path = format!("arrays/frames/{}/{name}.npy", chunk.frame);
        if lost.contains(&slot) {
            assert!(at(container, &path).is_none(), "{case}: {path}")
        } else {
            assert!(bytes(container, &path).ends_with(&chunk.data), "{case}: {path}")
        }
    }
}

#[test]
fn a_header_that_lies_is_refused_with_the_place() {
    for version in [3, 0x1_0000, 0x2_0000] {
        let built = plain(version);
        assert!(open(&built.bytes).is_ok());
        for (field, value) in [
            (8, u64::MAX - 63),
            (8, 0),
            (8, built.bytes.len() as u64),
            (16, 1 << 59),
            (16, u64::MAX),
            (16, 129),
            (24, u64::MAX - 63),
            (24, 255),
            (32, 1 << 58),
            (32, 1 << 40),
        ] {
            let error = open(&built.clone().header(field, value).bytes).unwrap_err();
            let said = error.offset().unwrap();
            assert!(said == 8 || said == 24, "{error}");
            assert!(error.message().contains("the index") || error.message().contains("the list of names"));
        }
    }
    let error = open(&plain(0x3_0000).bytes).unwrap_err();
    assert!(error.message().contains("version 3.0"), "{error}");
}

#[test]
fn an_entry_that_says_nothing_is_hidden_alone() {
    for version in [0x1_0000, 0x2_0001] {
        let built = plain(version);
        for (field, value) in [(TYPE, 0), (TYPE, 12), (FLAGS, 1), (ID, 3), (ID, 0xffff), (FRAME, 1 << 40)] {
            for slot in [0, 10, 11, 23] {
                let case = format!("{field:?} = {value} in {slot}");
                let container = open(&built.clone().set(slot, field, value).bytes).unwrap();
                assert_others(&case, &container, &built, &[slot]);
                let frames = names(&*folder(&container, "arrays/frames"));
                assert_eq!(frames.len(), 8, "{case}");
                let block = container.block(slot).unwrap();
                assert_eq!((block.facts.data_size > 16, block.content.is_err()), (false, true), "{case}");
                let place = built.place(slot) as u64;
                assert_eq!(defects(&container), [(Severity::Damage, Some(slot), place)], "{case}");
            }
        }
    }
}

#[test]
fn data_outside_of_the_file_are_an_error_of_the_chunk_alone() {
    let built = plain(0x2_0000);
    let end = built.bytes.len() as u64;
    let wrong = [
        vec![(LOCATION, -4_i64 as u64)],
        vec![(LOCATION, i64::MIN as u64)],
        vec![(LOCATION, i64::MAX as u64)],
        vec![(LOCATION, 255)],
        vec![(LOCATION, end - 15)],
        vec![(ROWS, u64::MAX)],
        vec![(ROWS, 1 << 32)],
        // The product overflows to 0, and to 8.
        vec![(ROWS, 1 << 62), (COLUMNS, 4)],
        vec![(ROWS, (1 << 61) + 1), (TYPE, 4)],
        vec![(ROWS, u64::MAX), (COLUMNS, u64::from(u32::MAX)), (TYPE, 10)],
    ];
    for fields in wrong {
        let damaged = fields.iter().fold(built.clone(), |built, (field, value)| built.set(7, *field, *value));
        let container = open(&damaged.bytes).unwrap();
        let chunk = file(&container, "arrays/frames/2/b.npy");
        let error = chunk.content.as_ref().unwrap_err();
        assert_eq!((chunk.len(), error.offset()), (0, Some(built.place(7) as u64)), "{fields:?}");
        assert_eq!(container.block(7).unwrap().facts.data_size, 0);
        assert_eq!(frame_names(&container, 2), ["a.npy", "b.npy", "c.npy"]);
        assert_eq!(defects(&container), [(Severity::Damage, Some(7), built.place(7) as u64)], "{fields:?}");
    }
    // Overlaps are not damage, because the file is never written.
    let container = open(&built.clone().set(7, LOCATION, 256).bytes).unwrap();
    assert!(defects(&container).is_empty());
}

#[test]
fn frames_that_do_not_ascend_cost_the_entry_that_is_wrong() {
    for version in [0x1_0000, 0x2_0001] {
        let built = plain(version);
        for (slot, frame) in [(10, 1), (10, 6), (4, 100), (20, 0), (12, 0), (11, 127)] {
            let container = open(&built.clone().set(slot, FRAME, frame).bytes).unwrap();
            assert_others(&format!("frame {frame} in {slot}"), &container, &built, &[slot]);
            let place = built.place(slot) as u64;
            assert_eq!(defects(&container), [(Severity::Damage, Some(slot), place)]);
            // Its data can be read nevertheless.
            assert_eq!(read(&*container.block(slot).unwrap().content.unwrap()).unwrap().len(), 16);
        }
    }
}

#[test]
fn frames_may_be_left_out_but_not_without_bounds() {
    let built = GsdBuilder::new().bytes(0, "a", b"1").bytes(200, "a", b"2").build();
    let container = open(&built.bytes).unwrap();
    assert_eq!(names(&*folder(&container, "arrays/frames")).len(), 201);
    assert!(bytes(&container, "arrays/frames/200/a.npy").ends_with(b"2"));
    assert!(frame_names(&container, 199).is_empty());
    for frame in [2_000_000, u64::MAX] {
        let container = open(&built.clone().set(1, FRAME, frame).bytes).unwrap();
        assert_eq!(names(&*folder(&container, "arrays/frames")).len(), 1);
        assert_eq!(defects(&container).len(), 1);
    }
}

#[test]
fn location_0_ends_the_index() {
    let built = plain(0x2_0001);
    for slot in [0, 5, 12, 23] {
        let container = open(&built.clone().set(slot, LOCATION, 0).bytes).unwrap();
        assert_eq!(container.block_count().unwrap(), slot);
        let lost: Vec<usize> = (slot..24).collect();
        let frames = names(&*folder(&container, "arrays/frames")).len();
        assert_eq!(frames, slot.div_ceil(3));
        let kept = Built { entries: built.entries[..slot].to_vec(), ..built.clone() };
        assert_others("the end", &container, &kept, &[]);
        let told = (lost.len() > 1).then_some((Severity::Damage, None, built.place(slot) as u64));
        assert_eq!(defects(&container), Vec::from_iter(told), "{slot}");
    }
}

#[test]
fn names_may_be_anything() {
    // The list has no end; it covers the index; it is empty.
    let built = plain(0x2_0001);
    let (start, room) = built.names;
    let mut endless = built.clone();
    endless.bytes[start + 6..start + room].fill(b'x');
    let container = open(&endless.bytes).unwrap();
    assert_others("no end", &container, &built, &[]);
    assert_eq!(defects(&container), [(Severity::Note, None, start as u64)]);
    let container = open(&built.clone().header(24, built.index as u64).header(32, 64).bytes).unwrap();
    assert!(container.block_count().is_ok() && !container.tree().is_empty());
    walk(&*folder(&container, "arrays"));
    let mut empty = built.clone();
    empty.bytes[start] = 0;
    let container = open(&empty.bytes).unwrap();
    assert_eq!(defects(&container).len(), 24);
    assert!(walk(&*folder(&container, "arrays/frames")).is_empty());

    // Two name ids with the same name are two chunks of that name.
    let mut twice = built.clone();
    twice.bytes[start + 2] = b'a';
    let container = open(&twice.bytes).unwrap();
    assert_eq!(frame_names(&container, 3), ["a.npy", "a~1.npy", "c.npy"]);

    // No name leads out of its directory.
    let names = [&b".."[..], b"../../etc/passwd", b"/", b"a//b", b"\xff\xfe", b"\n", b"%", b"a~1", b"x.npy"];
    let mut builder = GsdBuilder::new();
    for name in names {
        builder = builder.bytes(0, name, b"1");
    }
    let container = open(&builder.build().bytes).unwrap();
    let found = frame_names(&container, 0);
    assert_eq!(found.len(), names.len(), "{found:?}");
    assert!(found.iter().all(|path| path.split('/').all(|part| !matches!(part, "" | "." | ".."))));

    // No program could open a longer path.
    let long = GsdBuilder::new().bytes(0, vec![b'x'; 5000], b"1").bytes(0, "a", b"2").build();
    let container = open(&long.bytes).unwrap();
    assert_eq!((frame_names(&container, 0).len(), container.block_count().unwrap()), (1, 2));
    assert_eq!(defects(&container)[0].0, Severity::Note);
}

#[test]
fn a_text_is_its_bytes_whatever_they_are() {
    let built = GsdBuilder::new().chunk(0, "note", [6, 1], 11, b"a\0\xff\nb\0").build();
    let container = open(&built.bytes).unwrap();
    assert_eq!(bytes(&container, "arrays/frames/0/note.txt"), b"a\0\xff\nb\0");
}

#[test]
fn an_unfinished_last_frame_of_version_1_is_not_shown() {
    // 42 frames of 3 chunks, and 2 chunks of the next frame: at the 129th chunk the writer wrote a new index.
    let build = |version, frames: u64, chunks: u64, more: u64| {
        let mut builder = GsdBuilder::new().version(version).slots(256);
        for n in 0..frames * chunks + more {
            builder = builder.bytes(n / chunks, format!("c{}", n % chunks), &[n as u8]);
        }
        open(&builder.build().bytes).unwrap()
    };
    let shown = |container: &Arc<dyn Container>| names(&*folder(container, "arrays/frames")).len();
    let killed = build(0x1_0000, 42, 3, 2);
    assert_eq!((shown(&killed), killed.block_count().unwrap()), (42, 128));
    assert!(at(&killed, "arrays/frames/42").is_none());
    let found = killed.defects();
    assert_eq!((found.len(), found[0].severity), (1, Severity::Note));
    assert!(found[0].what.starts_with("frame 42 is not finished: 2 of its chunks"), "{}", found[0].what);
    // A frame with all names of the previous frame is finished, and so is every last frame of other versions.
    assert_eq!(shown(&build(0x1_0000, 32, 4, 0)), 32);
    assert_eq!(shown(&build(0x1_0000, 42, 3, 1)), 43);
    assert_eq!(shown(&build(0x2_0000, 42, 3, 2)), 43);
}

#[test]
fn a_large_index_is_found_by_bisection_around_its_damage() {
    let frames = 30_000;
    let mut builder = GsdBuilder::new();
    for frame in 0..frames {
        for name in ["a", "b", "c"] {
            builder = builder.bytes(frame, name, &[frame as u8]);
        }
    }
    let built = builder.build();
    let damaged = built.clone().set(65536, TYPE, 99).set(45_000, FLAGS, 1).set(89_999, ID, 77);
    let container = open(&damaged.bytes).unwrap();
    let all = folder(&container, "arrays/frames");
    assert_eq!(names(&*all).len() as u64, frames);
    for slot in [0, 44_999, 45_001, 65535, 65537, 89_998] {
        let chunk = &built.entries[slot];
        let path = format!("arrays/frames/{}/{}.npy", chunk.frame, std::str::from_utf8(&chunk.name).unwrap());
        assert!(bytes(&container, &path).ends_with(&chunk.data), "{path}");
    }
    assert_eq!(frame_names(&container, 45_000 / 3), ["b.npy", "c.npy"]);
    assert!(container.block(65536).unwrap().content.is_err());
    assert!(container.check_tree().unwrap().is_empty());
    let container = open(&built.clone().set(80_000, FRAME, 3).bytes).unwrap();
    let found = container.check_tree().unwrap();
    assert_eq!((found.len(), found[0].block, found[0].offset), (1, Some(80_000), built.place(80_000) as u64));
}

#[test]
fn a_frame_of_more_chunks_than_there_are_names_is_an_error_of_its_own() {
    let mut builder = GsdBuilder::new().bytes(0, "a", b"1");
    for _ in 0..(1 << 17) + 1 {
        builder = builder.chunk(1, "a", [0, 1], 1, b"");
    }
    let built = builder.bytes(2, "a", b"2").build();
    let container = open(&built.bytes).unwrap();
    let frames = folder(&container, "arrays/frames");
    let Some(Node::Dir(frame)) = frames.lookup("1".as_ref()).unwrap() else { panic!("1 is a folder") };
    let error = frame.list(0, &mut |_, _| true).unwrap_err();
    assert!(error.message().contains("more than arrays/ shows; all are in blocks/"), "{error}");
    assert!(bytes(&container, "arrays/frames/2/a.npy").ends_with(b"2"));
    assert_eq!(container.block_count().unwrap(), (1 << 17) + 3);
}

#[test]
fn a_file_that_is_cut_short_under_its_reader_gives_errors() {
    let folder_on_disk = fresh_folder();
    let path = folder_on_disk.path().join("cut.gsd");
    let built = plain(0x2_0001);
    for len in [0, 100, 256, 300, built.index as u64, built.bytes.len() as u64 - 1] {
        std::fs::write(&path, &built.bytes).unwrap();
        let source = Arc::new(FileSource::open(&path).unwrap());
        let context = asdf_file::container::Context::new(Arc::new(seekable::cache::Cache::new(1 << 20)));
        let before = asdf_views::format::open(source.clone(), &context).unwrap();
        let after = asdf_views::format::open(source, &context).unwrap();
        let chunk = file(&before, "arrays/frames/7/c.npy").content.unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(len).unwrap();
        // Parts of the index that were read before stay known.
        for container in [&before, &after] {
            (0..container.block_count().unwrap_or(0)).for_each(|n| drop(container.block(n)));
            let _ = (container.defects(), container.check_tree());
        }
        let mut buf = [0; 16];
        let place = chunk.len() - 16;
        let read = chunk.read_at(place, &mut buf);
        assert!(read.is_err() || built.names.0 as u64 <= len, "{len}");
        assert!(!before.tree().is_empty() && !after.tree().is_empty());
    }
}

#[test]
fn what_is_cut_off_is_refused_or_gives_its_good_part() {
    let built = plain(0x2_0001);
    for len in 0..built.bytes.len() {
        // The index comes last, so a truncated index hides all data.
        assert!(open(&built.bytes[..len]).is_err(), "{len}");
    }
    // If the data come last, only the missing data are lost.
    let mut moved = built.bytes[..256].to_vec();
    let index = built.bytes[built.index..].to_vec();
    moved.extend(&index);
    moved.extend(&built.bytes[256..built.index]);
    let shift = index.len() as u64;
    let mut moved = Built { bytes: moved, index: 256, ..built.clone() };
    moved = moved.header(8, 256).header(24, built.names.0 as u64 + shift);
    for slot in 0..24 {
        let location = 256 + shift + slot as u64 * 16;
        moved = moved.set(slot, LOCATION, location);
    }
    assert_others("moved", &open(&moved.bytes).unwrap(), &built, &[]);
    assert!(
        names(&*folder(&open(&moved.bytes).unwrap(), "arrays")).contains(&("frames".into(), EntryKind::Dir))
    );
}

#[test]
fn a_frame_far_beyond_the_index_makes_no_endless_directory() {
    for version in [0x1_0000, 0x2_0000] {
        let with_last = |frame| {
            let builder = GsdBuilder::new().version(version).bytes(0, "a", b"data");
            open(&builder.bytes(frame, "a", b"data").build().bytes).unwrap()
        };
        let frames = |container: &Arc<dyn Container>| names(&*folder(container, "arrays/frames")).len();
        assert_eq!(frames(&with_last(4000)), 4001);
        for frame in [100_000, 1_000_000, u64::MAX] {
            let container = with_last(frame);
            assert_eq!(frames(&container), 1, "{frame}");
            assert!(
                defects(&container)
                    .iter()
                    .any(|(severity, block, _)| (*severity, *block) == (Severity::Damage, Some(1)))
            );
        }
    }
}
