//! Decoding from every possible position between two blocks, compared with libzstd from the start.

use std::sync::Arc;

use super::*;
use crate::codec::input::Input;
use crate::codec::zstd::blocks::BlockDecoder;
use crate::codec::zstd::memory::{Follow, Memory};

/// Decodes from positions in a frame. Returns their number and the number of blocks.
fn begin_everywhere(truth: &[u8], stored: &[u8], of: &str) -> (usize, usize) {
    let stored: Arc<dyn Content> = Arc::new(Text::new(stored));
    let all = Everywhere::of(&stored, truth.len(), 25).unwrap();
    assert!(all.whole == truth, "{of}");
    for (offset, rest) in all.outputs {
        assert!(rest == truth[offset..], "{of}: from {offset} on");
    }
    (all.entries, all.blocks)
}

#[test]
fn with_matches_far_before() {
    let truth = truth(3_000_000, 17);
    let mut encoder = ::zstd::Encoder::new(Vec::new(), 3).unwrap();
    encoder.window_log(22).unwrap();
    encoder.long_distance_matching(true).unwrap();
    encoder.write_all(&truth).unwrap();
    begin_everywhere(&truth, &encoder.finish().unwrap(), "a long window");
    for strategy in 1..=9 {
        let mut encoder = ::zstd::Encoder::new(Vec::new(), 4).unwrap();
        let strategies = [
            ::zstd::zstd_safe::Strategy::ZSTD_fast,
            ::zstd::zstd_safe::Strategy::ZSTD_dfast,
            ::zstd::zstd_safe::Strategy::ZSTD_greedy,
            ::zstd::zstd_safe::Strategy::ZSTD_lazy,
            ::zstd::zstd_safe::Strategy::ZSTD_lazy2,
            ::zstd::zstd_safe::Strategy::ZSTD_btlazy2,
            ::zstd::zstd_safe::Strategy::ZSTD_btopt,
            ::zstd::zstd_safe::Strategy::ZSTD_btultra,
            ::zstd::zstd_safe::Strategy::ZSTD_btultra2,
        ];
        encoder.set_parameter(::zstd::zstd_safe::CParameter::Strategy(strategies[strategy - 1])).unwrap();
        encoder.window_log(16).unwrap();
        encoder.write_all(&truth[..700_000]).unwrap();
        begin_everywhere(&truth[..700_000], &encoder.finish().unwrap(), &format!("strategy {strategy}"));
    }
}

/// Returns a compressed block of sequences of one literal, an offset up to 4 and a match of 3 bytes, with a
/// few literals after them. Its tables have a single code, or repeat those of the block before.
fn block_of_one_code(offsets: &[u8], literals: &[u8], repeat: bool, last: bool) -> Vec<u8> {
    let mut block = Vec::new();
    // Raw literals with a length of 20 bits.
    let header = 3 << 2 | (literals.len() as u32) << 4;
    block.extend_from_slice(&header.to_le_bytes()[..3]);
    block.extend_from_slice(literals);
    block.push(offsets.len() as u8);
    block.extend_from_slice(if repeat { &[0b1111_1100] } else { &[0b0101_0100, 1, 2, 0] });
    // The first sequence has the highest bits, below the bit that marks their start.
    let bits = offsets.iter().fold(1_u128, |bits, offset| bits << 2 | u128::from(offset - 1));
    let len = (2 * offsets.len() + 1).div_ceil(8);
    block.extend_from_slice(&bits.to_le_bytes()[..len]);
    let word = (block.len() as u32) << 3 | 2 << 1 | u32::from(last);
    [&word.to_le_bytes()[..3], &block].concat()
}

