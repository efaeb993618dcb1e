//! Locating chunks: with offsets, without, and with wrong ones; sizes that are known, unknown or wrong.

use std::sync::Arc;

use asdf_access::Kind;
use asdf_file::container::{Context, Severity};
use seekable::cache::Cache;
use seekable::content::Soundness;

use super::{block, open, read, view, whole};
use crate::counted::CountedSource;
use common::bloscpack_builder::{Pack, stored};

fn data() -> Vec<u8> {
    (0..1000_u32).flat_map(|n| (n * 7).to_le_bytes()).collect()
}

/// Asserts that the payload and each block are right.
fn is_right(pack: &Pack, name: &str) {
    let container = open(&pack.build()).unwrap();
    assert_eq!(view(&container, "data.bin").unwrap(), data(), "{name}");
    let container = open(&pack.build()).unwrap();
    assert_eq!(container.block_count().unwrap(), 10, "{name}");
    for n in [9, 0, 5, 4, 7] {
        let content = block(&*container, n).content.unwrap();
        assert_eq!(whole(&*content), data()[n * 400..(n + 1) * 400], "{name} {n}");
    }
}

/// A function that makes correct offsets wrong.
type Change<'a> = &'a dyn Fn(&mut Vec<i64>);

#[test]
fn offsets_may_lie_in_any_way() {
    let right = Pack::new(400, &data());
    let places: Vec<i64> = right.places().into_iter().map(|at| at as i64).collect();
    let with = |change: Change<'_>| {
        let mut offsets = places.clone();
        change(&mut offsets);
        Pack { offsets: Some(offsets), ..right.clone() }
    };
    let wrong: [(&str, Change<'_>); 12] = [
        ("all unknown", &|all| all.fill(-1)),
        ("one unknown", &|all| all[4] = -1),
        ("zero", &|all| all[5] = 0),
        ("huge", &|all| all[5] = 1 << 62),
        ("negative", &|all| all[5] = i64::MIN),
        ("equal", &|all| all[5] = all[4]),
        ("all equal", &|all| *all = vec![all[3]; 10]),
        ("reversed", &|all| all.reverse()),
        ("swapped", &|all| all.swap(4, 5)),
        ("a little off", &|all| all[5] += 1),
        ("one skipped", &|all| {
            all.remove(4);
            all.push(all[8] + 17);
        }),
        ("the last one off", &|all| all[9] -= 1),
    ];
    is_right(&right, "right");
    for (name, change) in wrong {
        let pack = with(change);
        is_right(&pack, name);
        let container = open(&pack.build()).unwrap();
        let defects = container.check_tree().unwrap();
        assert!(!defects.is_empty(), "{name}");
        assert!(defects.iter().all(|defect| defect.severity == Severity::Note), "{name}: {defects:?}");
    }
    is_right(&Pack { options: 0, ..right.clone() }, "none");
    is_right(&Pack { options: 0, version: 2, ..right.clone() }, "version 2, none");
    is_right(&Pack { version: 2, ..right }, "version 2");
}

#[test]
fn sizes_may_be_unknown_or_wrong() {
    let right = Pack::new(400, &data());
    for (chunk_size, last_chunk) in
        [(-1, -1), (400, -1), (-1, 400), (399, 400), (800, 400), (400, 7), (0, 400), (-7, 3)]
    {
        for options in [0, 1] {
            // If the last chunk can't be located at once, its size is trusted.
            if (options, chunk_size, last_chunk) != (0, 400, 7) {
                is_right(
                    &Pack { chunk_size, last_chunk, options, ..right.clone() },
                    &format!("{chunk_size} {last_chunk}"),
                );
            }
        }
    }
    is_right(&Pack { nchunks: -1, options: 0, ..right.clone() }, "number of chunks");
    let container = open(&Pack { chunk_size: 399, ..right.clone() }.build()).unwrap();
    assert!(container.defects()[0].what.contains("chunk_size 399"), "{:?}", container.defects());
    // A chunk in the middle has another size, so only this chunk can't be read.
    let mut odd = right;
    odd.chunks[4] = stored(&[7; 401]);
    let container = open(&odd.build()).unwrap();
    assert!(block(&*container, 4).content.is_err());
    assert_eq!(whole(&*block(&*container, 5).content.unwrap()), data()[2000..2400]);
}

