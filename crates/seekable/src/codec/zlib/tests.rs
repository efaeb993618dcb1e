mod any;
mod stored_table;
mod together;

use std::io::Write;

use super::*;
use crate::codec::samples::{Counted, Dice, check, harmed, prefix, read_in, say_the_same};
use crate::content::{Soundness, Text};
use crate::decode::{Decoded, GRANULE};

const SMALL: Scale = Scale { spacing: 40_000, segment: 100_000, least_bits: 8 << 13 };

/// Returns bytes with repeats, runs, distant matches and noise.
fn truth(len: usize, seed: u64) -> Vec<u8> {
    let mut dice = Dice(seed | 1);
    let mut bytes = Vec::with_capacity(len + 40_000);
    while bytes.len() < len {
        let count = 1 + dice.roll(400);
        match dice.roll(6) {
            0 => bytes.extend(std::iter::repeat_n(dice.roll(256) as u8, count * (1 + dice.roll(2) * 90))),
            1 | 2 => {
                let from = bytes.len() - dice.roll(bytes.len().min(33_000) + 1);
                bytes.extend_from_within(from..(from + count).min(bytes.len()));
            }
            _ => bytes.extend((0..count).map(|_| dice.roll(100) as u8)),
        }
    }
    bytes.truncate(len);
    bytes
}

fn encode(bytes: &[u8], level: u32, flush_every: usize) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(level));
    for part in bytes.chunks(flush_every) {
        encoder.write_all(part).unwrap();
        if part.len() == flush_every {
            encoder.flush().unwrap();
        }
    }
    encoder.finish().unwrap()
}

fn streams() -> Vec<(Vec<u8>, Vec<u8>)> {
    let long = truth(5_000_000, 3);
    let zeros = vec![0; 9_000_000];
    let noise: Vec<u8> = {
        std::iter::repeat_with({
            let mut dice = Dice(9);
            move || dice.roll(256) as u8
        })
        .take(3_000_000)
        .collect()
    };
    let mut streams: Vec<_> =
        [0, 1, 6, 9].map(|level| (long.clone(), encode(&long, level, usize::MAX))).into();
    streams.push((long[..2_000_000].to_vec(), encode(&long[..2_000_000], 6, 10_000)));
    streams.push((zeros.clone(), encode(&zeros, 9, usize::MAX)));
    streams.push((noise.clone(), encode(&noise, 6, usize::MAX)));
    let mixed = [&long[..1_500_000], &zeros[..5_000_000], &noise[..500_000], &long[..1_500_000]].concat();
    streams.push((mixed.clone(), encode(&mixed, 6, usize::MAX)));
    streams
}

fn content(stored: Vec<u8>, len: usize, cache: &Arc<Cache>) -> (Decoded, Arc<Counted>) {
    let stored = Counted::new(stored);
    let stream = open_with(stored.clone(), SMALL, cache, None);
    (Decoded::stream(stream, len as u64, cache), stored)
}

#[test]
fn any_stream_in_any_order_on_any_number_of_threads_is_the_truth() {
    let mut dice = Dice(5);
    for (n, (truth, stored)) in streams().into_iter().enumerate() {
        for threads in [1, 2, 5] {
            for order in ["on", "back", "random", "far"] {
                let cache = Arc::new(Cache::with_threads([0, 3 << 20, 1 << 30][dice.roll(3)], threads));
                let (content, _) = content(stored.clone(), truth.len(), &cache);
                read_in(order, &content, &truth, &mut dice);
                if order != "random" {
                    assert_eq!(
                        content.soundness(),
                        Soundness::Sound,
                        "stream {n}, {order}, {threads} threads"
                    );
                }
                for _ in 0..9 {
                    check(&content, &truth, dice.roll(truth.len()), dice.roll(300_000));
                }
                assert!(content.damage().is_none());
            }
        }
    }
}

