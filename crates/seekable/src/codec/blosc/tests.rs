//! Buffers by real writers, buffers of our own making, and broken ones.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use md5::{Digest, Md5};
use proptest::prelude::*;
use serde_json::Value;

use super::blosclz::tests::encode;
use super::shuffle::tests::{shuffle_bits, shuffle_bytes};
use super::*;
use crate::codec::samples::Counted;
use crate::content::{Borrowed, Text};

/// Reads chunk by chunk, until the end or an error.
pub(super) fn read_all(chunks: &dyn Chunks) -> (Vec<u8>, Option<Error>) {
    let mut all = vec![];
    loop {
        let mut out = vec![];
        let result = chunks.find(all.len() as u64).and_then(|chunk| match chunk {
            None => Ok(false),
            Some(chunk) => {
                assert_eq!(chunk.offset, all.len() as u64, "chunks follow each other");
                let result = chunks.decode(chunk, &mut out);
                assert!(out.len() as u64 <= chunk.len);
                assert!(result.is_err() || out.len() as u64 == chunk.len);
                result.map(|()| true)
            }
        });
        all.append(&mut out);
        match result {
            Ok(true) => {}
            Ok(false) => return (all, None),
            Err(error) => return (all, Some(error)),
        }
    }
}

fn content(stored: &[u8]) -> Arc<dyn Content> {
    Arc::new(Text::new(stored))
}

fn decoded(stored: &[u8]) -> (Vec<u8>, Option<Error>) {
    read_all(&open(content(stored), 0))
}

pub(super) fn md5(bytes: &[u8]) -> String {
    Md5::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Puts the size before each buffer, as abacusutils does.
fn framed<'a>(buffers: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut row = vec![];
    for buffer in buffers {
        row.extend(u32::try_from(buffer.len()).expect("small").to_be_bytes());
        row.extend(buffer);
    }
    row
}

// ------------------------------------------------------------------ buffers by real writers

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/bloscpack")
}

/// A Blosc buffer from a Bloscpack file, and the MD5 of c-blosc's output.
struct Sample {
    name: String,
    stored: Vec<u8>,
    md5: String,
}

/// Returns the buffers of every Bloscpack file in a directory; the JSON files beside them give the offsets.
fn samples(folder: &Path) -> Vec<(String, Vec<Sample>, String)> {
    let mut files = vec![];
    for entry in fs::read_dir(folder).expect("the fixtures are there") {
        let path = entry.expect("listed").path();
        if path.extension().is_none_or(|extension| extension != "blp") {
            continue;
        }
        let name = path.file_stem().expect("named").to_string_lossy().into_owned();
        let bytes = fs::read(&path).expect("read");
        let truth = fs::read(path.with_extension("json")).expect("the truth is beside it");
        let truth: Value = serde_json::from_slice(&truth).expect("JSON");
        let number = |value: &Value| value.as_u64().map(|number| number as usize);
        let mut buffers = vec![];
        for chunk in truth["chunks"].as_array().expect("chunks") {
            // An item that was never written has no offset.
            let Some(start) = number(&chunk["offset"]) else { continue };
            let size = number(&chunk["blosc"]["cbytes"]).expect("a size");
            buffers.push(Sample {
                name: format!("{name}[{}]", chunk["index"]),
                stored: bytes[start..start + size].to_vec(),
                md5: chunk["md5"].as_str().expect("a sum").to_owned(),
            });
        }
        files.push((name, buffers, truth["payload"]["md5"].as_str().expect("a sum").to_owned()));
    }
    files.sort_by(|a, b| a.0.cmp(&b.0));
    files
}

