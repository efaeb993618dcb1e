//! Damaged ASDF files: every kind of damage that can be built, and random damage.

use crate::asdf::{AsdfBuilder, Block, Built, Checksum, Index, sample};
use crate::dice::Dice;
use crate::encode::Encoding;

/// Returns a small file with a compressed block between two others, for a cut at each of its bytes.
pub fn small_file() -> Built {
    let blocks = [
        Block::new(sample(300, 1)),
        Block::new(sample(3000, 2)).encoding(Encoding::Zlib),
        Block::new(sample(300, 3)),
    ];
    AsdfBuilder::new().blocks(blocks).build()
}

/// Returns files with each kind of damage, each with its name and what a reader of the sound file must find.
pub fn each_kind() -> Vec<(String, Vec<u8>, Built)> {
    let mut cases = Vec::new();
    let mut add = |name: String, bytes: Vec<u8>, built: &Built| cases.push((name, bytes, built.clone()));
    for index in Index::all() {
        let built = three(Encoding::Stored, index.clone());
        add(format!("index {index:?}"), built.bytes.clone(), &built);
    }
    for size in [0, 1, 499, 501, 1 << 40, i64::MAX as u64, u64::MAX - 53, u64::MAX] {
        for encoding in [Encoding::Stored, Encoding::Zlib, Encoding::Lz4(100), Encoding::Zstd] {
            let block = || Block::new(sample(500, 3)).encoding(encoding.clone());
            for (what, block) in [
                ("used", block().claim_used(size)),
                ("allocated", block().claim_allocated(size)),
                ("data", block().claim_data(size)),
                ("all", block().claim_used(size).claim_allocated(size).claim_data(size)),
            ] {
                for (index, last) in [(Index::Absent, true), (Index::Absent, false), (Index::Right, false)] {
                    let built = beside(block.clone(), index.clone(), last);
                    let name = format!("{what}_size {size} of {encoding:?}, {index:?}, last: {last}");
                    add(name, built.bytes.clone(), &built);
                }
            }
        }
    }
    for size in [0, 1, 35, 36, 40, 44, 47, 49, 4000] {
        for last in [false, true] {
            let built = beside(Block::new(sample(500, 3)).claim_header_size(size), Index::Absent, last);
            add(format!("header_size {size}, last: {last}"), built.bytes.clone(), &built);
        }
    }
    for flags in [1, 2, 0x8000_0000, 0xffff_ffff] {
        for last in [false, true] {
            let built = beside(Block::new(sample(500, 3)).claim_flags(flags), Index::Right, last);
            add(format!("flags {flags:#x}, last: {last}"), built.bytes.clone(), &built);
        }
    }
    for encoding in Encoding::all() {
        let built = beside(
            Block::new(sample(500, 3)).encoding(encoding.clone()).checksum(Checksum::Wrong),
            Index::Right,
            false,
        );
        add(format!("wrong checksum of {encoding:?}"), built.bytes.clone(), &built);
        if matches!(encoding, Encoding::Stored) {
            continue;
        }
        let data = sample(400_000, 4);
        let mut stored = encoding.encode(&data);
        stored.truncate(stored.len() * 2 / 3);
        let raw = Block::new(data).encoding(Encoding::Raw(encoding.label(), stored));
        let built = beside(raw, Index::Right, false);
        add(format!("broken stream of {encoding:?}"), built.bytes.clone(), &built);
        for claim in [4999, 5001] {
            let block = Block::new(sample(5000, 4)).encoding(encoding.clone()).claim_data(claim);
            let built = beside(block, Index::Right, false);
            add(format!("{claim} of 5000 bytes of {encoding:?}"), built.bytes.clone(), &built);
        }
    }
    let unknown = Encoding::Raw(*b"xyzw", vec![1, 2, 3]);
    let built = beside(Block::new(sample(500, 3)).encoding(unknown), Index::Right, false);
    add("unknown codec".to_owned(), built.bytes.clone(), &built);
    let first = three(Encoding::Stored, Index::Absent);
    add("two files".to_owned(), first.followed_by(&three(Encoding::Zlib, Index::Right)), &first);
    let blocks = || (1..4).map(|n| Block::new(sample(500, n)));
    for (name, builder) in [
        ("junk behind", AsdfBuilder::new().blocks(blocks()).trailing(sample(3000, 9))),
        ("junk between", AsdfBuilder::new().blocks(blocks().map(|block| block.gap(sample(99, 8))))),
        ("padding between", AsdfBuilder::new().blocks(blocks().map(|block| block.gap([0; 99])))),
        ("magic in padding", AsdfBuilder::new().padding(b"  \xd3BLK  ").blocks(blocks())),
        ("unused space", AsdfBuilder::new().blocks(blocks().map(|block| block.slack(b"old")))),
        ("no version", AsdfBuilder::new().head("#ASDF\n").blocks(blocks())),
        ("no tree", AsdfBuilder::new().no_tree().blocks(blocks())),
        ("a tree that is no YAML", AsdfBuilder::new().tree("%YAML 1.1\n---\na: [1\n...\n").blocks(blocks())),
    ] {
        let built = builder.build();
        add(name.to_owned(), built.bytes.clone(), &built);
    }
    cases
}