#[test]
fn chunks_of_any_sizes_follow_each_other() {
    let mut pack = Pack::new(400, &data());
    (pack.chunk_size, pack.last_chunk) = (-1, -1);
    let data = data();
    let mut cuts = vec![0, 0, 1, 1, 1, 700, 700, 2500, 3999, 4000, 4000];
    pack.chunks = cuts.windows(2).map(|cut| stored(&data[cut[0]..cut[1]])).collect();
    cuts.dedup();
    for options in [0, 1] {
        let container = open(&Pack { options, ..pack.clone() }.build()).unwrap();
        assert_eq!(view(&container, "data.bin").unwrap(), data);
        let content = super::file(&container, "data.bin").unwrap().content.unwrap();
        for at in [3999, 2500, 2499, 700, 1, 0] {
            let mut byte = [0];
            assert_eq!((content.read_at(at, &mut byte).unwrap(), byte[0]), (1, data[at as usize]), "{at}");
        }
        assert_eq!(block(&*container, 3).content.unwrap().len(), 0);
        assert_eq!(whole(&*block(&*container, 6).content.unwrap()), data[700..2500]);
    }
}

#[test]
fn a_damaged_chunk_costs_no_other() {
    for options in [1, 0] {
        let pack = Pack { options, ..Pack::new(400, &data()) };
        let mut bytes = pack.build();
        let place = pack.places()[4];
        bytes[place + 16 + 100] ^= 1;
        let container = open(&bytes).unwrap();
        let content = super::file(&container, "data.bin").unwrap().content.unwrap();
        let (prefix, error) = read(&*content);
        assert_eq!(prefix, data()[..1600]);
        let error = error.unwrap();
        assert_eq!((error.kind(), error.offset()), (Kind::Damaged, Some(place as u64)));
        assert!(error.message().contains("checksum does not match the stored bytes"), "{error}");
        let mut rest = vec![0; 2000];
        assert_eq!(content.read_at(2000, &mut rest).unwrap(), 2000);
        assert_eq!(rest, data()[2000..]);
        assert_eq!(content.soundness(), Soundness::Broken(1600));
        assert_eq!(block(&*container, 4).content.unwrap().soundness(), Soundness::Broken(0));
        assert_eq!(block(&*container, 5).content.unwrap().soundness(), Soundness::Sound);
        assert_eq!(container.verify(4).unwrap().word(), "mismatch");
        let defects = container.defects();
        assert_eq!((defects.len(), defects[0].block), (1, Some(4)), "{defects:?}");
    }
}

#[test]
fn behind_a_damaged_header_the_offsets_lead_on() {
    let pack = Pack::new(400, &data());
    let mut bytes = pack.build();
    // Damage the size, which also gives the end of the chunk.
    bytes[pack.places()[4] + 12] ^= 0x40;
    let container = open(&bytes).unwrap();
    for n in [5, 3, 9, 0] {
        assert_eq!(whole(&*block(&*container, n).content.unwrap()), data()[n * 400..(n + 1) * 400], "{n}");
    }
    assert!(block(&*container, 4).content.is_err());
    let content = super::file(&container, "data.bin").unwrap().content.unwrap();
    assert_eq!(read(&*content).0, data()[..1600]);
    let mut rest = vec![0; 4000];
    assert_eq!(content.read_at(2000, &mut rest).unwrap(), 2000);
    // Without offsets the chunks after it are lost, and the error says so.
    let pack = Pack { options: 0, ..pack };
    let mut bytes = pack.build();
    bytes[pack.places()[4] + 12] ^= 0x40;
    let container = open(&bytes).unwrap();
    assert_eq!(whole(&*block(&*container, 3).content.unwrap()), data()[1200..1600]);
    let error = block(&*container, 8).content.unwrap_err();
    assert!(error.message().contains("the chain of chunks breaks at chunk 4"), "{error}");
}

