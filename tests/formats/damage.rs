//! Damaged files: readable data are shown, the rest is an error, and no byte is invented.

use std::sync::Arc;

use asdf_views::format;

use asdf_file::container::Context;
use seekable::cache::Cache;

use crate::counted::CountedSource;
use crate::open::{assert_holds, open, read};
use common::asdf::{AsdfBuilder, Block, Built, Index, sample};
use common::damaged;
use common::encode::{self, Encoding};

fn two_and(broken: Block) -> Built {
    AsdfBuilder::new()
        .blocks([Block::new(sample(500, 1)), Block::new(sample(500, 2)), broken])
        .index(Index::Absent)
        .build()
}

/// Opens a file, which may fail, and reads all of it. Every returned byte must be right.
///
/// Returns the number of complete blocks.
fn read_what_can_be_read(case: &str, bytes: &[u8], truth: &Built) -> usize {
    let Ok(opened) = open(bytes) else { return 0 };
    let Ok(count) = opened.container.block_count() else { return 0 };
    let mut whole = 0;
    for n in 0..count {
        let Ok(content) = opened.container.block(n).and_then(|block| block.content) else { continue };
        let (data, end) = read_prefix(&*content);
        let Some(wanted) = truth.blocks.get(n) else { continue };
        assert!(wanted.data.starts_with(&data), "{case}: block {n} gives bytes that are not in it");
        whole += usize::from(end.is_ok() && data.len() == wanted.data.len());
    }
    whole
}

/// Reads up to the end or the first error. There is no other end than that of the content.
fn read_prefix(content: &dyn seekable::content::Content) -> (Vec<u8>, asdf_access::Result<()>) {
    let (mut bytes, mut piece) = (Vec::new(), vec![0; 1000]);
    loop {
        assert!(bytes.len() as u64 <= content.len(), "it goes on behind its end");
        match content.read_at(bytes.len() as u64, &mut piece) {
            Ok(0) => {
                assert_eq!(bytes.len() as u64, content.len(), "it ends early, without an error");
                return (bytes, Ok(()));
            }
            Ok(n) => bytes.extend(&piece[..n]),
            Err(error) => return (bytes, Err(error)),
        }
    }
}

#[test]
fn cut_anywhere() {
    let whole = damaged::small_file();
    for end in 0..whole.bytes.len() {
        let readable = read_what_can_be_read(&format!("cut at {end}"), &whole.bytes[..end], &whole);
        let wanted =
            whole.blocks.iter().filter(|block| block.data_offset + block.used_size <= end as u64).count();
        assert_eq!(readable, wanted, "cut at {end}: blocks that are whole");
    }
}

#[test]
fn sizes_that_overflow_or_lie_outside() {
    for size in [u64::MAX, u64::MAX - 53, i64::MAX as u64, 1 << 40, 501] {
        for block in [
            Block::new(sample(500, 3)).claim_used(size),
            Block::new(sample(500, 3)).claim_allocated(size),
            Block::new(sample(500, 3)).claim_data(size),
            Block::new(sample(500, 3)).claim_used(size).claim_allocated(size).claim_data(size),
            Block::new(sample(500, 3)).encoding(Encoding::Zlib).claim_data(size),
            Block::new(sample(500, 3)).encoding(Encoding::Lz4(100)).claim_data(size),
            Block::new(sample(500, 3)).encoding(Encoding::Zstd).claim_data(size),
        ] {
            let built = two_and(block.clone());
            let readable = read_what_can_be_read(&format!("size {size}: {block:?}"), &built.bytes, &built);
            assert!(readable >= 2, "size {size}: the blocks before are whole");
        }
    }
}

#[test]
fn headers_that_are_too_short() {
    for size in [0, 1, 35, 36, 40, 44, 47] {
        let built = two_and(Block::new(sample(500, 3)).claim_header_size(size));
        let readable = read_what_can_be_read(&format!("header_size {size}"), &built.bytes, &built);
        assert!(readable >= 2, "header_size {size}: the blocks before are whole");
    }
}

#[test]
fn a_broken_stream_gives_its_good_prefix_then_an_error() {
    let data = sample(400_000, 4);
    for encoding in Encoding::all() {
        if matches!(encoding, Encoding::Stored) {
            continue;
        }
        let mut stored = encoding.encode(&data);
        stored.truncate(stored.len() * 2 / 3);
        let block = Block::new(data.clone()).encoding(Encoding::Raw(encoding.label(), stored));
        let built = two_and(block);
        let opened = open(&built.bytes).unwrap();
        let content = match opened.container.block(2).unwrap().content {
            Ok(content) => content,
            // A Blosc buffer has its length in the header; if truncated, it may not be a valid buffer.
            Err(_) if matches!(encoding, Encoding::Blosc) => continue,
            Err(error) => panic!("{encoding:?}: {error}"),
        };
        let (prefix, end) = read_prefix(&*content);
        assert!(data.starts_with(&prefix), "{encoding:?}: wrong bytes");
        assert!(end.is_err(), "{encoding:?}: the end was cut off, and nothing said so");
    }
}

