//! The header of a file, and the locations of the sections after it.
//!
//! | byte | versions 2 and 3 | variable-length proposal |
//! |---|---|---|
//! | 0 | `blpk` | the same |
//! | 4 | version | the same |
//! | 5 | options: 1 offsets, 2 metadata | the same, and 4 |
//! | 6 | checksum of the chunks, 0 to 8 | the same |
//! | 7 | typesize | the same |
//! | 8 | `i32` decoded bytes in a chunk, −1 unknown | −1 |
//! | 12 | `i32` decoded bytes in the last chunk, −1 unknown | −1 |
//! | 16 | `i64` number of chunks, −1 unknown | number of items |
//! | 24 | `i64` chunks that may be appended (version 3) | `i32` bytes of metadata, 4 reserved |
//!
//! The metadata follow ([`Section`]), then the offsets of the chunks, `i64` each, and space for the offsets
//! of appended chunks (−1). Version 1 has the number of chunks at byte 8, and its chunks begin at byte 16.
//! All numbers are little-endian.
//!
//! Sources: Bloscpack's `header_rfc.rst` and `headers.py` (0.16), and F. Alted's proposal of 2012 for items
//! of variable length ("Header format").

use seekable::error::{Error, Result};
use seekable::source::{Source, read_up_to};

use super::checksum::Checksum;
use super::metadata::{Section, word};

/// The magic at the start of a file.
pub(crate) const MAGIC: &[u8; 4] = b"blpk";

const OFFSETS: u8 = 1;
const METADATA: u8 = 2;
const VARIABLE: u8 = 4;

const HEADER: u64 = 32;
const OLD_HEADER: u64 = 16;

/// Minimum size of a chunk: its own header.
const CHUNK: u64 = 16;

/// The layout of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Version 1: a header of 16 bytes, then chunks. bcolz still writes it.
    First,
    /// Version 2.
    Second,
    /// Version 3, written by all releases since 0.3.
    Third,
    /// The proposal for items of variable length.
    Variable,
}

impl Layout {
    /// Returns the layout's name for `tree.yaml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "version 1",
            Self::Second => "version 2",
            Self::Third => "version 3",
            Self::Variable => "variable-length proposal",
        }
    }
}

/// The parsed header.
#[derive(Clone, Debug)]
pub struct Header {
    /// The layout.
    pub kind: Layout,
    /// The version number in the header.
    pub version: u8,
    /// The kind of checksum after each chunk.
    pub checksum: Checksum,
    /// Size of an element in bytes.
    pub typesize: u8,
    /// Decoded size of each chunk but the last; negative if unknown.
    pub chunk_size: i32,
    /// Decoded size of the last chunk; negative if unknown.
    pub last_chunk: i32,
    /// Number of chunks; `None` if the writer did not know it.
    pub chunks: Option<u64>,
    /// Number of further chunks for which the offsets have space.
    pub max_app_chunks: u64,
    /// The metadata section.
    pub metadata: Option<Section>,
    /// Location of the offsets.
    pub offsets: Option<u64>,
    /// Location of the first chunk.
    pub data: u64,
}

impl Header {
    /// Reads the header of a source of `size` bytes.
    pub fn read(source: &dyn Source, size: u64) -> Result<Self> {
        let mut bytes = [0; HEADER as usize];
        let there = read_up_to(source, 0, &mut bytes)?;
        let version = bytes[4];
        if there as u64 >= OLD_HEADER && version == 1 {
            return Self::first(&bytes, size);
        }
        if (there as u64) < HEADER {
            return Err(Error::damaged(format!("is cut off within its header, after {there} bytes")));
        }
        let variable = bytes[5] & VARIABLE != 0;
        let kind = match version {
            // The proposal does not specify its version number.
            2..=4 if variable => Layout::Variable,
            2 => Layout::Second,
            3 => Layout::Third,
            _ => {
                return Err(Error::unsupported(format!(
                    "version {version} of Bloscpack is not supported, only 1, 2 and 3"
                ))
                .at(4));
            }
        };
        let known = if kind == Layout::Second { OFFSETS } else { OFFSETS | METADATA | VARIABLE };
        let options = bytes[5];
        if options & !known != 0 {
            let bit = (options & !known).trailing_zeros();
            return Err(Error::unsupported(format!(
                "option bit {bit} is set, which Bloscpack version {version} does not have"
            ))
            .at(5));
        }
        let mut header = Self {
            kind,
            version,
            checksum: Checksum::of(bytes[6]).map_err(|error| error.at(6))?,
            typesize: bytes[7],
            chunk_size: i32::from_le_bytes(word(&bytes, 8)),
            last_chunk: i32::from_le_bytes(word(&bytes, 12)),
            chunks: count("chunks", i64::from_le_bytes(word(&bytes, 16)), 16)?,
            max_app_chunks: 0,
            metadata: None,
            offsets: None,
            data: HEADER,
        };
        header.read_metadata(source, size, &bytes)?;
        header.find_offsets(size, options & OFFSETS != 0, &bytes)?;
        header.check_room(size)?;
        Ok(header)
    }

