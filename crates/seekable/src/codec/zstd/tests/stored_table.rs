//! Seek tables that are stored, damaged, forged, or older than their streams.

use super::*;
use crate::cache::store::Store;
use crate::codec::samples::{self, damaged, first_mount, lying, next_mount, read_first, slot};

/// Returns the table that is stored by a mount that reads the whole stream.
fn made(truth: &[u8], stored: &[u8]) -> Vec<u8> {
    let cache = first_mount(1);
    check(&opened(stored, truth.len(), &cache).0, truth, truth.len() - 1, 1);
    slot(TableKind::Zstd, stored, truth.len(), &cache).bytes().unwrap()
}

#[test]
fn the_next_mount_reads_anywhere_without_a_pass() {
    let mut dice = Dice(21);
    for (n, (truth, stored)) in streams().into_iter().enumerate() {
        for threads in [1, 4] {
            let cache = first_mount(threads);
            let (first, _) = opened(&stored, truth.len(), &cache);
            assert!(first.costs_a_pass());
            check(&first, &truth, truth.len() - 10, 10);
            assert_eq!(first.soundness(), Soundness::Sound);
            for order in ["far", "on", "back", "random"] {
                let cache = next_mount(&cache, 8 << 20, threads);
                let (content, counted) = opened(&stored, truth.len(), &cache);
                assert!(!content.costs_a_pass(), "stream {n}");
                read_in(order, &content, &truth, &mut dice);
                match order {
                    "far" => {
                        let read = counted.read();
                        assert!(read < 900_000, "stream {n}: {read} bytes read");
                        assert_eq!(content.soundness(), Soundness::Unknown);
                    }
                    "on" => assert_eq!(content.soundness(), Soundness::Sound),
                    _ => {}
                }
                assert!(content.damage().is_none(), "stream {n}, {order}");
                assert!(!content.costs_a_pass(), "stream {n}, {order}: the table was thrown away");
            }
        }
    }
}

#[test]
fn nothing_is_kept_of_what_is_bad_short_or_not_read_to_its_end() {
    let truth = truth(1_500_000, 22);
    let stored = encode(&truth, 3, 14, true, usize::MAX);
    let is_kept = |stored: &[u8], len: usize, upto: usize| {
        let cache = first_mount(2);
        let (content, _) = opened(stored, len, &cache);
        read_first(&content, upto);
        slot(TableKind::Zstd, stored, len, &cache).bytes().is_some()
    };
    assert!(is_kept(&stored, truth.len(), truth.len()));
    assert!(!is_kept(&stored, truth.len(), truth.len() - 400_000));
    assert!(!is_kept(&stored, truth.len() - 1, truth.len() - 1), "more follows");
    assert!(!is_kept(&stored, truth.len() + 1, truth.len() + 1), "it ends early");
    assert!(!is_kept(&stored[..stored.len() - 1], truth.len(), truth.len()), "its checksum is cut off");
    let mut wrong = stored.clone();
    *wrong.last_mut().unwrap() ^= 1;
    assert!(!is_kept(&wrong, truth.len(), truth.len()), "its checksum is wrong");
    // Frames that claim to be longer, or shorter.
    let sized = encode_sized(&truth, 3, 14);
    assert!(is_kept(&sized, truth.len(), truth.len()));
    for by in [1, 0xff] {
        let mut lies = sized.clone();
        lies[6] = lies[6].wrapping_add(by);
        assert!(!is_kept(&lies, truth.len(), truth.len()), "its length is wrong");
    }
    let small = &truth[..60_000];
    assert!(!is_kept(&encode(small, 3, 14, true, usize::MAX), small.len(), small.len()), "nothing to gain");
    // A window of a third of the data.
    let wide = &truth[..390_000];
    assert!(!is_kept(&encode(wide, 3, 17, true, usize::MAX), wide.len(), wide.len()));
}

#[test]
fn reads_here_and_there_leave_the_same_table() {
    let truth = truth(2_500_000, 30);
    let stored = encode_sized(&truth, 3, 14);
    let good = made(&truth, &stored);
    let mut dice = Dice(31);
    for round in 0..20 {
        // Without a cache, and with more readers than decoders are allowed.
        let cache = Arc::new(
            Cache::with_threads([0, 1 << 20][round % 2], 1 + round % 3).with_store(Store::in_memory()),
        );
        let (content, _) = opened(&stored, truth.len(), &cache);
        std::thread::scope(|scope| {
            for reader in 0..round % 4 {
                let content = &content;
                let truth = &truth;
                let mut dice = Dice(dice.roll(1 << 30) as u64 | 1);
                scope.spawn(move || {
                    for _ in 0..5 + reader {
                        check(content, truth, dice.roll(truth.len()), 400);
                    }
                });
            }
        });
        check(&content, &truth, truth.len() - 1, 1);
        assert_eq!(
            slot(TableKind::Zstd, &stored, truth.len(), &cache).bytes(),
            Some(good.clone()),
            "round {round}"
        );
    }
}

