//! Stored seek tables: valid, stale, damaged and forged ones.

use super::*;
use crate::codec::samples::{self, damaged, first_mount, lying, next_mount, read_first, slot};
use crate::codec::seek::stored_table::{TableKind, TableSlot};

/// Scales with several CRCs per span, and with several spans per CRC.
const SCALES: [Scale; 2] = [SMALL, Scale { spacing: 700_000, segment: 300_000, least_bits: 8 << 13 }];

/// Opens a content whose table is kept in the store under "a name".
fn opened(stored: &[u8], len: usize, scale: Scale, cache: &Arc<Cache>) -> (Decoded, Arc<Counted>) {
    let counted = Counted::new(stored);
    let stream = StoredStream { stored: counted.clone(), ..samples::stream(stored, len) };
    let slot = TableSlot::new(cache.store(), TableKind::Zlib, &stream);
    let stream = open_with(stream.stored, scale, cache, slot);
    (Decoded::stream(stream, len as u64, cache), counted)
}

#[test]
fn the_next_mount_reads_anywhere_without_a_pass() {
    let mut dice = Dice(21);
    for (n, (truth, stored)) in streams().into_iter().enumerate() {
        for (scale, threads) in [(SCALES[0], 1), (SCALES[1], 4), (SCALES[1], 1)] {
            let cache = first_mount(threads);
            let (first, _) = opened(&stored, truth.len(), scale, &cache);
            assert!(first.costs_a_pass());
            check(&first, &truth, truth.len() - 10, 10);
            assert_eq!(first.soundness(), Soundness::Sound);
            for order in ["far", "on", "back", "random"] {
                let cache = next_mount(&cache, 8 << 20, threads);
                let (content, counted) = opened(&stored, truth.len(), scale, &cache);
                assert!(!content.costs_a_pass(), "stream {n}");
                read_in(order, &content, &truth, &mut dice);
                match order {
                    "far" => {
                        let read = counted.read();
                        assert!(read < 2_000_000 && (threads > 1 || read < 900_000), "{read} bytes read");
                        // The rest has not been read.
                        assert_eq!(content.soundness(), Soundness::Unknown);
                    }
                    "on" => assert_eq!(content.soundness(), Soundness::Sound),
                    _ => {}
                }
                assert!(content.damage().is_none());
                assert!(!content.costs_a_pass(), "stream {n}, {order}: the table was thrown away");
            }
        }
    }
}

#[test]
fn nothing_is_kept_of_what_is_bad_short_or_not_read_to_its_end() {
    let truth = truth(3_000_000, 22);
    let stored = encode(&truth, 6, usize::MAX);
    let is_kept = |stored: &[u8], len: usize, upto: usize| {
        let cache = first_mount(2);
        let (content, _) = opened(stored, len, SMALL, &cache);
        read_first(&content, upto);
        slot(TableKind::Zlib, stored, len, &cache).bytes().is_some()
    };
    assert!(is_kept(&stored, truth.len(), truth.len()));
    assert!(!is_kept(&stored, truth.len(), truth.len() - 300_000));
    assert!(!is_kept(&stored, truth.len() - 1, truth.len() - 1), "more follows");
    assert!(!is_kept(&stored, truth.len() + 1, truth.len() + 1), "it ends early");
    assert!(!is_kept(&stored[..stored.len() - 1], truth.len(), truth.len()), "its checksum is cut off");
    let mut wrong = stored.clone();
    *wrong.last_mut().unwrap() ^= 1;
    assert!(!is_kept(&wrong, truth.len(), truth.len()), "its checksum is wrong");
    let small = &truth[..30_000];
    assert!(!is_kept(&encode(small, 6, usize::MAX), small.len(), small.len()), "there is nothing to gain");
}