    fn first(bytes: &[u8; HEADER as usize], size: u64) -> Result<Self> {
        let header = Self {
            kind: Layout::First,
            version: 1,
            checksum: Checksum::None,
            typesize: 0,
            chunk_size: -1,
            last_chunk: -1,
            chunks: count("chunks", i64::from_le_bytes(word(bytes, 8)), 8)?,
            max_app_chunks: 0,
            metadata: None,
            offsets: None,
            data: OLD_HEADER,
        };
        header.check_room(size)?;
        Ok(header)
    }

    fn read_metadata(&mut self, source: &dyn Source, size: u64, bytes: &[u8; HEADER as usize]) -> Result<()> {
        if bytes[5] & METADATA == 0 {
            return Ok(());
        }
        let section = match self.kind {
            Layout::Variable => Section::bare(self.data, i32::from_le_bytes(word(bytes, 24)))?,
            _ => Section::read(source, self.data)?,
        };
        self.data = section.end().filter(|end| *end <= size).ok_or_else(|| {
            Error::damaged(
                "the metadata reach past the end of the file: it is cut off, or its header is wrong",
            )
            .at(self.data)
        })?;
        self.metadata = Some(section);
        Ok(())
    }

    fn find_offsets(&mut self, size: u64, are_there: bool, bytes: &[u8; HEADER as usize]) -> Result<()> {
        if !are_there {
            return match self.kind {
                Layout::Variable => {
                    Err(Error::damaged("items of variable length need offsets, but the file has none").at(5))
                }
                _ => Ok(()),
            };
        }
        let chunks = self.chunks.ok_or_else(|| {
            Error::damaged("the number of chunks is unknown (-1), and so is the number of their offsets")
                .at(16)
        })?;
        if self.kind == Layout::Third {
            let more = count("chunks that may be appended", i64::from_le_bytes(word(bytes, 24)), 24)?;
            self.max_app_chunks = more.unwrap_or(0);
        }
        let end = chunks
            .checked_add(self.max_app_chunks)
            .and_then(|count| count.checked_mul(8)?.checked_add(self.data))
            .filter(|end| *end <= size);
        let end = end.ok_or_else(|| {
            Error::damaged(format!(
                "the offsets of {chunks} chunks, and of {} that may be appended, reach past the end of the \
                 file: it \
                 is cut off, or its header is wrong",
                self.max_app_chunks
            ))
            .at(self.data)
        })?;
        self.offsets = Some(std::mem::replace(&mut self.data, end));
        Ok(())
    }

    /// Refuses a header with more chunks than fit into the file. In the variable-length layout the number is
    /// not checked: it counts items, some of which may be missing.
    fn check_room(&self, size: u64) -> Result<()> {
        let room = size.saturating_sub(self.data) / CHUNK;
        match self.chunks {
            Some(chunks) if chunks > room && self.kind != Layout::Variable => Err(Error::damaged(format!(
                "has space for at most {room} chunks, but its header says {chunks}: it is cut off, or its \
                 header is \
                 wrong"
            ))
            .at(16)),
            _ => Ok(()),
        }
    }
}

fn count(what: &str, number: i64, at: u64) -> Result<Option<u64>> {
    match number {
        -1 => Ok(None),
        _ => u64::try_from(number)
            .map(Some)
            .map_err(|_| Error::damaged(format!("the number of {what} is {number}")).at(at)),
    }
}
