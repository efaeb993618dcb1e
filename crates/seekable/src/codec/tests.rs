mod bad;
mod on_servers;
mod once;

use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::samples::Dice;
use super::*;
use crate::content::{Soundness, Text};
use crate::decode::{GRANULE, WHOLE};

const CODECS: [&str; 10] = [
    "zlib",
    "bzip2",
    "bzip2, several streams",
    "zstd",
    "zstd, several frames",
    "lz4 frame, linked",
    "lz4 frames with checksums",
    "lz4 frame behind one to skip",
    "lz4 pieces",
    "lz4 tiny pieces",
];

/// Maximum decoded size of a zstd block.
const ZSTD_BLOCK: usize = 128 << 10;

/// Returns bytes with repeats, runs and noise.
fn truth(len: usize, seed: u64) -> Vec<u8> {
    let mut dice = Dice(seed | 1);
    let mut bytes = Vec::with_capacity(len + 400);
    while bytes.len() < len {
        let count = 1 + dice.roll(300);
        match dice.roll(3) {
            0 => bytes.extend((0..count).map(|_| dice.roll(64) as u8)),
            1 => bytes.extend(std::iter::repeat_n(dice.roll(256) as u8, count)),
            _ => {
                let from = dice.roll(bytes.len());
                bytes.extend_from_within(from..(from + count).min(bytes.len()));
            }
        }
    }
    bytes.truncate(len);
    bytes
}

fn piece(bytes: &[u8]) -> Vec<u8> {
    let block = lz4_flex::block::compress(bytes);
    let mut piece = (block.len() as u32 + 4).to_be_bytes().to_vec();
    piece.extend((bytes.len() as u32).to_le_bytes());
    piece.extend(block);
    piece
}

fn frame(bytes: &[u8], info: lz4_flex::frame::FrameInfo) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ::bzip2::write::BzEncoder::new(Vec::new(), ::bzip2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ::zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Encodes parts of `len` bytes separately and concatenates them.
fn in_parts(bytes: &[u8], len: usize, encode: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    if bytes.is_empty() { encode(bytes) } else { bytes.chunks(len).flat_map(encode).collect() }
}

fn encode(name: &str, bytes: &[u8]) -> (Codec, Vec<u8>) {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameInfo};
    let linked = FrameInfo::new().block_mode(BlockMode::Linked).block_size(BlockSize::Max64KB);
    let checked =
        FrameInfo::new().content_checksum(true).block_checksums(true).block_size(BlockSize::Max64KB);
    let third = bytes.len() / 3 + 1;
    match name {
        "zlib" => (Codec::Zlib, zlib(bytes)),
        "bzip2" => (Codec::Bzip2, bzip2(bytes)),
        "bzip2, several streams" => (Codec::Bzip2, in_parts(bytes, third, bzip2)),
        "zstd" => (Codec::Zstd, zstd(bytes)),
        "zstd, several frames" => {
            let skipped = [&[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
            (Codec::Zstd, [skipped.clone(), in_parts(bytes, third, zstd), skipped].concat())
        }
        "lz4 frame, linked" => (Codec::Lz4, frame(bytes, linked)),
        "lz4 frames with checksums" => {
            let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0][..], b"ab"].concat();
            let frames = in_parts(bytes, third, |part| frame(part, checked.clone()));
            (Codec::Lz4Frame, [frames, skipped].concat())
        }
        "lz4 frame behind one to skip" => {
            let skipped = [&[0x5f, 0x2a, 0x4d, 0x18, 1, 0, 0, 0][..], b"a"].concat();
            (Codec::Lz4, [skipped, frame(bytes, linked)].concat())
        }
        "lz4 pieces" => (Codec::Lz4, in_parts(bytes, 300_000, piece)),
        "lz4 tiny pieces" => (Codec::Lz4, in_parts(bytes, 777, piece)),
        _ => unreachable!(),
    }
}

/// Returns the output of the codec's library up to the end or the first error, for codecs with streams.
fn bare(codec: Codec, stored: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = match codec {
        Codec::Zlib => flate2::read::ZlibDecoder::new(stored).read_to_end(&mut bytes),
        Codec::Bzip2 => ::bzip2::read::MultiBzDecoder::new(stored).read_to_end(&mut bytes),
        Codec::Zstd => ::zstd::Decoder::new(stored).unwrap().read_to_end(&mut bytes),
        _ => lz4_flex::frame::FrameDecoder::new(stored).read_to_end(&mut bytes),
    };
    bytes
}

