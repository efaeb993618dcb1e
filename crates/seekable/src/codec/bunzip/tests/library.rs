//! Streams compressed by the library.

use super::super::{BlockChain, Candidates, Decoder, Level, Magic, StreamElement};
use super::*;
use crate::content::Content;

#[track_caller]
fn assert_made(level: u32, kind: Data, len: usize) {
    let data = kind.make(len);
    assert_decodes(&compress(level, &data), &data, &format!("{len} bytes of {kind:?}, level {level}"));
}

#[test]
fn every_level_and_kind_at_small_sizes() {
    for level in 1..=9 {
        for kind in Data::ALL {
            for len in [0, 1, 2, 3, 4, 5, 63, 255, 256, 260, 1000, 12_345] {
                assert_made(level, kind, len);
            }
        }
    }
}

#[test]
fn sizes_around_and_above_a_block() {
    for (level, lens) in
        [(1, &[99_970, 100_003, 250_000][..]), (2, &[199_981, 200_000, 400_019]), (9, &[899_981, 1_000_000])]
    {
        for kind in Data::ALL {
            for len in lens {
                assert_made(level, kind, *len);
            }
        }
    }
}

#[test]
fn runs_of_every_length_near_the_limits() {
    let lengths = [
        1, 2, 3, 4, 5, 6, 7, 8, 250, 251, 254, 255, 256, 258, 259, 260, 263, 264, 509, 510, 511, 514, 518,
        519,
    ];
    let mut mixed = Vec::new();
    for (k, &len) in lengths.iter().enumerate() {
        // Run counts that equal the byte before or after them, and adjacent runs.
        for byte in [0u8, 1, (len % 256) as u8, (len as u8).wrapping_sub(4), k as u8] {
            let data = vec![byte; len];
            assert_decodes(&compress(1, &data), &data, &format!("{len} times {byte}"));
            mixed.extend(&data);
            mixed.push(k as u8);
        }
    }
    assert_decodes(&compress(9, &mixed), &mixed, "all of them");
}

#[test]
fn a_block_of_46_megabytes_comes_in_pieces() {
    const LEN: usize = 45_000_000;
    let content = Text::new(compress(9, &vec![7; LEN]));
    let mut decoder = Decoder::new();
    let block = decoder.decode_at(&content, 32, Level::MAX).unwrap();
    assert_eq!(block.len, LEN as u64);
    let mut piece = vec![0; 1 << 20];
    let mut most = vec![0; LEN - 1_500_000];
    assert_eq!(decoder.read(&mut most), most.len());
    for wanted in [1 << 20, 1_500_000 - (1 << 20), 0] {
        assert_eq!(decoder.bytes_left() > 0, wanted > 0);
        assert_eq!(decoder.read(&mut piece), wanted);
        assert!(piece[..wanted].iter().all(|&byte| byte == 7));
    }
}

#[test]
fn streams_behind_each_other_of_any_level_and_empty_ones() {
    let parts: Vec<(u32, Vec<u8>)> = [(3, 5), (9, 0), (1, 250_000), (5, 1), (1, 0), (9, 70_000)]
        .into_iter()
        .zip(Data::ALL.into_iter().cycle())
        .map(|((level, len), kind)| (level, kind.make(len)))
        .collect();
    let streams: Vec<u8> = parts.iter().flat_map(|(level, data)| compress(*level, data)).collect();
    let data: Vec<u8> = parts.into_iter().flat_map(|(_, data)| data).collect();
    assert_decodes(&streams, &data, "six streams");
    let mut library = bzip2::read::MultiBzDecoder::new(&streams[..]);
    assert_eq!(drain(|out| library.read(out).ok()), (data.clone(), true));

    for garbage in ["B", "BZ", "BZh", "BZh0", "\0\0\0\0\0", "BZZh9"] {
        let with_garbage = [&streams[..], garbage.as_bytes()].concat();
        assert_decodes(&with_garbage, &data, garbage);
    }
    // A header must be followed by a stream.
    let (out, fault) = by_us(&[&streams[..], b"BZh9"].concat());
    assert!(out == data && matches!(fault, Some(Fault::Truncated { .. })));
}

#[test]
fn blocks_found_apart_make_the_chain() {
    let data = Data::Image.make(730_000);
    let stream = compress(1, &data);
    let mut content = compress(1, &data);
    // Blocks outside of any stream.
    content.extend(b"no stream");
    content.extend(&stream[4..]);
    let content = Text::new(content);
    let found: Vec<_> = Candidates::new(&content, 0..content.len()).map(|found| found.unwrap()).collect();
    let mut decoder = Decoder::new();
    let level = Level::from_digit(b'1').unwrap();
    // The blocks are decoded backwards: any order works.
    let mut blocks: Vec<_> = found
        .iter()
        .rev()
        .filter(|candidate| candidate.magic == Magic::Block)
        .map(|candidate| {
            let block = decoder.decode_at(&content, candidate.bit, level).unwrap();
            let mut out = vec![0; block.len as usize];
            assert_eq!(decoder.read(&mut out), out.len());
            (block, out)
        })
        .collect();
    blocks.reverse();
    assert_eq!(blocks.len(), 16);
    assert!(found.iter().filter(|candidate| candidate.magic == Magic::EndOfStream).count() == 2);
    let mut chain = BlockChain::new();
    let mut out = Vec::<u8>::new();
    loop {
        match chain.next(&content).unwrap() {
            StreamElement::Block { bit, level: of_stream } => {
                assert_eq!(of_stream, level);
                let (block, bytes) = blocks.iter().find(|(block, _)| block.start == bit).unwrap();
                let other = blocks.iter().find(|(block, _)| block.start != bit).unwrap();
                assert!(!chain.accept(&other.0));
                assert!(chain.accept(block));
                assert!(!chain.accept(block));
                out.extend(bytes);
            }
            StreamElement::End { byte, trailing } => {
                assert_eq!((byte, trailing), (stream.len() as u64, content.len() - stream.len() as u64));
                break;
            }
        }
    }
    assert!(out == data);
}