#[test]
fn a_file_that_is_cut_off_gives_what_is_there() {
    for options in [1, 0] {
        let pack = Pack { options, ..Pack::new(400, &data()) };
        let bytes = pack.build();
        let container = open(&bytes[..pack.places()[6] + 50]).unwrap();
        assert_eq!(whole(&*block(&*container, 5).content.unwrap()), data()[2000..2400]);
        let error = block(&*container, 6).content.unwrap_err();
        assert!(error.message().contains("past the end of the file"), "{error}");
        assert_eq!(error.offset(), Some(pack.places()[6] as u64));
        let error = block(&*container, 9).content.unwrap_err();
        let told = if options == 1 { "the file ends before it" } else { "breaks at chunk 6" };
        assert!(error.message().contains(told), "{error}");
        let content = super::file(&container, "data.bin").unwrap().content.unwrap();
        assert_eq!((content.len(), read(&*content).0), (4000, data()[..2400].to_vec()));
    }
}

#[test]
fn bytes_behind_the_last_chunk_are_noted() {
    let pack = Pack { behind: vec![9; 33], ..Pack::new(400, &data()) };
    is_right(&pack, "behind");
    let defects = open(&pack.build()).unwrap().check_tree().unwrap();
    assert!(defects[0].what.contains("33 bytes follow the last chunk"), "{defects:?}");
}

#[test]
fn items_of_variable_length_are_where_their_offsets_say() {
    let items: [&[u8]; 5] = [b"one", b"", b"three", &[7; 3000], b"last"];
    let meta = b"{'dtype': 'varchar', 'shape': [5], 'others': []}";
    for checksum in 0..9 {
        let pack = Pack { checksum, ..Pack::variable(&items, meta) };
        let container = open(&pack.build()).unwrap();
        for (n, item) in items.iter().enumerate() {
            assert_eq!(whole(&*block(&*container, n).content.unwrap()), *item);
        }
        assert_eq!(view(&container, "data.bin").unwrap(), items.concat());
        assert_eq!(view(&container, "meta.json").unwrap(), meta);
        assert_eq!(container.version(), "3 (variable-length proposal)");
    }
    // Items in any order, with junk between them.
    let mut pack = Pack::variable(&items, meta);
    let mut places: Vec<i64> = pack.places().into_iter().map(|at| at as i64).collect();
    places.reverse();
    pack.offsets = Some(places);
    let container = open(&pack.build()).unwrap();
    assert_eq!(whole(&*block(&*container, 0).content.unwrap()), b"last");
    assert_eq!(whole(&*block(&*container, 2).content.unwrap()), b"three");
}

#[test]
fn an_item_that_is_not_finished_is_listed_and_can_not_be_read() {
    let mut pack = Pack::variable(&[b"one", b"two", b"three"], b"{}");
    let places = pack.places();
    pack.offsets = Some(vec![places[0] as i64, -1, places[2] as i64]);
    let container = open(&pack.build()).unwrap();
    assert_eq!(container.block_count().unwrap(), 3);
    let unfinished = block(&*container, 1);
    assert_eq!(unfinished.facts.data_size, 0);
    let error = unfinished.content.unwrap_err();
    assert!(error.message().contains("not finished"), "{error}");
    assert_eq!(error.errno(), libc::EIO);
    assert_eq!(whole(&*block(&*container, 2).content.unwrap()), b"three");
    // `data.bin` has only the items before it.
    let content = super::file(&container, "data.bin").unwrap().content.unwrap();
    let (bytes, error) = read(&*content);
    assert_eq!((&bytes[..], error.is_some()), (&b"one"[..], true));
}

#[test]
fn a_checksum_is_computed_once() {
    const LEN: u64 = 8 << 20;
    let pack = Pack { checksum: 6, ..Pack::new(LEN as usize, &vec![7; LEN as usize]) };
    let source = CountedSource::new(pack.build());
    // The cache has no memory, so decoded data are not kept.
    let context = Context::new(Arc::new(Cache::with_threads(0, 1)));
    let container = asdf_views::format::open(source.clone(), &context).unwrap();
    let content = block(&*container, 0).content.unwrap();
    for at in (0..LEN).step_by(1 << 20) {
        assert_eq!(content.read_at(at, &mut [0; 9]).unwrap(), 9);
    }
    assert_eq!(container.verify(0).unwrap().word(), "stored");
    let read = source.counts().1 as u64;
    assert!((2 * LEN..2 * LEN + 10_000).contains(&read), "{read}");
}
