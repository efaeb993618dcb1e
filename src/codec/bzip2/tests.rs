use std::io::Write;

use super::*;
use crate::content::{Decoded, Soundness, Text};

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

/// The magic of a block, which may stand in the data as well.
const MAGIC: [u8; 6] = [0x31, 0x41, 0x59, 0x26, 0x53, 0x59];

fn truth(len: usize, seed: u64) -> Vec<u8> {
    let mut dice = Dice(seed | 1);
    let mut bytes = Vec::with_capacity(len + 40_000);
    while bytes.len() < len {
        let count = 1 + dice.roll(400);
        match dice.roll(30) {
            0 => bytes.extend(std::iter::repeat_n(dice.roll(256) as u8, count * 90)),
            1 => bytes.extend(MAGIC),
            _ => bytes.extend((0..count).map(|_| dice.roll(100) as u8)),
        }
    }
    bytes.truncate(len);
    bytes
}

fn encode(bytes: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = ::bzip2::write::BzEncoder::new(Vec::new(), ::bzip2::Compression::new(level));
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Streams of different levels, runs that make long blocks, and nothing at all in between.
fn streams() -> Vec<(Vec<u8>, Vec<u8>)> {
    let parts = [truth(1_500_000, 3), vec![], vec![7; 9_000_000], truth(700_000, 4), truth(400_000, 5)];
    let several = [1, 9, 1, 2, 9].iter().zip(&parts).flat_map(|(&level, part)| encode(part, level));
    let long = truth(2_500_000, 6);
    vec![
        (long.clone(), encode(&long, 1)),
        (long.clone(), encode(&long, 9)),
        (parts.concat(), several.collect()),
    ]
}

fn content(stored: &[u8], len: usize, cache: &Arc<Cache>) -> Decoded {
    Decoded::stream(open(Arc::new(Text::new(stored)), cache), len as u64, cache)
}

fn check(content: &Decoded, truth: &[u8], at: usize, count: usize) {
    let mut buf = vec![0x55; count];
    let read = content.read_at(at as u64, &mut buf).unwrap();
    let right = &truth[at.min(truth.len())..];
    assert!(buf[..read] == right[..right.len().min(count)], "{count} bytes at {at}");
}

#[test]
fn any_streams_in_any_order_on_any_number_of_threads_are_the_truth() {
    let mut dice = Dice(5);
    for (truth, stored) in streams() {
        for threads in [1, 2, 5] {
            for order in ["on", "back", "random", "far"] {
                let cache = Arc::new(Cache::with_threads([0, 30 << 20, 1 << 30][dice.roll(3)], threads));
                let content = content(&stored, truth.len(), &cache);
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
                    assert_eq!(content.soundness(), Soundness::Sound, "{order}, {threads} threads");
                }
                (0..9).for_each(|_| check(&content, &truth, dice.roll(truth.len()), dice.roll(300_000)));
                assert!(content.trouble().is_none());
            }
        }
    }
}

#[test]
fn magics_and_blocks_where_none_belong_are_not_believed() {
    let mut dice = Dice(8);
    let (truth, stored) = streams().swap_remove(0);
    // Whole blocks behind the end, at another bit than their own: they are found, and decode.
    let other = encode(&truth[..300_000], 1);
    let garbage: Vec<u8> = other[4..].windows(2).map(|two| two[0] << 3 | two[1] >> 5).collect();
    let cache = Arc::new(Cache::with_threads(1 << 30, 4));
    let trailing = content(&[&stored[..], b"x", &garbage].concat(), truth.len(), &cache);
    check(&trailing, &truth, 0, truth.len());
    assert_eq!(trailing.soundness(), Soundness::Sound);
    for _ in 0..40 {
        // A magic in the middle of a block breaks that block: what comes before it is given, and no more.
        let mut broken = stored.clone();
        let at = 2000 + dice.roll(stored.len() - 4000);
        broken[at..at + 6].copy_from_slice(&MAGIC);
        let cache = Arc::new(Cache::with_threads(1 << 30, 4));
        let (ours, theirs) = (prefix(&content(&broken, truth.len(), &cache)), library(&broken, truth.len()));
        assert_eq!((ours.0.len(), ours.1), (theirs.0.len(), theirs.1));
        assert!(ours.0 == theirs.0 && truth.starts_with(&ours.0));
    }
}

#[test]
fn damage_anywhere_gives_what_the_library_gives() {
    let truth = truth(600_000, 13);
    let stored = [encode(&truth[..200_000], 1), encode(&truth[200_000..], 2)].concat();
    let mut dice = Dice(14);
    for round in 0..150 {
        let mut broken = stored.clone();
        match round % 3 {
            0 => broken.truncate(dice.roll(stored.len() - 40) + 40),
            1 => (0..1 + dice.roll(3)).for_each(|_| broken[dice.roll(stored.len())] ^= 1 << dice.roll(8)),
            _ => {
                let at = dice.roll(stored.len() - 9);
                broken[at..at + 9].fill(dice.roll(256) as u8);
            }
        }
        let cache = Arc::new(Cache::with_threads([0, 1 << 20, 1 << 30][dice.roll(3)], 1 + dice.roll(4)));
        let ours = content(&broken, truth.len(), &cache);
        if dice.roll(2) == 0 {
            let _ = ours.read_at(dice.roll(truth.len()) as u64, &mut [0; 99]);
        }
        let (theirs, ours) = (library(&broken, truth.len()), prefix(&ours));
        assert_eq!((ours.0.len(), ours.1), (theirs.0.len(), theirs.1), "round {round}");
        assert!(ours.0 == theirs.0);
    }
}

fn library(stored: &[u8], len: usize) -> (Vec<u8>, Option<String>) {
    let cache = Arc::new(Cache::new(1 << 30));
    prefix(&Decoded::stream(library::Library::new(Arc::new(Text::new(stored))), len as u64, &cache))
}

/// All that can be had once all that is wrong is known.
fn prefix(content: &Decoded) -> (Vec<u8>, Option<String>) {
    let (mut bytes, mut buf, mut again) = (Vec::new(), vec![0; 100_000], false);
    loop {
        let error = match content.read_at(bytes.len() as u64, &mut buf) {
            Ok(0) => None,
            Ok(read) => {
                bytes.extend_from_slice(&buf[..read]);
                continue;
            }
            Err(error) => Some(error.message().to_owned()),
        };
        if again || error.is_none() {
            return (bytes, error);
        }
        again = true;
        bytes.clear();
    }
}
