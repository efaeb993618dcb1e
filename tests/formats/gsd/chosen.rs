//! Choice among several chunks: the last of equal names, or frame 0's if a frame lacks one.

use std::sync::Arc;

use asdf_views::format;

use asdf_file::container::Context;
use seekable::cache::Cache;

use super::walked::{at, bytes, folder, names, open};
use crate::counted::CountedSource;
use common::gsd_builder::{Built, GsdBuilder, LOCATION};

/// Adds a chunk of one number.
fn number(builder: GsdBuilder, frame: u64, name: &str, value: u8) -> GsdBuilder {
    builder.bytes(frame, name, &[value])
}

fn hoomd(version: u32) -> GsdBuilder {
    GsdBuilder::new().version(version).schema("hoomd", 0x1_0004)
}

/// Swaps the data offsets of two chunks.
fn exchanged(built: &Built, one: usize, other: usize) -> Built {
    let location = |slot| {
        let at = built.place(slot) + LOCATION.0;
        u64::from_le_bytes(built.bytes[at..at + 8].try_into().unwrap())
    };
    built.clone().set(one, LOCATION, location(other)).set(other, LOCATION, location(one))
}

fn last_byte(container: &Arc<dyn asdf_file::container::Container>, path: &str) -> u8 {
    *bytes(container, path).last().unwrap()
}

#[test]
fn of_equal_names_the_chunk_that_was_written_last_counts() {
    for version in [0x1_0000, 0x2_0001] {
        for others in [0, 100] {
            let mut builder = hoomd(version);
            for frame in 0..3 {
                builder = number(builder, frame, "log/a", 1 + 3 * frame as u8);
                builder = number(builder, frame, "log/a", 2 + 3 * frame as u8);
                builder = number(builder, frame, "log/a", 3 + 3 * frame as u8);
                builder = number(builder, frame, "configuration/dimensions", 2);
                builder = number(builder, frame, "configuration/dimensions", 3);
                for n in 0..others {
                    builder = number(builder, frame, &format!("z/{n}"), 0);
                }
            }
            let built = builder.build();
            let is_old = version < 0x2_0000;
            // The last chunk written is the one with the last data offset in version 2, and the last in the
            // index in version 1.
            for (one, values) in [(false, [3, 6, 9]), (true, if is_old { [1, 4, 7] } else { [3, 6, 9] })] {
                let mut built = built.clone();
                let per_frame = 5 + others;
                for frame in (0..3).filter(|_| one) {
                    built = exchanged(&built, frame * per_frame, frame * per_frame + 2);
                }
                let container = open(&built.bytes).unwrap();
                for (frame, value) in values.into_iter().enumerate() {
                    let what = format!("version {version:x}, {others} others, {one}, frame {frame}");
                    let path = format!("arrays/frames/{frame}/log/a.npy");
                    assert_eq!(last_byte(&container, &path), value, "{what}");
                    let path = format!("arrays/resolved/{frame}/log/a.npy");
                    assert_eq!(last_byte(&container, &path), value, "{what}");
                    let path = format!("arrays/resolved/{frame}/configuration/dimensions.npy");
                    assert_eq!(last_byte(&container, &path), 3, "{what}");
                }
                assert!(bytes(&container, "arrays/series/log/a.npy").ends_with(&values), "{version:x} {one}");
            }
        }
    }
}

#[test]
fn only_the_last_of_equal_names_has_to_fit_in_a_series() {
    for version in [0x1_0000, 0x2_0001] {
        let mut builder = GsdBuilder::new().version(version);
        for frame in 0..4_u8 {
            builder = builder.bytes(frame.into(), "a", &[9; 7]).bytes(frame.into(), "a", &[frame, frame]);
        }
        let container = open(&builder.build().bytes).unwrap();
        assert!(bytes(&container, "arrays/series/a.npy").ends_with(&[0, 0, 1, 1, 2, 2, 3, 3]), "{version:x}");
    }
}

#[test]
fn a_frame_that_lacks_a_log_has_that_of_frame_0_but_no_state() {
    let names = ["log/a", "state/b"];
    let mut builder = hoomd(0x1_0000);
    for name in names {
        builder = number(builder, 0, name, 5);
    }
    let container = open(&number(builder, 1, "log/c", 6).build().bytes).unwrap();
    for name in names {
        assert_eq!(last_byte(&container, &format!("arrays/resolved/0/{name}.npy")), 5);
    }
    assert_eq!(last_byte(&container, "arrays/resolved/1/log/a.npy"), 5);
    assert!(at(&container, "arrays/resolved/1/state").is_none());
}

/// The entries and the data do not include the names.
#[test]
fn a_file_with_other_names_is_another_one() {
    let built = |name: &str| number(number(GsdBuilder::new(), 0, name, 1), 1, "c", 2).build().bytes;
    let (older, same, other) =
        (open(&built("a")).unwrap(), open(&built("a")).unwrap(), open(&built("b")).unwrap());
    assert!(older.still_has(same.source()) && !older.still_has(other.source()));
    // An added name does not make it another file.
    let grown = number(number(number(GsdBuilder::new(), 0, "a", 1), 1, "c", 2), 2, "d", 3).build().bytes;
    assert!(older.still_has(open(&grown).unwrap().source()));
}

/// The kernel requests a few names at a time.
#[test]
fn the_index_of_a_large_frame_is_read_once() {
    const CHUNKS: usize = 33_000;
    let mut builder = GsdBuilder::new();
    for n in 0..CHUNKS {
        builder = builder.bytes(0, ["a", "b", "c"][n % 3], b"");
    }
    let source = CountedSource::new(builder.build().bytes);
    let context = Context::new(Arc::new(Cache::new(1 << 20)));
    let container = format::open(source.clone(), &context).unwrap();
    let frame = folder(&container, "arrays/frames/0");
    assert_eq!(names(&*frame).len(), CHUNKS);
    let before = source.counts();
    assert_eq!(names(&*frame).len(), CHUNKS);
    assert!(frame.lookup("a~77.npy".as_ref()).unwrap().is_some());
    assert_eq!(source.counts(), before);
}
