use std::io::Write;

use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};

use crate::cache::Cache;
use crate::codec::samples::{Counted, Dice};
use crate::codec::{Codec, open};
use crate::content::{Content, Soundness};
use crate::decode::GRANULE;
use std::sync::Arc;

fn truth(len: usize) -> Vec<u8> {
    let mut dice = Dice(len as u64 | 1);
    let mut bytes = Vec::with_capacity(len + 300);
    while bytes.len() < len {
        let count = 1 + dice.roll(200);
        match dice.roll(3) {
            0 => {
                let from = bytes.len() - dice.roll(bytes.len().min(60_000) + 1);
                bytes.extend_from_within(from..(from + count).min(bytes.len()));
            }
            _ => bytes.extend((0..count).map(|_| dice.roll(100) as u8)),
        }
    }
    bytes.truncate(len);
    bytes
}

fn lz4(bytes: &[u8], info: FrameInfo, flush_every: usize) -> Vec<u8> {
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    for part in bytes.chunks(flush_every) {
        encoder.write_all(part).unwrap();
        encoder.flush().unwrap();
    }
    encoder.finish().unwrap()
}

fn independent() -> FrameInfo {
    FrameInfo::new().block_mode(BlockMode::Independent).block_size(BlockSize::Max64KB)
}

fn linked() -> FrameInfo {
    FrameInfo::new().block_mode(BlockMode::Linked).block_size(BlockSize::Max64KB).content_checksum(true)
}

