//! Entries that hold a literal and the length after it: at the edges of the table, of the room and of the
//! input, and with an error after the literal.

use super::*;
use crate::codec::features::tests::both_ways;
use writer::codes;

const END: usize = 256;
/// A length of 13 or 14: one extra bit.
const LENGTH: usize = 266;
/// A distance of 4.
const NEAR: usize = 3;
/// A distance of 24577 and more.
const FAR: usize = 29;

/// A block of literals and matches.
struct Block {
    bytes: Vec<u8>,
    plain: Vec<u8>,
    /// The bit at which the block's last length begins.
    bit: u64,
}

/// Writes a block of the literal 65 with matches after it; `literal` and `length` are the code lengths of
/// both symbols. `last` is the distance of the last match, or `None` for an invalid code. More data follows.
fn block(literal: u8, length: u8, last: Option<usize>) -> Block {
    // One code of each length, and two of 15 bits: the other literals take the remaining ones.
    let mut lengths = vec![0; 286];
    (lengths[65], lengths[LENGTH]) = (literal, length);
    let other_lengths = (1..=15).chain([15]).filter(|&bits| bits != literal && bits != length);
    for (bits, symbol) in
        other_lengths.collect::<Vec<_>>().into_iter().rev().zip([END].into_iter().chain(66..))
    {
        lengths[symbol] = bits;
    }
    // One bit for each distance, or for the near one only.
    let mut distances = vec![0; 30];
    distances[NEAR] = 1;
    distances[FAR] = u8::from(last.is_some());
    let mut writer = Writer::default();
    writer.put(0b100, 3);
    writer.header(&lengths, &distances);
    let (codes, far) = (codes(&lengths), codes(&distances));
    for round in 0..80 {
        // Other literals come before at times, alone and in pairs.
        let others = (66..79).cycle().skip(round).take(if round == 0 { 13 } else { round % 4 });
        for symbol in others.chain([65]) {
            writer.code(codes[symbol]);
            writer.plain.push(symbol as u8);
        }
        if round == 79 {
            break;
        }
        writer.code(codes[LENGTH]);
        writer.put(round as u64 & 1, 1);
        writer.code(far[NEAR]);
        for _ in 0..13 + (round & 1) {
            writer.plain.push(writer.plain[writer.plain.len() - 4]);
        }
    }
    let bit = writer.end();
    writer.code(codes[LENGTH]);
    writer.put(0, 1);
    match last {
        Some(last) => writer.code(far[last]),
        None => writer.put(1, 1),
    }
    if last == Some(NEAR) {
        for _ in 0..13 {
            writer.plain.push(writer.plain[writer.plain.len() - 4]);
        }
        writer.code(codes[END]);
        writer.stored(&[7; 999], true);
    } else {
        for _ in 0..150 {
            writer.put(0, 64);
        }
    }
    Block { bytes: writer.bytes, plain: writer.plain, bit }
}

/// Returns pairs of code lengths, of a literal and of a length. Their sum is close to the bits that the table
/// looks up.
fn edges() -> impl Iterator<Item = (u8, u8)> {
    let pairs = (1..13u8).flat_map(|literal| (9..=13).map(move |both| (literal, both - literal.min(both))));
    pairs.filter(|&(literal, length)| (1..13).contains(&length) && literal != length)
}

#[test]
fn literals_and_lengths_at_the_edge_of_the_table_decode() {
    assert!(edges().count() > 40);
    both_ways(|| {
        for (literal, length) in edges() {
            let Block { bytes, plain, .. } = block(literal, length, Some(NEAR));
            assert_eq!(reference(&bytes), (plain.clone(), Ok(true)));
            let stored = Bytes::new(bytes);
            for room in [1, 2, 7, 14, 15, 275, 276, 300, 9999] {
                let (out, end) = decode(&stored, 0, || room);
                assert!(out == plain && end.is_ok(), "{literal} and {length} bits, {room} at a time");
            }
        }
    });
}

#[test]
fn input_may_end_between_a_literal_and_its_length() {
    both_ways(|| {
        let Block { bytes, plain, .. } = block(4, 7, Some(NEAR));
        for cut in 0..bytes.len() {
            let (out, end) = decode(&Bytes::new(&bytes[..cut]), 0, || 9999);
            assert!(plain.starts_with(&out) && end.is_err());
            assert_eq!(out, reference(&bytes[..cut]).0, "cut at {cut}");
        }
    });
}

#[test]
fn decoding_starts_again_between_a_literal_and_its_length() {
    let Block { bytes, plain, .. } = block(4, 7, Some(NEAR));
    let stored = Bytes::new(bytes);
    both_ways(|| {
        let mut inflate = Inflate::new();
        let mut again = Inflate::new();
        inflate.start(&stored, Position::block_at(0, 0)).unwrap();
        let mut out = plain.clone();
        let mut between = 0;
        for filled in 0..plain.len() {
            if inflate.pending() == 0 {
                let position = inflate.position();
                between += usize::from(filled > 0 && plain[filled - 1] == 65);
                let mut rest = plain[..filled].to_vec();
                again.decode_from(&stored, position, &mut rest, plain.len() - filled).unwrap();
                assert!(rest == plain, "{position:?}");
            }
            inflate.decode(&stored, &mut out[..filled + 1], filled).1.unwrap();
        }
        assert!(between > 70, "{between}");
    });
}

#[test]
fn a_literal_is_given_whatever_is_wrong_behind_it() {
    both_ways(|| {
        for (literal, length) in edges() {
            for (last, reason) in [(None, Reason::Distance), (Some(FAR), Reason::TooFar)] {
                let Block { bytes, plain, bit } = block(literal, length, last);
                let stored = Bytes::new(bytes);
                let (out, end) = decode(&stored, 0, || 9999);
                let fault = end.unwrap_err();
                assert!(matches!(fault.why, Cause::Broken(why) if why == reason), "{fault}");
                assert_eq!((out, fault.bit), (plain, bit), "{literal} and {length} bits");
            }
        }
    });
}

#[test]
fn so_it_is_where_the_output_before_is_not_known() {
    both_ways(|| {
        for (literal, length) in edges() {
            let mut inflate = Inflate::new();
            let mut piece = Piece::new();
            let mut decode = |bytes, out: &mut Vec<u8>| {
                let start = Position::block_at(0, 0);
                let request = PieceRequest { start, until: u64::MAX, cap: 9999, spacing: 0 };
                piece.decode(&mut inflate, &Bytes::new(bytes), request, None);
                *out = resolved(&mut Resolver::new(), &piece, &[]);
                (out.len() == piece.len(), piece.ending().clone())
            };
            let mut out = Vec::new();
            let Block { bytes, plain, bit } = block(literal, length, None);
            let (_, ending) = decode(bytes, &mut out);
            assert!(matches!(ending, Ending::Fault(fault) if fault.bit == bit));
            assert!(out == plain);
            let Block { bytes, plain, .. } = block(literal, length, Some(FAR));
            assert!(!decode(bytes, &mut out).0);
            assert!(out == plain);
        }
    });
}
