mod places;
mod stored_table;

use std::io::Write;

use super::*;
use crate::codec::samples::{self, Counted, Dice, check, harmed, prefix, read_in, say_the_same};
use crate::content::{Content, Soundness, Text};
use crate::decode::{Decoded, GRANULE};

/// Output bytes between checkpoints in these tests, unless eight windows are more.
const FINE: u64 = 100_000;

/// Returns bytes with repeats, runs, distant matches and noise.
fn truth(len: usize, seed: u64) -> Vec<u8> {
    let mut dice = Dice(seed | 1);
    let mut bytes = Vec::with_capacity(len + 40_000);
    while bytes.len() < len {
        let count = 1 + dice.roll(400);
        match dice.roll(7) {
            0 => bytes.extend(std::iter::repeat_n(dice.roll(256) as u8, count * (1 + dice.roll(2) * 90))),
            1 | 2 => {
                let from = bytes.len() - dice.roll(bytes.len().min(300_000) + 1);
                bytes.extend_from_within(from..(from + count).min(bytes.len()));
            }
            3 => {
                let step = 1 + dice.roll(40);
                bytes.extend((0..count * 5).map(|n| (n % step) as u8));
            }
            _ => bytes.extend((0..count).map(|_| dice.roll(100) as u8)),
        }
    }
    bytes.truncate(len);
    bytes
}

fn noise(len: usize) -> Vec<u8> {
    let mut dice = Dice(9);
    (0..len).map(|_| dice.roll(256) as u8).collect()
}

/// Encodes one frame; flushes make small blocks.
fn encode(bytes: &[u8], level: i32, window_log: u32, checked: bool, flush_every: usize) -> Vec<u8> {
    let mut encoder = ::zstd::Encoder::new(Vec::new(), level).unwrap();
    encoder.window_log(window_log).unwrap();
    encoder.include_checksum(checked).unwrap();
    for part in bytes.chunks(flush_every) {
        encoder.write_all(part).unwrap();
        if part.len() == flush_every {
            encoder.flush().unwrap();
        }
    }
    encoder.finish().unwrap()
}