fn zstd(bytes: &[u8], sized: bool) -> Vec<u8> {
    let mut encoder = ::zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.include_contentsize(sized).unwrap();
    encoder.set_pledged_src_size(sized.then_some(bytes.len() as u64)).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn frames(bytes: &[u8], len: usize, encode: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    bytes.chunks(len).flat_map(encode).collect()
}

const LEN: usize = 14_300_000;

/// Returns streams of several parts. The number limits the stored bytes that a first read near the end may read,
/// in percent of the stream's length: above 100 if bytes are read more than once.
fn streams(bytes: &[u8]) -> Vec<(&'static str, Codec, Vec<u8>, u64)> {
    let checked = independent().block_checksums(true).content_checksum(true);
    let tiny = frames(&bytes[..bytes.len() / 3], 5000, |part| zstd(part, true));
    let mixed = [tiny, zstd(&bytes[bytes.len() / 3..], true)].concat();
    vec![
        ("lz4, one frame", Codec::Lz4Frame, lz4(bytes, independent(), usize::MAX), 35),
        ("lz4, one frame with checksums", Codec::Lz4Frame, lz4(bytes, checked.clone(), usize::MAX), 35),
        (
            "lz4, frames",
            Codec::Lz4,
            frames(bytes, 999_999, |part| lz4(part, checked.clone(), usize::MAX)),
            60,
        ),
        (
            "lz4, tiny frames",
            Codec::Lz4,
            frames(bytes, 3000, |part| lz4(part, independent(), usize::MAX)),
            300,
        ),
        ("lz4, blocks of any size", Codec::Lz4Frame, lz4(bytes, independent(), 70_001), 300),
        ("lz4, linked", Codec::Lz4Frame, lz4(bytes, linked(), usize::MAX), 110),
        ("lz4, linked, of any size", Codec::Lz4Frame, lz4(bytes, linked(), 90_000), 110),
        ("zstd, frames", Codec::Zstd, frames(bytes, 1 << 20, |part| zstd(part, true)), 35),
        ("zstd, frames of no known size", Codec::Zstd, frames(bytes, 1 << 20, |part| zstd(part, false)), 200),
        ("zstd, tiny frames and a long one", Codec::Zstd, mixed, 200),
        ("zstd, one frame", Codec::Zstd, zstd(bytes, false), 200),
    ]
}

fn check(content: &dyn Content, truth: &[u8], at: usize, count: usize, name: &str) {
    let mut buf = vec![0x55; count];
    let read = content.read_at(at as u64, &mut buf).unwrap();
    let right = &truth[at.min(truth.len())..];
    assert!(buf[..read] == right[..right.len().min(count)], "{name}: {count} bytes at {at}");
}

#[test]
fn any_stream_in_any_order_on_any_number_of_threads_is_the_truth() {
    let truth = truth(LEN);
    for (name, codec, stored, _) in streams(&truth) {
        for (threads, budget) in [(1, 1 << 30), (4, 1 << 30), (4, 2 << 20)] {
            let mut dice = Dice(7);
            let cache = Arc::new(Cache::with_threads(budget, threads));
            let content = open(codec, Counted::new(stored.clone()), LEN as u64, &cache).unwrap();
            for _ in 0..20 {
                check(&*content, &truth, dice.roll(LEN), dice.roll(400_000), name);
            }
            for at in (0..LEN).step_by(1 << 18) {
                check(&*content, &truth, at, 1 << 18, name);
            }
            assert_eq!(content.soundness(), Soundness::Sound, "{name}");
            assert!(content.damage().is_none(), "{name}");
        }
    }
}

#[test]
fn a_read_near_the_end_takes_little_and_one_anywhere_after_that_less() {
    let truth = truth(LEN);
    for (name, codec, stored, hundredths) in streams(&truth) {
        let cache = Arc::new(Cache::with_threads(0, 1));
        let stored = Counted::new(stored);
        let content = open(codec, stored.clone(), LEN as u64, &cache).unwrap();
        check(&*content, &truth, LEN - 4096 - GRANULE as usize, 4096, name);
        let first = stored.read();
        assert!(first * 100 <= stored.len() * hundredths, "{name}: {first} of {} bytes", stored.len());
        if !name.contains("long one") && name != "zstd, one frame" {
            for at in [9_000_000, 4_000_000, 12_000_000, 100] {
                let before = stored.read();
                check(&*content, &truth, at, 4096, name);
                let more = stored.read() - before;
                assert!(more < stored.len() / 5, "{name}: {more} of {} bytes", stored.len());
            }
        }
    }
}

#[test]
fn lengths_that_are_not_what_the_headers_let_suppose_are_not_believed() {
    // Two errors that cancel out: one block is short, and the last one is longer by as much.
    let truth = truth(40 * 65_536 + 1000);
    let mut info = independent();
    info.content_size = Some(truth.len() as u64);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(&truth[..60_000]).unwrap();
    encoder.flush().unwrap();
    encoder.write_all(&truth[60_000..]).unwrap();
    let stored = encoder.finish().unwrap();
    let content =
        open(Codec::Lz4Frame, Counted::new(stored), truth.len() as u64, &Arc::new(Cache::new(0))).unwrap();
    for at in [2_500_000, 1_000_000, 60_000, 59_000] {
        check(&*content, &truth, at, 5000, "short blocks");
    }
}

#[test]
fn a_seek_table_that_lies_changes_nothing() {
    let truth = truth(3 << 20);
    let frames: Vec<_> = truth.chunks(1 << 20).map(|part| zstd(part, false)).collect();
    let mut table = Vec::new();
    for (frame, lie) in frames.iter().zip([5000_i32, -6000, 1000]) {
        table.extend((frame.len() as u32).to_le_bytes());
        table.extend(((1 << 20) + lie).to_le_bytes());
    }
    table.extend([3, 0, 0, 0, 0, 0xb1, 0xea, 0x92, 0x8f]);
    let mut stored = frames.concat();
    stored.extend(0x184D_2A5E_u32.to_le_bytes());
    stored.extend((table.len() as u32).to_le_bytes());
    stored.extend(table);
    let content =
        open(Codec::Zstd, Counted::new(stored), truth.len() as u64, &Arc::new(Cache::new(0))).unwrap();
    for at in [3_000_000, 1 << 20, 2_000_000, 0] {
        check(&*content, &truth, at, 5000, "a seek table");
    }
}

#[test]
fn the_checksum_of_a_frame_in_many_parts_is_checked_on_any_number_of_threads() {
    let truth = truth(LEN);
    let independent = independent().content_checksum(true);
    for info in [independent, linked()] {
        let mut stored = lz4(&truth, info, usize::MAX);
        *stored.last_mut().unwrap() ^= 1;
        for threads in [1, 4] {
            let cache = Arc::new(Cache::with_threads(1 << 30, threads));
            let content = open(Codec::Lz4Frame, Counted::new(stored.clone()), LEN as u64, &cache).unwrap();
            let mut buf = vec![0; 1 << 18];
            let read: usize =
                (0..LEN).step_by(1 << 18).map_while(|at| content.read_at(at as u64, &mut buf).ok()).sum();
            assert!(read < LEN);
            assert!(content.damage().unwrap().message().contains("checksum"));
        }
    }
}