fn check_folder(folder: &Path) -> usize {
    let mut count = 0;
    for (name, buffers, whole) in samples(folder) {
        let mut all = vec![];
        for sample in &buffers {
            let (bare, error) = decoded(&sample.stored);
            assert!(error.is_none(), "{}: {error:?}", sample.name);
            assert_eq!(md5(&bare), sample.md5, "{}", sample.name);

            let within = content(&[b"before it", &*sample.stored, b"after it"].concat());
            let buffer = Buffer::open(&*within, 9);
            let mut out = b"kept".to_vec();
            buffer.expect("opens").decode(&mut Scratch::default(), &mut out).expect("decodes");
            assert_eq!(&out[4..], bare, "{}, within other data", sample.name);
            all.extend(bare);
            count += 1;
        }
        assert_eq!(md5(&all), whole, "{name}");
        if !buffers.is_empty() {
            let (row, error) = decoded(&framed(buffers.iter().map(|sample| &*sample.stored)));
            assert!(error.is_none(), "{name}: {error:?}");
            assert!(row == all, "{name}, all buffers in a row");
        }
    }
    count
}

#[test]
fn buffers_of_real_writers_decode_to_what_c_blosc_makes_of_them() {
    assert!(check_folder(&fixtures()) > 80);
}

#[test]
fn both_framings_of_real_writers() {
    for name in ["bare", "framed"] {
        let stored = fs::read(fixtures().join(format!("{name}.blsc"))).expect("read");
        let truth = fs::read(fixtures().join(format!("{name}.blsc.json"))).expect("read");
        let truth: Value = serde_json::from_slice(&truth).expect("JSON");
        let data_size = truth["data_size"].as_u64().expect("a size");
        let chunks = open(content(&stored), data_size);
        let (all, error) = read_all(&chunks);
        assert!(error.is_none(), "{name}: {error:?}");
        assert_eq!(Some(&*md5(&all)), truth["md5"].as_str(), "{name}");
        assert_eq!(all.len() as u64, data_size);

        let mut seen = vec![];
        for offset in (0..data_size).rev().step_by(10_007) {
            let chunk = open(content(&stored), data_size).find(offset);
            let chunk = chunk.expect("found").expect("there");
            assert_eq!(chunks.find(offset).expect("found"), Some(chunk), "whatever was looked for before");
            let range = chunk.offset as usize..(chunk.offset + chunk.len) as usize;
            assert!(range.contains(&(offset as usize)));
            seen.push((chunk.index, chunk.offset));
            let mut out = vec![];
            chunks.decode(chunk, &mut out).expect("decodes");
            assert!(out == all[range], "{name}: chunk {}", chunk.index);
        }
        seen.dedup();
        assert!(seen.len() > 2, "several chunks");
        assert!(seen.windows(2).all(|pair| pair[0].0 == pair[1].0 + 1), "numbered in order");
        assert_eq!(chunks.find(data_size).expect("no error"), None);
        assert_eq!(chunks.find(u64::MAX).expect("no error"), None);
    }
}

// ------------------------------------------------------------------ buffers of our own making

/// The settings for making a buffer.
#[derive(Clone, Copy, Debug)]
struct Recipe {
    typesize: u8,
    blocksize: u32,
    flags: u8,
}

/// Compresses `data` by a simple method that follows the document, not the C library.
fn make(data: &[u8], recipe: Recipe) -> Vec<u8> {
    let Recipe { typesize, blocksize, flags } = recipe;
    let head = |cbytes: usize| {
        let mut head = vec![2, 1, flags, typesize];
        for number in [data.len() as u32, blocksize, cbytes as u32] {
            head.extend(number.to_le_bytes());
        }
        head
    };
    if flags & 2 != 0 {
        return [head(data.len() + 16), data.to_vec()].concat();
    }
    let blocks: Vec<&[u8]> = data.chunks(blocksize as usize).collect();
    let mut starts = vec![];
    let mut body = vec![];
    for block in blocks.iter().copied() {
        starts.extend(((16 + 4 * blocks.len() + body.len()) as i32).to_le_bytes());
        let shuffled = match flags & 5 {
            1 | 5 if typesize > 1 => shuffle_bytes(typesize.into(), block),
            4 | 5 => shuffle_bits(typesize.into(), block),
            _ => block.to_vec(),
        };
        let split = flags & 16 == 0
            && typesize <= 16
            && blocksize / u32::from(typesize) >= 128
            && block.len() as u32 == blocksize;
        for split in shuffled.chunks(if split { block.len() / usize::from(typesize) } else { block.len() }) {
            let mut stream = compress(split, flags >> 5);
            if stream.len() >= split.len() {
                stream = split.to_vec();
            }
            body.extend((stream.len() as i32).to_le_bytes());
            body.extend(stream);
        }
    }
    [head(16 + starts.len() + body.len()), starts, body].concat()
}

