//! One damaged field: all bytes that can be read are right, and only the chunk of the field is lost.

use std::path::Path;

use seekable::content::Content;

use super::{block, file, open, read, whole};
use common::bloscpack_builder::Pack;

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/bloscpack").join(name)).unwrap()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Returns offset and uncompressed length of each chunk.
fn chunks(bytes: &[u8]) -> Vec<(usize, usize)> {
    let container = open(bytes).unwrap();
    let count = container.block_count().unwrap();
    let place = |n| block(&*container, n).facts.offset as usize;
    (0..count).map(place).map(|at| (at, word(bytes, at + 4) as usize)).collect()
}

fn data(bytes: &[u8]) -> std::sync::Arc<dyn Content> {
    file(&open(bytes).unwrap(), "data.bin").unwrap().content.unwrap()
}

/// Reads a file from several offsets, continuing after an error at the next end of a chunk; returns for each
/// byte if it could be read. No byte may be wrong.
fn readable(bytes: &[u8], truth: &[u8], ends: &[usize], what: &str) -> Vec<bool> {
    let mut found = vec![false; truth.len()];
    let content = data(bytes);
    let mut read_on = |content: &dyn Content, mut at: usize| {
        let mut piece = vec![0; 4000];
        while at < truth.len() {
            let read = content.read_at(at as u64, &mut piece).unwrap_or(0);
            assert!(at + read <= truth.len(), "{what}: {read} bytes at {at}");
            assert!(piece[..read] == truth[at..at + read], "{what}: wrong bytes at {at}");
            found[at..at + read].fill(true);
            let next = ends.iter().find(|end| **end > at).copied().unwrap_or(truth.len());
            at = if read > 0 { at + read } else { next };
        }
    };
    read_on(&*content, 0);
    // Nothing is known about the chunks before these offsets.
    for start in [truth.len() * 3 / 4, truth.len().saturating_sub(1)] {
        read_on(&*data(bytes), start);
    }
    found
}

fn ends(chunks: &[(usize, usize)]) -> Vec<usize> {
    chunks
        .iter()
        .scan(0, |end, (_, len)| {
            *end += len;
            Some(*end)
        })
        .collect()
}

/// Damages each field of each chunk's header.
fn each_header(name: &str, bytes: &[u8], own_range_only: bool) {
    let truth = whole(&*data(bytes));
    let mut start = 0;
    let chunks = chunks(bytes);
    let ends = ends(&chunks);
    for (n, (at, len)) in chunks.into_iter().enumerate() {
        for field in [4, 8, 12] {
            let old = word(bytes, at + field);
            for new in [0, old + 1, old - 1, old * 2] {
                let mut changed = bytes.to_vec();
                changed[at + field..at + field + 4].copy_from_slice(&new.to_le_bytes());
                let what = format!("{name}: chunk {n}, field {field} from {old} to {new}");
                let found = readable(&changed, &truth, &ends, &what);
                if own_range_only {
                    let rest = [&found[..start], &found[start + len..]].concat();
                    assert!(rest.iter().all(|read| *read), "{what}: another chunk is lost");
                    assert_eq!(data(&changed).len(), truth.len() as u64, "{what}");
                    let end = read(&*data(&changed));
                    assert!(end.0.len() == truth.len() || end.1.is_some(), "{what}: short without an error");
                    assert!(new == old || bytes[6] == 0 || !found[start], "{what}: was read");
                }
            }
        }
        start += len;
    }
}

#[test]
fn a_field_of_a_chunk_costs_that_chunk_alone() {
    for name in ["checksum_adler32", "checksum_none"] {
        let bytes = fixture(&format!("bloscpack0.16.0-blosc1.11.4_{name}.blp"));
        assert!(chunks(&bytes).len() > 2, "{name}");
        each_header(name, &bytes, true);
    }
}

/// Small chunks are decoded many at a time, and their sizes are summed if the header does not give them.
#[test]
fn small_chunks_are_told_apart() {
    let truth: Vec<u8> = (0..2000_u32).flat_map(|n| (n * 7).to_le_bytes()).collect();
    let pack = Pack::new(24, &truth);
    let stated = Pack { nchunks: 12, last_chunk: 24, chunks: pack.chunks[..12].to_vec(), ..pack.clone() };
    each_header("small", &stated.build(), true);
    let (chunk_size, last_chunk) = (-1, -1);
    let bytes =
        Pack { chunk_size, last_chunk, nchunks: 8, chunks: pack.chunks[..8].to_vec(), ..pack.clone() };
    each_header("counted", &bytes.build(), false);
    // Damage to a chunk's data affects no other chunk, with known and unknown lengths.
    for options in [0, 1] {
        for (chunk_size, last_chunk) in [(24, pack.last_chunk), (-1, -1)] {
            let pack = Pack { options, chunk_size, last_chunk, ..pack.clone() };
            let mut bytes = pack.build();
            let ends = ends(&chunks(&bytes));
            for n in [0, 100, 101, 333] {
                bytes[pack.places()[n] + 20] ^= 1;
            }
            let found = readable(&bytes, &truth, &ends, "data");
            for (n, chunk) in found.chunks(24).enumerate() {
                let lost = [0, 100, 101, 333].contains(&n);
                assert!(chunk.iter().all(|read| *read != lost), "{options} {chunk_size}: chunk {n}");
            }
        }
    }
}

#[test]
fn a_field_of_the_file_shifts_nothing() {
    let adler32 = fixture("bloscpack0.16.0-blosc1.11.4_checksum_adler32.blp");
    let meta = fixture("bloscpack0.16.0-blosc1.11.4_meta_plain.blp");
    let items: Vec<Vec<u8>> = (0..30_u8).map(|n| vec![n; usize::from(n) * 3]).collect();
    let items: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
    let variable = Pack::variable(&items, b"{'dtype': 'varchar', 'shape': [30]}").build();
    let files = [("adler32", adler32), ("metadata", meta), ("variable", variable)];
    for (name, bytes) in &files {
        let truth = whole(&*data(bytes));
        let chunks = chunks(bytes);
        let (first, ends) = (chunks[0].0, ends(&chunks));
        for at in (4..first.min(48)).chain(first.saturating_sub(8)..first) {
            for value in [bytes[at].wrapping_add(1), bytes[at].wrapping_sub(1), bytes[at] ^ 8] {
                let mut changed = bytes.clone();
                changed[at] = value;
                let Ok(container) = open(&changed) else { continue };
                let Ok(content) = file(&container, "data.bin").unwrap().content else { continue };
                let what = format!("{name}: byte {at} from {} to {value}", bytes[at]);
                readable(&changed, &truth, &ends, &what);
                let (there, error) = read(&*content);
                assert!(there == truth || error.is_some(), "{what}: {} bytes without an error", there.len());
            }
        }
    }
}