#[test]
fn a_stream_of_another_length_says_so() {
    for (claim, what) in [(4999, "more"), (5001, "fewer")] {
        for encoding in Encoding::all() {
            if matches!(encoding, Encoding::Stored) {
                continue;
            }
            let block = Block::new(sample(5000, 4)).encoding(encoding.clone()).claim_data(claim);
            let built = two_and(block);
            let opened = open(&built.bytes).unwrap();
            let end = opened.container.block(2).unwrap().content.and_then(|content| read(&*content));
            assert!(end.is_err(), "{encoding:?} decodes to {what} bytes than it says, and nothing said so");
        }
    }
}

#[test]
fn an_unknown_codec_spoils_its_block_alone() {
    let built = two_and(Block::new(sample(500, 3)).encoding(Encoding::Raw(*b"xyzw", vec![1, 2, 3])));
    let opened = open(&built.bytes).unwrap();
    let found = opened.container.block(2).unwrap();
    assert_eq!(found.facts.get("compression").as_deref(), Some("xyzw"));
    assert!(found.content.and_then(|content| read(&*content)).is_err());
    assert_eq!(read_what_can_be_read("unknown codec", &built.bytes, &built), 2);
}

#[test]
fn junk_behind_the_last_block() {
    let built = AsdfBuilder::new().block(Block::new(sample(500, 1))).trailing(sample(3000, 9)).build();
    assert_holds("junk", &open(&built.bytes).unwrap(), &built);
}

#[test]
fn two_files_in_one() {
    let first = AsdfBuilder::new().block(Block::new(sample(500, 1))).build();
    let second = AsdfBuilder::new().block(Block::new(sample(600, 2))).build();
    let bytes = first.followed_by(&second);
    let opened = open(&bytes).unwrap();
    assert_holds("two files", &opened, &first);
}

#[test]
fn magic_inside_the_padding() {
    let built =
        AsdfBuilder::new().padding(b"  \xd3BLK  ").blocks([1, 2].map(|n| Block::new(sample(500, n)))).build();
    assert!(read_what_can_be_read("magic", &built.bytes, &built) == 2);
}

#[test]
fn not_an_asdf_file() {
    for bytes in [&b""[..], b"#", b"#ASD", b"%PDF-1.4\n", b"\x89PNG\r\n", b"SIMPLE  =", &[0; 5000]] {
        let error = open(bytes).unwrap_err();
        assert_eq!(error.kind(), asdf_access::Kind::Unrecognised, "{}", bytes.escape_ascii());
    }
}

#[test]
fn bytes_changed_at_random_never_panic() {
    let data = sample(3000, 1);
    let chain = Block::new(data.clone()).chain("--- [zlib]\n...\n", encode::zlib(&data));
    let old = AsdfBuilder::new().head("#ASDF 0.1.0\n").block(chain).index(Index::Absent).build();
    let blocks = Encoding::all().into_iter().map(|encoding| Block::new(data.clone()).encoding(encoding));
    let new = AsdfBuilder::new().blocks(blocks).build();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for round in 0..400 {
        let mut bytes = if round % 4 == 0 { old.bytes.clone() } else { new.bytes.clone() };
        for _ in 0..=random(8) {
            let at = random(bytes.len());
            bytes[at] = [0, 0xff, 0xd3, b'\n', bytes[at] ^ 1][random(5)];
        }
        let Ok(opened) = open(&bytes) else { continue };
        let Ok(count) = opened.container.block_count() else { continue };
        for n in 0..count {
            if let Ok(content) = opened.container.block(n).and_then(|block| block.content) {
                // With a changed size the content is arbitrary; the first bytes suffice to reach every
                // decoder.
                let _ = content.read_at(0, &mut [0; 5000]);
                let _ = content.read_at(content.len().saturating_sub(1), &mut [0; 2]);
            }
        }
    }
}

#[test]
fn what_could_not_be_decoded_is_not_decoded_anew_when_others_were_read_meanwhile() {
    for encoding in [Encoding::Zlib, Encoding::Bzip2(1), Encoding::Zstd, Encoding::Lz4(100_000)] {
        let large = Block::new(sample(400_000, 1)).encoding(encoding.clone());
        let others = (0..100).map(|n| Block::new(sample(100, n)).encoding(Encoding::Zlib));
        let built = AsdfBuilder::new().blocks([large].into_iter().chain(others)).build();
        let mut bytes = built.bytes.clone();
        let (start, used) = (built.blocks[0].data_offset as usize, built.blocks[0].used_size as usize);
        bytes[start + used / 2..start + used].fill(0x55);
        let source = CountedSource::new(bytes);
        let context = Context::new(Arc::new(Cache::new(1 << 20)));
        let container = format::open(source.clone(), &context).unwrap();
        let read = |n: usize| read_prefix(&*container.block(n).unwrap().content.unwrap());
        let (good, first) = read(0);
        let first = first.unwrap_err();
        for n in 1..=100 {
            read(n).1.unwrap();
        }
        let content = container.block(0).unwrap().content.unwrap();
        let before = source.counts().1;
        let again = content.read_at(good.len() as u64, &mut [0]).unwrap_err();
        assert_eq!(again.to_string(), first.to_string(), "{encoding:?}");
        let more = source.counts().1 - before;
        assert!(more < 1000, "{encoding:?}: {more} bytes are read again");
    }
}