fn three(encoding: Encoding, index: Index) -> Built {
    let blocks = (1..4).map(|n| Block::new(sample(500, n)).encoding(encoding.clone()));
    AsdfBuilder::new().blocks(blocks).index(index).build()
}

/// Builds a file with two sound blocks and `block`, which is the last one or the one between.
fn beside(block: Block, index: Index, last: bool) -> Built {
    let one = Block::new(sample(500, 1));
    let two = Block::new(sample(600, 2));
    let blocks = if last { [one, two, block] } else { [one, block, two] };
    AsdfBuilder::new().blocks(blocks).index(index).build()
}

/// Builds a file with blocks of random sizes, some of them with one of these encodings.
pub fn random_file(dice: &mut Dice, encodings: &[Encoding]) -> Built {
    let checksums = [Checksum::Stored, Checksum::Stored, Checksum::Decoded, Checksum::None];
    let count = 1 + dice.below(6);
    let blocks = (0..count).map(|n| {
        let encoding = encodings[dice.below(encodings.len() as u64) as usize].clone();
        let encoding = if dice.below(2) == 0 { Encoding::Stored } else { encoding };
        let size = [dice.below(200), dice.below(9000)][dice.below(2) as usize];
        let checksum = checksums[dice.below(4) as usize];
        Block::new(sample(size as usize, n as u32)).encoding(encoding).checksum(checksum)
    });
    let mut builder = AsdfBuilder::new().blocks(blocks.collect::<Vec<_>>());
    if dice.below(4) == 0 {
        builder = builder.index(Index::Absent);
    } else if dice.below(5) == 0 {
        builder = builder.block(Block::new(sample(700, 77)).streamed());
    }
    builder.build()
}

/// Damages a file at random, mostly at the headers of its blocks. Returns the damage, in words, and the bytes.
pub fn at_random(built: &Built, dice: &mut Dice) -> (String, Vec<u8>) {
    let mut bytes = built.bytes.clone();
    let mut told = Vec::new();
    for _ in 0..1 + dice.below(2) {
        let len = bytes.len() as u64;
        let header = built.blocks[dice.below(built.blocks.len() as u64) as usize].offset;
        let near = [dice.below(len), header + dice.below(54), header + dice.below(20)];
        let at = near[dice.below(3) as usize].min(len - 1) as usize;
        let size = [1, 1 + dice.below(4), dice.below(100), dice.below(2000)][dice.below(4) as usize] as usize;
        let end = (at + size).min(bytes.len());
        match dice.below(7) {
            0 | 1 => {
                let bit = dice.below(8);
                bytes[at] ^= 1 << bit;
                told.push(format!("bit {bit} of byte {at}"));
            }
            2 => {
                bytes.truncate(at.max(20));
                told.push(format!("cut at {at}"));
            }
            3 => {
                bytes.splice(at..at, sample(size, 5));
                told.push(format!("{size} bytes inserted at {at}"));
            }
            4 => {
                bytes.drain(at..end);
                told.push(format!("{at}..{end} removed"));
            }
            5 => {
                bytes[at..end].fill(0);
                told.push(format!("{at}..{end} zeroed"));
            }
            _ => {
                bytes[at..end].fill_with(|| dice.below(256) as u8);
                told.push(format!("{at}..{end} overwritten"));
            }
        }
    }
    (told.join(", "), bytes)
}