/// Encodes one frame that gives its content size.
fn encode_sized(bytes: &[u8], level: i32, window_log: u32) -> Vec<u8> {
    let mut encoder = ::zstd::Encoder::new(Vec::new(), level).unwrap();
    encoder.window_log(window_log).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.set_pledged_src_size(Some(bytes.len() as u64)).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn skippable(len: usize) -> Vec<u8> {
    [&0x184D_2A53_u32.to_le_bytes()[..], &(len as u32).to_le_bytes(), &noise(len)].concat()
}

fn streams() -> Vec<(Vec<u8>, Vec<u8>)> {
    let long = truth(3_000_000, 3);
    let zeros = vec![0; 3_000_000];
    let noise = noise(1_500_000);
    let mixed = [&long[..700_000], &zeros[..900_000], &noise[..500_000], &long[..700_000]].concat();
    let mut streams = Vec::new();
    for (level, log) in [(-20, 14), (1, 10), (1, 17), (3, 16), (9, 17), (19, 12)] {
        streams.push((long.clone(), encode(&long, level, log, level % 2 == 1, usize::MAX)));
        streams.push((mixed.clone(), encode_sized(&mixed, level, log)));
    }
    streams.push((long.clone(), encode(&long, 3, 15, true, 10_000)));
    streams.push((zeros.clone(), encode(&zeros, 3, 16, true, usize::MAX)));
    streams.push((noise.clone(), encode(&noise, 3, 16, true, usize::MAX)));
    // Several frames, with skippable and empty ones in between.
    let (first, second) = mixed.split_at(1_900_000);
    let frames = [
        skippable(70),
        encode_sized(first, 3, 14),
        skippable(200_000),
        encode(&[], 3, 14, true, usize::MAX),
        encode(second, 5, 15, true, usize::MAX),
        skippable(0),
        b"what is no frame".to_vec(),
    ];
    streams.push((mixed, frames.concat()));
    streams
}

fn opened(stored: &[u8], len: usize, cache: &Arc<Cache>) -> (Decoded, Arc<Counted>) {
    let counted = Counted::new(stored);
    let stream = StoredStream { stored: counted.clone(), ..samples::stream(stored, len) };
    let stream = open_with(stream, Scale::fine(len as u64, FINE), cache);
    (Decoded::stream(stream, len as u64, cache), counted)
}

#[test]
fn any_stream_in_any_order_on_any_number_of_threads_is_the_truth() {
    let mut dice = Dice(5);
    for (n, (truth, stored)) in streams().into_iter().enumerate() {
        for threads in [1, 3] {
            for order in ["on", "back", "random", "far"] {
                let cache = Arc::new(Cache::with_threads([0, 3 << 20, 1 << 30][dice.roll(3)], threads));
                let (content, _) = opened(&stored, truth.len(), &cache);
                read_in(order, &content, &truth, &mut dice);
                if order != "random" {
                    assert_eq!(content.soundness(), Soundness::Sound, "stream {n}, {order}");
                }
                for _ in 0..9 {
                    check(&content, &truth, dice.roll(truth.len()), dice.roll(9000));
                }
                assert!(content.damage().is_none(), "stream {n}, {order}");
            }
        }
    }
}

#[test]
fn behind_the_frontier_a_read_decodes_only_from_the_place_before_it() {
    let truth = truth(4_000_000, 6);
    let cache = Arc::new(Cache::with_threads(0, 1));
    let (content, stored) = opened(&encode_sized(&truth, 3, 14), truth.len(), &cache);
    check(&content, &truth, truth.len() - 10, 10);
    let mut dice = Dice(7);
    for _ in 0..40 {
        let at = dice.roll(truth.len() - 100);
        let before = stored.read();
        check(&content, &truth, at, 100);
        let read = stored.read() - before;
        // The read begins at most eight windows before its granule, and takes two granules and the read-ahead.
        assert!(read < (8 << 14) + (1 << 20), "{read} bytes for 100 at {at}");
    }
}

#[test]
fn damage_anywhere_gives_what_the_library_gives() {
    let truth = truth(1_200_000, 13);
    let mut dice = Dice(14);
    for (which, stored) in
        [encode_sized(&truth, 3, 15), encode(&truth, 1, 14, true, 50_000)].into_iter().enumerate()
    {
        for round in 0..200 {
            let broken = harmed(&stored, 4, round, &mut dice);
            let cache = Arc::new(Cache::with_threads([0, 1 << 20, 1 << 30][dice.roll(3)], 1 + dice.roll(3)));
            let theirs = library::library(Arc::new(Text::new(broken.clone())));
            let theirs = Decoded::stream(theirs, truth.len() as u64, &cache);
            let (ours, _) = opened(&broken, truth.len(), &cache);
            if dice.roll(2) == 0 {
                let _ = ours.read_at(dice.roll(truth.len()) as u64, &mut [0; 99]);
            }
            let theirs = prefix(&theirs);
            let ours = prefix(&ours);
            // After an early wrong checksum our decoder has no output.
            let nothing = ours.0.is_empty() && theirs.2 == Soundness::Broken(0);
            let our = ours.0.len();
            let their = theirs.0.len();
            assert!(ours.0 == theirs.0 || nothing, "{which}, {round}: {our} bytes, the library {their}");
            say_the_same(ours.1, theirs.1);
        }
    }
}

#[test]
fn a_frame_that_needs_a_dictionary_is_refused_as_by_the_library() {
    let truth = truth(600_000, 16);
    let sound = encode(&truth, 3, 14, true, usize::MAX);
    // A dictionary id of one byte after the window, and the reserved bit. An id of 0 means none.
    let mut ids = [1, 0].map(|id| [&sound[..6], &[id], &sound[6..]].concat());
    for stored in &mut ids {
        stored[4] |= 1;
    }
    let mut reserved = sound.clone();
    reserved[4] |= 8;
    let [with, without] = ids;
    for (stored, is_sound) in [(with, false), (reserved, false), (without, true), (sound, true)] {
        let cache = Arc::new(Cache::with_threads(1 << 20, 1));
        let (bytes, error, _) = prefix(&opened(&stored, truth.len(), &cache).0);
        assert_eq!((bytes == truth, error.is_none()), (is_sound, is_sound), "{error:?}");
        assert!(is_sound || bytes.is_empty());
    }
}

#[test]
fn many_readers_under_pressure_read_the_truth() {
    let truth = truth(4_000_000, 15);
    let stored = encode_sized(&truth, 3, 15);
    for budget in [2 << 20, 64 << 20] {
        let cache = Arc::new(Cache::with_threads(budget, 4));
        let contents: Vec<_> = (0..3).map(|_| opened(&stored, truth.len(), &cache).0).collect();
        std::thread::scope(|scope| {
            for reader in 0..48_usize {
                let content = &contents[reader % 3];
                let truth = &truth;
                scope.spawn(move || {
                    let mut dice = Dice(reader as u64 + 100);
                    let start = dice.roll(truth.len());
                    for n in 0..12 {
                        match reader % 4 {
                            0 => check(content, truth, (start + n * 131_072) % truth.len(), 131_072),
                            1 | 2 => check(content, truth, dice.roll(truth.len()), 5000),
                            _ => check(content, truth, n * 100_000, 100_000),
                        }
                    }
                });
            }
        });
        assert!(contents.iter().all(|content| content.damage().is_none()));
    }
}