fn opened(codec: Codec, stored: &[u8], data_size: usize, cache: &Arc<Cache>) -> Arc<dyn Content> {
    open(codec, Arc::new(Text::new(stored)), data_size as u64, cache).unwrap()
}

/// Reads from the start, in steps of `step`, as far as possible.
fn prefix(content: &dyn Content, step: usize) -> (Vec<u8>, Option<Error>) {
    let mut bytes = Vec::new();
    let mut buf = vec![0; step];
    loop {
        match content.read_at(bytes.len() as u64, &mut buf) {
            Ok(0) => return (bytes, None),
            Ok(read) => bytes.extend_from_slice(&buf[..read]),
            Err(error) => return (bytes, Some(error)),
        }
    }
}

#[test]
fn every_codec_gives_the_truth_at_any_place_in_any_order() {
    let granule = GRANULE as usize;
    let mut dice = Dice(42);
    for name in CODECS {
        for len in [0, 1, 1000, granule - 1, granule, granule + 1, 2 * granule, 5 * granule + 77] {
            let truth = truth(len, len as u64);
            let (codec, stored) = encode(name, &truth);
            // Budgets for the whole content, for one granule, and for nothing.
            for budget in [1 << 30, GRANULE + 1000, 0] {
                let cache = Arc::new(Cache::new(budget));
                let content = opened(codec, &stored, len, &cache);
                assert_eq!(content.len(), len as u64);
                for _ in 0..if budget > GRANULE { 12 } else { 4 } {
                    let at = dice.roll(len + 10);
                    let count = dice.roll(granule);
                    let mut buf = vec![0xAA; count];
                    let read = content.read_at(at as u64, &mut buf).unwrap();
                    let right = truth.get(at..).map_or(&[][..], |rest| &rest[..rest.len().min(count)]);
                    assert!(buf[..read] == *right, "{name}, {len} bytes, {count} at {at}");
                }
                let (bytes, error) = prefix(&*content, 100_000);
                assert!(bytes == truth && error.is_none(), "{name}, {len} bytes: {error:?}");
                assert_eq!(content.soundness(), Soundness::Sound, "{name}, {len} bytes");
                assert!(content.damage().is_none());
                assert!(cache.held() <= budget);
            }
        }
    }
}

#[test]
fn backwards_and_by_several_readers_at_once() {
    let truth = truth(9 * GRANULE as usize + 5, 3);
    for name in CODECS {
        let (codec, stored) = encode(name, &truth);
        for budget in [1 << 30, 3 * GRANULE] {
            let cache = Arc::new(Cache::new(budget));
            let content = opened(codec, &stored, truth.len(), &cache);
            let next = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for reader in 0..5_usize {
                    let content = &content;
                    let truth = &truth;
                    let next = &next;
                    scope.spawn(move || {
                        let mut buf = vec![0; 131_072];
                        let count = truth.len().div_ceil(buf.len());
                        for step in 0..count {
                            let at = match reader {
                                // Three readers take the next range in turn, as the kernel's read-ahead may
                                // do; one reads backwards, one jumps.
                                0..3 => next.fetch_add(1, Ordering::Relaxed),
                                3 => count - 1 - step,
                                _ => step * 7 % count,
                            } * buf.len();
                            let read = content.read_at(at as u64, &mut buf).unwrap();
                            let right = truth.get(at..).unwrap_or_default();
                            assert!(buf[..read] == right[..right.len().min(buf.len())], "{name} at {at}");
                        }
                    });
                }
            });
            assert_eq!(content.soundness(), Soundness::Sound, "{name}");
        }
    }
}

#[test]
fn pieces_are_decoded_ahead_of_sequential_reads_only() {
    let truth = truth(6_000_000, 4);
    let (codec, stored) = encode("lz4 pieces", &truth);
    for threads in [1, 4] {
        let cache = Arc::new(Cache::with_threads(1 << 30, threads));
        let content = opened(codec, &stored, truth.len(), &cache);
        let mut buf = vec![0; 100_000];
        // Random reads: the cache holds only the chunks read.
        for at in [0, 5_500_000, 2_500_000] {
            assert_eq!(content.read_at(at, &mut buf).unwrap(), buf.len());
        }
        // Memory for blocks decoded ahead is reserved until they are held.
        assert!(cache.reserved() + cache.held() < 4 * 320_000);
        let (bytes, _) = prefix(&*content, 100_000);
        assert!(bytes == truth);
        drop(content);
        let content = opened(codec, &stored, truth.len(), &cache);
        for at in (0..1_500_000).step_by(100_000) {
            content.read_at(at, &mut buf).unwrap();
        }
        let ahead = || cache.held() > 1_500_000 + 2 * 300_000;
        while threads > 1 && !ahead() {
            std::thread::yield_now();
        }
        assert_eq!(ahead(), threads > 1);
    }
}

