//! The fields of a block's header that `blocks.yaml` and extended attributes show, named as in the standard.

use std::fmt::Write as _;

use super::header::Header;
use crate::container::{Fact, FactValue, Facts};

/// Returns the facts of a header. `compression` is the codec's label, or the encoding chain (`tile+zlib`).
pub(crate) fn of(header: &Header, compression: String) -> Facts {
    let facts = HeaderFacts {
        offset: header.offset,
        header_size: header.header_size,
        flags: header.flags,
        data_size: header.data_size,
        used_size: header.used_size,
        allocated_size: header.allocated_size,
        compression,
        checksum: hexadecimal(&header.checksum),
    };
    facts.facts()
}

/// Returns the facts of a block with an unreadable header: only its expected offset is known.
pub(crate) fn unknown(offset: u64) -> Facts {
    HeaderFacts { offset, ..HeaderFacts::default() }.facts()
}

/// The fields of a header as they are shown.
#[derive(Default)]
struct HeaderFacts {
    offset: u64,
    header_size: u16,
    flags: u32,
    data_size: u64,
    used_size: u64,
    allocated_size: u64,
    compression: String,
    checksum: String,
}

impl HeaderFacts {
    fn facts(self) -> Facts {
        let compression = FactValue::Word(self.compression);
        let checksum = FactValue::Quoted(self.checksum);
        let groups = vec![
            vec![
                Fact::size("user.asdf.data_size", self.data_size),
                Fact::size("user.asdf.used_size", self.used_size),
                Fact { name: "user.asdf.compression", value: compression },
            ],
            vec![
                Fact::number("user.asdf.offset", self.offset),
                Fact::size("user.asdf.allocated_size", self.allocated_size),
                Fact::number("user.asdf.header_size", self.header_size),
            ],
            vec![
                Fact::number("user.asdf.flags", self.flags),
                Fact { name: "user.asdf.checksum", value: checksum },
            ],
        ];
        Facts { offset: self.offset, data_size: self.data_size, groups }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
