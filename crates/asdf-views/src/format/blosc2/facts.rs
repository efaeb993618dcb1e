//! The properties of a chunk that `blocks.yaml` and extended attributes show, in the words of the format.

use asdf_file::container::{Fact, FactValue, Facts};
use seekable::codec::blosc::{FrameChunk, Special, header};

/// Returns the facts of a chunk.
pub(super) fn of(chunk: &FrameChunk) -> Facts {
    let header = &chunk.header;
    let special = header.special();
    facts(&ChunkFacts {
        offset: chunk.at.unwrap_or(0),
        nbytes: header.nbytes(),
        cbytes: if chunk.at.is_some() { header.cbytes() } else { 0 },
        typesize: header.typesize(),
        blocksize: header.blocksize(),
        codec: if special.is_some() { "none" } else { header.inner_name() },
        filters: names(header),
        special: special.map_or("none", Special::name),
    })
}

/// Returns the facts of a chunk that can't be located, or whose header is damaged.
pub(super) fn unknown(offset: u64) -> Facts {
    facts(&ChunkFacts { offset, codec: "unknown", special: "none", ..ChunkFacts::default() })
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
    filters: String,
    special: &'a str,
}

fn facts(chunk: &ChunkFacts<'_>) -> Facts {
    let word = |text: &str| FactValue::Word(text.to_owned());
    let groups = vec![
        vec![
            Fact::size("user.blosc2.nbytes", chunk.nbytes.into()),
            Fact::size("user.blosc2.cbytes", chunk.cbytes.into()),
            Fact { name: "user.blosc2.codec", value: word(chunk.codec) },
            Fact { name: "user.blosc2.filters", value: FactValue::Quoted(chunk.filters.clone()) },
        ],
        vec![
            Fact::number("user.blosc2.offset", chunk.offset),
            Fact::number("user.blosc2.typesize", chunk.typesize),
            Fact::number("user.blosc2.blocksize", chunk.blocksize),
            Fact { name: "user.blosc2.special", value: word(chunk.special) },
        ],
    ];
    Facts { offset: chunk.offset, data_size: chunk.nbytes.into(), groups }
}

/// Returns the names of the filters, in the order in which they were applied.
fn names(header: &header::Header) -> String {
    let names: Vec<String> =
        header.filters().iter().filter(|filter| !filter.is_none()).map(|filter| filter.name()).collect();
    names.join(" ")
}
