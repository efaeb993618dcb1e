//! Contiguous frames of Blosc 2: chunks one after the other, with an index.
//!
//! ```text
//! header    87 bytes in the form of msgpack, then the metalayers
//! chunks    in any order, each a Blosc buffer
//! index     a chunk of i64, little-endian: where each chunk begins, from the end of the header
//! trailer   in the form of msgpack: the variable-length metalayers, and the length of the trailer
//! ```
//!
//! Every field of the header has a fixed place, after the byte by which msgpack marks its type. Numbers of
//! msgpack are big-endian.
//!
//! | byte | field |
//! |---|---|
//! | 2 | `b2frame\0` |
//! | 11 | `i32` length of the header, with the metalayers |
//! | 16 | `u64` length of the frame |
//! | 25 | version in bits 0 to 3; size of an offset in bits 4 and 5; bit 6: chunks differ in length |
//! | 26 | 0 a contiguous frame, 1 the index of a directory of chunks |
//! | 27 | codec in bits 0 to 3, level in bits 4 to 7 |
//! | 30, 39 | `i64` decoded bytes, stored bytes of all chunks |
//! | 48, 53, 58 | `i32` bytes of an element, of a block, of a chunk |
//! | 70 | number of filters, their codes from 71 on, their metadata from 79 on |
//! | 77 | the codec, if it is a plugin |
//!
//! The index has a negative number for a chunk whose elements are all alike; its highest byte tells how.
//!
//! Sources: README_CFRAME_FORMAT of c-blosc2, and the frames that c-blosc2 3.3 writes, whose header has the
//! size of a block, too.

use super::filter::{self, Filter, Filters};
use super::metalayer::{self, Layer};
use crate::content::{Content, read_exact_at};
use crate::error::{Error, Result};

/// The beginning of a frame, after the first byte.
pub const MAGIC: &[u8; 9] = b"\xa8b2frame\0";

/// Length of the part of the header that every frame has.
const FIXED: usize = 87;
/// Minimum length of a trailer.
const MIN_TRAILER: u64 = 25;
/// The end of the trailer: a marked `u32` with its length, and 18 bytes of a fingerprint.
const TRAILER_END: u64 = 23;
/// The byte by which msgpack marks a `u32`.
const U32_MARK: u8 = 0xce;
/// Maximum length of metalayers that are read, in bytes.
const MAX_LAYERS: u64 = 16 << 20;
/// The last version that is known.
const LAST_VERSION: u8 = 3;

/// The bytes by which msgpack marks the types of the fields, by offset.
const MARKS: [(usize, u8); 12] = [
    (1, 0xa8),
    (10, 0xd2),
    (15, 0xcf),
    (24, 0xa4),
    (29, 0xd3),
    (38, 0xd3),
    (47, 0xd2),
    (52, 0xd2),
    (57, 0xd2),
    (62, 0xd1),
    (65, 0xd1),
    (69, 0xd8),
];

/// The header of a frame.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The version of the format.
    pub version: u8,
    /// True if each chunk states its own length.
    pub varies: bool,
    /// Length of the header, after which the chunks begin.
    pub header: u64,
    /// Length of the frame.
    pub len: u64,
    /// Number of the codec that the writer was set to.
    pub codec: u8,
    /// Level of compression that the writer was set to.
    pub level: u8,
    /// The filters that the writer was set to.
    pub filters: Filters,
    /// Decoded bytes of all chunks.
    pub nbytes: u64,
    /// Stored bytes of all chunks.
    pub cbytes: u64,
    /// Bytes of an element.
    pub typesize: u32,
    /// Decoded bytes of a block; 0 if unknown.
    pub blocksize: u32,
    /// Decoded bytes of each chunk but the last; 0 if chunks differ.
    pub chunksize: u32,
    /// The metalayers of the header.
    pub layers: Vec<Layer>,
}

/// True if the bytes begin like a frame.
pub fn is_frame(head: &[u8]) -> bool {
    head.first().is_some_and(|first| first & 0xf0 == 0x90) && head[1..].starts_with(MAGIC)
}

impl Frame {
    /// Reads the header of the frame at the start of `stored`.
    pub fn read(stored: &dyn Content) -> Result<Self> {
        let size = stored.len();
        if size < FIXED as u64 {
            return Err(Error::damaged(format!(
                "is cut off within the header of its frame, after {size} bytes"
            )));
        }
        let mut bytes = [0; FIXED];
        read_exact_at(stored, 0, &mut bytes)?;
        let mut frame = Self::fixed(&bytes)?;
        if frame.len > size {
            return Err(Error::damaged(format!(
                "is cut off: it has {size} bytes, but its frame has {}",
                frame.len
            ))
            .at(16));
        }
        let layers = frame.header - FIXED as u64;
        if layers > MAX_LAYERS {
            return Err(Error::unsupported(format!(
                "has metalayers of {layers} bytes, more than the {} MiB that are read",
                MAX_LAYERS >> 20
            ))
            .at(11));
        }
        let mut header = vec![0; frame.header as usize];
        read_exact_at(stored, 0, &mut header)?;
        frame.layers = metalayer::list(&header, FIXED)?;
        Ok(frame)
    }

