//! Every known layout, intact: nothing is missing, nothing is invented.

use crate::open::assert_found;
use common::asdf::{AsdfBuilder, Block, Checksum, Header, Index, MAGIC_2014, index_text, sample};
use common::encode::{self, Encoding};

fn three() -> Vec<Block> {
    vec![
        Block::new(sample(700, 1)),
        Block::new(sample(9000, 2)).encoding(Encoding::Zlib),
        Block::new(sample(1, 3)),
    ]
}

#[test]
fn every_codec_and_dialect() {
    for encoding in Encoding::all() {
        for length in [0, 1, 4096, 250_000] {
            let file = AsdfBuilder::new().block(Block::new(sample(length, 7)).encoding(encoding.clone()));
            assert_found(&format!("{encoding:?} of {length} bytes"), &file.build());
        }
    }
}

#[test]
fn the_headers_of_2014() {
    for magic in [MAGIC_2014, *b"\xd3BLK"] {
        for header in [Header::Encoding44, Header::Encoding40] {
            let blocks = (0..3).map(|n| Block::new(sample(100 * n + 1, 4)).header(header).magic(magic));
            let file = AsdfBuilder::new().head("%ASDF 0.1.0\n").blocks(blocks).index(Index::Absent);
            assert_found(&format!("%ASDF, {header:?}, {}", magic.escape_ascii()), &file.build());
        }
    }
}

#[test]
fn the_headers_of_0_1_0() {
    for header in [Header::Encoding44, Header::Label40, Header::Label48, Header::Chain] {
        let blocks = (0..3).map(|n| Block::new(sample(50 * n + 1, 5)).header(header));
        let file = AsdfBuilder::new().head("#ASDF 0.1.0\n").blocks(blocks).index(Index::Absent);
        assert_found(&format!("#ASDF 0.1.0, {header:?}"), &file.build());
    }
    for encoding in [Encoding::Zlib, Encoding::Bzip2(1)] {
        let block = Block::new(sample(5000, 6)).header(Header::Label40).encoding(encoding.clone());
        let file = AsdfBuilder::new().head("#ASDF 0.1.0\n").block(block);
        assert_found(&format!("#ASDF 0.1.0, 40 bytes, {encoding:?}"), &file.build());
    }
}

#[test]
fn a_chain_in_the_block() {
    let data = sample(5000, 8);
    let block = Block::new(data.clone()).chain("--- [zlib]\n...\n", encode::zlib(&data));
    let file =
        AsdfBuilder::new().head("#ASDF 0.1.0\n").block(block).block(Block::new("x").header(Header::Chain));
    assert_found("zlib chain", &file.index(Index::Absent).build());
}

#[test]
fn headers_longer_than_known_are_skipped() {
    for extra in [1, 16, 4048, 65_487] {
        let blocks = three().into_iter().map(|block| block.extra_header(vec![0xd3; extra]));
        assert_found(&format!("{extra} bytes more"), &AsdfBuilder::new().blocks(blocks).build());
    }
}

#[test]
fn the_tree_in_all_its_forms() {
    let cases = [
        ("crlf", AsdfBuilder::new().crlf()),
        ("no tree", AsdfBuilder::new().no_tree()),
        ("head without comments", AsdfBuilder::new().head("#ASDF 1.0.0\n")),
        ("comments", AsdfBuilder::new().head("#ASDF 1.0.0\n#one\n#two é\n")),
        ("dots inside", AsdfBuilder::new().tree("%YAML 1.1\n---\na: '...'\nb: |\n   ...\n...\n")),
        ("spaces", AsdfBuilder::new().padding([b' '; 5000])),
        ("zeros", AsdfBuilder::new().padding([0; 5000])),
        ("junk", AsdfBuilder::new().padding(sample(5000, 9))),
        ("half a magic", AsdfBuilder::new().padding(b"\xd3BL \xd3BL")),
    ];
    for (case, file) in cases {
        assert_found(&format!("{case}, blocks"), &file.clone().blocks(three()).build());
        assert_found(&format!("{case}, no blocks"), &file.build());
    }
}

#[test]
fn every_index_right_or_wrong() {
    for count in [1, 2, 3, 50] {
        for index in Index::all() {
            let blocks = (0..count).map(|n| Block::new(sample(20 + n, n as u32)));
            let file = AsdfBuilder::new().blocks(blocks).index(index.clone());
            assert_found(&format!("{count} blocks, {index:?}"), &file.build());
        }
    }
}

#[test]
fn what_looks_like_an_index_or_a_block_inside_the_data() {
    let index = index_text(&[100, 200]);
    let block = AsdfBuilder::new().no_tree().block(Block::new("inner")).build().bytes;
    for hidden in [index, block, b"\xd3BLK\0\x30".to_vec()] {
        for wanted in [Index::Right, Index::Absent] {
            let blocks = [sample(9, 1), hidden.clone(), sample(9, 2), hidden.clone()].map(Block::new);
            let file = AsdfBuilder::new().blocks(blocks).index(wanted.clone());
            assert_found(&format!("{} in the data, {wanted:?}", hidden.escape_ascii()), &file.build());
        }
    }
}

#[test]
fn allocated_more_than_used() {
    let blocks = three().into_iter().map(|block| block.slack(b"\xd3BLK in the slack is nothing"));
    assert_found("slack", &AsdfBuilder::new().blocks(blocks.clone()).build());
    assert_found("slack, no index", &AsdfBuilder::new().blocks(blocks).index(Index::Absent).build());
}

#[test]
fn a_stream_is_the_last_block() {
    for length in [0, 1, 5000] {
        let file = AsdfBuilder::new().blocks(three()).block(Block::new(sample(length, 9)).streamed());
        assert_found(&format!("stream of {length}"), &file.build());
    }
}

#[test]
fn checksums_by_either_rule() {
    use asdf_file::container::Verified;
    for (checksum, wanted) in [
        (Checksum::Stored, Verified::Stored),
        (Checksum::Decoded, Verified::Decoded),
        (Checksum::None, Verified::None),
        (Checksum::Wrong, Verified::Mismatch),
    ] {
        let block = Block::new(sample(9000, 3)).encoding(Encoding::Zlib).checksum(checksum);
        let opened = assert_found(&format!("{checksum:?}"), &AsdfBuilder::new().block(block).build());
        assert_eq!(opened.container.verify(0).unwrap(), wanted);
    }
}
