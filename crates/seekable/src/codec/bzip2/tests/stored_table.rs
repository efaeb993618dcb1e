//! Stored seek tables: valid, stale, damaged and forged ones.

use super::*;
use crate::codec::samples::{self, first_mount, next_mount, read_first, slot};
use crate::codec::seek::stored_table::TableKind;

fn opened(stored: &[u8], len: usize, cache: &Arc<Cache>) -> Decoded {
    let stream = open(samples::stream(stored, len), cache);
    Decoded::stream(stream, len as u64, cache)
}

#[test]
fn the_next_mount_reads_anywhere_without_a_pass() {
    let mut dice = Dice(31);
    let long = truth(3_000_000, 30);
    let mut streams = streams();
    // A single block: no table is worth storing.
    streams[1] = (long.clone(), encode(&long, 4));
    for (n, (truth, stored)) in streams.into_iter().enumerate() {
        let cache = first_mount(3);
        let first = opened(&stored, truth.len(), &cache);
        assert!(first.costs_a_pass());
        check(&first, &truth, truth.len() - 10, 10);
        for (order, threads) in [("far", 1), ("far", 4), ("on", 4), ("back", 1), ("random", 1), ("random", 4)]
        {
            let cache = next_mount(&cache, 64 << 20, threads);
            let content = opened(&stored, truth.len(), &cache);
            assert!(!content.costs_a_pass(), "stream {n}");
            read_in(order, &content, &truth, &mut dice);
            match order {
                "far" => assert_eq!(content.soundness(), Soundness::Unknown),
                "on" => assert_eq!(content.soundness(), Soundness::Sound),
                _ => {}
            }
            assert!(content.damage().is_none());
            assert!(!content.costs_a_pass(), "stream {n}, {order}: the table was thrown away");
        }
    }
}

#[test]
fn nothing_is_kept_of_what_is_bad_or_not_read_to_its_end() {
    let truth = truth(1_500_000, 32);
    let stored = encode(&truth, 1);
    let is_kept = |stored: &[u8], len: usize, upto: usize| {
        let cache = first_mount(2);
        let content = opened(stored, len, &cache);
        read_first(&content, upto);
        slot(TableKind::Bzip2, stored, len, &cache).bytes().is_some()
    };
    assert!(is_kept(&stored, truth.len(), truth.len()));
    assert!(!is_kept(&stored, truth.len(), 200_000));
    assert!(!is_kept(&stored, truth.len() - 1, truth.len() - 1));
    assert!(!is_kept(&stored, truth.len() + 1, truth.len() + 1));
    let mut wrong = stored.clone();
    let crc = wrong.len() - 3;
    wrong[crc] ^= 0x10;
    assert!(!is_kept(&wrong, truth.len(), truth.len()));
    assert!(!is_kept(&encode(&truth[..90_000], 1), 90_000, 90_000));
}

#[test]
fn a_table_that_is_damaged_or_lies_costs_a_pass_and_no_byte() {
    let truth = truth(700_000, 33);
    let stored = [encode(&truth[..500_000], 1), encode(&truth[500_000..], 2)].concat();
    let cache = first_mount(1);
    check(&opened(&stored, truth.len(), &cache), &truth, truth.len() - 1, 1);
    let good = slot(TableKind::Bzip2, &stored, truth.len(), &cache).bytes().unwrap();
    let mut dice = Dice(34);
    for round in 0..good.len() * 2 {
        let mut bad = good.clone();
        let cache = first_mount(1 + round % 2);
        let at = round / 2;
        match dice.roll(5) {
            0 => bad.truncate(at),
            1 => bad[at] = bad[at].wrapping_add(1),
            2 => bad[at] = bad[at].wrapping_sub(1),
            way => bad[at] ^= [0x80, 0xff][way - 3],
        }
        match round % 2 {
            0 => slot(TableKind::Bzip2, &stored, truth.len(), &cache).put(&bad),
            _ => slot(TableKind::Bzip2, &stored, truth.len(), &cache).forge(&bad),
        }
        let content = opened(&stored, truth.len(), &cache);
        check(&content, &truth, dice.roll(truth.len()), 150_000);
        assert!(content.damage().is_none(), "round {round}");
    }
}

#[test]
fn of_streams_that_changed_all_is_had_before_the_block_that_did() {
    let truth = truth(600_000, 35);
    let stored = encode(&truth, 1);
    let cache = first_mount(1);
    check(&opened(&stored, truth.len(), &cache), &truth, truth.len() - 1, 1);
    let good = slot(TableKind::Bzip2, &stored, truth.len(), &cache).bytes().unwrap();
    let mut dice = Dice(36);
    for round in 0..30 {
        let mut broken = stored.clone();
        broken[4096 + dice.roll(stored.len() - 3 * 4096)] ^= 1 << dice.roll(8);
        let cache = first_mount(1 + round % 3);
        slot(TableKind::Bzip2, &broken, truth.len(), &cache).put(&good);
        let content = opened(&broken, truth.len(), &cache);
        assert!(!content.costs_a_pass());
        let place = dice.roll(truth.len());
        let mut buf = vec![0; 999];
        if let Ok(read) = content.read_at(place as u64, &mut buf) {
            assert!(buf[..read] == truth[place..place + read]);
        }
        let without = library(&broken, truth.len());
        let ours = prefix(&content);
        assert!(truth.starts_with(&ours.0) && ours.0.len() <= without.0.len(), "round {round}");
        assert!(ours.1.is_some() && slot(TableKind::Bzip2, &broken, truth.len(), &cache).bytes().is_none());
    }
}
