//! The facts of a block's header, named as in the standard.

use std::fmt::Write as _;

use super::header::Header;
use crate::format::{Fact, FactValue, Facts};

/// Characters of a label, and of a checksum, in `blocks.yaml`.
const LABEL_SHOWN: usize = 10;
const CHECKSUM_SHOWN: usize = 32;

/// Returns the facts of a header. `compression` is the codec's label, or the encoding chain (`tile+zlib`).
pub(super) fn of(header: &Header, compression: String) -> Facts {
    let sizes = [header.data_size, header.used_size, header.allocated_size];
    let checksum = hexadecimal(&header.checksum);
    facts(header.offset, (header.header_size, header.flags), sizes, compression, checksum)
}

/// Returns the facts of a block with an unreadable header: only its expected offset is known.
pub(super) fn unknown(offset: u64) -> Facts {
    facts(offset, (0, 0), [0; 3], String::new(), String::new())
}

fn facts(
    offset: u64,
    (header_size, flags): (u16, u32),
    [data_size, used_size, allocated_size]: [u64; 3],
    compression: String,
    checksum: String,
) -> Facts {
    let compression = FactValue::Word { text: compression, shown: LABEL_SHOWN };
    let checksum = FactValue::Quoted { text: checksum, shown: CHECKSUM_SHOWN };
    let lines = vec![
        vec![
            Fact::size("user.asdf.data_size", data_size),
            Fact::size("user.asdf.used_size", used_size),
            Fact { name: "user.asdf.compression", value: compression },
        ],
        vec![
            Fact::number("user.asdf.offset", offset),
            Fact::size("user.asdf.allocated_size", allocated_size),
            Fact::number("user.asdf.header_size", header_size),
        ],
        vec![Fact::number("user.asdf.flags", flags), Fact { name: "user.asdf.checksum", value: checksum }],
    ];
    Facts { offset, data_size, lines }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