#[test]
fn a_table_that_is_damaged_anywhere_costs_a_pass_and_no_byte() {
    let truth = truth(800_000, 23);
    let stored = encode(&truth, 3, 14, true, usize::MAX);
    let good = made(&truth, &stored);
    let mut dice = Dice(24);
    // All bytes of the header and of the entries, and some of the records.
    let places: Vec<_> = (0..400).chain((0..800).map(|_| dice.roll(good.len()))).collect();
    for (n, at) in places.into_iter().enumerate() {
        let bad = damaged(&good, at, n);
        let cache = first_mount(1);
        slot(TableKind::Zstd, &stored, truth.len(), &cache).put(&bad);
        let (content, _) = opened(&stored, truth.len(), &cache);
        check(&content, &truth, dice.roll(truth.len()), 300);
        if n % 20 == 0 {
            check(&content, &truth, 0, truth.len());
        }
        assert!(content.damage().is_none(), "byte {at}");
    }
}

#[test]
fn a_table_that_lies_is_found_out() {
    let truth = truth(800_000, 25);
    let stored = encode(&truth, 3, 14, true, usize::MAX);
    let good = made(&truth, &stored);
    let count = u64::from_le_bytes(good[72..80].try_into().unwrap()) as usize;
    assert!(count > 3);
    let mut dice = Dice(26);
    for round in 0..600 {
        let bad = lying(&good, &mut dice);
        let cache = first_mount(1 + round % 2);
        slot(TableKind::Zstd, &stored, truth.len(), &cache).forge(&bad);
        let (content, _) = opened(&stored, truth.len(), &cache);
        for _ in 0..3 {
            check(&content, &truth, dice.roll(truth.len()), 30_000);
        }
        assert!(content.damage().is_none(), "round {round}");
    }
}

#[test]
fn a_dictionary_that_lies_is_found_out() {
    // A forged table with right CRCs that holds other offsets, as if the sequences had been followed wrongly.
    let truth = truth(2_000_000, 32);
    let stored = encode(&truth, 3, 14, true, usize::MAX);
    let good = made(&truth, &stored);
    let count = u64::from_le_bytes(good[72..80].try_into().unwrap()) as usize;
    let mut dice = Dice(33);
    let mut lies = 0;
    for round in 0..200 {
        let place = 88 + 32 * (1 + dice.roll(count - 1));
        let record = u64::from_le_bytes(good[place + 24..place + 32].try_into().unwrap());
        let at = (record >> 24) as usize;
        let len = (record & 0xff_ffff) as usize;
        let crcs = u32::from_le_bytes(good[at + 4..at + 8].try_into().unwrap()) as usize;
        let start = at + 8 + 4 * crcs;
        let mut dictionary = ::zstd::bulk::decompress(&good[start + 4..at + len], 1 << 20).unwrap();
        let near = if round % 2 == 0 { dictionary.len() } else { 300 };
        dictionary[dice.roll(near)] ^= 1 << dice.roll(8);
        let packed = ::zstd::bulk::compress(&dictionary, 1).unwrap();
        // The forged record is written over the good one, if there is room; a longer one is appended.
        let mut bad = good.clone();
        let moved = bad.len() as u64;
        let record = [&good[at..start], &crc32fast::hash(&packed).to_le_bytes(), &packed].concat();
        bad[place + 24..place + 32].copy_from_slice(&(moved << 24 | record.len() as u64).to_le_bytes());
        bad.extend_from_slice(&record);
        let cache = first_mount(1);
        slot(TableKind::Zstd, &stored, truth.len(), &cache).forge(&bad);
        let forged = slot(TableKind::Zstd, &stored, truth.len(), &cache).bytes();
        let (content, _) = opened(&stored, truth.len(), &cache);
        // The first granule whose decoding begins at that checkpoint.
        let offset = u64::from_le_bytes(good[place + 16..place + 24].try_into().unwrap());
        check(&content, &truth, offset.next_multiple_of(GRANULE) as usize, 300_000);
        assert!(content.damage().is_none(), "round {round}");
        lies += usize::from(slot(TableKind::Zstd, &stored, truth.len(), &cache).bytes() != forged);
    }
    assert!(lies > 8, "{lies}");
}

