mod any;
mod stored_table;

use std::io::Write;

use super::*;
use crate::codec::samples::{Dice, check, harmed, read_in, say_the_same};
use crate::content::{Content, Soundness, Text};
use crate::decode::Decoded;

/// The magic of a block, which may occur in the data as well.
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

/// Returns streams of different levels, with runs that make long blocks, and with empty streams in between.
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
    Decoded::stream(
        open(StoredStream::new(Arc::new(Text::new(stored)), len as u64), cache),
        len as u64,
        cache,
    )
}

#[test]
fn any_streams_in_any_order_on_any_number_of_threads_are_the_truth() {
    let mut dice = Dice(5);
    for (truth, stored) in streams() {
        for threads in [1, 2, 5] {
            for order in ["on", "back", "random", "far"] {
                let cache = Arc::new(Cache::with_threads([0, 30 << 20, 1 << 30][dice.roll(3)], threads));
                let content = content(&stored, truth.len(), &cache);
                read_in(order, &content, &truth, &mut dice);
                if order != "random" {
                    assert_eq!(content.soundness(), Soundness::Sound, "{order}, {threads} threads");
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
fn magics_and_blocks_where_none_belong_are_not_believed() {
    let mut dice = Dice(8);
    let (truth, stored) = streams().swap_remove(0);
    // Whole blocks after the end, at shifted bits: the search finds them, and they decode.
    let other = encode(&truth[..300_000], 1);
    let garbage: Vec<u8> = other[4..].windows(2).map(|two| two[0] << 3 | two[1] >> 5).collect();
    let cache = Arc::new(Cache::with_threads(1 << 30, 4));
    let trailing = content(&[&stored[..], b"x", &garbage].concat(), truth.len(), &cache);
    check(&trailing, &truth, 0, truth.len());
    assert_eq!(trailing.soundness(), Soundness::Sound);
    for _ in 0..40 {
        // A magic in the middle of a block breaks that block: only the output before it is given.
        let mut broken = stored.clone();
        let at = 2000 + dice.roll(stored.len() - 4000);
        broken[at..at + 6].copy_from_slice(&MAGIC);
        let cache = Arc::new(Cache::with_threads(1 << 30, 4));
        let ours = prefix(&content(&broken, truth.len(), &cache));
        let theirs = library(&broken, truth.len());
        assert_eq!(ours.0.len(), theirs.0.len());
        say_the_same(ours.1, theirs.1);
        assert!(ours.0 == theirs.0 && truth.starts_with(&ours.0));
    }
}

#[test]
fn damage_anywhere_gives_what_the_library_gives() {
    let truth = truth(600_000, 13);
    let stored = [encode(&truth[..200_000], 1), encode(&truth[200_000..], 2)].concat();
    let mut dice = Dice(14);
    for round in 0..80 {
        let broken = harmed(&stored, 40, round, &mut dice);
        let cache = Arc::new(Cache::with_threads([0, 1 << 20, 1 << 30][dice.roll(3)], 1 + dice.roll(4)));
        let ours = content(&broken, truth.len(), &cache);
        if dice.roll(2) == 0 {
            let _ = ours.read_at(dice.roll(truth.len()) as u64, &mut [0; 99]);
        }
        let theirs = library(&broken, truth.len());
        let ours = prefix(&ours);
        assert!(ours.0 == theirs.0, "round {round}: {} bytes, {}", ours.0.len(), theirs.0.len());
        say_the_same(ours.1, theirs.1);
    }
}

fn library(stored: &[u8], len: usize) -> (Vec<u8>, Option<String>) {
    let cache = Arc::new(Cache::new(1 << 30));
    prefix(&Decoded::stream(library::library(Arc::new(Text::new(stored))), len as u64, &cache))
}

/// Returns all readable bytes and the error, both from the second reading if the first one failed.
fn prefix(content: &Decoded) -> (Vec<u8>, Option<String>) {
    let mut bytes = Vec::new();
    let mut buf = vec![0; 100_000];
    let mut again = false;
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
