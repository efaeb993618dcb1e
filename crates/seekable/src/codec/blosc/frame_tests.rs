//! Chunks and frames of Blosc 2: by the real writer, by our own, and broken ones.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::tests::{md5, read_all};
use super::*;
use crate::codec::samples::{Counted, Dice};
use crate::content::{Text, read_exact_at};

// `tests/formats` uses the builder as well, and parts of it that are not used here.
#[allow(dead_code, unreachable_pub, missing_docs)]
#[path = "../../../../../tests/common/blosc2_builder.rs"]
mod builder;

use builder::{compressed, stored};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/blosc2")
}

/// A chunk by c-blosc2, and what it decodes to.
struct Sample {
    name: String,
    stored: Vec<u8>,
    len: u64,
    md5: String,
}

fn samples() -> Vec<Sample> {
    let all = std::fs::read(fixtures().join("chunks.bin")).unwrap();
    let listed: Vec<Value> =
        serde_json::from_slice(&std::fs::read(fixtures().join("chunks.json")).unwrap()).unwrap();
    let number = |value: &Value| value.as_u64().unwrap();
    let sample = |one: &Value| {
        let start = number(&one["offset"]) as usize;
        Sample {
            name: one["name"].as_str().unwrap().to_owned(),
            stored: all[start..start + number(&one["len"]) as usize].to_vec(),
            len: number(&one["nbytes"]),
            md5: one["md5"].as_str().unwrap().to_owned(),
        }
    };
    listed.iter().map(sample).collect()
}

fn decoded(stored: &[u8]) -> (Vec<u8>, Option<Error>) {
    let cache = Arc::new(Cache::new(1 << 20));
    read_all(&open_frame(Arc::new(Text::new(stored)), &cache))
}

#[test]
fn every_chunk_of_the_real_writer() {
    let samples = samples();
    assert!(samples.len() > 220, "{}", samples.len());
    for sample in samples {
        let (bytes, error) = decoded(&sample.stored);
        assert!(error.is_none(), "{}: {error:?}", sample.name);
        assert_eq!(bytes.len() as u64, sample.len, "{}", sample.name);
        assert_eq!(md5(&bytes), sample.md5, "{}", sample.name);
    }
}

#[test]
fn cut_chunks_give_right_bytes_and_then_an_error() {
    for sample in samples().iter().step_by(7).filter(|sample| sample.len > 0) {
        let (truth, _) = decoded(&sample.stored);
        for cut in (0..sample.stored.len()).step_by(13) {
            let (bytes, error) = decoded(&sample.stored[..cut]);
            assert!(error.is_some(), "{} cut at {cut}", sample.name);
            assert!(truth.starts_with(&bytes), "{} cut at {cut}", sample.name);
        }
    }
}

#[test]
fn broken_chunks_never_panic() {
    let mut dice = Dice(19);
    for sample in samples() {
        for _ in 0..40 {
            let mut bad = sample.stored.clone();
            let end = if dice.roll(2) == 0 { bad.len().min(60) } else { bad.len() };
            for _ in 0..1 + dice.roll(3) {
                bad[dice.roll(end)] = [0, 1, 0x7f, 0x80, 0xff, dice.roll(256) as u8][dice.roll(6)];
            }
            let chunks = open_frame(Arc::new(Text::new(bad)), &Arc::new(Cache::new(0)));
            let mut out = Vec::new();
            for at in [0, sample.len / 2, sample.len.saturating_sub(1), u64::MAX] {
                if let Ok(Some(chunk)) = chunks.find(at)
                    && chunk.len < 1 << 20
                {
                    let _ = chunks.decode(chunk, &mut out);
                }
            }
        }
    }
}

#[test]
fn what_is_not_read_is_named() {
    let chunk = stored(b"abcd");
    let changed = |at: usize, byte: u8| {
        let mut chunk = compressed(&[7; 100], 50);
        chunk[at] = byte;
        decoded(&chunk).1.unwrap()
    };
    assert!(decoded(&chunk).1.is_none());
    for (at, byte, says) in [
        (0, 7, "version 7"),
        (2, 0xd5, "the codec ndlz of a Blosc2 chunk is a plugin"),
        (2, 0xf5, "codec 7"),
        (16, 32, "the filter ndcell"),
        (21, 200, "the filter filter 200"),
        (30, 1, "blocks of variable length"),
        (31, 8, "is lazy"),
        (31, 0x80, "measurements"),
        (31, 2, "longer header"),
        (31, 0x50, "special value 5"),
    ] {
        let mut chunk = compressed(&[7; 100], 50);
        chunk[22] = 32;
        chunk[at] = byte;
        let error = decoded(&chunk).1.unwrap();
        assert_eq!(error.kind(), Kind::Unsupported, "{says}: {error}");
        assert!(error.message().contains(says), "{says}: {error}");
    }
    assert_eq!(changed(12, 3).kind(), Kind::Damaged, "cbytes");
    assert_eq!(changed(8, 0).kind(), Kind::Damaged, "blocksize");
}

#[test]
fn runs_of_a_byte_and_special_values() {
    let run = |size: i32, token: &[u8]| {
        let mut chunk = builder::header(0x30, 1, [8, 8, 40 + token.len()]);
        chunk.extend(36_u32.to_le_bytes());
        chunk.extend(size.to_le_bytes());
        chunk.extend(token);
        decoded(&chunk)
    };
    assert_eq!(run(0, &[]).0, [0; 8]);
    assert_eq!(run(-9, &[1]).0, [9; 8]);
    assert_eq!(run(-255, &[3]).0, [255; 8]);
    for (size, token) in [(-9, &[2][..]), (-256, &[1]), (i32::MIN, &[1]), (-9, &[])] {
        assert_eq!(run(size, token).1.unwrap().kind(), Kind::Damaged, "{size}");
    }
    let special = |kind: u8, typesize: u8, value: &[u8]| {
        let mut chunk = builder::header(0, typesize, [20, 0, 32 + value.len()]);
        chunk[31] = kind << 4;
        chunk.extend(value);
        decoded(&chunk)
    };
    assert_eq!(special(1, 4, b"").0, [0; 20]);
    assert_eq!(special(4, 4, b"").0, [0; 20]);
    assert_eq!(special(3, 1, b"abcdef").0, b"abcdefabcdefabcdefab");
    assert_eq!(special(2, 4, b"").0, [f32::NAN.to_le_bytes(); 5].concat());
    assert!(special(2, 2, b"").1.is_some());
    assert!(special(3, 4, b"").1.is_some());
}

#[test]
fn a_read_near_the_end_takes_the_index_and_one_chunk() {
    let mut dice = Dice(5);
    let data: Vec<u8> = (0..16 << 20).map(|_| dice.roll(256) as u8).collect();
    let stored = Counted::new(builder::Frame::new(1 << 20, &data, |part| compressed(part, 64 << 10)).build());
    let cache = Arc::new(Cache::new(64 << 20));
    let content =
        crate::codec::open(crate::codec::Codec::Blosc2, stored.clone(), data.len() as u64, &cache).unwrap();
    assert_eq!(stored.read(), 0, "nothing is read before the first read");
    let mut buf = [0; 4096];
    let at = data.len() - 5000;
    read_exact_at(&*content, at as u64, &mut buf).unwrap();
    assert!(buf == data[at..at + 4096]);
    // A piece of a chunk of random bytes, and what is read ahead of its streams.
    assert!(stored.read() < 4 << 20, "{} bytes", stored.read());
}
