use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::content::{Decoded, Soundness, Text, UNIT};

const SMALL: Scale = Scale { spacing: 40_000, stretch: 100_000, least_bits: 8 << 13 };

/// Numbers that come the same each time (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below.max(1) as u64) as usize
    }
}

/// Bytes of which some repeat, some run, some come from far before and some do neither.
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

/// Stored bytes that count how often they are read.
#[derive(Debug)]
struct Counted(Text, AtomicU64);

impl Content for Counted {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> crate::Result<usize> {
        let read = self.0.read_at(offset, buf)?;
        self.1.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

fn content(stored: Vec<u8>, len: usize, cache: &Arc<Cache>) -> (Decoded, Arc<Counted>) {
    let stored = Arc::new(Counted(Text::new(stored), AtomicU64::new(0)));
    let stream = open_with(stored.clone(), SMALL, cache);
    (Decoded::stream(stream, len as u64, cache), stored)
}

fn check(content: &Decoded, truth: &[u8], at: usize, count: usize) {
    let mut buf = vec![0x55; count];
    let read = content.read_at(at as u64, &mut buf).unwrap();
    let right = &truth[at.min(truth.len())..];
    assert!(buf[..read] == right[..right.len().min(count)], "{count} bytes at {at}");
}

#[test]
fn any_stream_in_any_order_on_any_number_of_threads_is_the_truth() {
    let mut dice = Dice(5);
    for (n, (truth, stored)) in streams().into_iter().enumerate() {
        for threads in [1, 2, 5] {
            for order in ["on", "back", "random", "far"] {
                let cache = Arc::new(Cache::with_threads([0, 3 << 20, 1 << 30][dice.roll(3)], threads));
                let (content, _) = content(stored.clone(), truth.len(), &cache);
                let step = 131_072;
                let steps = truth.len().div_ceil(step);
                match order {
                    "on" => (0..steps).for_each(|at| check(&content, &truth, at * step, step)),
                    "back" => (0..steps).rev().for_each(|at| check(&content, &truth, at * step, step)),
                    "far" => check(&content, &truth, truth.len() - 4096, 5000),
                    _ => {
                        (0..20).for_each(|_| check(&content, &truth, dice.roll(truth.len()), dice.roll(9000)))
                    }
                }
                if order != "random" {
                    assert_eq!(
                        content.soundness(),
                        Soundness::Sound,
                        "stream {n}, {order}, {threads} threads"
                    );
                }
                (0..9).for_each(|_| check(&content, &truth, dice.roll(truth.len()), dice.roll(300_000)));
                assert!(content.trouble().is_none());
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
        let before = stored.1.load(Ordering::Relaxed);
        check(&content, &truth, at, 100);
        let read = stored.1.load(Ordering::Relaxed) - before;
        // Two units at most, and what the decoder reads ahead.
        assert!(read < 2 * UNIT + (256 << 10), "{read} bytes for 100 at {at}");
    }
}

#[test]
fn checkpoints_keep_their_distance_and_come_before_units() {
    let truth = truth(6_000_000, 12);
    for threads in [1, 3] {
        let cache = Arc::new(Cache::with_threads(1 << 30, threads));
        let zlib = Arc::new(Zlib::new(Arc::new(Text::new(encode(&truth, 6, usize::MAX))), SMALL, &cache));
        let (_, mut walk) = crate::codec::seek::Table::walk(zlib.clone(), 0).unwrap();
        let (mut out, mut at) = (Vec::new(), 0);
        while let Some(start) = walk.next(&mut out).unwrap() {
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
    for round in 0..300 {
        let mut broken = stored.clone();
        match round % 3 {
            0 => broken.truncate(dice.roll(stored.len() - 2) + 2),
            1 => (0..1 + dice.roll(3)).for_each(|_| broken[dice.roll(stored.len())] ^= 1 << dice.roll(8)),
            _ => {
                let at = dice.roll(stored.len() - 9);
                broken[at..at + 9].fill(dice.roll(256) as u8);
            }
        }
        let cache = Arc::new(Cache::with_threads([0, 1 << 20, 1 << 30][dice.roll(3)], 1 + dice.roll(4)));
        let theirs = Decoded::stream(
            library::Library::new(Arc::new(Text::new(broken.clone()))),
            truth.len() as u64,
            &cache,
        );
        let (ours, _) = content(broken, truth.len(), &cache);
        if dice.roll(2) == 0 {
            let _ = ours.read_at(dice.roll(truth.len()) as u64, &mut [0; 99]);
        }
        let (theirs, ours) = (prefix(&theirs), prefix(&ours));
        assert!(ours.0 == theirs.0, "round {round}: {} bytes, the library {}", ours.0.len(), theirs.0.len());
        assert_eq!(ours.1, theirs.1, "round {round}");
    }
}

fn prefix(content: &Decoded) -> (Vec<u8>, Option<String>, Soundness) {
    let (mut bytes, mut buf) = (Vec::new(), vec![0; 100_000]);
    loop {
        match content.read_at(bytes.len() as u64, &mut buf) {
            Ok(0) => return (bytes, None, content.soundness()),
            Ok(read) => bytes.extend_from_slice(&buf[..read]),
            Err(error) => return (bytes, Some(error.message().to_owned()), content.soundness()),
        }
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
                let (content, truth, cache) = (&contents[reader % 4], &truth, &cache);
                scope.spawn(move || {
                    let mut dice = Dice(reader as u64 + 100);
                    let start = dice.roll(truth.len());
                    for n in 0..12 {
                        match reader % 3 {
                            0 => check(content, truth, (start + n * 131_072) % truth.len(), 131_072),
                            1 => check(content, truth, dice.roll(truth.len()), 5000),
                            _ => check(content, truth, n * 100_000, 100_000),
                        }
                        assert!(cache.held() + cache.reserved() <= cache.budget() + budget / 2);
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