fn compress(data: &[u8], format: u8) -> Vec<u8> {
    match format {
        0 => encode(data, &[1, 4]),
        1 => lz4_flex::block::compress(data),
        2 => snap::raw::Encoder::new().compress_vec(data).expect("small enough"),
        3 => {
            let mut zlib = flate2::write::ZlibEncoder::new(vec![], flate2::Compression::fast());
            zlib.write_all(data).and_then(|()| zlib.finish()).expect("in memory")
        }
        _ => zstd::bulk::compress(data, 1).expect("in memory"),
    }
}

/// Returns numbers that grow slowly: shuffled, they compress.
fn slow(len: usize) -> Vec<u8> {
    (0..len as u32 / 4 + 1).flat_map(|i| (i.wrapping_mul(i) / 1000).to_le_bytes()).take(len).collect()
}

/// Returns random bytes.
fn noise(len: usize, mut seed: u64) -> Vec<u8> {
    (0..len).map(|_| random(&mut seed) as u8).collect()
}

fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

fn recipe() -> impl Strategy<Value = Recipe> {
    let typesize = prop_oneof![Just(1u8), Just(2), Just(4), Just(8), Just(16), 1u8..=255];
    let shuffle = prop_oneof![Just(0u8), Just(1), Just(4), Just(5), Just(16), Just(17), Just(20), Just(2)];
    (typesize, 1u32..300, shuffle, 0u8..5).prop_map(|(typesize, elements, shuffle, format)| Recipe {
        typesize,
        blocksize: u32::from(typesize) * elements,
        flags: shuffle | format << 5,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn what_is_made_is_decoded_in_both_framings(
        recipe in recipe(),
        len in 1usize..20_000,
        noisy in any::<bool>(),
        parts in 1usize..4,
    ) {
        let len = len.max(recipe.blocksize as usize);
        let data = if noisy { noise(len, 7) } else { slow(len) };
        let bare = make(&data, recipe);
        let (all, error) = decoded(&bare);
        prop_assert!(error.is_none(), "{error:?}");
        prop_assert!(all == data);
        let (all, error) = decoded(&framed(vec![&*bare; parts]));
        prop_assert!(error.is_none(), "{error:?}");
        prop_assert!(all == data.repeat(parts));
    }
}

#[test]
fn chunks_are_worth_their_while() {
    let lens = |stored: &[u8]| {
        let chunks = open(content(stored), 0);
        let mut lens = vec![];
        while let Some(chunk) = chunks.find(lens.iter().sum()).expect("sound") {
            assert_eq!(chunk.index, lens.len() as u64);
            lens.push(chunk.len);
        }
        lens
    };
    let recipe = |blocksize, flags| Recipe { typesize: 1, blocksize, flags };
    let data = slow(700_000);
    let small = make(&data, recipe(100_000, 0x30));
    assert_eq!(lens(&small), [300_000, 300_000, 100_000], "small blocks go together");
    let large = make(&data, recipe(400_000, 0x30));
    assert_eq!(lens(&large), [400_000, 300_000], "a large block is a chunk");
    let copied = make(&slow(2_500_000), recipe(2_500_000, 2));
    assert_eq!(lens(&copied), [1 << 20, 1 << 20, 402_848], "what is stored as it is, is cut");
    let tiny = make(&slow(100), recipe(100, 2));
    assert_eq!(lens(&framed(vec![&*tiny; 3000])), [262_200, 37_800], "small buffers go together");
    let row = framed([&*tiny, &tiny, &large, &tiny, &small]);
    assert_eq!(lens(&row), [200, 400_000, 300_000, 100, 300_000, 300_000, 100_000]);
}

#[test]
fn buffers_without_data() {
    let nothing = [2, 1, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0];
    assert!(decoded(&nothing).0.is_empty());
    assert!(decoded(&nothing).1.is_none());
    assert!(decoded(&[]).1.is_none());
    let tiny = make(b"abc", Recipe { typesize: 1, blocksize: 3, flags: 2 });
    let mut buffers = vec![&nothing[..]; 200_000];
    buffers.insert(150_000, &tiny);
    let (all, error) = decoded(&framed(buffers));
    assert_eq!((&*all, error.is_none()), (&b"abc"[..], true));
}

// ------------------------------------------------------------------ broken ones

#[test]
fn the_table_is_hopped_no_further_than_asked() {
    let one = make(&noise(300_000, 3), Recipe { typesize: 1, blocksize: 300_000, flags: 2 });
    let stored = Counted::new(framed(vec![&*one; 50]));
    let chunks = open(stored.clone(), 0);
    assert_eq!(stored.read(), 0, "nothing is read to open it");
    chunks.find(5 * 300_000).expect("found");
    let read = stored.read();
    assert!((1..1000).contains(&read), "{read} bytes read for six headers");
    chunks.find(5 * 300_000 + 1).expect("found");
    chunks.find(4).expect("found");
    assert!(stored.read() < read + 100);
}

#[test]
fn a_cut_gives_a_good_prefix_and_an_error() {
    let data = slow(3000);
    for flags in [0x00, 0x10, 0x20, 0x21, 0x31, 0x24, 0x41, 0x61, 0x81, 0x90, 0x02] {
        let stored = make(&data, Recipe { typesize: 4, blocksize: 640, flags });
        let mut most = 0;
        for cut in 1..stored.len() {
            let (good, error) = decoded(&stored[..cut]);
            assert!(error.is_some(), "flags {flags}, {cut} bytes");
            assert!(data.starts_with(&good), "flags {flags}, {cut} bytes");
            most = most.max(good.len());
            let (good, error) = decoded(&framed([&*stored, &stored])[..stored.len() + 4 + cut]);
            assert!(error.is_some());
            assert!(good.len() >= data.len() && data.repeat(2).starts_with(&good));
        }
        assert!(most >= 2560, "flags {flags}: only {most} bytes of a buffer that is nearly whole");
    }
}

#[test]
fn whole_splits_before_the_damage_are_good_unless_shuffled() {
    let data = slow(4000);
    for (flags, good) in [(0x20, 2000 + 1000), (0x21, 2000)] {
        let mut stored = make(&data, Recipe { typesize: 4, blocksize: 2000, flags });
        let start = u32::from_le_bytes(stored[20..24].try_into().expect("four")) as usize;
        let third = (0..2).fold(start, |at, _| {
            at + 4 + u32::from_le_bytes(stored[at..at + 4].try_into().expect("four")) as usize
        });
        stored[third..third + 4].copy_from_slice(&(-1i32).to_le_bytes());
        let (all, error) = decoded(&stored);
        let error = error.expect("broken");
        assert!(error.message().starts_with("Blosc block 1: a stream says"), "{error}");
        assert_eq!(all.len(), good);
        assert!(data.starts_with(&all));
    }
}

#[test]
fn a_large_claim_is_refused_before_anything_is_allocated() {
    let mut stored = make(&slow(1000), Recipe { typesize: 1, blocksize: 1000, flags: 0x30 });
    for (nbytes, kind) in [((256 << 20) + 1, Kind::Unsupported), (256 << 20, Kind::Damaged)] {
        for field in [4, 8] {
            stored[field..field + 4].copy_from_slice(&u32::to_le_bytes(nbytes));
        }
        let mut scratch = Scratch::default();
        let mut out = vec![];
        let stored = Borrowed(&stored);
        let buffer = Buffer::open(&stored, 0).expect("opens");
        let error = buffer.decode(&mut scratch, &mut out).expect_err("too much");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(out.capacity() < 1 << 20);
    }
}

#[test]
fn a_framing_that_fits_nothing_is_named() {
    for stored in [&[0; 40][..], b"too short", &[2], &[9; 24]] {
        let (all, error) = decoded(stored);
        assert!(all.is_empty());
        assert_eq!(error.expect("no Blosc").kind(), Kind::Damaged);
    }
    let buffer = make(&slow(500), Recipe { typesize: 4, blocksize: 500, flags: 0x21 });
    let padded = [&*buffer, &[0; 12]].concat();
    assert_eq!(decoded(&padded).0, slow(500), "what follows a bare buffer is no part of it");
    let mut row = framed([&*buffer, &buffer]);
    row[buffer.len() + 7] ^= 1;
    let (all, error) = decoded(&row);
    assert_eq!(all, slow(500));
    assert!(error.expect("sizes differ").message().contains("but the size before it says"));
}

/// Changes a few bytes, most of them in the header, the block table and the sizes of streams.
fn mutate(stored: &mut Vec<u8>, seed: &mut u64) {
    for _ in 0..=random(seed) % 4 {
        let range = if random(seed).is_multiple_of(3) { stored.len() } else { stored.len().min(32) };
        let at = random(seed) as usize % range;
        match random(seed) % 4 {
            0 => stored[at] = random(seed) as u8,
            1 => stored[at] ^= 1 << (random(seed) % 8),
            2 => {
                let word = [0, 1, 16, 0xffff_ffff, 0x7fff_ffff, 1 << 20][random(seed) as usize % 6];
                let end = stored.len().min(at / 4 * 4 + 4);
                stored[at / 4 * 4..end].copy_from_slice(&u32::to_le_bytes(word)[..end - at / 4 * 4]);
            }
            _ if random(seed).is_multiple_of(4) && at > 0 => stored.truncate(at),
            _ => stored[at] = 0xff,
        }
    }
}

#[test]
fn broken_buffers_are_survived() {
    let mut buffers: Vec<Vec<u8>> = vec![];
    for (_, samples, _) in samples(&fixtures()) {
        buffers.extend(samples.into_iter().map(|sample| sample.stored).take(1));
    }
    for flags in [0x00, 0x01, 0x21, 0x24, 0x41, 0x61, 0x81, 0x90, 0x02] {
        buffers.push(make(&slow(3000), Recipe { typesize: 4, blocksize: 640, flags }));
    }
    let mut seed = 0x5eed;
    let mut broken = 0;
    let mut decoded_some = 0;
    let mut scratch = Scratch::default();
    for round in 0..12_000 {
        let original = &buffers[round % buffers.len()];
        let mut stored = if round % 3 == 0 { framed([&**original, original]) } else { original.clone() };
        mutate(&mut stored, &mut seed);
        let chunks = open(content(&stored), 0);
        for offset in [0, random(&mut seed) % 10_000, random(&mut seed)] {
            let Ok(Some(chunk)) = chunks.find(offset) else { continue };
            assert!(chunk.offset <= offset && offset - chunk.offset < chunk.len);
            let mut out = vec![];
            match chunks.decode(chunk, &mut out) {
                Ok(()) => decoded_some += 1,
                Err(_) => broken += 1,
            }
            assert!(out.len() as u64 <= chunk.len);
        }
        if let Ok(buffer) = Buffer::open(&Borrowed(&stored), 0) {
            let mut out = vec![];
            let _ = buffer.decode(&mut scratch, &mut out);
            // The bound holds the maximum ratio of any codec, and the step by which a reader's memory grows.
            let held = out.capacity() + scratch.held();
            assert!(held <= (8 << 20) + stored.len() * 4 * 1100, "{held} bytes held for {}", stored.len());
        }
    }
    assert!(broken > 1000 && decoded_some > 1000, "{broken} broken, {decoded_some} not");
}
