//! The header: the first 256 bytes (`file-layer.rst` of gsd 1.0, "Header block"; unchanged in later
//! versions).
//!
//! ```text
//!   0 magic u64                     40 schema_version u32
//!   8 index_location u64            44 gsd_version u32
//!  16 index_allocated_entries u64   48 application, 64 bytes
//!  24 namelist_location u64        112 schema, 64 bytes
//!  32 namelist_allocated_entries   176 reserved, 80 bytes
//! ```
//!
//! All numbers are little-endian: the document does not specify it, but all writers ran on little-endian
//! machines. The document mentions counts of used entries in the header; no field holds them. A version
//! `0xaaaabbbb` means aaaa.bbbb.

use std::fmt;

use seekable::error::{Error, Result};

/// Size of the header in bytes.
pub const SIZE: u64 = 256;

/// Size of an index entry in bytes.
pub(crate) const ENTRY: u64 = 32;

/// Bytes per entry of `namelist_allocated_entries`.
pub(crate) const SLOT: u64 = 64;

/// The magic at the start of a file.
pub const MAGIC: [u8; 8] = 0x65df_65df_65df_65df_u64.to_le_bytes();

/// A version: major and minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u16, pub u16);

impl From<u32> for Version {
    fn from(number: u32) -> Self {
        Self((number >> 16) as u16, number as u16)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.0, self.1)
    }
}

/// A byte range of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRange {
    /// Offset in the file.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

/// The parsed header; its ranges are within the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The version of the file layer.
    pub version: Version,
    /// The version of the schema.
    pub schema_version: Version,
    /// The program that made the file.
    pub application: Vec<u8>,
    /// The schema, which defines the meaning of chunk names: `hoomd`.
    pub schema: Vec<u8>,
    /// The index, including unused slots.
    pub index: FileRange,
    /// The list of names, including unused space.
    pub names: FileRange,
}

impl Header {
    /// Reads the header of a file of `size` bytes.
    ///
    /// # Errors
    /// The version is unknown, or the index or the list of names is not within the file.
    pub fn parse(bytes: &[u8], size: u64) -> Result<Self> {
        let Some(bytes) = bytes.first_chunk::<{ SIZE as usize }>() else {
            let message = format!("the header is cut off: the file has {} of {SIZE} bytes", bytes.len());
            return Err(Error::damaged(message).at(bytes.len() as u64));
        };
        if !bytes.starts_with(&MAGIC) {
            return Err(Error::damaged("the file does not begin with the magic of GSD").at(0));
        }
        let version = Version::from(u32_at(bytes, 44));
        if !matches!(version, Version(0, 3) | Version(1 | 2, _)) {
            let message = format!("version {version} of GSD is not known; 0.3, 1.x and 2.x are");
            return Err(Error::unsupported(message).at(44));
        }
        let piece = |field: usize, width: u64, what: &str| {
            let offset = u64_at(bytes, field);
            let count = u64_at(bytes, field + 8);
            let len = count.checked_mul(width);
            let end = len.and_then(|len| offset.checked_add(len)).filter(|end| *end <= size);
            match (len, end) {
                (Some(len), Some(_)) if offset >= SIZE => Ok(FileRange { offset, len }),
                (_, Some(_)) => {
                    let message = format!("{what} begins at byte {offset}, within the header");
                    Err(Error::damaged(message).at(field as u64))
                }
                _ => {
                    let message = format!(
                        "{what} is not within the file: {count} entries of {width} bytes from byte {offset} \
                         on, \
                         in a file of {size} bytes"
                    );
                    Err(Error::damaged(message).at(field as u64))
                }
            }
        };
        Ok(Self {
            version,
            schema_version: u32_at(bytes, 40).into(),
            application: text(&bytes[48..112]),
            schema: text(&bytes[112..176]),
            index: piece(8, ENTRY, "the index")?,
            names: piece(24, SLOT, "the list of names")?,
        })
    }

    /// Returns the number of index slots, used or not.
    pub fn slots(&self) -> u64 {
        self.index.len / ENTRY
    }

    /// True before version 2.0: names are in slots of 64 bytes, and entries are in write order.
    pub fn is_old(&self) -> bool {
        self.version.0 < 2
    }
}

/// Returns the bytes before the first NUL.
pub(crate) fn text(bytes: &[u8]) -> Vec<u8> {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
}

/// Reads a little-endian u64 at an offset; missing bytes are zeros.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

/// Reads a little-endian u32 at an offset; missing bytes are zeros.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.map_or(0, |chunk| u32::from_le_bytes(*chunk))
}

/// Reads a little-endian u16 at an offset; missing bytes are zeros.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.map_or(0, |chunk| u16::from_le_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(version: u32, index: [u64; 2], names: [u64; 2]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for number in index.iter().chain(&names) {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend([0x0001_0004_u32, version].iter().flat_map(|number| number.to_le_bytes()));
        bytes.resize(112, b'a');
        bytes.extend(b"hoomd\0junk");
        bytes.resize(256, 0);
        bytes
    }

    #[test]
    fn the_fields_are_where_the_document_has_them() {
        let bytes = header(0x0002_0001, [256, 4], [512, 2]);
        let header = Header::parse(&bytes, 1000).unwrap();
        assert_eq!((header.version, header.schema_version), (Version(2, 1), Version(1, 4)));
        assert_eq!((header.application.len(), &header.schema[..]), (64, &b"hoomd"[..]));
        assert_eq!(header.index, FileRange { offset: 256, len: 128 });
        assert_eq!(header.names, FileRange { offset: 512, len: 128 });
        assert_eq!(header.slots(), 4);
    }

    #[test]
    fn the_versions_of_gsd_are_known_and_no_others() {
        for (version, known) in
            [(3, true), (2, false), (0x1_0000, true), (0x1_0009, true), (0x2_0007, true), (0x3_0000, false)]
        {
            let found = Header::parse(&header(version, [256, 4], [512, 2]), 1000);
            assert_eq!(found.is_ok(), known, "{version:x}");
        }
    }

    #[test]
    fn sums_and_products_that_overflow_are_refused() {
        let cases = [
            [256, 1 << 59],
            [u64::MAX - 63, 2],
            [u64::MAX, u64::MAX],
            [256, 24],
            [1000, 1],
            [0, 1],
            [255, 1],
        ];
        for piece in cases {
            for (index, names) in [(piece, [512, 2]), ([256, 4], piece)] {
                let error = Header::parse(&header(0x2_0000, index, names), 1000).unwrap_err();
                assert!(error.offset().is_some(), "{piece:?}");
            }
        }
    }

    #[test]
    fn a_header_that_is_cut_off_says_so() {
        let bytes = header(0x2_0000, [256, 4], [512, 2]);
        for len in 0..256 {
            assert!(Header::parse(&bytes[..len], 1000).is_err());
        }
    }
}