#[test]
fn a_table_that_is_damaged_anywhere_costs_a_pass_and_no_byte() {
    let truth = truth(600_000, 23);
    let stored = encode(&truth, 6, usize::MAX);
    let cache = first_mount(1);
    check(&opened(&stored, truth.len(), SCALES[0], &cache).0, &truth, truth.len() - 1, 1);
    let good = slot(TableKind::Zlib, &stored, truth.len(), &cache).bytes().unwrap();
    let mut dice = Dice(24);
    // All bytes of the header and of the entries, and some of the records.
    let places: Vec<_> = (0..1400).chain((0..700).map(|_| dice.roll(good.len()))).collect();
    for (n, at) in places.into_iter().enumerate() {
        let bad = damaged(&good, at, n);
        let cache = first_mount(1);
        slot(TableKind::Zlib, &stored, truth.len(), &cache).put(&bad);
        let (content, _) = opened(&stored, truth.len(), SCALES[0], &cache);
        check(&content, &truth, dice.roll(truth.len()), 300);
        if n % 50 == 0 {
            check(&content, &truth, 0, truth.len());
        }
        assert!(content.damage().is_none(), "byte {at}");
    }
}

#[test]
fn a_table_that_lies_is_found_out() {
    let truth = truth(1_500_000, 25);
    let stored = encode(&truth, 6, usize::MAX);
    let cache = first_mount(1);
    check(&opened(&stored, truth.len(), SCALES[0], &cache).0, &truth, truth.len() - 1, 1);
    let good = slot(TableKind::Zlib, &stored, truth.len(), &cache).bytes().unwrap();
    let mut dice = Dice(26);
    for round in 0..500 {
        let bad = lying(&good, &mut dice);
        let cache = first_mount(1 + round % 2);
        slot(TableKind::Zlib, &stored, truth.len(), &cache).forge(&bad);
        let (content, _) = opened(&stored, truth.len(), SCALES[0], &cache);
        for _ in 0..3 {
            check(&content, &truth, dice.roll(truth.len()), 30_000);
        }
        assert!(content.damage().is_none(), "round {round}");
    }
}

#[test]
fn of_a_stream_that_changed_all_is_had_that_its_table_vouches_for() {
    let truth = truth(1_000_000, 27);
    let stored = encode(&truth, 6, usize::MAX);
    let cache = first_mount(2);
    check(&opened(&stored, truth.len(), SMALL, &cache).0, &truth, truth.len() - 1, 1);
    let good = slot(TableKind::Zlib, &stored, truth.len(), &cache).bytes().unwrap();
    let mut dice = Dice(28);
    for round in 0..150 {
        let mut broken = stored.clone();
        // The ends of the stream are part of its key in the store, so they stay.
        let at = 4096 + dice.roll(stored.len() - 3 * 4096);
        match round % 2 {
            0 => broken[at] ^= 1 << dice.roll(8),
            _ => broken[at..at + 4000].fill(dice.roll(256) as u8),
        }
        let with = first_mount(1 + round % 3);
        slot(TableKind::Zlib, &broken, truth.len(), &with).put(&good);
        let (content, _) = opened(&broken, truth.len(), SMALL, &with);
        assert!(!content.costs_a_pass());
        if dice.roll(2) == 0 {
            let position = dice.roll(truth.len());
            let mut buf = vec![0; 999];
            if let Ok(read) = content.read_at(position as u64, &mut buf) {
                assert!(buf[..read] == truth[position..position + read], "round {round}");
            }
        }
        let without = prefix(&opened(&broken, truth.len(), SMALL, &first_mount(1)).0).0;
        let right = without.iter().zip(&truth).take_while(|(one, other)| one == other).count();
        let (bytes, error, soundness) = prefix(&content);
        assert!(truth.starts_with(&bytes), "round {round}: a wrong byte was given");
        if right < truth.len() {
            assert!(error.is_some() && matches!(soundness, Soundness::Broken(_)), "round {round}");
            assert!(
                slot(TableKind::Zlib, &broken, truth.len(), &with).bytes().is_none(),
                "round {round}: the table is still kept"
            );
            // All bytes before the damage are read, except for the output between the two CRCs around the
            // damage.
            assert!(bytes.len() + 41_000 >= right, "round {round}: {} of {right}", bytes.len());
        }
    }
}