#[test]
fn behind_the_frontier_a_read_decodes_only_from_the_checkpoint_before_it() {
    let truth = truth(8_000_000, 11);
    let cache = Arc::new(Cache::with_threads(0, 1));
    let (content, stored) = content(encode(&truth, 6, usize::MAX), truth.len(), &cache);
    check(&content, &truth, truth.len() - 10, 10);
    let mut dice = Dice(6);
    for _ in 0..50 {
        let at = dice.roll(truth.len());
        let before = stored.read();
        check(&content, &truth, at, 100);
        let read = stored.read() - before;
        // Two granules at most, and the decoder's read-ahead.
        assert!(read < 2 * GRANULE + (256 << 10), "{read} bytes for 100 at {at}");
    }
}

#[test]
fn checkpoints_keep_their_distance_and_come_before_granules() {
    let truth = truth(6_000_000, 12);
    for threads in [1, 3] {
        let cache = Arc::new(Cache::with_threads(1 << 30, threads));
        let zlib =
            Arc::new(ZlibTable::new(Arc::new(Text::new(encode(&truth, 6, usize::MAX))), SMALL, &cache, None));
        let (_, mut reader) = crate::codec::seek::SeekTable::read_from(zlib.clone(), 0).unwrap();
        let mut out = Vec::new();
        let mut at = 0;
        while let Some(start) = reader.next(&mut out).unwrap() {
            assert!(out[start..] == truth[at..at + out.len() - start]);
            at += out.len() - start;
        }
        assert_eq!(at, truth.len());
        if threads == 1 {
            let offsets = zlib.offsets();
            assert_eq!(offsets.len(), truth.len() / 40_000);
            assert!(
                offsets.iter().all(|offset| (39_000..40_000).contains(&(offset % 40_000))),
                "{offsets:?}"
            );
        }
    }
}

#[test]
fn damage_anywhere_gives_what_the_library_gives() {
    let truth = truth(2_000_000, 13);
    let stored = encode(&truth, 6, usize::MAX);
    let mut dice = Dice(14);
    for round in 0..150 {
        let broken = harmed(&stored, 2, round, &mut dice);
        let cache = Arc::new(Cache::with_threads([0, 1 << 20, 1 << 30][dice.roll(3)], 1 + dice.roll(4)));
        let theirs = Decoded::stream(
            library::library(Arc::new(Text::new(broken.clone()))),
            truth.len() as u64,
            &cache,
        );
        let (ours, _) = content(broken, truth.len(), &cache);
        if dice.roll(2) == 0 {
            let _ = ours.read_at(dice.roll(truth.len()) as u64, &mut [0; 99]);
        }
        let theirs = prefix(&theirs);
        let ours = prefix(&ours);
        // After an early wrong checksum our decoder has no output.
        let nothing = ours.0.is_empty() && theirs.2 == Soundness::Broken(0);
        let our = ours.0.len();
        let their = theirs.0.len();
        assert!(ours.0 == theirs.0 || nothing, "round {round}: {our} bytes, the library {their}");
        say_the_same(ours.1, theirs.1);
    }
}

#[test]
fn many_readers_under_pressure_read_the_truth_within_the_budget() {
    let truth = truth(6_000_000, 15);
    let stored = encode(&truth, 6, usize::MAX);
    for budget in [2 << 20, 64 << 20] {
        let cache = Arc::new(Cache::with_threads(budget, 4));
        let contents: Vec<_> = (0..4).map(|_| content(stored.clone(), truth.len(), &cache).0).collect();
        std::thread::scope(|scope| {
            for reader in 0..64_usize {
                let content = &contents[reader % 4];
                let truth = &truth;
                let cache = &cache;
                scope.spawn(move || {
                    let mut dice = Dice(reader as u64 + 100);
                    let start = dice.roll(truth.len());
                    for n in 0..12 {
                        match reader % 3 {
                            0 => check(content, truth, (start + n * 131_072) % truth.len(), 131_072),
                            1 => check(content, truth, dice.roll(truth.len()), 5000),
                            _ => check(content, truth, n * 100_000, 100_000),
                        }
                        // A single reservation may exceed the budget if a reader waits for it.
                        let most = cache.budget().max(9 << 20) + budget / 2;
                        assert!(cache.held() + cache.reserved() <= most);
                    }
                });
            }
        });
        drop(contents);
        let mut rounds = 0;
        while cache.reserved() > 0 && rounds < 100_000 {
            std::thread::yield_now();
            rounds += 1;
        }
        assert_eq!(cache.held(), 0);
    }
}