#[test]
fn a_stream_cut_off_anywhere_gives_what_is_there_and_then_an_error() {
    for name in CODECS {
        let truth = truth(4000, 9);
        let (codec, stored) = encode(name, &truth);
        for cut in 1..stored.len() {
            let cache = Arc::new(Cache::new(1 << 20));
            let stored = &stored[..cut];
            let Ok(content) = open(codec, Arc::new(Text::new(stored)), truth.len() as u64, &cache) else {
                continue;
            };
            for step in [997, 8192] {
                let (bytes, error) = prefix(&*content, step);
                assert!(truth.starts_with(&bytes), "{name} cut at {cut}");
                assert_eq!(error.is_some(), content.damage().is_some(), "{name} cut at {cut}");
                assert!(error.is_some() || bytes.len() == truth.len(), "{name} cut at {cut}");
                if !matches!(codec, Codec::Lz4) {
                    assert!(bytes.len() >= bare(codec, stored).len().min(truth.len()), "{name} cut at {cut}");
                }
                // A trailing skippable frame that is cut off loses no data.
                if let Some(error) = error {
                    assert_eq!(error.kind(), crate::Kind::Damaged);
                    assert_eq!(content.soundness(), Soundness::Broken(bytes.len() as u64));
                    assert_eq!(content.damage().unwrap().message(), error.message());
                }
            }
        }
    }
}

#[test]
fn flipped_bits_never_give_more_than_promised_nor_other_bytes_at_a_second_read() {
    let mut dice = Dice(7);
    for name in CODECS {
        let truth = truth(3000, 5);
        let (codec, stored) = encode(name, &truth);
        for round in 0..1500 {
            let mut stored = stored.clone();
            for _ in 0..1 + round % 3 {
                let at = dice.roll(stored.len());
                stored[at] ^= 1 << dice.roll(8);
            }
            let cache = Arc::new(Cache::new(1 << 20));
            let Ok(content) = open(codec, Arc::new(Text::new(stored)), truth.len() as u64, &cache) else {
                continue;
            };
            let (bytes, error) = prefix(&*content, 4096);
            assert!(bytes.len() <= truth.len());
            assert!(error.is_some() || bytes.len() == truth.len(), "{name}, round {round}");
            let again = prefix(&*content, 100);
            let doubted = content.soundness() == Soundness::Broken(0);
            assert!(again.0 == bytes || doubted && again.0.is_empty(), "{name}, round {round}");
            // In zstd, a bit of the header that no checksum covers says if there is a checksum.
            let checked = !matches!(codec, Codec::Lz4 | Codec::Zstd);
            if content.soundness() == Soundness::Sound && checked {
                assert!(bytes == truth, "{name}, round {round}: a checksum let wrong bytes through");
            }
        }
    }
}

#[test]
fn a_wrong_checksum_makes_all_that_it_is_over_unreadable_once_it_is_known() {
    let truth = truth(3 * GRANULE as usize, 8);
    let cases: [(Codec, Vec<u8>, usize); 3] = [
        (Codec::Zlib, zlib(&truth), 1),
        (Codec::Zstd, zstd(&truth), 1),
        (Codec::Lz4Frame, frame(&truth, lz4_flex::frame::FrameInfo::new().content_checksum(true)), 1),
    ];
    for (codec, mut stored, from_end) in cases {
        let at = stored.len() - from_end;
        stored[at] ^= 1;
        let cache = Arc::new(Cache::new(1 << 30));
        let content = opened(codec, &stored, truth.len(), &cache);
        let (bytes, error) = prefix(&*content, 50_000);
        assert!(error.is_some() && bytes == truth[..2 * GRANULE as usize], "{codec:?}");
        assert_eq!(content.soundness(), Soundness::Broken(0));
        assert!(content.read_at(0, &mut [0]).is_err(), "{codec:?}");
    }
}

