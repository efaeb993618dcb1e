//! The metadata section.
//!
//! | byte | field |
//! |---|---|
//! | 0 | magic format, 8 bytes: `JSON` |
//! | 8 | options: none |
//! | 9 | checksum, 0 to 8 |
//! | 10 | codec: 0 none, 1 zlib |
//! | 11 | level |
//! | 12 | `u32` bytes of the metadata |
//! | 16 | `u32` bytes of allocated space |
//! | 20 | `u32` bytes stored |
//! | 24 | parameters for the codec, 8 bytes |
//!
//! The stored bytes follow these 32 bytes, then NULs up to the end of the allocated space, then the checksum
//! of the stored bytes. Files of the variable-length proposal have the bare metadata.

use std::io::Read;

use flate2::read::ZlibDecoder;
use seekable::error::{Error, Result};
use seekable::source::{Source, read_up_to};

use super::checksum::Checksum;

/// Maximum size of metadata that are read, in bytes.
const MAX_METADATA: u32 = 16 << 20;

const HEADER: usize = 32;

/// Location and encoding of the metadata.
#[derive(Clone, Debug)]
pub struct Section {
    /// The writer's name for the format of the metadata.
    pub magic: [u8; 8],
    /// Options of the section.
    pub options: u8,
    /// The kind of checksum after the metadata.
    pub checksum: Checksum,
    /// Number of the codec.
    pub codec: u8,
    /// Compression level.
    pub level: u8,
    /// Size of the decoded metadata in bytes.
    pub size: u32,
    /// Allocated space in bytes.
    pub room: u32,
    /// Size of the stored metadata in bytes.
    pub stored: u32,
    /// Parameters for the codec.
    pub user_codec: [u8; 8],
    /// Offset of the stored bytes.
    pub at: u64,
    /// True if the section has a header.
    pub described: bool,
}

impl Section {
    /// Reads the header of the section at `at`.
    pub fn read(source: &dyn Source, at: u64) -> Result<Self> {
        let mut bytes = [0; HEADER];
        if read_up_to(source, at, &mut bytes)? < HEADER {
            return Err(Error::damaged("is cut off within the header of its metadata").at(at));
        }
        Ok(Self {
            magic: word(&bytes, 0),
            options: bytes[8],
            checksum: Checksum::of(bytes[9]).map_err(|error| error.within("metadata").at(at + 9))?,
            codec: bytes[10],
            level: bytes[11],
            size: u32::from_le_bytes(word(&bytes, 12)),
            room: u32::from_le_bytes(word(&bytes, 16)),
            stored: u32::from_le_bytes(word(&bytes, 20)),
            user_codec: word(&bytes, 24),
            at: at + HEADER as u64,
            described: true,
        })
    }

    /// Creates a section of metadata without a header.
    pub fn bare(at: u64, size: i32) -> Result<Self> {
        let size = u32::try_from(size).map_err(|_| {
            Error::damaged(format!(
                "the header says that the metadata have {size} \
                                                 bytes"
            ))
            .at(24)
        })?;
        Ok(Self {
            magic: *b"JSON\0\0\0\0",
            options: 0,
            checksum: Checksum::None,
            codec: 0,
            level: 0,
            size,
            room: size,
            stored: size,
            user_codec: [0; 8],
            at,
            described: false,
        })
    }

    /// Returns the offset of the end of the section.
    pub fn end(&self) -> Option<u64> {
        self.at.checked_add(self.room.into())?.checked_add(self.checksum.size())
    }

    /// Returns the metadata after checking their checksum.
    pub fn bytes(&self, source: &dyn Source) -> Result<Vec<u8>> {
        self.read_bytes(source).map_err(|error| error.within("metadata").at(self.at))
    }

    fn read_bytes(&self, source: &dyn Source) -> Result<Vec<u8>> {
        let &Self { size, room, stored, .. } = self;
        if self.options != 0 {
            return Err(Error::unsupported(format!("the options {} are not known", self.options)));
        }
        if stored > room {
            return Err(Error::damaged(format!("{stored} bytes do not fit into the {room} bytes allocated")));
        }
        if size.max(stored) > MAX_METADATA {
            return Err(Error::unsupported(format!(
                "of {size} bytes, but at most {} MiB are read",
                MAX_METADATA >> 20
            )));
        }
        let sum_at = self.at.saturating_add(room.into());
        if self.checksum.sum(source, self.at, stored.into())? != self.checksum.stored(source, sum_at)? {
            return Err(Error::damaged("the checksum does not match the stored bytes"));
        }
        let mut bytes = vec![0; stored as usize];
        if read_up_to(source, self.at, &mut bytes)? < bytes.len() {
            return Err(Error::damaged("they are cut off"));
        }
        let bytes = match self.codec {
            0 => bytes,
            1 => inflate(&bytes, size)?,
            codec => {
                return Err(Error::unsupported(format!("codec {codec} is not known, only 0 and 1 (zlib)")));
            }
        };
        if bytes.len() != size as usize {
            return Err(Error::damaged(format!("they have {} bytes, not {size}", bytes.len())));
        }
        Ok(bytes)
    }
}

fn inflate(stored: &[u8], size: u32) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more than expected reveals a longer stream.
    let mut decoder = ZlibDecoder::new(stored).take(u64::from(size) + 1);
    decoder
        .read_to_end(&mut bytes)
        .map_err(|error| Error::damaged(format!("the zlib stream is broken: {error}")))?;
    Ok(bytes)
}

/// Returns the bytes of a number in a header of 32 bytes. `at` is within the header.
pub(super) fn word<const N: usize>(bytes: &[u8; HEADER], at: usize) -> [u8; N] {
    let mut word = [0; N];
    word.copy_from_slice(&bytes[at..at + N]);
    word
}
