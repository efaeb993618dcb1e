//! The properties of a chunk that `blocks.yaml` and extended attributes show, in the words of the format.

use std::fmt::Write;

use asdf_file::container::{Fact, FactValue, Facts};
use seekable::codec::blosc::Shuffle;

use super::chain::LocatedChunk;

/// Returns the facts of a chunk; `sum` is its stored checksum.
pub(super) fn of(found: &LocatedChunk, sum: &[u8]) -> Facts {
    let header = &found.header;
    let shuffle = match header.shuffle() {
        Shuffle::None => "none",
        Shuffle::Bytes => "bytes",
        Shuffle::Bits => "bits",
    };
    facts(&ChunkFacts {
        offset: found.at,
        nbytes: header.nbytes(),
        cbytes: header.cbytes(),
        typesize: header.typesize(),
        blocksize: header.blocksize(),
        codec: header.inner_name(),
        shuffle,
        checksum: sum,
    })
}

/// Returns the facts of a chunk that can't be located, or whose header is damaged.
pub(super) fn unknown(offset: u64) -> Facts {
    facts(&ChunkFacts { offset, codec: "unknown", shuffle: "none", ..ChunkFacts::default() })
}

/// The values of a chunk's facts, without the names under which they are shown.
#[derive(Default)]
struct ChunkFacts<'a> {
    offset: u64,
    nbytes: u32,
    cbytes: u32,
    typesize: u32,
    blocksize: u32,
    codec: &'a str,
    shuffle: &'a str,
    checksum: &'a [u8],
}

fn facts(chunk: &ChunkFacts<'_>) -> Facts {
    let word = |text: &str| FactValue::Word(text.to_owned());
    let checksum = FactValue::Quoted(hexadecimal(chunk.checksum));
    let groups = vec![
        vec![
            Fact::size("user.bloscpack.nbytes", chunk.nbytes.into()),
            Fact::size("user.bloscpack.cbytes", chunk.cbytes.into()),
            Fact { name: "user.bloscpack.codec", value: word(chunk.codec) },
            Fact { name: "user.bloscpack.shuffle", value: word(chunk.shuffle) },
        ],
        vec![
            Fact::number("user.bloscpack.offset", chunk.offset),
            Fact::number("user.bloscpack.typesize", chunk.typesize),
            Fact::number("user.bloscpack.blocksize", chunk.blocksize),
        ],
        vec![Fact { name: "user.bloscpack.checksum", value: checksum }],
    ];
    Facts { offset: chunk.offset, data_size: chunk.nbytes.into(), groups }
}

/// Returns bytes as hexadecimal digits.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