#[test]
fn a_table_is_found_by_stream_name_and_size_alone() {
    let truth = truth(600_000, 29);
    let stored = encode(&truth, 6, usize::MAX);
    let cache = first_mount(1);
    check(&opened(&stored, truth.len(), SMALL, &cache).0, &truth, truth.len() - 1, 1);
    let is_kept = |stored: &[u8], name: &[u8], kind: TableKind, len: usize| {
        cache.store().wait_for_writes();
        let stream = samples::stream(stored, len).named(name.into());
        TableSlot::new(cache.store(), kind, &stream).unwrap().bytes().is_some()
    };
    assert!(is_kept(&stored, b"a name", TableKind::Zlib, truth.len()));
    assert!(!is_kept(&stored, b"another", TableKind::Zlib, truth.len()));
    assert!(!is_kept(&stored, b"a name", TableKind::Bzip2, truth.len()));
    assert!(!is_kept(&stored, b"a name", TableKind::Zlib, truth.len() + 1));
    for at in [0, 4095, stored.len() - 4096, stored.len() - 1] {
        let mut other = stored.clone();
        other[at] ^= 1;
        assert!(!is_kept(&other, b"a name", TableKind::Zlib, truth.len()), "{at}");
    }
    let nowhere = Arc::new(Cache::new(0));
    let named = samples::stream(&stored, 1);
    assert!(TableSlot::new(nowhere.store(), TableKind::Zlib, &named).is_none());
    let unnamed = StoredStream { name: None, ..named };
    assert!(TableSlot::new(cache.store(), TableKind::Zlib, &unnamed).is_none());
}

#[test]
fn a_stream_that_became_endless_is_judged_by_as_much_as_it_should_hold() {
    let truth = truth(3_000_000, 42);
    let stored = encode(&truth, 0, usize::MAX);
    let cache = first_mount(1);
    check(&opened(&stored, truth.len(), SMALL, &cache).0, &truth, truth.len() - 1, 1);
    let good = slot(TableKind::Zlib, &stored, truth.len(), &cache).bytes().unwrap();
    // Endless zeros replace the second stored block; both ends of the stream stay unchanged.
    let first = 2 + 5 + usize::from(u16::from_le_bytes([stored[3], stored[4]]));
    assert!(first > 4096);
    let mut zeros = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::new(1));
    for _ in 0..900 {
        zeros.write_all(&[0; 1 << 20]).unwrap();
    }
    let mut endless = stored.clone();
    let zeros = zeros.finish().unwrap();
    let len = zeros.len().min(stored.len() - first - 4096);
    endless[first..first + len].copy_from_slice(&zeros[..len]);
    let with = first_mount(1);
    slot(TableKind::Zlib, &endless, truth.len(), &with).put(&good);
    let (content, counted) = opened(&endless, truth.len(), SMALL, &with);
    let (bytes, error, _) = prefix(&content);
    assert!(truth.starts_with(&bytes) && bytes.len() < first + 5);
    assert!(error.unwrap().contains("its decoded size differs"));
    let read = counted.read();
    assert!(read < 1_500_000 && len > 2_000_000, "{read} bytes read, {len} endless");
}

#[test]
fn many_readers_at_once_go_by_one_table() {
    let truth = truth(4_000_000, 43);
    let stored = encode(&truth, 6, usize::MAX);
    let cache = first_mount(2);
    check(&opened(&stored, truth.len(), SMALL, &cache).0, &truth, truth.len() - 1, 1);
    let open = |cache: &Arc<Cache>| opened(&stored, truth.len(), SMALL, cache).0;
    samples::many_read((TableKind::Zlib, &stored, &truth), &cache, open);
}

#[test]
fn a_way_leaves_its_buffer_to_the_next_one() {
    let (truth, stored) = streams().swap_remove(2);
    let cache = first_mount(1);
    check(&opened(&stored, truth.len(), SCALES[0], &cache).0, &truth, truth.len() - 10, 10);
    let cache = next_mount(&cache, 8 << 20, 1);
    let stream = samples::stream(&stored, truth.len());
    let slot = TableSlot::new(cache.store(), TableKind::Zlib, &stream);
    let stream = open_with(stream.stored, SCALES[0], &cache, slot);
    for at in [1_000_000, 3_000_000, 500] {
        let mut bytes = [0; 100];
        let mut way = stream.start_at(at as u64).unwrap();
        let read = way.read(&mut bytes).unwrap();
        assert!(read > 0 && bytes[..read] == truth[at..at + read]);
        drop(way);
        // New buffers hold zeros.
        let mut buffers = (10..20).map(|bits| cache.buffer(1 << bits));
        let used = buffers.find(|buffer| buffer.iter().any(|&byte| byte != 0));
        cache.used(Arc::new(used.expect("a buffer that was used")));
    }
}