#[test]
fn a_zstd_block_is_given_whatever_is_wrong_with_the_header_of_the_next() {
    let mut dice = Dice(17);
    let truth: Vec<u8> = (0..3 * ZSTD_BLOCK).map(|_| dice.roll(256) as u8).collect();
    let stored = zstd(&truth);
    // Incompressible data are stored: each block follows a header of three bytes.
    let block = |n: usize| stored.windows(64).position(|part| part == &truth[n * ZSTD_BLOCK..][..64]);
    for n in 1..3 {
        let mut stored = stored.clone();
        let header = block(n).unwrap() - 3;
        // A block of an invalid kind, which may also be the last data of the stream.
        stored[header] |= 0b110;
        for len in [stored.len(), header + 3, header + 2] {
            let cache = Arc::new(Cache::new(1 << 20));
            let content = opened(Codec::Zstd, &stored[..len], truth.len(), &cache);
            let (bytes, error) = prefix(&*content, 50_000);
            assert!(error.is_some() && bytes == truth[..n * ZSTD_BLOCK], "{n}: {}", bytes.len());
        }
    }
}

#[test]
fn a_bzip2_block_with_a_wrong_crc_is_unreadable_from_its_start_once_that_is_known() {
    let truth = truth(3 * GRANULE as usize, 8);
    let mut stored = bzip2(&truth);
    // The block's CRC follows its magic.
    let magic = [0x31, 0x41, 0x59, 0x26, 0x53, 0x59];
    let first = stored.windows(6).position(|six| six == magic).unwrap();
    stored[first + 6] ^= 1;
    let content = opened(Codec::Bzip2, &stored, truth.len(), &Arc::new(Cache::new(1 << 30)));
    let (bytes, error) = prefix(&*content, 1 << 20);
    assert!(truth.starts_with(&bytes) && error.unwrap().message().contains("CRC"));
    assert_eq!(content.soundness(), Soundness::Broken(0));
    assert!(content.read_at(0, &mut [0; 4]).is_err());
}

#[test]
fn a_data_size_that_is_too_small_or_too_large_is_said() {
    for name in CODECS {
        for len in [700, GRANULE as usize, 2 * GRANULE as usize + 9] {
            let truth = truth(len, 1);
            let (codec, stored) = encode(name, &truth);
            let cache = Arc::new(Cache::new(1 << 30));

            let small = opened(codec, &stored, len - 1, &cache);
            let (bytes, error) = prefix(&*small, 70_000);
            assert!(bytes == truth[..len - 1] && error.is_some(), "{name}: {error:?}");
            assert_eq!(small.soundness(), Soundness::Broken(len as u64 - 1), "{name}");
            assert!(small.damage().unwrap().message().contains("decodes to more than the"), "{name}");

            let empty = opened(codec, &stored, 0, &cache);
            assert!(empty.read_at(0, &mut [0; 9]).is_err(), "{name}");
            assert_eq!(empty.soundness(), Soundness::Broken(0), "{name}");

            let large = opened(codec, &stored, len + 5, &cache);
            let (bytes, error) = prefix(&*large, 70_000);
            assert!(bytes == truth, "{name}");
            let says = format!("decodes to {len} bytes, but the header says {}", len + 5);
            assert_eq!(error.unwrap().message(), says, "{name}");
            assert_eq!(large.soundness(), Soundness::Broken(len as u64), "{name}");
        }
    }
}

#[test]
fn nothing_decodes_to_nothing() {
    let cache = Arc::new(Cache::new(1 << 20));
    let empty = || Arc::new(Text::default());
    for codec in [Codec::Zlib, Codec::Bzip2, Codec::Lz4, Codec::Lz4Frame, Codec::Zstd, Codec::Blosc] {
        assert_eq!(open(codec, empty(), 0, &cache).unwrap().len(), 0);
        assert!(open(codec, empty(), 1, &cache).is_err(), "{codec:?}");
    }
}

#[test]
fn an_impossible_data_size_is_refused_before_anything_is_read() {
    let cache = Arc::new(Cache::new(0));
    let all = [Codec::Zlib, Codec::Bzip2, Codec::Lz4, Codec::Lz4Frame, Codec::Zstd];
    for codec in all {
        let stored: Arc<dyn Content> = Arc::new(Text::new(&[0; 19][..]));
        assert_eq!(open(codec, stored, 1 << 50, &cache).unwrap_err().kind(), crate::Kind::Damaged);
        assert!(open(codec, Arc::new(Text::default()), 0, &cache).unwrap().is_empty());
    }
    // The best compression that each codec can reach is accepted.
    let zeros = vec![0; 3 << 20];
    for name in CODECS {
        let (codec, stored) = encode(name, &zeros);
        let content = opened(codec, &stored, zeros.len(), &cache);
        assert!(prefix(&*content, 1 << 20).0 == zeros, "{name}");
    }
}

