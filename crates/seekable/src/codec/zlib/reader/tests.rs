//! The reader with segments decoded ahead, and with concurrent readers.

use std::io::Write;

use super::super::Scale;
use super::*;
use crate::cache::Cache;
use crate::codec::deflate::BlockFinder;
use crate::codec::samples::Dice;
use crate::content::Text;

/// Returns the bytes of a stream, and a reader at its start.
fn stream() -> (Vec<u8>, ZlibReader) {
    let mut dice = Dice(17);
    let truth: Vec<u8> = (0..1_500_000).map(|_| dice.roll(9) as u8).collect();
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&truth).unwrap();
    let stored = Arc::new(Text::new(encoder.finish().unwrap()));
    let scale = Scale { spacing: 400_000, segment: 400_000, least_bits: 8 << 13 };
    let cache = Arc::new(Cache::with_threads(1 << 20, 1));
    let zlib = Arc::new(ZlibTable::new(stored, scale, &cache, None));
    (truth, ZlibReader::new(zlib, Position::block_at(zlib::FIRST_BIT, 0), Vec::new()))
}

#[test]
fn a_piece_is_copied_out_in_parts_and_its_rest_as_a_segment() {
    let (truth, mut reader) = stream();
    let stored = reader.zlib.stored.clone();
    let mut out = Vec::new();
    let cut = stored.len() * 8 / 3;
    let start = BlockFinder::new().find(&*stored, cut, u64::MAX).unwrap().unwrap();
    let piece = || {
        let start = Position::block_at(start, 0);
        let request = PieceRequest { start, until: u64::MAX, cap: 400_000, spacing: 100_000 };
        let mut piece = Box::new(Piece::new());
        piece.decode(&mut Inflate::new(), &*stored, request, None);
        piece
    };
    // The piece does not begin at the reader's position yet.
    assert!(!reader.take_piece(piece()) && reader.give(&mut [0; 10]).is_none());
    while reader.here.bit < start {
        reader.decode_segment(cut, u64::MAX, &mut out).unwrap();
    }
    let mut at = reader.here.offset as usize;
    // A piece without output is not given: zero bytes would mean the end of the stream.
    let mut empty = Box::new(Piece::new());
    let request = PieceRequest { start: Position::block_at(start, 0), until: u64::MAX, cap: 0, spacing: 0 };
    empty.decode(&mut Inflate::new(), &*stored, request, None);
    assert!(empty.is_empty() && reader.take_piece(empty) && reader.read(&mut [0]).is_none());
    assert!(reader.take_piece(piece()));
    for len in [1000, 1, 250_000] {
        let mut part = vec![0; len];
        assert_eq!(reader.read(&mut part).unwrap().unwrap(), len);
        assert!(part == truth[at..at + len]);
        at += len;
    }
    assert!(reader.next(&mut out).unwrap() == Some(0) && out == truth[at..at + out.len()]);
    at += out.len();
    assert!(reader.here.offset == at as u64 && reader.read(&mut [0]).is_none());
    // Checkpoints of the piece that are not too close to another one are in the table.
    let marks = reader.zlib.offsets();
    assert!(marks.iter().any(|mark| (at - out.len() - 251_001..at).contains(&(*mark as usize))), "{marks:?}");
    let start = reader.next(&mut out).unwrap().unwrap();
    assert!(out[start..] == truth[at..at + out.len() - start]);
}

#[test]
fn concurrent_readers_divide_the_threads() {
    let reader = |cache: &Arc<Cache>, wanted| {
        let zlib = ZlibTable::new(Arc::new(Text::new(vec![])), Scale::of(0), cache, None);
        let mut reader = ZlibReader::new(Arc::new(zlib), Position::block_at(zlib::FIRST_BIT, 0), Vec::new());
        reader.wanted(wanted);
        reader
    };
    let cache = Arc::new(Cache::with_threads(1 << 20, 4));
    let one = reader(&cache, u64::MAX);
    let other = reader(&cache, u64::MAX);
    assert_eq!([&one, &other, &one].map(|reader| reader.threads().0), [4, 2, 2]);
    let many: Vec<_> = (0..8).map(|_| reader(&cache, u64::MAX)).collect();
    assert_eq!(many.iter().map(|reader| reader.threads().0).min(), Some(1));
    drop((other, many));
    assert_eq!(one.threads().0, 4);
    // Random readers take nothing from sequential ones.
    let many: Vec<_> = (0..8).map(|_| reader(&cache, 0)).collect();
    assert!((0..50).all(|n| many[n % 8].threads().0 == 1 && one.threads().0 == 4));
    // Each reader has a thread, and few threads are idle.
    for (threads, readers) in (1..=16).flat_map(|threads| (1..=16).map(move |readers| (threads, readers))) {
        let cache = Arc::new(Cache::with_threads(1 << 20, threads));
        let readers: Vec<_> = (0..readers).map(|_| reader(&cache, u64::MAX)).collect();
        let together: Vec<_> = (0..32).map(|n| readers[n % readers.len()].threads().0).collect();
        let least = threads - threads / 3;
        let most = readers.len().max(threads + threads / 2);
        let all = together[16..].iter().take(readers.len()).sum::<usize>();
        assert!((least..=most).contains(&all), "{threads} threads, {} readers: {all}", readers.len());
    }
}

#[test]
fn its_share_has_checkpoints_counted_from_the_last_one_before() {
    let (truth, mut reader) = stream();
    let zlib = reader.zlib.clone();
    // The state after a piece that began there.
    reader.marked = 150_000;
    let mut out = Vec::new();
    let mut at = 0;
    while at < truth.len() {
        let start = reader.decode_segment(u64::MAX, u64::MAX, &mut out).unwrap();
        assert!(out[start..] == truth[at..at + out.len() - start]);
        at += out.len() - start;
    }
    let offsets = zlib.offsets();
    let due = [550_000, 950_000, 1_350_000];
    assert!(
        offsets.len() == 3 && offsets.iter().zip(due).all(|(offset, due)| (due..due + 1000).contains(offset)),
        "{offsets:?}"
    );
}