#[test]
fn of_a_stream_that_changed_all_is_had_that_its_table_vouches_for() {
    let truth = truth(1_000_000, 27);
    // Without a checksum in the frame, only the table tells that the stream has changed.
    let streams = [true, false].map(|checked| {
        let stored = encode(&truth, 3, 14, checked, usize::MAX);
        let good = made(&truth, &stored);
        (stored, good)
    });
    let mut dice = Dice(28);
    let mut told = 0;
    for round in 0..300 {
        let (stored, good) = &streams[round % 4 / 2];
        let mut broken = stored.clone();
        // The ends of the stream are part of its name in the store, so they stay.
        let at = 4096 + dice.roll(stored.len() - 3 * 4096);
        match round % 2 {
            0 => broken[at] ^= 1 << dice.roll(8),
            _ => broken[at..at + 4000].fill(dice.roll(256) as u8),
        }
        let with = first_mount(1 + round % 3);
        slot(TableKind::Zstd, &broken, truth.len(), &with).put(good);
        let (content, _) = opened(&broken, truth.len(), &with);
        assert!(!content.costs_a_pass());
        if dice.roll(2) == 0 {
            let place = dice.roll(truth.len());
            let mut buf = vec![0; 999];
            if let Ok(read) = content.read_at(place as u64, &mut buf) {
                assert!(buf[..read] == truth[place..place + read], "round {round}");
            }
        }
        let (bytes, error, soundness) = prefix(&content);
        assert!(truth.starts_with(&bytes), "round {round}: a wrong byte was given");
        let without = Decoded::stream(
            library::library(Arc::new(Text::new(&broken[..]))),
            truth.len() as u64,
            &first_mount(1),
        );
        let (theirs, their_error, _) = prefix(&without);
        told += usize::from(their_error.is_none() && theirs != truth);
        if their_error.is_some() || theirs != truth {
            assert!(error.is_some() && matches!(soundness, Soundness::Broken(_)), "round {round}");
            assert!(
                slot(TableKind::Zstd, &broken, truth.len(), &with).bytes().is_none(),
                "round {round}: it is still kept"
            );
            // All bytes before the damage are read, except for the piece with the damage.
            let right = theirs.iter().zip(&truth).take_while(|(one, other)| one == other).count();
            assert!(bytes.len() + 400_000 >= right, "round {round}: {} of {right}", bytes.len());
        }
    }
    assert!(told > 20, "{told}");
}

#[test]
fn a_table_that_is_damaged_says_nothing_of_a_stream_without_checksum() {
    let truth = truth(800_000, 50);
    let stored = encode(&truth, 3, 14, false, usize::MAX);
    let good = made(&truth, &stored);
    let records = 88 + 32 * u64::from_le_bytes(good[72..80].try_into().unwrap()) as usize;
    let mut dice = Dice(51);
    for round in 0..200 {
        let mut bad = good.clone();
        bad[records + dice.roll(good.len() - records)] ^= 1 << dice.roll(8);
        let cache = first_mount(1);
        slot(TableKind::Zstd, &stored, truth.len(), &cache).put(&bad);
        let (content, _) = opened(&stored, truth.len(), &cache);
        for _ in 0..4 {
            check(&content, &truth, dice.roll(truth.len()), 100_000);
        }
        check(&content, &truth, 0, truth.len());
        assert!(content.damage().is_none(), "round {round}");
    }
}

#[test]
fn many_readers_at_once_go_by_one_table() {
    let truth = truth(3_000_000, 43);
    let stored = encode_sized(&truth, 3, 14);
    let cache = first_mount(2);
    check(&opened(&stored, truth.len(), &cache).0, &truth, truth.len() - 1, 1);
    let open = |cache: &Arc<Cache>| opened(&stored, truth.len(), cache).0;
    samples::many_read((TableKind::Zstd, &stored, &truth), &cache, open);
}

#[test]
fn places_lie_where_they_are_due_whatever_the_blocks_are() {
    // With this many sequences, the decoder follows them only when needed.
    let mut dice = Dice(40);
    let words: Vec<u8> = (0..200_000).flat_map(|_| [dice.roll(3) as u8, 7, dice.roll(5) as u8]).collect();
    let parts = [&words[..], &noise(2_500_000), &vec![0; 5_000_000], &truth(600_000, 41)];
    let truth = parts.concat();
    let table = made(&truth, &encode_sized(&truth, 3, 16));
    let count = u64::from_le_bytes(table[72..80].try_into().unwrap()) as usize;
    let number = |n: usize| u64::from_le_bytes(table[104 + 32 * n..112 + 32 * n].try_into().unwrap());
    let offsets: Vec<_> = (0..count).map(number).collect();
    assert!(offsets.windows(2).all(|two| two[1] - two[0] < 1_100_000), "{offsets:?}");
    assert!(offsets.last().unwrap() + 600_000 > truth.len() as u64, "{offsets:?}");
}