#[test]
fn what_follows_the_end_of_a_stream_is_not_looked_at() {
    let truth = truth(5000, 2);
    for name in CODECS.into_iter().filter(|name| !name.contains("pieces")) {
        let (codec, mut stored) = encode(name, &truth);
        stored.extend(b"\0\0\0\0 and so on");
        let content = opened(codec, &stored, truth.len(), &Arc::new(Cache::new(0)));
        assert!(prefix(&*content, 4096).0 == truth, "{name}");
        assert_eq!(content.soundness(), Soundness::Sound, "{name}");
    }
}

#[test]
fn an_lz4_piece_too_long_to_be_held_is_a_stream() {
    let before = truth(100_000, 4);
    let long = truth(WHOLE as usize + 300_001, 6);
    let whole = [&before[..], &long, &before].concat();
    let stored = [piece(&before), piece(b""), piece(&long), piece(b""), piece(&before)].concat();
    let cache = Arc::new(Cache::new(4 * GRANULE));
    let content = opened(Codec::Lz4, &stored, whole.len(), &cache);
    let mut buf = [0; 1000];
    assert_eq!(content.read_at(whole.len() as u64 - 100_500, &mut buf).unwrap(), 1000);
    assert!(buf == whole[whole.len() - 100_500..][..1000]);
    let (bytes, error) = prefix(&*content, 1 << 20);
    assert!(bytes == whole && error.is_none());
    assert_eq!(content.soundness(), Soundness::Sound);

    // A piece that is broken in its middle gives all bytes before that.
    let mut broken = stored.clone();
    let middle = piece(&before).len() + 12 + piece(&long).len() / 2;
    // An offset of 0 is invalid, and no run of literals is this long.
    broken[middle..middle + 2000].fill(0);
    let content = opened(Codec::Lz4, &broken, whole.len(), &cache);
    let (bytes, error) = prefix(&*content, 1 << 20);
    let same = bytes.iter().zip(&whole).take_while(|(one, other)| one == other).count();
    assert!(error.is_some() && same > before.len() + long.len() / 3);
    assert!(bytes.len() < before.len() + long.len() && bytes.len() - same < 2000);
}

#[test]
fn the_block_decoder_of_our_own_agrees_with_lz4_flex() {
    let mut dice = Dice(11);
    for round in 0..400 {
        let truth = truth(dice.roll(200_000), round);
        let mut block = lz4_flex::block::compress(&truth);
        if round % 2 == 1 {
            let at = dice.roll(block.len());
            block[at] ^= 1 << dice.roll(8);
        }
        let theirs = lz4_flex::block::decompress(&block, truth.len());
        let stored: Arc<dyn Content> = Arc::new(Text::new(block));
        let mut ours = Vec::new();
        let error = lz4::decode_block(input::Input::new(&stored), truth.len() as u64, &mut ours);
        match theirs {
            Ok(theirs) if theirs.len() == truth.len() => {
                assert!(error.is_ok() && ours == theirs, "round {round}: {error:?}");
            }
            _ => assert!(ours.len() <= truth.len() && round % 2 == 1, "round {round}"),
        }
    }
}

#[test]
fn a_gibibyte_of_zeros_is_read_at_its_end_in_little_memory() {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    let zeros = vec![0; 1 << 20];
    for _ in 0..1024 {
        encoder.write_all(&zeros).unwrap();
    }
    let stored = encoder.finish().unwrap();
    let cache = Arc::new(Cache::new(2 * GRANULE));
    let content = opened(Codec::Zlib, &stored, 1 << 30, &cache);
    let before = resident();
    let mut buf = [1; 4096];
    assert_eq!(content.read_at((1 << 30) - 4000, &mut buf).unwrap(), 4000);
    assert!(buf[..4000].iter().all(|byte| *byte == 0));
    assert_eq!(content.soundness(), Soundness::Sound);
    assert!(cache.held() <= cache.budget());
    // Other tests run concurrently; a decoder that holds the whole block would take a gibibyte.
    assert!(resident() < before + (512 << 20));
}

/// Returns the resident memory of this process in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
