//! Streams with any settings of zlib, read in any order, with and without a stored seek table.

use proptest::prelude::*;
use zlib_rs::{DeflateConfig, Method, Strategy as Route};

use super::*;
use crate::cache::store::Store;
use crate::codec::samples;
use crate::codec::seek::stored_table::{TableKind, TableSlot};

/// The settings of an encoder.
#[derive(Clone, Copy, Debug)]
struct Made {
    level: i32,
    window_bits: i32,
    mem_level: i32,
    way: Route,
}

fn made() -> impl Strategy<Value = Made> {
    let ways = [Route::Default, Route::Filtered, Route::HuffmanOnly, Route::Rle, Route::Fixed];
    (0..=9, 9..=15, 1..=9, prop::sample::select(ways.to_vec()))
        .prop_map(|(level, window_bits, mem_level, way)| Made { level, window_bits, mem_level, way })
}

fn compress(bytes: &[u8], made: Made) -> Vec<u8> {
    let config = DeflateConfig {
        level: made.level,
        method: Method::Deflated,
        window_bits: made.window_bits,
        mem_level: made.mem_level,
        strategy: made.way,
    };
    let mut out = vec![0; bytes.len() * 2 + 1000];
    zlib_rs::compress_slice(&mut out, bytes, config).0.to_vec()
}

/// Encodes literals in one fixed block up to the end of the data.
fn one_block(bytes: &[u8]) -> Vec<u8> {
    let mut stored = vec![0x78, 0x01];
    let mut held = 0b011_u32;
    let mut count = 3;
    let mut put = |code: u32, bits: u32, stored: &mut Vec<u8>| {
        held |= (code.reverse_bits() >> (32 - bits)) << count;
        count += bits;
        while count >= 8 {
            stored.push(held as u8);
            held >>= 8;
            count -= 8;
        }
    };
    for &byte in bytes {
        match u32::from(byte) {
            low @ 0..144 => put(0x30 + low, 8, &mut stored),
            high => put(0x190 + high - 144, 9, &mut stored),
        }
    }
    put(0, 7, &mut stored);
    put(0, 7, &mut stored);
    stored.truncate(
        2 + (3 + bytes.iter().map(|byte| 8 + usize::from(*byte > 143)).sum::<usize>() + 7).div_ceil(8),
    );
    stored.extend(simd_adler32::adler32(&bytes).to_be_bytes());
    stored
}

/// Reads in an order, in one mount and then in the next.
fn read_twice(
    truth: &[u8],
    stored: &[u8],
    scale: Scale,
    threads: usize,
    budget: u64,
    order: &[(usize, usize)],
) {
    let mut whole = vec![0; truth.len()];
    libdeflater::Decompressor::new().zlib_decompress(stored, &mut whole).unwrap();
    assert!(whole == truth, "libdeflate reads something else");
    let first = Arc::new(Cache::with_threads(budget, threads).with_store(Store::in_memory()));
    for mount in 0..2 {
        first.store().wait_for_writes();
        let cache = Arc::new(Cache::with_threads(budget, threads).sharing(first.store()));
        let stream = samples::stream(stored, truth.len());
        let slot = TableSlot::new(cache.store(), TableKind::Zlib, &stream);
        let content =
            Decoded::stream(open_with(stream.stored, scale, &cache, slot), truth.len() as u64, &cache);
        for &(at, count) in order {
            check(&content, truth, at % (truth.len() + 1), count);
        }
        check(&content, truth, 0, truth.len());
        assert_eq!(content.soundness(), Soundness::Sound, "mount {mount}");
        assert!(content.damage().is_none());
        if mount == 1 && truth.len() > 2 * scale.spacing as usize {
            assert!(!content.costs_a_pass(), "no table was kept, or it was thrown away");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reads_as_the_truth(
        made in made(),
        (len, seed) in (1_usize..900_000, 1_u64..1_000_000),
        (spacing, segment) in (33_000_u64..200_000, 40_000_u64..300_000),
        (threads, budget) in (1_usize..5, prop::sample::select(&[0, 1 << 20, 1 << 28][..])),
        order in prop::collection::vec((0_usize..900_000, 0_usize..70_000), 0..12),
    ) {
        let truth = truth(len, seed);
        let scale = Scale { spacing, segment, least_bits: 8 << 12 };
        read_twice(&truth, &compress(&truth, made), scale, threads, budget, &order);
    }

    #[test]
    fn flush_points_anywhere_read_as_the_truth(
        level in 0_u32..=9,
        (len, seed, every) in (1_usize..600_000, 1_u64..1_000_000, 100_usize..90_000),
        threads in 1_usize..4,
        order in prop::collection::vec((0_usize..600_000, 0_usize..70_000), 0..8),
    ) {
        let truth = truth(len, seed);
        read_twice(&truth, &encode(&truth, level, every), SMALL, threads, 1 << 28, &order);
    }
}

#[test]
fn one_gigantic_block_is_seekable() {
    let truth = truth(4_000_000, 41);
    let stored = one_block(&truth);
    let order: Vec<_> = (0..20).map(|n| (truth.len() - 200_000 * n - 1, 3000)).collect();
    for threads in [1, 3] {
        read_twice(&truth, &stored, SMALL, threads, 1 << 28, &order);
    }
}

#[test]
fn a_table_is_kept_whichever_thread_comes_first() {
    // One checkpoint; each read happens while a pass of an earlier read still runs.
    let truth = truth(265_633, 921_302);
    let stored = compress(&truth, Made { level: 8, window_bits: 12, mem_level: 6, way: Route::Fixed });
    let scale = Scale { spacing: 104_988, segment: 134_373, least_bits: 8 << 12 };
    let order = [(646_376, 61_222), (152_282, 10_836), (161_798, 69_067)];
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| (0..100).for_each(|_| read_twice(&truth, &stored, scale, 3, 0, &order)));
        }
    });
}