#[test]
fn not_where_a_table_of_one_code_is_used_again() {
    let mut dice = Dice(19);
    let mut stored = super::super::header::MAGIC.to_le_bytes().to_vec();
    stored.extend([0, 0]);
    let blocks = 600;
    for n in 0..blocks {
        let offsets: Vec<u8> = (0..50).map(|_| 1 + dice.roll(4) as u8).collect();
        let literals: Vec<u8> = (0..50 + dice.roll(9)).map(|_| dice.roll(256) as u8).collect();
        // The first match can't reach before the start.
        let offsets = if n == 0 { vec![1; 50] } else { offsets };
        stored.extend(block_of_one_code(&offsets, &literals, n % 3 == 2, n == blocks - 1));
    }
    let truth = ::zstd::decode_all(&stored[..]).unwrap();
    let (places, count) = begin_everywhere(&truth, &stored, "tables of one code");
    // Every third block reuses a table of a single code; decoding can't begin there, nor at the first
    // block.
    assert_eq!((places, count), (2 * blocks / 3 - 1, blocks));
    // Checkpoints in a table that is as fine as possible.
    let cache = Arc::new(Cache::with_threads(0, 1));
    let stream = open_with(
        StoredStream::new(Arc::new(Text::new(stored)), truth.len() as u64),
        Scale::fine(truth.len() as u64, 9000),
        &cache,
    );
    let content = Decoded::stream(stream, truth.len() as u64, &cache);
    check(&content, &truth, 0, truth.len());
    for _ in 0..50 {
        check(&content, &truth, dice.roll(truth.len()), 500);
    }
    assert!(content.damage().is_none());
}

#[test]
fn a_block_that_is_not_what_it_says_ends_the_places_and_nothing_else() {
    let truth = truth(300_000, 23);
    let stored = encode(&truth, 3, 15, false, usize::MAX);
    let mut dice = Dice(24);
    let input: Arc<dyn Content> = Arc::new(Text::new(&stored[..]));
    let mut blocks = BlockDecoder::new(Input::new(&input), Box::default());
    blocks.begin().unwrap();
    let mut compressed = Vec::new();
    loop {
        let block = blocks.block().unwrap();
        compressed.extend(blocks.content(block).unwrap().map(<[u8]>::to_vec));
        blocks.decode(block, &mut Vec::new()).unwrap();
        if block.last {
            break;
        }
    }
    assert!(compressed.len() > 3);
    for round in 0..20_000 {
        let mut memory = Memory::default();
        for block in &compressed {
            let mut block = block.clone();
            match (round + dice.roll(2)) % 4 {
                0 => block.truncate(dice.roll(block.len())),
                // The first bytes are the headers and the descriptions.
                1 => {
                    let near = block.len().min(300);
                    block[dice.roll(near)] = dice.roll(256) as u8;
                }
                2 => {
                    let at = dice.roll(block.len());
                    block[at] ^= 1 << dice.roll(8);
                }
                _ => {}
            }
            memory.pass(&block, [Follow::Now, Follow::Later][round % 2]);
        }
        let _ = memory.head(&truth[..40_000], Some(&compressed[0]));
    }
}

/// `scripts/test --all` runs this test.
mod rare {
    use super::*;

    #[test]
    fn of_all_levels_windows_and_kinds_of_data() {
        let picture: Vec<u8> = {
            let mut dice = Dice(8);
            let value = |n: usize| ((n % 999) as f32).sqrt() + (dice.roll(64) as f32) / 32.0;
            (0..300_000)
                .map(value)
                .flat_map(|value| value.to_bits().to_le_bytes().map(|byte| byte & 0xf8))
                .collect()
        };
        let words = ["sky ", "the ", "counts ", "of ", "a star\n", "1.25 ", "42 "];
        let text: Vec<u8> = {
            let mut dice = Dice(9);
            (0..250_000).flat_map(|_| words[dice.roll(7)].bytes()).collect()
        };
        let stripes: Vec<u8> =
            (0..1_200_000).map(|n| if n % 16 < 3 { (n / 16 % 251) as u8 } else { 7 }).collect();
        let all = [picture, text, noise(1_000_000), vec![0; 1_200_000], stripes, truth(1_200_000, 4)];
        for (kind, truth) in all.iter().enumerate() {
            for level in [-50, -3, 1, 3, 5, 9, 13, 19] {
                for log in [10, 17, 20] {
                    let part = if level > 9 { &truth[..500_000] } else { &truth[..] };
                    let of = format!("data {kind} at level {level} with a window of 2^{log}");
                    let stored = encode(part, level, log, true, usize::MAX);
                    let (places, blocks) = begin_everywhere(part, &stored, &of);
                    assert!(places + 2 >= blocks / 2, "{of}: {places} places, {blocks} blocks");
                }
            }
        }
    }
}