    /// Parses the fields that every frame has, and checks their sums.
    fn fixed(bytes: &[u8; FIXED]) -> Result<Self> {
        if let Some((at, _)) = MARKS.iter().find(|(at, mark)| bytes[*at] != *mark) {
            return Err(Error::damaged("the header of the frame is broken").at(*at as u64));
        }
        let flags = bytes[25];
        let version = flags & 0x0f;
        if !(1..=LAST_VERSION).contains(&version) {
            return Err(Error::unsupported(format!(
                "version {version} of Blosc2 frames is not known, only 1 to {LAST_VERSION}"
            ))
            .at(25));
        }
        if flags >> 4 & 3 != 1 {
            return Err(Error::unsupported("the frame has offsets of another size than 64 bits").at(25));
        }
        match bytes[26] & 0x0f {
            0 => {}
            1 => {
                return Err(Error::unsupported(
                    "is the index of a sparse frame, whose chunks are files beside it: make it contiguous by \
                     blosc2.open(DIRECTORY).copy(urlpath=\"NEW.b2nd\", contiguous=True)",
                )
                .at(26));
            }
            kind => {
                return Err(Error::unsupported(format!("the type {kind} of the frame is not known")).at(26));
            }
        }
        let header = size32(bytes, 11, "its header")?;
        let count = usize::from(bytes[70]);
        let nbytes = size64(bytes, 30, "decoded data")?;
        let frame = Self {
            version,
            varies: flags & 0x40 != 0,
            header: header.into(),
            len: u64::from_be_bytes(word(bytes, 16)),
            codec: if bytes[27] & 0x0f == 6 { bytes[77] } else { bytes[27] & 0x0f },
            level: bytes[27] >> 4,
            filters: Filter::list(&bytes[71..][..count.min(filter::COUNT)], &bytes[79..][..filter::COUNT]),
            nbytes,
            cbytes: size64(bytes, 39, "chunks")?,
            typesize: size32(bytes, 48, "an element")?,
            blocksize: size32(bytes, 53, "a block")?,
            // Without data it may be -1.
            chunksize: if nbytes == 0 { 0 } else { size32(bytes, 58, "a chunk")? },
            layers: Vec::new(),
        };
        let end = frame.header.checked_add(frame.cbytes).and_then(|end| end.checked_add(MIN_TRAILER));
        if frame.header < FIXED as u64 || end.is_none_or(|end| end > frame.len) {
            return Err(Error::damaged(format!(
                "its header says that it has {} bytes, of which the header takes {} and the chunks {}",
                frame.len, frame.header, frame.cbytes
            ))
            .at(11));
        }
        if frame.nbytes > 0 && frame.chunksize == 0 && !frame.varies && frame.version >= LAST_VERSION {
            return Err(Error::damaged("the frame says that its chunks have 0 bytes").at(58));
        }
        Ok(frame)
    }

    /// True if chunks have the length that the header gives.
    pub fn is_even(&self) -> bool {
        self.chunksize > 0
    }

    /// Returns the offset of the index, at the end of the chunks.
    pub(super) fn index(&self) -> u64 {
        // No overflow: checked with the header.
        self.header + self.cbytes
    }

    /// Returns the variable-length metalayers, whose values are Blosc buffers.
    pub fn trailing_layers(&self, stored: &dyn Content) -> Result<Vec<Layer>> {
        let end = self.len - TRAILER_END;
        let mut bytes = [0; 5];
        read_exact_at(stored, end, &mut bytes)?;
        let [mark, len @ ..] = bytes;
        let len = u64::from(u32::from_be_bytes(len));
        let start = self.len.saturating_sub(len);
        if mark != U32_MARK || len < MIN_TRAILER || start < self.index() {
            return Err(Error::damaged("the length of the frame's trailer is wrong").at(end));
        }
        if len > MAX_LAYERS {
            return Err(Error::unsupported(format!(
                "has variable-length metalayers of {len} bytes, more than the {} MiB that are read",
                MAX_LAYERS >> 20
            ))
            .at(start));
        }
        let mut trailer = vec![0; len as usize];
        read_exact_at(stored, start, &mut trailer)?;
        metalayer::list(&trailer, 2).map_err(|error| error.at(start))
    }
}

/// Returns the bytes of a number.
fn word<const N: usize>(bytes: &[u8; FIXED], at: usize) -> [u8; N] {
    let mut word = [0; N];
    word.copy_from_slice(&bytes[at..at + N]);
    word
}

/// Returns a size, which must not be negative.
fn size32(bytes: &[u8; FIXED], at: usize, what: &str) -> Result<u32> {
    let number = i32::from_be_bytes(word(bytes, at));
    u32::try_from(number)
        .map_err(|_| Error::damaged(format!("the frame says that {what} has {number} bytes")).at(at as u64))
}

/// Returns a size, which must not be negative.
fn size64(bytes: &[u8; FIXED], at: usize, what: &str) -> Result<u64> {
    let number = i64::from_be_bytes(word(bytes, at));
    u64::try_from(number).map_err(|_| {
        Error::damaged(format!("the frame says that it has {number} bytes of {what}")).at(at as u64)
    })
}
