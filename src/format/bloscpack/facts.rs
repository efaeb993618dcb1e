//! The facts of a chunk, in the words of the format.

use std::fmt::Write;

use super::chain::Found;
use crate::codec::blosc::Shuffle;
use crate::format::{Fact, FactValue, Facts};

/// Maximum characters of a checksum in `blocks.yaml`.
const CHECKSUM_SHOWN: usize = 48;

/// Returns the facts of a chunk; `sum` is its stored checksum.
pub(super) fn of(found: &Found, sum: &[u8]) -> Facts {
    let header = &found.header;
    let shuffle = match header.shuffle() {
        Shuffle::None => "none",
        Shuffle::Bytes => "bytes",
        Shuffle::Bits => "bits",
    };
    let sizes = [header.nbytes(), header.cbytes(), header.typesize(), header.blocksize()].map(u64::from);
    facts(found.at, sizes, header.inner_name(), shuffle, sum)
}

/// Returns the facts of a chunk that can't be located, or whose header is damaged.
pub(super) fn unknown(offset: u64) -> Facts {
    facts(offset, [0; 4], "unknown", "none", &[])
}

fn facts(offset: u64, sizes: [u64; 4], codec: &str, shuffle: &str, sum: &[u8]) -> Facts {
    let [nbytes, cbytes, typesize, blocksize] = sizes;
    let word = |text: &str| FactValue::Word { text: text.to_owned(), shown: 10 };
    let checksum = FactValue::Quoted { text: hexadecimal(sum), shown: CHECKSUM_SHOWN };
    let lines = vec![
        vec![
            Fact::size("user.bloscpack.nbytes", nbytes),
            Fact::size("user.bloscpack.cbytes", cbytes),
            Fact { name: "user.bloscpack.codec", value: word(codec) },
            Fact { name: "user.bloscpack.shuffle", value: word(shuffle) },
        ],
        vec![
            Fact::number("user.bloscpack.offset", offset),
            Fact::number("user.bloscpack.typesize", typesize),
            Fact::number("user.bloscpack.blocksize", blocksize),
        ],
        vec![Fact { name: "user.bloscpack.checksum", value: checksum }],
    ];
    Facts { offset, data_size: nbytes, lines }
}

/// Returns bytes as hexadecimal digits.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
